"""What the tools of a row declare: their parameters as schemas, and the types of those."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlvr_rewards import _json

Tools = dict[str, Mapping[str, Any]]

# Python's names of types, as data sets of function calls write them in the place of JSON Schema's.
_PYTHON_TYPES = {
    **{"str": "string", "int": "integer", "float": "number", "bool": "boolean", "none": "null", "nonetype": "null"},
    **{"dict": "object", "list": "array", "tuple": "array", "set": "array"},
}
_OPTIONAL = re.compile(r"Optional\[(?P<inside>.*)\]|(?P<before>.*),\s*optional\b.*")


class ToolProblem(ValueError):
    """Tools that are missing or malformed."""


def declared_tools(value: Any) -> Tools:
    """Return the schema of the parameters of each tool by its name.

    Args:
        value: A list of `{"name", "parameters"}` or `{"type": "function", "function": {..}}`, or its JSON text.

    Raises:
        ToolProblem: It is anything else.
        JsonProblem: The text is not JSON.
    """
    entries = _json.column_value(value)
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise ToolProblem(f"the tools are {type(entries).__name__}, not a list")
    tools: Tools = {}
    for entry in entries:
        function = entry.get("function", entry) if isinstance(entry, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise ToolProblem("a tool needs 'name' and 'parameters'")
        parameters = _json.column_value(function.get("parameters") or {})
        if not isinstance(parameters, Mapping):
            raise ToolProblem(f"the parameters of tool {function['name']!r} are not a schema")
        tools[function["name"]] = _schema_of(parameters)
    return tools


def _schema_of(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return parameters as one schema: some data sets give only the mapping of their names to their schemas."""
    by_name = parameters and all(isinstance(value, Mapping) for value in parameters.values())
    inner = parameters.get("properties")
    is_schema = isinstance(inner, Mapping) and all(isinstance(value, Mapping) for value in inner.values())
    return {"type": "object", "properties": parameters} if by_name and not is_schema else parameters


def tool_in_any_case(name: str, tools: Tools) -> Mapping[str, Any]:
    """Return the schema of a tool whose name agrees but for the case of its letters, {} when there is none."""
    folded = name.casefold()
    return next((schema for known, schema in tools.items() if known.casefold() == folded), {})


def properties(schema: Any) -> Mapping[str, Any]:
    """Return the declared properties of a schema."""
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def allows_null(schema: Any) -> bool:
    """Return whether null is a value of a schema, as far as its type and enum say."""
    if not isinstance(schema, Mapping):
        return True
    wanted = kinds(schema)
    return "null" in wanted if wanted else "enum" not in schema or None in (schema["enum"] or ())


def kinds(schema: Any) -> set[str]:
    """Return the types that a schema names, by JSON Schema's names; none when it names none.

    `int`, `List[str]`, `Optional[str]` and `str, optional` are read as well.
    """
    given = schema.get("type") if isinstance(schema, Mapping) else None
    names = [given] if isinstance(given, str) else given if isinstance(given, Sequence) else ()
    return {kind for name in names if isinstance(name, str) for kind in _kinds_of(name) if kind}


def _kinds_of(name: str) -> tuple[str, ...]:
    optional = _OPTIONAL.fullmatch(name)
    if optional:
        return (_kind(optional["inside"] or optional["before"]), "null")
    return (_kind(name),)


def _kind(name: str) -> str:
    plain = re.split(r"[\[,(]", name, maxsplit=1)[0].strip()
    return "" if plain.lower() == "any" else _PYTHON_TYPES.get(plain.lower(), plain)
