"""What a config really does, in words and numbers, version by version."""

from typing import Any

import pytest

from grpo_rlvr.config import check
from grpo_rlvr.models.check import Effective
from grpo_rlvr.models.setup import parse_setup


def effective(config: dict[str, Any], setup: dict[str, Any] | None = None, trl: str = "1.16.0") -> Effective:
    """Return the description of a config."""
    described = check(config, parse_setup(setup or {}), trl_version=trl).effective
    assert described is not None
    return described


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ("grpo", "averaged first"), ("bnpo", "micro-batch"), ("dr_grpo", "max_completion_length (512)"),
        ("dapo", "one update"), ("cispo", "REINFORCE"), ("sapo", "sigmoid"), ("vespo", "gamma"),
        ("luspo", "weighted by length"),
    ],
)  # fmt: skip
def test_each_loss_is_described_with_its_normaliser(loss: str, said: str) -> None:
    assert said in effective({"loss_type": loss}).loss


def test_a_loss_left_open_is_named_with_where_it_comes_from() -> None:
    assert "'dapo' (the default of this TRL version)" in effective({}).loss
    assert "'bnpo' (the default of this TRL version)" in effective({}, trl="0.18.2").loss
    assert "(the default" not in effective({"loss_type": "dapo"}).loss


def test_clipping_is_idle_on_policy_and_active_when_completions_are_reused() -> None:
    idle = effective({"per_device_train_batch_size": 8, "epsilon": 0.2, "epsilon_high": 0.28})
    assert idle.on_policy is True and "[0.8, 1.28], but idle" in idle.clipping
    reused = effective({"per_device_train_batch_size": 8, "num_iterations": 2})
    assert reused.on_policy is False and "active" in reused.clipping
    assert "capped at 5" in effective({"loss_type": "cispo", "epsilon_high": 5.0}).clipping
    assert effective({"loss_type": "sapo"}).clipping.startswith("none")


@pytest.mark.parametrize(
    ("config", "setup", "trl", "said"),
    [
        ({}, {}, "1.16.0", "none is loaded"),
        ({}, {}, "0.17.0", "second copy of the starting model"),
        ({"beta": 0.1}, {"model": {"peft": True}}, "1.16.0", "adapter switched off"),
        ({"beta": 0.1}, {"model": {"instance": "PeftModel"}}, "1.16.0", "frozen copy of the adapter"),
        (
            {"beta": 0.1},
            {"model": {"instance": "PreTrainedModel", "peft": False}},
            "1.16.0",
            "loaded again from the name",
        ),
    ],
)
def test_the_reference_model_is_named(config: dict[str, Any], setup: dict[str, Any], trl: str, said: str) -> None:
    assert said in effective(config, setup, trl).reference


def test_kl_is_logged_only_where_there_is_a_kl_term() -> None:
    assert "kl" not in effective({}).logged and "kl" in effective({"beta": 0.04}).logged
    assert "none" in effective({}).kl and "importance ratio" in effective({"beta": 0.04}).kl
    assert "importance ratio" not in effective({"beta": 0.04}, trl="1.5.1").kl


def test_the_batch_arithmetic_is_given_in_full() -> None:
    config = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 8, "steps_per_generation": 16}
    plan = effective(config, {"hardware": {"num_processes": 2}, "dataset": {"rows": 100}}).batch
    assert plan is not None
    assert (plan.completions_per_rollout, plan.prompts_per_rollout, plan.completions_per_update) == (128, 16, 64)
    assert (plan.updates_per_rollout, plan.rollouts_per_epoch, plan.prompts_dropped_per_epoch) == (2, 6, 4)


@pytest.mark.parametrize(
    ("config", "trl", "said"),
    [
        ({}, "1.16.0", "generate()"),
        ({"use_vllm": True}, "1.16.0", "colocate on 30% of each training GPU), with importance sampling correction"),
        ({"use_vllm": True}, "0.18.2", "a vLLM server"),
        ({"use_vllm": True}, "0.15.2", "a GPU of its own"),
        ({"use_transformers_continuous_batching": True}, "1.16.0", "continuous batching"),
    ],
)
def test_the_backend_is_the_one_of_the_version(config: dict[str, Any], trl: str, said: str) -> None:
    assert said in effective(config, trl=trl).generation


def test_arithmetic_that_does_not_come_out_leaves_the_rest_described() -> None:
    described = effective({"per_device_train_batch_size": 0})
    assert described.batch is None and "does not come out" in " ".join(described.summary)
