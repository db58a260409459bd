"""Calling rewards in a child process: scores, and errors that name the reward and the row."""

import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_rlvr.codefolder import write_code_folder
from grpo_rlvr.inspection.channel import Channel, ChildEnded, Limits
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.score import ScoreError

WORKERS = ("inspection/scoring_worker.py",)
# After a batch ran out of time, a row that takes this share of the batch's time by itself is named as the cause.
ROW_SHARE = 0.05
MIN_ROW_SECONDS = 2.0
# Rows are tried at least this long; most take no time.
FIND_SECONDS = 10.0
# After these the child itself is sound and goes on; after anything else it is replaced.
HARMLESS = ("raised", "wrong_length", "not_a_list", "load")


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
    reasons: list[str] = field(default_factory=list)
    mutated: bool = False

    @property
    def broken(self) -> bool:
        """Whether the call as a whole failed."""
        return bool(self.errors) and all(score is None for score in self.scores)


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
        self._channel: Channel | None = None
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

    def call(self, index: int, name: str, *, explain: bool = True, seconds: float | None = None) -> Called:
        """Call one reward on a whole batch.

        Args:
            index: Which reward.
            name: Which batch.
            explain: Whether to look for the row that caused a failure, by calling the reward row by row.
            seconds: Wall seconds that it may take, if fewer than the limits say.
        """
        seconds = min(self.limits.seconds, seconds or self.limits.seconds)
        batch = self._batches[name]
        count = len(batch.prompts)
        try:
            reply = self._ask_call(index, name, None, seconds)
        except ChildEnded as error:
            self._stop_after(error)
            found = self._error(index, error.kind, error.message)
            if explain:
                found = self._find_row(index, name, found, seconds)
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
        return Called(scores, list(bad.values()), reply["seconds"], reply["logged"], reply["reasons"], reply["mutated"])

    def _find_row(self, index: int, name: str, error: ScoreError, seconds: float) -> ScoreError:
        batch = self._batches[name]
        deadline = time.monotonic() + max(seconds, FIND_SECONDS)
        for row in range(len(batch.prompts)):
            if time.monotonic() > deadline or error.kind == "load":
                break
            try:
                self._ask_call(index, name, [row], max(MIN_ROW_SECONDS, ROW_SHARE * seconds))
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
            self._channel = Channel(self.python, self._code, self.limits)
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
