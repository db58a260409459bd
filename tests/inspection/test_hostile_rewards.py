"""Rewards that break out of their role: the caller goes on, and the error names the reward and the row."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import grpo_rlvr
import rlvr_rewards
from grpo_rlvr.errors import InputError
from grpo_rlvr.inspection.channel import Limits
from grpo_rlvr.workspace import Workspace

REWARDS = """
import os, signal, subprocess, sys, time

def fine(completions, **kwargs):
    return [0.5] * len(completions)

def loops(completions, **kwargs):
    while any("try 3" in text for text in completions):
        pass
    return [0.0] * len(completions)

def says_so_and_loops(completions, **kwargs):
    open("looping", "w").close()
    while True:
        pass

def allocates(completions, **kwargs):
    return [float(len(bytearray(50 << 30)))]

def forks(completions, **kwargs):
    os.fork()
    return [0.0] * len(completions)

def bombs(completions, **kwargs):
    while True:
        os.fork()

def prints(completions, **kwargs):
    for _ in range(1024):
        print("x" * (1 << 20))
    return [0.0] * len(completions)

def exits(completions, **kwargs):
    sys.exit(3)

def leaves(completions, **kwargs):
    os._exit(3)

def kills_its_parent(completions, **kwargs):
    os.kill(os.getppid(), signal.SIGKILL)
    return [0.0] * len(completions)

def kills_its_group(completions, **kwargs):
    os.killpg(0, signal.SIGKILL)

def segfaults(completions, **kwargs):
    os.kill(os.getpid(), signal.SIGSEGV)

def closes_everything(completions, **kwargs):
    os.closerange(0, 256)
    return [0.0] * len(completions)

def leaves_a_daemon(completions, **kwargs):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    return [0.0] * len(completions)

def raises_on_one(completions, **kwargs):
    return [1 / (0 if "try 4" in text else 1) for text in completions]

def one_number(completions, **kwargs):
    return 1.0

def infinite(completions, **kwargs):
    return [float("inf") if i == 2 else 0.0 for i in range(len(completions))]

def words(completions, **kwargs):
    return ["good" for _ in completions]

def changes_its_arguments(completions, answer, **kwargs):
    answer.clear()
    return [0.5] * len(completions)
"""
QUICK = Limits(seconds=2.0, memory_gb=4.0, output_mb=16.0)
BREAKS = {
    "loops": ("timeout", "took longer than 2 s", 3),
    "allocates": ("memory", "memory", 0),
    "forks": ("processes", "forked", 0),
    "bombs": ("processes", "more than 200 processes", 0),
    "prints": ("output", "printed more than 16 MB", 0),
    "exits": ("exit", "sys.exit(3)", 0),
    "leaves": ("died", "code 3", 0),
    "kills_its_parent": ("died", "killed its parent", 0),
    "kills_its_group": ("died", "SIGKILL", 0),
    "segfaults": ("died", "SIGSEGV", 0),
    "closes_everything": ("died", "code 1", 0),
    "raises_on_one": ("raised", "ZeroDivisionError", 4),
    "one_number": ("not_a_list", "float 1.0", 0),
    "infinite": ("infinite", "inf", 2),
    "words": ("not_a_number", "'good'", 0),
    "absent": ("load", "no 'absent'", None),
}


@pytest.fixture(autouse=True)
def reward_file(workspace: Workspace) -> Path:
    """Write the rewards into the workspace."""
    path = workspace.root / "r.py"
    path.write_text(REWARDS, encoding="utf-8")
    return path


def holding(mark: str) -> list[int]:
    """Return the processes with a mark in their environment: other tests score on this machine at the same time."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize("name", BREAKS)
def test_a_breaking_reward_is_named_and_the_next_one_is_still_scored(
    name: str, sums: list[dict[str, Any]], score: Callable[..., Any]
) -> None:
    kind, message, row = BREAKS[name]
    result = score(sums[:10], f"r.py:{name}", "r.py:fine", limits=QUICK)
    error = result.errors[0]
    assert (error.reward, error.kind, error.row) == (name, kind, row)
    assert message in error.message
    assert [reward.errors > 0 for reward in result.rewards] == [True, False]
    assert result.rewards[1].mean == 0.5
    assert result.route.route == "unknown" or kind == "infinite"


def test_no_process_of_a_reward_outlives_the_scoring(
    sums: list[dict[str, Any]], score: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STARTED_BY", str(tmp_path))
    score(sums[:5], "r.py:leaves_a_daemon", "r.py:kills_its_parent", limits=QUICK)
    assert holding(f"STARTED_BY={tmp_path}") == []


def test_an_endless_reward_ends_when_the_server_is_killed(workspace: Workspace, sums: list[dict[str, Any]]) -> None:
    mark = f"STARTED_BY={workspace.root}"
    (workspace.root / "samples.jsonl").write_text("\n".join(map(json.dumps, sums[:5])), encoding="utf-8")
    verb = ["score", "--samples", "samples.jsonl", "--reward", "r.py:says_so_and_loops"]
    paths = os.pathsep.join(str(Path(package.__file__).parents[1]) for package in (grpo_rlvr, rlvr_rewards))
    env = os.environ | {"PYTHONPATH": paths, "STARTED_BY": str(workspace.root)}
    server = subprocess.Popen([sys.executable, "-m", "grpo_rlvr", *verb], cwd=workspace.root, env=env)
    wait_until((workspace.root / "looping").exists)
    assert len(holding(mark)) == 3  # the server, the process that waits, and the one that calls
    server.kill()
    server.wait()
    wait_until(lambda: not holding(mark))


def wait_until(holds: Callable[[], bool]) -> None:
    """Return when a condition holds; on a busy machine that may take long."""
    end = time.monotonic() + 90
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_broken_reward_closes_the_gate_even_when_a_person_read_everything(
    sums: list[dict[str, Any]], score: Callable[..., Any], read: Callable[..., Any]
) -> None:
    result = score(sums, "sound_rewards.py:correct", "r.py:exits", limits=QUICK)
    gate = read(result.reading_id).gate
    assert [reason.code for reason in gate.reasons] == ["reward_broken"]
    assert "exits" in gate.reasons[0].message


def test_a_reward_that_changes_its_arguments_is_noted(sums: list[dict[str, Any]], score: Callable[..., Any]) -> None:
    result = score(sums[:10], "r.py:changes_its_arguments", limits=QUICK)
    assert any("changes its arguments" in note for note in result.notes)


def test_the_limits_come_from_the_settings_file(
    workspace: Workspace, sums: list[dict[str, Any]], score: Callable[..., Any]
) -> None:
    settings = workspace.root / "grpo-rlvr.toml"
    settings.write_text("[scoring]\nseconds = 1\n", encoding="utf-8")
    assert "longer than 1 s" in score(sums[:5], "r.py:loops").errors[0].message
    settings.write_text("[scoring]\nsecond = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 2 \[scoring\]: unknown key 'second' .did you mean 'seconds'"):
        score(sums[:5], "r.py:fine")
