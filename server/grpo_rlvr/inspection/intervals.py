"""Small-sample statistics in closed form, without scipy."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev, variance

from grpo_rlvr.models.common import Interval

Z = 1.959963984540054  # two-sided 95 %


def wilson(successes: float, n: int, effective: float | None = None) -> Interval:
    """Return a proportion with its Wilson interval.

    Args:
        successes: Number of successes.
        n: Number of observations, above 0.
        effective: Number of independent observations that they are worth, when they are clustered.
    """
    size = effective or float(n)
    share = successes / n
    middle = (share + Z * Z / (2 * size)) / (1 + Z * Z / size)
    half = Z / (1 + Z * Z / size) * math.sqrt(share * (1 - share) / size + Z * Z / (4 * size * size))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    # At the ends the formula leaves rounding dust where the bound is exact.
    return Interval(value=share, low=0.0 if share == 0 else low, high=1.0 if share == 1 else high, n=n)


def clustered(outcomes: Mapping[str, Sequence[bool]]) -> Interval | None:
    """Return the share of true outcomes with an interval that allows for likeness inside a cluster.

    The design effect uses the one-way analysis-of-variance estimate of the intraclass correlation, never below 0.
    """
    groups = [list(values) for values in outcomes.values() if values]
    n = sum(len(values) for values in groups)
    if not n:
        return None
    hits = sum(sum(values) for values in groups)
    return wilson(hits, n, n / design_effect(groups))


def design_effect(groups: Sequence[Sequence[bool]]) -> float:
    """Return the factor by which clustering widens the variance of a mean, at least 1."""
    n, k = sum(map(len, groups)), len(groups)
    if k < 2 or n <= k:
        return 1.0
    mean = sum(map(sum, groups)) / n
    means = [fmean(values) for values in groups]
    between = sum(len(v) * (m - mean) ** 2 for v, m in zip(groups, means, strict=True)) / (k - 1)
    within = sum(sum((x - m) ** 2 for x in v) for v, m in zip(groups, means, strict=True)) / (n - k)
    size = (n - sum(len(v) ** 2 for v in groups) / n) / (k - 1)
    total = between + (size - 1) * within
    correlation = max(0.0, (between - within) / total) if total > 0 else 0.0
    weighted_size = sum(len(v) ** 2 for v in groups) / n
    return max(1.0, 1 + (weighted_size - 1) * correlation)


def no_gradient(counts: Sequence[tuple[int, int]], size: int) -> Interval | None:
    """Return the expected share of groups of `size` whose outcomes are all alike.

    Args:
        counts: Successes and trials of each prompt.
        size: Completions a prompt, at least 2.

    Returns:
        The mean over prompts with an interval over prompts. With at least `size` trials a prompt's term is the exact
        share of subsets; with fewer it is the mean under a beta law fitted to the prompts' rates by moments.
    """
    counts = [(hits, trials) for hits, trials in counts if trials]
    if not counts:
        return None
    a, b = _beta_prior(counts)
    terms = [_alike(hits, trials - hits, size, a, b) for hits, trials in counts]
    mean, n = fmean(terms), len(terms)
    half = Z * math.sqrt(variance(terms) / n) if n > 1 else 1.0
    # Prompts all alike say nothing about spread: the interval of a proportion then stands in.
    spread = wilson(mean * n, n) if half == 0 else Interval(value=mean, low=mean - half, high=mean + half, n=n)
    return Interval(value=mean, low=max(0.0, spread.low), high=min(1.0, spread.high), n=n)


def _alike(hits: int, misses: int, size: int, a: float, b: float) -> float:
    trials = hits + misses
    if trials >= size:
        return (math.comb(hits, size) + math.comb(misses, size)) / math.comb(trials, size)
    base = _log_beta(a + hits, b + misses)
    return math.exp(_log_beta(a + hits + size, b + misses) - base) + math.exp(
        _log_beta(a + hits, b + misses + size) - base
    )


def _beta_prior(counts: Sequence[tuple[int, int]]) -> tuple[float, float]:
    rates = [(hits + 0.5) / (trials + 1) for hits, trials in counts]
    mean, spread = fmean(rates), pstdev(rates) ** 2
    if len(rates) < 3 or spread <= 0 or spread >= mean * (1 - mean):
        return 0.5, 0.5
    strength = min(mean * (1 - mean) / spread - 1, 1000.0)
    return mean * strength, (1 - mean) * strength


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def kappa(both: int, first_only: int, second_only: int, neither: int) -> float | None:
    """Return Cohen's kappa of two yes/no raters; None when both say one word only or there is nothing."""
    n = both + first_only + second_only + neither
    if not n:
        return None
    first, second = (both + first_only) / n, (both + second_only) / n
    chance = first * second + (1 - first) * (1 - second)
    return None if chance >= 1 else ((both + neither) / n - chance) / (1 - chance)


def correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Return Pearson's correlation; None when one side does not vary."""
    if len(xs) < 3:
        return None
    mx, my = fmean(xs), fmean(ys)
    sx = math.sqrt(sum((x - mx) ** 2 for x in xs))
    sy = math.sqrt(sum((y - my) ** 2 for y in ys))
    if sx == 0 or sy == 0:
        return None
    return max(-1.0, min(1.0, sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / (sx * sy)))
