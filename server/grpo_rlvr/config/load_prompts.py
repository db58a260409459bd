"""The prompts that a script builds: their fixed text, with columns of the dataset left as `{column}`."""

import ast
import re
from typing import Any

from grpo_rlvr.config.load_evaluate import Unreadable, source
from grpo_rlvr.config.load_python import Source

# Methods that leave what a text asks for as it is.
_KEEP_TEXT = frozenset(["strip", "lstrip", "rstrip", "format"])
# Columns of ready-made prompts, which may ask for anything.
_READY_MADE = frozenset(["prompt", "prompts", "instruction", "instructions", "input", "messages", "content", "text"])
_COLUMN = re.compile(r"\{[^{}]*\}")


def built_prompts(script: Source) -> list[ast.expr]:
    """Return the value of every `"prompt": ...` of a dictionary in the script, in order."""
    return [
        value
        for node in script.names.scope_of
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "prompt"
    ]


def sample_prompts(script: Source, built: list[ast.expr]) -> list[Any] | None:
    """Return the prompts as texts or messages; None where one of them depends on what only running the file tells."""
    try:
        return [_prompt(script, node) for node in built] or None
    except Unreadable:
        return None


def is_conversation(node: ast.expr) -> bool:
    """Whether an expression is a list of messages."""
    if not isinstance(node, ast.List) or not node.elts:
        return False
    keys = [source(key) for item in node.elts if isinstance(item, ast.Dict) for key in item.keys if key is not None]
    return "'role'" in keys and all(isinstance(item, ast.Dict) for item in node.elts)


def _prompt(script: Source, node: ast.expr) -> Any:
    prompt: Any
    if isinstance(node, ast.List) and is_conversation(node):
        prompt = [_message(script, item) for item in node.elts if isinstance(item, ast.Dict)]
        said = "".join(message["content"] for message in prompt)
    else:
        prompt = said = _text(script, node)
    if not _COLUMN.sub("", said).strip():
        raise Unreadable("the prompt is a column of the dataset, whose rows may ask for anything")
    return prompt


def _message(script: Source, node: ast.Dict) -> dict[str, str]:
    named = {key.value: item for key, item in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)}
    if not {"role", "content"} <= named.keys():
        raise Unreadable(f"{source(node)} is no message of a role and a content")
    return {name: _text(script, named[name]) for name in ("role", "content")}


def _column(script: Source, node: ast.expr) -> str | None:
    """Return the column that `row["question"]`, or a name given that once, stands for; None for anything else."""
    if isinstance(node, ast.Name):
        found = script.names.scope_of[node].lookup(node.id) if node in script.names.scope_of else None
        node = found[1][0].value or node if found and len(found[1]) == 1 else node
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    name = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return name if isinstance(name, str) and name not in _READY_MADE else None


def _text(script: Source, node: ast.expr) -> str:
    """Return the fixed text of an expression, with `{...}` for what a row fills in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(script, part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(script, node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(script, node.left) + _text(script, node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _text(script, node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEP_TEXT:
        return _text(script, node.func.value)
    if (column := _column(script, node)) is not None:
        return f"{{{column}}}"
    value = script.evaluator.value(node)
    if not isinstance(value, str):
        raise Unreadable(f"{source(node)} is no text")
    return value
