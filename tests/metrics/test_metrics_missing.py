"""What an answer says it lacks: an independent measure, and why the columns at hand are none."""

from typing import Any

import pytest

from grpo_rlvr.metrics import recommend


def measure(**more: Any) -> list[str]:
    """Return what is said of an independent measure for a log of 25 rows whose reward rises; values of `more` get i."""
    rows = []
    for i in range(25):
        row: dict[str, Any] = {"step": i, "reward": 0.2 + 0.02 * i, "entropy": 0.5, "completions/mean_length": 200.0}
        rows.append(row | {name.replace("__", "/"): value(i) for name, value in more.items()})
    missing = recommend("\n".join(map(str, rows))).missing
    return [text for text in missing if "independent measure" in text]


def test_a_column_that_equals_the_reward_is_named_and_is_no_independent_measure() -> None:
    (text,) = measure(**{"rewards/accuracy/mean": lambda i: 0.2 + 0.02 * i})
    assert "'rewards/accuracy/mean' equals the reward itself" in text
    assert "per-reward column" not in text


def test_parts_of_the_reward_are_named_as_what_is_trained_on() -> None:
    parts = {"rewards/accuracy/mean": lambda i: 0.02 * i, "rewards/format/mean": lambda i: 0.2}
    (text,) = measure(**parts)
    assert "'rewards/accuracy/mean', 'rewards/format/mean' are part of the reward that is trained on" in text


def test_without_any_such_column_a_held_out_one_or_a_per_reward_one_is_asked_for() -> None:
    assert measure() == [
        "an independent measure (held-out accuracy or a per-reward column): reward hacking cannot be excluded"
    ]


@pytest.mark.parametrize("column", ["eval_reward", "val/accuracy", "accuracy"])
def test_with_a_measure_beside_the_reward_nothing_is_asked_for(column: str) -> None:
    assert measure(**{column: lambda i: 0.1 + 0.01 * i}) == []
