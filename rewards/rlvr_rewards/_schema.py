"""Is the completion a JSON document that fits its schema?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rlvr_rewards import _fences, _json, _validators
from rlvr_rewards._core import Completion, Reason, Reward, RewardSpecError, Row, Verdict, check_tag, one_of
from rlvr_rewards._text import after_thinking, last_block, text_of

LABELS = ("json", "jsonc", "json5", "")
# With prose allowed, every bracket could begin the document; only so many beginnings are tried.
MAX_STARTS = 64


@dataclass(eq=False, kw_only=True, repr=False)
class Schema(Reward):
    """1.0 when the completion is one JSON document that is valid under the schema; otherwise 0.0.

    Formula: 1.0 if valid, else 0.0. With `partial`, a document that is an object and not valid gives k / (n + 1),
    where n counts the properties that the top level of the schema declares or requires and k those that are present
    and valid by themselves; the missing 1 is the document as a whole. Range: {0.0, 1.0}, or [0, 1] with `partial`.
    How it is gamed: type-correct filler such as {"name": "string"} is valid; pair it with a check of the values.
    None: the schema is missing, invalid, of an unknown draft, or refers to something outside itself.

    Args:
        schema: One schema for every row, as a mapping or JSON text; without it each row's column is used.
        schema_column: The column that holds the schema, best as JSON text (Arrow fills missing keys of structs).
        fence: One code fence around the document is accepted, not required.
        prose: Text beside the document is allowed; the last document counts.
        think: "after_last_close" takes only text after the last `</think>`; "keep" takes the whole text.
        duplicate_keys: "reject" makes a repeated key invalid; "last" lets the last one count.
        finite_numbers: NaN, Infinity and numbers beyond a finite double are invalid.
        remote_refs: A reference outside the schema makes the row faulty; nothing is ever fetched.
        assert_formats: `format` is asserted.
        partial: Give the fraction above to documents that are not valid.
        answer_tag: Look only into the last block of this tag, such as "answer" for `<answer>..</answer>`; without a
            closed one there is no answer. "" looks at the whole text.

    Example:
        >>> reward = Schema(schema={"type": "object", "required": ["age"], "properties": {"age": {"type": "integer"}}})
        >>> reward(completions=['{"age": 36}', '{"age": "36"}', 'Sure! {"age": 36}'])
        [1.0, 0.0, 0.0]
    """

    schema: Mapping[str, Any] | bool | str | None = None
    schema_column: str = "schema"
    fence: bool = True
    prose: bool = False
    think: Literal["after_last_close", "keep"] = "after_last_close"
    duplicate_keys: Literal["reject", "last"] = "reject"
    finite_numbers: bool = True
    remote_refs: Literal["error"] = "error"
    assert_formats: bool = False
    partial: bool = False
    answer_tag: str = ""

    reward_name: ClassVar[str] = "schema"
    reasons: ClassVar[tuple[Reason, ...]] = ("correct", "not_json", "schema_error", "no_answer", "limit", "bad_row")

    def __post_init__(self) -> None:
        one_of("think", self.think, ("after_last_close", "keep"))
        one_of("duplicate_keys", self.duplicate_keys, ("reject", "last"))
        one_of("remote_refs", self.remote_refs, ("error",))
        check_tag("answer_tag", self.answer_tag)
        for flag in ("fence", "prose", "finite_numbers", "assert_formats", "partial"):
            one_of(flag, getattr(self, flag), (True, False))
        if self.partial:
            self.reasons = (*type(self).reasons, "partial")  # type: ignore[misc]
        _validators.engine()
        if self.schema is not None and (problem := self._schema_problem(self.schema)):
            raise RewardSpecError(f"argument 'schema': {problem}")
        super().__post_init__()

    def columns(self) -> tuple[str, ...]:
        """Return the column of the schema, unless one schema was given for all rows."""
        return () if self.schema is not None else (self.schema_column,)

    def judge_row(self, row: Row) -> str | None:
        """Refuse a schema that is missing or cannot be used."""
        schema = self._schema(row)
        return "the schema is missing" if schema is None else self._schema_problem(schema)

    def judge_output(self, completion: Completion, row: Row) -> Verdict:
        """Parse the document and validate it."""
        text: str | None = text_of(completion)
        if self.think == "after_last_close":
            text = after_thinking(text or "")
        if text is not None and self.answer_tag:
            text = last_block(text, self.answer_tag)
        if text is None or not text.strip():
            return Verdict(0.0, "no_answer")
        try:
            source, document = self._document(text)
        except _json.JsonProblem as problem:
            return Verdict(0.0, "limit" if problem.limit else "not_json", None, {"problem": str(problem)})
        try:
            return self._validated(source, document, self._schema(row))
        except _validators.ValidationOverrun:
            return Verdict(
                0.0, "timeout", source, {"problem": "a pattern of the schema took too long on this document"}
            )
        except _validators.ValidationUnavailable as error:
            return Verdict(None, "harness_error", source, {"problem": str(error)})
        except (RecursionError, UnicodeEncodeError, OverflowError) as error:
            return Verdict(0.0, "limit", source, {"problem": f"{type(error).__name__} while validating"})

    def _schema(self, row: Row) -> Any:
        return self.schema if self.schema is not None else row[self.schema_column]

    def _schema_problem(self, schema: Any) -> str | None:
        try:
            _validators.compiled(schema, self.assert_formats)
        except _validators.SchemaProblem as problem:
            return str(problem)
        return None

    def _validated(self, source: str, document: Any, schema: Any) -> Verdict:
        if _validators.compiled(schema, self.assert_formats)(document):
            return Verdict(1.0, "correct", source)
        if not self.partial:
            return Verdict(0.0, "schema_error", source)
        score = self._fraction(document, schema)
        return Verdict(score, "partial" if score else "schema_error", source)

    def _fraction(self, document: Any, schema: Any) -> float:
        whole = _json.column_value(schema)
        if not isinstance(whole, Mapping) or not isinstance(document, Mapping):
            return 0.0
        declared = whole.get("properties", {})
        names = {*declared, *whole.get("required", ())}
        # A property's schema may refer to the definitions of the whole.
        shared = {key: whole[key] for key in ("$schema", "$id", "$defs", "definitions") if key in whole}
        good = 0
        for name in names & set(document):
            alone = {**shared, "properties": {name: declared.get(name, True)}}
            good += _validators.compiled(alone, self.assert_formats)({name: document[name]})
        return good / (len(names) + 1)

    def _document(self, text: str) -> tuple[str, Any]:
        """Return the document's text and value.

        Raises:
            JsonProblem: There is none.
        """
        _json.check_size(text)
        if self.prose:
            return self._document_in_prose(text)
        # What JSON itself takes for white space, and nothing else.
        source = text.strip(" \t\r\n")
        if self.fence and (block := _fences.whole_block(source)) and block.label in LABELS:
            source = block.body
        return source, self._loads(source)

    def _document_in_prose(self, text: str) -> tuple[str, Any]:
        bodies = [block.body for block in _fences.blocks(text) if block.label in LABELS]
        if self.fence and bodies:
            return bodies[-1], self._loads(bodies[-1])
        found: tuple[str, Any] | None = None
        position, tries = 0, 0
        while (start := _next_bracket(text, position)) >= 0 and tries < MAX_STARTS:
            tries += 1
            try:
                _, position = _json.raw_decode(text, start)
                source = text[start:position]
                found = (source, self._loads(source))
            except _json.JsonProblem:
                position = start + 1
        if found is None:
            raise _json.JsonProblem("no JSON object or array in the text")
        return found

    def _loads(self, source: str) -> Any:
        return _json.loads(source, duplicate_keys=self.duplicate_keys == "last", finite=self.finite_numbers)


def _next_bracket(text: str, start: int) -> int:
    places = [place for place in (text.find("{", start), text.find("[", start)) if place >= 0]
    return min(places, default=-1)
