"""Reward functions as a setup states them: their parameters, parsed from the text of a signature."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

# What the rewards that TRL ships look for in a completion.
SHIPPED_READS = {
    "think_format_reward": "starts with <think>, then </think>",
    "reasoning_accuracy_reward": "the text behind </think>",
}
Kind = Literal["function", "method", "lambda", "partial", "closure", "object", "unknown"]
_DEF = re.compile(r"(?:async\s+)?def\s+\w+\s*\(")
# A definition without its keyword is told from a factory's call by what TRL passes to every reward.
_PASSED = re.compile(r"\b(completions|prompts)\b")
_HEAD = re.compile(r"[\w.]*\s*\(")


@dataclass(frozen=True)
class Signature:
    """The parameters of a callable, `self` left out.

    `known` is false when the text shows no parameter list; then the tuples are empty and say nothing.
    """

    kind: Kind = "unknown"
    known: bool = False
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    positional_only: tuple[str, ...] = ()
    takes_any: bool = False
    asynchronous: bool = False
    annotation: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names that may be passed by keyword."""
        return self.required + self.optional


def parse_signature(text: Any) -> Signature:
    """Return what a signature says: `def f(completions, **kwargs)`, `f(completions)`, or the parameters alone."""
    if isinstance(text, list | tuple):
        text = ", ".join(str(parameter) for parameter in text)
    return _parsed(text) if isinstance(text, str) else Signature()


# About thirty rules ask for the same few signatures in every check.
@lru_cache(maxsize=256)
def _parsed(text: str) -> Signature:
    stripped = text.strip()
    kind = _kind(stripped)
    if kind == "lambda":
        return _from_lambda(stripped)
    match = _DEF.search(stripped)
    if match is None:
        return _without_keyword(kind, stripped)
    head = _balanced(stripped, match.end() - 1)
    if head is None:
        return Signature(kind)
    source = stripped[match.start() : match.end() - 1] + head
    annotation = re.match(r"\s*->\s*([^:]+)", stripped[match.end() - 1 + len(head) :])
    try:
        definition = ast.parse(f"{source}: pass").body[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Signature(kind)
    if not isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
        return Signature(kind)
    parsed = _signature(kind, definition.args, isinstance(definition, ast.AsyncFunctionDef))
    return replace(parsed, annotation=annotation.group(1).strip() if annotation else "")


def _kind(text: str) -> Kind:
    if text.startswith("lambda"):
        return "lambda"
    if "partial(" in text.partition("def ")[0]:
        return "partial"
    if text.startswith("class ") or "__call__" in text:
        return "method"
    if text.startswith("closure"):
        return "closure"
    if _DEF.match(text):
        return "function"
    return "object" if re.match(r"(callable )?(object|instance)", text) else "unknown"


def _without_keyword(kind: Kind, text: str) -> Signature:
    if kind not in ("unknown", "method") or not _PASSED.search(text):
        return Signature(kind)
    head = _HEAD.match(text)
    parsed = _parsed(f"def reward{text[head.end() - 1 :]}" if head else f"def reward({text})")
    return replace(parsed, kind=kind if kind == "method" else parsed.kind) if parsed.known else Signature(kind)


def _balanced(text: str, start: int) -> str | None:
    depth = 0
    for index in range(start, len(text)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[start : index + 1]
    return None


def _from_lambda(text: str) -> Signature:
    source = text if ":" in text else f"{text}: 0"
    try:
        node = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Signature("lambda")
    return _signature("lambda", node.args, False) if isinstance(node, ast.Lambda) else Signature("lambda")


def _signature(kind: Kind, arguments: ast.arguments, asynchronous: bool) -> Signature:
    plain = [argument.arg for argument in arguments.args]
    only = [argument.arg for argument in arguments.posonlyargs]
    if only and only[0] in ("self", "cls"):
        only = only[1:]
    elif plain and plain[0] in ("self", "cls") and not only:
        plain = plain[1:]
    defaults = len(arguments.defaults)
    required = plain[: max(0, len(plain) - defaults)]
    optional = plain[len(required) :]
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        (optional if default is not None else required).append(argument.arg)
    needed_only = only[: max(0, len(only) - max(0, defaults - len(plain)))]
    return Signature(
        kind, True, tuple(required), tuple(optional), tuple(needed_only), arguments.kwarg is not None, asynchronous
    )


@dataclass(frozen=True)
class Reward:
    """One reward function of a setup."""

    index: int
    name: str
    text: str
    signature: Signature
    reads: str
    returns: str

    @property
    def shown(self) -> str:
        """The name as messages show it."""
        return self.name or f"reward {self.index + 1}"

    def fields(self, part: str) -> tuple[str, ...]:
        """Return the setup paths of one part of this reward, the exact one first."""
        return (f"rewards[{self.index}].{part}", f"rewards[].{part}", "rewards", "reward_funcs")


def rewards_of(entries: list[Mapping[str, Any]]) -> list[Reward]:
    """Return the rewards of a setup with their signatures parsed."""
    return [
        Reward(
            index,
            str(entry.get("name") or entry.get("reward") or ""),
            str(entry.get("signature") or ""),
            parse_signature(entry.get("signature")),
            _text(entry.get("reads")) or SHIPPED_READS.get(str(entry.get("name") or "").rpartition(".")[2], ""),
            _text(entry.get("returns")) or _annotated(entry.get("signature")),
        )
        for index, entry in enumerate(entries)
    ]


def _annotated(signature: Any) -> str:
    return parse_signature(signature).annotation


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value))
    return "" if value is None else str(value)
