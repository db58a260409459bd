"""Run `grpo-rlvr` from a plugin's folder: `uv run --no-project --python ">=3.11" scripts/lib/start.py serve`.

The first start makes an environment in the user's cache, which needs a network and takes some seconds. Every later one
goes straight there: it resolves nothing, asks nobody, and works offline. Another version, folder or set of dependencies
makes another environment; those that have not been started for a month are removed. Standard library only. Everything
it says goes to stderr, since stdout belongs to the server.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = "server,plots"
UNUSED_AFTER_S = 30 * 24 * 3600


def cache() -> Path:
    """Return the user's folder for what can be made again."""
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "grpo-rlvr"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grpo-rlvr"


def environment() -> Path:
    """Return the folder of the environment that belongs to this folder, its dependencies and this Python."""
    parts = (str(ROOT), (ROOT / "pyproject.toml").read_text(encoding="utf-8"), sys.version)
    return cache() / "environments" / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def make(folder: Path) -> None:
    """Make the environment, or finish one that was interrupted; uv keeps two starts at once apart.

    Raises:
        SystemExit: uv is missing or could not install; says so.
    """
    uv = os.environ.get("UV") or shutil.which("uv")
    if uv is None:
        sys.exit("grpo-rlvr: uv is missing; install it, or install the package with pip and start `grpo-rlvr serve`")
    print(f"grpo-rlvr: making its environment in {folder} (once)", file=sys.stderr)
    steps = (
        ("venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder)),
        (
            "pip",
            "install",
            "--quiet",
            "--compile-bytecode",
            "--python",
            str(python(folder)),
            "--editable",
            f"{ROOT}[{EXTRAS}]",
        ),
    )
    for step in steps:
        done = subprocess.run([uv, "--no-config", *step], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
        if done.returncode != 0:
            sys.exit(f"grpo-rlvr: `uv {' '.join(step[:2])}` failed; see above. Nothing was started.")


def remove_unused(environments: Path) -> None:
    """Remove the environments that were not started for a month: plugins of older versions leave theirs behind."""
    for ready in environments.glob("*/ready"):
        if time.time() - ready.stat().st_mtime > UNUSED_AFTER_S:
            shutil.rmtree(ready.parent, ignore_errors=True)


def python(folder: Path) -> Path:
    """Return the environment's interpreter."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def main() -> int:
    """Hand over to the environment's `grpo-rlvr`."""
    folder = environment()
    if not (folder / "ready").exists():
        make(folder)
    with contextlib.suppress(OSError):  # a cache that became read-only, or that another start clears, still starts
        (folder / "ready").touch()
        remove_unused(folder.parent)
    command = [str(python(folder)), "-m", "grpo_rlvr", *sys.argv[1:]]
    if os.name == "nt":
        # There, exec would start another process and end this one, which a client takes for the server's end.
        return subprocess.run(command, check=False).returncode
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
