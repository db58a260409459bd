"""Sets of real numbers as sorted spans, whatever they were written as: intervals, unions, inequalities."""

from decimal import Decimal

from rlvr_rewards._math import equal
from rlvr_rewards._math.form import Form, members, names
from rlvr_rewards._math.terms import Node

End = tuple[Decimal | None, bool]
Span = tuple[End, End]


def as_set(form: Form) -> list[Span] | None:
    """Return a set of real numbers as sorted spans, or None when the form is no such set with known ends.

    A span is ((low, closed), (high, closed)); an end of None is infinite. Such an end is closed only where it was
    written in a square bracket, which claims that infinity is a member.
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
    if form.kind == "list" and form.parts and all(_is_condition(part) for part in form.parts):
        return _joint_spans(form)
    if form.kind == "union":
        return _union_spans(form)
    if form.kind == "intersection":
        return _common_spans(form)
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
    # Ends in the wrong order make a pair.
    return [span] if _proper(span) else None


def _side(end: Decimal | str, closed: bool) -> End:
    return (None, closed) if isinstance(end, str) else (end, closed)


def _proper(span: Span) -> bool:
    (low, low_closed), (high, high_closed) = span
    return low is None or high is None or low < high or (low == high and low_closed and high_closed)


def _joint_spans(form: Form) -> list[Span] | None:
    """Read several conditions on one variable: all of them hold, as in `x > 2 and x < 5`.

    Where nothing is left, bare commas part the pieces of a set instead, as in `x < 2, x > 3`.
    """
    each = [_member_spans(part) if part.kind == "equation" else _relation_spans(part) for part in form.parts]
    if len(names(form)) != 1 or None in each:
        return None
    spans = [spans for spans in each if spans is not None]
    common = spans[0]
    for others in spans[1:]:
        common = [both for one in common for other in others if (both := _overlap(one, other)) is not None]
    return common if common or "and" in form.marks else [span for several in spans for span in several]


def _is_condition(form: Form) -> bool:
    """Return whether a part says of a variable where it lies: `x > 2`, `x \\in [2, 3]`."""
    named = bool(form.parts) and form.parts[0].node is not None and form.parts[0].node.op == "variable"
    return form.kind == "relation" or (form.kind == "equation" and form.marks == ("\\in",) and named)


def _member_spans(form: Form) -> list[Span] | None:
    return _spans(as_interval(form.parts[1]))


def _overlap(one: Span, other: Span) -> Span | None:
    low = max(one[0], other[0], key=lambda end: (end[0] is not None, end[0] or Decimal(0), not end[1]))
    high = min(one[1], other[1], key=lambda end: (end[0] is None, end[0] or Decimal(0), end[1]))
    return (low, high) if _proper((low, high)) else None


def _turned(form: Form) -> Form:
    """Return `-x > -1` as `x < 1`."""
    parts = [part.node for part in form.parts]
    if len(parts) != 2 or not any(_is_minus_variable(node) for node in parts):
        return form
    turned = tuple(Form("number", part.text, node=_opposite(part.node)) for part in form.parts)
    return Form("relation", form.text, turned, marks=tuple(FLIPPED.get(sign, sign) for sign in form.marks))


def _is_minus_variable(node: Node | None) -> bool:
    return node is not None and node.op == "negative" and node.args[0].op == "variable"


def _opposite(node: Node | None) -> Node | None:
    if node is None:
        return None
    return node.args[0] if node.op == "negative" else Node("negative", (node,))


def _relation_spans(form: Form) -> list[Span] | None:
    """Read `x < 3`, `3 > x`, `2 <= x < 5` and `x != 3`."""
    if (around := _size_spans(form)) is not None:
        return around
    form = _turned(form)
    parts, signs = form.parts, form.marks
    places = [index for index, part in enumerate(parts) if part.node is not None and part.node.op == "variable"]
    if len(places) != 1:
        return None
    if len(parts) == 3 and places == [1] and all(sign in ("<", "\\le") for sign in signs):
        return _between(parts[0], parts[2], signs[0] == "\\le", signs[1] == "\\le")
    if len(parts) == 3 and places == [1] and all(sign in (">", "\\ge") for sign in signs):
        return _between(parts[2], parts[0], signs[1] == "\\ge", signs[0] == "\\ge")
    if len(parts) != 2:
        return None
    number = _number_of(parts[1 - places[0]])
    sign = signs[0] if places[0] == 0 else FLIPPED.get(signs[0], "")
    if number is None:
        return None
    spans: dict[str, list[Span]] = {
        "<": [((None, False), (number, False))],
        "\\le": [((None, False), (number, True))],
        ">": [((number, False), (None, False))],
        "\\ge": [((number, True), (None, False))],
        "\\ne": [((None, False), (number, False)), ((number, False), (None, False))],
    }
    return spans.get(sign)


def _size_spans(form: Form) -> list[Span] | None:
    """Read `|x| < 2` and `|x| >= 2`, with the number on the right."""
    if len(form.parts) != 2 or (node := form.parts[0].node) is None or (high := _number_of(form.parts[1])) is None:
        return None
    if node.op != "abs" or node.args[0].op != "variable" or high <= 0:
        return None
    closed = form.marks[0] in ("\\le", "\\ge")
    if form.marks[0] in ("<", "\\le"):
        return [((-high, closed), (high, closed))]
    if form.marks[0] in (">", "\\ge"):
        return [((None, False), (-high, closed)), ((high, closed), (None, False))]
    return None


FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "\\ne": "\\ne"}


def _between(low: Form, high: Form, low_closed: bool, high_closed: bool) -> list[Span] | None:
    ends = _end(low), _end(high)
    if ends[0] in (None, "+") or ends[1] in (None, "-"):
        return None
    span = (_side(ends[0], low_closed), _side(ends[1], high_closed))
    return [span] if _proper(span) else []


def as_interval(form: Form) -> Form:
    """Read two members in brackets as the ends of an interval, which they are among other sets of numbers."""
    if form.kind == "tuple" and len(form.parts) == 2:
        return Form("interval", form.text, form.parts, marks=form.marks)
    return form


def _union_spans(form: Form) -> list[Span] | None:
    whole: list[Span] = []
    if len(names(form)) > 1:
        return None
    for part in form.parts:
        if part.kind == "set":
            points = [_number_of(member) for member in part.parts]
            if any(point is None for point in points):
                return None
            whole.extend(((point, True), (point, True)) for point in points)
            continue
        spans = _spans(as_interval(part))
        if spans is None:
            return None
        whole.extend(spans)
    return whole


def as_points(form: Form) -> list[Span] | None:
    """Return a finite set of known numbers as spans of no length, or None when the form is no such set."""
    if form.kind == "word" and form.text == "no solution":
        return []
    points = [_number_of(member) for member in members(form)] if form.kind in ("set", "list", "number") else [None]
    return None if None in points else _merged([((point, True), (point, True)) for point in points])


def _part_spans(form: Form) -> list[Span] | None:
    spans = _spans(as_interval(form))
    return as_points(form) if spans is None else spans


def _common_spans(form: Form) -> list[Span] | None:
    common: list[Span] = [((None, False), (None, False))]
    for part in form.parts:
        spans = _part_spans(part)
        if spans is None:
            return None
        common = [both for one in common for other in spans if (both := _overlap(one, other)) is not None]
    return common


def _difference_spans(form: Form) -> list[Span] | None:
    whole, taken = _part_spans(form.parts[0]), _part_spans(form.parts[1])
    if whole is None or taken is None:
        return None
    for span in _merged(taken):
        whole = [piece for piece_of in whole for piece in _without(piece_of, span)]
    return whole


def _without(span: Span, taken: Span) -> list[Span]:
    """Return what is left of a span: the part below the one taken away and the part above it."""
    (low, low_closed), (high, high_closed) = taken
    rests: list[Span] = []
    if low is not None:
        rests.append(((None, False), (low, not low_closed)))
    if high is not None:
        rests.append(((high, not high_closed), (None, False)))
    return [left for rest in rests if (left := _overlap(span, rest)) is not None]


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
        return (None, any(end == (None, True) for end in (one, other)))
    return max(one, other, key=lambda end: (end[0] or Decimal(0), end[1]))


def same_sets(gold: list[Span], answer: list[Span]) -> bool:
    """Return whether two sets have the same spans, their ends equal to 40 digits."""
    if len(gold) != len(answer):
        return False
    return all(
        _same_end(a, b) for one, other in zip(gold, answer, strict=True) for a, b in zip(one, other, strict=True)
    )


def _same_end(gold: End, answer: End) -> bool:
    if gold[0] is None or answer[0] is None:
        # A gold that closes infinity in is careless; an answer that does so for an open one is wrong.
        return gold[0] is answer[0] and (gold[1] or not answer[1])
    close = abs(gold[0] - answer[0]) <= max(abs(gold[0]), abs(answer[0])) * Decimal(10) ** -40
    return close and gold[1] == answer[1]
