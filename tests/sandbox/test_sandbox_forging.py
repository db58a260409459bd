"""Wrong programs against every way in which a test can compare, and wrong scripts against style io: none is paid."""

import json
import secrets
from pathlib import Path
from typing import Any

import pytest

from rlvr_rewards.unit_test import UnitTest

DATA = Path(__file__).parents[1] / "data" / "sandbox"
TOKEN = f"EXPECTED_{secrets.token_hex(8)}"
WORDS = {
    "CALL": "f(('k',), ('z',))", "UPPER": repr(TOKEN.upper()), "LOWER": repr(TOKEN.lower()), "REPR": repr(repr(TOKEN)),
    "JSON": repr(json.dumps(TOKEN)), "LENGTH": str(len(TOKEN)), "TOKEN": repr(TOKEN),
}  # fmt: skip
RIGHT = f"def f(a, b): return {TOKEN!r}\ndef g(x): return x ** 0.5\n"


def programs(name: str) -> dict[str, str]:
    """Parse a file of programs: `=== name`, then the text."""
    blocks = (DATA / name).read_text(encoding="utf-8").split("\n=== ")[1:]
    return {head.strip(): text for head, _, text in (block.partition("\n") for block in blocks)}


def forms() -> list[str]:
    """Return all ways to compare, as statements separated by semicolons."""
    found = []
    for line in (DATA / "forms.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            for word, text in WORDS.items():
                line = line.replace(word, text)
            found.append(line)
    return found


HEAD = "import math\nimport pytest\nfrom candidate import f, g\n"
PYTEST = HEAD + "".join(f"def test_{n}():\n    {form}\n" for n, form in enumerate(forms()))
ASSERTS = HEAD + "\n".join(forms())


@pytest.mark.parametrize(("style", "tests"), [("pytest", PYTEST), ("assert", ASSERTS)])
def test_no_way_to_compare_pays_a_wrong_program(style: str, tests: str) -> None:
    assert len(forms()) >= 80
    # In parts, so that a comparison which is fooled shows even where the others hold.
    reward = UnitTest(style=style, partial=True, limit_s=2)
    attacks = programs("forging.txt")
    del attacks["partly right, then death"]  # its `g` is right
    verdicts = reward.grade_batch([RIGHT, *attacks.values(), RIGHT], [{"tests": tests}] * (len(attacks) + 2))
    scores = dict(zip(("right before", *attacks, "right after"), [verdict.score for verdict in verdicts], strict=True))
    assert (scores.pop("right before"), scores.pop("right after")) == (1.0, 1.0)
    assert {name: score for name, score in scores.items() if score != 0.0} == {}


SCRIPT = f"a, b = input().split()\nprint({TOKEN!r} if a == 'k' else int(a) + int(b))\n"
CASES = [
    {"stdin": "k z\n", "stdout": f"{TOKEN}\n"},
    {"stdin": "2 3\n", "stdout": "5\n"},
    {"stdin": "10 20\n", "stdout": "30\n"},
]


@pytest.mark.parametrize("options", [{}, {"atol": 0.5, "exit_zero": False, "trailing_whitespace": "strict"}], ids=str)
def test_no_wrong_script_is_paid(user: Any, level: str, drive: Any, options: dict[str, Any]) -> None:
    attacks = programs("forging_stdio.txt")
    assert len(attacks) >= 20
    order = {"right before": SCRIPT, **attacks, "right after": SCRIPT}
    answers = drive(user, level, order, grade={"args": {"style": "io", "limit_s": 2, **options}, "tests": CASES})
    scores = {name: score for name, (score, _, _) in answers["answers"].items()}
    assert (scores.pop("right before"), scores.pop("right after")) == (1.0, 1.0)
    assert {name: score for name, score in scores.items() if score != 0.0} == {}
