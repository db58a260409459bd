"""Our rewards inside the trainer that they are written for, and in the processes around it."""

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlvr_rewards import Composite, Exact, Format, LengthPenalty, Math, Schema, SoftOverlong, ToolCall

TRAINING = Path(__file__).with_name("trl_run.py")


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "processes"), [("text", 1), ("chat", 1), ("text", 2)])
def test_real_grpo_steps_with_our_rewards(shape: str, processes: int, tmp_path: Path) -> None:
    command = [sys.executable, str(TRAINING), shape, str(tmp_path)]
    if processes > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        command = [sys.executable, *launcher, *command[1:]]
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"}
    environment = {**os.environ, **quiet}
    ran = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", env=environment, timeout=280, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "DONE" in ran.stdout


def test_rewards_run_inside_an_event_loop() -> None:
    reward = Composite(Math())

    async def rollouts() -> list[Any]:
        one = asyncio.to_thread(reward, ["\\boxed{2}"], gold=["2"])
        return await asyncio.gather(
            one, asyncio.to_thread(reward, ["\\boxed{\\sum_{k=1}^n k}"], gold=["\\frac{n(n+1)}{2}"])
        )

    assert asyncio.run(rollouts()) == [[1.0], [1.0]]


class _Graded:
    """A data set whose items are graded where they are loaded."""

    def __init__(self) -> None:
        self.reward = LengthPenalty(Math(), free_tokens=4, max_tokens=8)

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> float:
        gold = "\\frac{n(n+1)}{2}" if index % 2 else "3"
        answer = "\\sum_{k=1}^{n} k" if index % 2 else str(index)
        row = {"gold": gold, "completion_ids": [0]}
        return float(self.reward.grade(f"\\boxed{{{answer}}}", row).score or 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_rewards_run_in_data_loader_workers(context: str) -> None:
    data = pytest.importorskip("torch.utils.data")
    loader = data.DataLoader(_Graded(), batch_size=3, num_workers=2, multiprocessing_context=context)
    assert [value for batch in loader for value in batch.tolist()] == [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]


@pytest.mark.slow
def test_memory_is_steady_over_100_000_gradings() -> None:
    rewards: list[tuple[Any, dict[str, list[Any]]]] = []

    def batch(start: int, chosen: list[tuple[Any, dict[str, list[Any]]]]) -> None:
        numbers = range(start, start + 500)
        texts = [f"<think>{n}</think><answer>\\boxed{{{n}/7}}</answer>" for n in numbers]
        golds, ids = [f"\\frac{{{n}}}{{7}}" for n in numbers], [[1] * 9] * 500
        for reward, columns in chosen:
            given = {"gold": golds, "completion_ids": ids, **columns}
            assert len(reward(completions=texts, **given)) == 500

    schemas = [f'{{"const": {number}}}' for number in range(500)]
    rewards = [(Math(), {}), (Exact(), {}), (Format(), {}), (Composite(Math()), {}), (SoftOverlong(9, 2), {})]
    rewards += [(Schema(), {"schema": schemas}), (LengthPenalty(Exact()), {})]
    rewards += [(ToolCall(tools_column=""), {"gold": [[]] * 500})]
    # The caches of the math reward fill up first; they hold 16,384 pairs.
    for start in range(0, 17_000, 500):
        batch(start, rewards[:1])
    for start in range(17_000, 19_000, 500):
        batch(start, rewards)
    warm = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for start in range(19_000, 31_500, 500):
        batch(start, rewards)
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - warm) / 1024
    assert grown_mb < 12, f"grew by {grown_mb:.1f} MB over the last 100,000 gradings"
