"""Segments, angles and triangles by the letters of their points, in the notations that name the same one."""

import re

from rlvr_rewards._math.form import Form

_POINTS = r"\{?\s*(?P<points>(?:[A-Z]'*\s*){2,4})\}?"
_WORDS = r"(?:\\text\s*\{\s*)?(?:(?:line )?segment|side|diagonal|chord)\s*\}?\s*"
_SEGMENT = re.compile(rf"(?:\\(?:overline|bar)\s*|{_WORDS}(?:\\overline\s*)?)?{_POINTS}\s*\}}?", re.IGNORECASE)
_ANGLE = re.compile(
    rf"(?:\\(?:angle|measuredangle)|(?:\\text\s*\{{\s*)?angle\s*\}}?)\s*{_POINTS}\s*\}}?", re.IGNORECASE
)
_TRIANGLE = re.compile(
    rf"(?:\\(?:triangle|Delta)|(?:\\text\s*\{{\s*)?triangle\s*\}}?)?\s*{_POINTS}\s*\}}?", re.IGNORECASE
)
_FIGURES = ((_SEGMENT, 2), (_ANGLE, 3), (_TRIANGLE, 3))


# Names of figures are read as one of these; two of them with primes as products, whose order does not count.
_KINDS = frozenset(("word", "raw", "number"))
# The longest name has a word, a command and four points.
MAX_NAME = 60


def same_figure(one: Form, other: Form) -> bool:
    """Return whether two texts name the same figure: `\\overline{AB}`, "segment AB" and AB, but not BA or a vector.

    The order of the letters counts, since two letters under a bar may be the digits of a number.
    """
    kinds = {one.kind, other.kind}
    if not kinds <= _KINDS or kinds == {"number"} or max(len(one.text), len(other.text)) > MAX_NAME:
        return False
    return any(
        (name := _points(pattern, one, count)) is not None and name == _points(pattern, other, count)
        for pattern, count in _FIGURES
    )


def _points(pattern: re.Pattern[str], form: Form, count: int) -> str | None:
    # Words are kept in small letters.
    match = pattern.fullmatch(form.text.upper() if form.kind == "word" else form.text)
    points = re.sub(r"\s", "", match["points"]) if match else ""
    letters = points.replace("'", "")
    return points if len(letters) == count and letters.isupper() and len(set(letters)) == count else None
