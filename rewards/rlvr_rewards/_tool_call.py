"""Are the tool calls the expected ones?"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rlvr_rewards import _json
from rlvr_rewards._calls import PARSERS, Call, CallProblem, calls_of, typed
from rlvr_rewards._core import Completion, Reason, Reward, RewardSpecError, Row, Verdict, one_of
from rlvr_rewards._text import after_thinking, text_of
from rlvr_rewards._tools import ToolProblem, Tools, allows_null, declared_tools, kinds, properties, tool_in_any_case


@dataclass(eq=False, kw_only=True, repr=False)
class ToolCall(Reward):
    """1.0 when the calls are exactly the expected ones; otherwise 0.0.

    Formula: 1.0 if the multiset of calls (the sequence, with `ordered`) equals the gold's, where two calls are equal
    when names and arguments are equal as JSON: 1 = 1.0, 1 is not true, "5" is not 5, key order does not matter, list
    order does. An extra, missing, repeated or malformed call is wrong. Range: {0.0, 1.0}.
    How it is gamed: rows whose gold is "no call" pay for calling nothing, so keep them a minority.
    None: the gold or the tools are missing or malformed, or the gold calls a tool that is not declared.

    Args:
        syntax: How calls are written: "hermes" (JSON in `<tool_call>` tags, also Qwen), "qwen_xml" (`<function=..>` in
            `<tool_call>` tags, as Qwen3-Coder; the text of an argument is read by the type in the tool's schema),
            "llama" (JSON, or a list of calls as in Python), "mistral", or "openai" (only the messages' `tool_calls`,
            which count in every syntax).
        coerce: Turn text into the number or bool that the tool's schema asks for before comparing.
        defaults: "fill" adds declared defaults on both sides before comparing; "keep" does not.
        ordered: The order of the calls matters.
        string_arguments: "decode" reads arguments given as one JSON text; "reject" makes them wrong.
        unterminated: A call without its closing tag is wrong.
        duplicate_keys: A repeated key makes the call malformed.
        prose: Text beside the calls is allowed.
        case: Letter case of names and text values matters.
        forbid: Any of these strings after the thinking makes the completion wrong.
        think: Only text after the last `</think>` of each message counts.
        gold_column: The column of expected calls: a list of {"name", "arguments"}, or its JSON text; [] means no call.
        tools_column: The column of tools: a list of {"name", "parameters"} or OpenAI's form, or its JSON text; "" when
            there is none. Parameters are a JSON Schema, or a mapping of parameter names to theirs; types may have
            Python's names.

    Example:
        >>> text = '<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>'
        >>> gold = [{"name": "weather", "arguments": {"city": "Paris"}}]
        >>> ToolCall(tools_column="")(completions=[text, "It rains."], gold=[gold, gold])
        [1.0, 0.0]
    """

    syntax: Literal["hermes", "qwen_xml", "llama", "mistral", "openai"] = "hermes"
    coerce: bool = False
    defaults: Literal["fill", "keep"] = "fill"
    ordered: bool = False
    string_arguments: Literal["decode", "reject"] = "decode"
    unterminated: Literal["reject"] = "reject"
    duplicate_keys: Literal["reject"] = "reject"
    prose: bool = True
    case: bool = True
    forbid: Sequence[str] = ()
    think: Literal["after_last_close"] = "after_last_close"
    gold_column: str = "gold"
    tools_column: str = "tools"

    reward_name: ClassVar[str] = "tool_call"
    reasons: ClassVar[tuple[Reason, ...]] = ("correct", "wrong_call", "no_answer", "bad_format", "limit", "bad_row")

    def __post_init__(self) -> None:
        one_of("syntax", self.syntax, tuple(PARSERS))
        one_of("defaults", self.defaults, ("fill", "keep"))
        one_of("string_arguments", self.string_arguments, ("decode", "reject"))
        one_of("unterminated", self.unterminated, ("reject",))
        one_of("duplicate_keys", self.duplicate_keys, ("reject",))
        one_of("think", self.think, ("after_last_close",))
        for flag in ("coerce", "ordered", "prose", "case"):
            one_of(flag, getattr(self, flag), (True, False))
        if isinstance(self.forbid, str) or not all(isinstance(entry, str) and entry for entry in self.forbid):
            raise RewardSpecError(f"argument 'forbid' must be a list of non-empty strings, not {self.forbid!r}")
        self.forbid = tuple(self.forbid)
        super().__post_init__()

    def columns(self) -> tuple[str, ...]:
        """Return the columns of the expected calls and of the tools."""
        return (self.gold_column, self.tools_column) if self.tools_column else (self.gold_column,)

    def judge_row(self, row: Row) -> str | None:
        """Refuse gold calls or tools that are missing or malformed."""
        try:
            self._expected(row)
        except (CallProblem, ToolProblem, _json.JsonProblem) as problem:
            return str(problem)
        return None

    def judge_output(self, completion: Completion, row: Row) -> Verdict:
        """Read the calls and compare them with the gold."""
        tools, gold = self._expected(row)
        text = after_thinking(text_of(completion))
        found = next((mark for mark in self.forbid if text and mark in text), None)
        if found:
            return Verdict(0.0, "bad_format", found, {"problem": f"forbidden text {found!r}"})
        try:
            _json.check_size(text_of(completion))
            calls = calls_of(completion, self.syntax)
            if calls is None:
                return Verdict(0.0, "no_answer", None, {"problem": "the thinking never ends"})
            if not self.prose and calls and _text_beside(text or "", self.syntax):
                return Verdict(0.0, "bad_format", None, {"problem": "text beside the calls"})
            made = [self._normal(call, tools) for call in calls]
        except (CallProblem, RecursionError) as problem:
            return Verdict(0.0, "wrong_call", None, {"problem": str(problem)[:300]})
        except _json.JsonProblem as problem:
            return Verdict(0.0, "limit" if problem.limit else "wrong_call", None, {"problem": str(problem)})
        same = made == gold if self.ordered else Counter(made) == Counter(gold)
        if not same and not calls:
            return Verdict(0.0, "no_answer", None, {"expected": len(gold)})
        names = ", ".join(call.name for call in calls)
        return Verdict(float(same), "correct" if same else "wrong_call", names, {"expected": len(gold)})

    def _expected(self, row: Row) -> tuple[Tools, list[Any]]:
        """Return the declared tools and the gold calls in comparable form.

        Raises:
            CallProblem: The expected calls cannot be graded.
            ToolProblem: The tools are missing or malformed.
            JsonProblem: A column's text is not JSON.
        """
        tools = declared_tools(row[self.tools_column]) if self.tools_column else {}
        gold = _json.column_value(row[self.gold_column])
        if not isinstance(gold, Sequence) or isinstance(gold, str):
            raise CallProblem(f"the gold is {type(gold).__name__}, not a list of calls")
        return tools, [self._normal(_gold_call(entry, tools), tools) for entry in gold]

    def _normal(self, call: Call, tools: Tools) -> Any:
        arguments = call.arguments
        if isinstance(arguments, str) and self.string_arguments == "decode":
            arguments = _json.loads(arguments)
        if not isinstance(arguments, Mapping):
            raise CallProblem(f"the arguments of {call.name!r} are not an object")
        schema = tools.get(call.name, {}) if self.case else tool_in_any_case(call.name, tools)
        if call.untyped:
            declared = properties(schema)
            arguments = {key: typed(value, declared.get(key)) for key, value in arguments.items()}
        if self.coerce:
            arguments = _coerced(arguments, schema)
        if self.defaults == "fill":
            arguments = _filled(arguments, schema)
        if not self.case:
            return call.name.casefold(), _json.canonical(_folded(arguments))
        return call.name, _json.canonical(arguments)


def _gold_call(entry: Any, tools: Tools) -> Call:
    function = entry.get("function", entry) if isinstance(entry, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise CallProblem("an expected call needs 'name' and 'arguments'")
    name, arguments = function["name"], function.get("arguments") or {}
    if tools and name not in tools:
        raise CallProblem(f"the gold calls {name!r}, which is not among the tools")
    arguments = _json.column_value(arguments)
    declared = properties(tools.get(name))
    for key, value in arguments.items() if isinstance(arguments, Mapping) else ():
        if value is None and key in declared and not allows_null(declared[key]):
            raise CallProblem(
                f"argument {key!r} of the gold call {name!r} is null, which its schema does not allow; Arrow fills "
                "missing keys of structs with null, so store the column as JSON text"
            )
    return Call(name, arguments)


def _filled(value: Any, schema: Any) -> Any:
    """Add declared defaults to objects, at every depth at which an object is present."""
    if isinstance(value, Mapping):
        declared = properties(schema)
        whole = {key: _filled(entry, declared.get(key)) for key, entry in value.items()}
        for key, inner in declared.items():
            if key not in whole and isinstance(inner, Mapping) and inner.get("default") is not None:
                whole[key] = inner["default"]
        return whole
    if isinstance(value, list) and isinstance(schema, Mapping):
        return [_filled(entry, schema.get("items")) for entry in value]
    return value


def _coerced(value: Any, schema: Any) -> Any:
    """Turn text into the number or bool that the schema asks for, where it is one."""
    if isinstance(value, Mapping):
        declared = properties(schema)
        return {key: _coerced(entry, declared.get(key)) for key, entry in value.items()}
    if isinstance(value, list) and isinstance(schema, Mapping):
        return [_coerced(entry, schema.get("items")) for entry in value]
    wanted = kinds(schema) - {"null"}
    if not isinstance(value, str) or len(wanted) != 1 or not wanted & {"integer", "number", "boolean"}:
        return value
    if wanted == {"boolean"}:
        return {"true": True, "false": False}.get(value.lower(), value)
    try:
        number = _json.loads(value)
    except _json.JsonProblem:
        return value
    is_number = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
    return number if is_number else value


def _folded(value: Any) -> Any:
    if isinstance(value, str):
        return value.casefold()
    if isinstance(value, Mapping):
        return {key: _folded(entry) for key, entry in value.items()}
    return [_folded(entry) for entry in value] if isinstance(value, list) else value


def _text_beside(text: str, syntax: str) -> bool:
    """Return whether anything but calls stands in the text; formats other than tags allow no prose anyway."""
    if syntax == "qwen_xml":
        return bool(re.sub(r"<tool_call>\s*<function=.*?</function>\s*</tool_call>", "", text, flags=re.DOTALL).strip())
    if syntax != "hermes":
        return False
    kept, position = [], 0
    while (start := text.find("<tool_call>", position)) >= 0:
        kept.append(text[position:start])
        _, end = _json.raw_decode(text, text.index("{", start))
        position = text.index("</tool_call>", end) + len("</tool_call>")
    return bool("".join((*kept, text[position:])).strip())
