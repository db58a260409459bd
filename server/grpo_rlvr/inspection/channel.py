"""The child process that holds the rewards: its limits, its two pipes, and how it ended."""

import contextlib
import json
import os
import secrets
import selectors
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.inspection import processes
from grpo_rlvr.workspace import Workspace

MARK = "GRPO_RLVR_SCORING"
POLL_SECONDS = 0.05
FORK_SECONDS = 0.3


@dataclass(frozen=True)
class Limits:
    """What a reward may use for one call on all samples. `[scoring]` in the settings file states others.

    Args:
        seconds: Wall seconds of one call.
        memory_gb: Private memory of the child, in 10^9 bytes.
        output_mb: Bytes it may print, in 10^6 bytes.
        processes: Processes alive at once.
    """

    seconds: float = 300.0
    memory_gb: float = 8.0
    output_mb: float = 64.0
    processes: int = 200

    @classmethod
    def of(cls, workspace: Workspace) -> "Limits":
        """Return the limits that the workspace states.

        Raises:
            InputError: an unknown key or a value that is not a positive number.
        """
        table = workspace.settings_table("scoring", cls.__dataclass_fields__)
        for key, value in table.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise InputError(
                    f"{key} must be a positive number, got {value!r}", where=workspace.settings_place("scoring", key)
                )
        return cls(**table)


class ChildEnded(Exception):
    """The child was stopped or ended by itself."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class Channel:
    """One child process with its two pipes."""

    def __init__(self, python: Path, code: Path, limits: Limits) -> None:
        self.limits, self.mark = limits, secrets.token_hex(8)
        request_read, self.requests = os.pipe()
        self.replies, reply_write = os.pipe()
        inherited = os.environ.get("PYTHONPATH", "")
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join(part for part in (str(code), inherited) if part),
            "PYTHONDONTWRITEBYTECODE": "1",
            MARK: self.mark,
        }
        memory = str(int(limits.memory_gb * 1e9))
        worker = [str(python), "-m", "grpo_rlvr.inspection.scoring_worker"]
        self.process = subprocess.Popen(
            [*worker, str(request_read), str(reply_write), memory],
            # The code folder, not the workspace: `-m` puts the current folder first on the path.
            cwd=code,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(request_read, reply_write),
        )
        os.close(request_read)
        os.close(reply_write)
        self.buffer = b""
        self.printed, self.tail = 0, b""
        self.drain = threading.Thread(target=self._drain, daemon=True)
        self.drain.start()
        try:
            self.pid = int(self._read(limits.seconds)["pid"])
        except ChildEnded:
            self.close()
            raise

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send one request and return its reply.

        Raises:
            ChildEnded: the child died, took too long, too much memory, or printed too much.
        """
        data = memoryview(json.dumps(request).encode("utf-8") + b"\n")
        try:
            while data:
                data = data[os.write(self.requests, data) :]
        except OSError:
            raise ChildEnded("died", self._death()) from None
        reply = self._read(seconds)
        if reply.get("forks"):
            self._wait_for_copies()
        if self.process.poll() is not None:
            raise ChildEnded("died", "killed its parent process")
        return reply

    def _wait_for_copies(self) -> None:
        """Give forked copies of the caller a moment to come back from the call; the helpers of a pool never do."""
        try:
            self._read(FORK_SECONDS)
        except ChildEnded as ended:
            if ended.kind == "processes":
                raise

    def _read(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.replies, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                self._check(deadline, seconds)
                if selector.select(POLL_SECONDS):
                    data = os.read(self.replies, 1 << 20)
                    if not data:
                        raise ChildEnded("died", self._death())
                    self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        reply: dict[str, Any] = json.loads(line)
        if reply.get("forked"):
            raise ChildEnded("processes", "forked, and the copy came back from the call: training would go on twice")
        return reply

    def _check(self, deadline: float, seconds: float) -> None:
        if self.printed > self.limits.output_mb * 1e6:
            raise ChildEnded("output", f"printed more than {self.limits.output_mb:g} MB ([scoring] output_mb)")
        alive, memory = processes.usage(self.process.pid)
        if alive > self.limits.processes:
            raise ChildEnded("processes", f"started more than {self.limits.processes} processes")
        if memory > self.limits.memory_gb * 1e9:
            raise ChildEnded("memory", f"used more than {self.limits.memory_gb:g} GB ([scoring] memory_gb)")
        # Last: whoever floods the machine also takes long, and the flood is the better name for it.
        if time.monotonic() > deadline:
            raise ChildEnded("timeout", f"took longer than {seconds:g} s ([scoring] seconds)")

    def _death(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=2)
        code = self.process.returncode
        self.drain.join(timeout=0.5)
        said = self.tail.decode("utf-8", "replace").strip()[-300:]
        tail = f"; its last output: {said}" if said else ""
        if code is None:
            return f"ended without an answer{tail}"
        number = -code if code < 0 else 256 - code if code > 128 else 0
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(number).name}{tail}"
        return f"ended the process with code {code}{tail}"

    def _drain(self) -> None:
        stream = self.process.stdout
        assert stream is not None, "stdout is a pipe"
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(stream.fileno(), 1 << 16):
                self.printed += len(data)
                self.tail = (self.tail + data)[-2000:]

    def close(self) -> None:
        """End the child and everything that it started."""
        with contextlib.suppress(OSError):
            os.close(self.requests)
        processes.end_session(self.process, MARK, self.mark)
        with contextlib.suppress(OSError):
            os.close(self.replies)
        self.drain.join(timeout=2)
        if self.process.stdout and not self.drain.is_alive():
            self.process.stdout.close()
