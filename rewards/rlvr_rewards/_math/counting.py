"""Numbers of selections and arrangements in the notations that are read as letters: C(10,3), C_{10}^{3}, P(10,3)."""

import re
from dataclasses import replace

from rlvr_rewards._math import terms
from rlvr_rewards._math.form import Form
from rlvr_rewards._math.quantities import read_number

_PAIRS = (
    r"\(\s*(?P<n>\d{1,4})\s*,\s*(?P<k>\d{1,4})\s*\)",
    r"_\s*\{?\s*(?P<n>\d{1,4})\s*\}?\s*\^\s*\{?\s*(?P<k>\d{1,4})\s*\}?",
    r"\^\s*\{?\s*(?P<k>\d{1,4})\s*\}?\s*_\s*\{?\s*(?P<n>\d{1,4})\s*\}?",
)
_COUNTS = tuple(re.compile(r"(?<![A-Za-z\\])(?P<letter>[CPA])\s*" + pair) for pair in _PAIRS)


def counted(form: Form, other: Form) -> Form:
    """Return a formula as the number that it counts, when the other side is a plain number; else the form itself.

    Without a number beside it, C(1,2) is a point and P(1,2) a probability.
    """
    plain = other.kind == "number" and other.node is not None and not terms.variables(other.node)
    if not plain or form.kind not in ("raw", "number") or not any(letter in form.text for letter in "CPA"):
        return form
    text = form.text
    for pattern in _COUNTS:
        text = pattern.sub(_value, text)
    if text == form.text:
        return form
    number = read_number(text)
    return form if number is None else replace(number, text=form.text)


def _value(match: re.Match[str]) -> str:
    n, k = int(match["n"]), int(match["k"])
    choices = f"\\binom{{{n}}}{{{k}}}"
    return choices if match["letter"] == "C" else f"({choices} \\cdot {k}!)"
