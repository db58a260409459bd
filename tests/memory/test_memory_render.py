"""The estimate as people read it in a terminal of 80 columns."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from grpo_rlvr.cli import render
from grpo_rlvr.models.memory import MemoryEstimate

COLOCATE = {
    "use_vllm": True, "vllm_mode": "colocate", "max_completion_length": 1024, "vllm_max_model_length": 1536,
    "gradient_accumulation_steps": 2,
    "model_init_kwargs": {"dtype": "bfloat16"},
}  # fmt: skip
MODEL = {"name": "Qwen/Qwen2.5-3B", "peft": {"r": 16, "target_modules": "all-linear"}}


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[[MemoryEstimate], str]:
    """Return a function that renders an estimate on 80 columns."""

    def show(answer: MemoryEstimate) -> str:
        page = io.StringIO()
        monkeypatch.setattr(render, "console", Console(file=page, width=80, highlight=False))
        render.memory(answer)
        return page.getvalue()

    return show


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_names_of_options_stay_whole(estimated: Any, printed: Callable[[MemoryEstimate], str], share: float) -> None:
    answer = estimated(
        COLOCATE | {"vllm_gpu_memory_utilization": share}, model=MODEL, hardware={"gpus": 1, "gpu_mem_gb": 24.1}
    )
    shown = printed(answer)
    names = {name for lever in answer.levers[:8] for name in (*lever.set, *lever.unset)}
    assert len(names) > 3
    assert [name for name in names if name not in shown] == []


def test_what_fits_shows_three_levers_and_says_how_many_more_there_are(
    estimated: Any, printed: Callable[[MemoryEstimate], str]
) -> None:
    answer = estimated(COLOCATE, model=MODEL, hardware={"gpu": "H100", "gpus": 1})
    assert answer.verdict == "fits" and len(answer.levers) > 3
    shown = printed(answer)
    lines = shown.splitlines()
    assert sum(line.startswith("  - ") and "saves" in line for line in lines) == 3
    assert f"{len(answer.levers) + len(answer.alternatives) - 3} more with --json" in shown
    assert len(lines) <= 30


def test_what_does_not_fit_shows_first_the_lever_that_lets_it_fit(
    estimated: Any, printed: Callable[[MemoryEstimate], str]
) -> None:
    answer = estimated(
        COLOCATE | {"vllm_gpu_memory_utilization": 0.1}, model=MODEL, hardware={"gpus": 1, "gpu_mem_gb": 24.1}
    )
    assert answer.verdict == "does_not_fit" and answer.levers[0].verdict == "does_not_fit"
    first = printed(answer).split("Levers in the config")[1].split("\n  - ")[1]
    assert "then fits" in " ".join(first.split())


def test_the_state_of_vllms_share_is_said(estimated: Any, printed: Callable[[MemoryEstimate], str]) -> None:
    answer = estimated(
        COLOCATE | {"vllm_gpu_memory_utilization": 0.3}, model=MODEL, hardware={"gpus": 1, "gpu_mem_gb": 24.1}
    )
    assert answer.vllm is not None
    shown = " ".join(printed(answer).split())
    assert f"holds {answer.vllm.sequences} of {answer.vllm.wanted_sequences} sequences" in shown
    assert "less than a tenth to spare" in shown
