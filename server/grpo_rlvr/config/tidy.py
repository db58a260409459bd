"""A setup as rules read it: the same facts, whichever of the usual ways they are written in."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from grpo_rlvr.models.setup import Setup

# Setup values that rules calculate with.
NUMBERS = (
    "model.params_b", "model.active_b", "model.num_attention_heads", "model.num_key_value_heads",
    "model.max_position_embeddings", "hardware.num_processes", "hardware.num_machines", "hardware.gpus",
    "hardware.gpu_mem_gb", "hardware.deepspeed_stage", "hardware.fsdp_version", "hardware.cp_size", "dataset.rows",
    "dataset.max_prompt_tokens", "measured.clipped_ratio", "measured.free_generation_p50",
    "measured.free_generation_p95", "launch.concurrent_runs_on_host", "vllm_server.port", "vllm_server.max_model_len",
    "vllm_server.tensor_parallel_size",
)  # fmt: skip
SWITCHES = (
    "hardware.nvlink", "hardware.native_bf16", "dataset.streaming", "vllm_server.running", "model.peft",
    "model.tie_word_embeddings",
)  # fmt: skip
WORDS = ("model.class", "dataset.format")
# 80, 0.5, 7B, 80 GB.
_NUMBER = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s*(?:b|gb|gib)?", re.IGNORECASE)


def tidied(setup: Setup) -> Setup:
    """Return a setup whose numbers and switches are such, whose words are lower case, and whose columns are a list."""
    setup = with_launcher(setup)
    changed: dict[str, dict[str, Any]] = {}
    for path, convert in _CONVERSIONS:
        section, _, key = path.partition(".")
        value = setup.get(path)
        better = convert(value) if isinstance(value, str | Mapping | list) else value
        if better is not value:
            changed.setdefault(section, dict(setup.section(section)))[key] = better
    return Setup({**setup.sections, **changed}, setup.unused) if changed else setup


def with_launcher(setup: Setup) -> Setup:
    """Return a setup that also states what accelerate's settings in `launch.accelerate` say of processes and shards."""
    settings = setup.get("launch.accelerate")
    if not isinstance(settings, Mapping):
        return setup
    nested = {name: settings.get(name) for name in ("deepspeed_config", "fsdp_config")}
    found = {
        "num_processes": settings.get("num_processes"),
        "num_machines": settings.get("num_machines"),
        "deepspeed_stage": _of_kind(settings, "DEEPSPEED", nested["deepspeed_config"], "zero_stage"),
        "fsdp_version": _of_kind(settings, "FSDP", nested["fsdp_config"], "fsdp_version"),
    }
    stated = {name: value for name, value in setup.section("hardware").items() if value is not None}
    known = {name: value for name, value in found.items() if value is not None}
    return Setup({**setup.sections, "hardware": {**known, **stated}}, setup.unused) if known else setup


def _of_kind(settings: Mapping[str, Any], kind: str, nested: Any, key: str) -> Any:
    said = str(settings.get("distributed_type") or kind).upper()
    return nested.get(key) if isinstance(nested, Mapping) and said == kind else None


def _number(value: Any) -> Any:
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return value
    return float(match[1]) if "." in match[1] else int(match[1])


def _count(value: Any) -> Any:
    return len(value) if isinstance(value, list) else value


def _switch(value: Any) -> Any:
    return {"true": True, "false": False}.get(value.strip().lower(), value) if isinstance(value, str) else value


def _word(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _columns(value: Any) -> Any:
    # `prompt, answer`, or a mapping of column to type as datasets prints its features.
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return list(value) if isinstance(value, Mapping) else value


_CONVERSIONS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    *((path, _number) for path in NUMBERS),
    *((path, _switch) for path in SWITCHES),
    *((path, _word) for path in WORDS),
    ("dataset.columns", _columns),
    # The machine's GPUs named one by one.
    ("hardware.gpus", _count),
)
