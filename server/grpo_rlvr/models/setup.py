"""The setup: what surrounds a config. All sections are optional; unknown is not a default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.errors import InputError, nearest

# Sections with the keys that some rule, estimate or launch reads, and what each means: references/setup.md is made from
# it. A key that is not here is reported as not used, never refused: setups may carry more than we know.
KNOWN: dict[str, dict[str, str]] = {
    "model": {
        "name": "hub id or known name, such as `Qwen/Qwen2.5-7B-Instruct`",
        "path": "folder with the model's config.json",
        "config": "the content of its config.json, or a path to it",
        "class": "`dense`, `moe` or `vlm`",
        "family": "architecture family, such as `qwen2`",
        "name_kind": "`base`, `instruct` or `thinking`",
        "params_b": "parameters, in billions",
        "active_b": "parameters used for one token (mixture of experts), in billions",
        "dtype": "dtype the weights are loaded in, such as `bfloat16`",
        "attn_implementation": "attention kernel, such as `sdpa`",
        "attn": "the same, short",
        "peft": "true, or the LoRA arguments `{r, target_modules, ...}`",
        "lora_r": "LoRA rank",
        "lora_alpha": "LoRA alpha",
        "lora_targets": "adapted modules: a list, or `all-linear`",
        "quantized": "`4bit`, `8bit` or false",
        "adapter": "adapter of a model object: `{is_trainable, ...}`",
        "instance": "source text of how the model object was made",
        "tokenizer": "what is known of its tokenizer: `{chat_template, pad_token, ...}`",
        "special_tokens": "special tokens that matter, such as `<think>`",
        "chat_template_prefills": "text that the chat template puts at the start of an answer, such as `<think>`",
        "thinking": "whether it thinks before it answers",
        "generation_config": "values of its generation_config.json",
        "max_position_embeddings": "context length, in tokens",
        "layers": "transformer blocks", "hidden": "hidden width", "heads": "attention heads",
        "kv_heads": "key-value heads", "head_dim": "width of a head", "intermediate": "width of the MLP",
        "vocab": "vocabulary entries",
        "num_attention_heads": "attention heads", "num_key_value_heads": "key-value heads",
        "tied_embeddings": "whether head and embedding share weights",
        "tied": "the same, short", "tie_word_embeddings": "the same, as in config.json",
        "qk_norm": "whether queries and keys are normalised",
        "moe": "whether it is a mixture of experts", "experts": "experts a block",
        "moe_intermediate": "width of one expert",
    },
    "hardware": {
        "device": "`cuda`, `cpu`, `mps`, `xpu` or `npu`",
        "gpu": "card, such as `H100`", "kind": "the same",
        "gpus": "number of GPUs of the whole job", "gpu_mem_gb": "memory of one GPU, in 10^9 bytes",
        "gb_each": "the same", "ram_gb": "main memory, in 10^9 bytes",
        "num_processes": "training processes of the whole job", "num_machines": "machines",
        "cuda_visible_devices": "GPUs that the trainer sees: a list",
        "deepspeed_stage": "ZeRO stage, 0 to 3", "fsdp_version": "1 or 2",
        "cp_size": "context-parallel degree", "sp_size": "sequence-parallel degree",
        "nvlink": "whether GPUs are joined by NVLink", "native_bf16": "whether the card computes bfloat16 itself",
    },
    "dataset": {
        "columns": "column names: a list", "path": "where it lies", "rows": "number of rows",
        "format": "`string` or `conversational`", "type": "class of the object, such as `IterableDataset`",
        "streaming": "whether it is streamed", "task": "what is asked, in words",
        "prompts": "what a prompt looks like: in words, or a list of sample prompts (texts or lists of messages)",
        "max_prompt_tokens": "longest prompt, in tokens", "images": "what is known of its images",
        "image_tokens": "tokens of one image", "eval": "the evaluation set: `{rows}`, or null for none",
    },
    "rewards": {
        "name": "function or import path", "reward": "reward spec: a library name or `file.py:func`",
        "args": "the spec's arguments", "weight": "its weight", "signature": "`def f(completions, **kwargs)`",
        "returns": "what it returns, in words", "reads": "what it reads, in words",
        "looks_for": "what a completion must hold: a list of `<answer>`, `\\boxed`, `JSON`, ...",
    },
    "versions": {name: f"installed version of {name.replace('_', '-')}" for name in (
        "trl", "transformers", "vllm", "peft", "liger_kernel", "bitsandbytes", "torch", "accelerate", "deepspeed",
        "datasets", "python", "flash_linear_attention",
    )},
    "vllm_server": {
        "running": "whether it runs now", "gpus": "how many GPUs it has, or their indices as a list",
        "host": "address", "port": "port",
        "model": "model it serves", "max_model_len": "its context, in tokens",
        "tensor_parallel_size": "GPUs one copy is split over", "command": "the command line that started it",
    },
    "launch": {
        "command": "the training's command line", "env": "environment variables of the training",
        "train_call": "source text of the call to `train`", "concurrent_runs_on_host": "runs on this machine at once",
        "zero_stage": "ZeRO stage, 0 to 3", "engine": "`deepspeed`, `fsdp` or `ddp`",
        "offload": "what ZeRO offloads: a list of `param` and `optimizer`",
        "accelerate": "accelerate's settings, or the path of their file", "python": "the training's interpreter",
        "framework": "another trainer than TRL, such as `ms-swift`",
    },
    "peft_config": {},
    "measured": {
        "clipped_ratio": "share of completions cut at the limit, 0 to 1",
        "free_generation_p50": "median length without a limit, in tokens",
        "free_generation_p95": "95th percentile of it, in tokens",
        "base_success_rate": "share of right answers before training, 0 to 1",
        "reward_constant": "whether all rewards of a group are always equal",
    },
    "trainer": {},
    "intent": {},
    "environment_factory": {},
}  # fmt: skip
# Keys that accelerate writes at the top of its settings: such a file states how a run is launched, as it is.
ACCELERATE = frozenset({"compute_environment", "distributed_type"})
# Sections that a text alone may stand for, and the key that it fills.
NAMED_BY = {"model": "name", "hardware": "gpu"}
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
    if ACCELERATE & raw.keys():
        raw = {"launch": {"accelerate": raw}}
    raw = {key: _written_out(key, value) for key, value in raw.items()}
    unused: list[str] = []
    for key, value in raw.items():
        if key not in KNOWN:
            raise InputError(
                f"unknown setup key '{key}'{nearest(str(key), KNOWN)}",
                where="argument 'setup'",
                remedy=f"Known keys: {', '.join(KNOWN)}.",
            )
        unused += _unused_keys(key, value)
    return Setup(_with_peft_config(raw), tuple(unused))


def _written_out(section: str, value: Any) -> Any:
    """A section that is given by its name alone: a model, a GPU, rewards."""
    if section == "rewards" and isinstance(value, list):
        return [{"reward": entry} if isinstance(entry, str) else entry for entry in value]
    if not isinstance(value, str) or section not in NAMED_BY:
        return value
    return {"path" if section == "model" and value.startswith((".", "/", "~")) else NAMED_BY[section]: value}


def _with_peft_config(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The sections, with LoRA arguments that stand in model.peft where everything reads them: in peft_config."""
    sections = dict(raw)
    model = raw.get("model")
    if isinstance(model, Mapping) and isinstance(model.get("peft"), Mapping):
        sections["model"] = {**model, "peft": True}
        if sections.get("peft_config") is None:
            sections["peft_config"] = dict(model["peft"])
    return sections


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
        unused += [f"{path}.{key}{nearest(str(key), KNOWN[section])}" for key in entry if key not in KNOWN[section]]
    return unused
