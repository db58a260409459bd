"""Limits of a config as data: what no real config exceeds, refused before anything reads it."""

import math
from collections.abc import Mapping
from typing import Any

from grpo_rlvr.errors import InputError

# The longest real recipes hold about 90 keys, GRPOConfig itself about 230 fields.
MAX_KEYS = 1_000
# model_init_kwargs -> quantization_config -> a list is four; nothing real is deeper than six.
MAX_DEPTH = 32
# Nothing in a config is larger than a 64-bit step count; larger integers only break readers.
MAX_INTEGER = 2**63
MAX_VALUES = 20_000
MAX_STRING = 100_000

REMEDY = "Give one object that maps GRPOConfig keyword arguments to plain values."


def shown(value: Any, limit: int = 60) -> str:
    """Return a short `repr` of any value, never longer than `limit` characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def checked_mapping(value: Any, where: str) -> dict[str, Any]:
    """Return `value` as a dict of plain data within the limits.

    Raises:
        InputError: not an object, too many keys, too deep, NaN or infinite, an integer over 64 bits, a key that is not
            a string, or a value that is no plain data.
    """
    if not isinstance(value, Mapping):
        kind = {"list": "a list", "str": "a text", "NoneType": "empty"}.get(type(value).__name__, type(value).__name__)
        raise InputError(f"a config must be an object, got {kind} ({shown(value)})", where=where, remedy=REMEDY)
    if len(value) > MAX_KEYS:
        raise InputError(
            f"a config of {len(value):,} keys; the limit is {MAX_KEYS:,} (GRPOConfig has about 230 fields)",
            where=where,
            remedy=REMEDY,
        )
    _walk(value, where)
    return dict(value)


def _walk(root: Mapping[Any, Any], where: str) -> None:
    # An explicit stack: a value nested thousands deep must not exhaust ours.
    stack: list[tuple[Any, str, int]] = [(root, "", 0)]
    seen = 0
    while stack:
        value, path, depth = stack.pop()
        seen += 1
        if depth > MAX_DEPTH or seen > MAX_VALUES:
            what = f"nested deeper than {MAX_DEPTH} levels" if depth > MAX_DEPTH else f"over {MAX_VALUES:,} values"
            raise InputError(f"'{path[:60]}' is {what}", where=where, remedy=REMEDY)
        if isinstance(value, Mapping):
            for key, item in value.items():
                if not isinstance(key, str):
                    raise InputError(f"key {shown(key)} is not a text", where=where, remedy="Quote it.")
                stack.append((item, f"{path}.{key}" if path else key, depth + 1))
        elif isinstance(value, list | tuple):
            stack.extend((item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value))
        else:
            _check_scalar(value, path, where)


def _check_scalar(value: Any, path: str, where: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        if abs(value) > MAX_INTEGER:
            raise InputError(f"'{path}' is an integer of {value.bit_length()} bits", where=where, remedy="Lower it.")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(
                f"'{path}' is {value}, which JSON cannot hold and no option needs",
                where=where,
                remedy="Write a finite number, or leave the option out.",
            )
    elif isinstance(value, str):
        if len(value) > MAX_STRING:
            raise InputError(f"'{path}' is a text of {len(value):,} characters", where=where, remedy="Shorten it.")
    else:
        raise InputError(f"'{path}' is a {type(value).__name__}, not plain data", where=where, remedy=REMEDY)
