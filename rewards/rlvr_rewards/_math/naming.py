"""Values that come with names: assignments, coordinates, numbered roots."""

import re
from dataclasses import replace

from rlvr_rewards._math import forms
from rlvr_rewards._math.form import Form
from rlvr_rewards._math.labels import is_label, label_text

# A point with its letter.
_POINT = re.compile(r"[A-Z]'?\s*(?P<coordinates>\(.+\))")


def values(form: Form) -> tuple[Form, ...]:
    """Return the value that an equation ends in; behind a sign of approximation also the value before it."""
    rounded = form.marks[-1] == "\\approx" and not (len(form.parts) == 2 and is_label(form.parts[0]))
    return (form.parts[-2], form.parts[-1]) if rounded else (form.parts[-1],)


def assignment(form: Form) -> tuple[str, tuple[Form, ...]] | None:
    """Return the name and the values of `x = ..`, in either order, or None."""
    if form.kind != "equation":
        return None
    first, last = form.parts[0], form.parts[-1]
    if is_label(first):
        return label_text(first), values(form)
    return (label_text(last), (first,)) if is_label(last) and len(form.parts) == 2 else None


def coordinates(form: Form, other: Form) -> Form:
    """Return a tuple for what gives coordinates beside another: `x = 2, y = 3`, `A(2, 3)`, a matrix of one column.

    Values with names stand in the order of a tuple when the names do in the alphabet's.
    """
    if form.kind == "raw" and other.kind == "tuple" and (point := _POINT.fullmatch(form.text)):
        return forms.read_clean(point["coordinates"])
    if form.kind == "matrix" and other.kind == "tuple" and form.marks == (str(len(form.parts)),):
        return Form("tuple", form.text, form.parts, marks=other.marks)
    if form.kind != "list" or other.kind != "tuple" or len(form.parts) != len(other.parts):
        return form
    given = [assignment(part) for part in form.parts]
    names = [part[0] for part in given if part is not None]
    if len(names) < len(form.parts) or any(len(name) != 1 for name in names) or names != sorted(set(names)):
        return form
    return Form("tuple", form.text, tuple(part[1][-1] for part in given if part is not None), marks=other.marks)


def without_numbering(forms: tuple[Form, ...], others: tuple[Form, ...]) -> tuple[Form, ...]:
    """Return `x_1 = 2, x_2 = 3` as two values of x, where the other side writes them so."""
    names, wanted = ([given[0] if (given := assignment(form)) else "" for form in side] for side in (forms, others))
    letter = names[0].partition("_")[0] if len(names) > 1 else ""
    numbered = [f"{letter}_{place}" for place in range(1, len(names) + 1)]
    if not letter or names != numbered or set(wanted) != {letter}:
        return forms
    return tuple(replace(form, parts=(replace(form.parts[0], text=letter), *form.parts[1:])) for form in forms)


def by_name(gold: tuple[Form, ...], answer: tuple[Form, ...]) -> list[tuple[Form, Form]] | None:
    """Return the members in pairs where one side names unknowns, as `a = 1, b = 2`, and the other gives bare values.

    Bare values then stand in the order of the names. None where both sides have names, or neither has several.
    """
    named, bare = (gold, answer) if any(form.kind == "equation" for form in gold) else (answer, gold)
    letters = [given[0].partition("_")[0] for form in named if (given := assignment(form)) is not None]
    if len(letters) < len(named) or len(set(letters)) < 2 or any(form.kind in ("equation", "set") for form in bare):
        return None
    return list(zip(gold, answer, strict=False))


def is_set(form: Form) -> bool:
    """Return whether an answer is a set in braces, or the empty one."""
    return form.kind == "set" or (form.kind == "word" and form.text == "no solution")
