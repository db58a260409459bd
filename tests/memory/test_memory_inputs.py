"""Inputs of the estimate: bad ones are one clear error, missing ones are assumed and said so."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_rlvr.errors import UserError
from grpo_rlvr.memory import estimate
from grpo_rlvr.memory.adapter import ALL_LINEAR
from grpo_rlvr.memory.families import NO_SDPA
from grpo_rlvr.memory.inputs import read_plan
from grpo_rlvr.memory.plan import Checkpoints, Lora, Plan
from grpo_rlvr.models.setup import parse_setup

MODEL = {"name": "Qwen/Qwen2.5-7B"}


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"per_device_train_batch_size": 0}, "at least 1"),
        ({"per_device_train_batch_size": "8"}, "without quotes"),
        ({"per_device_train_batch_size": 2.5}, "whole number"),
        ({"per_device_train_batch_size": True}, "must be a number"),
        ({"max_completion_length": -5}, "at least 1"),
        ({"max_completion_length": 10**15}, "at most"),
        ({"max_completion_length": math.nan}, "finite"),
        ({"gradient_accumulation_steps": math.inf}, "finite"),
        ({"beta": -0.1}, "at least 0"),
        ({"beta": "0.04"}, "number"),
        ({"gradient_checkpointing": "true"}, "true or false"),
        ({"activation_checkpointing": "yes"}, "true or false"),
        ({"activation_checkpointing_kwargs": {"every_n_layers": 0}}, "at least 1"),
        ({"activation_checkpointing_kwargs": [1]}, "object"),
        ({"use_vllm": 1}, "true or false"),
        ({"use_vllm": True, "vllm_mode": "embedded"}, "colocate or server"),
        ({"use_vllm": True, "vllm_gpu_memory_utilization": 1.5}, "at most 1"),
        ({"use_vllm": True, "vllm_tensor_parallel_size": 0}, "at least 1"),
        ({"model_init_kwargs": "bf16"}, "object"),
        ({"model_init_kwargs": {"dtype": "float8000"}}, "unknown dtype"),
        ({"optim": 3}, "string"),
    ],
)  # fmt: skip
def test_a_config_value_that_cannot_be_right_names_its_field(config: dict[str, Any], word: str) -> None:
    with pytest.raises(UserError, match=word) as caught:
        estimate(config, parse_setup({"model": MODEL}))
    assert caught.value.where.startswith("config.")


@pytest.mark.parametrize(
    ("section", "value", "word"),
    [
        ("hardware", {"gpus": 0}, "0 GPUs"),
        ("hardware", {"gpus": -2}, "-2 GPUs"),
        ("hardware", {"gpus": 1.5}, "whole number"),
        ("hardware", {"gpu_mem_gb": -80}, "above 0"),
        ("hardware", {"gpu_mem_gb": "80GB"}, "number"),
        ("hardware", {"gpu_mem_gb": 80_000_000_000}, "at most"),
        ("dataset", {"max_prompt_tokens": -1}, "at least 0"),
        ("launch", {"zero_stage": 4}, "at most 3"),
        ("launch", {"offload": ["everything"]}, "list of"),
        ("versions", {"trl": "new"}, "version"),
        ("versions", {"trl": "0.9"}, "0.14"),
    ],
)  # fmt: skip
def test_a_setup_value_that_cannot_be_right_is_one_clear_error(section: str, value: dict[str, Any], word: str) -> None:
    with pytest.raises(UserError, match=word):
        estimate({}, parse_setup({"model": MODEL, section: value}))


@pytest.mark.parametrize("model", [{"lora_r": 0}, {"peft": True, "lora_targets": 5}, {"quantized": "3bit-ish"}])
def test_an_adapter_that_cannot_be_right_is_one_clear_error(model: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        estimate({}, parse_setup({"model": {**MODEL, **model}}))


def test_a_config_that_is_no_object_is_refused() -> None:
    with pytest.raises(UserError, match="object"):
        estimate([], parse_setup({"model": MODEL}))  # type: ignore[arg-type]


JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just({}) | st.just([1])
FIELDS = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "max_completion_length", "num_generations", "beta",
    "use_vllm", "vllm_mode", "vllm_gpu_memory_utilization", "optim", "model_init_kwargs", "steps_per_generation",
    "generation_batch_size", "bf16", "deepspeed", "max_prompt_length",
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_whatever_stands_in_a_config_gives_an_answer_or_a_user_error(config: dict[str, Any]) -> None:
    try:
        answer = estimate(config, parse_setup({"model": MODEL, "hardware": {"gpu": "H100"}}), trl_version="1.16.0")
    except UserError as error:
        assert str(error)
    else:
        assert math.isfinite(answer.peak_gb) and answer.peak_gb > 0


SECTIONS = ("gpus", "gpu_mem_gb", "gpu", "kind", "device", "num_processes", "num_machines", "deepspeed_stage", "ram_gb")


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(SECTIONS), JSON, max_size=4))
def test_whatever_stands_in_the_hardware_gives_an_answer_or_a_user_error(hardware: dict[str, Any]) -> None:
    try:
        estimate({}, parse_setup({"model": MODEL, "hardware": hardware}), trl_version="1.16.0")
    except UserError as error:
        assert str(error)


def test_every_input_that_was_not_stated_is_listed_with_what_it_takes_to_know_it() -> None:
    answer = estimate({}, parse_setup({"model": {"params_b": 7}}))
    inputs = {entry.input for entry in answer.assumed}
    assert inputs >= {
        "versions.trl", "model shape", "model.peft", "model_init_kwargs.dtype", "dataset.max_prompt_tokens",
        "hardware.gpus", "hardware.gpu_mem_gb",
    }  # fmt: skip
    assert all(entry.to_know for entry in answer.assumed)
    assert answer.verdict == "unknown"


def test_nothing_is_assumed_when_everything_is_stated() -> None:
    config = {"model_init_kwargs": {"dtype": "bfloat16"}, "max_completion_length": 256}
    setup = {
        "model": {**MODEL, "peft": True, "lora_r": 8, "lora_targets": "all-linear"},
        "hardware": {"gpus": 1, "gpu_mem_gb": 85.0}, "dataset": {"max_prompt_tokens": 100},
    }  # fmt: skip
    assert estimate(config, parse_setup(setup), trl_version="1.16.0").assumed == []


WINDOW = {"use_vllm": True, "vllm_mode": "colocate", "max_completion_length": 512}


@pytest.mark.parametrize(
    ("config", "context", "version", "window"),
    [
        ({}, 32_768, "1.16.0", 32_768),
        ({}, None, "1.16.0", 1024),
        ({"vllm_max_model_length": 2048}, 32_768, "1.16.0", 2048),
        ({}, 32_768, "0.22.2", 1024),
        ({"vllm_mode": "server"}, 32_768, "1.16.0", 1024),
    ],
)
def test_an_unset_window_of_vllm_is_the_models_context(
    config: dict[str, Any], context: int | None, version: str, window: int
) -> None:
    plan = plan_of(
        WINDOW | config, version, model={**MODEL, "max_position_embeddings": context},
        dataset={"max_prompt_tokens": 512},
    )  # fmt: skip
    assert plan.engine.max_length == window
    guessed = context is None
    assert ("vllm_max_model_length" in {name for name, _, _ in plan.assumed}) is guessed


def test_a_window_that_the_pool_cannot_hold_does_not_fit_until_it_is_set() -> None:
    setup = parse_setup(
        {"model": {**MODEL, "peft": {"r": 8}, "max_position_embeddings": 131_072}, "hardware": {"gpu": "H100"},
         "dataset": {"max_prompt_tokens": 512}}
    )  # fmt: skip
    answer = estimate(WINDOW | {"vllm_gpu_memory_utilization": 0.25}, setup, trl_version="1.16.0")
    assert answer.verdict == "does_not_fit" and "one sequence of 131,072 tokens" in " ".join(answer.notes)
    lever = next(lever for lever in answer.levers if lever.set == {"vllm_max_model_length": 1024})
    assert lever.verdict == "fits"


@pytest.mark.parametrize("where", ["peft_config", "model.peft"])
def test_lora_arguments_count_as_stated_wherever_they_stand(where: str) -> None:
    arguments = {"r": 4, "target_modules": ["q_proj", "v_proj"]}
    sections: dict[str, Any] = {"model": {**MODEL, "peft": arguments}}
    if where == "peft_config":
        sections = {"model": MODEL, "peft_config": arguments}
    plan = plan_of({}, **sections)
    assert plan.lora == Lora(4, ("q_proj", "v_proj"))
    assert not {"model.lora_r", "model.lora_targets", "model.peft"} & {name for name, _, _ in plan.assumed}


@pytest.mark.parametrize(
    ("sections", "lora"),
    [
        ({"peft_config": {"lora_alpha": 16}}, Lora(8, ("q_proj", "v_proj"))),
        ({"peft_config": {"r": 64}}, Lora(64, ("q_proj", "v_proj"))),
        ({"model": {**MODEL, "peft": True}}, Lora(16, ALL_LINEAR)),
    ],
)
def test_what_a_lora_config_does_not_name_is_pefts_default_and_listed(sections: dict[str, Any], lora: Lora) -> None:
    plan = plan_of({}, **sections)
    assert plan.lora == lora
    assert "model.lora_targets" in {name for name, _, _ in plan.assumed}


def test_the_batch_of_trl_0_14_counts_prompts() -> None:
    config = {"per_device_train_batch_size": 2, "num_generations": 4}
    assert (plan_of(config, "0.14.0").rows, plan_of(config, "0.15.2").rows) == (8, 2)
    answer = estimate(config, parse_setup({"model": MODEL, "hardware": {"gpu": "H100"}}), trl_version="0.14.0")
    assert any("8 sequences in one forward pass" in note for note in answer.notes)


def test_a_setup_states_its_lora_arguments_once_for_every_reader() -> None:
    setup = parse_setup({"model": {**MODEL, "peft": {"r": 4}}})
    assert setup.get("model.peft") is True and setup.get("peft_config.r") == 4
    both = parse_setup({"model": {**MODEL, "peft": {"r": 4}}, "peft_config": {"r": 8}})
    assert both.get("peft_config.r") == 8


@pytest.mark.parametrize(
    ("model", "where"), [({"peft": {"r": 0}}, "setup.peft_config.r"), ({"lora_r": 0}, "setup.model.lora_r")]
)
def test_a_rank_that_cannot_be_right_is_named_where_it_stands(model: dict[str, Any], where: str) -> None:
    with pytest.raises(UserError) as caught:
        estimate({}, parse_setup({"model": {**MODEL, **model}}))
    assert caught.value.where == where


def plan_of(config: dict[str, Any], trl_version: str = "1.16.0", **sections: Any) -> Plan:
    return read_plan(config, parse_setup({"model": MODEL, **sections}), trl_version)


@pytest.mark.parametrize(
    ("config", "checkpoints"),
    [
        ({"activation_checkpointing": False}, Checkpoints(False)),
        ({"activation_checkpointing": True, "gradient_checkpointing": False}, Checkpoints(True)),
        ({"activation_checkpointing": None, "gradient_checkpointing": False}, Checkpoints(False)),
        ({"gradient_checkpointing": False, "fsdp_config": {"activation_checkpointing": True}}, Checkpoints(True)),
        ({"activation_checkpointing_kwargs": {"every_n_layers": 4, "use_reentrant": False}}, Checkpoints(True, 4)),
        ({"activation_checkpointing_kwargs": {"offload": True}}, Checkpoints(True, 1, True)),
    ],
)
def test_checkpointing_is_read_under_both_names(config: dict[str, Any], checkpoints: Checkpoints) -> None:
    assert plan_of(config).checkpoints == checkpoints


def test_the_new_name_decides_the_memory_and_the_lever_that_turns_it_on() -> None:
    setup = parse_setup({"model": MODEL, "hardware": {"gpu": "H100", "gpus": 1}})
    answer = estimate({"activation_checkpointing": False, "max_completion_length": 1024}, setup, trl_version="1.16.0")
    lever = next(lever for lever in answer.levers if "checkpointing" in lever.change)
    assert lever.set == {"activation_checkpointing": True} and lever.saves_gb > 1


@pytest.mark.parametrize(("framework", "autocast"), [("ms-swift", "bfloat16"), ("trl", "")])
def test_ms_swift_trains_in_mixed_precision_when_its_weights_are_16_bit(framework: str, autocast: str) -> None:
    config = {"model_init_kwargs": {"dtype": "bfloat16"}}
    assert plan_of(config, "0.16.0", launch={"framework": framework}).autocast == autocast


@pytest.mark.parametrize(
    ("batch", "generations", "server"),
    [(1, 8, 2), (16, 7, 3), (16, 16, 1), (2, 6, 1), (1, 10**5, 1)],
)
def test_the_server_leaves_a_number_of_trainers_that_the_groups_divide(
    batch: int, generations: int, server: int
) -> None:
    config = {"per_device_train_batch_size": batch, "num_generations": generations, "use_vllm": True,
              "vllm_mode": "server"}  # fmt: skip
    devices = plan_of(config, hardware={"gpus": 10, "gpu": "A100"}).devices
    assert (devices.server, devices.training) == (server, 10 - server)


@pytest.mark.parametrize(("version", "loaded"), [("0.26.2", 2), ("0.27.2", 4), ("1.16.0", 4)])
def test_torch_dtype_counts_only_where_trl_reads_it(version: str, loaded: int) -> None:
    config = {"model_init_kwargs": {"torch_dtype": "bfloat16"}}
    setup = parse_setup({"model": {"name": "Qwen/Qwen2.5-0.5B"}})
    found = estimate(config, setup, trl_version=version)
    same = estimate(
        {"model_init_kwargs": {"dtype": "bfloat16" if loaded == 2 else "float32"}}, setup, trl_version=version
    )
    assert found.peak_gb == same.peak_gb
    assert any("does not read torch_dtype" in entry.to_know for entry in found.assumed) == (loaded == 4)


def test_ms_swift_of_no_stated_version_runs_on_a_trl_with_full_logits(estimated: Any) -> None:
    sections: dict[str, Any] = {
        "model": {"name": "Qwen/Qwen3-1.7B", "lora_r": 8}, "hardware": {"gpu": "H100"},
        "launch": {"framework": "ms-swift"},
    }  # fmt: skip
    swift = estimated({"max_completion_length": 4096}, trl_version=None, **sections)
    assert any(entry.input == "versions.trl" and entry.value == swift.trl_version for entry in swift.assumed)
    assert any("full logits" in note for note in swift.notes)
    assert not any("versions.trl" in other.setup for other in swift.alternatives)
    stated = estimated({"max_completion_length": 4096}, trl_version="1.16.0", **sections)
    assert stated.peak_gb < swift.peak_gb


@pytest.mark.parametrize(
    ("name", "attention", "eager"),
    [
        ("google/gemma-2-2b", None, True), ("openai/gpt-oss-20b", None, True), ("google/gemma-3-1b-it", None, False),
        ("google/gemma-2-2b", "flash_attention_2", False),
    ],
)  # fmt: skip
def test_families_without_sdpa_keep_the_scores_of_eager_attention_unless_told_otherwise(
    estimated: Any, name: str, attention: str | None, eager: bool
) -> None:
    def live(stated: str | None) -> float:
        kwargs = {"dtype": "bfloat16"} | ({"attn_implementation": stated} if stated else {})
        answer = estimated(
            {"model_init_kwargs": kwargs, "max_completion_length": 2048, "gradient_checkpointing": True},
            model={"name": name, "lora_r": 8}, hardware={"gpu": "H200"}, dataset={"max_prompt_tokens": 512},
        )  # fmt: skip
        assert "gemma-3" in name or not any("sdpa" in lever.change for lever in answer.levers)
        training = next(phase for phase in answer.phases if phase.name == "training")
        return float(next((term.gb for term in training.terms if term.name == "recomputed_layer"), 0.0))

    assert (live(attention) == live("eager") > 0) is eager


def test_the_families_without_sdpa_are_those_whose_class_says_so() -> None:
    import transformers

    for family, name in (("gemma2", "Gemma2"), ("gpt_oss", "GptOss"), ("bloom", "Bloom"), ("llama", "Llama")):
        assert getattr(transformers, f"{name}ForCausalLM")._supports_sdpa is (family not in NO_SDPA)
