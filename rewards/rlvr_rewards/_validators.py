"""Compiled JSON Schema validators: jsonschema-rs where installed, otherwise jsonschema; nothing is ever fetched."""

import functools
import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rlvr_rewards import _worker
from rlvr_rewards._core import MissingExtraError

IsValid = Callable[[Any], bool]
# Compiled schemas are small; a data set rarely holds more than a few hundred different ones.
CACHED_SCHEMAS = 2048


# Processor seconds that one validation may take in the worker.
WORKER_SECONDS = 1.0


class ValidationOverrun(RuntimeError):
    """Validating one document took longer than allowed, or more memory."""


class ValidationUnavailable(RuntimeError):
    """The process that validates cannot be started."""


class SchemaProblem(ValueError):
    """A schema that cannot be used: invalid, of an unknown draft, or with a reference outside itself."""


def engine() -> str:
    """Return the name of the installed engine that is used.

    Raises:
        MissingExtraError: None is installed.
    """
    for module in ("jsonschema_rs", "jsonschema"):
        if importlib.util.find_spec(module) is not None:
            return module
    raise MissingExtraError(
        "the schema reward needs jsonschema-rs (fast) or jsonschema: pip install 'grpo-rlvr-training[schema]'"
    )


def compiled(schema: Any, assert_formats: bool) -> IsValid:
    """Return a function that says whether a document fits the schema.

    Args:
        schema: A mapping or a bool, or either as JSON text. Without `$schema` it is JSON Schema 2020-12.
        assert_formats: `format` is asserted.

    Raises:
        SchemaProblem: The schema is invalid, of an unknown draft, or refers to something outside itself.
        MissingExtraError: No engine is installed.
    """
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaProblem(f"the schema is not plain JSON: {error}") from None
    found = _compiled_text(text, assert_formats, engine())
    if isinstance(found, str):
        raise SchemaProblem(found)
    return found


@functools.lru_cache(maxsize=CACHED_SCHEMAS)
def _compiled_text(text: str, assert_formats: bool, name: str) -> IsValid | str:
    """Return the compiled schema, or what is wrong with it, so that both are cached."""
    try:
        schema = json.loads(text)
        if not isinstance(schema, Mapping | bool):
            return f"a schema is an object or a bool, not {type(schema).__name__}"
        if name == "jsonschema_rs":
            return _rust(schema, assert_formats)
        here = _python(schema, assert_formats)
        return functools.partial(_elsewhere, text, assert_formats) if '"pattern' in text else here
    except (SchemaProblem, ValueError, RecursionError) as error:
        return f"the schema cannot be used: {str(error)[:300]}"


def compiled_here(text: str, assert_formats: bool) -> IsValid:
    """Return the Python engine's validator, which a regular expression can hang: for a process that can be killed."""
    return _python(json.loads(text), assert_formats)


def _elsewhere(text: str, assert_formats: bool, document: Any) -> bool:
    """Validate in the killable worker.

    Raises:
        ValidationOverrun: A pattern of the schema took too long on this document.
        ValidationUnavailable: The worker cannot be started.
    """
    payload = {"schema": text, "assert_formats": assert_formats, "document": document}
    state, result = _worker.SHARED.call("schema", payload, WORKER_SECONDS)
    if state == "done":
        return bool(result)
    if state in ("timeout", "died"):
        raise ValidationOverrun(state)
    raise ValidationUnavailable(str(result))


def _rust(schema: Any, assert_formats: bool) -> IsValid:
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(schema, validate_formats=assert_formats, retriever=_refuse)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise SchemaProblem(str(error).split("\n", 1)[0]) from None
    is_valid: IsValid = validator.is_valid
    return is_valid


def _refuse(uri: str) -> Any:
    raise SchemaProblem(f"references outside the schema are refused: {uri}")


def _python(schema: Any, assert_formats: bool) -> IsValid:
    import jsonschema
    from jsonschema.exceptions import SchemaError

    known = isinstance(schema, Mapping) and "$schema" in schema
    kind = jsonschema.validators.validator_for(schema, default=None if known else jsonschema.Draft202012Validator)  # type: ignore[arg-type]
    if kind is None:
        raise SchemaProblem(f"unknown draft {schema['$schema']!r}")
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise SchemaProblem(f"{error.message} at {error.json_path}") from None
    checker = kind.FORMAT_CHECKER if assert_formats else None
    _check_references(schema, kind)
    if checker is not None:
        _check_formats(schema, set(checker.checkers))
    is_valid: IsValid = kind(schema, format_checker=checker).is_valid
    return is_valid


def _check_references(schema: Any, kind: Any) -> None:
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import specification_with

    if isinstance(schema, bool):
        return
    draft = specification_with(kind.META_SCHEMA.get("$id") or kind.META_SCHEMA["id"])
    root = draft.create_resource(schema)
    resolver = Registry().with_resource(root.id() or "", root).resolver_with_root(root)
    waiting: list[tuple[Resource[Any], Any]] = [(root, resolver)]
    while waiting:
        resource, base = waiting.pop()
        contents = resource.contents if isinstance(resource.contents, Mapping) else {}
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            target = contents.get(keyword)
            if isinstance(target, str):
                try:
                    base.lookup(target)
                except Unresolvable:
                    raise SchemaProblem(f"references outside the schema are refused: {target}") from None
        waiting.extend((inner, base.in_subresource(inner)) for inner in resource.subresources())


def _check_formats(schema: Any, known: set[str]) -> None:
    for name in _formats(schema):
        if name in STANDARD_FORMATS and name not in known:
            raise SchemaProblem(
                f"format {name!r} cannot be asserted by the installed jsonschema; install jsonschema-rs"
            )


def _formats(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        name = schema.get("format")
        if isinstance(name, str):
            yield name
        for key, entry in schema.items():
            if key not in ("const", "enum", "default", "examples"):
                yield from _formats(entry)
    elif isinstance(schema, list):
        for entry in schema:
            yield from _formats(entry)


# The formats of JSON Schema 2020-12, section 7.3; others are annotations to every engine.
STANDARD_FORMATS = frozenset(
    {
        *("date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"),
        *("uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer"),
        *("relative-json-pointer", "regex"),
    }
)
