"""Processes by identity, standard library only: pid, start time and boot; and all of a run, by their mark."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MARK = "GRPO_RLVR_RUN"
_LINUX = sys.platform.startswith("linux")


def boot_id() -> str:
    """Return what distinguishes this start of the machine from the last one; empty where the system does not say."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def start_time(pid: int) -> str | None:
    """Return the start time of a live process, None when there is none or only its corpse."""
    if _LINUX:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        # The command name may hold spaces and parentheses, so fields are counted behind its last parenthesis.
        fields = stat[stat.rindex(")") + 2 :].split()
        return None if fields[0] in "ZXx" else fields[19]
    done = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, encoding="utf-8", check=False
    )
    answer = done.stdout.strip()
    return None if not answer or answer.startswith("Z") else answer.split(None, 1)[1]


def identity(pid: int | None = None) -> dict[str, Any]:
    """Return pid, start time and boot of a process (this one by default): together they are never reused."""
    pid = pid or os.getpid()
    return {"pid": pid, "start": start_time(pid), "boot": boot_id()}


def is_alive(known: dict[str, Any] | None) -> bool:
    """Whether exactly the process that was recorded still runs."""
    if not known or not known.get("pid") or not known.get("start"):
        return False
    return known.get("boot") == boot_id() and start_time(int(known["pid"])) == known["start"]


def marked(run_id: str) -> list[int]:
    """Return the live processes, except this one, that carry a run's mark in their environment.

    The mark survives new sessions and lost parents, which process groups and parent links do not.
    """
    if not _LINUX:
        return _marked_by_ps(run_id)
    wanted = f"{MARK}={run_id}".encode()
    found = []
    # Names alone: one object a process would make the scan several times slower.
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes()
        except OSError:
            continue
        if wanted in environment.split(b"\0") and start_time(int(entry)) is not None:
            found.append(int(entry))
    return found


def _marked_by_ps(run_id: str) -> list[int]:
    done = subprocess.run(
        ["ps", "-axEo", "pid=,command="], capture_output=True, text=True, encoding="utf-8", check=False
    )
    lines = [line.split(None, 1) for line in done.stdout.splitlines()]
    return [
        int(line[0])
        for line in lines
        if len(line) == 2 and f"{MARK}={run_id}" in line[1].split() and int(line[0]) != os.getpid()
    ]


def end_all(run_id: str, *, spare: set[int] | None = None, grace_s: float = 5.0) -> list[int]:
    """End all processes of a run: SIGTERM, then after the grace SIGKILL, until none is left.

    Returns:
        The pids that were there.
    """
    spare = spare or set()
    seen = [pid for pid in marked(run_id) if pid not in spare]
    for pid in seen:
        _send(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while (left := [pid for pid in marked(run_id) if pid not in spare]) and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(100):
        if not left:
            break
        for pid in left:
            _send(pid, signal.SIGKILL)
        time.sleep(0.05)
        left = [pid for pid in marked(run_id) if pid not in spare]
    return seen


def end_descendants(pid: int) -> int:
    """Kill everything below a process that adopts orphans: also what hid its mark by cleaning its environment.

    Returns:
        How many processes were killed.
    """
    killed = 0
    for _ in range(100):
        found = _descendants(pid)
        if not found:
            break
        for child in found:
            _send(child, signal.SIGKILL)
        killed += len(found)
        time.sleep(0.02)
    return killed


def _descendants(pid: int) -> list[int]:
    if not _LINUX:
        return []
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = Path(f"/proc/{entry}/stat").read_text(encoding="utf-8", errors="replace")
                fields = stat[stat.rindex(")") + 2 :].split()
                if fields[0] not in "ZXx":
                    parents[int(entry)] = int(fields[1])
    found = [child for child, parent in parents.items() if parent == pid]
    for child in found:
        found += [other for other, parent in parents.items() if parent == child]
    return found


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs, where the system can do that (Linux)."""
    if _LINUX:
        import ctypes

        set_child_subreaper = 36
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def signal_name(code: int) -> str:
    """Return how a process ended: `exit code 3` or `signal 9 (SIGKILL)` for a negative code."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {-code} ({signal.Signals(-code).name})"
    return f"signal {-code}"
