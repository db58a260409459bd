"""Launching a training run: judged first, then made whole on disk, then started detached."""

import socket
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from grpo_rlvr.errors import InputError, RefusedError
from grpo_rlvr.interpreter import training_interpreter
from grpo_rlvr.models.run import Command, LaunchResult, RunSpec, Stage
from grpo_rlvr.runs.checkpoints import last_complete
from grpo_rlvr.runs.gpus import Gpu, list_gpus
from grpo_rlvr.runs.plan import (
    SECRETS,
    Plan,
    effective_config,
    make_plan,
    output_folder,
    phases,
    secrets_of,
    worker_spec,
    write_accelerate,
)  # fmt: skip
from grpo_rlvr.runs.records import write_record
from grpo_rlvr.runs.refusals import CLAIM, Judgement, judge, taken_gpus
from grpo_rlvr.runs.seal import folder_manifest, is_sealed, write_seal
from grpo_rlvr.runs.sources import copy_rewards
from grpo_rlvr.runs.start import child_environment, start_attempt, write_code
from grpo_rlvr.runs.state import read_state
from grpo_rlvr.runs.store import RunFolder, RunStore, now, write_attempt
from grpo_rlvr.workspace import Workspace


def launch(
    spec: RunSpec, workspace: Workspace, *, stage: Stage = "proof", dry_run: bool = False, waive: str = ""
) -> LaunchResult:
    """Start a training run, detached, if nothing stands against it; returns at once.

    Args:
        spec: The run.
        workspace: The workspace whose gate decides.
        stage: `proof` (2 steps), `smoke` (10) or `full`, which needs a finished smoke run of the same digest.
        dry_run: Return commands, files, effective description and refusals, and start nothing.
        waive: A person's reason for a full run without a smoke run; it is recorded.

    Raises:
        RefusedError: every reason, each with its remedy. InputError, NotFoundError: the spec names nothing.
    """
    store = RunStore(workspace)
    if spec.resume:
        return _resume_same(spec, workspace, dry_run=dry_run)
    interpreter = training_interpreter(workspace, spec.python)
    with store.lock(dry_run=dry_run):
        spec, gpus = hand_out_gpus(spec, store)
        if spec.vllm.mode == "server" and not spec.vllm.external and spec.vllm.port is None:
            spec = spec.model_copy(update={"vllm": spec.vllm.model_copy(update={"port": free_port()})})
        plan = make_plan(spec, stage, workspace, interpreter, gpus)
        judgement = judge(plan, store)
        _judge_stage(plan, store, judgement, waive)
        if dry_run:
            return _describe(plan, judgement, workspace.runs / "RUN", None, "planned", "Nothing was started.")
        refuse(judgement)
        folder = build_run(plan, store, judgement, waive)
        if spec.launcher.machines > 1:
            return _describe_nodes(plan, judgement, folder)
        start_attempt(folder, interpreter.path, phases(plan, folder.path), secrets=secrets_of(spec))
    message = "Started; ask run_status for its progress."
    return _describe(plan, judgement, folder.path, folder, "starting", message)


def _resume_same(spec: RunSpec, workspace: Workspace, *, dry_run: bool) -> LaunchResult:
    from grpo_rlvr.runs.resuming import resume_run

    folder = RunStore(workspace).get(spec.resume or "")
    launched = folder.run().get("spec") or {}
    stated = _without_secrets(spec.model_dump(mode="json", exclude_none=True))
    differing = [
        key
        for key in ("config", "model", "dataset", "rewards", "reading", "launcher", "evaluation", "guards")
        if stated.get(key) != launched.get(key)
    ]
    if differing:
        raise RefusedError(
            f"the spec differs from the one that '{spec.resume}' was launched with, in: {', '.join(differing)}",
            where="resume",
            remedy="Launch a new run, or give the spec as it was.",
        )
    return resume_run(folder.run_id, workspace, dry_run=dry_run, secrets=secrets_of(spec))


def refuse(judgement: Judgement) -> None:
    """Raise all refusals as one error.

    Raises:
        RefusedError: there is at least one.
    """
    if judgement.refusals:
        reasons = [f"[{reason.rule}] {reason.message.rstrip('.')}. {reason.remedy}" for reason in judgement.refusals]
        raise RefusedError("the launch is refused:\n- " + "\n- ".join(reasons))


def hand_out_gpus(spec: RunSpec, store: RunStore) -> tuple[RunSpec, list[Gpu]]:
    """Return the spec with its vLLM server's GPUs filled in, and the trainer's GPUs; the two never overlap.

    Raises:
        InputError: a named GPU does not exist, the two sets overlap, or too few are free.
    """
    if spec.launcher.cpu or spec.config.get("use_cpu") or spec.launcher.machines > 1:
        return spec, []
    present = {gpu.index: gpu for gpu in list_gpus()}
    if not present:
        return spec, []
    named = [*spec.launcher.gpus, *spec.vllm.gpus]
    unknown = [index for index in named if index not in present]
    if unknown or len(set(named)) != len(named):
        raise InputError(
            f"GPU {unknown[0]} is not there" if unknown else "trainer and vLLM server name the same GPU",
            where="launcher.gpus, vllm.gpus",
            remedy=f"This machine has: {', '.join(map(str, present))}.",
        )
    taken = {index for _, gpus in taken_gpus(store) for index in gpus}
    free = [index for index in present if index not in taken and index not in named]
    trainer = list(spec.launcher.gpus) or free[: spec.launcher.processes]
    free = [index for index in free if index not in trainer]
    server = list(spec.vllm.gpus)
    if spec.vllm.mode == "server" and not spec.vllm.external and not server:
        server = free[: spec.vllm.tensor_parallel_size * spec.vllm.data_parallel_size]
        if not server:
            raise InputError(
                "no GPU is left for the vLLM server",
                where="vllm",
                remedy="Use vllm.mode 'colocate', fewer launcher.processes, or wait for other runs.",
            )
    if len(trainer) < spec.launcher.processes:
        raise InputError(
            f"{spec.launcher.processes} processes need as many GPUs, {len(trainer)} are free of {len(present)}",
            where="launcher.processes",
            remedy="Lower launcher.processes, wait for other runs (list_runs), or set launcher.cpu.",
        )
    filled = spec.model_copy(update={"vllm": spec.vllm.model_copy(update={"gpus": server})})
    return filled, [present[index] for index in trainer]


def free_port() -> int:
    """Return a TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def build_run(plan: Plan, store: RunStore, judgement: Judgement, waive: str) -> RunFolder:
    """Make the run's folder in one rename, sealed, with everything that its processes need."""
    run_id = store.new_id("train")
    final = store.root / run_id
    with store.building(run_id) as folder:
        (folder / "attempts").mkdir()
        write_record(folder / "run.json", _record(plan, run_id, waive))
        write_record(folder / "spec.json", worker_spec(plan, run_id, final))
        gate = judgement.gate.model_dump(mode="json") if judgement.gate else {}
        write_record(folder / "gate.json", gate)
        write_accelerate(plan, folder)
        write_record(folder / "phases.json", {"phases": phases(plan, final)})
        write_code(folder)
        copy_rewards(plan.rewards, plan.workspace, folder / "code" / "user")
        write_seal(folder)
    claim_output(output_folder(plan, final), run_id)
    return store.get(run_id)


def claim_output(output: Path, run_id: str) -> None:
    """Mark a checkpoint folder as this run's."""
    output.mkdir(parents=True, exist_ok=True)
    write_record(output / CLAIM, {"run_id": run_id})


def _record(plan: Plan, run_id: str, waive: str) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "kind": "train",
        "name": plan.spec.name,
        "stage": plan.stage,
        "created": now(),
        "digest": plan.digest(),
        "reward_digest": plan.reward_digest,
        "reading_id": plan.spec.reading,
        "waived": waive,
        "python": str(plan.interpreter.path),
        "packages": plan.interpreter.packages,
        "external": plan.spec.launcher.machines > 1,
        "gpus": sorted({gpu.index for gpu in plan.gpus} | set(plan.spec.vllm.gpus)),
        "spec": _without_secrets(plan.spec.model_dump(mode="json", exclude_none=True)),
    }


def _describe_nodes(plan: Plan, judgement: Judgement, folder: RunFolder) -> LaunchResult:
    from grpo_rlvr.runs.nodes import node_commands, write_scripts

    commands = node_commands(plan, folder.path, folder_manifest(folder.path))
    write_attempt(folder, 1, {"run_id": folder.run_id, "phases": [], "external": True})
    scripts = write_scripts(plan, folder.path, commands)
    message = "Start the command of each machine, or one of the scripts; nothing runs yet."
    described = _describe(plan, judgement, folder.path, folder, "planned", message)
    files = {**described.files, **{name: str(path) for name, path in scripts.items()}}
    return described.model_copy(update={"commands": commands, "files": files})


def _without_secrets(spec: dict[str, Any]) -> dict[str, Any]:
    return {**spec, "config": {key: value for key, value in spec["config"].items() if key not in SECRETS}}


def _judge_stage(plan: Plan, store: RunStore, judgement: Judgement, waive: str) -> None:
    if plan.stage != "full":
        return
    if waive:
        judgement.warnings.append(f"no smoke run was asked for: {waive}")
        return
    digest = plan.digest()
    for folder in store.all():
        record = folder.run()
        same = record.get("digest") == digest and record.get("stage") == "smoke"
        if same and is_sealed(folder.path) and read_state(folder).state == "finished":
            return
    judgement.refuse(
        "no-smoke",
        "a full run needs a finished smoke run (10 steps) of exactly this config, model, data and reward code",
        "Launch it with stage 'smoke' first; a person may waive this on the command line with a reason.",
    )


def _describe(
    plan: Plan, judgement: Judgement, path: Path, folder: RunFolder | None, state: Any, message: str
) -> LaunchResult:
    shared = child_environment(path)
    commands = [
        Command(name=phase["name"], argv=phase["argv"], environment={**shared, **phase["environment"]})
        for phase in phases(plan, path)
    ]
    config = effective_config(plan)
    effective: dict[str, JsonValue] = {
        "config": config,
        "processes": plan.spec.launcher.processes * plan.spec.launcher.machines,
        "device": "cpu" if plan.on_cpu else "cuda",
        "gpus": [gpu.index for gpu in plan.gpus],
        "checkpoints": str(output_folder(plan, path)),
        "training_interpreter": str(plan.interpreter.path),
        "trl": plan.interpreter.packages.get("trl"),
        "rewards": [str(reward["reward"]) for reward in plan.rewards],
    }
    return LaunchResult(
        run_id=folder.run_id if folder else None,
        state=state,
        stage=plan.stage,
        digest=plan.digest(),
        commands=commands,
        files={name: str(path / name) for name in ("spec.json", "gate.json", "accelerate.json", "code", "log.txt")},
        effective=effective,
        refusals=judgement.refusals,
        warnings=judgement.warnings,
        gate=judgement.gate,
        message=f"{message}{_against(len(judgement.refusals))}",
    )


def _against(reasons: int) -> str:
    return "" if not reasons else f" {'1 reason stands' if reasons == 1 else f'{reasons} reasons stand'} against it."


def resume_point(folder: RunFolder) -> int | None:
    """Return the step of the newest whole checkpoint of a run, None when it has none."""
    checkpoint = last_complete(folder.output())
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else None
