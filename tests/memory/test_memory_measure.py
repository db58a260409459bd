"""Measured mode on a CPU: real TRL steps, term by term."""

from pathlib import Path

import pytest

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory import measure
from grpo_rlvr.memory.measuring import MeasurementError
from grpo_rlvr.models.setup import parse_setup
from grpo_rlvr.workspace import Workspace

CONFIG = {
    "per_device_train_batch_size": 4, "num_generations": 2, "max_completion_length": 8, "bf16": False,
    "gradient_accumulation_steps": 1, "use_cpu": True,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("adapter", [{}, {"peft": True, "lora_r": 4, "lora_targets": "all-linear"}])
def test_two_real_steps_agree_with_the_estimate_to_the_byte(tiny_model: Path, adapter: dict[str, object]) -> None:
    setup = parse_setup(
        {"model": {"path": ".", **adapter}, "hardware": {"device": "cpu"}, "dataset": {"max_prompt_tokens": 5}}
    )
    result = measure(CONFIG, setup, Workspace.open(tiny_model))
    found = {entry.name: entry for entry in result.comparison}
    assert set(found) == {"weights", "gradients", "optimizer"} | ({"adapters"} if adapter else set())
    for entry in found.values():
        assert abs(entry.error) < 0.001, entry
    assert result.device == "cpu"
    assert result.environment["completion_lengths"] == [8, 8]
    assert result.environment["prompt_lengths"] == [5, 5]


@pytest.mark.slow
def test_a_dtype_that_only_the_setup_states_is_the_one_that_is_loaded(tiny_model: Path) -> None:
    setup = parse_setup(
        {"model": {"path": ".", "dtype": "bf16", "attn": "eager"}, "hardware": {"device": "cpu"},
         "dataset": {"max_prompt_tokens": 33}}
    )  # fmt: skip
    result = measure(CONFIG | {"load_best_model_at_end": True, "num_iterations": 2}, setup, Workspace.open(tiny_model))
    for entry in result.comparison:
        assert abs(entry.error) < 0.001, entry
    assert set(result.environment["prompt_lengths"]) == {33}


@pytest.mark.slow
def test_a_config_that_trl_refuses_is_reported_with_its_reason(tiny_model: Path) -> None:
    setup = parse_setup({"model": {"path": "."}, "hardware": {"device": "cpu"}, "dataset": {"max_prompt_tokens": 5}})
    with pytest.raises(MeasurementError, match="num_generations"):
        measure(CONFIG | {"num_generations": 3}, setup, Workspace.open(tiny_model))


def test_several_gpus_are_refused_before_anything_starts(tiny_model: Path) -> None:
    setup = parse_setup({"model": {"path": "."}, "hardware": {"gpus": 4, "gpu": "H100"}})
    with pytest.raises(InputError, match="one process"):
        measure({}, setup, Workspace.open(tiny_model))
