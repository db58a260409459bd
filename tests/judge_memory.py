"""Judging memory cases: one JSON object a line with model, train, hardware and what was observed."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import GrpoError
from grpo_rlvr.memory import estimate
from grpo_rlvr.models.memory import MemoryEstimate
from grpo_rlvr.models.setup import Setup, parse_setup

CONFIG_FIELDS = (
    "beta", "gradient_checkpointing", "num_generations", "per_device_train_batch_size", "gradient_accumulation_steps",
    "use_vllm", "vllm_mode", "vllm_gpu_memory_utilization", "vllm_tensor_parallel_size", "vllm_max_model_length",
    "max_completion_length", "optim", "use_liger_kernel", "bf16",
)  # fmt: skip
# Engines that are neither TRL nor built on it: such lines inform, they are not judged.
OTHER_ENGINES = ("verl", "unsloth")
# A setup that states everything must come this near; where inputs had to be assumed, any number is only reported.
STATED_TOLERANCE = 0.15
# Words in the notes that say a setup was not fully stated by its source.
GUESSED = ("not stated", "unstated", "assumed", "approximated", "author", "row '", "claim", "calculation", "said to be")


def judge(path: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield (id, right, detail) for each judged line of a file, or of a folder's files."""
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    for case in (case for file in files for case in read_cases(file)):
        if not (case.get("contested") or is_other_engine(case)):
            yield judge_case(case)


def read_cases(path: Path) -> list[dict[str, Any]]:
    """Return the cases of one file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def is_other_engine(case: Mapping[str, Any]) -> bool:
    """Whether a line describes another engine than TRL."""
    framework = str(case["train"].get("framework", "trl")).lower()
    return framework.startswith(OTHER_ENGINES) or "unsloth" in framework


def judge_case(case: Mapping[str, Any]) -> tuple[str, bool, str]:
    """Return (id, right, detail) of one line."""
    try:
        answer = run_case(case)
    except GrpoError as error:
        return case["id"], False, f"{type(error).__name__}: {error}"
    observed = case["observed"]
    details, right = [], True
    fits = observed.get("fits")
    if fits is not None:
        verdict_right = answer.verdict == "tight" or (answer.verdict == "fits") == fits
        right &= verdict_right and answer.verdict != "unknown"
        details.append(f"verdict {answer.verdict}, observed {'fits' if fits else 'no'}")
    error = relative_error(answer, observed)
    if error is not None:
        if is_fully_stated(case):
            right &= abs(error) <= STATED_TOLERANCE
        details.append(
            f"{predicted(answer, observed):.2f} GB, observed {observed['peak_gb_per_gpu']:.2f} ({error:+.1%})"
        )
    return case["id"], bool(right), "; ".join(details) or "nothing observed"


def run_case(case: Mapping[str, Any]) -> MemoryEstimate:
    """Return the estimate for a line, through the public entry point."""
    config, setup = config_of(case), setup_of(case)
    return estimate(config, setup, trl_version=case["train"].get("trl_version"))


def config_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the GRPOConfig that a line describes."""
    train = case["train"]
    config = {name: train[name] for name in CONFIG_FIELDS if train.get(name) is not None}
    if train.get("sleep") is not None:
        config["vllm_enable_sleep_mode"] = train["sleep"]
    if train.get("dtype"):
        config["model_init_kwargs"] = {"dtype": train["dtype"]}
    return config


def setup_of(case: Mapping[str, Any]) -> Setup:
    """Return the setup that a line describes."""
    train, hardware = case["train"], case["hardware"]
    model = dict(case["model"])
    for source, target in (
        ("peft", "peft"), ("lora_r", "lora_r"), ("lora_targets", "lora_targets"), ("quant", "quantized"),
        ("attn", "attn"),
    ):  # fmt: skip
        if train.get(source) is not None:
            model[target] = train[source]
    launch = {name: train[name] for name in ("zero_stage", "engine", "offload") if train.get(name) is not None}
    raw: dict[str, Any] = {
        "model": model,
        "hardware": {"gpus": hardware["gpus"], "gpu_mem_gb": hardware["gb_each"], "kind": hardware["kind"]},
        "launch": launch | ({"framework": train["framework"]} if train.get("framework", "trl") != "trl" else {}),
    }
    if train.get("prompt_len") is not None:
        raw["dataset"] = {"max_prompt_tokens": train["prompt_len"]}
    return parse_setup(raw)


def predicted(answer: MemoryEstimate, observed: Mapping[str, Any]) -> float:
    """Return the estimate on the observation's own meter."""
    metric = str(observed.get("metric") or "").lower()
    if "allocated" in metric:
        return answer.peaks.allocated_gb
    if "reserved" in metric:
        return answer.peaks.reserved_gb
    return answer.peak_gb


def relative_error(answer: MemoryEstimate, observed: Mapping[str, Any]) -> float | None:
    """Return (estimate - observation) / observation, None when nothing was measured."""
    peak = observed.get("peak_gb_per_gpu")
    return None if peak is None else (predicted(answer, observed) - peak) / peak


def is_fully_stated(case: Mapping[str, Any]) -> bool:
    """Whether the source states the whole setup and reports a measurement."""
    notes = str(case.get("notes", "")).lower()
    return case["train"].get("trl_version") is not None and not any(word in notes for word in GUESSED)
