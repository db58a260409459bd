"""The expected answer spelled in other ways is still right, and with something added it is wrong."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rlvr_rewards import Math

DATA = Path(__file__).parents[1] / "data" / "rewards"
REWARD = Math()


def _golds() -> list[str]:
    found = set()
    for name in ("math_own", "math_public", "answers"):
        for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            graded = row["reward"] == "math" and row["right"] is True and not row.get("opts", {}).get("kind")
            if graded and isinstance(row["gold"], str):
                found.add(row["gold"])
    golds = sorted(found)
    faulty = {problem.index for problem in REWARD.check_rows([{"gold": gold} for gold in golds])}
    return [gold for index, gold in enumerate(golds) if index not in faulty]


GOLDS = _golds()
Spelling = Callable[[str], str]


def _wrapped(before: str, after: str) -> Spelling:
    return lambda gold: before + gold + after


def _replaced(old: str, new: str) -> Spelling:
    return lambda gold: gold.replace(old, new)


def _sub(pattern: str, new: str) -> Spelling:
    return lambda gold: re.sub(pattern, new, gold)


def _sized(gold: str) -> str:
    even = gold.count("(") == gold.count(")")
    return gold.replace("(", "\\left(").replace(")", "\\right)") if even else gold


def _sets(gold: str) -> str:
    return gold.replace("\\{", "\\left\\{").replace("\\}", "\\right\\}")


SPELLINGS: dict[str, Spelling] = {
    **{"dollars": _wrapped("$", "$"), "parentheses": _wrapped("\\(", "\\)"), "braces": _wrapped("{", "}")},
    **{"display": _wrapped("\\displaystyle ", ""), "end": _wrapped("", "."), "lines": _wrapped("\n", "\n")},
    **{"bold": _wrapped("\\mathbf{", "}"), "symbols": _wrapped("\\boldsymbol{", "}"), "row": _wrapped("", " \\\\")},
    **{"colour": _wrapped("\\textcolor{blue}{", "}"), "underline": _wrapped("\\underline{", "}")},
    **{"aligned": _wrapped("\\begin{aligned}", "\\end{aligned}"), "spaces": _wrapped("\\,", "\\;")},
    **{"dfrac": _replaced("\\frac", "\\dfrac"), "tfrac": _replaced("\\frac", "\\tfrac"), "sized": _sized},
    **{"minus": _replaced("-", "−"), "pi": _replaced("\\pi", "π"), "cup": _replaced("\\cup", "∪"), "sets": _sets},
    **{"infinity": _replaced("\\infty", "∞"), "degree": _replaced("^\\circ", "°"), "dot": _replaced("\\times", "·")},
    **{"at_most": _sub(r"\\leq?(?![A-Za-z])", "≤"), "at_least": _sub(r"\\geq?(?![A-Za-z])", "≥")},
    **{"around": _sub(r"(\\\\|[=<>;|]|\\(?:le|ge|cup|cap|in)(?![A-Za-z]))", r" \1 ")},
    **{"quads": _replaced(", ", ",\\quad "), "exponents": _sub(r"\^(\w)(?!\w)", r"^{\1}")},
}


def test_enough_golds_are_spelled() -> None:
    assert len(GOLDS) > 600


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_another_spelling_of_the_gold_is_right(spelling: str) -> None:
    answers = {gold: SPELLINGS[spelling](gold) for gold in GOLDS}
    wrong = [
        (gold, answer) for gold, answer in answers.items() if REWARD.grade(_boxed(answer), {"gold": gold}).score != 1.0
    ]
    assert wrong == []


# A lone letter is an option, behind which its text may follow, and so is one in brackets.
LONGER = [gold for gold in GOLDS if len(gold) > 1 and not re.fullmatch(r"\\text\{\([A-E]\)\}", gold)]


@pytest.mark.parametrize("added", [", 99", " \\text{ or } 99", "=99", " \\text{ is wrong}", " \\to 99"])
def test_a_gold_with_something_added_is_wrong(added: str) -> None:
    right = [gold for gold in LONGER if REWARD.grade(_boxed(gold + added), {"gold": gold}).score != 0.0]
    assert right == []


def _boxed(answer: str) -> str:
    return f"Thus \\boxed{{{answer}}}."


COMMITMENTS = [
    *(
        "The answer is {}.",
        "The answer is ${}$.",
        "The answer is $${}$$",
        "The answer is: \\[{}\\]",
        "Answer:\n${}$\n\nBye!",
    ),
    *("**Answer:** ${}$", "**Answer: ${}$**", "The final answer is ${}$. I hope it is correct.", "#### ${}$"),
    *(
        "$$\\boxed{{{}}}$$ Hope it helps!",
        "$\\boxed{{{}}}.$",
        "\\fbox{{{}}}",
        "\\boxed {{{}}}",
        "\\boxed{{{}}}<|im_end|>",
    ),
    *("<think>maybe \\boxed{{7919}}</think> So \\boxed{{{}}}", "First \\boxed{{7919}}. Wait, no. \\boxed{{{}}}"),
]
NONE = [
    *("{}", "<think>\\boxed{{{}}}</think> Done.", "<think>\\boxed{{{}}}", "\\boxed{{{}", "\\boxed{{{}}} \\boxed{{}}"),
    *("\\boxed{{{}}} or maybe \\boxed{{7919}}", "The answer is not ${}$.", "\\boxed{{{}}}, \\boxed{{7919}}"),
]


@pytest.mark.parametrize("text", COMMITMENTS)
def test_a_committed_gold_is_found(text: str) -> None:
    # Formulas inside of formulas, and signs that may end a sentence, cannot be told apart behind a marker.
    golds = [gold for gold in GOLDS if "odd $n$" not in gold and not gold.endswith("!")]
    missed = [gold for gold in golds if REWARD.grade(text.format(gold), {"gold": gold}).score != 1.0]
    assert missed == []


@pytest.mark.parametrize("text", NONE)
def test_a_gold_that_is_not_committed_to_is_not_paid(text: str) -> None:
    paid = [gold for gold in GOLDS if REWARD.grade(text.format(gold), {"gold": gold}).score != 0.0]
    assert paid == []


def _fraction(gold: str, answer: str) -> float:
    return REWARD.grade(_boxed(answer), {"gold": gold}).score or 0.0


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        *(("\\frac{-1+\\sqrt5}{2}", "{-1+\\sqrt{5} \\over 2}"), ("\\frac12", "$1\\over2$"), ("1/2", "x=1\\over 2")),
        *(("2/3", "{1\\over 1+{1\\over 2}}"), ("\\frac72", "3{1\\over 2}"), ("(\\frac12,3)", "({1\\over2},3)")),
    ],
)
def test_the_old_notation_of_fractions_takes_its_whole_group(gold: str, answer: str) -> None:
    assert _fraction(gold, answer) == 1.0
    assert _fraction(gold, f"{answer}+1") == 0.0
