"""Code fences around JSON and programs: what counts as one, and floods of marks that must not hold up a batch."""

import time
from typing import Any

import pytest

from rlvr_rewards import Schema, ToolCall, UnitTest, _program
from rlvr_rewards._core import Reward

NUMBERED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ONE = [{"name": "f", "arguments": {}}]

WHOLE = [
    *(('```json\n{"n": 1}\n```', 1.0), ('```JSON {"n": 1} ```', 1.0), ('~~~\n{"n": 1}\n~~~', 1.0)),
    *(('```` \n{"n": 1}\n````', 1.0), ('```json\r\n{"n": 1}\r\n```', 1.0), ('```\n{"n": 1, "s": "```"}\n```', 1.0)),
    *(('```python\n{"n": 1}\n```', 0.0), ('```json\n{"n": 1}', 0.0), ('{"n": 1}\n```', 0.0), ("```json\n```", 0.0)),
    *(('````\n{"n": 1}\n```', 0.0), ('```\n{"n": 1}\n~~~', 0.0), ("``````", 0.0), ('``{"n": 1}``', 0.0)),
    *(('Here: ```json\n{"n": 1}\n```', 0.0), ('```json\n{"n": 1}\n```\nDone.', 0.0)),
]


@pytest.mark.parametrize(("text", "score"), WHOLE)
def test_one_fence_around_the_document_is_accepted(text: str, score: float) -> None:
    assert Schema(schema=NUMBERED).grade(text, {}).score == score


PROSE = [
    *(('So:\n```json\n{"n": 1}\n```\nDone.', 1.0), ('Use ```json {"n": 1}``` there', 1.0)),
    *(('```json\n{"n": "a"}\n```\n```json\n{"n": 1}\n```', 1.0), ('```json\n{"n": 1}\n```\n```\n{"n": "a"}\n```', 0.0)),
    *(('```json\n{"n": 1, "s": "```x```"}\n```', 1.0), ('It is 12" wide. ```json\n{"n": 1}\n``` ok', 1.0)),
    *(('```json\n{"n": 1}\n```\n```python\nprint({"n": "a"})\n```', 1.0), ('```json\n{"n": 1}\n', 1.0)),
]


@pytest.mark.parametrize(("text", "score"), PROSE)
def test_the_last_fence_for_json_counts_in_prose(text: str, score: float) -> None:
    assert Schema(schema=NUMBERED, prose=True).grade(text, {}).score == score


LLAMA = [
    *(('<|python_start|>{"name": "f", "parameters": {}}<|python_end|><|eot|>', 1.0),),
    *(('<|python_tag|>{"name": "f", "parameters": {}}<|eom_id|>', 1.0), ("<|python_start|>f()<|python_end|>", 0.0)),
    *(('<|python_start|>{"name": "f", "parameters": {}} then', 0.0),),
]


@pytest.mark.parametrize(("text", "score"), LLAMA)
def test_the_marks_of_both_llamas_enclose_calls(text: str, score: float) -> None:
    assert ToolCall(syntax="llama", tools_column="").grade(text, {"gold": ONE}).score == score


FLOODS = (
    "`",
    "```\n",
    "~~~\n```\n",
    "```json\n{",
    "```json\n```",
    '```\n"\\',
    " ",
    "[{",
    '{"n":',
    "<tool_call>{",
    "<tool_call><function=f><parameter=k>",
    "<parameter=k></parameter>",
    "\n",
)
READERS: list[tuple[Reward, dict[str, Any]]] = [
    *((Schema(schema=NUMBERED), {}), (Schema(schema=NUMBERED, prose=True), {})),
    *(
        (ToolCall(syntax=syntax, tools_column=""), {"gold": ONE})
        for syntax in ("hermes", "llama", "mistral", "qwen_xml")
    ),
]


@pytest.mark.parametrize("piece", FLOODS)
@pytest.mark.parametrize(("reward", "row"), READERS)
def test_a_flood_of_marks_ends(reward: Reward, row: dict[str, Any], piece: str) -> None:
    flood = piece * (200_000 // len(piece))
    for text in (flood, "```json\n" + flood, flood + " x"):
        verdict = reward.grade(text, row)
        assert verdict.score == 0.0
        assert verdict.seconds < 10


@pytest.mark.parametrize("piece", FLOODS)
def test_a_flood_of_marks_holds_no_program(piece: str) -> None:
    started = time.process_time()
    _program.extract(piece * (200_000 // len(piece)), UnitTest().languages, "last", fence=True)
    assert time.process_time() - started < 10


def test_a_program_may_print_fences() -> None:
    text = '```python\ndef f():\n    return """\n```\n"""\n```\nThat is all.'
    program = _program.extract(text, UnitTest().languages, "last", fence=True)
    assert program == 'def f():\n    return """\n```\n"""'
