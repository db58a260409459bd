"""Comparing two answers by the kind of the expected one."""

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from rlvr_rewards._math import equal, tree
from rlvr_rewards._math.forms import WORDS, Form
from rlvr_rewards._math.limits import NotUnderstood


class Undecided(Exception):
    """Two texts that only the symbolic worker may compare."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the comparison takes as given.

    Attributes:
        rel_tol: Relative tolerance of numbers that are not whole.
        strict_units: A unit in the gold must agree.
    """

    rel_tol: Fraction
    strict_units: bool = True


def same(gold: Form, answer: Form, policy: Policy) -> bool:
    """Return whether an answer is the expected one.

    Raises:
        Undecided: The pair needs the symbolic worker.
        TooLarge: One side is beyond the stated limits.
    """
    if gold.text == answer.text and gold.kind == answer.kind and gold.kind != "equation":
        return True
    for one, other in ((gold, answer), (answer, gold)):
        if one.kind == "equation" and _is_chain(one):
            return _chain_holds(one, policy) and same_pair(one.parts[-1], other, one is gold, policy)
    if gold.kind == "equation" or answer.kind == "equation":
        return _equations(gold, answer, policy)
    if gold.kind != answer.kind and "tuple" in (gold.kind, answer.kind):
        # Beside an inequality or another set of numbers, two ends in brackets are an interval.
        gold, answer = _as_interval(gold), _as_interval(answer)
    if (ends := _as_set(gold)) is not None and (others := _as_set(answer)) is not None:
        return _same_sets(ends, others)
    return _by_kind(gold, answer, policy)


def same_pair(one: Form, other: Form, one_is_gold: bool, policy: Policy) -> bool:
    """Compare with the sides in their places."""
    return same(one, other, policy) if one_is_gold else same(other, one, policy)


def _by_kind(gold: Form, answer: Form, policy: Policy) -> bool:
    if gold.kind in ("list", "set") or answer.kind in ("list", "set"):
        return _collections(gold, answer, policy)
    if {gold.kind, answer.kind} & {"word"}:
        return gold.kind == answer.kind and gold.text == answer.text
    if {gold.kind, answer.kind} <= {"tuple", "interval", "matrix"}:
        shape = gold.kind == answer.kind and gold.marks == answer.marks and len(gold.parts) == len(answer.parts)
        return shape and all(same(a, b, policy) for a, b in zip(gold.parts, answer.parts, strict=True))
    if gold.kind == answer.kind == "number":
        return _numbers(gold, answer, policy)
    if gold.kind == answer.kind == "relation":
        return _relations(gold, answer, policy)
    if gold.kind == answer.kind and gold.kind in ("union", "difference"):
        return _collections(gold, answer, policy) if gold.kind == "union" else _pairwise(gold, answer, policy)
    if "raw" in (gold.kind, answer.kind):
        return _raw(gold, answer)
    return False


def _pairwise(gold: Form, answer: Form, policy: Policy) -> bool:
    alike = len(gold.parts) == len(answer.parts)
    return alike and all(same(a, b, policy) for a, b in zip(gold.parts, answer.parts, strict=True))


def _numbers(gold: Form, answer: Form, policy: Policy) -> bool:
    if gold.node is None or answer.node is None:
        return False
    if gold.base != answer.base and not (gold.base == 0 and answer.base == 10):
        return False
    if gold.unit and policy.strict_units and gold.unit != answer.unit:
        return False
    if tree.variables(gold.node) and answer.unit and not gold.unit:
        return False
    try:
        return equal.same(gold.node, answer.node, policy.rel_tol)
    except NotUnderstood:
        raise Undecided from None


def _collections(gold: Form, answer: Form, policy: Policy) -> bool:
    ours, theirs = members(gold), members(answer)
    # A list of guesses is not the one answer; a repeated answer is.
    covered = all(any(same(a, b, policy) for b in theirs) for a in ours)
    return covered and all(any(same(a, b, policy) for a in ours) for b in theirs)


def members(form: Form) -> tuple[Form, ...]:
    """Return the members of a list, set or union of such; a single value is its own member."""
    if form.kind in ("list", "set"):
        return form.parts
    if form.kind == "union":
        return tuple(inner for part in form.parts for inner in members(part))
    return (form,)


# -- equations --------------------------------------------------------------------------------------------------------


def _is_label(form: Form) -> bool:
    """Return whether a side names what is asked: one variable, or a function of variables such as f(x)."""
    if form.kind == "word":
        return True
    if form.kind == "tuple":
        return all(_is_label(part) for part in form.parts)
    if form.node is None:
        return False
    return (
        form.node.op == "variable"
        or re.fullmatch(r"[A-Za-z](?:'|_\{?\w+\}?)*\s*\([A-Za-z, ]+\)", form.text) is not None
    )


def _is_chain(form: Form) -> bool:
    """Return whether an equation only computes: no side but a first name holds anything unknown."""
    sides = form.parts[1:] if _is_label(form.parts[0]) else form.parts
    constant = all(side.node is not None and not tree.variables(side.node) for side in sides)
    return constant and not _is_label(form.parts[0])


def chain_is_true(form: Form) -> bool:
    """Return whether an equation that only computes holds; other equations say nothing that could be false."""
    return not _is_chain(form) or _chain_holds(form, Policy(Fraction(1, 10**6)))


def _chain_holds(form: Form, policy: Policy) -> bool:
    sides = form.parts[1:] if _is_label(form.parts[0]) else form.parts
    return all(same(a, b, policy) or same(b, a, policy) for a, b in pairwise(sides))


def _assignment(form: Form) -> tuple[str, Form] | None:
    """Return the name and the value of `x = ..`, in either order, or None."""
    if form.kind != "equation":
        return None
    first, last = form.parts[0], form.parts[-1]
    if _is_label(first):
        return _label(first), last
    return (_label(last), first) if _is_label(last) and len(form.parts) == 2 else None


def _label(form: Form) -> str:
    return re.sub(r"[\s{}]|\\text", "", form.text)


def _equations(gold: Form, answer: Form, policy: Policy) -> bool:
    for form in (gold, answer):
        if form.kind == "equation" and len(form.parts) > 2 and not _chain_holds(form, policy):
            return False
    left, right = _assignment(gold), _assignment(answer)
    if gold.kind != "equation":
        return right is not None and same(gold, right[1], policy)
    if answer.kind != "equation":
        return left is not None and same(left[1], answer, policy)
    if left is not None and right is not None and left[0] == right[0]:
        return same(left[1], right[1], policy)
    return _same_equation(gold, answer)


def _same_equation(gold: Form, answer: Form) -> bool:
    sides = [part.node for form in (gold, answer) for part in form.parts]
    if len(sides) != 4 or any(part.unit for form in (gold, answer) for part in form.parts):
        return False
    if any(side is None for side in sides):
        return _raw(gold, answer)
    zeros = [tree.Node("add", (a, tree.Node("negative", (b,)))) for a, b in (sides[:2], sides[2:]) if a and b]
    try:
        return equal.multiple(zeros[0], zeros[1])
    except NotUnderstood:
        raise Undecided from None


# -- sets of real numbers ---------------------------------------------------------------------------------------------

End = tuple[Decimal | None, bool]
Span = tuple[End, End]


def _as_set(form: Form) -> list[Span] | None:
    """Return a set of real numbers as sorted spans, or None when the form is no such set with known ends.

    A span is ((low, closed), (high, closed)); an end of None is infinite.
    """
    spans = _spans(form)
    return None if spans is None else _merged(spans)


def _spans(form: Form) -> list[Span] | None:
    if form.kind == "word" and form.text == "all real numbers":
        return [((None, False), (None, False))]
    if form.kind == "interval":
        return _interval_spans(form)
    if form.kind == "relation":
        return _relation_spans(form)
    if form.kind == "union":
        return _union_spans(form)
    if form.kind == "difference" and len(form.parts) == 2:
        return _difference_spans(form)
    return None


def _number_of(form: Form) -> Decimal | None:
    return equal.constant(form.node) if form.node is not None and not form.unit else None


def _end(form: Form) -> Decimal | str | None:
    """Return the number of an end, "+" or "-" for infinity, or None when it is neither."""
    text = form.text.replace(" ", "")
    if text.lstrip("+-") in ("\\infty", "infinity", "inf", "oo"):
        return "-" if text.startswith("-") else "+"
    return _number_of(form)


def _interval_spans(form: Form) -> list[Span] | None:
    low, high = _end(form.parts[0]), _end(form.parts[1])
    if low is None or high is None or low == "+" or high == "-":
        return None
    span = (_side(low, form.marks[0] == "["), _side(high, form.marks[1] == "]"))
    return [span] if _proper(span) else []


def _side(end: Decimal | str, closed: bool) -> End:
    return (None, False) if isinstance(end, str) else (end, closed)


def _proper(span: Span) -> bool:
    (low, low_closed), (high, high_closed) = span
    return low is None or high is None or low < high or (low == high and low_closed and high_closed)


def _relation_spans(form: Form) -> list[Span] | None:
    """Read `x < 3`, `3 > x`, `2 <= x < 5` and `x != 3`."""
    parts, signs = form.parts, form.marks
    names = [index for index, part in enumerate(parts) if part.node is not None and part.node.op == "variable"]
    if len(names) != 1:
        return None
    if len(parts) == 3 and names == [1] and all(sign in ("<", "\\le") for sign in signs):
        return _between(parts[0], parts[2], signs[0] == "\\le", signs[1] == "\\le")
    if len(parts) == 3 and names == [1] and all(sign in (">", "\\ge") for sign in signs):
        return _between(parts[2], parts[0], signs[1] == "\\ge", signs[0] == "\\ge")
    if len(parts) != 2:
        return None
    number = _number_of(parts[1 - names[0]])
    sign = signs[0] if names[0] == 0 else _FLIPPED.get(signs[0], "")
    if number is None:
        return None
    return {
        "<": [((None, False), (number, False))],
        "\\le": [((None, False), (number, True))],
        ">": [((number, False), (None, False))],
        "\\ge": [((number, True), (None, False))],
        "\\ne": [((None, False), (number, False)), ((number, False), (None, False))],
    }.get(sign)


_FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\ne": "\\ne"}


def _between(low: Form, high: Form, low_closed: bool, high_closed: bool) -> list[Span] | None:
    ends = _end(low), _end(high)
    if ends[0] is None or ends[1] is None:
        return None
    span = (_side(ends[0], low_closed), _side(ends[1], high_closed))
    return [span] if _proper(span) else []


def _as_interval(form: Form) -> Form:
    """Read two members in brackets as the ends of an interval, which they are among other sets of numbers."""
    if form.kind == "tuple" and len(form.parts) == 2:
        return Form("interval", form.text, form.parts, marks=form.marks)
    return form


def _union_spans(form: Form) -> list[Span] | None:
    whole: list[Span] = []
    for part in form.parts:
        if part.kind == "set":
            points = [_number_of(member) for member in part.parts]
            if any(point is None for point in points):
                return None
            whole.extend(((point, True), (point, True)) for point in points)
            continue
        spans = _spans(_as_interval(part))
        if spans is None:
            return None
        whole.extend(spans)
    return whole


def _difference_spans(form: Form) -> list[Span] | None:
    spans = _spans(_as_interval(form.parts[0]))
    if spans is None or form.parts[1].kind not in ("set", "number"):
        return None
    for member in members(form.parts[1]):
        point = _number_of(member)
        if point is None:
            return None
        spans = [piece for span in spans for piece in _without(span, point)]
    return spans


def _without(span: Span, point: Decimal) -> list[Span]:
    (low, low_closed), (high, high_closed) = span
    above = low is None or point > low or (point == low and low_closed)
    below = high is None or point < high or (point == high and high_closed)
    if not (above and below):
        return [span]
    halves: list[Span] = [((low, low_closed), (point, False)), ((point, False), (high, high_closed))]
    return [half for half in halves if _proper(half)]


def _merged(spans: list[Span]) -> list[Span]:
    ordered = sorted(spans, key=lambda span: (span[0][0] is not None, span[0][0] or Decimal(0), not span[0][1]))
    result: list[Span] = []
    for span in ordered:
        if result and _touches(result[-1], span):
            result[-1] = (result[-1][0], _later(result[-1][1], span[1]))
        else:
            result.append(span)
    return result


def _touches(first: Span, second: Span) -> bool:
    high, low = first[1], second[0]
    if high[0] is None or low[0] is None:
        return True
    return low[0] < high[0] or (low[0] == high[0] and (low[1] or high[1]))


def _later(one: End, other: End) -> End:
    if one[0] is None or other[0] is None:
        return (None, False)
    return max(one, other, key=lambda end: (end[0] or Decimal(0), end[1]))


def _same_sets(gold: list[Span], answer: list[Span]) -> bool:
    if len(gold) != len(answer):
        return False
    return all(
        _same_end(a, b) for one, other in zip(gold, answer, strict=True) for a, b in zip(one, other, strict=True)
    )


def _same_end(gold: End, answer: End) -> bool:
    if gold[0] is None or answer[0] is None:
        return gold[0] is answer[0]
    close = abs(gold[0] - answer[0]) <= max(abs(gold[0]), abs(answer[0])) * Decimal(10) ** -40
    return close and gold[1] == answer[1]


def _relations(gold: Form, answer: Form, policy: Policy) -> bool:
    """Compare inequalities side by side, also read from right to left."""
    if len(gold.parts) != len(answer.parts):
        return False
    for parts, signs in ((answer.parts, answer.marks), (answer.parts[::-1], tuple(map(_flip, answer.marks[::-1])))):
        if signs == gold.marks and all(same(a, b, policy) for a, b in zip(gold.parts, parts, strict=True)):
            return True
    return False


def _flip(sign: str) -> str:
    return _FLIPPED.get(sign, sign)


# -- what this reader does not know -----------------------------------------------------------------------------------

# Only text of nothing but formulas goes to the symbolic worker: its parser drops what it does not know.
_FORMULA = re.compile(
    r"(?:\\(?:sum|prod|int|iint|oint|lim|to|infty|frac|sqrt|binom|sin|cos|tan|ln|log|exp|pi|cdot|times|partial|mathrm|"
    r"overline|bar|hat|vec|begin|end|det|deg|mid|in|mathbb|ldots|alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|sigma|"
    r"degree|cup|cap|setminus|le|ge|ne|pm|mp|circ|prime|nabla|Re|Im)(?![A-Za-z])|\\[{}\\|,]|[A-Za-z0-9\s+\-*/^_=<>(){}\[\]|!.,&'])*"
)


def _raw(gold: Form, answer: Form) -> bool:
    if squeezed(gold.text) == squeezed(answer.text):
        return True
    words = {*WORDS.values()}
    if answer.kind == "word" or (gold.kind == "word" and gold.text in words):
        return False
    if not _open_ended(gold):
        return False
    if _FORMULA.fullmatch(gold.text) and _FORMULA.fullmatch(answer.text):
        raise Undecided
    return False


def _open_ended(gold: Form) -> bool:
    """Return whether a gold is more than numbers: only then may a formula that is not worked out be the answer."""
    if gold.kind == "equation":
        return any(_open_ended(part) for part in gold.parts)
    return gold.kind == "raw" or (gold.node is not None and bool(tree.variables(gold.node)))


def squeezed(text: str) -> str:
    """Return the text without spaces."""
    return re.sub(r"\s+", "", text)
