"""Tool calls read from what a model wrote, in the common chat formats."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlvr_rewards import _json, _pythonic
from rlvr_rewards._core import Completion
from rlvr_rewards._text import after_thinking, content_text
from rlvr_rewards._tools import kinds


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call: the tool's name and its arguments as given (an object, or its JSON text).

    `untyped` says that every argument is the bare text between its tags, whose type only the tool's schema tells.
    """

    name: str
    arguments: Any
    untyped: bool = False


class CallProblem(ValueError):
    """Text that begins a tool call and is none."""


def calls_of(completion: Completion, syntax: str) -> list[Call] | None:
    """Return the tool calls of a completion, in order, or None when its thinking never ends.

    Structured `tool_calls` of chat messages always count; the text of assistant messages is read in `syntax`.

    Raises:
        CallProblem: Something begins a call and is not one.
    """
    messages = [{"role": "assistant", "content": completion}] if isinstance(completion, str) else completion
    calls: list[Call] = []
    for message in messages:
        if message.get("role", "assistant") != "assistant":
            continue
        text = after_thinking(content_text(message.get("content")))
        if text is None:
            return None
        calls.extend(PARSERS[syntax](text))
        calls.extend(_structured(message.get("tool_calls") or ()))
    return calls


def _structured(entries: Any) -> list[Call]:
    """Read OpenAI's `tool_calls`: `{"type": "function", "function": {"name", "arguments"}}`, or the bare function."""
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise CallProblem("tool_calls is not a list")
    calls = []
    for entry in entries:
        function = entry.get("function", entry) if isinstance(entry, Mapping) else None
        if not isinstance(function, Mapping):
            raise CallProblem("an entry of tool_calls is no function call")
        arguments = function.get("arguments")
        # OpenAI's servers send an empty text for a call without arguments.
        calls.append(_call({**function, "arguments": {} if arguments in (None, "") else arguments}, "arguments"))
    return calls


def _hermes(text: str) -> list[Call]:
    """Read `<tool_call>{"name": .., "arguments": {..}}</tool_call>`, one object a tag."""
    opening, closing = "<tool_call>", "</tool_call>"
    calls: list[Call] = []
    position = 0
    while (start := text.find(opening, position)) >= 0:
        if closing in text[position:start]:
            raise CallProblem(f"{closing} without {opening}")
        value, position = _value(text, start + len(opening))
        position = _space(text, position)
        if not text.startswith(closing, position):
            raise CallProblem(f"a call without {closing}")
        position += len(closing)
        calls.append(_call(value, "arguments"))
    if closing in text[position:]:
        raise CallProblem(f"{closing} without {opening}")
    return calls


def _llama(text: str) -> list[Call]:
    """Read Llama: `{"name": .., "parameters": {..}}`, several parted by `;`, after an optional opening mark.

    The mark is `<|python_tag|>` in Llama 3, and `<|python_start|>` in Llama 4, which may close it. Llama 3.2 and 4 also
    write `[name(key='value'), ..]`.
    """
    body = text.strip()
    for end in ("<|eom_id|>", "<|eot_id|>", "<|eot|>", "<|eom|>", "<|python_end|>"):
        body = body.removesuffix(end).rstrip()
    mark = next((mark for mark in ("<|python_tag|>", "<|python_start|>") if body.startswith(mark)), "")
    body = body.removeprefix(mark).lstrip()
    if _pythonic.BEGINNING.match(body):
        try:
            return [Call(name, arguments) for name, arguments in _pythonic.read(body)]
        except ValueError as problem:
            raise CallProblem(str(problem)) from None
    if not body.startswith("{"):
        if mark:
            raise CallProblem(f"{mark} without a call")
        return []
    calls: list[Call] = []
    position = 0
    while position < len(body):
        value, position = _value(body, position)
        key = "parameters" if isinstance(value, Mapping) and "parameters" in value else "arguments"
        calls.append(_call(value, key))
        position = _space(body, position)
        if position < len(body) and body[position] != ";":
            raise CallProblem("text after a call")
        position += 1
    return calls


_MISTRAL_NAME = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\s*[\w-]+\s*)?(?:\[ARGS\])?\s*(?=\{)")


def _mistral(text: str) -> list[Call]:
    """Read Mistral: `[TOOL_CALLS][{..}, {..}]`, and the newer `[TOOL_CALLS]name[ARGS]{..}`."""
    mark = "[TOOL_CALLS]"
    calls: list[Call] = []
    position = text.find(mark)
    while position >= 0:
        position = _space(text, position + len(mark))
        name = _MISTRAL_NAME.match(text, position)
        if name:
            value, position = _value(text, name.end())
            calls.append(_call({"name": name[1], "arguments": value}, "arguments"))
        else:
            value, position = _value(text, position)
            if not isinstance(value, list):
                raise CallProblem(f"{mark} without a list of calls")
            calls.extend(_call(entry, "arguments") for entry in value)
        following = text.find(mark, position)
        rest = text[position : following if following >= 0 else len(text)]
        if rest.removesuffix("</s>").strip():
            raise CallProblem("text after a call")
        position = following
    return calls


_FUNCTION = re.compile(r"\s*<function=([^<>\s]+)>")
_PARAMETER = re.compile(r"\s*<parameter=([^<>\s]+)>(.*?)</parameter>", re.DOTALL)
_FUNCTION_END = re.compile(r"\s*</function>\s*</tool_call>")


def _qwen_xml(text: str) -> list[Call]:
    """Read Qwen3-Coder: `<tool_call><function=NAME><parameter=KEY>text</parameter>..</function></tool_call>`."""
    calls: list[Call] = []
    position = 0
    while (start := text.find("<tool_call>", position)) >= 0:
        if "</tool_call>" in text[position:start]:
            raise CallProblem("</tool_call> without <tool_call>")
        head = _FUNCTION.match(text, start + len("<tool_call>"))
        if head is None:
            raise CallProblem("a call without <function=..>")
        position, arguments = head.end(), dict[str, str]()
        while parameter := _PARAMETER.match(text, position):
            key, value = parameter.groups()
            if key in arguments:
                raise CallProblem(f"the parameter {key!r} is repeated")
            # The template writes each value on lines of its own.
            arguments[key], position = value.removeprefix("\n").removesuffix("\n"), parameter.end()
        end = _FUNCTION_END.match(text, position)
        if end is None:
            raise CallProblem("a call without </function></tool_call>")
        position = end.end()
        calls.append(Call(head[1], arguments, untyped=True))
    if "</tool_call>" in text[position:] or "<function=" in text[position:]:
        raise CallProblem("a call that does not begin with <tool_call>")
    return calls


def typed(text: str, schema: Any) -> Any:
    """Return what the text of an argument means under its schema: itself where text is allowed, else its JSON value."""
    schema = schema if isinstance(schema, Mapping) else {}
    wanted = kinds(schema)
    if "null" in wanted and text.strip().lower() in ("null", "none"):
        return None
    if "string" in wanted or (not wanted and text in schema.get("enum", (text,))):
        return text
    try:
        return _json.loads(text.strip().lower() if wanted == {"boolean"} else text)
    except _json.JsonProblem:
        return text


def _messages_only(text: str) -> list[Call]:
    return []


PARSERS: Mapping[str, Callable[[str], list[Call]]] = {
    "hermes": _hermes,
    "llama": _llama,
    "mistral": _mistral,
    "qwen_xml": _qwen_xml,
    "openai": _messages_only,
}


def _value(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value at `start`, after whitespace, and the position behind it."""
    try:
        return _json.raw_decode(text, _space(text, start))
    except _json.JsonProblem as problem:
        raise CallProblem(str(problem)) from None


def _space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _call(value: Any, key: str) -> Call:
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str) or key not in value:
        raise CallProblem(f"a call needs 'name' and {key!r}")
    return Call(value["name"], value[key])
