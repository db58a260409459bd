"""Where a right answer stands in a text, and attacks on completions that name it more than once."""

from collections.abc import Callable
from typing import Any

import pytest

from grpo_rlvr.inspection.references import mention
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
