"""What a fix costs under the other transformers releases that a TRL release can be installed with."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from packaging.specifiers import SpecifierSet

from grpo_rlvr.config.lifetimes import minor
from grpo_rlvr.config.tables import Table, transformers_history
from grpo_rlvr.config.typecheck import wanted_types

KINDS: dict[type, tuple[str, ...]] = {
    bool: ("boolean",), int: ("integer", "number"), float: ("number",), str: ("string",), list: ("array",),
    dict: ("object",), type(None): ("null",),
}  # fmt: skip


@lru_cache(maxsize=64)
def admitted(spec: str) -> tuple[int, ...]:
    """Return the positions, in the history of transformers, of the releases that a range of TRL's metadata admits."""
    allowed = SpecifierSet(spec)
    return tuple(at for at, text in enumerate(transformers_history()["releases"]) if allowed.contains(text))


def breaks_elsewhere(changes: Mapping[str, Any], table: Table) -> str:
    """Return under which admitted transformers releases a fix is wrong and why, empty when it holds for all of them.

    Args:
        changes: The kwargs that the fix sets; TRL's own ones are the same whatever transformers is installed.
        table: The fields of the release that is assumed.
    """
    inherited = {name: value for name, value in changes.items() if table.fields.get(name, {}).get("x-from") != "trl"}
    for name, value in inherited.items():
        if wrong := _wrong_under(name, value, table):
            return wrong
    return ""


def _wrong_under(name: str, value: Any, table: Table) -> str:
    positions = admitted(table.requires.get("transformers", ""))
    spans = transformers_history()["fields"].get(name, [])
    specs = {at: spec for first, last, spec in spans for at in positions if first <= at <= last}
    missing = [at for at in positions if at not in specs]
    unfit = [at for at in specs if not _takes(specs[at], value)]
    bad = missing or unfit
    if not bad or not positions:
        return ""
    releases = transformers_history()["releases"]
    span = f"up to {minor(releases[bad[-1]])}" if bad[0] == positions[0] else f"from {minor(releases[bad[0]])} on"
    what = f"{name} does not exist" if missing else f"{name} takes {wanted_types(specs[bad[0]])}"
    return f"with transformers {span}, which TRL {table.trl} admits too, {what}"


def _takes(spec: Mapping[str, Any], value: Any) -> bool:
    types = spec.get("type", ())
    types = (types,) if isinstance(types, str) else types
    return not types or bool({*types}.intersection(KINDS.get(type(value), ())))
