"""The runs of a script, in the shapes in which data sets keep them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# The names of the two columns, ours first.
_INPUTS = ("stdin", "input", "inputs")
_OUTPUTS = ("stdout", "output", "outputs")
# What says that a test calls a function instead of running the script.
_KINDS = ("testtype", "type")
_CALLS = ("functional", "function_call")


class BadTests(Exception):
    """The row cannot be graded; the text says why."""


@dataclass(frozen=True)
class Case:
    """One run of a script: what it reads and what it must write."""

    stdin: str
    stdout: str


def runs(tests: Any) -> tuple[Case, ...]:
    """Read the runs of a script.

    Args:
        tests: A list of `{"stdin", "stdout"}`, a mapping of both names to a list each, or either as JSON text. The
            names may be `input` and `output`, or `inputs` and `outputs`; a text may be given as a list of its lines.

    Raises:
        BadTests: They are anything else, or call a function.
    """
    if isinstance(tests, str):
        try:
            tests = json.loads(tests)
        except (ValueError, RecursionError):
            raise BadTests("the tests are text that is no JSON list") from None
    if isinstance(tests, Mapping):
        tests = _paired(tests)
    if not isinstance(tests, Sequence) or isinstance(tests, str) or not tests:
        raise BadTests("the tests must be a list of {'stdin', 'stdout'}, and not empty")
    return tuple(_case(place, entry) for place, entry in enumerate(tests))


def _case(place: int, entry: Any) -> Case:
    if not isinstance(entry, Mapping):
        raise BadTests(f"test {place} is no {{'stdin', 'stdout'}}")
    _refuse_calls(entry)
    stdin, stdout = (_text(_named(entry, names)) for names in (_INPUTS, _OUTPUTS))
    if stdin is None:
        stdin = "" if _named(entry, _INPUTS) is None else None
    if stdin is None or stdout is None:
        raise BadTests(f"test {place} needs text in 'stdout' (and text in 'stdin', if any)")
    return Case(stdin, stdout)


def _paired(tests: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return `{"inputs": [..], "outputs": [..]}`, as data sets of contests keep their tests, as a list of runs."""
    _refuse_calls(tests)
    inputs, outputs = _named(tests, _INPUTS), _named(tests, _OUTPUTS)
    lists = all(isinstance(side, Sequence) and not isinstance(side, str) for side in (inputs, outputs))
    if not lists or len(inputs) != len(outputs):
        raise BadTests("the tests need 'inputs' and 'outputs', lists of the same length")
    return [{"stdin": stdin, "stdout": stdout} for stdin, stdout in zip(inputs, outputs, strict=True)]


def _refuse_calls(entry: Mapping[str, Any]) -> None:
    if entry.get("fn_name"):
        raise BadTests("the tests call a function ('fn_name'); write them as asserts")
    kind = next((name for name in _KINDS if entry.get(name) in _CALLS), None)
    if kind is not None:
        raise BadTests(f"the tests call a function ({kind!r} is {entry[kind]!r}); write them as asserts")


def _named(entry: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((entry[name] for name in names if entry.get(name) is not None), None)


def _text(value: Any) -> str | None:
    """Return a text that is given as such or as its lines, None for anything else."""
    if isinstance(value, list | tuple) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value if isinstance(value, str) else None
