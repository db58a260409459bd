"""Checkpoints that are quantised already: by their config.json, or by their name."""

from typing import Any

import pytest

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory.checkpoint import quantization_of_config, quantization_of_name

QWEN3 = {
    "model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
    "tie_word_embeddings": False,
}  # fmt: skip
LINEARS, OUTER = 6.946, 1.245  # billions: the blocks' linears, embedding and head
BF16 = {"model_init_kwargs": {"dtype": "bfloat16"}}


def weights(answer: Any) -> float:
    """The policy's weights in GB."""
    return float(next(term.gb for term in answer.phases[0].terms if term.name == "weights"))


@pytest.mark.parametrize(
    ("found", "bytes_each"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, 0.516),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 0.5625),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 1.0),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 0.5195),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, 1.0),
        ({"quant_method": "awq", "bits": 4}, 0.5195),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1.0),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4}}}}, 0.5195),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8}}}}, 1.0),
        ({"quant_method": "mxfp4"}, 2.0), ({}, 2.0),
    ],
)  # fmt: skip
def test_the_weights_of_a_quantised_checkpoint_are_those_that_its_config_json_says(
    estimated: Any, found: dict[str, Any], bytes_each: float
) -> None:
    config = QWEN3 | {"quantization_config": found}
    answer = estimated(BF16, model={"config": config, "lora_r": 8}, hardware={"gpu": "H100"})
    assert weights(answer) == pytest.approx(LINEARS * bytes_each + OUTER * 2, rel=0.002)
    assert not any(entry.input == "model.quantized" for entry in answer.assumed)
    assert any("MXFP4" in note for note in answer.notes) is (found.get("quant_method") == "mxfp4")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("unsloth/Qwen3-8B-unsloth-bnb-4bit", "nf4"), ("unsloth/Qwen3-8B-bnb-4bit", "nf4"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "int4"), ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "int4"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "8-bit"), ("Qwen/Qwen3-8B-FP8", "8-bit"),
        ("Qwen/Qwen3-8B", ""), ("google/gemma-3-4b-it", ""), ("Qwen/Qwen3-4B-Instruct-2507", ""), ("", ""),
    ],
)  # fmt: skip
def test_a_name_tells_how_the_weights_are_stored(name: str, kind: str) -> None:
    assert quantization_of_name(name) == kind


def test_a_known_model_with_such_a_name_is_quantised_and_that_is_said_to_be_assumed(estimated: Any) -> None:
    named = estimated(BF16, model={"name": "unsloth/Qwen3-8B-unsloth-bnb-4bit"}, hardware={"gpu": "A100-80GB"})
    stated = estimated(BF16, model={"name": "Qwen/Qwen3-8B", "quantized": "nf4"}, hardware={"gpu": "A100-80GB"})
    assert named.peak_gb == stated.peak_gb
    assert any(entry.input == "model.quantized" and entry.value == "nf4" for entry in named.assumed)


def test_what_the_setup_states_comes_before_the_checkpoint(estimated: Any) -> None:
    model = {"name": "unsloth/Qwen3-8B-bnb-4bit", "quantized": "none", "lora_r": 8}
    assert weights(estimated(BF16, model=model, hardware={"gpu": "H100"})) == pytest.approx(8.19 * 2, rel=0.001)


def test_a_full_fine_tune_of_a_quantised_checkpoint_unpacks_it(estimated: Any) -> None:
    model = {"name": "unsloth/Qwen3-8B-bnb-4bit", "peft": False}
    answer = estimated(BF16, model=model, hardware={"gpu": "H100"})
    assert weights(answer) == pytest.approx(8.19 * 2, rel=0.001)
    assert any(entry.input == "model.quantized" and entry.value is False for entry in answer.assumed)


def test_training_quantised_weights_themselves_is_refused(estimated: Any) -> None:
    with pytest.raises(InputError, match="cannot be trained") as caught:
        estimated(BF16, model={"name": "Qwen/Qwen3-8B", "quantized": "nf4", "peft": False})
    assert caught.value.where == "setup.model.quantized"


def test_experts_of_a_stored_8_bit_checkpoint_are_quantised_and_those_of_bitsandbytes_are_not(estimated: Any) -> None:
    sizes = [
        weights(estimated(BF16, model={"name": "Qwen/Qwen3-30B-A3B", "quantized": kind}, hardware={"gpu": "H200"}))
        for kind in ("fp8", "int8")
    ]
    assert sizes[0] == pytest.approx(31.2, abs=0.3) and sizes[1] > 55


@pytest.mark.parametrize("found", [None, "x", [], {"quant_method": 7}, {"quant_method": "newer"}, {"config_groups": 3}])
def test_a_quantisation_that_is_not_known_is_none(found: Any) -> None:
    assert quantization_of_config({"quantization_config": found}) == ""
