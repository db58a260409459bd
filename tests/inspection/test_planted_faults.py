"""Faulty rewards are exposed by score, audit and a careful reader; sound ones open the gate."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from grpo_rlvr.workspace import Workspace

GOOD = ("held", "not_applicable")
# What must be seen of each: an audit error, an error of the scoring, or a disagreement with the reader.
FAULTS = {
    "always_one": "other_row",
    "ignores_the_row": "other_row",
    "contains": "answer_embedded",
    "strips_the_answer": "answer_altered",
    "off_by_one_row": "reordered",
    "accepts_the_prompt_echo": "prompt_echo",
    "first_number": "disagreement",
    "first_answer_block": "answer_first",
    "pays_no_answer": "empty",
    "pays_any_of_a_list": "all_answers",
    "pays_length": "padding",
    "throws_dice": "repeated",
    "upside_down": "disagreement",
    "none_when_wrong": "ungraded",
    "too_tolerant": "disagreement",
    "too_strict": "answer_spaced",
    "reads_another_column": "disagreement",
    "raises_without_a_tag": "raised",
    "one_score_a_prompt": "wrong_length",
    "not_a_number": "nan",
    "greedy_block": "answer_first",
    "cuts_decimals": "answer_altered",
}
SOUND: dict[str, list[Any]] = {
    "correct": ["sound_rewards.py:correct"],
    "numeric": ["sound_rewards.py:numeric"],
    "plus_minus_one": ["sound_rewards.py:plus_minus_one"],
    "two_points": ["sound_rewards.py:two_points"],
    "half_a_point": ["sound_rewards.py:half_a_point"],
    "shorter_is_better": ["sound_rewards.py:shorter_is_better"],
    "credit_for_form": ["sound_rewards.py:credit_for_form"],
    "async": ["sound_rewards.py:waits"],
    "configured object": ["sound_rewards.py:configured"],
    "with a format reward": [
        "sound_rewards.py:correct",
        {"reward": "sound_rewards.py:well_formed", "weight": 0.2},
    ],
}


def seen(result: Any, status: Any) -> set[str]:
    """Return everything that speaks against a reward."""
    found = {attack.attack for attack in result.audit.attacks if attack.outcome not in GOOD}
    found |= {error.kind for error in result.errors}
    return found | ({"disagreement"} if status.disagreements else set())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named_and_keeps_the_gate_closed(
    fault: str, sums: list[dict[str, Any]], score: Callable[..., Any], read: Callable[..., Any]
) -> None:
    result = score(sums, f"faulty_rewards.py:{fault}")
    status = read(result.reading_id)
    assert FAULTS[fault] in seen(result, status)
    assert not status.gate.open


def test_an_in_test_on_chat_completions_is_named(
    chat_sums: list[dict[str, Any]], score: Callable[..., Any], read: Callable[..., Any]
) -> None:
    result = score(chat_sums, "faulty_rewards.py:in_test_on_chat")
    status = read(result.reading_id)
    form = next(attack for attack in result.audit.attacks if attack.attack == "other_form")
    assert (form.outcome, form.severity) == ("changed", "error")
    assert not status.gate.open
    assert status.agreement.false_negatives > 10


def test_a_case_sensitive_reward_is_named(
    capitals: list[dict[str, Any]], score: Callable[..., Any], read: Callable[..., Any]
) -> None:
    result = score(capitals, "faulty_rewards.py:case_sensitive")
    status = read(result.reading_id)
    assert "answer_case" in seen(result, status)
    assert not status.gate.open
    assert {entry.kind for entry in status.disagreements} == {"false_negative"}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_reward_opens_the_gate(
    name: str, sums: list[dict[str, Any]], score: Callable[..., Any], read: Callable[..., Any]
) -> None:
    result = score(sums, *SOUND[name])
    status = read(result.reading_id)
    assert status.gate.reasons == []
    assert status.gate.open
    assert result.audit.verdict != "errors"
    assert result.route.route == "grpo"


def test_a_sound_reward_on_chat_and_words_opens_the_gate(
    chat_sums: list[dict[str, Any]],
    capitals: list[dict[str, Any]],
    score: Callable[..., Any],
    read: Callable[..., Any],
) -> None:
    for samples in (chat_sums, capitals):
        status = read(score(samples, "sound_rewards.py:correct").reading_id)
        assert status.gate.reasons == []


def programs(fault: str) -> list[dict[str, Any]]:
    """Return samples whose right answer is a whole JSON document, and so is no text inside the completion."""
    rows = []
    for number in range(16):
        for turn in range(5):
            value = {"id": number if turn % 2 == 0 else number + turn, "note": fault[: turn + 1]}
            text = f"Try {turn}: " + json.dumps(value)
            rows.append({"prompt": f"Give item {number} as JSON.", "completion": text, "item": {"id": number}})
    return rows


DOCUMENTS = """
import json, re

def parsed(text):
    return [json.loads(found) for found in re.findall(r"\\{.*?\\}", text)]

def sound(completions, item, **kwargs):
    return [float(bool(found := parsed(c)) and found[-1].get("id") == i["id"]) for c, i in zip(completions, item)]

def any_document(completions, item, **kwargs):
    return [float(any(found.get("id") == i["id"] for found in parsed(c))) for c, i in zip(completions, item)]

def long_enough(completions, **kwargs):
    return [min(1.0, len(c) / 40) for c in completions]
"""


def test_answers_that_are_whole_documents_are_attacked_too(workspace: Workspace, score: Callable[..., Any]) -> None:
    (workspace.root / "documents.py").write_text(DOCUMENTS, encoding="utf-8")
    failed = {}
    for name in ("sound", "any_document", "long_enough"):
        audit = score(programs("abcdef"), f"documents.py:{name}").audit
        failed[name] = {a.attack for a in audit.attacks if a.severity == "error" and a.outcome not in GOOD}
    assert failed["sound"] == set()
    assert failed["any_document"] == {"all_answers", "answer_first"}
    assert {"filler", "padding", "other_row"} <= failed["long_enough"]
