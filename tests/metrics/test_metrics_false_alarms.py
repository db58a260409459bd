"""How often a healthy run is called sick, and a sick one healthy, on simulated runs with realistic noise."""

import numpy as np
import pytest

from grpo_rlvr.metrics import recommend
from grpo_rlvr.metrics.context import read_context
from grpo_rlvr.metrics.diagnose import QUIET, diagnose
from grpo_rlvr.metrics.signals import Signals
from grpo_rlvr.metrics.watch import from_rows, watch_rows

SERIES = 400
NOTHING_KNOWN = read_context({}, None, None)


def labels(rows):
    return {item.label for item in diagnose(Signals(from_rows(rows)), NOTHING_KNOWN)}


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "drift", "reward_drift"), [(20, 0.65, 0.0), (40, 0.65, 0.65), (1500, 0.9, 0.9)])
def test_at_most_five_percent_of_healthy_runs_raise_any_alarm(simulate, rows_of, rows, drift, reward_drift):
    # A long run costs as much as many short ones: fewer of them.
    series = SERIES if rows < 100 else SERIES // 4
    alarms = sum(bool(labels(rows_of(simulate(seed, rows, drift, reward_drift))) - QUIET) for seed in range(series))
    assert alarms <= 0.05 * series, alarms


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["slope", "step"])
def test_a_reward_that_loses_three_noise_sds_in_forty_rows_is_found(simulate, rows_of, noise, shape):
    time = np.linspace(0, 1, 40)
    course = time if shape == "slope" else (time > 0.5).astype(float)
    found = 0
    for seed in range(SERIES):
        columns = simulate(seed)
        columns["reward"] = 0.5 + 0.08 * noise(np.random.default_rng(seed + 10_000), 40, 0.0) - 3 * 0.08 * course
        found += "divergence_nan" in labels(rows_of(columns))
    assert found >= 0.95 * SERIES, found


def test_an_entropy_that_dies_while_the_reward_stays_is_found(simulate, rows_of, noise):
    found = 0
    for seed in range(100):
        columns = simulate(seed)
        decay = np.exp(-3 * np.linspace(0, 1, 40))
        columns["entropy"] = 0.4 * decay * (1 + 0.15 * noise(np.random.default_rng(seed + 10_000), 40, 0.5))
        found += "entropy_collapse" in labels(rows_of(columns))
    assert found >= 95, found


def test_low_entropy_with_a_rising_reward_is_convergence(simulate, rows_of):
    columns = simulate(3, 60, rise=0.4)
    columns["entropy"] = columns["entropy"] * np.exp(-4 * np.linspace(0, 1, 60))
    assert labels(rows_of(columns)) == {"healthy"}


@pytest.mark.parametrize(("rows", "share"), [(60, 0.8), (1500, 0.95)])
def test_an_accuracy_that_turns_while_the_reward_rises_on_is_found(simulate, rows_of, noise, rows, share):
    time = np.linspace(0, 1, rows)
    course = np.where(time < 0.6, 0.3 + 0.3 * time / 0.6, 0.6 - 0.24 * (time - 0.6) / 0.4)
    sd = 0.03 if rows < 100 else 0.12
    found = 0
    for seed in range(40):
        columns = simulate(seed, rows, rise=0.6)
        columns["rewards/accuracy/mean"] = course + sd * noise(np.random.default_rng(seed + 10_000), rows, 0.3)
        found += "reward_hacking" in labels(rows_of(columns))
    assert found >= share * 40, found


@pytest.mark.slow
def test_a_healthy_run_watched_every_five_rows_stays_silent(simulate, rows_of):
    alarmed = 0
    for seed in range(60):
        rows = rows_of(simulate(seed, 80, 0.65, 0.65))
        alarmed += any(watch_rows(rows[:seen]).alarm for seen in range(10, 81, 5))
    assert alarmed <= 0.05 * 60, alarmed


def test_watching_tells_a_hard_fact_at_once(simulate, rows_of):
    rows = rows_of(simulate(1, 12))
    assert not watch_rows(rows).alarm
    broken = [*rows, *({**rows[-1], "grad_norm": float("nan"), "step": 13.0 + i} for i in range(3))]
    update = watch_rows(broken)
    assert update.alarm and update.labels[0].label == "divergence_nan"


def test_watching_says_when_to_look_again(simulate, rows_of):
    rows = rows_of(simulate(1, 23))
    assert watch_rows(rows[:3]).next_look == 10
    update = watch_rows(rows)
    assert (update.looks, update.next_look, update.rows) == (3, 25, 23)


def test_a_run_that_dies_is_seen_while_watching(simulate, rows_of):
    columns = simulate(1, 60)
    columns["reward"][40:] = 0.0
    columns["entropy"][40:] = 4.0
    rows = rows_of(columns)
    first = next(seen for seen in range(10, 61, 5) if watch_rows(rows[:seen]).alarm)
    assert 40 < first <= 55


@pytest.mark.parametrize(
    "config",
    [
        {"importance_sampling_level": "sequence"},
        {"loss_type": "gspo"},
        {"actor_rollout_ref.actor.policy_loss.loss_mode": "gspo"},
        {"actor_rollout_ref": {"actor": {"policy_loss": {"loss_mode": "gspo"}}}},
        {"advantage_estimator": "gspo"},
        {},
    ],
)
def test_the_clipped_share_of_gspo_is_no_mismatch(simulate, console, config):
    columns = simulate(5, 60) | {"clip_ratio/region_mean": np.full(60, 0.2)}
    columns["reward"] = np.linspace(0.3, 0.7, 60) + 0.01 * np.random.default_rng(0).normal(size=60)
    answer = recommend(console(columns), config=config)
    assert not {item.label for item in answer.labels} - {"healthy", "plateau"}


def test_the_same_share_under_token_ratios_is_one(simulate, console):
    columns = simulate(5, 60) | {"clip_ratio/region_mean": np.full(60, 0.2)}
    answer = recommend(console(columns), config={"loss_type": "grpo"})
    assert "offpolicy_mismatch" in {item.label for item in answer.labels}


def test_options_of_another_trainer_are_read_nested_or_dotted():
    nested = {"data": {"max_response_length": 900}, "actor_rollout_ref": {"rollout": {"n": 5}}}
    dotted = {"data.max_response_length": 900, "actor_rollout_ref.rollout.n": 5}
    for config in (nested, dotted):
        context = read_context(config, None, None)
        assert (context.cap, context.num_generations) == (900, 5)
        assert context.given == config


def validated(seed, rows, every, fall=0.0):
    """verl's console: a rising reward, and every few steps several measures of each of several benchmarks."""
    rng = np.random.default_rng(seed)
    ways = ("mean@1", "best@2/mean", "best@4/mean", "worst@2/mean", "worst@4/mean", "maj@4/mean")
    names = [f"val-core/set{i}/acc/{way}" for i in range(5) for way in ways]
    base = rng.uniform(0.1, 0.7, len(names))
    for step in range(1, rows + 1):
        line = f"step:{step} - critic/score/mean:{0.3 + 0.3 * step / rows + 0.04 * rng.normal():.4f}"
        if step % every == 0:
            measures = base * (1 - fall * step / rows) + 0.02 * rng.normal(size=len(names))
            line += "".join(f" - {name}:{value:.4f}" for name, value in zip(names, measures, strict=True))
        yield line


def test_one_of_dozens_of_measures_that_falls_by_chance_is_no_hacking():
    answers = [recommend("\n".join(validated(seed, 30, 10))) for seed in range(8)]
    assert [item.label for answer in answers for item in answer.labels] == ["healthy"] * 8


@pytest.mark.parametrize(("rows", "every"), [(30, 10), (60, 4)])
def test_dozens_of_measures_that_fall_together_are_hacking(rows, every):
    label = recommend("\n".join(validated(1, rows, every, fall=0.5))).labels[0]
    assert label.label == "reward_hacking" and any("mean of 30 measures" in fact.text for fact in label.evidence)


def test_three_evaluations_that_go_back_and_forth_are_no_hacking(simulate, rows_of):
    rows = rows_of(simulate(3, 60, rise=0.4))
    for at, value in ((19, 0.24), (39, 0.26), (59, 0.17)):
        rows[at]["eval_accuracy"] = value
    assert labels(rows) == {"healthy"}
    for at, value in ((19, 0.30), (39, 0.26), (59, 0.17)):
        rows[at]["eval_accuracy"] = value
    assert "reward_hacking" in labels(rows)
