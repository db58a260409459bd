"""A reward that rises by its format alone: the sum must not hide that the task stays where it was."""

import math
import random
from typing import Any

import pytest

from grpo_rlvr.metrics import recommend


def rows(n: int, *, entropy_left: float, alike: float, task_gain: float) -> list[dict[str, Any]]:
    """Rows of a run whose format is learned by the middle; entropy and groups end as stated."""
    rng = random.Random(5)
    made = []
    for row in range(n):
        done = row / (n - 1)
        task = 0.36 + task_gain * done + rng.gauss(0, 0.02)
        form = 0.1 + 0.4 / (1 + math.exp(-12 * (done - 0.3))) + rng.gauss(0, 0.01)
        made.append(
            {
                "reward": task + form, "rewards/correctness_reward/mean": task, "rewards/format_reward/mean": form,
                "entropy": 0.86 * entropy_left**done * rng.uniform(0.95, 1.05),
                "frac_reward_zero_std": min(1.0, 0.16 + (alike - 0.16) * done), "grad_norm": 0.3, "loss": 0.0,
            }
        )  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("entropy_left", "alike", "task_gain", "label"),
    [
        (0.02, 0.98, 0.0, "entropy_collapse"),
        (0.02, 0.98, 0.3, "healthy"),
        (0.5, 0.3, 0.0, "plateau"),
        (0.25, 0.4, 0.0, "plateau"),
        (0.5, 0.3, 0.3, "healthy"),
    ],
)
def test_gains_are_judged_by_what_judges_the_task(
    entropy_left: float, alike: float, task_gain: float, label: str
) -> None:
    log = "\n".join(map(str, rows(120, entropy_left=entropy_left, alike=alike, task_gain=task_gain)))
    found = recommend(log)
    assert found.labels[0].label == label
    if not task_gain:
        assert any("'correctness_reward' 0.3" in evidence.text for evidence in found.labels[0].evidence)
