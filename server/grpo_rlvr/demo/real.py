"""The demo on a real pretrained model: SmolLM2-135M-Instruct, sums in a chat, a reward of the user's own."""

import os
import re
import sys
from pathlib import Path
from typing import Any

from grpo_rlvr.demo.tasks import TINY_CONFIG, Say, Task, run_builder

NUMBER = re.compile(r"-?\d+")
# The user's own reward, as a file in the workspace: right number, plus half a point for saying nothing else.
OWN_REWARD = '''"""Rewards for sums: the right number, and nothing but the number."""

import re


def text_of(completion):
    """The text of a chat completion or of a plain one."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def right_number(completions, gold, **kwargs):
    """1.0 when the last number of the reply is the sum, plus 0.5 when the reply is just that number."""
    scores = []
    for completion, expected in zip(completions, gold, strict=True):
        reply = text_of(completion).strip().rstrip(".")
        numbers = re.findall(r"-?\\d+", reply)
        right = bool(numbers) and numbers[-1] == expected
        scores.append(1.0 * right + 0.5 * (right and reply == expected))
    return scores


def correct(completions, gold, **kwargs):
    """1.0 when the last number of the reply is the sum."""
    return [float(score >= 1.0) for score in right_number(completions, gold)]
'''


def judge_sum(prompt: str, completion: str) -> bool:
    """Whether the last number of a reply is the sum that the prompt asks for."""
    asked = re.search(r"(\d+) \+ (\d+)", prompt)
    numbers = NUMBER.findall(completion)
    if asked is None or not numbers:
        return False
    return int(numbers[-1]) == int(asked.group(1)) + int(asked.group(2))


def real_task() -> Task:
    """Sums with SmolLM2-135M-Instruct."""
    config: dict[str, Any] = {
        **TINY_CONFIG,
        "learning_rate": 3e-5,
        "max_completion_length": 24,
        "gradient_accumulation_steps": 2,
        "model_init_kwargs": {"dtype": "float32"},
    }
    return Task(
        title="sums with SmolLM2-135M-Instruct",
        story="SmolLM2-135M-Instruct (Apache-2.0, 134.5 M parameters) is asked for sums and told to reply with just "
        "the number. It is sometimes right and hardly ever brief.",
        build=_build_real,
        judge=judge_sum,
        config=config,
        mistakes={"per_device_train_batch_size": 6, "max_prompt_length": 64},
        choices={"loss_type": "grpo", "per_device_train_batch_size": 8},
        rewards=[
            {"reward": "sum_rewards.py:right_number"},
            {"reward": "sum_rewards.py:correct", "weight": 0.0},
        ],
        # A format that nobody asked the model for: it never pays, so it can teach nothing.
        careless={"reward": "format", "args": {"tags": ["think", "answer"]}},
        files={"sum_rewards.py": OWN_REWARD},
        setup={
            "model": {"class": "dense", "name": "SmolLM2-135M-Instruct", "params_b": 0.1345, "peft": False},
            "hardware": {"device": "cpu", "num_processes": 1},
            "dataset": {
                "columns": ["prompt", "gold"],
                "format": "conversational",
                "rows": 100,
                "max_prompt_tokens": 45,
            },
        },
        steps=40,
        fast_steps=4,
        prompts=24,
        samples_per_prompt=4,
        evaluation_samples=1,
        # Half the cores: threads that wait for a busy core make a step ten times slower.
        threads=max(1, (os.cpu_count() or 1) // 2),
    )


def _build_real(folder: Path, fast: bool, say: Say) -> dict[str, Any]:
    from grpo_rlvr.demo import smollm

    home = os.environ.get("GRPO_RLVR_HOME") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    cache = str(Path(home) / "grpo-rlvr")
    return run_builder([sys.executable, "-I", "-u", smollm.__file__, "--out", str(folder), "--cache", cache], say)
