"""The version tables: every GRPOConfig field of every TRL minor release, generated from the wheels."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from grpo_rlvr.config.versions import release
from grpo_rlvr.errors import InputError

SCHEMA = Path(__file__).parent / "schema"
OLDEST = "0.14"


@dataclass(frozen=True)
class Table:
    """The fields of one TRL release with the inherited ones of a transformers release.

    `fields` maps a kwarg to its JSON Schema; `requires` maps a package (or `python`) to its range in the metadata.
    """

    trl: str
    transformers: str
    fields: Mapping[str, Mapping[str, Any]]
    requires: Mapping[str, str]

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def default(self, name: str) -> Any:
        """Return a field's default, None when this release does not have the field."""
        return self.fields.get(name, {}).get("default")

    def is_switch(self, name: str) -> bool:
        """Return whether a field takes true or false (or null) only."""
        types = self.fields.get(name, {}).get("type")
        return types == "boolean" or types == ["boolean", "null"]

    def schema(self) -> dict[str, Any]:
        """Return the whole table as one JSON Schema (draft 2020-12)."""
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"GRPOConfig of TRL {self.trl} with transformers {self.transformers}",
            "type": "object",
            "properties": {name: dict(spec) for name, spec in self.fields.items()},
            "additionalProperties": False,
        }


@lru_cache(maxsize=1)
def _index() -> dict[str, Any]:
    text = (SCHEMA / "index.json").read_text(encoding="utf-8")
    index: dict[str, Any] = json.loads(text)
    return index


def known_versions() -> tuple[str, ...]:
    """Return the TRL releases that have a table, oldest first, one (the newest patch) for each minor."""
    return tuple(_index()["trl"])


def newest_version() -> str:
    """Return the newest TRL release that has a table."""
    return known_versions()[-1]


def table_version(version: str) -> str:
    """Return the release whose table speaks for `version`: the same minor, else the nearest older one.

    Raises:
        InputError: not a version, or older than the oldest table (GRPO arrived in 0.14).
    """
    wanted = release(version)
    if wanted < release(OLDEST):
        raise InputError(
            f"TRL {version} has no GRPO trainer; it arrived in {OLDEST}",
            where="TRL version",
            remedy=f"Name a version from {OLDEST} on.",
        )
    older = [known for known in known_versions() if release(known).release[:2] <= wanted.release[:2]]
    return older[-1] if older else known_versions()[0]


def patched(version: str) -> str:
    """Return the release that a version stands for: one without a patch number is the newest patch that has a table.

    People write 0.22 for whatever 0.22 they have, mostly the newest; what only 0.22.0 had is not held against them.

    Raises:
        InputError: not a version, or older than the oldest table.
    """
    known = table_version(version)
    return known if version.count(".") == 1 and version == ".".join(known.split(".")[:2]) else version


def is_newer_than_tables(version: str) -> bool:
    """Return whether a TRL version is of a later minor than the newest table."""
    return release(version).release[:2] > release(newest_version()).release[:2]


@lru_cache(maxsize=64)
def table(version: str, transformers: str | None = None) -> Table:
    """Return the table for a TRL version, with the inherited fields of another transformers release if one is named.

    Raises:
        InputError: not a version, or older than 0.14.
    """
    known = table_version(version)
    name = "trl-" + ".".join(known.split(".")[:2]) + ".json"
    raw = json.loads((SCHEMA / name).read_text(encoding="utf-8"))
    meta, fields = raw["x-release"], raw["properties"]
    if transformers is not None and release(transformers) != release(meta["transformers"]):
        inherited = inherited_fields(transformers)
        own = {key: spec for key, spec in fields.items() if spec.get("x-from") == "trl"}
        return Table(known, transformers, {**inherited, **own}, meta["requires"])
    return Table(known, meta["transformers"], fields, meta["requires"])


@lru_cache(maxsize=1)
def transformers_history() -> dict[str, Any]:
    """Return the history of TrainingArguments: `releases`, and for each field its spans of `[first, last, schema]`."""
    text = (SCHEMA / "transformers.json").read_text(encoding="utf-8")
    history: dict[str, Any] = json.loads(text)
    return history


@lru_cache(maxsize=64)
def inherited_fields(transformers: str) -> dict[str, dict[str, Any]]:
    """Return the TrainingArguments fields of the newest known transformers release up to `transformers`."""
    history = transformers_history()
    wanted = release(transformers).release[:2]
    releases = history["releases"]
    position = max((i for i, text in enumerate(releases) if release(text).release[:2] <= wanted), default=0)
    return {
        name: spec
        for name, spans in history["fields"].items()
        for first, last, spec in spans
        if first <= position <= last
    }


@lru_cache(maxsize=1)
def lifetimes() -> dict[str, tuple[str, str]]:
    """Return for every kwarg TRL itself ever declared its first and last release among the tables."""
    return {name: (span[0], span[1]) for name, span in _index()["lifetimes"].items()}
