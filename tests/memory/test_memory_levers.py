"""Levers: what each saves is what the changed config takes, and real TRL accepts the change."""

from typing import Any

import pytest

from grpo_rlvr.memory import estimate
from grpo_rlvr.models.memory import Lever
from grpo_rlvr.models.setup import parse_setup

CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"use_vllm": True, "vllm_mode": "colocate", "gradient_accumulation_steps": 2, "bf16": False, "use_cpu": False},
     {"name": "Qwen/Qwen3-8B", "peft": True}),
    ({"gradient_checkpointing": False, "beta": 0.04, "steps_per_generation": 4, "bf16": False,
      "model_init_kwargs": {"attn_implementation": "eager"}}, {"name": "Qwen/Qwen2.5-1.5B", "peft": False}),
    ({"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.05, "bf16": False},
     {"name": "Qwen/Qwen3-8B", "peft": True}),
    ({"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.6, "vllm_max_model_length": 32768,
      "bf16": False}, {"name": "Qwen/Qwen2.5-7B", "peft": True}),
]  # fmt: skip


def changed(config: dict[str, Any], lever: Lever) -> dict[str, Any]:
    """Return the config with a lever applied."""
    return {key: value for key, value in config.items() if key not in lever.unset} | lever.set


@pytest.mark.parametrize(("config", "model"), CASES)
def test_a_lever_saves_what_it_says(config: dict[str, Any], model: dict[str, Any]) -> None:
    setup = parse_setup({"model": model, "hardware": {"gpu": "H100"}})
    before = estimate(config, setup, trl_version="1.16.0")
    assert before.levers
    for lever in before.levers:
        after = estimate(changed(config, lever), setup, trl_version="1.16.0")
        assert after.peak_gb == pytest.approx(lever.peak_gb, abs=0.01)
        assert after.verdict == lever.verdict
        assert lever.saves_gb == pytest.approx(max(before.peak_gb - after.peak_gb, 0), abs=0.01)


@pytest.mark.parametrize(("config", "model"), CASES)
def test_real_trl_accepts_every_lever(config: dict[str, Any], model: dict[str, Any], tmp_path: Any) -> None:
    from trl import GRPOConfig

    setup = parse_setup({"model": model, "hardware": {"gpu": "H100"}})
    levers = estimate(config, setup, trl_version="1.16.0").levers
    for lever in levers:
        after = changed(config, lever)
        arguments = GRPOConfig(**{**after, "output_dir": str(tmp_path), "report_to": "none"})
        for name, value in lever.set.items():
            assert getattr(arguments, name) == value


@pytest.mark.parametrize("version", ["0.14.0", "0.18.2", "0.22.2", "1.0.0", "1.16.0"])
def test_a_lever_names_only_fields_of_the_version(version: str) -> None:
    from grpo_rlvr.config import table

    setup = parse_setup({"model": {"name": "Qwen/Qwen2.5-7B"}, "hardware": {"gpu": "H100"}})
    config = {"use_vllm": True, "gradient_checkpointing": False}
    for lever in estimate(config, setup, trl_version=version).levers:
        assert all(name in table(version) for name in lever.set)


def test_a_lever_that_saves_nothing_and_changes_no_verdict_is_left_out() -> None:
    config = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3}
    setup = parse_setup({"model": {"name": "Qwen/Qwen2.5-7B", "peft": True}, "hardware": {"gpu_mem_gb": 24.1}})
    answer = estimate(config, setup, trl_version="1.16.0")
    assert answer.verdict == "does_not_fit" and answer.vllm is not None
    assert answer.vllm.pool_gb < answer.vllm.needs_gb, "a wider share would start, on a card that is too small"
    assert answer.levers
    assert all(lever.saves_gb >= 0.05 or lever.verdict != answer.verdict for lever in answer.levers)


def test_a_share_that_holds_all_sequences_is_not_said_to_queue_them() -> None:
    config = {"use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 1536, "max_completion_length": 1024}
    setup = parse_setup({"model": {"name": "Qwen/Qwen2.5-3B", "peft": True}, "hardware": {"gpu": "H100"}})
    shares = [lever for lever in estimate(config, setup).levers if "vllm_gpu_memory_utilization" in lever.set]
    assert ["for all sequences" in lever.change for lever in shares] == [True]


def test_safe_levers_come_first_and_then_the_larger_saving() -> None:
    for config, model in CASES:
        setup = parse_setup({"model": model, "hardware": {"gpu": "H100"}})
        levers = estimate(config, setup, trl_version="1.16.0").levers
        assert levers == sorted(levers, key=lambda lever: (not lever.safe, -lever.saves_gb))


def test_bfloat16_weights_are_no_lever_for_a_full_fine_tune_without_a_float32_copy() -> None:
    hardware = {"gpu": "H100"}
    full = parse_setup({"model": {"name": "Qwen/Qwen2.5-1.5B", "peft": False}, "hardware": hardware})
    assert not any("model_init_kwargs" in lever.set for lever in estimate({}, full).levers)
    lora = parse_setup({"model": {"name": "Qwen/Qwen2.5-1.5B", "peft": True}, "hardware": hardware})
    assert any(lever.set.get("model_init_kwargs") == {"dtype": "bfloat16"} for lever in estimate({}, lora).levers)


def test_a_pool_that_is_too_small_has_a_lever_that_mends_it() -> None:
    config, model = CASES[2]
    answer = estimate(config, parse_setup({"model": model, "hardware": {"gpu": "H100"}}), trl_version="1.16.0")
    assert answer.verdict == "does_not_fit"
    assert any("vllm_gpu_memory_utilization" in lever.set and lever.verdict == "fits" for lever in answer.levers)


def test_what_lies_outside_the_config_is_offered_apart() -> None:
    setup = parse_setup({"model": {"name": "Qwen/Qwen2.5-7B", "peft": False}, "hardware": {"gpu": "H100"}})
    answer = estimate({"max_completion_length": 4096}, setup, trl_version="1.9.2")
    changes = " ".join(entry.change for entry in answer.alternatives)
    assert "LoRA" in changes and "ZeRO-3" in changes and "TRL 1.15" in changes
    assert all(entry.saves_gb > 0 for entry in answer.alternatives)


@pytest.mark.parametrize(("config", "model"), CASES)
def test_the_config_check_finds_no_new_error_in_a_changed_config(config: dict[str, Any], model: dict[str, Any]) -> None:
    from grpo_rlvr.config import check

    setup = parse_setup({"model": model, "hardware": {"gpu": "H100"}})

    def errors(candidate: dict[str, Any]) -> set[str]:
        findings = check(candidate, setup, trl_version="1.16.0").findings
        return {finding.rule for finding in findings if finding.severity == "error"}

    before = errors(config)
    for lever in estimate(config, setup, trl_version="1.16.0").levers:
        assert errors(changed(config, lever)) <= before, lever.change


def test_generation_that_gathers_all_weights_can_be_told_not_to() -> None:
    sections = {
        "model": {"name": "Qwen/Qwen2.5-32B"}, "hardware": {"gpu": "H100", "gpus": 16}, "launch": {"zero_stage": 3},
    }  # fmt: skip
    answer = estimate({}, parse_setup(sections), trl_version="1.16.0")
    assert answer.dominating.startswith("gathered weights")
    assert answer.levers[0].set == {"ds3_gather_for_generation": False}


SERVED = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3, "num_generations": 4}


def test_a_server_on_the_only_gpu_is_offered_with_a_second_one() -> None:
    setup = {"model": {"name": "Qwen/Qwen2.5-7B", "peft": True}, "hardware": {"gpu": "H100", "gpus": 1}}
    answer = estimate(SERVED, parse_setup(setup), trl_version="1.16.0")
    assert not any(lever.set.get("vllm_mode") == "server" for lever in answer.levers)
    other = next(entry for entry in answer.alternatives if entry.set == {"vllm_mode": "server"})
    assert other.setup == {"hardware.gpus": 2} and other.unset == ["vllm_gpu_memory_utilization"]
    config = {key: value for key, value in SERVED.items() if key not in other.unset} | other.set
    two = parse_setup({**setup, "hardware": {"gpu": "H100", "gpus": 2}})
    assert estimate(config, two, trl_version="1.16.0").peak_gb == pytest.approx(other.peak_gb, abs=0.01)


def test_a_server_takes_as_many_gpus_as_leave_whole_groups() -> None:
    config = SERVED | {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 1}
    setup = parse_setup({"model": {"name": "Qwen/Qwen2.5-7B"}, "hardware": {"gpu": "H100", "gpus": 8}})
    answer = estimate(config, setup, trl_version="1.16.0")
    assert not any(lever.set.get("vllm_mode") == "server" for lever in answer.levers)
    assert any(entry.setup == {"hardware.num_processes": 4} for entry in answer.alternatives)


@pytest.mark.parametrize(
    ("version", "more", "offered"),
    [
        ("1.16.0", {}, True), ("1.10.0", {}, True), ("1.9.2", {}, False), ("0.29.0", {}, False), ("0.27.0", {}, True),
        ("0.27.0", {"gradient_accumulation_steps": 8, "steps_per_generation": 2}, False),
    ],
)  # fmt: skip
def test_sleep_is_no_lever_where_waking_up_loses_the_trained_weights(
    version: str, more: dict[str, Any], offered: bool
) -> None:
    setup = parse_setup({"model": {"name": "Qwen/Qwen2.5-7B", "peft": True}, "hardware": {"gpu": "H100", "gpus": 1}})
    levers = estimate(SERVED | more, setup, trl_version=version).levers
    assert any("vllm_enable_sleep_mode" in lever.set for lever in levers) is offered


def test_no_lever_cuts_groups_that_were_whole() -> None:
    config = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "num_generations": 8}
    setup = parse_setup({"model": {"name": "Qwen/Qwen3-14B", "quantized": "nf4"}, "hardware": {"gpu": "L4"}})
    answer = estimate(config, setup, trl_version="1.16.0")
    assert not any("steps_per_generation" in lever.set for lever in answer.levers)
    whole = estimate(config | {"per_device_train_batch_size": 8}, setup, trl_version="1.16.0")
    assert any(lever.set.get("steps_per_generation") == 1 for lever in whole.levers)


def test_a_levers_verdict_is_judged_as_the_configs_was() -> None:
    # Only an unstated TRL leaves the weight sync under ZeRO-3 open: for the levers too.
    sections = {
        "model": {"name": "Qwen/Qwen2.5-72B", "peft": True, "lora_r": 8}, "launch": {"zero_stage": 3},
        "hardware": {"gpu": "H100", "gpus": 8},
    }  # fmt: skip
    config = SERVED | {
        "vllm_tensor_parallel_size": 4, "vllm_gpu_memory_utilization": 0.5, "vllm_enable_sleep_mode": True,
        "model_init_kwargs": {"dtype": "bfloat16"}, "max_completion_length": 4096,
    }  # fmt: skip
    answer = estimate(config, parse_setup(sections))
    assert any(lever.verdict == "tight" for lever in answer.levers)
    for lever in answer.levers:
        assert estimate(changed(config, lever), parse_setup(sections)).verdict == lever.verdict
