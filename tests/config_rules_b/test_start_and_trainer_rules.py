"""What the rules about GRPOTrainer's arguments and about the start of a run say in full."""

from typing import Any

import pytest

from config_rules_b.cases_start_and_trainer import COLOCATE


def test_reentrant_is_given_its_name_and_nothing_is_lost(findings: Any) -> None:
    given = {
        "gradient_checkpointing": True,
        "gradient_checkpointing_kwargs": {"reentrant": False, "preserve_rng_state": True},
    }
    found = next(item for item in findings(given, {}) if item.rule == "checkpointing-option-unknown")
    assert found.fix is not None and found.fix.safe
    assert found.fix.set == {
        "gradient_checkpointing_kwargs": {"preserve_rng_state": True, "use_reentrant": False},
    }


@pytest.mark.parametrize(
    ("given", "off"),
    [
        ({"eval_on_start": True}, {"eval_on_start": False}),
        (
            {"eval_on_start": True, "eval_strategy": "steps", "eval_steps": 5},
            {"eval_strategy": "no", "eval_on_start": False},
        ),
    ],
)
def test_every_switch_that_would_evaluate_is_turned_off(findings: Any, given: dict[str, Any], off: Any) -> None:
    found = findings({"num_generations": 8, **given}, {"dataset": {"eval": None}})
    fix = next(item.fix for item in found if item.rule == "eval-without-dataset")
    assert fix is not None and fix.set == off


NULLS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"vllm_mode": None, "vllm_gpu_memory_utilization": None}, {}, False),
    ({"vllm_mode": None, "use_vllm": True}, {}, True),
    ({"top_p": None, "repetition_penalty": None}, {}, False),
    ({"top_p": None, **COLOCATE}, {}, True),
    ({"ref_model_sync_steps": None}, {}, False),
    ({"ref_model_sync_steps": None, "sync_ref_model": True, "beta": 0.04}, {}, True),
    ({"save_steps": None, "save_strategy": "no"}, {}, False),
    ({"save_steps": None}, {}, True),
    ({"per_device_eval_batch_size": None}, {}, False),
    ({"per_device_eval_batch_size": None, "eval_strategy": "epoch"}, {}, True),
    ({"sapo_temperature_neg": None}, {}, False),
    ({"sapo_temperature_neg": None, "loss_type": "sapo"}, {}, True),
    ({"temperature": None}, {}, True),
]


@pytest.mark.parametrize(("config", "setup", "fails"), NULLS)
def test_null_is_an_error_only_where_something_reads_the_option(
    findings: Any, config: dict[str, Any], setup: dict[str, Any], fails: bool
) -> None:
    # Each row was run on trl 1.16.0 without vLLM; the vLLM ones are read from its sampling parameters.
    assert any(finding.rule == "value-of-wrong-type" for finding in findings(config, setup)) is fails


NEW = {"versions": {"transformers": "5.24.0"}}
# Each row was run on trl 1.16.0 with transformers 5.24.0: (config, setup, rule, whether it failed).
MEASURED: list[tuple[dict[str, Any], dict[str, Any], str, bool]] = [
    ({"dataloader_multiprocessing_context": "spawn"}, NEW, "worker-start-without-workers", True),
    ({"accelerator_config": {"dispatch_batches": True}}, {}, "batches-dispatched", True),
    ({"accelerator_config": {"split_batches": True}}, {}, "batches-dispatched", False),
    (
        {"accelerator_config": {"dispatch_batches": True}, "max_steps": 5},
        {"dataset": {"streaming": True}},
        "batches-dispatched",
        False,
    ),
    ({"optim_args": "amsgrad"}, {}, "optimizer-options-malformed", True),
    ({"optim_args": "rank=64, scale=0.1"}, {}, "optimizer-options-malformed", False),
    ({"adam_beta1": 0}, {}, "adam-betas-of-two-types", True),
    ({"adam_beta1": 0.0}, {}, "adam-betas-of-two-types", False),
    ({"gradient_checkpointing_kwargs": "no"}, {}, "value-of-wrong-type", True),
    ({"gradient_checkpointing_kwargs": '{"use_reentrant": false}'}, {}, "value-of-wrong-type", False),
    ({"lr_scheduler_kwargs": "2"}, {}, "value-of-wrong-type", True),
    ({"generation_kwargs": "no"}, {}, "value-of-wrong-type", True),
    ({"accelerator_config": "accelerator.json"}, {}, "value-of-wrong-type", False),
    ({"cache_implementation": "no"}, {}, "value-not-allowed", True),
    ({"cache_implementation": "static"}, {}, "value-not-allowed", False),
    ({"neftune_noise_alpha": -1.0}, {}, "value-out-of-range", True),
    ({"pad_to_multiple_of": 0}, {}, "value-out-of-range", True),
    ({"seed": -1}, {}, "value-out-of-range", True),
    ({"max_grad_norm": -1.0}, {}, "value-out-of-range", False),
    ({"num_train_epochs": -1, "max_steps": 10}, {}, "value-out-of-range", False),
    ({"num_train_epochs": -1}, {}, "value-out-of-range", True),
    ({"per_device_eval_batch_size": 0}, {}, "value-out-of-range", False),
    ({"per_device_eval_batch_size": 0, "eval_strategy": "epoch"}, {}, "value-out-of-range", True),
    ({"load_best_model_at_end": True, "save_strategy": "no"}, {}, "best-model-without-matching-eval", False),
    ({"load_best_model_at_end": True}, {}, "best-model-without-matching-eval", True),
    ({"tf32": True}, {"hardware": {"device": "cpu"}}, "tf32-without-ampere", True),
    ({"tf32": True}, {"hardware": {"device": "cuda", "gpu": "H100"}}, "tf32-without-ampere", False),
    ({"tf32": False}, {"hardware": {"device": "cuda", "gpu": "T4"}}, "tf32-without-ampere", False),
    (
        {"activation_checkpointing": True, "activation_checkpointing_kwargs": {"a": 1}},
        NEW,
        "checkpointing-option-unknown",
        True,
    ),
    (
        {"activation_checkpointing": True, "activation_checkpointing_kwargs": {"every_n_layers": 2, "offload": True}},
        NEW,
        "checkpointing-option-unknown",
        False,
    ),
    (
        {"activation_checkpointing": False, "gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"a": 1}},
        NEW,
        "checkpointing-option-unknown",
        False,
    ),
]


@pytest.mark.parametrize(("config", "setup", "rule", "fails"), MEASURED)
def test_what_trl_does_with_the_option_is_what_is_said(
    findings: Any, config: dict[str, Any], setup: dict[str, Any], rule: str, fails: bool
) -> None:
    assert any(finding.rule == rule for finding in findings(config, setup)) is fails


def test_a_fix_uses_the_name_that_the_config_uses(findings: Any) -> None:
    given = {"activation_checkpointing": True, "activation_checkpointing_kwargs": {"reentrant": False}}
    found = next(item for item in findings(given, NEW) if item.rule == "checkpointing-option-unknown")
    assert found.fix is not None and found.fix.set == {"activation_checkpointing_kwargs": {"use_reentrant": False}}


AT_START = {"eval_on_start": True, "per_device_eval_batch_size": 6, "num_generations": 4}
EVALUATION: list[tuple[dict[str, Any], str, bool]] = [
    # On trl 1.16.0 the first of them raises at the evaluation before step 1 (shape '[-1, 4]' is invalid).
    (AT_START, "eval-batch-not-divisible-by-group", True),
    ({**AT_START, "per_device_eval_batch_size": 8}, "eval-batch-not-divisible-by-group", False),
    ({**AT_START, "eval_on_start": False}, "eval-batch-not-divisible-by-group", False),
    ({"eval_on_start": True, "lr_scheduler_type": "reduce_lr_on_plateau"}, "scheduler-needs-evaluation", True),
    ({"eval_on_start": True, "per_device_eval_batch_size": None}, "value-of-wrong-type", True),
    ({"entropy_target": None}, "value-of-wrong-type", False),
    ({"entropy_target": None, "use_adaptive_entropy": True}, "value-of-wrong-type", True),
]


@pytest.mark.parametrize(("config", "rule", "fails"), EVALUATION)
def test_an_evaluation_before_training_needs_what_any_evaluation_needs(
    findings: Any, config: dict[str, Any], rule: str, fails: bool
) -> None:
    found = findings(config, {"dataset": {"eval": {"rows": 8}}})
    assert any(finding.rule == rule for finding in found) is fails
