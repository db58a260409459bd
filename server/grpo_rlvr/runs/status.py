"""Asking about runs: state, progress, logs, metrics, completions; and stopping them."""

import json
import math
import re
import time
from pathlib import Path
from typing import Any, Literal

from grpo_rlvr.errors import InputError
from grpo_rlvr.models.run import EvaluationResult, GpuUse, Progress, RunList, RunLogs, RunStatus, RunSummary
from grpo_rlvr.runs.checkpoints import complete_steps
from grpo_rlvr.runs.measure import measure
from grpo_rlvr.runs.process import end_all
from grpo_rlvr.runs.records import iter_rows, tail_lines, write_record
from grpo_rlvr.runs.state import State, read_state
from grpo_rlvr.runs.store import RunFolder, RunStore, iso
from grpo_rlvr.runs.watch import live_labels
from grpo_rlvr.workspace import Workspace

LOG_TAIL = 20
WENT_WRONG = ("failed", "lost", "halted")
# The shapes of keys that programs print by mistake; a log that is shown must not pass them on.
SECRET = re.compile(r"\b(hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[A-Z0-9]{16}|gh[pousr]_[A-Za-z0-9]{30,})\b")


def run_status(run_id: str, workspace: Workspace) -> RunStatus:
    """Return what a run does now, from its files and processes alone.

    Raises:
        InputError: not a run id. NotFoundError: no such run.
    """
    folder = RunStore(workspace).get(run_id)
    record, state = folder.run(), read_state(folder)
    wrong = state.state in WENT_WRONG
    return RunStatus(
        run_id=run_id,
        name=record.get("name", ""),
        kind=record.get("kind") or _kind(run_id),
        stage=record.get("stage"),
        state=state.state,
        message=state.message,
        created=record.get("created", ""),
        started=iso(state.started),
        ended=iso(state.ended),
        attempt=state.attempt,
        progress=_progress(state, record),
        metrics={k: v for k, v in (state.progress.get("metrics") or {}).items() if k != "time"},
        checkpoints=complete_steps(folder.output()) if record.get("kind") == "train" else [],
        evaluation=_evaluation(folder),
        diagnosis=live_labels(folder.path) if record.get("kind") == "train" else None,
        gpus=_gpus(record) if state.alive else [],
        log_tail=log_tail(folder) if wrong else [],
        digest=record.get("digest"),
        reading_id=record.get("reading_id"),
        folder=_relative(folder.path, workspace),
        files=_files(folder, workspace),
    )


def _evaluation(folder: RunFolder) -> EvaluationResult | None:
    result = measure(folder.path)
    return EvaluationResult.model_validate(result) if result else None


def log_tail(folder: RunFolder, count: int = LOG_TAIL) -> list[str]:
    """Return the last lines of a run's log, keys blotted out."""
    return [redact(line) for line in tail_lines(folder.log, count)[0]]


def redact(line: str) -> str:
    """Blot out what looks like a key."""
    return SECRET.sub("[key]", line)


def run_logs(run_id: str, workspace: Workspace, *, tail: int = 100, since: int = 0, grep: str | None = None) -> RunLogs:
    """Return lines of a run's log.

    Args:
        run_id: The run.
        workspace: Its workspace.
        tail: How many of the last matching lines, at most.
        since: Only lines from this number on, counted from 0.
        grep: Only lines that match this regular expression, or contain the text where it is none.

    Raises:
        InputError: not a run id, or numbers out of range. NotFoundError: no such run.
    """
    folder = RunStore(workspace).get(run_id)
    if tail < 1 or since < 0:
        raise InputError(f"tail must be positive and since not negative, got {tail} and {since}", where="arguments")
    path = _relative(folder.log, workspace)
    if since == 0 and grep is None:
        lines, more = tail_lines(folder.log, tail)
        return RunLogs(run_id=run_id, lines=[redact(line) for line in lines], truncated=more, path=path)
    matches = _matcher(grep)
    found: list[str] = []
    if folder.log.exists():
        with folder.log.open(encoding="utf-8", errors="replace") as file:
            found = [line.rstrip("\n") for number, line in enumerate(file) if number >= since and matches(line)]
    lines = [redact(line) for line in found[-tail:]]
    return RunLogs(run_id=run_id, lines=lines, truncated=len(found) > tail, path=path)


def stop_run(run_id: str, workspace: Workspace, *, grace_s: float | None = None, force: bool = False) -> RunStatus:
    """Ask a run to stop with a checkpoint; its supervisor ends it by force after the grace.

    Args:
        run_id: The run.
        workspace: Its workspace.
        grace_s: Seconds for reaching the next step and saving; a minute or four steps, whichever is longer, by default.
        force: End all its processes now, without a checkpoint.

    Raises:
        InputError: not a run id. NotFoundError: no such run.
    """
    folder = RunStore(workspace).get(run_id)
    state = read_state(folder)
    if state.alive:
        request = {"attempt": state.attempt, "time": time.time(), "grace_s": 0 if force else grace_s}
        write_record(folder.stop, {**request, "reason": "stopped on request"})
        if force:
            end_all(run_id, grace_s=0)
            _mark_forced(folder, state)
    return run_status(run_id, workspace)


def _mark_forced(folder: RunFolder, state: State) -> None:
    outcome = folder.attempt(state.attempt) / "outcome.json"
    if not outcome.exists():
        write_record(outcome, {"state": "stopped", "message": "stopped by force", "ended": time.time()})


def list_runs(workspace: Workspace) -> RunList:
    """Return all runs of a workspace, newest first."""
    runs = []
    for folder in RunStore(workspace).all():
        record, state = folder.run(), read_state(folder)
        runs.append(
            RunSummary(
                run_id=folder.run_id,
                name=record.get("name", ""),
                kind=record.get("kind") or _kind(folder.run_id),
                stage=record.get("stage"),
                state=state.state,
                created=record.get("created", ""),
                message=state.message,
            )
        )
    return RunList(runs=runs, total=len(runs))


def metric_rows(run_id: str, workspace: Workspace) -> list[dict[str, Any]]:
    """Return a run's metric rows in step order: `step`, `time`, and every metric that TRL logged; NaN as a number."""
    folder = RunStore(workspace).get(run_id)
    return [{key: _value(value) for key, value in row.items()} for row in iter_rows(folder.metrics)]


def sampled_completions(
    run_id: str, workspace: Workspace, which: Literal["early", "late"] = "late", limit: int = 8
) -> list[dict[str, Any]]:
    """Return completions that a run kept: of its first steps, or of its last.

    Returns:
        Rows with `step`, `prompt`, `completion`, `rewards` (by name), `advantage` and `columns`; of a sampling run the
        rows of samples.jsonl.
    """
    folder = RunStore(workspace).get(run_id)
    path = folder.completions if folder.run().get("kind") == "train" else folder.samples
    if which == "early":
        found = []
        for row in iter_rows(path):
            found.append(row)
            if len(found) == limit:
                break
        return found
    lines, _ = tail_lines(path, limit, max_bytes=limit * 200_000)
    return [row for row in map(_row, lines) if row is not None]


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _matcher(grep: str | None) -> Any:
    if grep is None:
        return lambda line: True
    try:
        pattern = re.compile(grep)
    except re.error:
        return lambda line: grep in line
    return pattern.search


def _value(value: Any) -> Any:
    return (
        {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value, value)
        if isinstance(value, str)
        else value
    )


def _kind(run_id: str) -> Any:
    return "sample" if run_id.startswith("sample-") else "train"


def _progress(state: State, record: dict[str, Any]) -> Progress | None:
    known = state.progress
    if not known:
        return None
    unit: Any = known.get("unit") or ("completions" if record.get("kind") == "sample" else "steps")
    began = known.get("began")
    return Progress(
        done=int(known.get("done") or 0),
        total=known.get("total"),
        unit=unit,
        phase=str(known.get("phase", "")),
        processes=known.get("processes"),
        eta_s=known.get("eta_s") if state.alive else None,
        elapsed_s=known.get("elapsed_s") if began else None,
    )


def _gpus(record: dict[str, Any]) -> list[GpuUse]:
    wanted = set(record.get("gpus") or [])
    if not wanted:
        return []
    from grpo_rlvr.runs.gpus import list_gpus

    return [
        GpuUse(
            index=gpu.index,
            memory_used_gb=gpu.memory_used_gb,
            memory_total_gb=gpu.memory_total_gb,
            utilization=gpu.utilization,
        )
        for gpu in list_gpus()
        if gpu.index in wanted
    ]


def _files(folder: RunFolder, workspace: Workspace) -> dict[str, str]:
    known = {
        "log": folder.log,
        "metrics": folder.metrics,
        "completions": folder.completions,
        "samples": folder.samples,
        "model": folder.model,
        "gate": folder.gate,
    }
    return {name: _relative(path, workspace) for name, path in known.items() if path.exists()}


def _relative(path: Path, workspace: Workspace) -> str:
    return path.relative_to(workspace.root).as_posix()
