"""Keys of a TRL command-line YAML that are no GRPOConfig arguments: model, dataset, rewards, launcher."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from grpo_rlvr.config.names import ELSEWHERE, FOREIGN, RENAMED, framework_of
from grpo_rlvr.config.tables import lifetimes, transformers_history

# One of these says that the file feeds a training script and not GRPOConfig alone.
MARKERS = frozenset(
    {
        "model_name_or_path", "dataset_name", "datasets", "use_peft", "reward_funcs", "lora_r", "lora_target_modules",
        "reward_model_name_or_path", "dataset_train_split", "dataset_prompt_column", "dataset_mixture",
    }
)  # fmt: skip

# Where a script key belongs in the setup, as a dotted path.
_TO_SETUP = {
    "model_name_or_path": "model.name",
    "dataset_name": "dataset.path",
    "dataset_streaming": "dataset.streaming",
    "num_processes": "hardware.num_processes",
    "num_machines": "hardware.num_machines",
    "env": "launch.env",
    "use_peft": "model.peft",
}
_TO_MODEL_INIT = {
    "dtype": "dtype",
    "torch_dtype": "dtype",
    "attn_implementation": "attn_implementation",
    "model_revision": "revision",
    "trust_remote_code": "trust_remote_code",
}
_TO_PEFT = {
    "lora_r": "r",
    "lora_alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "lora_target_modules": "target_modules",
    "lora_target_parameters": "target_parameters",
    "lora_modules_to_save": "modules_to_save",
    "lora_task_type": "task_type",
    "use_rslora": "use_rslora",
    "use_dora": "use_dora",
}
_TO_TRAINER = frozenset(
    {
        "dataset_config", "dataset_train_split", "dataset_test_split", "datasets", "test_split_size", "config",
        "reward_model_name_or_path", "ignore_bias_buffers", "bnb_4bit_quant_type", "use_bnb_nested_quant",
        "bnb_4bit_quant_storage", "accelerate_config", "config_file", "num_cpu_threads_per_process", "tools",
        "dataset_prompt_column", "dataset_mixture", "system_prompt", "chat_template", "benchmarks", "callbacks",
        "wandb_entity", "wandb_project", "wandb_run_group", "num_completions_to_print", "overwrite_hub_revision",
        "push_to_hub_revision", "hub_model_revision", "cosine_min_value_wrong", "cosine_max_value_wrong",
        "cosine_min_value_correct", "cosine_max_value_correct", "cosine_max_len", "repetition_n_grams",
        "repetition_max_penalty", "code_language", "code_eval_test_batch_size", "code_eval_scoring_mode",
        "parallel_code_exec_per_proc", "code_provider", "max_completion_len", "soft_punish_cache", "ioi_provider",
        "e2b_router_url", "morph_router_url",
    }
)  # fmt: skip


# A key this near to an option is one misspelt, and no argument of somebody's own script.
_SLIP = 0.75


@dataclass
class Routed:
    """A command-line file taken apart."""

    config: dict[str, Any] = field(default_factory=dict)
    setup: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def is_script_file(value: Mapping[str, Any]) -> bool:
    """Whether a mapping feeds a TRL training script rather than GRPOConfig alone."""
    return bool(MARKERS & value.keys())


def route(value: Mapping[str, Any], signature_of: Callable[[str], str | None]) -> Routed:
    """Take a command-line file apart into GRPOConfig arguments and what it shows of the setup.

    Args:
        value: The file's mapping.
        signature_of: Gives the signature of a reward function known by name, None for others.
    """
    routed = Routed()
    peft: dict[str, Any] = {}
    model_init: dict[str, Any] = {}
    for key, item in value.items():
        if key in _TO_SETUP:
            put(routed.setup, _TO_SETUP[key], item)
        elif key in _TO_MODEL_INIT:
            model_init[_TO_MODEL_INIT[key]] = item
        elif key in _TO_PEFT:
            peft[_TO_PEFT[key]] = item
        elif key in ("load_in_4bit", "load_in_8bit"):
            if item:
                put(routed.setup, "model.quantized", key.removeprefix("load_in_"))
        elif key == "reward_funcs":
            routed.setup["rewards"] = [_reward(str(name), signature_of) for name in _listed(item)]
        elif key in _TO_TRAINER:
            put(routed.setup, f"trainer.{key}", item)
        elif _is_of_the_script(key, value):
            routed.notes.append(f"{key}: no option of TRL or transformers; taken for an argument of your own script.")
        else:
            routed.config[key] = item
    _finish(routed, value, peft, model_init)
    return routed


def _is_of_the_script(key: str, value: Mapping[str, Any]) -> bool:
    """Whether a key can only be a field of the dataclass that the user's own script reads beside TRL's."""
    known = {*lifetimes(), *transformers_history()["fields"], *FOREIGN, *RENAMED, *ELSEWHERE}
    if key in known or isinstance(value[key], Mapping) or framework_of(list(value)):
        return False
    return not get_close_matches(key, known, n=1, cutoff=_SLIP)


def _finish(routed: Routed, value: Mapping[str, Any], peft: dict[str, Any], model_init: dict[str, Any]) -> None:
    if model_init:
        own = routed.config.get("model_init_kwargs")
        routed.config["model_init_kwargs"] = {**(own if isinstance(own, dict) else {}), **model_init}
    if value.get("use_peft"):
        routed.setup["peft_config"] = peft
    elif peft:
        routed.notes.append(f"{', '.join(sorted(peft))}: LoRA options have no effect without use_peft: true.")
        put(routed.setup, "model.peft", False)
    elif "model_name_or_path" in value:
        put(routed.setup, "model.peft", False)
    if "model_name_or_path" in value:
        put(routed.setup, "model.instance", False)


def _reward(name: str, signature_of: Callable[[str], str | None]) -> dict[str, Any]:
    signature = signature_of(name)
    return {"name": name} if signature is None else {"name": name, "signature": signature}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def put(target: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a value at a dotted path, making the objects on the way."""
    *parents, last = dotted.split(".")
    for parent in parents:
        target = target.setdefault(parent, {})
    target[last] = value
