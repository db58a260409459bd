"""Rewards about length, in tokens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from rlvr_rewards._batch import grade_all
from rlvr_rewards._core import (
    Completion,
    Reason,
    Reward,
    RewardSpecError,
    Row,
    Verdict,
    columns_of,
    display_name,
    row_problem,
)


@dataclass(eq=False, repr=False)
class LengthPenalty(Reward):
    """Another reward, lowered for long correct answers, never to what a wrong answer can reach.

    Formula, for n tokens and the inner score s: s if s <= floor, else floor + (s - floor) * (1 - max_share * r) with r
    = clamp((n - free_tokens) / (max_tokens - free_tokens), 0, 1). The floor is the best score of a wrong answer: 0 for
    most rewards, the format weight for `Composite`. So a correct answer stays above every wrong one however long it
    is, and zero, negative scores and None pass through unchanged. Range: that of the inner reward.
    How it is gamed: the model drops reasoning that it needs; set `free_tokens` from the lengths of correct answers. For
    lengths that grow everywhere, the loss type is the better lever.
    None: the inner reward said None.

    Args:
        reward: The reward to wrap; this one's metric name starts with its metric name.
        free_tokens: Length up to which nothing is taken, in tokens.
        max_tokens: Length from which the whole share is taken, in tokens.
        max_share: Largest share of the gain that is taken, from 0 up to but not including 1.

    Example:
        >>> from rlvr_rewards import Exact
        >>> reward = LengthPenalty(Exact(), free_tokens=2, max_tokens=4, max_share=0.5)
        >>> text = "<answer>Paris</answer>"
        >>> reward(completions=[text] * 3, gold=["Paris"] * 3, completion_ids=[[1] * 2, [1] * 3, [1] * 9])
        [1.0, 0.75, 0.5]
        >>> reward.__name__
        'exact_length_penalty'
    """

    reward: Callable[..., Any]
    free_tokens: int = 512
    max_tokens: int = 4096
    max_share: float = 0.5

    reward_name: ClassVar[str] = "length_penalty"

    def __post_init__(self) -> None:
        if not callable(self.reward):
            raise RewardSpecError(f"argument 'reward' must be a reward, not {self.reward!r:.80}")
        _check_tokens(self.free_tokens, "free_tokens", 0)
        _check_tokens(self.max_tokens, "max_tokens", self.free_tokens + 1)
        if not _is_number(self.max_share) or not 0 <= self.max_share < 1:
            raise RewardSpecError(
                f"argument 'max_share' must be from 0 up to but not including 1, not {self.max_share!r}"
            )
        self.floor = float(getattr(self.reward, "wrong_at_most", 0.0))
        self.reasons = (*getattr(self.reward, "reasons", ("scored", "bad_row")), "overlong")  # type: ignore[misc]
        super().__post_init__()

    def columns(self) -> tuple[str, ...]:
        """Return the inner reward's columns and the token ids."""
        return self.columns_among({}, 0)

    def columns_among(self, given: Mapping[str, Any], count: int) -> tuple[str, ...]:
        """Return the inner reward's columns among those given, and the token ids."""
        return tuple(dict.fromkeys((*columns_of([self.reward], given, count), "completion_ids")))

    def default_name(self) -> str:
        """Return the inner reward's name with a suffix."""
        return f"{display_name(self.reward)}_{self.reward_name}"

    def judge_row(self, row: Row) -> str | None:
        """Refuse what the inner reward refuses."""
        return row_problem(self.reward, row)

    def grade_batch(self, completions: Sequence[Completion], rows: Sequence[Row]) -> list[Verdict]:
        """Judge a batch with the inner reward, then take each one's share."""
        inner = grade_all(self.reward, completions, rows)
        return [self._shortened(verdict, row) for verdict, row in zip(inner, rows, strict=True)]

    def _shortened(self, verdict: Verdict, row: Row) -> Verdict:
        ids = row.get("completion_ids")
        if ids is None:
            return replace(
                verdict, score=None, reason="bad_row", detail={"problem": "column 'completion_ids' is missing"}
            )
        score, tokens = verdict.score, len(ids)
        over = (tokens - self.free_tokens) / (self.max_tokens - self.free_tokens)
        share = self.max_share * min(1.0, max(0.0, over))
        if score is None or score <= self.floor or share == 0:
            return verdict
        lowered = self.floor + (score - self.floor) * (1 - share)
        detail = {**verdict.detail, "tokens": tokens, "before": score, "reason_before": verdict.reason}
        return replace(verdict, score=lowered, reason="overlong", detail=detail)


@dataclass(eq=False, repr=False)
class SoftOverlong(Reward):
    """A penalty for completions near or over the length limit, as in DAPO (arXiv 2503.14476, equation 13).

    Formula, for n tokens: 0 up to max_tokens - cache_tokens; then falling in a line to -1 at max_tokens; -1 beyond.
    Range: [-1.0, 0.0]. It is meant as a further function beside the correctness reward, with a weight of its own.
    How it is gamed: a truncated completion has at most max_tokens, so set `max_tokens` to the trainer's
    max_completion_length; with a weight above the correctness weight it teaches silence.
    None: never.

    Args:
        max_tokens: The length limit, in tokens.
        cache_tokens: Width of the ramp before the limit, in tokens; 0 makes it a step.

    Example:
        >>> SoftOverlong(max_tokens=100, cache_tokens=20)(completions=["a", "b"], completion_ids=[[1] * 80, [1] * 90])
        [0.0, -0.5]
    """

    max_tokens: int
    cache_tokens: int

    reward_name: ClassVar[str] = "soft_overlong"
    reads: ClassVar[tuple[str, ...]] = ("completion_ids",)
    reasons: ClassVar[tuple[Reason, ...]] = ("correct", "overlong")

    def __post_init__(self) -> None:
        _check_tokens(self.max_tokens, "max_tokens", 1)
        _check_tokens(self.cache_tokens, "cache_tokens", 0)
        if self.cache_tokens > self.max_tokens:
            raise RewardSpecError(f"cache_tokens {self.cache_tokens} must not be above max_tokens {self.max_tokens}")
        super().__post_init__()

    def default_name(self) -> str:
        """Return the name with both lengths, so that several in one trainer stay apart."""
        return f"{self.reward_name}_{self.max_tokens}_{self.cache_tokens}"

    def judge_output(self, completion: Completion, row: Row) -> Verdict:
        """Score the number of tokens."""
        if row["completion_ids"] is None:
            return Verdict(None, "bad_row", None, {"problem": "column 'completion_ids' is empty"})
        tokens = len(row["completion_ids"])
        over = tokens - (self.max_tokens - self.cache_tokens)
        if over <= 0:
            return Verdict(0.0, "correct", None, {"tokens": tokens})
        score = -1.0 if tokens > self.max_tokens else -over / self.cache_tokens
        return Verdict(score, "overlong", None, {"tokens": tokens})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_tokens(value: Any, argument: str, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise RewardSpecError(
            f"argument {argument!r} must be a whole number of tokens, at least {least}, not {value!r}"
        )
