"""The expected answer of a data set's column, which may be text, a number, a worked solution or a list of one."""

import ast
import json
import math
import numbers
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from rlvr_rewards._math.extract import extract
from rlvr_rewards._math.limits import MAX_CHARACTERS

# The text of a list of texts. Mathematics has no quotation marks, so this is how a data set stores several answers.
_QUOTED_LIST = re.compile(r"\[\s*([\"']).*\1\s*,?\s*\]", re.DOTALL)


def gold_text(value: Any) -> str | None:
    """Return the gold of a column as text: the last box or what follows `####` of a worked solution, else the whole.

    A list of one answer, or the text of such a list, is that answer.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real | Decimal):
        return number_text(value)
    answers = listed(value)
    if answers is not None:
        return gold_text(answers[0]) if len(answers) == 1 and listed(answers[0]) is None else None
    if not isinstance(value, str):
        return None
    if "####" in value:
        return value.rpartition("####")[2].strip()
    if "\\boxed" in value or "\\fbox" in value:
        found = extract(value, stop=(), boxes=("\\boxed", "\\fbox"), boxes_only=True, keep_thinking=True)
        return found.text
    return value.strip()


def listed(value: Any) -> Sequence[Any] | None:
    """Return the answers of a column that holds a list of them, also as text, or None when it holds something else."""
    if isinstance(value, list | tuple):
        return value
    if not isinstance(value, str) or len(value) > MAX_CHARACTERS or not _QUOTED_LIST.fullmatch(value.strip()):
        return None
    for reader in (json.loads, ast.literal_eval):
        try:
            found = reader(value.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, list) and all(isinstance(answer, str) for answer in found):
            return found
    return None


def no_text(value: Any) -> str:
    """Return why a column's value is no gold."""
    answers = listed(value)
    if answers is None:
        return f"the gold is {type(value).__name__}, not text or a number"
    return (
        f"the gold is a list of {len(answers)} answers, which may all be expected or each be enough; write what is "
        "expected as one text, such as '1, 2'"
    )


def number_text(value: numbers.Real | Decimal) -> str | None:
    """Return a number of a column, also one of numpy or a Decimal, as text; None when it is not finite."""
    if not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Fraction | Decimal) else repr(float(value))
