"""Stops, kills and resumes of real runs: the right state, nothing lost, nothing left behind."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from grpo_rlvr.errors import InputError, RefusedError
from grpo_rlvr.runs import launch, list_runs, metric_rows, resume_run, run_status, stop_run
from grpo_rlvr.runs.process import end_all

# A reward that holds the run at a step until the file `go` exists, so that a test can act at exactly that step.
HELD = """
import time
from pathlib import Path


def held(completions, answer, trainer_state=None, **kwargs):
    step = trainer_state.global_step if trainer_state is not None else 0
    while step >= 3 and not Path("go").exists():
        time.sleep(0.02)
    return [float(c[:1] in "abcdefghijklm" and c != "") for c in completions]
"""
FAILING = """
def failing(completions, answer, trainer_state=None, **kwargs):
    if trainer_state is not None and trainer_state.global_step >= 3:
        raise ValueError("the grader lost its key file")
    return [float(c[:1] in "abcdefghijklm" and c != "") for c in completions]
"""


@pytest.fixture
def held_run(workspace, make_spec, until):
    """A full run of 6 steps, saved at each, that waits inside its fourth step."""
    (workspace.root / "held.py").write_text(HELD, encoding="utf-8")
    spec = make_spec(workspace, rewards=[{"reward": "held.py:held"}], config={"max_steps": 6, "save_steps": 1})
    run_id = launch(spec, workspace, stage="full", waive="life cycle").run_id
    until(lambda: len(metric_rows(run_id, workspace)) == 3, 120, "three steps")
    return run_id


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def processes(alive, run_id, module):
    """Processes of a run whose module is the named one: accelerate's launcher also names the worker, further back."""
    found = []
    for pid in alive(run_id):
        command = command_of(pid)
        if "-m" in command and command[command.index("-m") + 1] == module:
            found.append(pid)
    return found


def worker_of(alive, run_id):
    pids = [p for p in alive(run_id) if "grpo_rlvr.runs.worker" in command_of(p)]
    return next(p for p in pids if "accelerate.commands.launch" not in command_of(p))


def kill_supervisor(workspace, run_id):
    record = workspace.runs / run_id / "attempts" / "1" / "process.json"
    os.kill(json.loads(record.read_text(encoding="utf-8"))["pid"], signal.SIGKILL)


def test_run_killed_at_a_step_is_resumed_from_its_last_checkpoint(workspace, held_run, alive, ended):
    os.kill(worker_of(alive, held_run), signal.SIGKILL)
    status = ended(held_run)
    assert status.state == "failed"
    assert "signal 9 (SIGKILL)" in status.message and "memory" in status.message
    assert status.log_tail and status.checkpoints[-1] >= 2
    rows_before = metric_rows(held_run, workspace)
    assert [row["step"] for row in rows_before] == [1, 2, 3]

    (workspace.root / "go").write_text("", encoding="utf-8")
    again = resume_run(held_run, workspace)
    assert again.run_id == held_run and "checkpoint-" in again.message
    status = ended(held_run)
    assert (status.state, status.attempt) == ("finished", 2), status.log_tail
    rows = metric_rows(held_run, workspace)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6], "metrics are neither doubled nor missing"
    kept = status.progress
    assert (kept.done, kept.total) == (6, 6)


def test_stop_saves_a_checkpoint_at_the_step_it_was_in(workspace, held_run, ended, until):
    asked = stop_run(held_run, workspace)
    assert asked.state == "running" and "stopping" in asked.message
    with pytest.raises(InputError, match="still running"):
        resume_run(held_run, workspace)
    (workspace.root / "go").write_text("", encoding="utf-8")
    status = ended(held_run)
    assert status.state == "stopped" and "step 4" in status.message
    assert status.checkpoints[-1] == 4
    assert [row["step"] for row in metric_rows(held_run, workspace)] == [1, 2, 3, 4]


@pytest.mark.slow
def test_forced_stop_leaves_no_process(workspace, held_run, alive):
    status = stop_run(held_run, workspace, force=True)
    assert status.state == "stopped" and "force" in status.message
    assert alive(held_run) == []
    assert status.checkpoints[-1] in (2, 3)


@pytest.mark.slow
def test_stop_escalates_when_the_step_never_ends(workspace, held_run, ended):
    stop_run(held_run, workspace, grace_s=1)
    status = ended(held_run)
    assert status.state == "stopped" and "force" in status.message


@pytest.mark.slow
def test_killed_launcher_takes_its_training_process_with_it(workspace, held_run, alive, ended):
    launcher = processes(alive, held_run, "accelerate.commands.launch")[0]
    os.kill(launcher, signal.SIGKILL)
    status = ended(held_run)
    assert status.state == "failed" and "signal 9 (SIGKILL)" in status.message


@pytest.mark.slow
def test_training_ends_with_a_checkpoint_when_its_supervisor_is_killed(workspace, held_run, alive, ended, until):
    kill_supervisor(workspace, held_run)
    until(lambda: "supervisor is gone" in run_status(held_run, workspace).message, 10, "the loss is seen")
    assert run_status(held_run, workspace).state == "running"
    (workspace.root / "go").write_text("", encoding="utf-8")
    status = ended(held_run)
    assert status.state == "stopped" and "supervising process" in status.message
    assert status.checkpoints[-1] >= 4


@pytest.mark.slow
def test_machine_restart_is_told_from_a_kill(workspace, held_run, alive, ended):
    kill_supervisor(workspace, held_run)
    end_all(held_run, grace_s=0)
    status = run_status(held_run, workspace)
    assert status.state == "lost" and "killed" in status.message
    process = workspace.root / status.folder / "attempts" / "1" / "process.json"
    process.write_text(json.dumps({**json.loads(process.read_text("utf-8")), "boot": "another"}), encoding="utf-8")
    status = run_status(held_run, workspace)
    assert status.state == "lost" and "machine was restarted" in status.message
    (workspace.root / "go").write_text("", encoding="utf-8")
    resume_run(held_run, workspace)
    assert ended(held_run).state == "finished"
    assert [row["step"] for row in metric_rows(held_run, workspace)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_sigterm_ends_with_a_checkpoint(workspace, held_run, alive, ended):
    os.kill(worker_of(alive, held_run), signal.SIGTERM)
    (workspace.root / "go").write_text("", encoding="utf-8")
    status = ended(held_run)
    assert status.state == "stopped" and "SIGTERM" in status.message
    assert status.checkpoints[-1] == 4


@pytest.mark.slow
def test_deleted_folder_ends_every_process(workspace, held_run, alive, until):
    shutil.rmtree(workspace.runs / held_run)
    until(lambda: not alive(held_run), 30, "all processes gone")
    assert held_run not in [run.run_id for run in list_runs(workspace).runs]


def test_raising_reward_fails_the_run_with_its_message_and_the_log(workspace, make_spec, ended):
    (workspace.root / "failing.py").write_text(FAILING, encoding="utf-8")
    spec = make_spec(workspace, rewards=[{"reward": "failing.py:failing"}], config={"max_steps": 8, "save_steps": 1})
    status = ended(launch(spec, workspace, stage="full", waive="fault").run_id)
    assert status.state == "failed"
    assert "the grader lost its key file" in status.message
    assert any("the grader lost its key file" in line for line in status.log_tail)
    assert status.checkpoints[-1] == 3
    with pytest.raises(RefusedError, match="reward code of the workspace is no longer"):
        (workspace.root / "failing.py").write_text(HELD.replace("held", "failing"), encoding="utf-8")
        resume_run(status.run_id, workspace)
