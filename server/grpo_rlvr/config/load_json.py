"""JSON configs: strict, with the line of every key."""

import json
import re
from typing import Any

from grpo_rlvr.config.load_limits import MAX_DEPTH, MAX_KEYS
from grpo_rlvr.errors import InputError

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[{}\[\],:]|\n')


def parse_json(text: str, name: str) -> tuple[Any, dict[str, int]]:
    """Return the parsed value and the 1-based line of every key as a dotted path.

    Raises:
        InputError: not JSON, a duplicate key, NaN or infinity, an integer of thousands of digits, too deep.
    """
    lines = _key_lines(text, name)
    try:
        value = json.loads(
            text,
            object_pairs_hook=lambda pairs: _object(pairs, name, lines),
            parse_constant=lambda constant: _refuse_constant(constant, name),
        )
    except json.JSONDecodeError as error:
        raise InputError(
            f"not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            where=name,
            remedy="Mend it there; JSON knows no comments, no trailing commas and no single quotes.",
        ) from None
    except RecursionError:
        raise InputError(f"nested deeper than {MAX_DEPTH} levels", where=name, remedy="Flatten it.") from None
    except ValueError as error:
        # Python refuses to convert integers of more than 4,300 digits.
        raise InputError(f"a number that is too long: {error}", where=name, remedy="Write a real value.") from None
    return value, lines


def _object(pairs: list[tuple[str, Any]], name: str, lines: dict[str, int]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise InputError(
            f"an object of {len(pairs):,} keys; the limit is {MAX_KEYS:,}",
            where=name,
            remedy="A config holds GRPOConfig keyword arguments only (about 230 fields exist).",
        )
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        place = f" (last at line {lines[twice]})" if twice in lines else ""
        raise InputError(
            f"key '{twice}' occurs twice{place}; readers disagree on which value counts",
            where=name,
            remedy="Keep one of them.",
        )
    return result


def _refuse_constant(constant: str, name: str) -> Any:
    raise InputError(f"{constant} is no JSON value", where=name, remedy="Write a finite number, or leave it out.")


def _key_lines(text: str, name: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    line, last = 1, ""
    path: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == "\n":
            line += 1
        elif token in "{[":
            path.append(last)
            last = ""
            if len(path) > MAX_DEPTH:
                raise InputError(
                    f"nested deeper than {MAX_DEPTH} levels at line {line}",
                    where=name,
                    remedy="A config is one object with few levels.",
                )
        elif token in "}]":
            if path:
                path.pop()
        elif token == ":":
            lines[".".join([*path[1:], last])] = line
        elif token != ",":
            last = token[1:-1]
    return lines
