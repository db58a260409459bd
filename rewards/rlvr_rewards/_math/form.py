"""An answer by kind, as the readers make it and the comparison takes it."""

from dataclasses import dataclass, field

from rlvr_rewards._math import terms


@dataclass(frozen=True, slots=True)
class Form:
    """An answer by kind. Which fields count depends on the kind.

    Attributes:
        kind: word, number, compound, list, set, tuple, interval, union, intersection, difference, equation, relation,
            congruence, ratio, division, time, family, matrix, cases, case, raw.
        text: The normalised source.
        parts: Members, ends, sides or cells.
        node: The tree of an expression.
        unit: The unit behind it, "" for none.
        base: The number base written as a subscript, 0 for none.
        marks: Brackets of a tuple or interval, signs of a relation or equation, rows of a matrix, words of a list,
            name and set of a family.
    """

    kind: str
    text: str
    parts: tuple["Form", ...] = ()
    node: terms.Node | None = None
    unit: str = ""
    base: int = 0
    marks: tuple[str, ...] = field(default=())


def members(form: Form) -> tuple[Form, ...]:
    """Return the members of a list, set, or union or intersection of such; a single value is its own member."""
    if form.kind in ("list", "set", "cases"):
        return form.parts
    if form.kind == "union":
        return tuple(inner for part in form.parts for inner in members(part))
    if form.kind == "intersection":
        return form.parts
    return (form,)


def names(form: Form) -> set[str]:
    """Return the variables of all formulas of an answer."""
    own = terms.variables(form.node) if form.node is not None else set()
    return own.union(*map(names, form.parts))
