"""The setup: what surrounds a config. All sections are optional; unknown is not a default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.errors import InputError, nearest

# Sections with the keys that some rule, estimate or launch reads. A key that is not here is reported as not used,
# never refused: setups may carry more than we know.
KNOWN: dict[str, frozenset[str]] = {
    "model": frozenset(
        "class name family name_kind params_b active_b peft quantized instance adapter tokenizer special_tokens "
        "chat_template_prefills thinking generation_config num_attention_heads num_key_value_heads "
        "max_position_embeddings tie_word_embeddings path config layers hidden heads kv_heads head_dim intermediate "
        "vocab tied_embeddings tied qk_norm moe experts moe_intermediate lora_r lora_targets lora_alpha attn dtype "
        "attn_implementation".split()
    ),
    "hardware": frozenset(
        "device gpu gpus gpu_mem_gb num_processes num_machines cuda_visible_devices deepspeed_stage fsdp_version "
        "cp_size sp_size nvlink native_bf16 kind gb_each ram_gb".split()
    ),
    "dataset": frozenset(
        "columns format rows type streaming task prompts images image_tokens max_prompt_tokens eval path".split()
    ),
    "rewards": frozenset("name signature returns reads reward args weight".split()),
    "versions": frozenset(
        "trl transformers vllm peft liger_kernel bitsandbytes torch accelerate deepspeed datasets python".split()
    ),
    "vllm_server": frozenset("running gpus host port model max_model_len tensor_parallel_size command".split()),
    "launch": frozenset(
        "command env train_call concurrent_runs_on_host zero_stage engine offload python accelerate framework".split()
    ),
    "peft_config": frozenset(),
    "measured": frozenset(
        "clipped_ratio free_generation_p50 free_generation_p95 base_success_rate reward_constant".split()
    ),
    "trainer": frozenset(),
    "intent": frozenset(),
    "environment_factory": frozenset(),
}
# Free-form sections: their keys are the caller's own.
FREE = frozenset({"peft_config", "trainer", "intent", "environment_factory"})


@dataclass(frozen=True)
class Setup:
    """A parsed setup.

    `sections` holds only what was given. `unused` names the keys that nothing reads, as dotted paths.
    """

    sections: Mapping[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()

    def section(self, name: str) -> Mapping[str, Any]:
        """Return a section that is an object, empty when it was not given."""
        value = self.sections.get(name)
        return value if isinstance(value, Mapping) else {}

    def get(self, dotted: str, default: Any = None) -> Any:
        """Return the value at a dotted path such as `model.class`, or `default` when it is not stated."""
        value: Any = self.sections
        for part in dotted.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return default
            value = value[part]
        return value

    @property
    def rewards(self) -> list[Mapping[str, Any]]:
        """The reward functions as far as the setup states them."""
        value = self.sections.get("rewards") or []
        return [entry for entry in value if isinstance(entry, Mapping)]


def parse_setup(raw: Any) -> Setup:
    """Check the shape of a setup and list the keys that nothing reads.

    Raises:
        InputError: not an object, an unknown top-level key, or a section of the wrong type.
    """
    if raw is None:
        return Setup()
    if not isinstance(raw, Mapping):
        raise InputError(
            f"a setup must be an object, got {type(raw).__name__}",
            where="argument 'setup'",
            remedy=f"Give an object with any of: {', '.join(KNOWN)}.",
        )
    unused: list[str] = []
    for key, value in raw.items():
        if key not in KNOWN:
            raise InputError(
                f"unknown setup key '{key}'{nearest(str(key), KNOWN)}",
                where="argument 'setup'",
                remedy=f"Known keys: {', '.join(KNOWN)}.",
            )
        unused += _unused_keys(key, value)
    return Setup(dict(raw), tuple(unused))


def _unused_keys(section: str, value: Any) -> list[str]:
    if value is None or section in FREE:
        return []
    if section == "rewards":
        if not isinstance(value, list):
            raise InputError(
                f"'rewards' must be a list of objects, got {type(value).__name__}", where="argument 'setup'"
            )
        entries = [(f"rewards[{i}]", entry) for i, entry in enumerate(value)]
    else:
        entries = [(section, value)]
    unused = []
    for path, entry in entries:
        if not isinstance(entry, Mapping):
            raise InputError(f"'{path}' must be an object, got {type(entry).__name__}", where="argument 'setup'")
        unused += [f"{path}.{key}" for key in entry if key not in KNOWN[section]]
    return unused
