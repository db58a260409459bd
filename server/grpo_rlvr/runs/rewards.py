"""The rewards of a run, built from the copied code inside the training interpreter, and rows graded with them."""

from __future__ import annotations

import asyncio
import inspect
import math
from pathlib import Path
from typing import Any

USER_CODE = Path("code") / "user"
# What sampling adds to a row; the rest are columns of the data set.
ADDED = frozenset({"prompt", "completion", "completion_ids", "finish_reason", "group"})


def build_rewards(folder: Path, specs: list[dict[str, Any]]) -> list[Any]:
    """Return the reward functions that the specs name, from the run's own copy of the code."""
    from rlvr_rewards import spec as reward_spec

    return [reward_spec.build(spec, folder / USER_CODE) for spec in specs]


def grade_rows(rewards: list[Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with `rewards: {name: value}`, called as TRL calls reward functions.

    Raises:
        ValueError: A reward returned the wrong number of values, or one that is no finite number.
    """
    columns = {key: [row.get(key) for row in rows] for key in rows[0] if key not in ADDED}
    arguments = {
        "prompts": [row["prompt"] for row in rows],
        "completions": [row["completion"] for row in rows],
        "completion_ids": [row.get("completion_ids") for row in rows],
        "trainer_state": None,
        "log_extra": lambda *values: None,
        "log_metric": lambda *values: None,
    }
    graded = [dict(row, rewards={}) for row in rows]
    for reward in rewards:
        name = getattr(reward, "__name__", type(reward).__name__)
        values = reward(**arguments, **columns)
        if inspect.isawaitable(values):
            values = asyncio.run(_await(values))
        for row, value in zip(graded, _checked(name, values, len(rows)), strict=True):
            row["rewards"][name] = value
    return graded


async def _await(values: Any) -> Any:
    return await values


def _checked(name: str, values: Any, count: int) -> list[float | None]:
    if not isinstance(values, (list, tuple)) or len(values) != count:
        size = len(values) if hasattr(values, "__len__") else type(values).__name__
        raise ValueError(f"reward '{name}' returned {size} values for {count} completions")
    numbers = [None if value is None else float(value) for value in values]
    bad = next((value for value in numbers if value is not None and not math.isfinite(value)), None)
    if bad is not None:
        raise ValueError(f"reward '{name}' returned {bad}")
    return numbers
