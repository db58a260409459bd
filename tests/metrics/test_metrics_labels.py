"""Each label from its own evidence, and not from what only looks like it."""

import numpy as np
import pytest

from grpo_rlvr.metrics import recommend
from grpo_rlvr.models.setup import parse_setup


def first(text, **known):
    return recommend(text, **known).labels[0].label


def names(text, **known):
    return {item.label for item in recommend(text, **known).labels}


def lines(rows):
    return "\n".join(map(str, rows))


def test_a_reward_never_paid_is_no_signal():
    rows = [{"reward": 0.0, "reward_std": 0.0, "frac_reward_zero_std": 1.0, "loss": 0.0, "step": i} for i in range(8)]
    answer = recommend(lines(rows))
    assert answer.labels[0].label == "no_signal" and answer.labels[0].confidence == "high"
    assert answer.labels[0].remedies[0].tool == "score_samples"


def test_four_equal_rows_are_not_yet_no_signal():
    rows = [{"reward": 0.0, "reward_std": 0.0, "loss": 0.0, "step": i} for i in range(4)]
    assert first(lines(rows)) == "too_short_to_tell"


def test_a_gradient_of_zero_with_differing_rewards_is_no_signal():
    rows = [
        {"reward": 0.3 + 0.05 * i, "reward_std": 0.4, "frac_reward_zero_std": 0.2, "grad_norm": 0.0, "step": i}
        for i in range(6)
    ]
    answer = recommend(lines(rows))
    assert answer.labels[0].label == "no_signal" and "does not reach the weights" in answer.labels[0].summary


def test_a_solved_task_is_no_alarm(simulate, console):
    columns = simulate(2, 40)
    columns["reward"] = np.clip(0.97 + 0.02 * np.random.default_rng(0).normal(size=40), 0, 1)
    columns["frac_reward_zero_std"] = np.full(40, 0.9)
    assert names(console(columns)) == {"healthy"}


def test_everything_at_the_cap_is_truncation_from_two_rows_on():
    rows = [
        {"completions/mean_length": 512.0, "completions/min_length": 512.0, "completions/max_length": 512.0,
         "completions/clipped_ratio": 1.0, "reward": 0.1 * i, "step": i}
        for i in range(2)
    ]  # fmt: skip
    assert first(lines(rows)) == "truncation"


def test_cutting_that_fades_while_the_reward_rises_is_no_alarm(simulate, console):
    columns = simulate(2, 60, rise=0.4)
    columns["completions/clipped_ratio"] = np.linspace(0.9, 0.52, 60)
    assert names(console(columns)) == {"healthy"}


def test_a_single_kl_spike_is_no_blow_up(simulate, console):
    columns = simulate(2, 60)
    columns["kl"][30] = 17.8
    columns["grad_norm"][30] = 155.0
    assert "kl_blowup" not in names(console(columns))


def test_a_reference_that_is_another_model_is_no_blow_up(simulate, console):
    columns = simulate(2, 60)
    columns["kl"] = 1.1 + 0.05 * np.random.default_rng(0).normal(size=60)
    assert "kl_blowup" not in names(console(columns))


def test_kl_that_leaves_and_stays_is_a_blow_up(simulate, console):
    columns = simulate(2, 60)
    columns["kl"][20:] = np.linspace(1, 30, 40)
    assert first(console(columns)) == "kl_blowup"


def test_one_overflow_that_passed_is_no_divergence(simulate, console):
    columns = simulate(2, 60)
    columns["grad_norm"][10] = float("inf")
    assert "divergence_nan" not in names(console(columns))


def test_a_scale_far_from_one_is_judged_alike(simulate, console):
    columns = simulate(3, 40)
    columns["reward"] = -20 + 30 * (columns["reward"] - 3 * 0.08 * np.linspace(0, 1, 40))
    assert first(console(columns)) == "divergence_nan"


def test_a_mixture_of_experts_with_mismatch_is_named_so(simulate, console):
    columns = simulate(2, 40)
    columns["sampling/sampling_logp_difference/mean"] = np.full(40, 0.3)
    moe = parse_setup({"model": {"moe": True}})
    assert first(console(columns)) == "offpolicy_mismatch"
    assert first(console(columns), setup=moe) == "moe_instability"


def test_windows_are_judged_by_size_alone():
    rows = ["| 1-50 | 1.0 | 0.9 |", "| 51-100 | 2.0 | 0.6 |", "| 101-150 | 3.0 | 0.2 |"]
    answer = recommend("\n".join(["| steps | reward | accuracy |", "|---|---|---|", *rows]))
    assert answer.labels[0].label == "reward_hacking"
    assert all(item.p is None for item in answer.labels[0].evidence)


def test_rows_that_are_different_runs_make_no_course():
    rows = "\n".join(f"| {lr} | {0.9 - 0.05 * i:.2f} | {200 + 40 * i} |" for i, lr in enumerate([1e-7] * 12))
    answer = recommend("| lr | reward | mean length |\n|---|---|---|\n" + rows)
    assert answer.parsed.kind == "runs"
    assert [item.label for item in answer.labels] == ["too_short_to_tell"]


def test_an_accuracy_column_stands_in_for_a_missing_reward():
    rows = "\n".join(f"{i},{0.2 + 0.03 * i}" for i in range(24))
    answer = recommend("step,accuracy\n" + rows)
    assert answer.labels[0].label == "healthy"
    assert any("measure of progress" in note for note in answer.parsed.notes)


def test_evidence_carries_rows_levels_slope_and_p(simulate, console):
    evidence = recommend(console(simulate(1, 60, rise=0.4))).labels[0].evidence[0]
    assert evidence.rows == 60 and evidence.column == "reward" and evidence.p < 0.01
    assert evidence.first < evidence.last and evidence.slope == pytest.approx(0.4, abs=0.1)


def test_columns_that_would_decide_are_named(simulate, console):
    columns = {name: values for name, values in simulate(1, 60).items() if name in ("reward", "step")}
    answer = recommend(console(columns))
    assert "frac_reward_zero_std" in answer.labels[0].would_decide
    assert any("entropy" in text for text in answer.missing)


def test_a_reward_that_falls_alone_stands_after_the_cause_that_is_named(simulate, console):
    columns = simulate(2, 60) | {"completions/clipped_ratio": np.full(60, 0.8)}
    columns["reward"] = np.linspace(0.5, 0.35, 60) + 0.01 * np.random.default_rng(1).normal(size=60)
    found = recommend(console(columns)).labels
    assert [item.label for item in found] == ["truncation", "divergence_nan"] and found[1].confidence == "low"


def test_a_kl_that_grows_from_nothing_is_no_company_of_a_falling_reward(simulate, console):
    columns = simulate(2, 60)
    columns["reward"] = np.linspace(0.5, 0.35, 60) + 0.01 * np.random.default_rng(1).normal(size=60)
    columns["kl"] = np.linspace(0.001, 0.02, 60)
    assert recommend(console(columns)).labels[0].confidence == "low"
    columns["kl"] = np.linspace(0.001, 2.0, 60)
    assert recommend(console(columns)).labels[0].confidence != "low"
