"""Calling rewards in a child process: limits, and errors that name the reward and the row."""

import contextlib
import json
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_rlvr.codefolder import write_code_folder
from grpo_rlvr.errors import InputError
from grpo_rlvr.inspection import processes
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.score import ScoreError
from grpo_rlvr.workspace import SETTINGS, Workspace

WORKERS = ("inspection/scoring_worker.py",)
MARK = "GRPO_RLVR_SCORING"
# After a batch ran out of time, a row that takes this share of the batch's time by itself is named as the cause.
ROW_SHARE = 0.05
MIN_ROW_SECONDS = 2.0
POLL_SECONDS = 0.05
FORK_SECONDS = 0.3
# After these the child itself is sound and goes on; after anything else it is replaced.
HARMLESS = ("raised", "wrong_length", "not_a_list", "load")


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
        table = workspace.settings().get("scoring", {})
        known = cls.__dataclass_fields__
        if not isinstance(table, dict) or set(table) - set(known):
            raise InputError(
                f"[scoring] may hold {', '.join(known)}", where=SETTINGS, remedy="Remove or rename the other keys."
            )
        for key, value in table.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise InputError(f"[scoring] {key} must be a positive number, got {value!r}", where=SETTINGS)
        return cls(**table)


@dataclass
class Batch:
    """Arguments of a reward call: one list a keyword, all of the same length."""

    prompts: list[Any]
    completions: list[Any]
    completion_ids: list[list[int]]
    columns: dict[str, list[Any]]

    def as_json(self) -> dict[str, Any]:
        """Return the form that the child reads."""
        return vars(self)


@dataclass
class Called:
    """What a reward answered: a score or None a row; None with an error in `errors` is no grade but a fault."""

    scores: list[float | None]
    errors: list[ScoreError] = field(default_factory=list)
    seconds: float = 0.0
    logged: dict[str, float] = field(default_factory=dict)
    mutated: bool = False

    @property
    def broken(self) -> bool:
        """Whether the call as a whole failed."""
        return bool(self.errors) and all(score is None for score in self.scores)


class ChildEnded(Exception):
    """The child was stopped or ended by itself."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class RewardChild:
    """The rewards of a list of specs, built and called in a child process that is replaced when it dies.

    Use it as a context manager: leaving it ends every process that the rewards started.
    """

    def __init__(
        self,
        specs: Sequence[RewardSpec],
        root: Path,
        python: Path,
        limits: Limits,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self.specs, self.root, self.python, self.limits = list(specs), root, python, limits
        self.state = dict(state or {})
        self.names = [spec.reward.rsplit(":", 1)[-1] for spec in specs]
        self._batches: dict[str, Batch] = {}
        self._sent: set[str] = set()
        self._loaded: set[int] = set()
        self._channel: _Channel | None = None
        self._code: Path | None = None

    def __enter__(self) -> "RewardChild":
        self._code = Path(tempfile.mkdtemp(prefix="grpo-rlvr-score-"))
        write_code_folder(self._code, WORKERS)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        if self._code:
            shutil.rmtree(self._code, ignore_errors=True)

    def add(self, name: str, batch: Batch) -> None:
        """Make a batch known under a name."""
        self._batches[name] = batch
        self._sent.discard(name)

    def load(self) -> list[tuple[int, ScoreError]]:
        """Build every reward. Returns index and error of each that cannot be built."""
        errors = []
        for index in range(len(self.specs)):
            try:
                self._load(index)
            except ChildEnded as error:
                self._stop_after(error)
                errors.append((index, self._error(index, error.kind, f"while loading: {error.message}")))
        return errors

    def call(self, index: int, name: str, *, explain: bool = True) -> Called:
        """Call one reward on a whole batch.

        Args:
            index: Which reward.
            name: Which batch.
            explain: Whether to look for the row that caused a failure, by calling the reward row by row.
        """
        batch = self._batches[name]
        count = len(batch.prompts)
        try:
            reply = self._ask_call(index, name, None, self.limits.seconds)
        except ChildEnded as error:
            self._stop_after(error)
            found = self._error(index, error.kind, error.message)
            if explain:
                found = self._find_row(index, name, found)
            return Called([None] * count, [found])
        return self._called(index, batch, reply)

    def _called(self, index: int, batch: Batch, reply: dict[str, Any]) -> Called:
        scores: list[float | None] = []
        bad: dict[str, ScoreError] = {}
        for row, value in enumerate(reply["scores"]):
            if isinstance(value, dict):
                scores.append(None)
                kind = value["bad"]
                if kind in bad:
                    bad[kind].rows += 1
                else:
                    bad[kind] = self._error(index, kind, f"returned {value['value']}", row, batch)
            else:
                scores.append(value)
        return Called(scores, list(bad.values()), reply["seconds"], reply["logged"], reply["mutated"])

    def _find_row(self, index: int, name: str, error: ScoreError) -> ScoreError:
        batch = self._batches[name]
        deadline = time.monotonic() + self.limits.seconds
        for row in range(len(batch.prompts)):
            if time.monotonic() > deadline or error.kind == "load":
                break
            try:
                self._ask_call(index, name, [row], max(MIN_ROW_SECONDS, ROW_SHARE * self.limits.seconds))
            except ChildEnded as cause:
                self._stop_after(cause)
                if cause.kind == error.kind or not {cause.kind, error.kind} & set(HARMLESS):
                    # A row alone runs into smaller limits than its batch, or another one first: the batch's error is
                    # the one that counts, unless both say the same in other words.
                    same = cause.kind == error.kind and error.kind != "timeout"
                    return self._error(index, error.kind, cause.message if same else error.message, row, batch)
        return error

    def _error(
        self, index: int, kind: str, message: str, row: int | None = None, batch: Batch | None = None
    ) -> ScoreError:
        excerpt = "" if row is None or batch is None else as_text(batch.completions[row])[:300]
        return ScoreError(reward=self.names[index], kind=kind, message=message, row=row, excerpt=excerpt)

    def _ask_call(self, index: int, name: str, rows: list[int] | None, seconds: float) -> dict[str, Any]:
        self._load(index)
        if name not in self._sent:
            self._ask({"op": "batch", "name": name, "batch": self._batches[name].as_json()}, self.limits.seconds)
            self._sent.add(name)
        request = {"op": "call", "reward": index, "batch": name, "rows": rows}
        return self._ask(request, seconds)

    def _load(self, index: int) -> None:
        if self._channel is None:
            assert self._code is not None, "use RewardChild as a context manager"
            self._channel = _Channel(self.python, self._code, self.limits)
            self._sent.clear()
            self._loaded.clear()
        if index in self._loaded:
            return
        spec = self.specs[index].model_dump()
        request = {"op": "load", "reward": index, "spec": spec, "root": str(self.root), "state": self.state}
        self.names[index] = self._ask(request, self.limits.seconds)["name"]
        self._loaded.add(index)

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self._channel is not None, "the child is started by _load"
        reply = self._channel.ask(request, seconds)
        if error := reply.get("error"):
            detail = f" ({error['detail']})" if error["detail"] else ""
            raise ChildEnded(error["kind"], f"{error['message']}{detail}")
        return reply

    def _stop_after(self, ended: ChildEnded) -> None:
        if ended.kind not in HARMLESS:
            self._stop()

    def _stop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


class _Channel:
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


def as_text(value: Any) -> str:
    """Return a prompt or completion as text: chat messages as their contents, roles named when there are several."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    parts = []
    for message in value:
        content = message.get("content") if isinstance(message, dict) else message
        if isinstance(content, list):
            content = "".join(part.get("text", "") if isinstance(part, dict) else str(part) for part in content)
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        text = "" if content is None else str(content)
        if calls:
            text += ("\n" if text else "") + json.dumps(calls, ensure_ascii=False)
        role = message.get("role", "") if isinstance(message, dict) else ""
        parts.append(f"[{role}] {text}" if len(value) > 1 else text)
    return "\n".join(parts)
