"""Step 4: launch TRL through the gate, watch, stop."""

import time
from typing import Annotated, Any

from pydantic import Field, ValidationError

from grpo_rlvr.errors import InputError
from grpo_rlvr.models.run import LaunchResult, RunList, RunLogs, RunSpec, RunStatus, Stage
from grpo_rlvr.tools.inputs import load_json_file
from grpo_rlvr.tools.registry import Progress
from grpo_rlvr.workspace import Workspace

POLL_S = 1.0
ENDED = frozenset({"halted", "finished", "failed", "stopped", "lost"})
RunId = Annotated[str, Field(description="Run id, as launch_training, sample_outputs or list_runs return it.")]


def launch_training(
    workspace: Workspace,
    spec: Annotated[RunSpec | None, Field(description="The run: config, model, dataset, rewards, reading, ...")] = None,
    path: Annotated[str | None, Field(description="JSON or YAML file with the spec instead.")] = None,
    stage: Annotated[Stage, Field(description="proof: 2 steps; smoke: 10; full: all, after a green smoke.")] = "proof",
    dry_run: Annotated[bool, Field(description="Only return commands, files and refusals.")] = False,
    resume: Annotated[
        str | None, Field(description="Run id to continue from its last checkpoint; then spec and stage are its own.")
    ] = None,
) -> LaunchResult:
    """Start a TRL GRPO run in the background if check and gate allow it; does not wait for it or override the gate."""
    from grpo_rlvr.runs import launch, resume_run

    if resume is not None:
        if spec is not None or path is not None:
            raise InputError(
                "a resumed run keeps its own spec", where="argument 'resume'", remedy="Give nothing but the run's id."
            )
        return resume_run(resume, workspace, dry_run=dry_run)
    return launch(load_run_spec(workspace, spec, path), workspace, stage=stage, dry_run=dry_run)


def run_status(
    workspace: Workspace,
    run_id: RunId,
    wait_s: Annotated[
        float,
        Field(ge=0, le=100, description="Seconds to wait for the run's end, with progress events; 0: answer now."),
    ] = 0,
    progress: Progress | None = None,
) -> RunStatus:
    """Report a run's state, progress, latest metrics and diagnosis; does not wait for it unless asked to."""
    from grpo_rlvr.runs import run_status as status

    deadline = time.monotonic() + wait_s
    while True:
        current = status(run_id, workspace)
        if progress is not None and current.progress is not None:
            progress(current.progress.done, current.progress.total, f"{current.state}: {current.progress.phase}")
        if current.state in ENDED or time.monotonic() + POLL_S > deadline:
            return current
        time.sleep(POLL_S)


def run_logs(
    workspace: Workspace,
    run_id: RunId,
    tail: Annotated[int, Field(ge=1, le=2000, description="Last lines to return.")] = 100,
    since: Annotated[int, Field(ge=0, description="Only lines from this one on (0-based).")] = 0,
    grep: Annotated[str | None, Field(description="Only lines that contain this text or match this regex.")] = None,
    max_characters: Annotated[
        int, Field(ge=1000, le=1_000_000, description="Most characters to return; earlier lines go first.")
    ] = 20_000,
) -> RunLogs:
    """Return lines of a run's log; does not follow it."""
    from grpo_rlvr.runs import run_logs as logs

    return _last_lines(logs(run_id, workspace, tail=tail, since=since, grep=grep), max_characters)


def stop_run(workspace: Workspace, run_id: RunId) -> RunStatus:
    """Stop a run, with a checkpoint first; does not delete anything."""
    from grpo_rlvr.runs import stop_run as stop

    return stop(run_id, workspace)


def list_runs(
    workspace: Workspace,
    limit: Annotated[int, Field(ge=1, le=500, description="Runs to return.")] = 50,
    offset: Annotated[int, Field(ge=0, description="Newest runs to leave out, for the next page.")] = 0,
) -> RunList:
    """List this workspace's training and sampling runs, newest first; shows no metrics."""
    from grpo_rlvr.runs import list_runs as runs

    found = runs(workspace)
    return RunList(runs=found.runs[offset : offset + limit], total=found.total)


def _last_lines(found: RunLogs, max_characters: int) -> RunLogs:
    """Keep the last lines that fit; a last line that is too long alone keeps its end, where errors stand."""
    kept: list[str] = []
    room = max_characters
    for line in reversed(found.lines):
        if len(line) + 1 > room:
            if not kept:
                kept.append(line[-room:])
            break
        kept.append(line)
        room -= len(line) + 1
    shortened = len(kept) < len(found.lines) or kept[-1:] != found.lines[:1]
    return found.model_copy(update={"lines": kept[::-1], "truncated": found.truncated or shortened})


def load_run_spec(workspace: Workspace, spec: RunSpec | dict[str, Any] | None, path: str | None) -> RunSpec:
    """Return the spec given inline or as a file.

    Raises:
        InputError: both or neither given, or not a spec; every wrong field is named.
    """
    if (spec is None) == (path is None):
        raise InputError("give exactly one of 'spec' and 'path'", where="arguments", remedy="Name the spec's file.")
    if isinstance(spec, RunSpec):
        return spec
    raw = spec if spec is not None else load_json_file(workspace, path or "", "path")
    try:
        return RunSpec.model_validate(raw)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'spec'}: {item['msg']}" for item in error.errors()[:5])
        raise InputError(
            f"not a run spec: {wrong}", where=path or "argument 'spec'", remedy="Mend these fields."
        ) from None
