"""What a layer of Qwen3.5's gated delta rule keeps, measured again on a tiny model of the real class."""

from dataclasses import replace
from typing import Any

import pytest

from grpo_rlvr.memory import estimate, terms
from grpo_rlvr.memory.configfile import from_config
from grpo_rlvr.memory.inputs import read_plan
from grpo_rlvr.memory.plan import Plan
from grpo_rlvr.models.setup import parse_setup

LENGTH = 256  # the rule works on chunks of 64 tokens
MODES = {
    "full bf16": ("bfloat16", True, False),
    "full float32 under autocast": ("float32", True, False),
    "LoRA bf16 under autocast": ("bfloat16", True, True),
    "LoRA bf16": ("bfloat16", False, True),
    "full float32": ("float32", False, False),
    "LoRA float32": ("float32", False, True),
}


def _config(layers: int) -> Any:
    import transformers

    return transformers.Qwen3_5TextConfig(
        hidden_size=256, intermediate_size=128, num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2,
        head_dim=64, vocab_size=64, tie_word_embeddings=False, layer_types=["linear_attention"] * layers,
        linear_num_key_heads=2, linear_key_head_dim=128, linear_num_value_heads=4, linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
    )  # fmt: skip


def _plan(mode: str) -> Plan:
    dtype, autocast, lora = MODES[mode]
    config = {
        "per_device_train_batch_size": 1, "max_completion_length": LENGTH - 10, "bf16": autocast,
        "model_init_kwargs": {"dtype": dtype},
    }  # fmt: skip
    setup = parse_setup({"model": {"params_b": 0.5, "peft": lora}, "dataset": {"max_prompt_tokens": 10}})
    return replace(read_plan(config, setup, "1.16.0"), facts=from_config(_config(3).to_dict(), "tiny", "test"))


def _saved_bytes(mode: str, layers: int) -> int:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    dtype, autocast, lora = MODES[mode]
    torch.manual_seed(0)
    model: Any = AutoModelForCausalLM.from_config(_config(layers), dtype=getattr(torch, dtype))
    decoder = model.model
    if lora:
        model = get_peft_model(model, LoraConfig(r=1, target_modules="all-linear", task_type="CAUSAL_LM"))
        model.enable_input_require_grads()
    model.train()
    owned = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        if tensor.untyped_storage().data_ptr() not in owned:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    ids = torch.arange(LENGTH).reshape(1, LENGTH) % 64
    with (
        torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast),
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        output = decoder(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).last_hidden_state
    size = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    del output
    return size


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_of_a_delta_rule_saves_what_the_estimate_says(mode: str) -> None:
    measured = (_saved_bytes(mode, 3) - _saved_bytes(mode, 1)) / 2 / LENGTH
    assert terms.delta_layer_bytes(_plan(mode)) == pytest.approx(measured, rel=0.05)


def test_the_kernels_of_a_delta_rule_are_assumed_absent_until_stated() -> None:
    config = {"model_init_kwargs": {"dtype": "bfloat16"}, "max_completion_length": 4096}
    model = {"model": {"name": "Qwen/Qwen3.5-4B", "peft": {"r": 8}}, "hardware": {"gpu": "H100"}}
    plain = estimate(config, parse_setup(model), trl_version="1.16.0")
    kernels = {"versions": {"flash_linear_attention": "0.4.1"}}
    fast = estimate(config, parse_setup(model | kernels), trl_version="1.16.0")
    name = "versions.flash_linear_attention"
    assert name in {entry.input for entry in plain.assumed} and name not in {entry.input for entry in fast.assumed}
    assert plain.peaks.training_gb - fast.peaks.training_gb > 5


def test_a_decoder_without_a_delta_rule_is_not_asked_for_its_kernels() -> None:
    answer = estimate({}, parse_setup({"model": {"name": "Qwen/Qwen3-8B"}}), trl_version="1.16.0")
    assert not any("flash_linear" in entry.input for entry in answer.assumed)
