"""Before/after accuracy on held-out prompts: paired by prompt, with intervals. Standard library only."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from grpo_rlvr.runs.records import iter_rows

RESAMPLES = 2000
Z95 = 1.959963984540054
METHOD = (
    "means over prompts; 95 % intervals: Wilson with one observation a prompt where a reward is 0 or 1, "
    "else the normal interval of the prompts' means; the difference by a paired bootstrap over prompts "
    "(2000 resamples, fixed seed)"
)


def measure(folder: Path) -> dict[str, Any] | None:
    """Return the before/after result of a run's folder, None while one side is missing or incomplete."""
    before = _by_reward(folder, "before")
    after = _by_reward(folder, "after")
    if not before or not after:
        return None
    changes = []
    prompts = 0
    for name, old in before.items():
        new = after.get(name, {})
        both = sorted(old.keys() & new.keys())
        if len(both) != len(old) or not both:
            return None
        prompts = len(both)
        changes.append(_change(name, [old[g] for g in both], [new[g] for g in both]))
    samples = max((len(values) for values in next(iter(before.values())).values()), default=1)
    return {"prompts": prompts, "samples_per_prompt": samples, "rewards": changes, "method": METHOD}


def _by_reward(folder: Path, side: str) -> dict[str, dict[int, list[float]]]:
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in iter_rows(folder / f"evaluation_{side}.jsonl"):
        for name, value in (row.get("rewards") or {}).items():
            if isinstance(value, (int, float)):
                found[name][int(row["group"])].append(float(value))
    return found


def _change(name: str, before: list[list[float]], after: list[list[float]]) -> dict[str, Any]:
    old, new = [_mean(values) for values in before], [_mean(values) for values in after]
    binary = all(value in (0.0, 1.0) for values in (*before, *after) for value in values)
    return {
        "reward": name,
        "before": _interval(old, binary=binary),
        "after": _interval(new, binary=binary),
        "difference": _difference([b - a for a, b in zip(old, new, strict=True)]),
    }


def _interval(means: list[float], *, binary: bool) -> dict[str, Any]:
    n, mean = len(means), _mean(means)
    if binary:
        # Completions of one prompt resemble each other: counting them as independent would narrow the interval.
        centre = (mean + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
        half = Z95 * math.sqrt(mean * (1 - mean) / n + Z95**2 / (4 * n * n)) / (1 + Z95**2 / n)
        return {"value": mean, "low": max(0.0, centre - half), "high": min(1.0, centre + half), "n": n}
    spread = math.sqrt(sum((value - mean) ** 2 for value in means) / (n - 1)) if n > 1 else 0.0
    half = Z95 * spread / math.sqrt(n)
    return {"value": mean, "low": mean - half, "high": mean + half, "n": n}


def _difference(differences: list[float]) -> dict[str, Any]:
    n = len(differences)
    chooser = random.Random(0)
    resampled = sorted(_mean(chooser.choices(differences, k=n)) for _ in range(RESAMPLES))
    low, high = resampled[int(0.025 * RESAMPLES)], resampled[int(0.975 * RESAMPLES) - 1]
    return {"value": _mean(differences), "low": low, "high": high, "n": n}


def _mean(values: list[float] | list[Any]) -> float:
    return sum(values) / len(values)
