"""What a reward function looks for in a completion, as far as its source shows: pairs of tags, and \\boxed."""

import ast
import re
from collections.abc import Iterator

from grpo_rlvr.config.load_evaluate import Unreadable, source
from grpo_rlvr.config.load_names import FunctionNode
from grpo_rlvr.config.load_python import Source

# A reward calls a helper that extracts the answer, which may call one more.
MAX_DEPTH = 3
# Methods of texts and patterns whose argument is looked for. `sub` and `replace` take out what stands there.
_SEARCHES = frozenset(
    [
        "search", "match", "fullmatch", "findall", "finditer", "compile", "split", "rsplit", "find", "rfind", "index",
        "rindex", "count", "startswith", "endswith", "partition", "rpartition",
    ]
)  # fmt: skip
# A reward that asks another model or service looks for marks in that answer too; which is which cannot be told.
_ASKS_OTHERS = re.compile(
    r"(\b|_)(client|judge|openai|anthropic|litellm|requests|httpx|aiohttp|llm|session|grader)(\b|_)|"
    r"\.(create|generate|chat|invoke|ainvoke|post)$",
    re.I,
)
_OPENING = re.compile(r"<([A-Za-z][\w-]{0,40})(?:\\?>)")


def looks_for(script: Source, definition: FunctionNode) -> list[str]:
    """Return the marks that a function and the helpers it calls look for, in order: `<answer>`, `\\boxed`.

    A tag counts only with its closing one, and thinking does not count: rewards mostly cut it away. A function that
    asks another model says nothing.
    """
    try:
        text = "\n".join(_texts(script, definition, 0, set()))
    except Unreadable:
        return []
    closed = [name for name in dict.fromkeys(_OPENING.findall(text)) if f"/{name}" in text]
    tags = [f"<{name}>" for name in closed if not name.lower().startswith("think")]
    return [*tags, *(["\\boxed"] if "boxed" in text else [])]


def _texts(script: Source, definition: FunctionNode, depth: int, seen: set[str]) -> Iterator[str]:
    for node in ast.walk(definition):
        if isinstance(node, ast.Call) and _ASKS_OTHERS.search(source(node.func)):
            raise Unreadable(f"{source(node.func)} may ask another model")
        for looked_for in _looked_for(node):
            yield _text(script, looked_for)
        if depth < MAX_DEPTH and isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            helper = _helper(script, node.func)
            if helper is not None and helper.name not in seen:
                seen.add(helper.name)
                yield from _texts(script, helper, depth + 1, seen)


def _looked_for(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Compare):
        return [node.left] if any(isinstance(operator, ast.In | ast.NotIn) for operator in node.ops) else []
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _SEARCHES:
        return []
    owner = node.func.value
    # A pattern compiled elsewhere is the owner of the method: PATTERN.search(text).
    return [owner, *node.args[:1]] if isinstance(owner, ast.Name) and owner.id != "re" else node.args[:1]


def _text(script: Source, node: ast.expr) -> str:
    """Return a text that stands in the source, also behind a name or in re.compile(...); empty for any other value."""
    if isinstance(node, ast.Name):
        found = script.names.scope_of[node].lookup(node.id) if node in script.names.scope_of else None
        node = found[1][0].value or node if found and len(found[1]) == 1 else node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "compile":
        return _text(script, node.args[0]) if node.args else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    try:
        value = script.evaluator.value(node)
    except Unreadable:
        return ""
    return value if isinstance(value, str) else ""


def _helper(script: Source, name: ast.Name) -> FunctionNode | None:
    found = script.names.module.lookup(name.id)
    definition = found[1][-1].definition if found else None
    return definition if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef) else None
