"""Advice on a log of another trainer is given in that trainer's names, and says where it has none."""

import numpy as np
import pytest

from grpo_rlvr.metrics import recommend
from grpo_rlvr.metrics.aliases import ALIASES
from grpo_rlvr.metrics.context import read_context
from grpo_rlvr.metrics.dialects import DIALECTS, translate
from grpo_rlvr.metrics.variants import BY_NAME, DEFAULTS
from grpo_rlvr.models.setup import parse_setup

ACTOR = "actor_rollout_ref.actor"
REUSED = {"data": {"train_batch_size": 512}, "actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 128}}}
VERL = {
    "reward": "critic/score/mean", "completions/mean_length": "response_length/mean", "entropy": "actor/entropy",
    "kl": "actor/kl_loss", "completions/clipped_ratio": "response_length/clip_ratio",
}  # fmt: skip
# Words that mean nothing to the owner of another trainer.
TRLS = (
    "steps_per_generation",
    "num_iterations",
    "entropy_coef=",
    "importance_sampling_level",
    "TRL lacks",
    "not in TRL",
)


@pytest.fixture
def verl(simulate, rows_of):
    def write(**changed):
        columns = simulate(5, 60) | changed
        return "\n".join(
            f"step:{row['step']:g} - " + " - ".join(f"{VERL[name]}:{row[name]}" for name in VERL)
            for row in rows_of(columns)
        )

    return write


SPENT = 0.4 * np.exp(-4 * np.linspace(0, 1, 60))
GROWING = 200 * (1 + 1.5 * np.linspace(0, 1, 60))


def told(answer):
    advice = answer.recommendation
    remedies = [remedy for label in answer.labels for remedy in label.remedies]
    return " ".join(
        (*advice.preconditions, *advice.alternatives, advice.why, *(remedy.action for remedy in remedies))
    ), [name for remedy in remedies for name in remedy.kwargs] + list(advice.kwargs)


def test_clip_higher_is_named_as_verl_names_it(verl):
    answer = recommend(verl(entropy=SPENT), config=REUSED)
    advice = answer.recommendation
    assert (advice.variant, advice.arguments_of) == ("dapo", "verl")
    assert advice.kwargs[f"{ACTOR}.clip_ratio_high"] == 0.28
    text, names = told(answer)
    assert "filter_groups" in text and "no option of verl is known here for mask_truncated_completions=True" in text
    assert not [word for word in TRLS if word in text] and not set(names) & set(DEFAULTS)


def test_an_entropy_bonus_is_named_as_verl_names_it(verl):
    answer = recommend(verl(entropy=SPENT))
    assert answer.recommendation.kwargs == {f"{ACTOR}.entropy_coeff": 0.001}
    assert any("ppo_mini_batch_size" in text for text in answer.recommendation.preconditions)
    assert "actor/pg_clipfrac" in answer.labels[0].would_decide


def test_what_the_config_states_in_its_own_names_is_not_sold_again(verl):
    config = {"actor_rollout_ref": {"actor": {"loss_agg_mode": "seq-mean-token-mean", "use_kl_loss": False}}}
    advice = recommend(verl(**{"completions/mean_length": GROWING}), config=config).recommendation
    assert advice.variant == "dr_grpo" and advice.already == {f"{ACTOR}.use_kl_loss": False}
    assert advice.kwargs[f"{ACTOR}.loss_agg_mode"] == "seq-mean-token-sum-norm"


def test_the_config_check_of_trl_is_not_offered_to_others(verl, simulate, console):
    cut = {"completions/clipped_ratio": np.full(60, 0.8)}
    other, own = recommend(verl(**cut)).labels[0], recommend(console(simulate(5, 60) | cut)).labels[0]
    assert other.label == own.label == "truncation"
    assert "check_config" in {remedy.tool for remedy in own.remedies}
    assert "check_config" not in {remedy.tool for remedy in other.remedies}
    assert "overlong_buffer_cfg" in " ".join(remedy.action for remedy in other.remedies)


def test_a_trainer_without_known_options_is_told_that_the_names_are_trls():
    rows = (f"{{'batch/solve_none': 0.2, 'batch/solve_all': 0.1, 'reward': {0.5}, 'entropy': {e}}}" for e in SPENT)
    answer = recommend("\n".join(rows), config={"mode": "async", "model_name": "Qwen3"})
    assert answer.recommendation.variant == "dapo" and answer.recommendation.arguments_of == "trl"
    assert any("in TRL's names" in text for text in answer.recommendation.preconditions)


def test_the_default_loss_of_trl_is_not_assumed_for_a_trainer_built_on_it():
    config = {"per_device_train_batch_size": 4, "num_iterations": 2}
    assert read_context(config, None, None, ("trl",)).loss_type == "dapo"
    swift = read_context(config, None, None, ("ms-swift", "trl"))
    assert (swift.trainer, swift.loss_type, swift.off_policy) == ("ms-swift", None, True)


def test_the_config_says_whose_run_it_is_where_the_log_does_not():
    assert read_context({"per_device_train_batch_size": 4}, None, None, ("openrlhf",)).trainer == "trl"
    assert read_context(REUSED, None, None).trainer == "verl"
    assert read_context({"rollout.n": 8}, None, None).trainer == "unknown"


def test_a_ratio_of_sequences_is_named_in_every_trainer():
    level = {name: BY_NAME["gspo"].kwargs[name] for name in ("importance_sampling_level",)}
    assert [dialect.trainer for dialect in DIALECTS.values() if not translate(dialect, level)[0]] == []


def test_a_mixture_of_experts_in_verl_is_told_verls_names(verl):
    setup = parse_setup({"model": {"moe": True}})
    rising = 0.3 + 0.4 * np.linspace(0, 1, 60)
    advice = recommend(verl(reward=rising), setup=setup).recommendation
    assert any("loss_mode='gspo'" in text for text in advice.alternatives)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))
def test_a_dialect_names_arguments_that_trl_has_and_a_trainer_that_is_read(dialect):
    known = set(DEFAULTS) | {"top_p", "num_generations", "max_completion_length", "bf16"}
    assert {*dialect.names, *(name for name, _ in dialect.values)} <= known
    assert dialect.trainer in {alias.framework for alias in ALIASES} and dialect.read_in
