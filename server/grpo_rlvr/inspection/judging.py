"""When a sample counts as rewarded: the weighted sum, and the rewards that decide whether an answer is right."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Scores = Sequence[float | None]


@dataclass(frozen=True)
class Range:
    """Lowest and highest score a reward can be expected to give, from what it gave and from convention."""

    low: float
    high: float

    def share(self, score: float) -> float:
        """Return where a score lies in the range, 0 to 1."""
        return (score - self.low) / (self.high - self.low) if self.high > self.low else 0.0


def range_of(scores: Scores) -> Range:
    """Return a reward's range: 0 to 1 unless its scores say otherwise.

    A reward that gives 0 and one other value of at least a half means wrong and right by them; scores that are all 0 or
    below are penalties.
    """
    seen = {score for score in scores if score is not None}
    if not seen:
        return Range(0.0, 1.0)
    low, high = min(seen), max(seen)
    if high <= 0 and low < 0:
        return Range(min(-1.0, low), 0.0)
    binary = len(seen) == 2 and low <= 0 and high >= 0.5
    return Range(min(0.0, low), high if binary else max(1.0, high))


@dataclass(frozen=True)
class Judge:
    """Turns the scores of one sample into a sum and into yes or no.

    Args:
        weights: One a reward.
        ranges: One a reward.
        primary: Indices of the rewards that decide whether the answer is right.
        threshold: Share of their joint range above which a sample is rewarded, 0 to 1.
        blind: Whether not one of the deciding rewards was seen to depend on the row.
    """

    weights: tuple[float, ...]
    ranges: tuple[Range, ...]
    primary: tuple[int, ...]
    threshold: float
    blind: bool = False

    def total(self, scores: Scores) -> float | None:
        """Return the weighted sum as TRL forms it: None counts as 0 unless every score is None."""
        if all(score is None for score in scores):
            return None
        return math.fsum(w * s for w, s in zip(self.weights, scores, strict=True) if s is not None)

    def rewarded(self, scores: Scores) -> bool | None:
        """Return whether the deciding rewards say that the answer is right; None when they give no score."""
        graded = [i for i in self.primary if scores[i] is not None]
        if not graded:
            return None
        got = math.fsum(self.weights[i] * self.ranges[i].share(scores[i] or 0.0) for i in graded)
        possible = math.fsum(self.weights[i] for i in self.primary)
        share = got / possible if possible > 0 else 0.0
        return share > self.threshold or share >= 1 - 1e-9

    def at_top(self, index: int, score: float | None) -> bool:
        """Return whether one reward's score lies above the threshold of its own range."""
        return score is not None and self.ranges[index].share(score) > min(self.threshold, 1 - 1e-9)


def deciding(weights: Sequence[float], reads_row: Sequence[bool | None], broken: Sequence[bool]) -> tuple[int, ...]:
    """Return the rewards that decide: of those that work and have weight, the ones not shown to ignore the row."""
    weighted = [i for i, weight in enumerate(weights) if weight > 0]
    weighted = [i for i in weighted if not broken[i]] or weighted
    reading = [i for i in weighted if reads_row[i] is not False]
    return tuple(reading or weighted or range(len(weights)))
