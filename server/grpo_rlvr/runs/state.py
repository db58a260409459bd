"""The state of a run, derived from its files and from the processes that are alive; nothing is kept in memory."""

import time
from dataclasses import dataclass
from typing import Any, cast

from grpo_rlvr.models.run import RunState
from grpo_rlvr.runs.process import boot_id, is_alive, marked
from grpo_rlvr.runs.records import read_record
from grpo_rlvr.runs.store import RunFolder

# A supervisor writes its identity within milliseconds; after this it never will.
STARTING_S = 30.0
# Processes on other machines cannot be looked at, so their silence has to speak; the longest steps take minutes.
SILENT_S = 1800.0
TERMINAL = ("halted", "finished", "failed", "stopped")


@dataclass(frozen=True)
class State:
    """What a run is.

    `alive` tells whether any process of it still runs, `progress` is the worker's last record of this attempt.
    """

    state: RunState
    message: str
    attempt: int
    alive: bool
    started: float | None
    ended: float | None
    progress: dict[str, Any]


def read_state(folder: RunFolder) -> State:
    """Return the state of a run as it is now."""
    number = folder.last_attempt()
    if number == 0:
        damaged = not folder.run()
        message = "its folder is damaged: run.json is gone" if damaged else "made, never started"
        return State("lost" if damaged else "planned", message, 0, False, None, None, {})
    attempt = folder.attempt(number)
    process = read_record(attempt / "process.json")
    started = _made(folder, number)
    progress = _progress(folder, number)
    outcome = read_record(attempt / "outcome.json")
    if outcome is not None and outcome.get("state") in TERMINAL:
        state = cast(RunState, outcome["state"])
        return State(state, str(outcome["message"]), number, False, started, outcome.get("ended"), progress)
    if folder.run().get("external"):
        return _elsewhere(folder, number, progress, started)
    if is_alive(process):
        return _living(folder, number, progress, started)
    return _orphaned(folder, number, process, progress, started)


def _progress(folder: RunFolder, number: int) -> dict[str, Any]:
    known = [read_record(folder.progress) or {}, read_record(folder.path / "evaluation_progress.json") or {}]
    training, evaluation = ({} if record.get("attempt") != number else record for record in known)
    # What it does now is the newer of the two; the metrics are always the training's.
    if evaluation.get("time", 0) > training.get("time", 0) and not _is_over(folder, number):
        return {**evaluation, "metrics": training.get("metrics")}
    return training


def _is_over(folder: RunFolder, number: int) -> bool:
    return (folder.attempt(number) / "outcome.json").exists()


def _living(folder: RunFolder, number: int, progress: dict[str, Any], started: float | None) -> State:
    stop = read_record(folder.stop)
    stopping = stop is not None and stop.get("attempt") == number
    phase = (read_record(folder.attempt(number) / "phase.json") or {}).get("name", "")
    doing = str(progress.get("phase") or phase or "starting")
    state: RunState = (
        "running" if progress and progress.get("phase") not in ("loading", "loading the model") else "starting"
    )
    message = f"stopping: a checkpoint is saved first ({doing})" if stopping else doing
    return State(state, message, number, True, started, None, progress)


def _elsewhere(folder: RunFolder, number: int, progress: dict[str, Any], started: float | None) -> State:
    """Return the state of a run whose processes were started by hand or by a scheduler, maybe on other machines."""
    attempt = folder.attempt(number)
    result, error = read_record(attempt / "result.json"), read_record(attempt / "error.json")
    if result is not None and result.get("state") in TERMINAL:
        state = cast(RunState, result["state"])
        return State(state, str(result.get("message", "")), number, False, started, result.get("time"), progress)
    if error is not None:
        return State("failed", str(error.get("message", "")), number, False, started, None, progress)
    if not progress:
        return State("planned", "waits for its machines to start their commands", 0, False, None, None, {})
    silent = time.time() - float(progress.get("time") or 0)
    if silent > SILENT_S:
        return State(
            "lost", f"no word from its machines for {silent / 60:.0f} minutes", number, False, started, None, progress
        )
    return State("running", str(progress.get("phase", "")), number, True, started, None, progress)


def _orphaned(
    folder: RunFolder, number: int, process: dict[str, Any] | None, progress: dict[str, Any], started: float | None
) -> State:
    left = marked(folder.run_id)
    if left:
        message = f"its supervisor is gone; {len(left)} processes save a checkpoint and end"
        return State("running", message, number, True, started, None, progress)
    attempt = folder.attempt(number)
    result = read_record(attempt / "result.json")
    if result is not None and result.get("state") in TERMINAL:
        state = cast(RunState, result["state"])
        return State(state, str(result.get("message", "")), number, False, started, result.get("time"), progress)
    error = read_record(attempt / "error.json")
    if error is not None:
        return State("failed", str(error.get("message", "")), number, False, started, None, progress)
    if process is None and started is not None and time.time() - started < STARTING_S:
        return State("starting", "its supervisor is being started", number, True, started, None, progress)
    why = "its processes vanished without a word: killed by hand or for lack of memory, or the disk was full"
    if process and process.get("boot") and process["boot"] != boot_id():
        why = "the machine was restarted while it ran"
    resume = "; resume it from its last checkpoint" if folder.run().get("kind") == "train" else "; resume it"
    return State("lost", why + resume, number, False, started, None, progress)


def _made(folder: RunFolder, number: int) -> float | None:
    try:
        return (folder.attempt(number) / "plan.json").stat().st_mtime
    except OSError:
        return None
