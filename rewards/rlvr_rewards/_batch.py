"""Judging a batch with any reward, ours or a plain function."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from rlvr_rewards._core import Completion, RewardRowError, Row, Verdict


def grade_all(
    reward: Callable[..., Any], completions: Sequence[Completion], rows: Sequence[Row], **extra: Any
) -> list[Verdict]:
    """Judge a batch with any reward: ours through `grade_batch`, a plain function through its TRL face.

    Args:
        reward: A `Reward`, or any callable with TRL's signature.
        completions: One entry a completion.
        rows: One mapping a completion.
        extra: Further keyword arguments for a plain function, such as `prompts`.

    Raises:
        RewardRowError: A plain function answered with another number of scores, or with something else than numbers.
    """
    graded = getattr(reward, "grade_batch", None)
    if graded is not None:
        verdicts: list[Verdict] = graded(completions, rows)
        return verdicts
    names = sorted({name for row in rows for name in row} - set(extra))
    columns = {name: [row.get(name) for row in rows] for name in names}
    started = time.perf_counter()
    scores = _awaited(reward(completions=list(completions), **columns, **extra))
    each = (time.perf_counter() - started) / max(1, len(completions))
    if not isinstance(scores, Sequence) or len(scores) != len(completions):
        count = len(scores) if isinstance(scores, Sequence) else type(scores).__name__
        raise RewardRowError(f"the reward function returned {count} scores for {len(completions)} completions")
    return [_plain_verdict(score, each) for score in scores]


def _awaited(value: Any) -> Any:
    """Return what a coroutine function's call gives, also when an event loop already runs in this thread."""
    if not hasattr(value, "__await__"):
        return value
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def wait() -> Any:
        return await value

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, wait()).result()


def _plain_verdict(score: Any, seconds: float) -> Verdict:
    if score is None:
        return Verdict(None, "bad_row", seconds=seconds)
    try:
        return Verdict(float(score), "scored", seconds=seconds)
    except (TypeError, ValueError):
        raise RewardRowError(f"the reward function returned {score!r:.80}, which is not a number") from None
