"""Reading JSON that a model wrote: strict, bounded, one kind of failure."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

# A document longer than this is degenerate output; parsing it would hold up the batch.
MAX_CHARACTERS = 1_000_000
# Deeper nesting meets the interpreter's recursion limit in parsers and validators.
MAX_NESTING = 100
# One closed or unclosed string, or one bracket. A string that never closes runs to the end, so the scan stays linear.
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)


class JsonProblem(ValueError):
    """Text that is not the JSON that was asked for; `limit` says that it is too large or too deep."""

    def __init__(self, message: str, *, limit: bool = False) -> None:
        super().__init__(message)
        self.limit = limit


def loads(text: str, *, duplicate_keys: bool = False, finite: bool = True) -> Any:
    """Parse one JSON document.

    Args:
        text: The document; whitespace around it is allowed.
        duplicate_keys: Accept repeated keys in one object (the last one counts).
        finite: Refuse NaN, Infinity and numbers beyond a finite double.

    Raises:
        JsonProblem: The text is anything else, too long, or too deep.
    """
    check_size(text)
    try:
        return _decoder(duplicate_keys, finite).decode(text)
    except JsonProblem:
        raise
    except (ValueError, RecursionError, OverflowError) as error:
        raise JsonProblem(f"not JSON: {str(error)[:200]}") from None


def raw_decode(text: str, start: int) -> tuple[Any, int]:
    """Parse the JSON value that begins at `start`, strictly, and return it with the position after it.

    Raises:
        JsonProblem: There is none.
    """
    try:
        return _decoder(False, True).raw_decode(text, start)
    except JsonProblem:
        raise
    except (ValueError, RecursionError, OverflowError) as error:
        raise JsonProblem(f"not JSON: {str(error)[:200]}") from None


def check_size(text: str) -> None:
    """Refuse text beyond the stated limits.

    Raises:
        JsonProblem: It is too long or nested too deep.
    """
    if len(text) > MAX_CHARACTERS:
        raise JsonProblem(f"longer than {MAX_CHARACTERS} characters", limit=True)
    # A depth above the limit needs more brackets than that; most documents are spared the scan.
    if text.count("[") + text.count("{") > MAX_NESTING and depth(text) > MAX_NESTING:
        raise JsonProblem(f"nested deeper than {MAX_NESTING}", limit=True)


def depth(text: str) -> int:
    """Return the deepest nesting of brackets outside strings."""
    deepest = level = 0
    for match in _BRACKETS.finditer(text):
        mark = match[0]
        if mark in "[{":
            level += 1
            deepest = max(deepest, level)
        elif mark in "]}":
            level -= 1
    return deepest


def canonical(value: Any) -> Any:
    """Return a hashable form that is equal exactly when two JSON values are equal: 1 = 1.0, 1 is not true."""
    if isinstance(value, bool) or value is None:
        return ("literal", value)
    if isinstance(value, float):
        return ("number", int(value) if value.is_integer() else value)
    if isinstance(value, int):
        return ("number", value)
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, Mapping):
        return ("object", frozenset((key, canonical(entry)) for key, entry in value.items()))
    return ("array", tuple(canonical(entry) for entry in value))


def column_value(value: Any) -> Any:
    """Return a data set column's value: parsed when it is JSON text, since Arrow fills missing keys of structs.

    Raises:
        JsonProblem: The text is not JSON.
    """
    return loads(value) if isinstance(value, str) else value


def _decoder(duplicate_keys: bool, finite: bool) -> json.JSONDecoder:
    return _DECODERS[duplicate_keys, finite]


def _no_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise JsonProblem(f"the key {next(name for name in names if names.count(name) > 1)!r} is repeated")
    return found


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise JsonProblem(f"the number {text[:40]} is beyond a finite double")
    return number


def _finite_int(text: str) -> int:
    # A double ends at 309 digits; longer text is not even converted, which would cost quadratic time.
    if len(text) > 310:
        raise JsonProblem(f"a number of {len(text)} digits is beyond a finite double")
    number = int(text)
    try:
        float(number)
    except OverflowError:
        raise JsonProblem("a number is beyond a finite double") from None
    return number


def _no_constant(text: str) -> Any:
    raise JsonProblem(f"{text} is not JSON")


def _make_decoder(duplicate_keys: bool, finite: bool) -> json.JSONDecoder:
    pairs = None if duplicate_keys else _no_duplicates
    if not finite:
        return json.JSONDecoder(object_pairs_hook=pairs)
    return json.JSONDecoder(
        object_pairs_hook=pairs, parse_float=_finite_float, parse_int=_finite_int, parse_constant=_no_constant
    )


_DECODERS = {(repeats, finite): _make_decoder(repeats, finite) for repeats in (False, True) for finite in (False, True)}
