"""Values as tagged JSON: exact plain builtins in, exact plain builtins out. No pickle, no classes, no code.

`encode` runs beside untrusted programs, so nothing relies on it; `_decode.decode` is the trusted half. Both take a hook
for what only one side can know (objects, functions); without it such values are refused.
"""

import collections
import datetime
import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # imported where they are used: every program would pay for what few of them need
    import decimal

MAX_DEPTH = 100  # well below the recursion limit of both sides
MAX_BYTES = 4 << 20  # of one frame; a trainer must not hold what a program floods it with

Node = Any
_SAFE_INT = 2**53


class Unsupported(Exception):
    """The value is no plain data."""


Export = Callable[[Any, int], Node]


def refuse_object(value: Any, _depth: int) -> Node:
    """Refuse what is not plain data."""
    raise Unsupported(f"a value of type {type(value).__name__}")


def encode(value: Any, export: Export = refuse_object, depth: int = 0) -> Node:
    """Return the JSON form of a value.

    Args:
        value: Any value; exact builtins cross as they are, all else goes to `export`.
        export: Gives the JSON form of anything else, or raises Unsupported.
        depth: The nesting so far.

    Raises:
        Unsupported: Too deep, too large, or refused by `export`.
    """
    if depth > MAX_DEPTH:
        raise Unsupported(f"nesting deeper than {MAX_DEPTH}")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str or kind is bytes:
        if len(value) > MAX_BYTES:
            raise Unsupported(f"text longer than {MAX_BYTES} bytes")
        return value if kind is str else {"b": _base64(value)}
    if kind is int:
        return value if -_SAFE_INT < value < _SAFE_INT else {"i": hex(value)}
    if kind is float:
        return {"f": value.hex()}
    encoder = _ENCODERS.get(kind) or _library_encoder(kind)
    if encoder is None:
        return export(value, depth)
    return encoder(value, export, depth + 1)


def _library_encoder(kind: type) -> "Callable[[Any, Export, int], Node] | None":
    for (module, name), encoder in _LIBRARY_ENCODERS.items():
        if module in sys.modules and getattr(sys.modules[module], name, None) is kind:
            return encoder
    return None


def _base64(value: bytes | bytearray) -> str:
    import base64

    return base64.b64encode(value).decode()


def _nodes(values: Iterable[Any], export: Export, depth: int) -> list[Node]:
    return [encode(value, export, depth) for value in values]


def _pairs(values: dict[Any, Any], export: Export, depth: int) -> list[Node]:
    return [[encode(key, export, depth), encode(value, export, depth)] for key, value in values.items()]


def _encode_deque(value: "collections.deque[Any]", export: Export, depth: int) -> Node:
    return {"q": [_nodes(value, export, depth), value.maxlen]}


def _encode_view(value: Any, export: Export, depth: int) -> Node:
    return {"V": [type(value).__name__, _nodes(value, export, depth)]}


def _encode_decimal(value: "decimal.Decimal", _export: Export, _depth: int) -> Node:
    sign, digits, exponent = value.as_tuple()
    return {"D": [sign, "".join(map(str, digits)), exponent]}


def _encode_datetime(value: datetime.datetime, _export: Export, _depth: int) -> Node:
    if value.tzinfo is not None:
        raise Unsupported("a datetime with a time zone")
    return {"T": ["datetime", [*value.timetuple()[:6], value.microsecond]]}


_ENCODERS: dict[type, Callable[[Any, Export, int], Node]] = {
    list: _nodes,
    tuple: lambda value, export, depth: {"t": _nodes(value, export, depth)},
    dict: lambda value, export, depth: {"d": _pairs(value, export, depth)},
    set: lambda value, export, depth: {"s": _nodes(value, export, depth)},
    frozenset: lambda value, export, depth: {"z": _nodes(value, export, depth)},
    bytearray: lambda value, _export, _depth: {"B": _base64(value)},
    complex: lambda value, _export, _depth: {"c": [value.real.hex(), value.imag.hex()]},
    range: lambda value, _export, _depth: {"r": [hex(value.start), hex(value.stop), hex(value.step)]},
    collections.OrderedDict: lambda value, export, depth: {"o": _pairs(value, export, depth)},
    collections.Counter: lambda value, export, depth: {"C": _pairs(value, export, depth)},
    collections.deque: _encode_deque,
    type({}.keys()): _encode_view,
    type({}.values()): _encode_view,
    type({}.items()): _encode_view,
    datetime.datetime: _encode_datetime,
    datetime.date: lambda value, _export, _depth: {"T": ["date", [value.year, value.month, value.day]]},
    datetime.timedelta: lambda value, _export, _depth: {
        "T": ["timedelta", [value.days, value.seconds, value.microseconds]]
    },
}
_LIBRARY_ENCODERS: dict[tuple[str, str], Callable[[Any, Export, int], Node]] = {
    ("decimal", "Decimal"): _encode_decimal,
    ("fractions", "Fraction"): lambda value, _export, _depth: {"F": [hex(value.numerator), hex(value.denominator)]},
}


def base_value(value: Any) -> Any:
    """Return the builtin part of an instance of a subclass of a plain builtin, or the value itself.

    A subclass can say anything about itself (`__eq__`, `__sub__`, `__iter__`); only its builtin content counts.
    """
    for kind, take in _BASES:
        if isinstance(value, kind):
            return take(value)
    return value


_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, lambda value: int.__add__(value, 0)),
    (float, lambda value: float.__add__(value, 0.0)),
    (complex, lambda value: complex.__add__(value, 0j)),
    (str, lambda value: str.__str__(value) + ""),
    (bytes, lambda value: bytes.__add__(value, b"")),
    (bytearray, lambda value: bytearray.__add__(value, b"")),
    (list, lambda value: list(list.__iter__(value))),
    (tuple, lambda value: tuple(tuple.__iter__(value))),
    (dict, lambda value: dict(dict.items(value))),
    (set, lambda value: set(set.__iter__(value))),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
)


def dumps(node: Node) -> bytes:
    """Return the bytes of a JSON form."""
    return "".join(_to_text(node, 0)).encode()


# What `JSONEncoder.encode` would make anew for every value; nodes are trees, so nothing looks for circles.
_make_encoder: Any = vars(json.encoder)["c_make_encoder"]
_to_text = _make_encoder(None, None, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
