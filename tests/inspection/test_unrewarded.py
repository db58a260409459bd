"""Samples that earn nothing: the form may be all that is wrong, and the route must not blame the model."""

from collections.abc import Callable
from typing import Any

import pytest

from grpo_rlvr.workspace import Workspace

Rows = list[dict[str, Any]]
Score = Callable[..., Any]


def bare(sums: Rows, answer: Callable[[dict[str, Any]], str]) -> Rows:
    """Return the samples with an answer that no tag and no word marks."""
    return [{**row, "completion": f"{answer(row)} it is"} for row in sums]


def test_answers_that_a_reward_does_not_look_for_are_no_proof_of_a_weak_model(sums: Rows, score: Score) -> None:
    result = score(bare(sums, lambda row: row["answer"]), "exact", columns={"answer": "gold"})
    assert result.rewards[0].reasons == {"no_answer": 80}
    assert result.route.route == "unknown" and result.route.success_rate.value == 0
    assert "80 of 80 samples hold no answer where it looks for one" in result.route.why
    form, seen = result.notes[:2]
    assert form.startswith("exact: 80 of 80 samples hold no answer") and "e.g. sample 0: '" in form
    assert "It reads the last <answer>...</answer>" in form
    assert seen.startswith("80 of 80 samples hold their right answer and earn nothing")


def test_wrong_answers_without_a_form_say_nothing_of_right_ones(sums: Rows, score: Score) -> None:
    result = score(bare(sums, lambda row: "3"), "exact", columns={"answer": "gold"})
    assert result.route.route == "unknown"
    assert not any("hold their right answer" in note for note in result.notes)


def test_wrong_answers_in_their_form_are_a_model_that_never_succeeds(sums: Rows, score: Score) -> None:
    rows = [{**row, "completion": "<think>.</think><answer>3</answer>"} for row in sums]
    result = score(rows, "exact", columns={"answer": "gold"})
    assert result.rewards[0].reasons == {"wrong": 80}
    assert result.route.route == "sft_first"
    assert not any("samples hold" in note for note in result.notes)


def test_a_reward_that_misses_right_answers_is_found_out(sums: Rows, workspace: Workspace, score: Score) -> None:
    code = "def bare(completions, answer, **kwargs):\n    return [float(c == a) for c, a in zip(completions, answer)]\n"
    (workspace.root / "mine.py").write_text(code, encoding="utf-8")
    result = score(sums, "mine.py:bare")
    assert result.rewards[0].reasons == {}
    assert result.route.route == "unknown" and "hold their right answer and earn nothing" in result.route.why


def test_the_note_on_unpaid_right_answers_names_samples_and_shows_unlike_ones(score: Score) -> None:
    rows = []
    for number in range(40):
        answer = 3 + 7 * number if number % 8 else 4750 + number
        told = f"{answer:,}" if answer > 999 else str(answer)
        form = f"**{told}** apples" if number == 21 else f"{told} apples"
        text = f"{'So many words lead up to it. ' * 9}\nThe answer is \\boxed{{{form}}}."
        rows.append({"prompt": f"How many, {number}?", "completion": text, "gold": str(answer)})
    note = next(note for note in score(rows, "exact").notes if "earn nothing" in note)
    assert note.startswith("40 of 40 samples hold their right answer and earn nothing (samples 0, 1, 2, 3, 4, 5, 6, 7 ")
    assert " and 32 more)" in note
    shown = ["boxed{4,750 apples}", "boxed{10 apples}", "boxed{**150** apples}"]
    assert all(text in note for text in shown) and note.count("boxed") == 3


def test_letters_that_stand_in_any_text_are_no_right_answers(workspace: Workspace, score: Score) -> None:
    (workspace.root / "mine.py").write_text(
        "def never(completions, **kwargs):\n    return [0.0] * len(completions)\n", encoding="utf-8"
    )
    text = "Of A, B, C and D I take none."
    rows = [{"prompt": f"Question {n}", "completion": text, "answer": "ABCD"[n % 4]} for n in range(80)]
    assert score(rows, "mine.py:never").route.route == "sft_first"


def test_cut_samples_are_named_as_the_first_cause(sums: Rows, score: Score) -> None:
    rows = [{**row, "completion": "<think>I wonder", "finish_reason": "length"} for row in sums]
    note = score(rows, "exact", columns={"answer": "gold"}).notes[0]
    assert "80 of them were cut at the length limit: raise max_completion_length first." in note


@pytest.mark.parametrize("line", ["log_extra('seen', [1])", "log_extra('seen', row); log_extra('seen', row)"])
def test_a_column_that_does_not_fit_the_table_is_an_error(
    sums: Rows, workspace: Workspace, score: Score, line: str
) -> None:
    code = (
        f"def mine(completions, log_extra, **kwargs):\n    row = [0] * len(completions)\n    {line}\n    return row\n"
    )
    (workspace.root / "mine.py").write_text(code, encoding="utf-8")
    [error] = score(sums, "mine.py:mine").errors
    assert error.kind == "wrong_length" and "values of 'seen' by log_extra for" in error.message


def test_a_few_right_answers_that_earn_nothing_are_named_and_change_no_route(sums: Rows, score: Score) -> None:
    rows = [{**row, "completion": f"<think>.</think><answer>{row['answer']}</answer>"} for row in sums]
    for row in rows[:8]:
        row["completion"] = row["completion"].replace("<answer>", "<answer>about ")
    for row in rows[8:60]:
        row["completion"] = "<think>.</think><answer>3</answer>"
    result = score(rows, "exact", columns={"answer": "gold"})
    assert result.notes[0].startswith("8 of 80 samples hold their right answer and earn nothing (samples 0, 1, 2,")
    assert result.route.route == "grpo"
