"""Left sides that only name what is asked for: x, f(x), P(A), |AB|, the angle APC, a sum with its value behind it."""

import re

from rlvr_rewards._math import terms, tree
from rlvr_rewards._math.form import Form

_MARKS = r"(?:'|_\s*(?:\{[^{}]*\}|\w)|\^\s*\{\s*-\s*1\s*\})*"
_OF_VARIABLES = re.compile(r"[A-Za-z](?:'|_\{?\w+\}?)*\s*\([A-Za-z, ]+\)")
# A name with arguments; a bare letter in front of brackets is a factor unless it is a usual name of a function.
_APPLIED = re.compile(
    rf"(?P<name>[A-Za-z]|\\[a-z]+|\\Pr|\\text\s*\{{[^{{}}]*\}}|\\mathbb\s*\{{?[A-Z]\}}?){_MARKS}\s*"
    r"(?:\((?P<round>.+)\)|\[(?P<square>.+)\]|\\\{(?P<curly>.+)\\\})"
)
_FUNCTION_NAMES = frozenset("fghpquvwFGHPQ") | frozenset("ABCDEKLMNRSTVWXYZ")
_GEOMETRIC = re.compile(
    r"m?\s*\\(?:angle|measuredangle)\s*\{?\s*[A-Z](?:\s*[A-Z']){0,3}\s*\}?"
    r"|\\(?:overline|bar|vec|overrightarrow|widehat|hat|triangle)\s*\{?\s*[A-Z](?:\s*[A-Z']){0,3}\s*\}?"
    r"|\|\s*(?:\\(?:overline|vec|overrightarrow)\s*)?\{?\s*[A-Z](?:\s*[A-Z']){1,2}\s*\}?\s*\|"
    r"|\|\s*(?:[zw]|\\(?:vec|overrightarrow)\s*\{?\s*[a-z]\s*\}?)\s*\|"
    r"|\[\s*[A-Z](?:\s*[A-Z']){2,7}\s*\]"
    r"|[A-Z]\s*[A-Z]'?"
    r"|\\Delta\s*[A-Za-z]"
    r"|\\(?:vec|overrightarrow)\s*(?:\{\s*[a-z]\s*\}|[a-z])"
)
# A segment under a bar, or its length between bars.
_LENGTH = re.compile(r"\|?\\?(?:overline)?(?P<ends>[A-Z]'?[A-Z]'?)\|?")
_VARIABLES = re.compile(r"\([a-z](?:,[a-z])*\)")
# What is computed on the left when its value stands on the right.
_ASKED = re.compile(
    r"\\frac\s*\{\s*(?:d|\\partial)\s*(?:\^\s*\{?\d\}?\s*)?[A-Za-z]\s*\}"
    r"\s*\{\s*(?:d|\\partial)\s*[A-Za-z]\s*(?:\^\s*\{?\d\}?)?\s*\}"
    r"|\\nabla\s*[A-Za-z]"
    r"|\\d?dot\s*\{?\s*[A-Za-z]\s*\}?|"
    r"\\(?:max|min|sup|inf|lim|limsup|liminf|sum|prod|int|iint|oint|deg|det|dim|rank|arg|Pr)(?![A-Za-z]).*"
    r"|\\(?:sin|cos|tan|cot|sec|csc)\s*(?:\{?\s*\\?[A-Za-z]+\s*\}?|\(?\s*\\angle\s*[A-Z]{1,3}\s*\)?)"
)


def is_label(form: Form) -> bool:
    """Return whether a side names what is asked instead of computing it."""
    if form.kind == "word":
        return True
    if form.kind == "tuple":
        return all(is_label(part) for part in form.parts)
    if form.node is not None and form.node.op == "variable":
        return True
    if form.node is not None and not terms.variables(form.node):
        return False
    text = form.text
    return any(pattern.fullmatch(text) for pattern in (_OF_VARIABLES, _GEOMETRIC, _ASKED)) or _is_applied(text)


def label_text(form: Form) -> str:
    """Return a label by its letters; what only says that they are a length or the measure of an angle is left out."""
    # Words are kept in small letters.
    text = re.sub(r"[\s{}]|\\text(?![A-Za-z])", "", form.text.upper() if form.kind == "word" else form.text)
    length = _LENGTH.fullmatch(text)
    return length["ends"] if length else text.removeprefix("m") if text.startswith("m\\angle") else text


def same_label(one: str, other: str) -> bool:
    """Return whether two labels name the same: equal, or one function with and without its variables, y(x) and y."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and _VARIABLES.fullmatch(long[len(short) :]) is not None


def _is_applied(text: str) -> bool:
    match = _APPLIED.fullmatch(text)
    if match is None:
        return False
    name, inside = match["name"], match["round"] or match["square"] or match["curly"]
    if name.startswith("\\"):
        return name.removeprefix("\\") in tree.GREEK or name.startswith(("\\text", "\\mathbb", "\\Pr"))
    if not re.search(r"[A-Za-z]", inside):
        return name not in "xyz"
    return name in _FUNCTION_NAMES and name not in re.sub(r"\\[A-Za-z]+", " ", inside)
