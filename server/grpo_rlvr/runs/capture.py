"""Keeping a few completions of each step: what the rewards were given, beside what TRL made of it."""

from __future__ import annotations

import inspect
from typing import Any

# Long enough to judge a completion, short enough that a run of 10,000 steps stays under a few hundred megabytes.
MAX_TEXT = 20_000
PER_STEP = 4
# Arguments that TRL adds to the columns of the data set.
NOT_COLUMNS = frozenset(
    {"prompts", "completions", "completion_ids", "completions_ids", "trainer_state", "log_extra", "log_metric"}
)


class Capture:
    """The rows that the rewards last saw on this rank."""

    def __init__(self) -> None:
        self.count = 0
        self.prompts: list[Any] = []
        self.completions: list[Any] = []
        self.columns: dict[str, list[Any]] = {}
        self.rewards: dict[str, list[Any]] = {}

    def note(self, arguments: dict[str, Any]) -> None:
        """Take over the rows of a new generation."""
        self.count += 1
        self.prompts, self.completions = list(arguments["prompts"]), list(arguments["completions"])
        self.columns = {
            key: list(value)
            for key, value in arguments.items()
            if key not in NOT_COLUMNS and isinstance(value, (list, tuple)) and len(value) == len(self.prompts)
        }
        self.rewards = {}

    def rows(self, step: int, advantages: list[float] | None) -> list[dict[str, Any]]:
        """Return a few rows, spread over the batch, as they go into completions.jsonl."""
        total = len(self.completions)
        picked = sorted({round(i * (total - 1) / max(1, PER_STEP - 1)) for i in range(min(PER_STEP, total))})
        return [
            {
                "step": step,
                "prompt": _cut(self.prompts[i]),
                "completion": _cut(self.completions[i]),
                "rewards": {name: values[i] for name, values in self.rewards.items()},
                "advantage": advantages[i] if advantages and i < len(advantages) else None,
                "columns": {key: _plain(values[i]) for key, values in self.columns.items()},
            }
            for i in picked
        ]


def capture_completions(rewards: list[Any]) -> tuple[list[Any], Capture]:
    """Wrap reward functions so that what they see and give is kept; names, results and errors stay the same."""
    capture = Capture()
    wrapped: list[Any] = []
    for index, reward in enumerate(rewards):
        wrapped.append(_wrap(reward, capture, first=index == 0))
    return wrapped, capture


def _wrap(reward: Any, capture: Capture, *, first: bool) -> Any:
    name = getattr(reward, "__name__", type(reward).__name__)

    def before(arguments: dict[str, Any]) -> None:
        if first:
            capture.note(arguments)

    def after(values: Any) -> Any:
        if isinstance(values, (list, tuple)):
            capture.rewards[name] = [None if value is None else float(value) for value in values]
        return values

    if inspect.iscoroutinefunction(reward) or inspect.iscoroutinefunction(getattr(type(reward), "__call__", None)):  # noqa: B004

        async def call_async(**arguments: Any) -> Any:
            before(arguments)
            return after(await reward(**arguments))

        call_async.__name__ = name
        return call_async

    def call(**arguments: Any) -> Any:
        before(arguments)
        try:
            return after(reward(**arguments))
        except SystemExit as error:
            # Otherwise a reward that exits would end the training as if it had finished.
            raise RuntimeError(f"reward '{name}' called sys.exit({error.code!r})") from error

    call.__name__ = name
    return call


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + " [cut]"
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _cut(item) for key, item in value.items()}
    return _plain(value)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return repr(value)[:200]
