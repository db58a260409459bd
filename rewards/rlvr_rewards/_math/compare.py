"""Comparing two answers by the kind of the expected one."""

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from rlvr_rewards._math import arbitrary, cardinals, counting, equal, figures, naming, terms, unread, zeros
from rlvr_rewards._math.form import Form, members, names
from rlvr_rewards._math.labels import is_label, same_label
from rlvr_rewards._math.limits import MAX_COMPARISONS, MAX_LEVELS, NotUnderstood, TooLarge
from rlvr_rewards._math.quantities import in_unit
from rlvr_rewards._math.spans import as_interval, as_points, as_set, same_sets
from rlvr_rewards._math.unread import Undecided


@dataclass(frozen=True, slots=True)
class Policy:
    """What the comparison takes as given.

    Attributes:
        rel_tol: Relative tolerance of numbers that are not whole.
        strict_units: A unit in the gold must agree.
    """

    rel_tol: Fraction
    strict_units: bool = True


_COLLECTIONS = frozenset(("list", "set", "union", "intersection"))


class _Work(threading.local):
    """How many comparisons this thread may still make for the answer at hand."""

    left = 0


_work = _Work()
# A function of a variable, or a sequence with its index.
# Capitals in the brackets are events or points, not variables that could have another letter.
_DEFINITION = re.compile(r"(?P<f>[A-Za-z]'?)\s*(?:\(\s*(?P<x>[a-z])\s*\)|_\s*\{?\s*(?P<n>[a-z])\s*\}?)")
# Operations that are the task itself where the answer is a number; unlike powers, fractions and factorials they are
# no way to write a number.
_TASKS = frozenset(("gcd", "lcm", "max", "min", "floor", "ceil"))
_DECIMAL = re.compile(r"-?\d*\.?(\d*)")
_COMMA = re.compile(r"(-?\d+),(\d+)")


def same_answer(gold: Form, answer: Form, policy: Policy) -> bool:
    """Return whether an answer is the expected one.

    Raises:
        Undecided: The pair needs the symbolic worker.
        TooLarge: One side is beyond the stated limits.
    """
    for form in (gold, answer):
        if _levels(form) > MAX_LEVELS:
            raise TooLarge("lists in lists")
    _work.left = MAX_COMPARISONS
    return same(gold, answer, policy)


def _levels(form: Form) -> int:
    return 1 + max(map(_levels, form.parts)) if form.parts else 0


def same(gold: Form, answer: Form, policy: Policy) -> bool:
    """Compare two answers, or parts of them, within the comparisons that are left."""
    _work.left -= 1
    if _work.left < 0:
        raise TooLarge("comparisons")
    if gold.text == answer.text and gold.kind == answer.kind and gold.kind != "equation":
        return True
    for one, other in ((gold, answer), (answer, gold)):
        if one.kind == "equation" and _is_chain(one):
            return _chain_holds(one, policy) and any(
                same_pair(value, other, one is gold, policy) for value in naming.values(one)
            )
    if "family" in (gold.kind, answer.kind):
        return _families(gold, answer, policy)
    gold, answer = naming.coordinates(gold, answer), naming.coordinates(answer, gold)
    if gold.kind == "equation" or answer.kind == "equation":
        return _equations(gold, answer, policy)
    if gold.kind != answer.kind and "tuple" in (gold.kind, answer.kind):
        # Beside an inequality or another set of numbers, two ends in brackets are an interval.
        gold, answer = as_interval(gold), as_interval(answer)
    if {gold.kind, answer.kind} <= {"relation", "union"} and names(gold) and names(answer) - names(gold):
        return False
    if "intersection" in (gold.kind, answer.kind) and gold.kind != "intersection":
        # A set that is still to be worked out restates the question.
        return False
    if (ends := as_set(gold)) is not None and (others := as_set(answer)) is not None:
        return same_sets(ends, others) and not (names(gold) and names(answer) - names(gold))
    if gold.kind in ("intersection", "difference") and (ends := as_set(gold)) is not None:
        return (points := as_points(answer)) is not None and same_sets(ends, points)
    return _by_kind(gold, answer, policy)


def _families(gold: Form, answer: Form, policy: Policy) -> bool:
    """Compare formulas that hold for every whole number k, whatever its letter; one side may leave that unsaid."""
    sets = {form.marks[1] for form in (gold, answer) if form.kind == "family" and form.marks[1]}
    ours, theirs = (form.parts[0] if form.kind == "family" else form for form in (gold, answer))
    if len(sets) > 1 or (gold.kind != answer.kind and _narrows(gold if gold.kind == "family" else answer)):
        return False
    if gold.kind == answer.kind:
        mine, other = gold.marks[0], answer.marks[0]
        if mine != other and mine in names(theirs):
            return False
        theirs = _renamed(theirs, other, mine)
    return same(ours, theirs, policy)


def _narrows(family: Form) -> bool:
    """Return whether the set behind a condition leaves fewer values: `1 < x < 5, x \\in \\mathbb{Z}`."""
    main, (name, numbers) = family.parts[0], family.marks
    condition = main.kind in ("relation", "union") or (main.kind == "equation" and "\\in" in main.marks)
    return numbers not in ("", "\\mathbb{R}") and condition and name in names(main)


def _renamed(form: Form, old: str, new: str) -> Form:
    if old == new:
        return form
    node = None if form.node is None else terms.renamed(form.node, old, new)
    return replace(form, node=node, parts=tuple(_renamed(part, old, new) for part in form.parts), text=f"{form.text} ")


def same_pair(one: Form, other: Form, one_is_gold: bool, policy: Policy) -> bool:
    """Compare with the sides in their places."""
    return same(one, other, policy) if one_is_gold else same(other, one, policy)


def _by_kind(gold: Form, answer: Form, policy: Policy) -> bool:
    if "word" in (gold.kind, answer.kind) and unread.same_words(gold, answer):
        return True
    if figures.same_figure(gold, answer):
        return True
    gold, answer = cardinals.spelled_out(gold, answer), cardinals.spelled_out(answer, gold)
    gold, answer = counting.counted(gold, answer), counting.counted(answer, gold)
    answer = _with_decimal_comma(gold, answer)
    if gold.kind in ("list", "set") or answer.kind in ("list", "set"):
        return _collections(gold, answer, policy)
    if "word" in (gold.kind, answer.kind):
        return False
    if gold.kind == answer.kind and gold.kind in ("compound", "division"):
        return _pairwise(gold, answer, policy)
    if {gold.kind, answer.kind} <= {"tuple", "interval", "matrix"}:
        shape = gold.kind == answer.kind and gold.marks == answer.marks and len(gold.parts) == len(answer.parts)
        return shape and all(same(a, b, policy) for a, b in zip(gold.parts, answer.parts, strict=True))
    if gold.kind == answer.kind == "number":
        return _numbers(gold, answer, policy)
    if gold.kind == answer.kind == "relation":
        return _relations(gold, answer, policy)
    if gold.kind == answer.kind and gold.kind in ("union", "intersection", "difference"):
        return (_pairwise if gold.kind == "difference" else _collections)(gold, answer, policy)
    if "time" in (gold.kind, answer.kind):
        clock = all(form.kind == "time" or form.marks == ("clock",) for form in (gold, answer))
        return clock and _pairwise(gold, answer, policy)
    if "ratio" in (gold.kind, answer.kind):
        return {gold.kind, answer.kind} <= {"ratio", "number"} and _ratios(gold, answer, policy)
    if gold.kind == answer.kind == "congruence":
        return _congruences(gold, answer, policy)
    if gold.kind == answer.kind == "cases":
        return _collections(gold, answer, policy)
    if gold.kind == answer.kind == "case":
        return _pairwise(gold, answer, policy)
    if "raw" in (gold.kind, answer.kind):
        return unread.same(gold, answer)
    return False


def _with_decimal_comma(gold: Form, answer: Form) -> Form:
    """Return `2,5` as a decimal beside one number that is not whole, which no list of two whole numbers could be."""
    if gold.kind != "number" or answer.kind != "list" or (match := _COMMA.fullmatch(answer.text)) is None:
        return answer
    value = None if gold.node is None or gold.unit else equal.rational(gold.node)
    if value is None or value.denominator == 1:
        return answer
    text = f"{match[1]}.{match[2]}"
    return Form("number", text, node=terms.number(Fraction(text), decimal=True))


def _ratios(gold: Form, answer: Form, policy: Policy) -> bool:
    """Compare a ratio with another, term by term or up to a factor, or with its quotient."""
    ours, theirs = ([part.node for part in form.parts] or [form.node] for form in (gold, answer))
    if any(node is None for node in (*ours, *theirs)):
        return gold.kind == answer.kind and _pairwise(gold, answer, policy)
    if gold.kind != answer.kind:
        ratio, plain = (ours, theirs) if gold.kind == "ratio" else (theirs, ours)
        return len(ratio) == 2 and _same_nodes(_quotient(*ratio), plain[0], policy)
    if gold.marks or answer.marks:
        return gold.marks == answer.marks and _pairwise(gold, answer, policy)
    pairs = zip(pairwise(ours), pairwise(theirs), strict=True) if len(ours) == len(theirs) else [((None, None),) * 2]
    return all(_same_nodes(_quotient(*one), _quotient(*other), policy) for one, other in pairs)


def _quotient(top: terms.Node | None, bottom: terms.Node | None) -> terms.Node | None:
    return terms.Node("divide", (top, bottom)) if top is not None and bottom is not None else None


def _same_nodes(gold: terms.Node | None, answer: terms.Node | None, policy: Policy) -> bool:
    return gold is not None and answer is not None and equal.same(gold, answer, policy.rel_tol)


def _congruences(gold: Form, answer: Form, policy: Policy) -> bool:
    """Compare `a = b (mod m)` with another: same left side and modulus, right sides that differ by a multiple of it.

    One of them may leave out the left side.
    """
    (*left, right, modulus), (*other_left, other_right, other_modulus) = gold.parts, answer.parts
    if not all(same(mine, other, policy) for mine, other in zip(left, other_left, strict=False)):
        return False
    if not same(modulus, other_modulus, policy):
        return False
    nodes = [part.node for part in (right, other_right, modulus)]
    values = [equal.rational(node) for node in nodes if node is not None]
    if len(values) < 3 or None in values:
        return same(right, other_right, policy)
    ours, theirs, step = (value or Fraction(0) for value in values)
    return step != 0 and ((ours - theirs) / step).denominator == 1


def _pairwise(gold: Form, answer: Form, policy: Policy) -> bool:
    alike = len(gold.parts) == len(answer.parts)
    return alike and all(same(a, b, policy) for a, b in zip(gold.parts, answer.parts, strict=True))


def _numbers(gold: Form, answer: Form, policy: Policy) -> bool:
    answer = in_unit(answer, gold.unit) if gold.unit else answer
    if gold.node is None or answer.node is None:
        return False
    if gold.base != answer.base and not (gold.base == 0 and answer.base == 10):
        return False
    if gold.unit and policy.strict_units and gold.unit != answer.unit:
        return False
    free = terms.variables(gold.node)
    if free and answer.unit and not gold.unit:
        return False
    if not free and (terms.operations(answer.node) - terms.operations(gold.node)) & _TASKS:
        return False
    if gold.node == answer.node:
        # Also where the number is too large to be worked out.
        return True
    try:
        return equal.same(gold.node, answer.node, policy.rel_tol) or arbitrary.same(gold.node, answer.node)
    except NotUnderstood:
        if free or terms.variables(answer.node):
            raise Undecided from None
        return False  # numbers of which one has no value, such as 0^0


def _collections(gold: Form, answer: Form, policy: Policy) -> bool:
    if gold.kind != answer.kind and (_is_of_names(gold) or _is_of_names(answer)):
        return False
    mine, other = members(gold), members(answer)
    ours, theirs = naming.without_numbering(mine, other), naming.without_numbering(other, mine)
    if (in_order := naming.by_name(ours, theirs)) is not None:
        return len(ours) == len(theirs) and all(same(a, b, policy) for a, b in in_order)
    if any(map(naming.is_set, (*ours, *theirs))) and not {gold.kind, answer.kind} <= _COLLECTIONS:
        # A set that holds a set is neither that set nor what is in it.
        return False
    # A list of guesses is not the one answer; a repeated answer is.
    covered = all(_any(((a, b) for b in theirs), policy) for a in ours)
    return covered and all(_any(((a, b) for a in ours), policy) for b in theirs)


def _is_of_names(form: Form) -> bool:
    """Return whether a union or intersection is of sets that only have names, so that no list is the same."""
    return form.kind in ("union", "intersection") and any(part.kind in ("number", "word", "raw") for part in form.parts)


def _any(pairs: Iterable[tuple[Form, Form]], policy: Policy) -> bool:
    """Return whether some pair is the same; a pair that is undecided matters only when no other one is."""
    undecided = False
    for gold, answer in pairs:
        try:
            if naming.is_set(gold) == naming.is_set(answer) and same(gold, answer, policy):
                return True
        except Undecided:
            undecided = True
    if undecided:
        raise Undecided
    return False


# -- equations --------------------------------------------------------------------------------------------------------


def _is_chain(form: Form) -> bool:
    """Return whether an equation only computes: no side but a first name holds anything unknown."""
    sides = form.parts[1:] if is_label(form.parts[0]) else form.parts
    constant = all(side.node is not None and not terms.variables(side.node) for side in sides)
    return constant and not is_label(form.parts[0])


def chain_is_true(form: Form) -> bool:
    """Return whether an equation that only computes holds; other equations say nothing that could be false."""
    _work.left = MAX_COMPARISONS
    return not _is_chain(form) or _chain_holds(form, Policy(Fraction(1, 10**6)))


def _chain_holds(form: Form, policy: Policy) -> bool:
    first = 1 if is_label(form.parts[0]) or zeros.is_asked(form.parts[0]) else 0
    links = zip(pairwise(form.parts[first:]), form.marks[first:], strict=False)
    return all(
        same(a, b, policy) or same(b, a, policy) or (sign == "\\approx" and _is_rounding(a, b))
        for (a, b), sign in links
    )


def _is_rounding(value: Form, rounded: Form) -> bool:
    """Return whether a decimal is the value up to its own last digit, rounded or cut off."""
    literal = _DECIMAL.fullmatch(rounded.text)
    if literal is None or value.node is None or (exact := equal.constant(value.node)) is None:
        return False
    return abs(exact - Decimal(literal[0])) < Decimal(10) ** -len(literal[1] or "")


def _equations(gold: Form, answer: Form, policy: Policy) -> bool:
    for form in (gold, answer):
        if form.kind == "equation" and len(form.parts) > 2 and not _chain_holds(form, policy):
            return False
    if gold.text == answer.text:
        return True
    left, right = naming.assignment(gold), naming.assignment(answer)
    if gold.kind != "equation":
        values = right[1] if right is not None else zeros.asked_value(gold, answer)
        return any(same(gold, value, policy) for value in values)
    if answer.kind != "equation":
        return left is not None and any(same(value, answer, policy) for value in left[1])
    if left is not None and right is not None and same_label(left[0], right[0]):
        return any(same(value, given, policy) for value in left[1] for given in right[1])
    if left is not None and right is not None and (renamed := _same_argument(gold, answer)) is not None:
        return same(gold.parts[-1], renamed, policy)
    if left is not None and zeros.is_solved(gold):
        # An equation that still has to be solved restates the question.
        return False
    if "\\in" in (*gold.marks, *answer.marks):
        return False
    return zeros.same_equation(gold, answer)


def _same_argument(gold: Form, answer: Form) -> Form | None:
    """Return the answer's formula in the gold's variable when both define the same function, as f(x) and f(t) do."""
    names = [_DEFINITION.fullmatch(form.parts[0].text) for form in (gold, answer)]
    last = answer.parts[-1]
    if names[0] is None or names[1] is None or names[0]["f"] != names[1]["f"] or last.node is None:
        return None
    mine, theirs = (name["x"] or name["n"] for name in (names[0], names[1]))
    if (names[0]["x"] is None) is not (names[1]["x"] is None) or mine in terms.variables(last.node):
        return None
    return replace(last, node=terms.renamed(last.node, theirs, mine), text=f"{last.text} ")


def _relations(gold: Form, answer: Form, policy: Policy) -> bool:
    """Compare inequalities side by side, also read from right to left."""
    if len(gold.parts) != len(answer.parts):
        return False
    for parts, signs in (
        (answer.parts, answer.marks),
        (answer.parts[::-1], tuple(map(zeros.flipped, answer.marks[::-1]))),
    ):
        if signs == gold.marks and all(same(a, b, policy) for a, b in zip(gold.parts, parts, strict=True)):
            return True
    return as_set(gold) is None and zeros.same_inequality(gold, answer)
