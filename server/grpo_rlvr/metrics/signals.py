"""What one series does: level at both ends, direction, size in units of its own noise, and the date of a break."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from grpo_rlvr.metrics.parsing import ParsedLog, Series
from grpo_rlvr.metrics.stats import Trend, bend, block_means, ends, noise, pettitt, trend
from grpo_rlvr.models.recommend import Evidence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Direction = Literal["up", "down", "flat", "unknown"]
# Fewer rows carry no trend claim (the smallest exact p of four values is .083); up to the second, only a weak one.
FEW, WEAK = 10, 20
# Up to so many measures of success each is tested by itself; of dozens (verl's validation) the level is shared.
FEW_MEASURES = 3
# Levels of the tests. A falling reward is the costly miss, so it is taken at the usual level.
P_TREND, P_FALLING_REWARD, P_BREAK = 0.01, 0.03, 0.001
# A change counts from a tenth of the start and from one noise sd on.
SMALLEST_SHARE = 0.1
# Ends that lie so many noise sds apart need no test: drift with a correlation of 0.85 gets there once in a thousand.
SHIFT_SDS = 6.0
# Up to so many rows a change is measured in sds of a row's noise; beyond, levels are means of many rows and it shrinks.
LONG = 100
# In a table of window means there is no test: only changes of a quarter or more are spoken of.
WINDOW_CHANGE = 0.25


@dataclass(frozen=True)
class Fall:
    """A decline after a rise: the row where it begins, the best level, and the change and p of what follows."""

    row: int
    level: float
    change: float
    p: float


@dataclass(frozen=True)
class Signal:
    """A series with its statistics, computed when asked for.

    `aggregated` says that each value is already a mean over a window of steps, `unordered` that each is another run.
    """

    series: Series
    aggregated: bool = False
    unordered: bool = False
    level: float = P_TREND

    @property
    def values(self) -> "Floats":
        return self.series.values

    @property
    def n(self) -> int:
        return len(self.series.values)

    @property
    def enough(self) -> bool:
        """True when the series can carry a claim about its course: ten rows, or three window means."""
        return not self.unordered and (self.n >= FEW or (self.aggregated and self.n >= 3))

    @cached_property
    def ends(self) -> tuple[float, float]:
        import numpy as np

        if self.unordered and self.n:
            usual = float(np.median(self.values))  # other runs: what the usual one has, not the first and last
            return usual, usual
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

    @property
    def unit(self) -> float:
        """What a change is measured in: the noise of a row, in a long run that of a level over many rows."""
        return self.noise_sd * min(1.0, math.sqrt(LONG / max(1, self.n)))

    @cached_property
    def blocks(self) -> "Floats":
        return block_means(self.values)

    @cached_property
    def trend(self) -> Trend | None:
        """Over all rows, None below ten."""
        return trend(self.values) if self.n >= FEW and not self.unordered else None

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
        if self.unordered:
            return "unknown"
        if self.n < FEW:
            return self._few()
        return self._moved(self.level)

    def _moved(self, level: float) -> Direction:
        """Direction at a level of the test, if the change is of a size that counts."""
        found = self.trend
        shift = self.end - self.start
        if self.n >= WEAK and abs(shift) > max(self.smallest, SHIFT_SDS * self.noise_sd):
            return "up" if shift > 0 else "down"
        if found is None or found.p >= level:
            return "flat"
        # A step late in the run has a small Theil-Sen slope: the medians of both ends show its size.
        sizes = (found.change, self.end - self.start)
        if found.tau > 0 and max(sizes) > self.smallest:
            return "up"
        return "down" if found.tau < 0 and min(sizes) < -self.smallest else "flat"

    @cached_property
    def smallest(self) -> float:
        """The smallest change that counts, in the unit of the series."""
        return max(SMALLEST_SHARE * abs(self.start), self.unit)

    def _few(self) -> Direction:
        if not self.aggregated or self.n < 2:
            return "unknown"
        first, last = float(self.values[0]), float(self.values[-1])
        change = last - first
        if abs(change) < WINDOW_CHANGE * max(abs(first), abs(last)):
            return "flat"
        between = float(self.values[self.n // 2])
        if self.series.aside and self.n > 2 and not min(first, last) < between < max(first, last):
            return "flat"  # a few evaluations: a change that goes back and forth is their noise
        return "up" if change > 0 else "down"

    @cached_property
    def falls(self) -> bool:
        """The falling-reward test: over the run, from its best fifth on, and for a sudden end."""
        if self.n < WEAK or self.unordered:
            return self.direction == "down"
        loose = self.level * P_FALLING_REWARD / P_TREND
        return self._moved(loose) == "down" or self.fell_from is not None or self._dropped_dead()

    @cached_property
    def fell_from(self) -> "Fall | None":
        """The decline from the best twentieth of the run to its end; None when there is none.

        As strict as a test chosen after looking has to be; the best rows themselves, best by chance too, are left out.
        """
        import numpy as np

        if self.n < WEAK or self.unordered:
            return None
        steps = np.array_split(np.arange(self.n), 20)
        levels = [float(np.median(self.values[rows])) for rows in steps]
        best = int(np.argmax(levels))
        tail = self.values[steps[best][-1] + 1 :]
        if len(tail) < max(FEW, self.n // 5):
            return None
        found = trend(tail)
        if found is None or found.p >= self.level / 10.0 or found.change >= 0.0:
            return None
        # The end's median lags behind a decline that still goes on: its own slope may say more.
        if max(self.peak - self.end, -found.change) < max(2.0 * self.unit, 0.25 * abs(self.peak)):
            return None
        return Fall(int(self.series.rows[bend(self.values)]), levels[best], found.change, found.p)

    def _dropped_dead(self) -> bool:
        """The run ends dead: for a tenth of the run or longer, far below the level it had until then."""
        import numpy as np

        low = self.values <= (0.25 * self.peak if self.peak > 0.0 else self.peak - 5.0 * self.noise_sd)
        alive = self.n - int(np.argmax(~low[::-1])) if not low.all() else 0
        if alive < 5 or self.n - alive < max(3, self.n // 10):
            return False
        before, after = float(np.median(self.values[:alive])), float(self.values[alive:].max())
        if self.peak > 0.0 and before < 0.5 * self.peak:
            return False
        return before - after > 3.0 * self.noise_sd

    @cached_property
    def break_row(self) -> int | None:
        """Row at which the level changes, None without a clear break or below 25 rows."""
        if self.n < 25 or self.unordered:
            return None
        index, p = pettitt(self.values)
        return int(self.series.rows[index]) if p < P_BREAK else None

    def share_above(self, limit: float) -> float:
        """Share of rows above a limit, 0 to 1."""
        return float((self.values > limit).mean()) if self.n else 0.0

    @property
    def _name(self) -> str:
        return self.series.quantity if not self.series.detail else f"{self.series.quantity}:{self.series.detail}"

    def fall_evidence(self, fall: "Fall", text: str) -> Evidence:
        """The decline from the best level as the fact `text`."""
        return Evidence(
            metric=self._name, column=self.series.column, rows=self.n, first=_tidy(fall.level), last=_tidy(self.end),
            slope=_tidy(fall.change), p=_tidy(fall.p), break_row=fall.row, text=text,
        )  # fmt: skip

    def evidence(self, text: str) -> Evidence:
        """This series as the fact `text`."""
        found = self.trend
        return Evidence(
            metric=self._name,
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

    def of(self, series: Series, among: int = 1) -> Signal:
        """The signal of any series of this log, made once; of `among` measures one falls by chance more easily."""
        made: dict[tuple[int, int], Signal] = self.__dict__["_made"]
        if (key := (id(series), among)) not in made:
            aggregated = self.log.kind in ("windows", "summary") or (
                series.aside and among == 1 and len(series) <= 3 < self.log.rows
            )
            made[key] = Signal(series, aggregated, self.log.kind == "runs", self.level / among)
        return made[key]

    @property
    def accuracies(self) -> list[Signal]:
        """Independent measures of success: columns beside the reward, and held-out ones."""
        held_out = [s for s in self.log.evaluation.values() if s.quantity in ("accuracy", "reward")]
        measures = [series for series in (*self.log.accuracies.values(), *held_out) if len(series)]
        if len(measures) <= FEW_MEASURES:
            return [self.of(series) for series in measures]
        mean = self.__dict__.setdefault("_mean", _mean_of(measures))
        return [*([self.of(mean)] if mean else []), *(self.of(series, len(measures)) for series in measures)]

    @property
    def components(self) -> list[Signal]:
        """Reward functions."""
        return [self.of(series) for series in self.log.components.values() if len(series)]


def _mean_of(measures: list[Series]) -> Series | None:
    """The mean of those measures of success that stand on the same rows, None when fewer than half do."""
    import numpy as np

    shares = [series for series in measures if series.quantity == "accuracy"] or measures
    longest = max(shares, key=len)
    same = [series for series in shares if np.array_equal(series.rows, longest.rows)]
    if len(same) * 2 < len(shares):
        return None
    values = np.mean([series.values for series in same], axis=0)
    return Series("accuracy", f"the mean of {len(same)} measures", longest.rows, values, aside=True)
