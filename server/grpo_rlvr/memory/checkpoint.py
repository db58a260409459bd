"""How a checkpoint is quantised, from its config.json or, where there is none, from its name."""

import re
from collections.abc import Mapping
from typing import Any

# `quant_method` values of config.json whose linears have 4 or 8 bits, by what they are when no width is stated.
_METHODS = {
    "gptq": "int4", "awq": "int4", "auto-round": "int4", "hqq": "int4", "eetq": "8-bit", "fp8": "8-bit",
    "fbgemm_fp8": "8-bit", "finegrained_fp8": "8-bit", "compressed-tensors": "8-bit", "modelopt": "8-bit",
    "torchao": "8-bit", "quanto": "8-bit",
}  # fmt: skip
# What bitsandbytes quantises when the model is loaded; it passes over experts held as one parameter.
BITSANDBYTES = frozenset({"nf4", "nf4-single", "int8"})
# transformers unpacks it to the model's dtype when the model is to be trained (Mxfp4Config, dequantize).
UNPACKED = "mxfp4"
# Endings of published checkpoints' names, and what they hold.
_NAMES = (
    (re.compile(r"bnb[-_]4bit$", re.IGNORECASE), "nf4"),
    (re.compile(r"bnb[-_]8bit$", re.IGNORECASE), "int8"),
    (re.compile(r"(?:gptq|awq)(?:[-_]?(?:int)?4(?:bit)?)?$", re.IGNORECASE), "int4"),
    (re.compile(r"[-_](?:int4|w4a16)$", re.IGNORECASE), "int4"),
    (re.compile(r"[-_](?:gptq[-_])?(?:int8|w8a8|fp8|fp8[-_]dynamic)$", re.IGNORECASE), "8-bit"),
)


def quantization_of_config(config: Mapping[str, Any]) -> str:
    """Return how a checkpoint's linears are stored, "" for plain ones.

    bitsandbytes: nf4, nf4-single, int8; other methods: int4, 8-bit; mxfp4, which is unpacked to train.
    """
    found = config.get("quantization_config")
    if not isinstance(found, Mapping):
        return ""
    if found.get("load_in_4bit"):
        return "nf4" if found.get("bnb_4bit_use_double_quant") else "nf4-single"
    if found.get("load_in_8bit"):
        return "int8"
    method = str(found.get("quant_method") or "").lower()
    if method not in _METHODS:
        return method if method == UNPACKED else ""
    return {4: "int4", 8: "8-bit"}.get(_bits(found), _METHODS[method])


def quantization_of_name(name: str) -> str:
    """Return how the linears of a checkpoint of this name are stored, "" where the name says nothing of it."""
    return next((kind for pattern, kind in _NAMES if pattern.search(name.strip().rstrip("/"))), "")


def _bits(found: Mapping[str, Any]) -> int:
    """Bits of a weight, 0 where they are not stated."""
    groups = found.get("config_groups")
    first: Any = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else {}
    stated = (found.get("bits"), found.get("w_bit"), weights.get("num_bits") if isinstance(weights, Mapping) else None)
    return next((bits for bits in stated if isinstance(bits, int)), 0)
