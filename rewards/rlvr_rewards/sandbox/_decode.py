"""The trusted half of the tagged JSON of `_codec`: builds only the types named here, and only within limits.

Everything else in the bytes of an untrusted process, on size, depth, digits and hashed elements too, is `Malformed`.
"""

import collections
import datetime
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rlvr_rewards.sandbox._codec import MAX_BYTES, MAX_DEPTH, Node

if TYPE_CHECKING:  # imported where they are used
    import decimal
    import fractions

MAX_ITEMS = 500_000  # of one value
MAX_HASHED = 200_000  # members of one set or dict
MAX_COSTLY = 2_000  # of them such whose hashes can be made to collide; comparing them all costs quadratic time
MAX_COMPARED = 50_000_000  # steps that comparing the costly ones of a value with one another could take
MAX_BITS = 4 * MAX_BYTES  # of an integer
MAX_PLAIN_DIGITS = 17  # integers beyond 2**53 cross as hexadecimal text, in linear time
MAX_EXPONENT = 100_000  # of a Decimal
_HASH_MODULUS = 2**61 - 1


class Malformed(Exception):
    """The bytes are no value that `encode` could have made."""


Import = Callable[[str, Any], Any]


def refuse_tag(tag: str, _content: Any) -> Any:
    """Refuse every tag that is not plain data."""
    raise Malformed(f"tag {tag!r:.20}")


class _Budget:
    """Counts what one value holds."""

    __slots__ = ("compared", "left")

    def __init__(self) -> None:
        self.left, self.compared = MAX_ITEMS, MAX_COMPARED

    def spend(self, items: Any) -> None:
        if type(items) is not list:
            raise Malformed("a list was expected")
        self.left -= len(items)
        if self.left < 0:
            raise Malformed(f"more than {MAX_ITEMS} items")

    def hash(self, members: list[Any]) -> None:
        """Let the members go into one set or dict."""
        if len(members) > MAX_HASHED:
            raise Malformed(f"more than {MAX_HASHED} hashed members")
        costly = [member for member in members if not _spreads(member)]
        if len(costly) > MAX_COSTLY:
            raise Malformed(f"more than {MAX_COSTLY} members whose hashes could collide")
        self.compared -= len(costly) * sum(map(_weight, costly))
        if self.compared < 0:
            raise Malformed("members whose hashes could collide, too long to compare")


def decode(node: Node, restore: Import = refuse_tag) -> Any:
    """Return the value of a JSON form.

    Args:
        node: What `loads` returned.
        restore: Called with the tag and content of anything that is not plain data.

    Raises:
        Malformed: For everything that `encode` would not produce within the limits, and for nothing else.
    """
    try:
        return _decode(node, restore, 0, _Budget())
    except Malformed:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, AttributeError) as error:
        raise Malformed(type(error).__name__) from None


def _decode(node: Node, restore: Import, depth: int, budget: _Budget) -> Any:
    if depth > MAX_DEPTH + 1:
        raise Malformed("too deep")
    kind = type(node)
    if node is None or kind is bool or kind is str or kind is int:
        return node
    if kind is list:
        budget.spend(node)
        return [_decode(item, restore, depth + 1, budget) for item in node]
    if kind is not dict or len(node) != 1:
        raise Malformed("no value")
    ((tag, content),) = node.items()
    scalar = _SCALARS.get(tag)
    if scalar is not None:
        return scalar(content)
    if tag in _CONTAINERS:
        budget.spend(content)
        members = [_decode(item, restore, depth + 1, budget) for item in content]
        if tag != "t":
            budget.hash(members)
        return _CONTAINERS[tag](members)
    if tag in _MAPPINGS:
        budget.spend(content)
        pairs = [(_decode(key, restore, depth + 1, budget), _decode(value, restore, depth + 1, budget))
                 for key, value in content]  # fmt: skip
        budget.hash([key for key, _ in pairs])
        return _MAPPINGS[tag](pairs)
    if tag == "q":
        items, limit = content
        budget.spend(items)
        if limit is not None and (type(limit) is not int or limit < 0):
            raise Malformed("a deque's length")
        return collections.deque([_decode(item, restore, depth + 1, budget) for item in items], limit)
    if tag == "V":
        view_kind, items = content
        budget.spend(items)
        return _view(view_kind, [_decode(item, restore, depth + 1, budget) for item in items], budget)
    return restore(tag, content)


def _view(kind: Any, items: list[Any], budget: _Budget) -> Any:
    """Return a view of a dictionary made for it."""
    if kind == "dict_values":
        return dict(enumerate(items)).values()
    if kind not in ("dict_keys", "dict_items"):
        raise Malformed("a view")
    budget.hash([item[0] for item in items] if kind == "dict_items" else items)
    return dict.fromkeys(items).keys() if kind == "dict_keys" else dict(items).items()


def hashed(members: list[Any]) -> set[Any]:
    """Return the set of decoded members.

    Raises:
        Malformed: Their hashes could collide so often that building it takes long.
    """
    _Budget().hash(members)
    return set(members)


def _spreads(member: Any) -> bool:
    """Return whether the hashes of such members cannot be made to collide: text, integers that are their own hash.

    In a tuple, only integers of 32 bits: with wider ones a wanted hash can be solved for.
    """
    kind = type(member)
    if kind is tuple:
        return all(type(part) is str or (type(part) is int and -(2**31) < part < 2**31) for part in member)
    return kind is str or (kind is int and -_HASH_MODULUS < member < _HASH_MODULUS)


def _weight(member: Any) -> int:
    """Return how many steps it may take to find that the member equals none other of the same hash."""
    kind = type(member)
    if kind is tuple:
        return 1 + sum(map(_weight, member))
    if kind is frozenset:
        costly = [part for part in member if not _spreads(part)]
        return 1 + len(member) + len(costly) * sum(map(_weight, costly))
    return 1


def _text(content: Any) -> str:
    if type(content) is not str:
        raise Malformed("text was expected")
    return content


def _int(content: Any) -> int:
    if len(_text(content)) > MAX_BITS // 4:
        raise Malformed("an integer too long")
    return int(content, 16)


def _small(content: Any) -> int:
    if type(content) is not int:
        raise Malformed("a whole number was expected")
    return content


def _float(content: Any) -> float:
    return float.fromhex(_text(content))


def _range(content: Any) -> range:
    start, stop, step = content
    return range(_int(start), _int(stop), _int(step))


def _bytes(content: Any) -> bytes:
    import base64

    return base64.b64decode(_text(content), validate=True)


def _decimal(content: Any) -> "decimal.Decimal":
    import decimal

    sign, digits, exponent = content
    if exponent == "F":
        return decimal.Decimal("-Infinity" if sign else "Infinity")
    if exponent == "n":
        return decimal.Decimal("NaN")
    if type(exponent) is not int or abs(exponent) > MAX_EXPONENT or not 0 < len(_text(digits)) <= MAX_EXPONENT:
        raise Malformed("a Decimal out of range")  # a signalling NaN ("N") ends here too: comparing it raises
    return decimal.Decimal((1 if sign else 0, tuple(map(int, digits)), exponent))


def _fraction(content: Any) -> "fractions.Fraction":
    import fractions

    numerator, denominator = content
    if max(len(_text(numerator)), len(_text(denominator))) > 25_000:
        raise Malformed("a Fraction too long")  # reducing it costs quadratic time
    return fractions.Fraction(_int(numerator), _int(denominator))


def _time(content: Any) -> Any:
    kind, parts = content
    makers: dict[str, Callable[..., Any]] = {
        "datetime": datetime.datetime, "date": datetime.date, "timedelta": datetime.timedelta
    }  # fmt: skip
    return makers[_text(kind)](*map(_small, parts))


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "i": _int,
    "f": _float,
    "b": _bytes,
    "B": lambda content: bytearray(_bytes(content)),
    "c": lambda content: complex(_float(content[0]), _float(content[1])),
    "r": _range,
    "D": _decimal,
    "F": _fraction,
    "T": _time,
}
_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {"t": tuple, "s": set, "z": frozenset}
_MAPPINGS: dict[str, Callable[[list[Any]], Any]] = {
    "d": dict,
    "o": collections.OrderedDict,
    "C": lambda pairs: collections.Counter(dict(pairs)),
}


def loads(data: bytes) -> Node:
    """Return the JSON form in the bytes.

    Raises:
        Malformed: No JSON, too long, too deep, a float or NaN (they cross as text), or an integer of many digits.
    """
    if len(data) > MAX_BYTES:
        raise Malformed("too long")
    try:
        return _from_text(data.decode())
    except Malformed:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise Malformed(f"no JSON: {type(error).__name__}") from None


def _no_number(_text_form: str) -> Any:
    raise Malformed("a bare float")


def _plain_int(text: str) -> int:
    if len(text) > MAX_PLAIN_DIGITS:
        raise Malformed("an integer of many digits")
    return int(text)


_from_text = json.JSONDecoder(parse_constant=_no_number, parse_float=_no_number, parse_int=_plain_int).decode
