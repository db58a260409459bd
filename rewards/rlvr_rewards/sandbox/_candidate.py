"""The program's side: runs it, and hands out plain values. Nothing here is trusted by whoever reads them."""

import atexit
import builtins
import io
import marshal
import os
import struct
import sys
import types
from typing import Any

from rlvr_rewards.sandbox import _codec

MAX_TEXT = 500


def exit_status(leaving: SystemExit) -> int:
    """Return the process status that an uncaught SystemExit gives."""
    if leaving.code is None:
        return 0
    return leaving.code & 0xFF if type(leaving.code) is int else 1


def load(code: str, name: str = "candidate") -> types.ModuleType:
    """Run the program as a module."""
    module = types.ModuleType(name)
    module.__file__ = "candidate.py"
    module.__dict__["__builtins__"] = builtins
    sys.modules[name] = module
    if name == "__main__":
        sys.modules["candidate"] = module
    exec(compile(code, "candidate.py", "exec"), module.__dict__)
    return module


def plain(value: Any, depth: int = 0) -> Any:
    """Encode a value, taking only the builtin content of subclasses."""

    def degrade(other: Any, level: int) -> Any:
        base = _codec.base_value(other)
        if base is other:
            base = _from_array(other)
        return _codec.encode(base, degrade, level)

    return _codec.encode(value, degrade, depth)


def _from_array(value: Any) -> Any:
    """Return the nested lists of a numpy array or the number of a numpy scalar."""
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    raise _codec.Unsupported(f"a value of type {type(value).__name__}")


# -- values: call, and send back what came out -----------------------------------------------------------------------


def run_calls(payload: dict[str, Any], results: int) -> None:
    """Load the program and make the listed calls; every outcome is one frame, the load itself the first."""

    def frame(node: Any) -> None:
        data = _codec.dumps(node)
        if len(data) > _codec.MAX_BYTES:
            data = _codec.dumps({"u": "a result too long"})
        data = _LENGTH.pack(len(data)) + data
        sent = os.write(results, data)
        while sent < len(data):
            sent += os.write(results, memoryview(data)[sent:])

    try:
        module = load(payload["code"], payload["name"])
    except BaseException as error:
        frame({"x": described(error)})
        return
    frame({"v": None})
    for name, args, kwargs in marshal.loads(payload["calls"]):
        if name not in module.__dict__:
            frame({"x": ["NameError", f"the program defines no {name!r}"]})
            continue
        try:
            frame({"v": plain(module.__dict__[name](*args, **kwargs))})
        except _codec.Unsupported as error:
            frame({"u": str(error)})
        except BaseException as error:
            frame({"x": described(error)})


_LENGTH = struct.Struct("<I")


def warm_up() -> None:
    """Do once, on a program that is known, what every child does: what the interpreter prepares at first use is there.

    The module leaves no trace but in the interpreter's own caches.
    """
    null = os.open("/dev/null", os.O_RDWR)
    calls: list[Any] = [("f", ((1, 2.5), ["a"], {"b": None}), {})] * 3
    for _ in range(WARM_UPS):
        run_calls({"code": WARM_UP, "name": "candidate", "calls": marshal.dumps(calls)}, null)
        del sys.modules["candidate"]
        with _text(null, "w") as stream:
            print(1, file=stream)
        with _text(null, "r") as stream:
            stream.fileno()
    os.close(null)


WARM_UPS = 10  # beyond the count at which the interpreter specialises a function
WARM_UP = "def f(*args):\n    return [(item, {1}) for item in args]\n"


def described(error: BaseException) -> list[str]:
    return [type(error).__name__[:MAX_TEXT], text_of(error)]


def text_of(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except BaseException:
        return ""


# -- stdio: a script with standard input and output --------------------------------------------------------------------


def _text(descriptor: int, mode: str) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, mode, closefd=False)
    return io.TextIOWrapper(io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw), encoding="utf-8")


def run_program(payload: dict[str, Any]) -> None:
    """Run the program as a script on descriptors 0 and 1, with everything an interpreter does at its end."""
    sys.argv = ["candidate.py"]
    sys.stdin, sys.stdout = _text(0, "r"), _text(1, "w")
    code = 0
    try:
        load(payload["code"], payload["name"])
    except SystemExit as leaving:
        code = exit_status(leaving)
    except BaseException:
        code = 1
    if (threading := sys.modules.get("threading")) is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except BaseException:
        code = code or 120  # what the interpreter itself answers when the last flush fails
    raise SystemExit(code)
