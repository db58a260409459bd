"""Going on with a run from its newest whole checkpoint, as a new attempt of the same run."""

from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError, RefusedError
from grpo_rlvr.interpreter import training_interpreter
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.run import Command, LaunchResult, RunGate
from grpo_rlvr.runs.checkpoints import last_complete
from grpo_rlvr.runs.records import iter_rows, read_record
from grpo_rlvr.runs.refusals import taken_gpus
from grpo_rlvr.runs.seal import is_sealed
from grpo_rlvr.runs.sources import reward_files
from grpo_rlvr.runs.start import start_attempt
from grpo_rlvr.runs.state import read_state
from grpo_rlvr.runs.store import RunFolder, RunStore
from grpo_rlvr.workspace import Workspace


def resume_run(
    run_id: str, workspace: Workspace, *, dry_run: bool = False, secrets: dict[str, str] | None = None
) -> LaunchResult:
    """Start the next attempt of a run; config, data and reward code stay those of its launch.

    Args:
        run_id: The run.
        workspace: Its workspace.
        dry_run: Say where it would go on, and start nothing.
        secrets: Environment variables for its processes that are written nowhere.

    Raises:
        InputError: it still runs, or is no training run. RefusedError: it finished, its folder was edited, or the
            gate no longer stands.
    """
    store = RunStore(workspace)
    folder = store.get(run_id)
    record = folder.run()
    if record.get("kind") != "train":
        raise InputError(f"'{run_id}' is no training run", where="resume", remedy="Resume it with sample_outputs.")
    with store.lock(dry_run=dry_run):
        _check_resumable(folder, record, workspace)
        _check_gpus(folder, record, store)
        phases = _phases_left(folder)
        if not dry_run:
            interpreter = training_interpreter(workspace, str(record["python"]))
            folder.stop.unlink(missing_ok=True)
            start_attempt(folder, interpreter.path, phases, secrets=secrets)
    checkpoint = last_complete(folder.output())
    place = f"from {checkpoint.name}" if checkpoint else "from the start: it has no whole checkpoint yet"
    return LaunchResult(
        run_id=run_id,
        state="planned" if dry_run else "starting",
        stage=record["stage"],
        digest=record["digest"],
        commands=[Command(name=p["name"], argv=p["argv"], environment=p["environment"]) for p in phases],
        files={"run": str(folder.path)},
        effective={"config": (read_record(folder.spec) or {}).get("config"), "from": place},
        gate=RunGate.model_validate(read_record(folder.gate) or {"open": False}),
        message=f"{'Would go on' if dry_run else 'Goes on'} {place}.",
    )


def _check_resumable(folder: RunFolder, record: dict[str, Any], workspace: Workspace) -> None:
    state = read_state(folder)
    if state.alive:
        raise InputError(
            f"'{folder.run_id}' is still {state.state}", where="resume", remedy="Stop it first (stop_run)."
        )
    if state.state == "finished":
        raise RefusedError(f"'{folder.run_id}' has finished", where="resume", remedy="Launch a new run.")
    if not is_sealed(folder.path):
        raise RefusedError(
            f"the files of '{folder.run_id}' were changed after its launch, or it comes from elsewhere",
            where="resume",
            remedy="Launch a new run: only what was checked and read may train.",
        )
    spec = read_record(folder.spec) or {}
    if Path(str(spec.get("workspace"))) != workspace.root:
        raise RefusedError(
            f"'{folder.run_id}' was launched in {spec.get('workspace')}",
            where="resume",
            remedy="Launch a new run here.",
        )
    _check_gate(record, spec, workspace)


def _check_gate(record: dict[str, Any], spec: dict[str, Any], workspace: Workspace) -> None:
    from grpo_rlvr.inspection import check_gate

    try:
        now: Any = reward_files(spec["rewards"], workspace.root)
    except ValueError as error:
        now = str(error)
    if now != spec["reward_files"]:
        raise RefusedError(
            "the reward code of the workspace is no longer the one that this run was launched with",
            where="resume",
            remedy="Put it back, or read samples scored by the new code and launch a new run.",
        )
    state = check_gate(workspace, record["reading_id"], [RewardSpec.model_validate(r) for r in spec["rewards"]])
    # The user's files are the same, so only our own library can differ, after an update of this package; the run goes
    # on with its own copy, which is the one that was read.
    reasons = [reason.message for reason in state.reasons if reason.code != "reward_changed"]
    if reasons:
        raise RefusedError(f"the gate is closed: {'; '.join(reasons)}", where="resume", remedy="See reading_status.")


def _check_gpus(folder: RunFolder, record: dict[str, Any], store: RunStore) -> None:
    mine = set(record.get("gpus") or [])
    for other, gpus in taken_gpus(store):
        if mine & gpus and other != folder.run_id:
            raise RefusedError(
                f"its GPU {sorted(mine & gpus)[0]} is in use by run {other}",
                where="resume",
                remedy=f"Wait for it, or stop it (stop_run {other}).",
            )


def _phases_left(folder: RunFolder) -> list[dict[str, Any]]:
    record = read_record(folder.path / "phases.json")
    if record is None:
        raise InputError(f"the plan of '{folder.run_id}' is gone", where="resume", remedy="Launch a new run.")
    done = {row["name"] for row in iter_rows(folder.path / "phases_done.jsonl")}
    # The server and the watcher are there for training alone.
    skipped = done | ({"vLLM server", "watch"} if "train" in done else set())
    return [phase for phase in record["phases"] if phase["name"] not in skipped]
