"""Equations and inequalities as a whole: do they say the same, is one solved, what does one answer?"""

from rlvr_rewards._math import equal, terms, unread
from rlvr_rewards._math.form import Form
from rlvr_rewards._math.labels import is_label, label_text
from rlvr_rewards._math.limits import NotUnderstood
from rlvr_rewards._math.spans import FLIPPED
from rlvr_rewards._math.unread import Undecided


def same_equation(gold: Form, answer: Form) -> bool:
    """Return whether one equation of two sides is a nonzero multiple of the other.

    Raises:
        Undecided: The pair needs the symbolic worker.
    """
    sides = [part.node for form in (gold, answer) for part in form.parts]
    if len(sides) != 4 or any(part.unit for form in (gold, answer) for part in form.parts):
        return False
    if any(side is None for side in sides):
        named = [label_text(form.parts[0]) if is_label(form.parts[0]) else "" for form in (gold, answer)]
        return named[0] == named[1] and unread.same(gold, answer)
    zeros = [zero for form in (gold, answer) if (zero := _zero(form)) is not None]
    try:
        return equal.factor(zeros[0], zeros[1]) is not None
    except NotUnderstood:
        raise Undecided from None


def same_inequality(gold: Form, answer: Form) -> bool:
    """Return whether one inequality is the other with terms moved over or both sides times a constant.

    Raises:
        Undecided: The pair needs the symbolic worker.
    """
    zeros = [_zero(form) for form in (gold, answer)]
    if zeros[0] is None or zeros[1] is None or any(part.unit for form in (gold, answer) for part in form.parts):
        return False
    try:
        factor = equal.factor(zeros[0], zeros[1])
    except NotUnderstood:
        raise Undecided from None
    return factor is not None and gold.marks[0] == (answer.marks[0] if factor > 0 else flipped(answer.marks[0]))


def _zero(form: Form) -> terms.Node | None:
    """Return the left side minus the right one, or None when there are more sides or a side is no formula."""
    nodes = [part.node for part in form.parts]
    if len(nodes) != 2 or nodes[0] is None or nodes[1] is None:
        return None
    return terms.Node("add", (nodes[0], terms.Node("negative", (nodes[1],))))


def flipped(sign: str) -> str:
    """Return the sign of a relation read from right to left."""
    return FLIPPED.get(sign, sign)


def asked_value(gold: Form, answer: Form) -> tuple[Form, ...]:
    """Return the number behind `m + n =` for a number that was asked for, else nothing."""
    if gold.node is None or terms.variables(gold.node) or "\\in" in answer.marks:
        return ()
    asked, value = answer.parts[0], answer.parts[-1]
    return (value,) if is_asked(asked) and value.node is not None and not terms.variables(value.node) else ()


def is_asked(form: Form) -> bool:
    """Return whether a side is a combination of unknowns, such as m + n, whose value can be asked for."""
    return form.node is not None and terms.is_combination(form.node) and len(terms.variables(form.node)) > 1


def is_solved(form: Form) -> bool:
    """Return whether an equation gives one variable its value."""
    named = next((part for part in form.parts if part.node is not None and part.node.op == "variable"), None)
    others = [part for part in form.parts if part is not named]
    return named is not None and all(part.node is not None and not terms.variables(part.node) for part in others)
