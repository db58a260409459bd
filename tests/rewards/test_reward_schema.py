"""JSON Schema by both engines: same verdicts, nothing fetched, patterns that hang, partial credit."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_rewards import Schema, _json, _validators

PROPERTIES = {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}, "tags": {"type": "array"}}
PERSON = {"type": "object", "properties": PROPERTIES, "required": ["name", "age"], "additionalProperties": False}


@pytest.fixture
def python_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use jsonschema although jsonschema-rs is installed."""
    monkeypatch.setattr(_validators, "engine", lambda: "jsonschema")
    yield


FRACTIONS = [
    *(('{"name": "A", "age": 1}', 1.0), ('{"name": "A", "age": 1, "tags": []}', 1.0), ('{"name": "A"}', 0.25)),
    *(('{"name": "A", "age": -1}', 0.25), ("{}", 0.0), ("[]", 0.0), ('{"name": "A", "age": 1, "x": 1}', 0.5)),
    *(('{"name": 1, "age": 1, "tags": 5}', 0.25), ('{"name": "A", "age": "x", "tags": []}', 0.5), ("no", 0.0)),
]


@pytest.mark.parametrize(("document", "score"), FRACTIONS)
def test_partial_credit_is_the_stated_fraction(document: str, score: float) -> None:
    assert Schema(schema=PERSON, partial=True).grade(document, {}).score == score


def test_partial_credit_follows_local_references() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a", "b"]}
    assert Schema(schema=schema, partial=True).grade('{"a": 1}', {}).score == pytest.approx(1 / 3)
    assert Schema(schema=schema, partial=True).grade('{"a": "x"}', {}).score == 0.0


BAD = [
    *({"type": "objekt"}, {"$ref": "https://example.com/x.json"}, {"$ref": "#/$defs/none"}, {"pattern": "("}),
    *({"$schema": "http://example.org/own"}, {"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "{", "5", [1]),
]


@pytest.mark.parametrize("schema", BAD, ids=str)
def test_both_engines_refuse_schemas_that_cannot_be_used(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for engine in ("jsonschema_rs", "jsonschema"):
        monkeypatch.setattr(_validators, "engine", lambda engine=engine: engine)
        assert len(Schema().check_rows([{"schema": schema}])) == 1
        assert Schema().grade("{}", {"schema": schema}).score is None


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    for engine in ("jsonschema_rs", "jsonschema"):
        monkeypatch.setattr(_validators, "engine", lambda engine=engine: engine)
        [problem] = Schema().check_rows([{"schema": {"$ref": "http://127.0.0.1:9/x.json"}}])
        assert "refused" in problem.problem or "retriev" in problem.problem


@pytest.mark.usefixtures("python_engine")
def test_a_pattern_that_hangs_the_python_engine_is_ended() -> None:
    schema = {"type": "string", "pattern": "^(a+)+$"}
    # Unlimited, this takes the engine about a week.
    verdict = Schema(schema=schema).grade(json.dumps("a" * 40 + "b"), {})
    assert (verdict.score, verdict.reason) == (0.0, "timeout")
    assert Schema(schema=schema).grade('"aaa"', {}).score == 1.0


def test_the_fast_engine_does_not_hang_on_patterns() -> None:
    for pattern in ("^(a+)+$", "^(a+)+(?=c)$", r"^(a*)*\1b$"):
        assert Schema(schema={"pattern": pattern}).grade(json.dumps("a" * 60 + "c"), {}).seconds < 2


@pytest.mark.usefixtures("python_engine")
def test_a_format_that_the_engine_does_not_know_is_no_silent_pass() -> None:
    schema = {"properties": {"t": {"format": "uri-template"}}}
    known = "uri-template" in jsonschema.Draft202012Validator.FORMAT_CHECKER.checkers
    assert bool(Schema(assert_formats=True).check_rows([{"schema": schema}])) is not known


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-4, 4) | st.sampled_from(["", "a", "ab", "2026-01-01"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
LEAVES = st.one_of(
    st.builds(lambda kind: {"type": kind}, TYPES),
    st.builds(lambda value: {"const": value}, VALUES),
    st.builds(lambda values: {"enum": values}, st.lists(VALUES, min_size=1, max_size=3)),
    st.builds(lambda low, high: {"minimum": low, "exclusiveMaximum": high}, st.integers(-3, 3), st.integers(-3, 3)),
    st.builds(lambda count: {"minLength": count, "minItems": count, "minProperties": count}, st.integers(0, 2)),
    st.builds(lambda step: {"multipleOf": step}, st.sampled_from([1, 2, 0.5])),
    st.just({"uniqueItems": True}),
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda parts: {"oneOf": parts}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda part: {"not": part}, inner),
        st.builds(lambda part: {"items": part, "contains": part}, inner),
        st.builds(lambda a, b: {"properties": {"a": a}, "additionalProperties": b, "required": ["a"]}, inner, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(SCHEMAS, VALUES)
def test_both_engines_agree_with_jsonschema(schema: Any, document: Any) -> None:
    expected = jsonschema.Draft202012Validator(schema).is_valid(document)
    text = json.dumps(document)
    assert Schema(schema=schema).grade(text, {}).score == float(expected)
    assert _validators.compiled_here(json.dumps(schema), False)(document) == expected


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='{}[]",:\\ 019.eE-+nulltrfas\ud800\x00', max_size=60))
def test_odd_text_is_a_verdict(text: str) -> None:
    verdict = Schema(schema=True, prose=True).grade(text, {})
    assert verdict.score in (0.0, 1.0)
    assert Schema(schema=True).grade(text, {}).score in (0.0, 1.0)


@settings(max_examples=200, deadline=None)
@given(VALUES, VALUES)
def test_canonical_equality_is_json_equality(a: Any, b: Any) -> None:
    same = jsonschema.Draft202012Validator({"const": a}).is_valid(b)
    assert (_json.canonical(a) == _json.canonical(b)) == same


@pytest.mark.parametrize(
    "text", ["[" * 50_000, '{"a":' * 50_000, '"' + "\\" * 100_001, '["' * 50_000, "[" * 99 + '"' + "]" * 100]
)
def test_deep_and_broken_documents_take_no_time(text: str) -> None:
    verdict = Schema(schema=True).grade(text, {})
    assert verdict.score == 0.0 and verdict.seconds < 1


def test_depth_counts_brackets_outside_strings() -> None:
    assert _json.depth('[{"a": "[[[[\\"[["}]') == 2
    assert Schema(schema=True).grade("[" * 100 + "]" * 100, {}).score == 1.0
    assert Schema(schema=True).grade("[" * 101 + "]" * 101, {}).reason == "limit"
    assert Schema(schema=True).grade(json.dumps("[" * 5000), {}).score == 1.0


@pytest.mark.parametrize(("space", "score"), [(" \t\r\n", 1.0), ("\u00a0", 0.0), ("\u2028", 0.0), ("\f", 0.0)])
def test_only_what_json_takes_for_white_space_may_stand_around_a_document(space: str, score: float) -> None:
    assert Schema(schema={"type": "integer"})(completions=[f"{space}5{space}"]) == [score]
