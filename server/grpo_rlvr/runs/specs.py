"""The spec that a run was started with and the gate that let it start, as they were recorded."""

from pydantic import ValidationError

from grpo_rlvr.errors import InputError
from grpo_rlvr.models.run import RunGate, RunSpec
from grpo_rlvr.runs.records import read_record
from grpo_rlvr.runs.store import RunStore
from grpo_rlvr.workspace import Workspace


def run_spec(run_id: str, workspace: Workspace) -> RunSpec:
    """Return a training run's spec.

    Raises:
        InputError: not a run id, a sampling run, or a damaged folder. NotFoundError: no such run.
    """
    record = RunStore(workspace).get(run_id).run()
    try:
        return RunSpec.model_validate(record.get("spec") or {})
    except ValidationError:
        raise InputError(
            f"run '{run_id}' has no readable spec: a sampling run, or its run.json was damaged",
            where="argument 'run_id'",
            remedy="Name a training run.",
        ) from None


def run_gate(run_id: str, workspace: Workspace) -> RunGate | None:
    """Return the gate as it was when a run was launched; none for sampling runs and damaged folders.

    Raises:
        InputError: not a run id. NotFoundError: no such run.
    """
    record = read_record(RunStore(workspace).get(run_id).gate)
    return RunGate.model_validate(record) if record else None
