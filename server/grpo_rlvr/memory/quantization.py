"""Whether a run's base weights are quantised, and how: stated, or as the checkpoint is."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory.checkpoint import UNPACKED, quantization_of_config, quantization_of_name
from grpo_rlvr.memory.reader import Reader
from grpo_rlvr.memory.shape import ModelFacts

# What a setup may call it.
QUANTIZED = {
    "nf4": "nf4", "fp4": "nf4", "4bit": "nf4", "4-bit": "nf4", "int4": "nf4", "bnb-4bit": "nf4", "bitsandbytes": "nf4",
    "qlora": "nf4", "bnb": "nf4", "awq": "int4", "gptq": "int4", "int8": "int8", "8bit": "int8", "8-bit": "int8",
    "bnb-8bit": "int8", "fp8": "8-bit", "none": "", "": "", "nf4-single": "nf4-single",
}  # fmt: skip


def read_quantization(reader: Reader, facts: ModelFacts) -> str:
    """Return how the base weights are stored while training, "" when they are not quantised.

    Raises:
        InputError: a method that is none, or quantised weights of which nothing but themselves would train.
    """
    value, where = reader.setup.get("model.quantized"), "setup.model.quantized"
    if value is None and isinstance(reader.init_kwargs().get("quantization_config"), Mapping):
        value, where = reader.init_kwargs()["quantization_config"], "config.model_init_kwargs.quantization_config"
    if value is None:
        return _as_stored(reader, facts)
    kind = _stated(reader, value, where)
    if kind and reader.setup.get("model.peft") is False:
        raise InputError(
            "quantised weights cannot be trained themselves, and model.peft is false",
            where=where,
            remedy="State model.peft for QLoRA, or model.quantized false for a full fine-tune.",
        )
    return kind


def _stated(reader: Reader, value: Any, where: str) -> str:
    if value is False:
        return ""
    if value is True:
        reader.assume("model.quantized", "nf4 with double quantisation", "the BitsAndBytesConfig of the run")
        return "nf4"
    if isinstance(value, Mapping):
        kind = quantization_of_config({"quantization_config": value})
        return "" if kind == UNPACKED else kind
    name = str(value).lower().strip()
    if name not in QUANTIZED:
        raise InputError(f"unknown quantisation {value!r:.60}", where=where, remedy="Use nf4, int8, or leave it out.")
    return QUANTIZED[name]


def _as_stored(reader: Reader, facts: ModelFacts) -> str:
    """As the checkpoint stores them, which a full fine-tune has to unpack."""
    known = facts.quantization
    kind = quantization_of_name(facts.name) if known is None else known
    if not kind or kind == UNPACKED:
        return ""
    if reader.setup.get("model.peft") is False:
        reader.assume("model.quantized", False, "quantised weights cannot be trained: they are unpacked to the dtype")
        return ""
    if known is None:
        need = "model.quantized, or the model's config.json: the name alone says that its weights are quantised"
        reader.assume("model.quantized", kind, need)
    return kind
