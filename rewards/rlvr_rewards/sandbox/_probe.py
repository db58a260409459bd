"""Which protection works here: every stack is tried by attacking it, and none is believed because a setting says so."""

import contextlib
import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_rewards.sandbox import _advice
from rlvr_rewards.sandbox._errors import SandboxUnavailable
from rlvr_rewards.sandbox._jobs import Grading, Job, Limits, Result
from rlvr_rewards.sandbox._kernel_support import supported_machine
from rlvr_rewards.sandbox._launch import LEVELS, Level
from rlvr_rewards.sandbox._pool import Pool

# Runs in a child like any program. Each line is a thing that must fail; `end` shows that all of them were tried.
BATTERY = r"""
import ctypes, os, socket, sys
target = {target!r}
def attempt(name, action):
    try:
        action()
    except SystemExit:
        raise
    except BaseException as error:
        print("held", name, type(error).__name__)
    else:
        print("BREACH", name)
def demand(name, held):
    print("held" if held else "BREACH", name)
libc = ctypes.CDLL(None, use_errno=True)
def forked():
    if os.fork() == 0:
        os._exit(0)
attempt("read a file", lambda: open(target["file"]).read())
attempt("write a file", lambda: open(target["file"], "a").write("x"))
attempt("create a file", lambda: open(target["folder"] + "/planted", "w"))
attempt("create a file in the working folder", lambda: open("planted", "w"))
attempt("list a folder", lambda: os.listdir(target["folder"]))
attempt("change a mode", lambda: os.chmod(target["file"], 0o600))
attempt("read /etc/passwd", lambda: open("/etc/passwd").read())
attempt("read /proc", lambda: open("/proc/self/environ").read())
attempt("write shared memory", lambda: open("/dev/shm/rlvr_probe", "w"))
demand("see the environment", set(os.environ) <= set(target["environment"]))
attempt("connect to this machine", lambda: socket.create_connection(("127.0.0.1", target["port"]), 1))
attempt("connect to a local socket", lambda: socket.socket(socket.AF_UNIX).connect(target["socket"]))
attempt("open a datagram socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("signal the trainer", lambda: os.kill(target["pid"], 0))
attempt("signal the worker", lambda: os.kill(os.getppid(), 0))
attempt("signal everything", lambda: os.kill(-1, 0))
attempt("start a process", forked)
attempt("start a program", lambda: os.execv(sys.executable, [sys.executable, "-c", ""]))
demand("trace a process", libc.ptrace(0x4206, os.getppid(), 0, 0) != 0)
demand("make a namespace", libc.unshare(0x10000000) != 0)
demand("make a memory file", libc.memfd_create(b"x", 0) < 0)
attempt("take 2 GB of memory", lambda: len(bytearray(2 << 30)))
def spare():
    for descriptor in range(3, 1024):
        try:
            os.fstat(descriptor)
        except OSError:
            continue
        return True
demand("use a spare descriptor", not spare())
print("end")
"""


@dataclass(frozen=True)
class Protection:
    """What this machine offers.

    Attributes:
        level: The strongest stack whose probes all held, or None.
        facts: What was found: kernel, user, bubblewrap, Landlock.
        tried: For each stack that was tried and refused, why.
        advice: What to do, one step an entry; empty when the strongest stack works.
    """

    level: Level | None
    facts: dict[str, Any] = field(default_factory=dict)
    tried: dict[str, str] = field(default_factory=dict)
    advice: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return {"level": self.level, "facts": self.facts, "tried": self.tried, "advice": list(self.advice)}


_lock = threading.Lock()
_found: dict[Level | None, Protection] = {}


def protection(level: Level | None = None) -> Protection:
    """Find the protection of this machine; probed once a process.

    Args:
        level: Only this stack; None takes the strongest that holds.
    """
    with _lock:
        if level not in _found:
            _found[level] = _find((level,) if level else LEVELS)
        return _found[level]


def required(level: Level | None = None) -> Level:
    """Return the level to run programs with.

    Raises:
        SandboxUnavailable: No stack holds here; the message says what was tried and what to do.
    """
    found = protection(level)
    if found.level is None:
        raise SandboxUnavailable(_advice.refusal(found.tried, found.advice))
    return found.level


def _find(levels: tuple[Level, ...]) -> Protection:
    facts = _advice.facts()
    refused = _advice.unsupported(sys.platform, supported_machine())
    if refused is not None:
        return Protection(None, facts, {"all": refused}, _advice.platform_advice(sys.platform))
    tried: dict[str, str] = {}
    for level in levels:
        if level.startswith("bwrap") and not facts["bwrap"]:
            tried[level] = "bubblewrap is not installed"
            continue
        problem = attack(level, facts)
        if problem is None:
            return Protection(level, facts, tried, _advice.steps(tried, facts))
        tried[level] = problem
    return Protection(None, facts, tried, _advice.steps(tried, facts))


def attack(level: Level, facts: dict[str, Any]) -> str | None:
    """Run the probes in a stack; return what is wrong with it, None when everything held."""
    pool = Pool(level, 1)
    try:
        with _targets() as target:
            program = BATTERY.replace("{target!r}", repr(target))
            result = pool.run([_battery(program)])[0]
        facts.update({key: value for key, value in pool.worker_facts.items() if key != "status"})
    except SandboxUnavailable as error:
        return str(error)
    finally:
        pool.close()
    lines = result.data.decode("utf-8", "replace").splitlines()
    breaches = [line.removeprefix("BREACH ") for line in lines if line.startswith("BREACH")]
    if breaches:
        return f"a program could {', '.join(breaches)}"
    if lines[-1:] != ["end"]:
        return f"the probes did not finish ({result.status}, exit {result.exit})"
    return None


def _battery(program: str) -> Grading[Result]:
    result = yield Job("stdio", ({"code": program, "name": "__main__"},), Limits(wall_s=20.0))
    return result


@contextlib.contextmanager
def _targets() -> Iterator[dict[str, Any]]:
    """Things that a program must not reach, all of them really there."""
    from rlvr_rewards.sandbox._launch import ENVIRONMENT

    with tempfile.TemporaryDirectory(prefix="rlvr-probe-") as folder, socket.socket() as listener:
        Path(folder).chmod(0o755)
        canary = Path(folder, "canary")
        canary.write_text("canary", encoding="utf-8")
        canary.chmod(0o666)
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        with socket.socket(socket.AF_UNIX) as local:
            path = str(Path(folder, "socket"))
            local.bind(path)
            local.listen(8)
            yield json.loads(json.dumps({
                "file": str(canary), "folder": folder, "port": listener.getsockname()[1], "socket": path,
                "pid": os.getpid(), "environment": [*ENVIRONMENT, "LC_CTYPE", "PWD"],
            }))  # fmt: skip
