# Sourced by the scripts: makes or reuses the project's virtual environment. No arguments are read from the user.

VENV="${GRPO_RLVR_VENV:-$PWD/.venv}"

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 python; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
    "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$candidate"; return; }
  done
  echo "No Python 3.11 or newer with the venv module was found. Install one (for example: apt install python3 python3-venv)," >&2
  echo "or set PYTHON=/path/to/python3." >&2
  return 2
}

# What the environment was made from: when this changes, packages are installed again.
environment_stamp() { cat pyproject.toml constraints.txt; echo "$1"; "$VENV/bin/python" -V; }

# prepare_environment EXTRAS...: every extra in one environment, made once and reused until its inputs change.
prepare_environment() {
  local extras="$*" python
  extras="${extras// /,}"
  if [ ! -x "$VENV/bin/python" ] || ! "$VENV/bin/python" -c '' 2>/dev/null; then
    python="$(find_python)" || exit 2
    echo "== making a virtual environment at $VENV ($("$python" -V))"
    "$python" -m venv "$VENV"
  fi
  local stamp="$VENV/.grpo-rlvr-$extras"
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(environment_stamp "$extras" | cksum)" ]; then
    echo "== reusing the environment at $VENV"
    return
  fi
  case ",$extras," in *,train,*) warn_about_cuda_torch ;; esac
  echo "== installing grpo-rlvr-training[$extras] (a few minutes the first time)"
  # Not compiled ahead: Python compiles the modules that are really imported, a small part of all, at their first import.
  "$VENV/bin/python" -m pip install --no-compile --progress-bar off -c constraints.txt -e ".[$extras]" 2>&1 | quiet_pip
  environment_stamp "$extras" | cksum >"$stamp"
  echo "== environment ready"
}

# pip's own progress, a line a package, without its chatter.
quiet_pip() { grep -E '^(Collecting|Building|Installing|Successfully|ERROR|error|  error|WARNING: Retrying)' | cut -c1-150 || true; }

warn_about_cuda_torch() {
  [ "$(uname -s)" = Linux ] || return 0
  "$VENV/bin/python" -c 'import torch' 2>/dev/null && return 0
  command -v nvidia-smi >/dev/null 2>&1 && return 0
  cat <<'TEXT'
== note: this machine shows no NVIDIA GPU, and pip's default torch for Linux is a CUDA build of several GB.
   To avoid it, stop here (Ctrl-C), install the CPU build into the environment first, and run this script again:
     the command is on pytorch.org under "Get Started" with Compute Platform "CPU"; run it with the pip of the
     environment named above and the torch version of constraints.txt. Where a CPU wheel is already at hand
     (PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL), pip takes it by itself.
TEXT
}

# The tests drive the reading page in a real browser and the sandbox with bubblewrap. Where this user may install them,
# they are installed; elsewhere a note says what to install.
prepare_system() {
  local missing=""
  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || missing="chromium"
  [ "$(uname -s)" != Linux ] || command -v bwrap >/dev/null || missing="$missing bubblewrap"
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "== installing system packages for the tests: $missing"
    # shellcheck disable=SC2086
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >/dev/null 2>&1 ||
      echo "== could not install $missing; tests that need them will fail" >&2
  else
    echo "== note: tests that need them will fail until you install: $missing" >&2
  fi
}
