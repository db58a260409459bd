"""Which values have a type that the option cannot take."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.config.tables import Table
from grpo_rlvr.config.view import as_mapping

# Options whose annotation grew or lost None between releases while None kept meaning "no limit".
NONE_IS_DEFAULT = frozenset({"top_k", "max_completion_length"})
NAMES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


def types_of(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the JSON types of a field, empty when anything goes."""
    types = spec.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)


def fits(value: Any, types: tuple[str, ...]) -> bool:
    """Return whether a value is of one of the JSON types; a whole float counts as an integer only when it is one."""
    if not types:
        return True
    if value is None:
        # A switch that is None is off, whatever its annotation says.
        return "null" in types or "boolean" in types
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, int):
        return "integer" in types or "number" in types or ("boolean" in types and value in (0, 1))
    if isinstance(value, float):
        return "number" in types
    if isinstance(value, str):
        return "string" in types
    if isinstance(value, Mapping):
        return "object" in types
    return isinstance(value, list | tuple) and "array" in types


def wrongly_typed(given: Mapping[str, Any], table: Table) -> dict[str, str]:
    """Return the known kwargs whose value cannot be used, with what they take, e.g. `a whole number`."""
    found: dict[str, str] = {}
    for name, value in given.items():
        spec = table.fields.get(name)
        if spec is None:
            continue
        types = types_of(spec)
        if name in NONE_IS_DEFAULT and value is None:
            continue
        if not fits(value, types) or _text_that_is_no_object(value, types):
            found[name] = " or ".join(NAMES[kind] for kind in types if kind != "null") or "null"
    return found


def _text_that_is_no_object(value: Any, types: tuple[str, ...]) -> bool:
    # Dict options accept text only because the command line can give nothing else: it must be JSON.
    looks_like_dict = "object" in types and "string" in types and isinstance(value, str) and value.startswith("{")
    return looks_like_dict and not as_mapping(value) and value.strip() != "{}"


def as_typed(value: Any, types: tuple[str, ...]) -> Any:
    """Return the same value in a type that the option takes, None when there is none."""
    # Beyond 2**53 a float no longer says which whole number is meant.
    if isinstance(value, float) and "integer" in types and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    if "boolean" in types and text.lower() in {"true", "false"}:
        return text.lower() == "true"
    for kind, convert in (("integer", int), ("number", float)):
        if kind in types:
            try:
                number = convert(text)
            except ValueError:
                continue
            return number if number == number and abs(number) != float("inf") else None
    return None
