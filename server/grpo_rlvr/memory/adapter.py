"""The LoRA adapter of a run, from what the setup states of it."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory.checks import integer
from grpo_rlvr.memory.plan import Lora
from grpo_rlvr.memory.reader import Reader
from grpo_rlvr.models.setup import Setup

# LoraConfig's r, and its target_modules for the families that GRPO trains (peft/utils/constants.py).
PEFT_RANK = 8
PEFT_TARGETS = ("q_proj", "v_proj")
ALL_LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def read_lora(reader: Reader, quantized: str) -> Lora | None:
    """Return the adapter of a setup, None for a full fine-tune.

    Raises:
        InputError: a rank or targets that are none.
    """
    model = reader.setup.section("model")
    stated = model.get("peft")
    where, details = _lora_details(reader.setup)
    if details is not None and (stated is None or isinstance(stated, Mapping)):
        stated = True
    if stated is None and (model.get("lora_r") is not None or model.get("adapter")):
        stated = True
    if stated is None and quantized:
        # Quantised weights cannot be trained themselves.
        stated = True
    if stated is None:
        reader.assume("model.peft", False, "whether the trainer is given a peft_config")
    if isinstance(stated, str):
        stated = stated.lower() not in ("", "none", "full", "false")
    if not stated:
        return None
    rank, targets = (details or {}).get("r"), (details or {}).get("target_modules")
    ranked, aimed = f"{where}.r", f"{where}.target_modules"
    if rank is None:
        rank, ranked = model.get("lora_r"), "setup.model.lora_r"
    if targets is None:
        targets, aimed = model.get("lora_targets"), "setup.model.lora_targets"
    if rank is None:
        # A LoraConfig that names neither takes PEFT's own; with none stated, they are unknown.
        rank = 16 if details is None else PEFT_RANK
        reader.assume("model.lora_r", rank, "r of the LoraConfig")
    if targets is None:
        targets = "all-linear" if details is None else list(PEFT_TARGETS)
        reader.assume("model.lora_targets", targets, "target_modules of the LoraConfig")
    return Lora(integer(rank, ranked, minimum=1, maximum=65_536), _targets(targets, aimed))


def _lora_details(setup: Setup) -> tuple[str, Mapping[str, Any] | None]:
    """The LoraConfig's arguments as far as they are stated, and where: peft_config, or model.peft as an object."""
    for where in ("peft_config", "model.peft"):
        value = setup.get(where)
        if isinstance(value, Mapping):
            return f"setup.{where}", value
    return "setup.peft_config", None


def _targets(value: Any, where: str) -> tuple[str, ...]:
    if value == "all-linear":
        return ALL_LINEAR
    if isinstance(value, str):
        value = [part.strip() for part in value.replace("|", ",").split(",")]
    if not isinstance(value, list | tuple | set) or not all(isinstance(part, str) for part in value):
        raise InputError("must be 'all-linear' or a list of module names", where=where)
    known = tuple(
        name for name in (*ALL_LINEAR, "lm_head", "embed_tokens") if any(part.endswith(name) for part in value)
    )
    # Fused or unusual names (qkv_proj, c_attn): count as if everything were targeted.
    return known or ALL_LINEAR
