"""A chat template that writes the opening tag: the reward, not the model, is at fault."""

from collections.abc import Callable
from typing import Any

import pytest

from grpo_rlvr.inspection.opening import unopened_tag
from grpo_rlvr.models.score import Attack
from grpo_rlvr.workspace import Workspace

Rows = list[dict[str, Any]]
STRICT = """
import re

def strict(completions, answer, **kwargs):
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    found = [re.fullmatch(r"<think>.*</think>\\s*<answer>(.*)</answer>\\s*", text, re.S) for text in texts]
    return [float(bool(f) and f[1].strip() == gold) for f, gold in zip(found, answer, strict=True)]
"""


@pytest.fixture
def prefilled(sums: Rows, workspace: Workspace) -> Rows:
    """Samples of a template that ends every prompt with `<think>`, beside a reward that wants to see the tag."""
    (workspace.root / "mine.py").write_text(STRICT, encoding="utf-8")
    for row in sums:
        row["prompt"] += "<think>"
        row["completion"] = row["completion"].removeprefix("<think>")
    return sums


def opening(result: Any) -> Attack:
    return next(attack for attack in result.audit.attacks if attack.attack == "opening_tag")


@pytest.mark.parametrize("chat", [False, True])
def test_a_tag_in_the_prompt_is_found_though_nothing_was_rewarded(
    prefilled: Rows, score: Callable[..., Any], chat: bool
) -> None:
    for row in prefilled if chat else ():
        row["prompt"] = [{"role": "user", "content": row["prompt"]}]
        row["completion"] = [{"role": "assistant", "content": row["completion"]}]
    result = score(prefilled, "mine.py:strict")
    assert result.rewards[0].mean == 0
    found = opening(result)
    assert (found.outcome, found.severity, found.rewards, found.score) == ("lost", "error", ["strict"], 0)
    assert 20 <= found.bad < found.tried and "prefilled=true" in found.why and "</think>" in found.text
    assert result.route.route == "unknown"
    assert f"{found.bad} of {found.tried} tried are rewarded once their opening tag is put back" in result.route.why


def test_a_reward_that_does_without_the_tag_passes(prefilled: Rows, score: Callable[..., Any]) -> None:
    result = score(prefilled, "sound_rewards.py:correct")
    assert opening(result).outcome in {"held", "not_applicable"}
    assert result.route.route == "grpo"


def test_a_model_that_never_succeeds_is_still_sent_to_sft(prefilled: Rows, score: Callable[..., Any]) -> None:
    for row in prefilled:
        row["answer"] = "none of them"
    result = score(prefilled, "mine.py:strict")
    assert opening(result).outcome == "held"
    assert result.route.route == "sft_first"


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("a</think><answer>1</answer>", "think"), ("<think>a</think>", None), ("plain", None), ("</think>", "think"),
        ("<answer>1</answer></think>", None), ("x < y </b>", "b"),
    ],
)  # fmt: skip
def test_the_first_tag_that_is_closed_decides(text: str, tag: str | None) -> None:
    assert unopened_tag(text) == tag
