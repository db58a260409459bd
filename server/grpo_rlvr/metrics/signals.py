"""What one series does: level at both ends, direction, size in units of its own noise, and the date of a break."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from grpo_rlvr.metrics.parsing import ParsedLog, Series
from grpo_rlvr.metrics.stats import Trend, block_means, ends, noise, pettitt, trend
from grpo_rlvr.models.recommend import Evidence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Direction = Literal["up", "down", "flat", "unknown"]
# Fewer rows carry no trend claim (the smallest exact p of four values is .083); up to the second, only a weak one.
FEW, WEAK = 10, 20
# Levels of the tests. A falling reward is the costly miss, so it is taken at the usual level.
P_TREND, P_FALLING_REWARD, P_BREAK = 0.01, 0.05, 0.001
# A change counts from a tenth of the start and one noise sd; without a trend, from two noise sds between the ends.
SMALLEST_SHARE, STATE_SDS = 0.1, 2.0
# In a table of window means there is no test: only changes of a quarter or more are spoken of.
WINDOW_CHANGE = 0.25


@dataclass(frozen=True)
class Signal:
    """A series with its statistics, computed when asked for.

    `aggregated` says that each value is already a mean over a window of steps.
    """

    series: Series
    aggregated: bool = False
    level: float = P_TREND

    @property
    def values(self) -> "Floats":
        return self.series.values

    @property
    def n(self) -> int:
        return len(self.series.values)

    @cached_property
    def ends(self) -> tuple[float, float]:
        return ends(self.values) if self.n else (float("nan"), float("nan"))

    @property
    def start(self) -> float:
        return self.ends[0]

    @property
    def end(self) -> float:
        return self.ends[1]

    @property
    def ratio(self) -> float:
        """End as a multiple of the start; 1 when the start is 0 and the end too, infinite when only the start is."""
        if self.start:
            return self.end / self.start
        return 1.0 if not self.end else float("inf")

    @cached_property
    def noise_sd(self) -> float:
        return noise(self.values).sd

    @cached_property
    def blocks(self) -> "Floats":
        return block_means(self.values)

    @cached_property
    def trend(self) -> Trend | None:
        """Of block means from 20 rows on, of the raw rows below."""
        if self.n < FEW:
            return None
        return trend(self.blocks if self.n >= WEAK else self.values)

    @cached_property
    def raw_trend(self) -> Trend | None:
        return trend(self.values) if self.n >= FEW else None

    @cached_property
    def peak(self) -> float:
        """Highest median of a fifth of the run."""
        import numpy as np

        if self.n < FEW:
            return float(self.values.max()) if self.n else float("nan")
        return float(max(np.median(part) for part in np.array_split(self.values, 5)))

    @cached_property
    def direction(self) -> Direction:
        """up, down or flat; unknown below ten rows (below three windows)."""
        if self.n < FEW:
            return self._few()
        found = self.trend
        smallest = max(SMALLEST_SHARE * abs(self.start), self.noise_sd)
        if found and found.p < self.level and abs(found.change) > smallest:
            return "up" if found.change > 0 else "down"
        if self.n >= WEAK and abs(self.end - self.start) > max(
            SMALLEST_SHARE * abs(self.start), STATE_SDS * self.noise_sd
        ):
            return "up" if self.end > self.start else "down"
        return "flat"

    def _few(self) -> Direction:
        if not self.aggregated or self.n < 2:
            return "unknown"
        first, last = float(self.values[0]), float(self.values[-1])
        change = last - first
        if abs(change) < WINDOW_CHANGE * max(abs(first), abs(last)):
            return "flat"
        return "up" if change > 0 else "down"

    @cached_property
    def falls(self) -> bool:
        """The falling-reward test: against its own trend, its ends, and its best fifth."""
        if self.n < FEW:
            return self.direction == "down"
        if self.direction == "down":
            return True
        smallest = max(SMALLEST_SHARE * abs(self.start), self.noise_sd)
        found = self.trend
        if self.n >= WEAK and found and found.p < P_FALLING_REWARD * self.level / P_TREND and found.change < -smallest:
            return True
        return self.n >= WEAK and self.peak - self.end > max(3.0 * self.noise_sd, 0.25 * abs(self.peak))

    @cached_property
    def break_row(self) -> int | None:
        """Row at which the level changes, None without a clear break or below 25 rows."""
        if self.n < 25:
            return None
        index, p = pettitt(self.values)
        return int(self.series.rows[index]) if p < P_BREAK else None

    def share_above(self, limit: float) -> float:
        """Share of rows above a limit, 0 to 1."""
        return float((self.values > limit).mean()) if self.n else 0.0

    def evidence(self, text: str) -> Evidence:
        """This series as the fact `text`."""
        found = self.trend
        return Evidence(
            metric=self.series.quantity if not self.series.detail else f"{self.series.quantity}:{self.series.detail}",
            column=self.series.column,
            rows=self.n,
            first=_tidy(self.start) if self.n else None,
            last=_tidy(self.end) if self.n else None,
            slope=_tidy(found.change) if found else None,
            p=_tidy(found.p) if found else None,
            break_row=self.break_row,
            text=text,
        )


def _tidy(value: float) -> float | None:
    """Six significant digits; None for what JSON cannot carry."""
    return float(f"{value:.6g}") if value == value and abs(value) != float("inf") else None


@dataclass(frozen=True)
class Signals:
    """All series of a log, as signals, with one level for every test."""

    log: ParsedLog
    level: float = P_TREND

    def __post_init__(self) -> None:
        object.__setattr__(self, "_made", {})

    def get(self, quantity: str) -> Signal | None:
        """The signal of a quantity, None when the log has no finite value of it."""
        series = self.log.series.get(quantity)
        return self.of(series) if series is not None and len(series) else None

    def of(self, series: Series) -> Signal:
        """The signal of any series of this log, made once."""
        made: dict[int, Signal] = self.__dict__["_made"]
        if id(series) not in made:
            aggregated = self.log.kind in ("windows", "summary") or (len(series) <= 3 < self.log.rows)
            made[id(series)] = Signal(series, aggregated, self.level)
        return made[id(series)]

    @property
    def accuracies(self) -> list[Signal]:
        """Independent measures of success: columns beside the reward, and held-out ones."""
        held_out = [s for s in self.log.evaluation.values() if s.quantity in ("accuracy", "reward")]
        return [self.of(series) for series in (*self.log.accuracies.values(), *held_out) if len(series)]

    @property
    def components(self) -> list[Signal]:
        """Reward functions."""
        return [self.of(series) for series in self.log.components.values() if len(series)]
