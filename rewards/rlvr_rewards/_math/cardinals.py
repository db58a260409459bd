"""Whole numbers written as English words: "zero" to "ninety-nine"."""

import re

from rlvr_rewards._math import terms
from rlvr_rewards._math.form import Form

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_VALUES = {
    **{word: value for value, word in enumerate(_ONES)},
    **{word: 10 * place for place, word in enumerate(_TENS, start=2)},
    **{f"{ten} {one}": 10 * place + value for place, ten in enumerate(_TENS, start=2)
       for value, one in enumerate(_ONES[1:10], start=1)},
}  # fmt: skip


def value(text: str) -> int | None:
    """Return the number that words in small letters name, or None."""
    return _VALUES.get(re.sub(r"[\s-]+", " ", text).strip())


def spelled_out(form: Form, other: Form) -> Form:
    """Return a word as the number that it names, when the other side is a number; else the form itself."""
    if form.kind != "word" or other.kind != "number":
        return form
    named = value(form.text)
    return form if named is None else Form("number", str(named), node=terms.number(named))
