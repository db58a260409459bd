"""Statistics for short noisy series: rank tests on block means, robust sizes, robust noise. From scipy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_rlvr.errors import MissingPackageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Means of ten equal blocks carry a trend test: raw rows of entropy, kl and length drift too much for one.
BLOCKS = 10
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
    """Mann-Kendall (exact up to ten values) and Theil-Sen; None below four values."""
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
    result = stats.kendalltau(x, values)
    slope, _, low, high = stats.theilslopes(values, x, 0.95)
    span = len(values) - 1
    return Trend(
        n, float(result.statistic), float(result.pvalue), float(slope) * span, float(low) * span, float(high) * span
    )


@dataclass(frozen=True)
class Noise:
    """Standard deviation of single rows about their level, and the correlation of neighbours (0 to 0.9)."""

    sd: float
    phi: float


def noise(values: "Floats") -> Noise:
    """Noise from differences of rows one and two apart, so that a trend does not count as noise."""
    import numpy as np

    if len(values) < 5:
        return Noise(float(np.std(values)) if len(values) > 1 else 0.0, 0.0)
    one, two = np.diff(values), values[2:] - values[:-2]
    near, far = _spread(one), _spread(two)
    if near == 0.0:
        near, far = float(np.sqrt(np.mean(one**2))), float(np.sqrt(np.mean(two**2)))
    if near == 0.0:
        return Noise(0.0, 0.0)
    # An AR(1) series has var(x[t+1]-x[t]) = 2 s2 (1-phi) and var(x[t+2]-x[t]) = 2 s2 (1-phi^2).
    phi = min(max(far**2 / near**2 - 1.0, 0.0), 0.9)
    return Noise(near / float(np.sqrt(2.0 * (1.0 - phi))), phi)


def _spread(values: "Floats") -> float:
    """Standard deviation by the median absolute value (differences have mean zero)."""
    import numpy as np

    return float(np.median(np.abs(values))) / 0.6745


def ends(values: "Floats", share: float = 0.2) -> tuple[float, float]:
    """Medians of the first and the last fifth (two values at least, one of two)."""
    import numpy as np

    size = max(min(2, len(values) // 2), round(len(values) * share), 1)
    return float(np.median(values[:size])), float(np.median(values[-size:]))


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
