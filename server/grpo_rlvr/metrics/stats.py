"""Statistics for short noisy series: rank tests that know of drift, robust sizes, robust noise. From scipy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_rlvr.errors import MissingPackageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Blocks that a series is cut into to look at its course.
BLOCKS = 10
# How often drift with a correlation of 0.65 reaches a Kendall's tau by chance: (rows at least, tau at least, share of
# 4,000 simulated series, rounded up). So even a course is a trend, whatever the estimate of the drift says.
_DRIFT_REACHES = (
    (60, 0.5, 0.002), (60, 0.6, 1e-4), (40, 0.6, 0.002), (40, 0.7, 1e-4), (30, 0.6, 0.008), (30, 0.7, 5e-4),
    (30, 0.8, 1e-4), (20, 0.7, 0.005), (20, 0.8, 5e-4), (15, 0.75, 0.008), (15, 0.85, 8e-4), (10, 0.85, 0.009),
    (10, 0.9, 0.004),
)  # fmt: skip
# A bend is looked for between so many means: finer than a log's noise lets anyone date it.
_BEND_BLOCKS = 120
# The rank tests are quadratic: longer series are averaged down to this many values first.
_MOST = 1000


def need_scipy() -> Any:
    """Import scipy.stats.

    Raises:
        MissingPackageError: scipy is not installed.
    """
    try:
        from scipy import stats
    except ImportError:
        raise MissingPackageError(
            "trend tests need the package scipy",
            remedy="Run: pip install 'grpo-rlvr-training[server]' (or pip install scipy).",
        ) from None
    return stats


@dataclass(frozen=True)
class Trend:
    """A monotone trend: Kendall's tau, its two-sided p, and the Theil-Sen change over the whole series."""

    n: int
    tau: float
    p: float
    change: float
    low: float
    high: float


def block_means(values: "Floats", blocks: int = BLOCKS) -> "Floats":
    """Means of `blocks` equal stretches; the series itself when it is not longer than that."""
    import numpy as np

    if len(values) <= blocks:
        return values
    edges = np.linspace(0, len(values), blocks + 1).round().astype(int)
    return np.add.reduceat(values, edges[:-1]) / np.diff(edges)


def trend(values: "Floats") -> Trend | None:
    """Mann-Kendall with its variance inflated by the rows' own autocorrelation, and Theil-Sen; None below four values.

    Without the inflation, drifting noise (entropy, length, KL) is called a trend several times as often as the level
    says; with it, the level holds up to a correlation of 0.65 and white noise loses next to no power.
    """
    import numpy as np

    n = len(values)
    if n < 4:
        return None
    stats = need_scipy()
    if n > _MOST:
        values = block_means(values, _MOST)
    x = np.arange(len(values), dtype=float)
    if float(values.max()) == float(values.min()):
        return Trend(n, 0.0, 1.0, 0.0, 0.0, 0.0)
    tau, raw_p = stats.kendalltau(x, values)
    phi = neighbour_correlation(values)
    z = float(stats.norm.isf(raw_p / 2.0)) if raw_p > 0.0 else 38.0
    p = float(2.0 * stats.norm.sf(z / np.sqrt((1.0 + phi) / (1.0 - phi))))
    p = min([p, *(share for rows, least, share in _DRIFT_REACHES if n >= rows and abs(tau) >= least)])
    slope, _, low, high = stats.theilslopes(values, x, 0.95)
    span = len(values) - 1
    return Trend(n, float(tau), p, float(slope) * span, float(low) * span, float(high) * span)


def neighbour_correlation(values: "Floats") -> float:
    """Lag-one correlation of the noise, 0 to 0.9: the median of three estimates that different courses mislead.

    From differences (a step hardly counts), about a straight line, and about two levels. Together they hold the level
    of the test at drift of 0.65 and find a fall of three noise sds in forty rows more often than any alone (simulated).
    """
    import numpy as np

    n = len(values)
    if n < 5 or float(np.ptp(values)) == 0.0:
        return 0.0
    one, two = np.diff(values), values[2:] - values[:-2]
    near = float(np.var(one))
    estimates = [float(np.var(two)) / near - 1.0 if near > 0.0 else 0.0]
    x = np.arange(n, dtype=float)
    estimates.append(_lag_one(values - np.polyval(np.polyfit(x, values, 1), x), fitted=2))
    if n >= 12:
        estimates.append(_lag_one(_about_two_levels(values), fitted=3))
    return float(min(max(np.median(estimates), 0.0), 0.9))


def _lag_one(rest: "Floats", fitted: int) -> float:
    """Lag-one correlation of residuals, corrected for what fitting takes away in short series."""
    import numpy as np

    total = float(np.sum(rest**2))
    plain = float(np.sum(rest[1:] * rest[:-1])) / total if total > 0.0 else 0.0
    return (len(rest) * plain + fitted / 2.0) / (len(rest) - 2.0 * fitted)


def _about_two_levels(values: "Floats") -> "Floats":
    """Residuals about the means before and after the split that explains most, five rows at least on each side."""
    import numpy as np

    n = len(values)
    cuts = np.arange(5, n - 4)
    sums = np.cumsum(values)
    before, after = sums[cuts - 1] / cuts, (sums[-1] - sums[cuts - 1]) / (n - cuts)
    cut = int(cuts[np.argmax(cuts * (n - cuts) * (before - after) ** 2)])
    return np.concatenate([values[:cut] - values[:cut].mean(), values[cut:] - values[cut:].mean()])


@dataclass(frozen=True)
class Noise:
    """Standard deviation of single rows about their level, and the correlation of neighbours (0 to 0.9)."""

    sd: float
    phi: float


def noise(values: "Floats") -> Noise:
    """Noise from the differences of neighbours, so that neither a trend nor a few spikes count as noise."""
    import numpy as np

    if len(values) < 5:
        return Noise(float(np.std(values)) if len(values) > 1 else 0.0, 0.0)
    steps = np.diff(values)
    near = float(np.median(np.abs(steps))) / 0.6745 or float(np.sqrt(np.mean(steps**2)))
    # An AR(1) series has var(x[t+1]-x[t]) = 2 s2 (1-phi); more than 0.65 is not seen in logs, only misestimated.
    phi = min(neighbour_correlation(values), 0.65)
    return Noise(near / float(np.sqrt(2.0 * (1.0 - phi))), phi)


def ends(values: "Floats", share: float = 0.2) -> tuple[float, float]:
    """Medians of the first and the last fifth (two values at least, one of two)."""
    import numpy as np

    size = max(min(2, len(values) // 2), round(len(values) * share), 1)
    return float(np.median(values[:size])), float(np.median(values[-size:]))


def bend(values: "Floats") -> int:
    """Index of the knot of the best course of two straight lines that meet there; needs ten values.

    Pettitt's test dates a change of level; where a rise turns into a fall it names the middle of the rise.
    """
    import numpy as np

    means = block_means(values, _BEND_BLOCKS)
    x = np.arange(len(means), dtype=float)
    fits = []
    for knot in x[2:-2]:
        design = np.stack([np.ones_like(x), x, np.maximum(0.0, x - knot)], axis=1)
        rest = means - design @ np.linalg.lstsq(design, means, rcond=None)[0]
        fits.append(float(rest @ rest))
    return int((np.argmin(fits) + 2.5) * len(values) / len(means))


def pettitt(values: "Floats") -> tuple[int, float]:
    """Most likely change-point (index of the first value after it) and its approximate p."""
    import numpy as np

    stats = need_scipy()
    n = len(values)
    ranks = stats.rankdata(values)
    statistic = 2.0 * np.cumsum(ranks)[:-1] - np.arange(1, n) * (n + 1)
    index = int(np.argmax(np.abs(statistic)))
    largest = float(np.abs(statistic[index]))
    return index + 1, float(min(1.0, 2.0 * np.exp(-6.0 * largest**2 / (n**3 + n**2))))
