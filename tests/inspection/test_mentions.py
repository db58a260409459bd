"""Where a right answer stands in a text, and attacks on completions that name it more than once."""

from collections.abc import Callable
from typing import Any

import pytest

from grpo_rlvr.inspection.attacks import BY_ID, Case
from grpo_rlvr.inspection.references import cases, mention
from grpo_rlvr.inspection.samples import Samples
from grpo_rlvr.workspace import Workspace


@pytest.mark.parametrize(
    ("gold", "text", "found"),
    [
        ("1281", "21*61=1281, so 1,281.", ["1281", "1,281"]),
        ("1281", "1{,}281 or 1\\,281 or 1 281 or 1281.0", ["1{,}281", "1\\,281", "1 281", "1281.0"]),
        ("1,281", "about 1281", ["1281"]),
        ("281", "1,281 and 281,000 and 281.5 and 0.281", []),
        ("281", "281, 281. (281) 281%", ["281"] * 4),
        ("5", "x=-5, 9-5, -5", ["5"]),
        ("-5", "x=-5 and 5 and \u22125", ["-5", "\u22125"]),
        ("0.5", "0.5 or 10.5 or 0.55", ["0.5"]),
        ("7.0", "7 and 7.0", ["7", "7.0"]),
        ("1234567", "1,234,567", ["1,234,567"]),
        ("Paris", "paris, PARIS, Parisian", ["paris", "PARIS"]),
        ("A", "a thing or A", ["A"]),
    ],
)
def test_a_right_answer_is_found_as_a_whole_in_its_usual_shapes(gold: str, text: str, found: list[str]) -> None:
    assert [match.group() for match in mention(gold).finditer(text)] == found


FIRST = """
import re

def first(completions, gold, **kwargs):
    found = [re.search(r"\\d[\\d,]*", text) for text in completions]
    return [float(bool(f) and f[0].strip(",").replace(",", "") == g) for f, g in zip(found, gold)]
"""


@pytest.fixture
def products() -> list[dict[str, Any]]:
    """Samples as models write them: the product on the way, and with a thousands mark at the end."""
    rows = []
    for number in range(12):
        left, right = 31 + 3 * number, 57 + number
        for turn in range(5):
            answer = left * right + (0 if turn % 2 else 10 * turn + 3)
            text = (f"It is {answer}. Checked: \\boxed{{{answer}}}, so the answer is {answer:,}.",
                    f"I multiply and get {answer}.\n#### {answer:,}")[turn // 2 % 2]  # fmt: skip
            rows.append({"prompt": f"What is {left} times {right}?", "completion": text, "gold": str(left * right)})
    return rows


def test_a_sound_reward_is_not_accused_of_reading_an_earlier_mention(
    products: list[dict[str, Any]], score: Callable[..., Any]
) -> None:
    audit = score(products, "math").audit
    assert audit.verdict == "held"
    tried = {attack.attack: attack.tried for attack in audit.attacks}
    assert min(tried[name] for name in ("wrong_answer", "answer_altered", "answer_in_reasoning", "all_answers")) > 0


def test_a_reward_that_takes_the_first_number_is_still_found_out(
    products: list[dict[str, Any]], workspace: Workspace, score: Callable[..., Any]
) -> None:
    (workspace.root / "mine.py").write_text(FIRST, encoding="utf-8")
    audit = score(products, "mine.py:first").audit
    paid = {attack.attack for attack in audit.attacks if attack.outcome == "paid"}
    assert audit.verdict == "errors" and {"answer_in_reasoning", "answer_first"} <= paid


def test_an_answer_that_stands_again_in_another_shape_is_left_alone(score: Callable[..., Any]) -> None:
    rows = []
    for number in range(12):
        value = 2 * number + 1
        half = f"\\frac{{{value}}}{{2}}"
        for text in (f"So {half}, that is {value / 2}.", f"So {half}.", f"It is {value + 1}."):
            rows.append({"prompt": f"Half of {value}?", "completion": f"The answer is {text[3:]}", "gold": half})
    result = score(rows, "math")
    assert result.rewards[0].mean == pytest.approx(2 / 3)
    assert result.audit.verdict == "held"


@pytest.mark.parametrize(
    ("gold", "attack", "answers"),
    [
        ("4,750", "answer_shapes", ["4750", "4750.0", "+4750", "4,750"]),
        ("4750.0", "answer_shapes", ["4750", "4750.0", "+4750", "4,750"]),
        ("-12,345.50", "answer_shapes", ["-12345.50", "-12,345.50"]),
        ("-7", "answer_shapes", ["-7", "-7.0"]),
        ("4,750", "answer_embedded", ["4,750,000", "14,750"]),
        ("123,456.5", "answer_embedded", ["123,456.57", "1,123,456.5"]),
        ("4,750", "answer_altered", ["-4750", "47500", "4750.5"]),
        ("42", "answer_embedded", ["427", "142"]),
    ],
)
def test_numbers_are_attacked_as_numbers_however_they_are_written(gold: str, attack: str, answers: list[str]) -> None:
    case = Case(0, "", "It is ", gold, "!", "8", (gold, "8"), before_wrong="It is ")
    built = [text.removeprefix("It is ").removesuffix("!") for text in BY_ID[attack].build(case)]
    assert built[: len(answers)] == answers


def test_attacks_are_spread_over_answers_that_look_unlike_each_other() -> None:
    golds = ["12", "7", "31", "-4", "9", "4,750", "0.5", "18"]
    rows = [{"prompt": f"Number {n}?", "completion": f"So {gold}.", "gold": gold} for n, gold in enumerate(golds)]
    found = cases(Samples(rows), [True] * len(rows), 5)
    assert [case.gold for case in found] == ["4,750", "12", "-4", "0.5", "7"]


def test_the_same_number_written_otherwise_is_no_wrong_answer() -> None:
    rows = [{"prompt": gold, "completion": f"So {gold}.", "gold": gold} for gold in ("4,750", "4750", "31")]
    assert {case.other for case in cases(Samples(rows), [True] * 3, 2)} == {"31"}
