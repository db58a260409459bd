"""Two runs side by side, with the noise of each."""

import math
from pathlib import Path
from typing import Literal

from grpo_rlvr.metrics.names import QUANTITIES
from grpo_rlvr.metrics.parsing import ParsedLog, parse
from grpo_rlvr.metrics.signals import FEW, Signal, Signals
from grpo_rlvr.metrics.stats import noise
from grpo_rlvr.models.recommend import Comparison, MetricDifference

_COMPARED = ("reward", "length", "entropy", "kl", "clipped", "zero_std", "grad_norm", "logp_gap", "step_time")
# Three standard errors, since several metrics are looked at.
_ERRORS = 3.0
# Two seeds of one recipe end this far apart (11 points of accuracy were seen; 2 to 3 are common): no smaller
# difference of two single runs says anything about the recipes.
SEED_SHARE = 0.1
_SEED_NOTE = (
    "One run each: two seeds of one recipe were seen to end 2 to 11 points apart, so a difference under "
    f"{SEED_SHARE:.0%} of the level is not ranked, and a larger one is a reason to repeat with three seeds, no proof."
)


def compare(first: str | Path | ParsedLog, second: str | Path | ParsedLog) -> Comparison:
    """Compare the last fifths of two runs, metric by metric.

    Raises:
        InputError, NotFoundError: a log cannot be read.
    """
    logs = [log if isinstance(log, ParsedLog) else parse(log) for log in (first, second)]
    one, two = Signals(logs[0]), Signals(logs[1])
    differences = [_difference(name, a, b) for name in _COMPARED if (a := one.get(name)) and (b := two.get(name))]
    notes = [_SEED_NOTE, *_unequal(logs[0], logs[1])]
    verdict, why = _rank(differences)
    return Comparison(differences=differences, verdict=verdict, why=why, notes=notes)


def _difference(name: str, a: Signal, b: Signal) -> MetricDifference:
    spread = math.hypot(_error(a), _error(b))
    gap = b.end - a.end
    verdict: Literal["higher", "lower", "within_noise", "unknown"]
    if a.n < FEW or b.n < FEW:
        verdict = "unknown"
    elif abs(gap) <= max(_ERRORS * spread, SEED_SHARE * max(abs(a.end), abs(b.end))):
        verdict = "within_noise"
    else:
        verdict = "higher" if gap > 0 else "lower"
    return MetricDifference(metric=name, first=a.end, second=b.end, noise=spread, verdict=verdict)


def _error(signal: Signal) -> float:
    """Standard error of the median of the last fifth, with the correlation of its rows."""
    found = noise(signal.values)
    rows = max(2, round(signal.n * 0.2))
    return found.sd * math.sqrt(math.pi / 2.0 / rows * (1.0 + found.phi) / (1.0 - found.phi))


def _rank(
    differences: list[MetricDifference],
) -> tuple[Literal["first_better", "second_better", "within_noise", "unknown"], str]:
    reward = next((item for item in differences if item.metric == "reward"), None)
    if reward is None or reward.verdict == "unknown":
        return "unknown", f"Both runs need a reward column of {FEW} rows or more."
    text = f"reward ends at {reward.first:.3g} and {reward.second:.3g}, noise of the difference {reward.noise:.2g}"
    if reward.verdict == "within_noise":
        return "within_noise", f"The runs are not ranked: {text}."
    return ("second_better" if reward.verdict == "higher" else "first_better"), f"By training reward alone: {text}."


def _unequal(one: ParsedLog, two: ParsedLog) -> list[str]:
    notes = []
    if max(one.rows, two.rows) > 1.5 * max(min(one.rows, two.rows), 1):
        notes.append(f"the runs have {one.rows} and {two.rows} rows: their last fifths are different stages")
    lacking = [q for q in ("reward", "length", "entropy") if (q in one.series) != (q in two.series)]
    notes += [f"only one run logs {name} ({QUANTITIES[name].what.lower().rstrip('.')})" for name in lacking]
    return notes
