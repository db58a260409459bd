"""Judged cases through the public interface, and the runnable examples of the docstrings."""

import doctest
import importlib
import json
from pathlib import Path

import pytest

from judge_rewards import judge, judge_case
from rlvr_rewards import reward_names
from rlvr_rewards._core import REASONS

DATA = Path(__file__).parents[1] / "data" / "rewards"
MODULES = ("_format", "_exact", "_math", "_schema", "_tool_call", "_length", "_composite", "_judge")


FILES = (
    "answers.jsonl",
    "math_own.jsonl",
    "math_public.jsonl",
    "calls_own.jsonl",
    "calls_public.jsonl",
    "examined.jsonl",
)


@pytest.mark.parametrize("file", FILES)
def test_every_judged_answer_is_right(file: str) -> None:
    outcomes = list(judge(DATA / file))
    wrong = [f"{identifier}: {note}" for identifier, right, note in outcomes if not right]
    assert len(outcomes) > 30
    assert not wrong, "\n".join(wrong)


def test_a_wrong_label_is_noticed() -> None:
    line = (DATA / "math_own.jsonl").read_text(encoding="utf-8").splitlines()[0]
    case = json.loads(line)
    assert judge_case(case)[0]
    assert not judge_case({**case, "right": not case["right"]})[0]


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples_run(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"rlvr_rewards.{module}"), optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize(
    "name", ["Format", "Exact", "Math", "Schema", "ToolCall", "LengthPenalty", "SoftOverlong", "Composite", "Judge"]
)
def test_docstrings_say_formula_range_gaming_and_none(name: str) -> None:
    text = getattr(importlib.import_module("rlvr_rewards"), name).__doc__ or ""
    for part in ("Formula", "Range:", "How it is gamed:", "None:", "Args:", "Example:"):
        assert part in text, f"{name} does not say {part}"


def test_the_reference_page_runs_and_names_every_reward_and_reason() -> None:
    page = Path(__file__).parents[2] / "references" / "reward-functions.md"
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8", optionflags=doctest.ELLIPSIS)
    assert found.attempted > 8
    assert found.failed == 0
    text = page.read_text(encoding="utf-8")
    assert not [name for name in (*reward_names(), *REASONS) if f"`{name}`" not in text]
