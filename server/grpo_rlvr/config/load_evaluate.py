"""Reading values out of Python source without running it: literals, constants assigned once, arithmetic on them."""

import ast
import operator
from collections.abc import Callable
from typing import Any

from grpo_rlvr.config.load_limits import MAX_INTEGER
from grpo_rlvr.config.load_names import Binding, Names

MAX_STEPS = 5_000
MAX_RECURSION = 40
MAX_LENGTH = 100_000
_DTYPES = frozenset(
    [
        "bfloat16",
        "float16",
        "float32",
        "float64",
        "half",
        "float",
        "double",
        "float8_e4m3fn",
        "float8_e5m2",
        "int8",
        "uint8",
    ]
)
# Enumerations of transformers whose members are called as their values are, in capitals.
_ENUMERATIONS = frozenset({"IntervalStrategy", "SaveStrategy", "EvaluationStrategy", "HubStrategy", "SchedulerType"})
_MEMBERS = {"REDUCE_ON_PLATEAU": "reduce_lr_on_plateau"}
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
# Built-in functions whose result depends on their arguments alone.
_PURE: dict[str, Callable[..., Any]] = {
    "max": max,
    "min": min,
    "int": int,
    "float": float,
    "abs": abs,
    "round": round,
    "len": len,
    "sum": sum,
    "str": str,
    "bool": bool,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


class Unreadable(Exception):
    """The value depends on something that only running the file would tell; the text says on what."""


class Evaluator:
    """Evaluates expressions of one module within a step budget."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.steps = 0

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """Return the plain value of an expression.

        Raises:
            Unreadable: it is not a constant of the source.
        """
        self.steps += 1
        if depth > MAX_RECURSION or self.steps > MAX_STEPS:
            raise Unreadable("the expression is too large")
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise Unreadable(f"{source(node)} is computed when the file runs")
        result = method(node, depth + 1)
        if isinstance(result, int) and abs(result) > MAX_INTEGER:
            raise Unreadable(f"{source(node)} exceeds 64 bits")
        return result

    def _constant(self, node: ast.Constant, depth: int) -> Any:
        if node.value is None or isinstance(node.value, bool | int | float | str):
            return node.value
        raise Unreadable(f"{source(node)} is no plain value")

    def _list(self, node: ast.List | ast.Tuple | ast.Set, depth: int) -> list[Any]:
        if any(isinstance(item, ast.Starred) for item in node.elts):
            raise Unreadable(f"{source(node)} unpacks another value")
        return [self.value(item, depth) for item in node.elts]

    _tuple = _set = _list

    def _dict(self, node: ast.Dict, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self._mapping(item, depth))
                continue
            name = self.value(key, depth)
            if not isinstance(name, str):
                raise Unreadable(f"key {source(key)} is not a text")
            result[name] = self.value(item, depth)
        return result

    def _mapping(self, node: ast.expr, depth: int) -> dict[str, Any]:
        value = self.value(node, depth)
        if not isinstance(value, dict):
            raise Unreadable(f"{source(node)} is not a dict")
        return value

    def _unaryop(self, node: ast.UnaryOp, depth: int) -> Any:
        value = self.value(node.operand, depth)
        if isinstance(node.op, ast.Not):
            return not value
        if isinstance(node.op, ast.USub | ast.UAdd) and isinstance(value, int | float):
            return -value if isinstance(node.op, ast.USub) else value
        raise Unreadable(f"{source(node)} is no arithmetic on numbers")

    def _binop(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.value(node.left, depth), self.value(node.right, depth)
        if isinstance(left, int | float) and isinstance(right, int | float):
            return _arithmetic(node, left, right)
        if isinstance(node.op, ast.BitOr) and isinstance(left, dict) and isinstance(right, dict):
            return {**left, **right}
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            if len(left) + len(right) > MAX_LENGTH:
                raise Unreadable("the text is too long")
            return left + right
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return [*left, *right]
        if isinstance(node.op, ast.Mult) and isinstance(left, list) and isinstance(right, int):
            if len(left) * right > MAX_LENGTH:
                raise Unreadable("the list is too long")
            return left * right
        raise Unreadable(f"{source(node)} is no arithmetic on numbers")

    def _ifexp(self, node: ast.IfExp, depth: int) -> Any:
        return self.value(node.body if self.value(node.test, depth) else node.orelse, depth)

    def _joinedstr(self, node: ast.JoinedStr, depth: int) -> str:
        parts = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                if part.format_spec is not None or part.conversion != -1:
                    raise Unreadable(f"{source(node)} formats a value")
                parts.append(str(self.value(part.value, depth)))
            else:
                parts.append(str(self.value(part, depth)))
        return "".join(parts)

    def _call(self, node: ast.Call, depth: int) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id in _PURE and not node.keywords:
            return self._pure(node, node.func, depth)
        if isinstance(node.func, ast.Name) and node.func.id == "dict" and len(node.args) <= 1:
            result = self._mapping(node.args[0], depth) if node.args else {}
            for keyword in node.keywords:
                if keyword.arg is None:
                    result = {**result, **self._mapping(keyword.value, depth)}
                else:
                    result = {**result, keyword.arg: self.value(keyword.value, depth)}
            return result
        raise Unreadable(f"{source(node)} is computed when the file runs")

    def _pure(self, node: ast.Call, func: ast.Name, depth: int) -> Any:
        scope = self.names.scope_of.get(func)
        if scope is not None and scope.lookup(func.id) is not None:
            raise Unreadable(f"{func.id} is a name of this file")
        arguments = [self.value(item, depth) for item in node.args]
        if not all(isinstance(item, int | float | str | list) for item in arguments):
            raise Unreadable(f"{source(node)} is no arithmetic on numbers")
        try:
            result = _PURE[func.id](*arguments)
        except (ArithmeticError, TypeError, ValueError, LookupError) as error:
            raise Unreadable(f"{source(node)}: {error}") from None
        if not isinstance(result, int | float | str):
            raise Unreadable(f"{source(node)} is no plain value")
        return result

    def _boolop(self, node: ast.BoolOp, depth: int) -> Any:
        stops = isinstance(node.op, ast.Or)
        for item in node.values[:-1]:
            value = self.value(item, depth)
            if bool(value) == stops:
                return value
        return self.value(node.values[-1], depth)

    def _compare(self, node: ast.Compare, depth: int) -> bool:
        left, held = self.value(node.left, depth), True
        for sign, item in zip(node.ops, node.comparators, strict=True):
            right, compare = self.value(item, depth), _COMPARE.get(type(sign))
            if compare is None:
                raise Unreadable(f"{source(node)} is no comparison of plain values")
            try:
                held, left = held and bool(compare(left, right)), right
            except TypeError as error:
                raise Unreadable(f"{source(node)}: {error}") from None
        return held

    def _attribute(self, node: ast.Attribute, depth: int) -> Any:
        if isinstance(node.value, ast.Name):
            found = self.names.scope_of[node].lookup(node.value.id) if node in self.names.scope_of else None
            if node.value.id == "torch" and node.attr in _DTYPES:
                return {"half": "float16", "float": "float32", "double": "float64"}.get(node.attr, node.attr)
            own = bool(found and isinstance(found[1][-1].definition, ast.ClassDef))
            if node.value.id in _ENUMERATIONS and node.attr.isupper() and not own:
                return _MEMBERS.get(node.attr, node.attr.lower())
            if found and len(found[1]) == 1 and isinstance(found[1][0].definition, ast.ClassDef):
                return self._class_constant(node, found[1][0].definition, depth)
        raise Unreadable(f"{source(node)} is known only when the file runs")

    def _class_constant(self, node: ast.Attribute, owner: ast.ClassDef, depth: int) -> Any:
        bindings = self.names.scopes[owner].names.get(node.attr, [])
        if owner.name in self.names.mutated or len(bindings) != 1:
            raise Unreadable(f"{source(node)} may change before it is read")
        return self._bound(node.attr, bindings[0], depth)

    def _subscript(self, node: ast.Subscript, depth: int) -> Any:
        container, key = self.value(node.value, depth), self.value(node.slice, depth)
        try:
            return container[key]
        except (LookupError, TypeError):
            raise Unreadable(f"{source(node)} does not exist in the source") from None

    def _name(self, node: ast.Name, depth: int) -> Any:
        scope = self.names.scope_of.get(node)
        found = scope.lookup(node.id) if scope is not None else None
        if found is None:
            raise Unreadable(f"{node.id} is not assigned in this file")
        _, bindings = found
        if len(bindings) > 1:
            lines = ", ".join(str(binding.line) for binding in bindings[:4])
            raise Unreadable(f"{node.id} is assigned more than once (lines {lines})")
        if node.id in self.names.mutated:
            raise Unreadable(f"{node.id} is changed in place after it is made")
        return self._bound(node.id, bindings[0], depth)

    def _bound(self, name: str, binding: Binding, depth: int) -> Any:
        if binding.module is not None:
            raise Unreadable(f"{name} is imported from {binding.module.rpartition('.')[0] or binding.module}")
        if binding.value is None or binding.index is not None:
            raise Unreadable(f"{name} gets its value when the file runs")
        return self.value(binding.value, depth)


def _arithmetic(node: ast.BinOp, left: float, right: float) -> Any:
    apply = _BINARY.get(type(node.op))
    if apply is None or (isinstance(node.op, ast.Pow) and (abs(right) > 64 or abs(left) > 10**6)):
        raise Unreadable(f"{source(node)} is out of range")
    try:
        result = apply(left, right)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise Unreadable(f"{source(node)}: {error}") from None
    if not isinstance(result, int | float):
        raise Unreadable(f"{source(node)} is no real number")
    return result


def source(node: ast.AST, limit: int = 80) -> str:
    """Return the source text of a node, at most `limit` characters."""
    try:
        text = " ".join(ast.unparse(node).split())
    except (RecursionError, ValueError):
        text = f"a {type(node).__name__}"
    return text if len(text) <= limit else text[: limit - 1] + "…"
