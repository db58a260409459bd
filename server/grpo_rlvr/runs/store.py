"""The store of runs: one folder a run, every path of it in one place, state only on disk."""

import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError, NotFoundError, nearest
from grpo_rlvr.runs.records import read_record, write_record
from grpo_rlvr.workspace import Workspace

RUN_ID = re.compile(r"[a-z]+-\d{8}-\d{6}-[0-9a-f]{6}")


@dataclass(frozen=True)
class RunFolder:
    """One run's folder. Nobody else joins strings to its paths."""

    path: Path

    @property
    def run_id(self) -> str:
        """The run's id, which is the folder's name."""
        return self.path.name

    @property
    def spec(self) -> Path:
        """What the processes of the run read."""
        return self.path / "spec.json"

    @property
    def gate(self) -> Path:
        """The gate as it was at launch."""
        return self.path / "gate.json"

    @property
    def code(self) -> Path:
        """Our workers, the reward library and the user's reward files, copied."""
        return self.path / "code"

    @property
    def log(self) -> Path:
        """Output of all processes."""
        return self.path / "log.txt"

    @property
    def metrics(self) -> Path:
        """One row a logged step."""
        return self.path / "metrics.jsonl"

    @property
    def completions(self) -> Path:
        """A few completions of each step."""
        return self.path / "completions.jsonl"

    @property
    def samples(self) -> Path:
        """Completions of a sampling run."""
        return self.path / "samples.jsonl"

    @property
    def progress(self) -> Path:
        """What the worker is doing."""
        return self.path / "progress.json"

    @property
    def stop(self) -> Path:
        """A request to stop."""
        return self.path / "stop.json"

    @property
    def model(self) -> Path:
        """The final model."""
        return self.path / "model"

    @property
    def attempts(self) -> Path:
        """One folder a start."""
        return self.path / "attempts"

    def attempt(self, number: int) -> Path:
        """Folder of one start."""
        return self.attempts / str(number)

    def last_attempt(self) -> int:
        """Number of the newest start, 0 when it was never started."""
        try:
            numbers = [int(entry.name) for entry in os.scandir(self.attempts) if entry.name.isdecimal()]
        except OSError:
            return 0
        return max(numbers, default=0)

    def run(self) -> dict[str, Any]:
        """The run's identity record; empty when the folder is damaged."""
        return read_record(self.path / "run.json") or {}

    def output(self) -> Path:
        """Where checkpoints go."""
        return Path((read_record(self.spec) or {}).get("output_dir") or self.path / "checkpoints")


class RunStore:
    """All runs of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.root = workspace.runs

    def get(self, run_id: str) -> RunFolder:
        """Return a run's folder.

        Raises:
            InputError: not an id. NotFoundError: no such run.
        """
        if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
            raise InputError(
                f"not a run id: {str(run_id)[:80]!r}",
                where="argument 'run_id'",
                remedy="List the runs with list_runs (grpo-rlvr runs).",
            )
        folder = RunFolder(self.root / run_id)
        if not folder.path.is_dir():
            raise NotFoundError(
                f"no run '{run_id}'{nearest(run_id, self.ids())}",
                where="argument 'run_id'",
                remedy="It was deleted, or belongs to another workspace. List the runs with list_runs.",
            )
        return folder

    def ids(self) -> list[str]:
        """Return the ids of all runs, newest first."""
        try:
            names = [entry.name for entry in os.scandir(self.root) if RUN_ID.fullmatch(entry.name)]
        except OSError:
            return []
        return sorted(names, key=lambda name: name.split("-", 1)[1], reverse=True)

    def all(self) -> Iterator[RunFolder]:
        """Yield all runs, newest first."""
        for run_id in self.ids():
            yield RunFolder(self.root / run_id)

    def new_id(self, kind: str) -> str:
        """Return a fresh id: kind, time for people, six random digits for uniqueness."""
        return f"{kind}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"

    @contextmanager
    def building(self, run_id: str) -> Iterator[Path]:
        """Yield a hidden folder that becomes the run's folder in one rename; nothing of it stays after an error."""
        hidden = self.root / f".new-{run_id}"
        hidden.mkdir(parents=True)
        try:
            yield hidden
            hidden.rename(self.root / run_id)
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            raise

    @contextmanager
    def lock(self, wait_s: float = 30, *, dry_run: bool = False) -> Iterator[None]:
        """Hold the store's lock, so that two servers never hand out the same GPU or start the same run.

        A dry run hands out nothing and needs no lock: it must leave no file behind.

        Raises:
            InputError: another server held it for `wait_s` seconds.
        """
        if dry_run:
            yield
            return
        self.root.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.root / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
        deadline = time.monotonic() + wait_s
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise InputError(
                            "another server is launching a run in this workspace", remedy="Try again in a minute."
                        ) from None
                    time.sleep(0.02)
            yield
        finally:
            os.close(handle)


def now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def iso(seconds: float | None) -> str | None:
    """Return a POSIX time as ISO 8601 in UTC."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def write_attempt(folder: RunFolder, number: int, plan: dict[str, Any]) -> Path:
    """Make the folder of an attempt with its plan; it appears whole."""
    target = folder.attempt(number)
    hidden = folder.attempts / f".new-{number}"
    shutil.rmtree(hidden, ignore_errors=True)
    hidden.mkdir(parents=True)
    write_record(hidden / "plan.json", plan)
    hidden.rename(target)
    return target


def canonical(value: Any) -> str:
    """Return JSON text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
