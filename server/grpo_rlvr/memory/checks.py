"""Reading one number or flag from a config or a setup: what cannot be right raises one clear error."""

import math
from typing import Any

from grpo_rlvr.errors import InputError


def number(
    value: Any, where: str, *, minimum: float | None = None, maximum: float | None = None, exclusive: bool = False
) -> float:
    """Return a finite number within its range.

    Raises:
        InputError: a string, a boolean, NaN, infinity, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        hint = " Write it without quotes." if isinstance(value, str) else ""
        raise InputError(f"must be a number, got {_show(value)}", where=where, remedy=f"Give a number.{hint}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"must be a finite number, got {value}", where=where, remedy="Give a number.")
    if minimum is not None and (value <= minimum if exclusive else value < minimum):
        bound = f"above {minimum:g}" if exclusive else f"at least {minimum:g}"
        raise InputError(f"must be {bound}, got {_show(value)}", where=where, remedy="Correct the value.")
    if maximum is not None and value > maximum:
        raise InputError(f"must be at most {maximum:g}, got {_show(value)}", where=where, remedy="Correct the value.")
    return float(value)


def integer(value: Any, where: str, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """Return a whole number within its range (8.0 is one).

    Raises:
        InputError: not a whole number or out of range.
    """
    result = number(value, where, minimum=minimum, maximum=maximum)
    if result != int(result):
        raise InputError(f"must be a whole number, got {value}", where=where, remedy="Correct the value.")
    return int(value)


def flag(value: Any, where: str) -> bool:
    """Return a boolean.

    Raises:
        InputError: anything else, also the strings 'true' and 'false'.
    """
    if not isinstance(value, bool):
        raise InputError(f"must be true or false, got {_show(value)}", where=where, remedy="Write it without quotes.")
    return value


def choice(value: Any, where: str, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words.

    Raises:
        InputError: anything else.
    """
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"must be one of {', '.join(allowed)}, got {_show(value)}", where=where, remedy="Correct it.")
    return value


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
