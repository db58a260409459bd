"""What the demo trains on: the data that turns the one loop into a demo of the tiny or of the real model."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_rlvr.demo.client import DemoError
from grpo_rlvr.demo.oracle import Judge, judge_shift

Say = Callable[[str], None]

TINY_CONFIG: dict[str, Any] = {
    "learning_rate": 3e-4,
    "beta": 0.0,
    "num_generations": 8,
    "max_completion_length": 32,
    "temperature": 1.0,
    "logging_steps": 1,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "seed": 3407,
}
# What people really bring: a batch that does not divide into groups, a kwarg that TRL dropped in 0.28, and "plain GRPO"
# without a loss_type, which today is not plain GRPO.
MISTAKES = {"per_device_train_batch_size": 60, "max_prompt_length": 64}
# What a person decides on top of the fixes that change nothing but the spelling.
CHOICES = {"loss_type": "grpo", "per_device_train_batch_size": 64}
# Pays any completion that holds the right letters somewhere: what a quick check looks like, and what it costs.
CARELESS_REWARD = '''"""A careless reward: it looks for the answer anywhere in the text."""


def contains_answer(completions, gold, **kwargs):
    """1.0 when the expected word occurs in the completion."""
    return [1.0 if expected in completion else 0.0 for completion, expected in zip(completions, gold, strict=True)]
'''


@dataclass(frozen=True)
class Task:
    """One demo: everything that differs between the tiny and the real model."""

    title: str
    story: str
    build: Callable[[Path, bool, Say], dict[str, Any]]
    judge: Judge
    config: dict[str, Any]
    mistakes: dict[str, Any]
    choices: dict[str, Any]
    rewards: list[dict[str, Any]]
    careless: dict[str, Any]
    files: dict[str, str]
    setup: dict[str, Any]
    steps: int
    fast_steps: int
    prompts: int = 32
    samples_per_prompt: int = 4
    evaluation_samples: int = 2
    aim: float | None = None
    # torch threads: a tiny model is fastest with one, whatever the machine.
    threads: int = 1


def tiny_task() -> Task:
    """The letter shift on a model of 0.6 M parameters that is built and warm-started on the spot."""
    return Task(
        title="letter shift with a policy of 0.6 M parameters",
        story="A tiny policy, made and warm-started here from a seed, moves each letter of a word on by one. It knows "
        "the form and the task, and does both only sometimes.",
        build=_build_tiny,
        judge=judge_shift,
        config=TINY_CONFIG,
        mistakes=MISTAKES,
        choices=CHOICES,
        rewards=[
            {
                "reward": "composite",
                "args": {
                    "answer": {"reward": "exact"},
                    "format": {"reward": "format", "args": {"tags": ["reasoning", "answer"]}},
                    # A sum of powers of two, so that equal rewards have a spread of exactly 0 in float32.
                    "weights": {"format": 0.25},
                    "gate": True,
                    "name": "answer_and_format",
                },
            },
            # Weight 0: it trains nothing, and is logged and evaluated as the share of right answers.
            {"reward": "exact", "args": {"name": "correct"}, "weight": 0.0},
        ],
        careless={"reward": "careless_reward.py:contains_answer"},
        files={"careless_reward.py": CARELESS_REWARD},
        setup={
            "model": {"class": "dense", "params_b": 0.0006, "peft": False},
            "hardware": {"device": "cpu", "num_processes": 1},
            "dataset": {"columns": ["prompt", "gold"], "format": "string", "rows": 512, "max_prompt_tokens": 12},
        },
        steps=100,
        fast_steps=30,
        aim=0.85,
    )


def _build_tiny(folder: Path, fast: bool, say: Say) -> dict[str, Any]:
    from grpo_rlvr.demo import policy

    steps = 200 if fast else 300
    command = [sys.executable, "-I", "-u", policy.__file__, "--out", str(folder), "--steps", str(steps)]
    return run_builder(command, say)


def run_builder(command: list[str], say: Say) -> dict[str, Any]:
    """Run a program that makes model and data, passing its lines on; its last line is a JSON object of facts.

    Raises:
        DemoError: it failed; the end of its output is in the message.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    lines: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        encoding="utf-8", errors="replace", env=environment,
    ) as process:  # fmt: skip
        for line in process.stdout or ():
            lines.append(line.rstrip())
            if line.startswith(("warm start", "download", "convert")):
                say(f"  {line.rstrip()}")
    try:
        facts = json.loads(lines[-1])
    except (IndexError, json.JSONDecodeError):
        facts = None
    if process.returncode or not isinstance(facts, dict):
        raise DemoError("building the policy failed:\n" + "\n".join(lines[-20:]))
    return facts
