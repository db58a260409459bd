"""How a worker is started: the stacks of protection, their command lines, and the source it is given."""

import functools
import importlib.util
import marshal
import os
import shutil
import struct
import sys
import sysconfig
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Level = Literal["bwrap+landlock+seccomp", "bwrap+seccomp", "landlock+seccomp"]
# The strongest first.
LEVELS: tuple[Level, ...] = ("bwrap+landlock+seccomp", "bwrap+seccomp", "landlock+seccomp")

Kind = Literal["program", "tests", "rich tests"]
_PROGRAM = ("_seeded", "_wire", "_syscalls", "_kernel", "_codec", "_candidate")
_TESTS = (
    "_decode", "_link", "_objects", "_files", "_pytest_face", "_collect", "_remote", "_session", "_tester"
)  # fmt: skip
# In the order of import. Workers stay as small as can be, since every fork copies their page tables: one for plain
# values and scripts has no tester, and only one for rich tests has the large packages that few tests use.
WORKER_MODULES: dict[Kind, tuple[str, ...]] = {
    "program": (*_PROGRAM, "_child", "_worker"),
    "tests": (*_PROGRAM, *_TESTS, "_child", "_worker"),
    "rich tests": (*_PROGRAM, *_TESTS, "_cases", "_child", "_worker"),
}
# Unused by distributions; each worker takes another one, so that process counts of parallel samples never add up.
FIRST_UID, UIDS = 61_000, 4_000
SYSTEM_PATHS = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/ld.so.cache")
DEVICES = ("null", "zero", "urandom", "random")

# Everything a child sees of an environment. The hash seed is fixed: the order of sets must not decide a reward.
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMEXPR_NUM_THREADS": "1",
}  # fmt: skip

# Reads modules and configuration from stdin and starts; nothing of the grader lies in a file the child could open.
BOOTSTRAP = """
import _frozen_importlib_external, marshal, os, struct, sys, types
def read(size):
    data = b""
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            sys.exit("the client has gone")
        data += chunk
    return data
magic = read(4)
if magic != _frozen_importlib_external.MAGIC_NUMBER:
    sys.exit(sys.executable + " is another version of Python than the one that grades")
start = marshal.loads(read(struct.unpack("<I", read(4))[0]))
package = types.ModuleType("rlvr_rewards")
package.__path__ = []
inner = package.sandbox = types.ModuleType("rlvr_rewards.sandbox")
inner.__path__ = []
sys.modules["rlvr_rewards"], sys.modules["rlvr_rewards.sandbox"] = package, inner
config, modules = start["config"], start["modules"]
for name, code in modules:
    module = types.ModuleType("rlvr_rewards.sandbox." + name)
    sys.modules[module.__name__] = module
    setattr(inner, name, module)
    exec(code, module.__dict__)
del start, modules, code
inner._worker.main(config)
"""


@dataclass(frozen=True)
class Command:
    """What starts a worker.

    Attributes:
        argv: The command line.
        config: For `_worker.Worker`.
    """

    argv: list[str]
    config: dict[str, Any]


def find_bwrap() -> str | None:
    """Return the path of bubblewrap: the system's own first, since security profiles name that path."""
    return "/usr/bin/bwrap" if os.access("/usr/bin/bwrap", os.X_OK) else shutil.which("bwrap")


def interpreter() -> str:
    """Return the real interpreter, outside any virtual environment."""
    return str(Path(getattr(sys, "_base_executable", sys.executable) or sys.executable).resolve())


def command(level: Level, kind: Kind, index: int, preload: tuple[str, ...]) -> Command:
    """Return how to start a worker.

    Args:
        level: The stack of protection.
        kind: What the worker is for.
        index: The worker's number in its pool.
        preload: Installed packages that programs may import; their folder becomes readable.
    """
    root = os.geteuid() == 0
    packages = _package_folders(preload)
    readable = _readable(packages)
    config: dict[str, Any] = {
        "read_only": readable, "landlock": level != "bwrap+seccomp", "packages": packages, "preload": list(preload),
        "uid": FIRST_UID + (os.getpid() * 37 + index) % UIDS if root else None,
        "user_namespace": level.startswith("bwrap") and not root, "kind": kind,
    }  # fmt: skip
    # -S: no site-packages; -P: no working folder on the path; the environment is ours, so -E would only undo the seed.
    python = [interpreter(), "-s", "-S", "-B", "-P", "-c", BOOTSTRAP]
    prefix = _bwrap(readable, root) if level.startswith("bwrap") else []
    return Command([*prefix, *python], config)


def _bwrap(readable: list[str], root: bool) -> list[str]:
    """Return a bubblewrap prefix that uses only options of its oldest releases still in use.

    There is no --die-with-parent: it fires when the starting thread ends. The worker ends when its stdin does.
    """
    argv = [
        find_bwrap() or "bwrap",
        "--new-session",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-uts",
    ]
    if root:
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_KILL", "CAP_SETPCAP"):
            argv += ["--cap-add", capability]
    else:
        argv.append("--unshare-user")
    bound: list[str] = []
    made: set[str] = set()
    for path in readable:
        if any(path == other or path.startswith(f"{other}/") for other in bound):
            continue
        if Path(path).is_symlink():
            argv += ["--symlink", str(Path(path).readlink()), path]
        else:
            for parent in reversed(Path(path).parents[:-1]):  # made open to all; a bind alone would copy a 0700 home
                if str(parent) not in made:
                    argv += ["--dir", str(parent)]
                    made.add(str(parent))
            argv += ["--ro-bind", path, path]
            bound.append(path)
    for name in DEVICES:
        argv += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    return [*argv, "--remount-ro", "/", "--as-pid-1", "--chdir", "/", "--"]


def _readable(packages: list[str]) -> list[str]:
    """Return what a Python program needs to read, and no more: the interpreter, its library, shared libraries."""
    paths = sysconfig.get_paths()
    base = Path(sys.base_prefix)
    own = [interpreter(), str(Path(os.__file__).resolve().parent), str(base / "lib"), paths["stdlib"]]
    own += [str(Path(entry).resolve()) for entry in sys.path if entry.endswith("lib-dynload")]
    found = [path for path in (*SYSTEM_PATHS, *own, *packages) if Path(path).exists()]
    return list(dict.fromkeys(sorted(found, key=len)))


def _package_folders(preload: tuple[str, ...]) -> list[str]:
    folders = []
    for name in preload:
        spec = importlib.util.find_spec(name.partition(".")[0])
        if spec is None or spec.origin is None:
            raise ImportError(f"package {name!r} is not installed here, so programs cannot be given it")
        folders.append(str(Path(spec.origin).resolve().parent.parent))
    return list(dict.fromkeys(folders))


def start_message(sources: list[list[str]], config: dict[str, Any]) -> bytes:
    """Return what a worker reads first: its modules, compiled by the same interpreter, and its configuration."""
    modules = [(name, _compiled(name, text)) for name, text in sources]
    body = marshal.dumps({"modules": modules, "config": config})
    return importlib.util.MAGIC_NUMBER + struct.pack("<I", len(body)) + body


@functools.cache
def _compiled(name: str, text: str) -> types.CodeType:
    return compile(text, f"<{name}>", "exec", dont_inherit=True, optimize=0)


def worker_sources(kind: Kind) -> list[list[str]]:
    """Return name and source of every module that the worker runs."""
    folder = Path(__file__).parent
    return [[name, (folder / f"{name}.py").read_text(encoding="utf-8")] for name in WORKER_MODULES[kind]]
