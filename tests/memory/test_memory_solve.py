"""Solving: the value found fits, the next one does not."""

from typing import Any

import pytest

from grpo_rlvr.config import check
from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory import estimate, solve
from grpo_rlvr.models.setup import parse_setup

LORA = {"name": "Qwen/Qwen2.5-7B", "peft": True, "lora_r": 16, "lora_targets": "all-linear"}
CONFIG = {"model_init_kwargs": {"dtype": "bfloat16"}, "use_vllm": True, "vllm_mode": "colocate"}


def verdict(config: dict[str, Any], hardware: dict[str, Any], model: dict[str, Any] = LORA) -> str:
    """Return the verdict of a run."""
    return estimate(config, parse_setup({"model": model, "hardware": hardware}), trl_version="1.16.0").verdict


@pytest.mark.parametrize("card", ["A100 80GB", "H200"])
def test_the_largest_batch_and_length_fit_and_the_next_do_not(card: str) -> None:
    hardware = {"gpu": card, "gpus": 1}
    solved = solve(CONFIG, parse_setup({"model": LORA, "hardware": hardware}), trl_version="1.16.0").solved
    assert solved is not None and solved.max_batch and solved.max_completion
    # A batch grows by the 8 completions of a group.
    for name, best, step in (
        ("per_device_train_batch_size", solved.max_batch, 8), ("max_completion_length", solved.max_completion, 1),
    ):  # fmt: skip
        assert verdict(CONFIG | {name: best}, hardware) == "fits"
        assert verdict(CONFIG | {name: best + step}, hardware) != "fits"


@pytest.mark.parametrize(("generations", "accumulation"), [(16, 1), (16, 4), (6, 4), (8, 8)])
def test_the_largest_batch_is_one_that_trl_takes(generations: int, accumulation: int) -> None:
    config = CONFIG | {"num_generations": generations, "gradient_accumulation_steps": accumulation}
    setup = parse_setup({"model": LORA, "hardware": {"gpu": "A100 80GB", "gpus": 2}})
    solved = solve(config, setup, trl_version="1.16.0").solved
    assert solved is not None and solved.max_batch
    found = check(config | {"per_device_train_batch_size": solved.max_batch}, setup, trl_version="1.16.0").findings
    assert not [finding.rule for finding in found if finding.severity == "error"]
    assert (solved.max_batch * 2 * accumulation) % generations == 0


def test_the_smallest_card_fits_and_every_smaller_one_does_not() -> None:
    config = CONFIG | {"use_vllm": False}
    solved = solve(config, parse_setup({"model": LORA}), trl_version="1.16.0").solved
    assert solved is not None and solved.smallest_card is not None
    for card in c.CARDS.values():
        small = next(card for card in c.CARDS.values() if card.label == solved.smallest_card)
        if card.memory_gb < small.memory_gb:
            assert verdict(config, {"gpu_mem_gb": card.memory_gb, "kind": card.label}) != "fits"
    assert verdict(config, {"gpu_mem_gb": small.memory_gb, "kind": small.label}) == "fits"


def test_the_fewest_gpus_are_counted_for_a_sharded_run() -> None:
    model = {"name": "Qwen/Qwen2.5-32B", "peft": False}
    sections = {"model": model, "hardware": {"gpu": "H100", "num_processes": 8}, "launch": {"zero_stage": 3}}
    config = CONFIG | {"vllm_mode": "server", "per_device_train_batch_size": 1, "num_generations": 2}
    solved = solve(config, parse_setup(sections), trl_version="1.16.0").solved
    assert solved is not None and solved.min_gpus is not None and 5 <= solved.min_gpus <= 12


def test_a_replicated_run_is_told_that_more_gpus_do_not_help() -> None:
    sections = {"model": {"name": "Qwen/Qwen2.5-14B", "peft": False}, "hardware": {"gpu": "H100"}}
    solved = solve(CONFIG | {"vllm_mode": "server"}, parse_setup(sections), trl_version="1.16.0").solved
    assert solved is not None and solved.min_gpus is None and solved.max_batch is None
    assert any("ZeRO-3" in note for note in solved.notes)


def test_without_a_card_only_the_card_is_sought() -> None:
    solved = solve(CONFIG, parse_setup({"model": LORA}), trl_version="1.16.0").solved
    assert solved is not None and solved.max_batch is None and solved.smallest_card is not None


def test_of_a_quantised_run_nothing_is_said_about_zero3_which_was_not_tried() -> None:
    setup = parse_setup(
        {"model": {"name": "Qwen/Qwen2.5-72B", "quantized": "nf4"}, "hardware": {"gpu": "L4", "gpus": 1}}
    )
    solved = solve({}, setup, trl_version="1.16.0").solved
    assert solved is not None and solved.min_gpus is None
    assert any("as the run is spread now" in note for note in solved.notes)
    assert not any("ZeRO-3" in note for note in solved.notes)
