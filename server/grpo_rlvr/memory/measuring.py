"""Measured mode: two real steps in the training interpreter, term by term beside the estimate."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_rlvr.codefolder import write_code_folder
from grpo_rlvr.errors import InputError, UserError
from grpo_rlvr.interpreter import Interpreter, training_interpreter
from grpo_rlvr.memory import terms as t
from grpo_rlvr.memory.answer import estimate
from grpo_rlvr.memory.checkpoint import BITSANDBYTES
from grpo_rlvr.memory.inputs import read_plan
from grpo_rlvr.memory.plan import Plan
from grpo_rlvr.models.memory import MemoryEstimate, MemoryMeasurement, TermComparison
from grpo_rlvr.models.setup import Setup
from grpo_rlvr.workspace import Workspace

STEPS = 2
# Loading a 70B from a slow disk takes about 20 minutes; two steps are short beside it.
TIMEOUT_S = 3600
GB = 1e9
# Reading of the worker -> the peak of the estimate that it belongs to.
_MEANINGS = {
    "training_peak_allocated": "training peak, allocated",
    "training_peak_reserved": "training peak, reserved",
    "training_peak_device": "training peak, device",
    "generation_peak_allocated": "generation peak, allocated",
    "generation_peak_device": "generation peak, device",
}


# Variables by which torch, accelerate and transformers know that they are one of several processes.
_LAUNCH = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "MASTER_ADDR", "MASTER_PORT"}
    | {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"}
)


class MeasurementError(UserError):
    """The two steps could not be run."""


def measure(
    config: Mapping[str, Any],
    setup: Setup,
    workspace: Workspace,
    *,
    trl_version: str | None = None,
    python: str | None = None,
) -> MemoryMeasurement:
    """Run two real steps on this machine and compare term by term with the estimate.

    On a CPU the tensors that can be counted are compared (weights, adapters, gradients, optimizer); peaks need a GPU.

    Raises:
        InputError: as `estimate`, or a setup that one process cannot measure.
        MissingPackageError: the training interpreter lacks a package.
        MeasurementError: the run failed, with the reason it gave.
    """
    interpreter = training_interpreter(workspace, python)
    interpreter.require("trl", "torch", "transformers", "datasets")
    version = trl_version or interpreter.packages["trl"]
    plan = read_plan(config, setup, version, workspace)
    _measurable(plan, interpreter)
    result = _run(plan, config, setup, workspace, interpreter)
    measured = _as_measured(setup, result)
    answer = estimate(config, measured, trl_version=version, workspace=workspace)
    return MemoryMeasurement(
        device=str(result["device"]),
        steps=STEPS,
        estimate=answer,
        comparison=_compare(answer, read_plan(config, measured, version, workspace), result["bytes"]),
        versions=result["versions"],
        environment={
            "completion_lengths": result["lengths"],
            "prompt_lengths": result["prompts"],
            "total_memory": result["total_memory"],
            "used_at_start": result["bytes"].get("used_at_start", 0),
        },
    )


def _measurable(plan: Plan, interpreter: Interpreter) -> None:
    if plan.devices.training > 1 or plan.sharding.stage:
        raise InputError(
            "measuring runs one process on one GPU",
            where="setup.hardware",
            remedy="Measure with hardware.gpus 1 and no ZeRO; the sharded terms are divisions of these.",
        )
    if plan.engine.mode == "server":
        raise InputError(
            "measuring starts no vLLM server", where="config.vllm_mode", remedy="Measure with use_vllm false."
        )
    needed = [*(["peft"] if plan.lora else []), *(["bitsandbytes"] if plan.quantized in BITSANDBYTES else [])]
    needed += ["vllm"] if plan.engine.mode == "colocate" else []
    interpreter.require(*needed)


def _run(
    plan: Plan, config: Mapping[str, Any], setup: Setup, workspace: Workspace, interpreter: Interpreter
) -> dict[str, Any]:
    stated = dict(config) | {"model_init_kwargs": _init_kwargs(config, plan)}
    stated |= {"max_completion_length": plan.completion, "optim": plan.optim, "per_device_train_batch_size": plan.batch}
    if plan.on_cpu:
        stated["use_cpu"] = True
    spec = {
        "config": stated,
        "model": _model_path(setup, workspace),
        "lora": {"rank": plan.lora.rank, "targets": _targets(plan)} if plan.lora else None,
        # A checkpoint of another method is loaded as it is.
        "quantized": plan.quantized if plan.quantized in BITSANDBYTES else "",
        "prompt_tokens": plan.prompt,
        "steps": STEPS,
    }
    with tempfile.TemporaryDirectory(prefix="grpo-rlvr-measure-") as folder:
        return _child(spec, Path(folder), interpreter, on_cpu=plan.on_cpu)


def _init_kwargs(config: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """The keyword arguments of from_pretrained: as stated, in transformers' spelling, with what the setup adds."""
    kwargs = dict(config.get("model_init_kwargs") or {})
    name = next((key for key in ("dtype", "torch_dtype") if kwargs.get(key) is not None), "dtype")
    if kwargs.get(name) != "auto" and (name in kwargs or plan.dtype != "float32"):
        kwargs[name] = plan.dtype
    if plan.attention != "sdpa":
        kwargs.setdefault("attn_implementation", plan.attention)
    return kwargs


def _environment(code: Path, *, on_cpu: bool) -> dict[str, str]:
    """The child's environment: one visible GPU, no traces of a distributed launch.

    With several GPUs in sight transformers would spread the model over them (device_map 'auto') and wrap it in
    DataParallel.
    """
    kept = {key: value for key, value in os.environ.items() if key not in _LAUNCH and not key.startswith("ACCELERATE_")}
    visible = "" if on_cpu else os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    return {
        **kept,
        "PYTHONPATH": str(code),
        "PYTHONUTF8": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUDA_VISIBLE_DEVICES": visible,
    }


def _child(spec: Mapping[str, Any], folder: Path, interpreter: Interpreter, *, on_cpu: bool) -> dict[str, Any]:
    code = write_code_folder(folder / "code", ("memory/worker.py",))
    (folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    out = folder / "result.json"
    command = [str(interpreter.path), "-m", "grpo_rlvr.memory.worker", str(folder / "spec.json"), str(out)]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=_environment(code, on_cpu=on_cpu),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"two steps took more than {TIMEOUT_S} s", remedy="Measure a smaller batch.") from None
    if not out.is_file():
        tail = done.stderr.decode("utf-8", "replace")[-800:]
        raise MeasurementError(f"the measuring process died with code {done.returncode}: ...{tail}")
    result: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    if "error" in result:
        raise _failure(result)
    return result


def _failure(result: Mapping[str, Any]) -> MeasurementError:
    reason = str(result["error"])[:800]
    if result.get("no_gpu"):
        return MeasurementError(
            f"there is no CUDA GPU to measure on ({reason})",
            where="this machine",
            remedy="Peaks need a GPU. On the CPU, weights, gradients and optimizer can be measured: set "
            "hardware.device to 'cpu'. The estimate itself needs no GPU.",
        )
    if reason.startswith(("OutOfMemoryError", "MemoryError")):
        return MeasurementError(
            f"the run is out of memory ({reason})",
            where="measuring process",
            remedy="That is the answer: this config does not fit. Without --measure the levers are ranked.",
        )
    return MeasurementError(
        f"the two steps failed: {reason}",
        where="measuring process",
        remedy="Run `grpo-rlvr check` on the config.",
    )


def _model_path(setup: Setup, workspace: Workspace) -> str:
    path = setup.get("model.path")
    if path is not None:
        return str(workspace.folder(path, "setup.model.path"))
    name = setup.get("model.name")
    if not isinstance(name, str):
        raise InputError(
            "measuring needs a model to load", where="setup.model", remedy="Give model.name or model.path."
        )
    local = workspace.root / name
    return str(local) if (local / "config.json").is_file() else name


def _targets(plan: Plan) -> str | list[str]:
    from grpo_rlvr.memory.adapter import ALL_LINEAR

    targets = plan.lora.targets if plan.lora else ()
    return "all-linear" if targets == ALL_LINEAR else list(targets)


def _as_measured(setup: Setup, result: Mapping[str, Any]) -> Setup:
    """The setup with the card and the prompt length that the run really had."""
    sections = dict(setup.sections)
    if result["prompts"]:
        sections["dataset"] = {**setup.section("dataset"), "max_prompt_tokens": max(result["prompts"])}
    if result["device"] != "cpu":
        card = {"gpu": result["device"], "gpu_mem_gb": result["total_memory"] / GB}
        sections["hardware"] = {**setup.section("hardware"), **card}
    return Setup(sections, setup.unused)


def _compare(answer: MemoryEstimate, plan: Plan, sizes: Mapping[str, int]) -> list[TermComparison]:
    pairs = [
        ("weights", t.weights(plan), sizes.get("weights")),
        ("adapters", t.adapters(plan), sizes.get("adapters")),
        ("gradients", t.gradients(plan), sizes.get("gradients")),
        ("optimizer", t.optimizer(plan), sizes.get("optimizer")),
    ]
    for reading, words in _MEANINGS.items():
        phase, _, meter = words.partition(" peak, ")
        # vLLM shares the process: torch's own counters then hold a part of the engine as well.
        if meter == "device" or plan.engine.mode != "colocate":
            pairs.append((words, _peak(answer, phase, meter) * GB, sizes.get(reading)))
    if plan.engine.mode != "colocate":
        pairs.append(("context and libraries", plan.devices.context_gb * GB, sizes.get("outside_allocator")))
    return [
        TermComparison(
            name=name,
            estimated_gb=round(estimated / GB, 6),
            measured_gb=round(measured / GB, 6),
            error=round(estimated / measured - 1, 4),
        )
        for name, estimated, measured in pairs
        if estimated and measured
    ]


def _peak(answer: MemoryEstimate, name: str, meter: str) -> float:
    # The trainer scores the answers, without gradients, in the call that generates them.
    names = ("generation", "logprob") if name == "generation" else (name,)
    outside = {"context", "vllm_pool", "vllm_residue"} | ({"allocator"} if meter == "allocated" else set())
    return max(
        phase.peak_gb if meter == "device" else sum(term.gb for term in phase.terms if term.name not in outside)
        for phase in answer.phases
        if phase.name in names
    )
