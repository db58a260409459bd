"""Which variant is advised, with which arguments, and what brakes it."""

import json
from pathlib import Path

import numpy as np
import pytest

from grpo_rlvr.metrics import compare, recommend
from grpo_rlvr.metrics.variants import BY_NAME, DEFAULTS, change_for, default_of
from grpo_rlvr.models.setup import parse_setup

TABLES = Path(__file__).parents[2] / "server" / "grpo_rlvr" / "config" / "schema"
OFF_POLICY = {"num_iterations": 4, "gradient_accumulation_steps": 1, "max_completion_length": 1024, "loss_type": "dapo"}
MOE = parse_setup({"model": {"moe": True}})


@pytest.fixture
def collapse(simulate, console):
    columns = simulate(5, 60)
    columns["entropy"] = 0.4 * np.exp(-4 * np.linspace(0, 1, 60))
    return console(columns)


@pytest.fixture
def growing(simulate, console):
    columns = simulate(5, 60)
    columns["completions/mean_length"] = 200 * (1 + 1.5 * np.linspace(0, 1, 60)) + np.random.default_rng(0).normal(
        0, 5, 60
    )
    return console(columns)


@pytest.fixture
def rising(simulate, console):
    return console(simulate(5, 60, rise=0.4))


def test_entropy_collapse_off_policy_gets_clip_higher_and_only_what_is_new(collapse):
    advice = recommend(collapse, config=OFF_POLICY, trl_version="1.16.0").recommendation
    assert advice.variant == "dapo"
    assert advice.kwargs == {"epsilon_high": 0.28, "mask_truncated_completions": True}
    assert advice.already == {"loss_type": "dapo", "epsilon": 0.2, "beta": 0.0}
    assert any("dynamic sampling" in text for text in advice.preconditions)


def test_entropy_collapse_on_policy_is_told_that_clip_higher_is_idle(collapse):
    advice = recommend(collapse, config={**OFF_POLICY, "num_iterations": 1}, trl_version="1.16.0").recommendation
    assert advice.variant == "not_a_variant_problem"
    assert "idle" in advice.why and advice.kwargs == {"entropy_coef": 0.001}
    assert any("num_iterations" in text for text in advice.preconditions)


def test_an_older_trl_is_not_given_arguments_it_lacks(collapse):
    advice = recommend(collapse, config={**OFF_POLICY, "num_iterations": 1}, trl_version="1.7.0").recommendation
    assert advice.kwargs == {} and any("entropy_coef (TRL 1.8" in text for text in advice.preconditions)


def test_length_growth_under_the_plain_loss_gets_dr_grpo_with_a_word_on_the_rate(growing):
    advice = recommend(
        growing, config={"loss_type": "grpo", "max_completion_length": 2048}, trl_version="1.16.0"
    ).recommendation
    assert advice.variant == "dr_grpo"
    assert advice.kwargs == {"loss_type": "dr_grpo", "scale_rewards": "none"}
    assert any("re-tune the learning rate" in text for text in advice.preconditions)


def test_before_strings_existed_scale_rewards_is_a_bool(growing):
    advice = recommend(growing, config={"loss_type": "grpo", "beta": 0.0}, trl_version="0.17.0").recommendation
    assert advice.kwargs == {"loss_type": "dr_grpo", "scale_rewards": False}


def test_length_growth_under_a_token_level_loss_is_not_a_variant_problem(growing):
    answer = recommend(growing, config={"loss_type": "dapo"}, trl_version="1.16.0")
    assert answer.labels[0].label == "length_bias" and answer.recommendation.variant == "not_a_variant_problem"


def test_a_mixture_of_experts_that_reuses_batches_gets_gspo_before_any_symptom(rising):
    answer = recommend(rising, config=OFF_POLICY, setup=MOE, trl_version="1.16.0")
    assert [item.label for item in answer.labels] == ["healthy"]
    assert answer.recommendation.variant == "gspo"
    assert answer.recommendation.kwargs == {
        "importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4,
    }  # fmt: skip
    assert any("off-policy" in text for text in answer.recommendation.preconditions)


@pytest.mark.parametrize(
    "config", [{**OFF_POLICY, "num_iterations": 1}, {**OFF_POLICY, "importance_sampling_level": "sequence"}]
)
def test_a_mixture_of_experts_stays_when_gspo_is_idle_or_there_already(rising, config):
    assert recommend(rising, config=config, setup=MOE).recommendation.variant == "grpo"


def test_an_on_policy_mixture_of_experts_is_told_what_to_set_before_gspo_can_act(rising):
    advice = recommend(rising, config={**OFF_POLICY, "num_iterations": 1}, setup=MOE).recommendation
    assert any("idle on-policy" in text and "steps_per_generation" in text for text in advice.alternatives)


def test_a_variant_that_is_in_place_is_not_sold_again(collapse):
    config = {**OFF_POLICY, "epsilon_high": 0.28, "mask_truncated_completions": True, "beta": 0.0}
    advice = recommend(collapse, config=config, trl_version="1.16.0").recommendation
    assert advice.variant == "not_a_variant_problem" and "already" in advice.why and advice.kwargs == {}


def test_an_older_trl_keeps_its_loss_where_dapo_would_scale_wrongly(collapse):
    config = {"loss_type": "grpo", "steps_per_generation": 8, "gradient_accumulation_steps": 2, "beta": 0.0}
    old = recommend(collapse, config=config, trl_version="1.8.0").recommendation
    assert old.variant == "dapo" and "loss_type" not in old.kwargs
    new = recommend(collapse, config=config, trl_version="1.16.0").recommendation
    assert new.kwargs["loss_type"] == "dapo"


def test_a_metric_that_the_config_blinds_is_said(rising):
    answer = recommend(rising, config={**OFF_POLICY, "scale_rewards": "batch"})
    assert any("blind" in text for text in answer.missing)


def test_being_a_mixture_of_experts_is_no_finding(rising):
    assert {item.label for item in recommend(rising, setup=MOE).labels} == {"healthy"}


def test_a_healthy_run_stays_and_is_never_certified(rising):
    answer = recommend(rising)
    assert answer.recommendation.variant == "grpo" and answer.recommendation.kwargs == {}
    assert "No sign of trouble in these metrics" in answer.labels[0].summary
    assert "never that the policy is good" in answer.caveat


def test_a_gamed_reward_is_not_a_variant_problem(simulate, console):
    columns = simulate(7, 60, rise=0.4)
    columns["eval_accuracy"] = 0.8 - 0.6 * np.linspace(0, 1, 60) + np.random.default_rng(0).normal(0, 0.02, 60)
    answer = recommend(console(columns), config=OFF_POLICY)
    assert answer.labels[0].label == "reward_hacking"
    assert answer.labels[0].remedies[0].tool == "score_samples"
    assert answer.recommendation.variant == "not_a_variant_problem"


@pytest.mark.parametrize("name", [name for name, recipe in BY_NAME.items() if recipe.main])
def test_a_recipe_in_place_changes_nothing(name):
    recipe = BY_NAME[name]
    assert change_for(recipe, dict(recipe.kwargs), (1, 16)).set == {}


@pytest.mark.parametrize("recipe", BY_NAME.values(), ids=list(BY_NAME))
def test_every_argument_of_a_recipe_is_known_from_the_version_it_names(recipe):
    assert change_for(recipe, {}, recipe.since).unknown == ()


@pytest.mark.parametrize("path", sorted(TABLES.glob("trl-*.json")), ids=lambda path: path.stem)
def test_the_defaults_are_those_of_every_trl_release(path):
    version = tuple(int(part) for part in path.stem.removeprefix("trl-").split("."))
    fields = json.loads(path.read_text(encoding="utf-8"))["properties"]
    for argument in DEFAULTS:
        if argument in fields:
            assert default_of(argument, version) == fields[argument]["default"], argument
        else:
            with pytest.raises(KeyError):
                default_of(argument, version)


@pytest.mark.parametrize("recipe", BY_NAME.values(), ids=list(BY_NAME))
def test_the_installed_trl_accepts_every_recipe(recipe):
    from trl import GRPOConfig

    config = GRPOConfig(output_dir="unused", use_cpu=True, bf16=False, report_to="none", **recipe.kwargs)
    assert {name: getattr(config, name) for name in recipe.kwargs} == recipe.kwargs


@pytest.mark.parametrize("variant", ["dapo", "dr_grpo", "gspo"])
def test_a_proposed_config_passes_the_config_check(variant):
    from grpo_rlvr.config import check

    base = {"num_generations": 8, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 2,
            "steps_per_generation": 8, "max_completion_length": 1024, "loss_type": "grpo",
            "output_dir": "out"}  # fmt: skip
    proposed = {**base, **change_for(BY_NAME[variant], base, (1, 16)).set}
    report = check(proposed, parse_setup({"hardware": {"num_processes": 1}}), trl_version="1.16.0")
    assert not [f for f in report.findings if f.severity == "error"], report.findings


def test_two_runs_within_noise_are_not_ranked(simulate, console):
    result = compare(console(simulate(1, 60)), console(simulate(2, 60)))
    assert result.verdict == "within_noise" and "seeds" in result.notes[0]


def test_a_large_difference_is_ranked_by_reward_alone(simulate, console):
    result = compare(console(simulate(1, 60)), console(simulate(2, 60, rise=0.4)))
    assert result.verdict == "second_better" and "training reward alone" in result.why


def test_short_runs_are_not_compared(simulate, console):
    assert compare(console(simulate(1, 6)), console(simulate(2, 6, rise=0.9))).verdict == "unknown"


@pytest.mark.parametrize("seed", range(20))
def test_two_seeds_of_one_recipe_are_never_ranked(simulate, console, seed):
    assert compare(console(simulate(seed, 40)), console(simulate(seed + 500, 40))).verdict == "within_noise"
