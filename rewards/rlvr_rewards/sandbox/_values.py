"""Splits plain asserts: the calls go to the program's process, what they must equal stays in this one.

Only forms whose remainder is safe to evaluate here are split: literals, comparisons, a few builtins. Everything else is
left to a tester's process, which gives the same verdicts more slowly.
"""

import ast
import builtins
import marshal
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rlvr_rewards.sandbox import _codec, _decode

Values = Sequence[Any]
Evaluate = Callable[[Values], Any]


class NotPlain(Exception):
    """The tests hold something that is not split here."""


@dataclass(frozen=True)
class Call:
    """One call of a function of the program, with plain arguments."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Check:
    """One assert: how many calls it has, and what must hold for their values."""

    calls: tuple[Call, ...]
    holds: Evaluate


def _set(items: Any) -> set[Any]:
    """Return the set of what the program gave, unless it is made to take long."""
    return _decode.hashed(list(items))


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda item, box: item in box, ast.NotIn: lambda item, box: item not in box,
}  # fmt: skip
_WRAPPERS: dict[str, Callable[..., Any]] = {
    "abs": abs, "len": len, "list": list, "round": round, "set": _set, "sorted": sorted, "tuple": tuple,
}  # fmt: skip


def split(tree: ast.Module) -> list[Check]:
    """Return the asserts of the tests as checks.

    Raises:
        NotPlain: Any statement is of another form.
    """
    checks: list[Check] = []
    functions: dict[str, ast.FunctionDef] = {}
    for node in tree.body:
        if isinstance(node, ast.Assert):
            checks.append(_Splitter({}).check(node))
        elif isinstance(node, ast.FunctionDef):
            functions[node.name] = node
        elif (called := _call_of_known(node, functions)) is not None:
            checks += _inlined(*called)
        elif not _is_idle(node):
            raise NotPlain(type(node).__name__)
    if not checks or len(checks) > 1_000:
        raise NotPlain("no plain asserts")
    if functions.keys() & _names_used(tree):
        # What the tests define is not the program's: asked for it, a program could bring its own.
        raise NotPlain("a function of the tests' own")
    return checks


def _names_used(tree: ast.Module) -> set[str]:
    """Return the names that the tests use, but for the functions that statements such as `check(solve)` call."""
    called = {
        id(node.value.func) for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    }
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}


def _is_idle(node: ast.stmt) -> bool:
    """Return whether the statement matters to no assert: a docstring, an import of math, or a constant of its own."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Import):
        return all(alias.name == "math" and alias.asname is None for alias in node.names)
    return isinstance(node, ast.Assign) and all(
        isinstance(target, ast.Name) and target.id == "METADATA" for target in node.targets)  # fmt: skip


def _call_of_known(node: ast.stmt, functions: dict[str, ast.FunctionDef]) -> tuple[ast.FunctionDef, str] | None:
    """Return function and argument of a statement such as `check(solve)`."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return None
    call = node.value
    if not (
        isinstance(call.func, ast.Name) and call.func.id in functions and len(call.args) == 1 and not call.keywords
    ):
        return None
    argument = call.args[0]
    return (functions[call.func.id], argument.id) if isinstance(argument, ast.Name) else None


def _inlined(function: ast.FunctionDef, argument: str) -> list[Check]:
    parameters = function.args
    if len(parameters.args) != 1 or parameters.vararg or parameters.kwonlyargs or function.decorator_list:
        raise NotPlain("a function of another form")
    checks = []
    for node in function.body:
        if isinstance(node, ast.Assert):
            checks.append(_Splitter({parameters.args[0].arg: argument}).check(node))
        elif not (_is_idle(node) or isinstance(node, ast.Pass)):
            raise NotPlain(type(node).__name__)
    return checks


class _Splitter:
    """Splits one assert.

    Args:
        names: What a name stands for, where it is a parameter.
    """

    def __init__(self, names: dict[str, str]) -> None:
        self.names, self.calls = names, []  # type: ignore[var-annotated]

    def check(self, node: ast.Assert) -> Check:
        if isinstance(node.test, ast.Constant):
            raise NotPlain("a constant")
        holds = self._build(node.test)
        if not self.calls:
            raise NotPlain("no call of the program")
        return Check(tuple(self.calls), holds)

    def _build(self, node: ast.expr) -> Evaluate:
        if isinstance(node, ast.Call):
            return self._build_call(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._build_compare(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self._build(node.operand)
            return lambda values: not inner(values)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            left, right = self._build(node.left), self._build(node.right)
            return lambda values: _difference(left(values), right(values))
        constant = literal(node)
        return lambda _values: constant

    def _build_compare(self, node: ast.Compare) -> Evaluate:
        compare, right = _COMPARE[type(node.ops[0])], node.comparators[0]
        if isinstance(node.ops[0], ast.Is | ast.IsNot) and not (
            isinstance(right, ast.Constant) and right.value in (None, True, False)
        ):
            raise NotPlain("an identity")
        first, second = self._build(node.left), self._build(right)
        return lambda values: compare(first(values), second(values))

    def _build_call(self, node: ast.Call) -> Evaluate:
        if _is_isclose(node):
            parts = [self._build(arg) for arg in node.args]
            named = {keyword.arg: literal(keyword.value) for keyword in node.keywords if keyword.arg}
            return lambda values: math.isclose(*(part(values) for part in parts), **named)
        if not isinstance(node.func, ast.Name):
            raise NotPlain("a method")
        if node.func.id in _WRAPPERS and not node.keywords and 1 <= len(node.args) <= 2:
            function, inner = _WRAPPERS[node.func.id], self._build(node.args[0])
            rest = [literal(arg) for arg in node.args[1:]]
            return lambda values: function(inner(values), *rest)
        return self._candidate_call(node, node.func.id)

    def _candidate_call(self, node: ast.Call, name: str) -> Evaluate:
        name = self.names.get(name, name)
        if hasattr(builtins, name):
            raise NotPlain("a builtin")
        args = tuple(_argument(arg) for arg in node.args)
        if any(keyword.arg is None for keyword in node.keywords):
            raise NotPlain("unpacked arguments")
        kwargs = {str(keyword.arg): _argument(keyword.value) for keyword in node.keywords}
        place = len(self.calls)
        self.calls.append(Call(name, args, kwargs))
        return lambda values: values[place]


def _is_isclose(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "isclose" and (
        isinstance(node.func.value, ast.Name) and node.func.value.id == "math" and len(node.args) == 2)  # fmt: skip


def _difference(left: Any, right: Any) -> Any:
    """Subtract numbers only: a set or a date of the program is left to the tester's process."""
    if type(left) not in (int, float) or type(right) not in (int, float):
        raise TypeError("not two numbers")
    return left - right


def _argument(node: ast.expr) -> Any:
    value = literal(node)
    try:
        _codec.encode(value)  # within the same limits as what comes back
    except _codec.Unsupported as error:
        raise NotPlain(str(error)) from None
    return value


def pack(checks: Sequence[Check]) -> bytes:
    """Return all calls as the payload wants them: function, positional and named arguments."""
    return marshal.dumps([(call.function, call.args, call.kwargs) for check in checks for call in check.calls])


def literal(node: ast.expr) -> Any:
    """Return the value of a literal, of `set()` and of `float("inf")`.

    Raises:
        NotPlain: It is anything else.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        if node.func.id == "set" and not node.args:
            return set()
        if node.func.id == "float" and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
            return float(node.args[0].value)  # type: ignore[arg-type]
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise NotPlain("no literal") from None
