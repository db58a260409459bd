"""Tool calls written as a list of calls in Python: `[weather(city='Paris', days=3), time()]`."""

import ast
import math
import re
from typing import Any

# The beginning of such a list; a list of anything else is text.
BEGINNING = re.compile(r"\[\s*[A-Za-z_][\w.]*\(")
MAX_CHARACTERS = 64 * 1024
_JSON_NAMES = {"true": True, "false": False, "null": None}


def read(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and the arguments of each call.

    Raises:
        ValueError: It is no list of calls with named arguments that are plain values.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"calls longer than {MAX_CHARACTERS} characters")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"no list of calls: {type(error).__name__}") from None
    if not isinstance(tree, ast.List):
        raise ValueError("no list of calls")
    return [_call(entry) for entry in tree.elts]


def _call(node: ast.expr) -> tuple[str, dict[str, Any]]:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("a call needs a name and named arguments")
    arguments: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError("an argument without a name, or one that is repeated")
        arguments[keyword.arg] = _value(keyword.value)
    return _name(node.func), arguments


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    if not isinstance(node, ast.Name):
        raise ValueError("a call needs a name")
    return node.id


def _value(node: ast.expr) -> Any:
    """Return a value as JSON has it: lists and tuples are arrays."""
    if isinstance(node, ast.Name) and node.id in _JSON_NAMES:
        return _JSON_NAMES[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(entry) for entry in node.elts]
    if isinstance(node, ast.Dict):
        return dict(_entry(key, value) for key, value in zip(node.keys, node.values, strict=True))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value(node.operand)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return -number
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
        if isinstance(node.value, float) and not math.isfinite(node.value):
            raise ValueError("a number beyond a finite double")
        return node.value
    raise ValueError("an argument that is no plain value")


def _entry(key: ast.expr | None, value: ast.expr) -> tuple[str, Any]:
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        raise ValueError("an object whose keys are not text")
    return key.value, _value(value)
