"""The activation constants, measured again: saved-tensor hooks and allocation peaks on tiny models of real classes."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from grpo_rlvr.memory import terms
from grpo_rlvr.memory.configfile import from_config
from grpo_rlvr.memory.inputs import read_plan
from grpo_rlvr.memory.plan import Checkpoints, Plan
from grpo_rlvr.models.setup import parse_setup

BATCH = 3
# A prime that divides no width below, so that a saved weight copy is told from an activation by its size.
LENGTH = 61
MODES = {
    "full bf16": ("bfloat16", True, False),
    "full float32 under autocast": ("float32", True, False),
    "full float32": ("float32", False, False),
    "LoRA bf16 under autocast": ("bfloat16", True, True),
    "LoRA float32 under autocast": ("float32", True, True),
    "LoRA bf16": ("bfloat16", False, True),
    "LoRA float32": ("float32", False, True),
}
SIZES = {
    "hidden_size": 256, "intermediate_size": 640, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
    "vocab_size": 64, "tie_word_embeddings": False, "pad_token_id": 0,
}  # fmt: skip


def _config(family: str, layers: int) -> Any:
    import transformers

    sizes: dict[str, Any] = dict(SIZES)
    if family == "Qwen3Moe":
        sizes |= {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "mlp_only_layers": []}
    return getattr(transformers, f"{family}Config")(num_hidden_layers=layers, **sizes)


def _model(family: str, layers: int, dtype: str, lora: bool, attention: str) -> Any:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        _config(family, layers), dtype=getattr(torch, dtype), attn_implementation=attention
    )
    if lora:
        model = get_peft_model(model, LoraConfig(r=1, target_modules="all-linear", task_type="CAUSAL_LM"))
        model.enable_input_require_grads()
    return model.train()


def _decoder(model: Any) -> Any:
    return (model.get_base_model() if hasattr(model, "get_base_model") else model).model


def _inputs(padded: bool) -> dict[str, Any]:
    import torch

    ids = torch.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) % 64
    mask = torch.ones_like(ids)
    if padded:
        mask[0, :3] = 0
    return {"input_ids": ids, "attention_mask": mask, "use_cache": False}


@contextmanager
def _autocast(on: bool) -> Iterator[None]:
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=on):
        yield


def _saved_bytes(model: Any, autocast: bool, padded: bool) -> int:
    import torch

    owned = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: Any) -> Any:
        pointer = tensor.untyped_storage().data_ptr()
        if pointer not in owned and tensor.numel() % LENGTH == 0:
            kept[pointer] = tensor
        return tensor

    with _autocast(autocast), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = _decoder(model)(**_inputs(padded)).last_hidden_state
    size = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    del output
    return size


def _plan(family: str, mode: str, attention: str, checkpointing: bool = False) -> Plan:
    dtype, autocast, lora = MODES[mode]
    config = {
        "per_device_train_batch_size": BATCH, "max_completion_length": LENGTH - 10, "bf16": autocast,
        "gradient_checkpointing": checkpointing,
        "model_init_kwargs": {"dtype": dtype, "attn_implementation": attention},
    }  # fmt: skip
    model: dict[str, Any] = {"params_b": 0.5, "peft": lora}
    plan = read_plan(config, parse_setup({"model": model, "dataset": {"max_prompt_tokens": 10}}), "1.16.0")
    return replace(plan, facts=from_config(_config(family, 3).to_dict(), "tiny", "test"))


def _measured_layer(family: str, mode: str, attention: str = "sdpa", padded: bool = True) -> float:
    dtype, autocast, lora = MODES[mode]
    one, three = (_saved_bytes(_model(family, layers, dtype, lora, attention), autocast, padded) for layers in (1, 3))
    return (three - one) / 2


@pytest.mark.parametrize("family", ["Qwen2", "Qwen3", "Llama"])
@pytest.mark.parametrize("mode", MODES)
def test_a_live_layer_saves_what_the_estimate_says(family: str, mode: str) -> None:
    assert terms.live_layer(_plan(family, mode, "sdpa")) == pytest.approx(_measured_layer(family, mode), rel=0.05)


# One family of each way in which a layer differs from Llama's.
OTHERS = ("Gemma3Text", "Olmo2", "Glm4", "Starcoder2", "Arcee")


@pytest.mark.parametrize("family", OTHERS)
@pytest.mark.parametrize("mode", ["full bf16", "LoRA bf16"])
def test_a_live_layer_of_another_family_saves_what_the_estimate_says(family: str, mode: str) -> None:
    assert terms.live_layer(_plan(family, mode, "sdpa")) == pytest.approx(_measured_layer(family, mode), rel=0.05)


def test_gemma_2_keeps_its_capped_scores_too() -> None:
    measured = _measured_layer("Gemma2", "full bf16", "eager")
    assert terms.live_layer(_plan("Gemma2", "full bf16", "eager")) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("mode", ["full bf16", "full float32 under autocast"])
def test_eager_attention_adds_its_scores(mode: str) -> None:
    measured = _measured_layer("Qwen2", mode, "eager")
    assert terms.live_layer(_plan("Qwen2", mode, "eager")) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("mode", ["full bf16", "LoRA bf16 under autocast"])
def test_without_padding_keys_and_values_keep_their_own_width_as_flash_kernels_do(mode: str) -> None:
    measured = _measured_layer("Qwen2", mode, padded=False)
    assert terms.live_layer(_plan("Qwen2", mode, "flash_attention_2")) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("mode", ["full bf16", "LoRA bf16 under autocast", "full float32 under autocast"])
def test_a_mixture_saves_its_chosen_experts(mode: str) -> None:
    measured = _measured_layer("Qwen3Moe", mode)
    # The router's indices, which do not grow with the widths, weigh more at these toy widths.
    assert terms.live_layer(_plan("Qwen3Moe", mode, "sdpa")) == pytest.approx(measured, rel=0.15)


def _allocation_peak(work: Callable[[], None]) -> int:
    import torch

    gc.collect()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
    live = peak = 0
    for event in profile.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


def _backward_peak(family: str, mode: str, layers: int) -> int:
    dtype, autocast, lora = MODES[mode]
    model = _model(family, layers, dtype, lora, "sdpa")
    base = model.get_base_model() if lora else model
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for parameter in model.parameters():
        # Gradients have their own term.
        parameter.grad = parameter.new_zeros(parameter.shape) if parameter.requires_grad else None

    def work() -> None:
        with _autocast(autocast):
            output = _decoder(model)(**_inputs(True)).last_hidden_state
        output.float().mean().backward()

    return _allocation_peak(work)


@pytest.mark.parametrize("mode", ["full bf16", "LoRA bf16 under autocast"])
def test_checkpointing_holds_one_layer_and_its_gradients_in_flight(mode: str) -> None:
    plan = _plan("Qwen2", mode, "sdpa", checkpointing=True)
    two, four = (_backward_peak("Qwen2", mode, layers) for layers in (2, 4))
    per_layer = terms.saved_activations(plan) / plan.facts.layers
    assert (four - two) / 2 == pytest.approx(per_layer, rel=0.10)
    assert two - 2 * per_layer == pytest.approx(terms.recomputed_layer(plan), rel=0.30)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_checkpointing_every_nth_layer_keeps_the_others_whole(every: int) -> None:
    plan = _plan("Qwen2", "full bf16", "sdpa", checkpointing=True)
    plan = replace(plan, checkpoints=Checkpoints(True, every), facts=replace(plan.facts, layers=3))
    model = _model("Qwen2", 3, "bfloat16", False, "sdpa")
    model.train()
    model.activation_checkpointing_enable({"use_reentrant": False}, every_n_layers=every)
    bare = _model("Qwen2", 1, "bfloat16", False, "sdpa")
    outside = _saved_bytes(bare, False, True) - terms.live_layer(plan)
    assert terms.saved_activations(plan) + outside == pytest.approx(_saved_bytes(model, False, True), rel=0.05)
