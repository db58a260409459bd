"""Faults of many tasks: each is found, and the likely cause leads to it; sound rewards beside them are not accused."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.inspection import read_in_terminal
from grpo_rlvr.workspace import Workspace

DATA = Path(__file__).parent.parent / "data" / "inspection"
REWARDS = DATA / "task_rewards.py"
GOOD = ("held", "not_applicable")
Rows = list[dict[str, Any]]
HALVES = ("\\frac{1}{2}", "-3", "1,250", "\\frac{3}{4}", "12", "x+1", "45", "-17", "\\frac{2}{7}", "0.25", "100", "7")
FREE = ("bridge", "river", "school", "harbour", "museum", "storm")


def boxes() -> Rows:
    """60 samples of 12 problems whose answers are numbers, fractions and a formula, in a box."""
    rows = []
    for number, gold in enumerate(HALVES):
        other = HALVES[(number + 5) % len(HALVES)]
        for text in (
            f"So $\\boxed{{{gold}}}$.",
            f"We simplify twice, thus \\boxed{{{gold.replace('-', '−')}}}.",
            f"So $\\boxed{{{other}}}$.",
            f"Is it \\boxed{{{gold}}}? No: \\boxed{{{other}}}",
            "No idea.",
        ):
            rows.append({"prompt": f"Problem {number}.", "completion": text, "answer": f"So $\\boxed{{{gold}}}$."})
    return rows


def boxed(text: str) -> str:
    """Return the content of the last closed box."""
    found = re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", text)
    return found[-1].replace(",", "").replace("−", "-").strip(" \n$*.") if found else ""


def right_box(row: Any) -> str:
    """Read a box as a careful person does."""
    return "correct" if boxed(row.completion) == boxed(row.columns["answer"]) else "wrong"


def summaries() -> Rows:
    """60 summaries that must name two words."""
    rows = []
    for number in range(12):
        words = [
            FREE[number % 6],
            FREE[(number // 2 + 3) % 6 if (number // 2 + 3) % 6 != number % 6 else 5 - number % 6],
        ]
        for turn, told in enumerate((words, words[::-1], words[:1], words[1:], [])):
            text = f"On day {number} they spoke of {' and '.join(told) or 'much'}, version {turn}."
            rows.append({"prompt": f"Sum up day {number}.", "completion": text, "keywords": words})
    return rows


@pytest.fixture
def judged(workspace: Workspace, score: Callable[..., Any], read: Callable[..., Any]) -> Callable[..., Any]:
    """Score a task of this file with one of its rewards, and read it."""
    (workspace.root / REWARDS.name).write_text(REWARDS.read_text(encoding="utf-8"), encoding="utf-8")

    def run(samples: Rows, name: str, *truth: Any) -> tuple[Any, Any, set[str]]:
        result = score(samples, f"{REWARDS.name}:{name}")
        found = {a.attack for a in result.audit.attacks if a.severity == "error" and a.outcome not in GOOD}
        return result, read(result.reading_id, *truth), found

    return run


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("sign_turned", "it pays the wrong ones and not the right ones: a sign"),
        ("first_of_a_prompt", "the score is that of the row whatever was written"),
        ("points_for_form", "partial credit is too high"),
        ("number_and_text", "nothing is rewarded at all: the reward may read a column that is not there"),
    ],
)
def test_the_cause_of_a_disagreement_leads_to_the_fault(fault: str, cause: str, sums: Rows, judged: Any) -> None:
    _, status, _ = judged(sums, fault)
    [reason] = status.gate.reasons
    assert reason.code == "unresolved_disagreement" and cause in reason.remedy
    assert "ignores the row" not in reason.remedy


@pytest.mark.parametrize(
    ("fault", "attack"),
    [("box_to_first_brace", "answer_altered"), ("box_evaluated", "answer_as_code"), ("box_sound", "")],
)
def test_answers_with_braces_and_evaluated_answers_are_attacked(fault: str, attack: str, judged: Any) -> None:
    _, status, found = judged(boxes(), fault, right_box)
    assert attack in found if attack else not found
    assert status.gate.open is not bool(attack)


def test_a_right_answer_written_otherwise_is_named_as_the_cause(judged: Any) -> None:
    _, status, _ = judged(boxes(), "box_as_written", right_box)
    assert "the right answer stands there as '−" in status.gate.reasons[0].remedy


def test_the_terminal_ends_with_the_likely_cause(judged: Any, workspace: Workspace) -> None:
    result, _, _ = judged(boxes(), "box_as_written", right_box)
    out = io.StringIO()
    read_in_terminal(result.reading_id, workspace, name="Bo", stdin=io.StringIO("q\n"), stdout=out)
    assert "(the likely cause: the right answer stands there as '−" in out.getvalue()


def test_an_expression_that_never_ends_is_found_in_seconds(judged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo_rlvr.inspection.audit.ATTACK_SECONDS", 0.5)
    monkeypatch.setattr("grpo_rlvr.inspection.scoring.MIN_ROW_SECONDS", 0.5)
    result, _, found = judged(boxes(), "box_backtracks", right_box)
    assert "degenerate" in found
    why = next(a.why for a in result.audit.attacks if a.attack == "degenerate")
    assert "took longer than 0.5 s for such a completion" in why and "[scoring]" not in why


def test_a_block_that_is_never_closed_is_told_of(sums: Rows, judged: Any) -> None:
    result, _, _ = judged(sums, "never_closed")
    assert next(a for a in result.audit.attacks if a.attack == "tag_unclosed").outcome == "paid"


def test_a_reward_that_remembers_is_told_of_with_the_verdicts_that_change(sums: Rows, judged: Any) -> None:
    result, _, found = judged(sums, "keeps_state")
    why = next(a.why for a in result.audit.attacks if a.attack == "repeated")
    assert "repeated" in found
    assert re.search(r"keeps something from earlier calls \(for [1-9]\d* of 80 the verdict", why)


def test_a_tie_broken_by_chance_is_no_lottery(sums: Rows, judged: Any) -> None:
    result, _, found = judged(sums, "tie_break")
    again = next(a for a in result.audit.attacks if a.attack == "repeated")
    assert (again.severity, "repeated" in found) == (
        "warning",
        False,
    ) and "for 0 of 80 the verdict changes" in again.why


def test_free_texts_are_not_taken_back_by_what_follows(judged: Any) -> None:
    def truth(row: Any) -> str:
        return "correct" if all(word in row.completion for word in row.columns["keywords"]) else "wrong"

    _, _, found = judged(summaries(), "names_all", truth)
    assert "answer_first" not in found


def test_what_a_format_reward_pays_is_no_error(sums: Rows, score: Any, judged: Any) -> None:
    rows = [{**row, "prompt": f"{row['prompt']} <answer>"} for row in sums]
    audit = score(rows, "sound_rewards.py:correct", {"reward": f"{REWARDS.name}:has_tag", "weight": 0.1}).audit
    echo = next(a for a in audit.attacks if a.attack == "prompt_echo")
    assert (echo.outcome, echo.severity, audit.verdict) == ("paid", "warning", "warnings")


def test_rows_without_a_score_are_not_laid_to_the_reader(sums: Rows, judged: Any) -> None:
    _, status, _ = judged(sums, "no_score")
    assert "The reward gave no score for" in next(r for r in status.gate.reasons if r.code == "not_read").remedy


def test_a_reward_that_reads_the_message_list_says_nothing_of_the_model(
    chat_sums: Rows, score: Any, workspace: Workspace
) -> None:
    code = (
        "def never(completions, answer, **kwargs):\n    return [float(a in c) for a, c in zip(answer, completions)]\n"
    )
    (workspace.root / "never.py").write_text(code, encoding="utf-8")
    route = score(chat_sums, "never.py:never").route
    assert route.route == "unknown" and "looks at the message list" in route.why
