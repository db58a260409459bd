"""Which values have a type that the option cannot take: the version's JSON Schema, with what TRL also accepts."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from grpo_rlvr.config.tables import Table, table
from grpo_rlvr.config.view import as_mapping

# Options whose annotation grew or lost None between releases while None kept meaning "no limit".
NONE_IS_DEFAULT = frozenset({"top_k", "max_completion_length"})
# Dict options that take text as JSON alone; the others (deepspeed, fsdp_config, accelerator_config) may name a file.
NEVER_A_PATH = frozenset(
    ["gradient_checkpointing_kwargs", "activation_checkpointing_kwargs", "lr_scheduler_kwargs", "generation_kwargs"]
)
NAMES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


# A switch that is None, 0 or 1 is off or on, whatever its annotation says; TRL never rounds a float to a whole number.
_TYPES = Draft202012Validator.TYPE_CHECKER.redefine_many(
    {
        "boolean": lambda _, value: value is None or (isinstance(value, int) and value in (0, 1)),
        "integer": lambda _, value: isinstance(value, int) and not isinstance(value, bool),
        "object": lambda _, value: isinstance(value, Mapping),
        "array": lambda _, value: isinstance(value, list | tuple),
    }
)
_Checker: type[Validator] = extend(Draft202012Validator, type_checker=_TYPES)  # type: ignore[no-untyped-call]


@lru_cache(maxsize=64)
def _checker(trl: str, transformers: str) -> Validator:
    return _Checker(table(trl, transformers).schema())


def types_of(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the JSON types of a field, empty when anything goes."""
    types = spec.get("type", ())
    return (types,) if isinstance(types, str) else tuple(types)


def wanted_types(spec: Mapping[str, Any]) -> str:
    """Return what a field takes in words, e.g. `a whole number`."""
    return _wanted(types_of(spec))


def wrongly_typed(given: Mapping[str, Any], fields: Table) -> dict[str, str]:
    """Return the known kwargs whose value cannot be used, with what they take, e.g. `a whole number`."""
    errors = _checker(fields.trl, fields.transformers).iter_errors(given)
    wrong = {str(error.path[0]) for error in errors if error.validator == "type" and error.path}
    wrong -= {name for name in NONE_IS_DEFAULT if given.get(name) is None}
    texts = {name: value for name, value in given.items() if isinstance(value, str) and name in fields}
    wrong |= {name for name, value in texts.items() if _text_that_is_no_object(value, types_of(fields.fields[name]))}
    wrong |= {name for name, value in texts.items() if name in NEVER_A_PATH and not value.lstrip().startswith("{")}
    return {name: _wanted(types_of(fields.fields[name])) for name in given if name in wrong}


def _wanted(types: tuple[str, ...]) -> str:
    return " or ".join(NAMES[kind] for kind in types if kind != "null") or "null"


def _text_that_is_no_object(value: str, types: tuple[str, ...]) -> bool:
    # Dict options accept text only because the command line can give nothing else: it must be JSON.
    looks_like_dict = "object" in types and "string" in types and value.startswith("{")
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
