"""The page of arguments by release: when each GRPOConfig argument of TRL's own came and went, and its defaults."""

from collections.abc import Iterator
from typing import Any

from grpo_rlvr.config.tables import Table, known_versions, table

PAGE = "references/arguments.md"
_HEAD = """\
# Arguments of GRPOConfig by TRL release

<!-- Generated from server/grpo_rlvr/config/schema by scripts/docs; do not edit. -->

Read this when asking which releases take an argument, or what its default was; for a whole config, `check_config`
answers it.

TRL's own arguments, for {first} to {last}, one patch a minor release; those of transformers' TrainingArguments go with
the installed transformers. "always" is every release from {first} on. Defaults stand as `release: value`, from that
release on.

| argument | in | default |
|---|---|---|
"""


def arguments_page() -> str:
    """Return the page as Markdown."""
    tables = {_minor(version): table(version) for version in known_versions()}
    names = sorted({name for one in tables.values() for name in one.fields if _own(one, name)})
    rows = [f"| `{name}` | {_spans(name, tables)} | {_defaults(name, tables)} |" for name in names]
    minors = list(tables)
    return _HEAD.format(first=minors[0], last=minors[-1]) + "\n".join(rows) + "\n"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _own(one: Table, name: str) -> bool:
    # TRL names some arguments of transformers again, to change their defaults.
    return name in one and one.fields[name].get("x-from") == "trl"


def _spans(name: str, tables: dict[str, Table]) -> str:
    minors = list(tables)
    present = [minor for minor in minors if name in tables[minor]]
    if present == minors:
        return "always"
    spans: list[list[str]] = []
    for minor in present:
        if spans and minors.index(minor) == minors.index(spans[-1][-1]) + 1:
            spans[-1].append(minor)
        else:
            spans.append([minor])
    return ", ".join(_span(span, minors) for span in spans)


def _span(span: list[str], minors: list[str]) -> str:
    if span[-1] == minors[-1]:
        return f"{span[0]} on"
    return span[0] if len(span) == 1 else f"{span[0]} to {span[-1]}"


def _defaults(name: str, tables: dict[str, Table]) -> str:
    changes = list(_changes(name, tables))
    if len(changes) == 1:
        return f"`{_shown(changes[0][1])}`"
    return ", ".join(f"{minor}: `{_shown(value)}`" for minor, value in changes)


def _changes(name: str, tables: dict[str, Table]) -> Iterator[tuple[str, Any]]:
    last: Any = _changes
    for minor, one in tables.items():
        if name in one and (value := one.default(name)) != last:
            yield minor, value
            last = value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
