"""Comparing two answers by the kind of the expected one."""

import re
import string
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from rlvr_rewards._math import equal, tree
from rlvr_rewards._math.forms import WORDS, Form, members
from rlvr_rewards._math.limits import MAX_COMPARISONS, MAX_LEVELS, NotUnderstood, TooLarge
from rlvr_rewards._math.spans import FLIPPED, as_interval, as_set, same_sets


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


class _Work(threading.local):
    """How many comparisons this thread may still make for the answer at hand."""

    left = 0


_work = _Work()


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
            return _chain_holds(one, policy) and same_pair(one.parts[-1], other, one is gold, policy)
    if gold.kind == "equation" or answer.kind == "equation":
        return _equations(gold, answer, policy)
    if gold.kind != answer.kind and "tuple" in (gold.kind, answer.kind):
        # Beside an inequality or another set of numbers, two ends in brackets are an interval.
        gold, answer = as_interval(gold), as_interval(answer)
    if gold.kind == answer.kind == "relation" and _names(gold) != _names(answer):
        return False
    if (ends := as_set(gold)) is not None and (others := as_set(answer)) is not None:
        return same_sets(ends, others)
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
    covered = all(_any(((a, b) for b in theirs), policy) for a in ours)
    return covered and all(_any(((a, b) for a in ours), policy) for b in theirs)


def _any(pairs: Iterable[tuple[Form, Form]], policy: Policy) -> bool:
    """Return whether some pair is the same; a pair that is undecided matters only when no other one is."""
    undecided = False
    for gold, answer in pairs:
        try:
            if same(gold, answer, policy):
                return True
        except Undecided:
            undecided = True
    if undecided:
        raise Undecided
    return False


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
    _work.left = MAX_COMPARISONS
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


def _relations(gold: Form, answer: Form, policy: Policy) -> bool:
    """Compare inequalities side by side, also read from right to left."""
    if len(gold.parts) != len(answer.parts):
        return False
    for parts, signs in ((answer.parts, answer.marks), (answer.parts[::-1], tuple(map(_flip, answer.marks[::-1])))):
        if signs == gold.marks and all(same(a, b, policy) for a, b in zip(gold.parts, parts, strict=True)):
            return True
    return False


def _names(form: Form) -> set[str]:
    """Return the variables of an inequality."""
    return set().union(*(tree.variables(part.node) for part in form.parts if part.node is not None))


def _flip(sign: str) -> str:
    return FLIPPED.get(sign, sign)


# -- what this reader does not know -----------------------------------------------------------------------------------

_ALPHABET = frozenset(string.ascii_letters)
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
    if not (_FORMULA.fullmatch(gold.text) and _FORMULA.fullmatch(answer.text)):
        return False
    ours, theirs = _letters(gold.text), _letters(answer.text)
    bound = {letter for match in _BOUND.finditer(answer.text) for letter in match.groups() if letter}
    # A formula in other unknowns is another formula; so is one that lacks all of the gold's.
    if theirs - ours - bound or (ours and not ours & theirs):
        return False
    if _HEAVY.search(answer.text) or answer.text.count("!") > 2:
        raise TooLarge("numbers in a formula that is not worked out")
    raise Undecided


# The letters that a sum, product, limit or integral binds.
_BOUND = re.compile(r"\\(?:sum|prod|lim)\s*_\s*\{?\s*([A-Za-z])|d\s*([A-Za-z])(?![A-Za-z])")
# Numbers from 100,000, exponents from 100 and towers of powers: summing or expanding these takes for ever.
_HEAVY = re.compile(r"\d{6,}|\^\s*\{?\s*\d{3,}|\^\s*\{[^{}]*\^|10\s*\^\s*\{?\s*[5-9]")


def _letters(text: str) -> set[str]:
    """Return the letters that a formula uses as names."""
    return set(re.sub(r"\\[A-Za-z]+", " ", text)) & _ALPHABET - {"e", "i", "d"}


def _open_ended(gold: Form) -> bool:
    """Return whether a gold is more than numbers: only then may a formula that is not worked out be the answer."""
    if gold.kind == "equation":
        return any(_open_ended(part) for part in gold.parts)
    return gold.kind == "raw" or (gold.node is not None and bool(tree.variables(gold.node)))


def squeezed(text: str) -> str:
    """Return the text without spaces, except those that part letters or digits."""
    return re.sub(r"(?<![A-Za-z0-9])\s+|\s+(?![A-Za-z0-9])", "", text)
