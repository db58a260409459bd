"""A dict that a script fills step by step before it unpacks it: `kwargs = dict(...)`, `kwargs["beta"] = 0.1`."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from grpo_rlvr.config.load_names import Names, is_main_guard

READING = ("get", "items", "keys", "values", "copy")


@dataclass(frozen=True)
class Entry:
    """One key of the dict; `certain` is false where the statement that sets it may not run."""

    key: str
    value: ast.expr
    certain: bool


def entries_of(literal: ast.expr) -> list[tuple[str, ast.expr]] | None:
    """Return the entries of a dict display or a `dict(...)` call whose keys are all written out, else None."""
    if isinstance(literal, ast.Dict):
        if not all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in literal.keys):
            return None
        pairs = zip(literal.keys, literal.values, strict=True)
        return [(str(key.value), item) for key, item in pairs if isinstance(key, ast.Constant)]
    if isinstance(literal, ast.Call) and isinstance(literal.func, ast.Name) and literal.func.id == "dict":
        if literal.args or any(keyword.arg is None for keyword in literal.keywords):
            return None
        return [(str(keyword.arg), keyword.value) for keyword in literal.keywords]
    return None


def filled_dict(names: Names, node: ast.Name, line: int) -> list[Entry] | None:
    """Return what a dict holds at a line, None when something may change it that cannot be followed.

    Args:
        names: The module's names.
        node: The use of the dict's name.
        line: Line of that use; later statements do not count.
    """
    scope = names.scope_of.get(node)
    found = scope.lookup(node.id) if scope is not None else None
    if found is None or len(found[1]) != 1 or found[1][0].value is None or found[1][0].conditional:
        return None
    owner, (binding,) = found
    start = entries_of(binding.value) if binding.value is not None else None
    if start is None:
        return None
    result = [Entry(key, value, True) for key, value in start]
    straight = {id(statement) for statement in unconditional(getattr(owner.node, "body", []))}
    for statement in _touching(owner.node, node.id):
        if not binding.line < statement.lineno < line:
            continue
        added = _added(statement, node.id)
        if added is None:
            return None
        result += [Entry(key, value, id(statement) in straight) for key, value in added]
    return result


def unconditional(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements that always run: the `__main__` guard and with-blocks do in a script that trains."""
    result: list[ast.stmt] = []
    for statement in body:
        result.append(statement)
        guard = isinstance(statement, ast.If) and is_main_guard(statement)
        if guard or isinstance(statement, ast.With):
            result += unconditional(getattr(statement, "body", []))
    return result


def _touching(scope: ast.AST, name: str) -> Iterator[ast.stmt]:
    """Yield the simple statements that may change the dict of a name, in the order of their lines."""
    simple = [node for node in ast.walk(scope) if isinstance(node, ast.stmt) and not hasattr(node, "body")]
    for statement in sorted(simple, key=lambda item: item.lineno):
        if any(_changes(node, name) for node in ast.walk(statement)):
            yield statement


def _changes(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
        return isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load)
    return False


def _added(statement: ast.stmt, name: str) -> list[tuple[str, ast.expr]] | None:
    """Return the entries that a statement sets, empty when it only reads, None when that cannot be told."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == name:
            key = target.slice
            known = isinstance(key, ast.Constant) and isinstance(key.value, str)
            return [(str(key.value), statement.value)] if known and isinstance(key, ast.Constant) else None
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "update":
        if len(call.args) > 1 or any(keyword.arg is None for keyword in call.keywords):
            return None
        inner = entries_of(call.args[0]) if call.args else []
        own = [(str(keyword.arg), keyword.value) for keyword in call.keywords]
        return None if inner is None else [*inner, *own]
    # Reading methods leave it as it is; `del`, `+=` and the rest do not.
    touched = [node for node in ast.walk(statement) if _changes(node, name)]
    reads = all(isinstance(node, ast.Attribute) and node.attr in READING for node in touched)
    return [] if reads else None
