"""Writing a changed config back into the text it came from, touching only what changes."""

import ast
import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_rlvr.config.load import LoadedConfig, load_config
from grpo_rlvr.config.load_python import parse_python, read_config
from grpo_rlvr.errors import InputError
from grpo_rlvr.files import write_atomic
from grpo_rlvr.models.check import CheckResult


@dataclass(frozen=True)
class Member:
    """One `key: value` of a text: the span of the whole entry and of its value, as character offsets."""

    start: int
    end: int
    value_start: int
    value_end: int


Edit = tuple[int, int, str]


def edited_text(loaded: LoadedConfig, fixed: Mapping[str, Any]) -> str | None:
    """Return the text with the config changed to `fixed`, None when that cannot be done without a person.

    The result is read again: it is returned only when it says exactly `fixed`.
    """
    changes = {
        name: value for name, value in fixed.items() if name not in loaded.config or loaded.config[name] != value
    }
    removed = [name for name in loaded.config if name not in fixed]
    if not changes and not removed:
        return loaded.text
    editors = {"json": _edit_json, "yaml": _edit_yaml, "trl-yaml": _edit_script_yaml, "python": _edit_python}
    editor = editors.get(loaded.format)
    edits = editor(loaded, changes, removed) if editor is not None else None
    if edits is None:
        return None
    text = _apply(loaded.text, edits)
    try:
        again = load_config(text, loaded.name, path=loaded.path)
    except InputError:
        return None
    return text if again.config == dict(fixed) else None


def apply_diff(path: Path, result: CheckResult) -> None:
    """Write a check's safe fixes into the file that the config came from, touching only what they change.

    Raises:
        InputError: the file cannot be edited without a person: a notebook, or options set through other code.
    """
    loaded = load_config(path.read_text(encoding="utf-8-sig"), path.name, path=path)
    text = edited_text(loaded, result.fixed_config)
    if text is None:
        raise InputError(
            "the fixes cannot be written into this file safely",
            where=path.name,
            remedy="Apply the listed fixes by hand.",
        )
    write_atomic(path, text)


def unified_diff(loaded: LoadedConfig, fixed: Mapping[str, Any]) -> str | None:
    """Return the change as a unified diff, None when nothing changes or the text cannot be edited safely."""
    text = edited_text(loaded, fixed)
    if text is None or text == loaded.text:
        return None
    before, after = loaded.text.splitlines(keepends=True), text.splitlines(keepends=True)
    shown = loaded.name.lstrip("/")
    lines = difflib.unified_diff(before, after, fromfile=f"a/{shown}", tofile=f"b/{shown}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _apply(text: str, edits: list[Edit]) -> str:
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text


# ---------------------------------------------------------------------------------------------------------- JSON
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _json_members(text: str, opening: int) -> tuple[dict[str, Member], int]:
    """Return the members of the object that opens at `opening`, and the offset of its closing brace."""
    members: dict[str, Member] = {}
    position = _skip(text, opening + 1)
    while text[position] != "}":
        key, after_key = _DECODER.raw_decode(text, position)
        value_start = _skip(text, _skip(text, after_key) + 1)
        _, value_end = _DECODER.raw_decode(text, value_start)
        members[str(key)] = Member(position, value_end, value_start, value_end)
        position = _skip(text, value_end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return members, position


def _edit_json(loaded: LoadedConfig, changes: Mapping[str, Any], removed: list[str]) -> list[Edit] | None:
    text = loaded.text
    opening = _skip(text, 0)
    members, closing = _json_members(text, opening)
    if "config" in members and "config" not in loaded.config:
        opening = members["config"].value_start
        members, closing = _json_members(text, opening)
    kept = [name for name in members if name not in removed]
    added = [name for name in changes if name not in members]
    edits: list[Edit] = [
        (members[name].value_start, members[name].value_end, json.dumps(value, ensure_ascii=False))
        for name, value in changes.items()
        if name in members
    ]
    if not kept and removed:
        # Nothing of the object stays: write it anew.
        return [(opening, closing + 1, json.dumps(dict(changes), indent=2, ensure_ascii=False))]
    if removed:
        edits += _json_removals(members, removed, kept)
    if added:
        edits.append(_json_addition(text, members, kept, {name: changes[name] for name in added}, opening))
    return edits


def _json_removals(members: Mapping[str, Member], removed: list[str], kept: list[str]) -> list[Edit]:
    names = list(members)
    last = names.index(kept[-1])
    # Behind the last member that stays, the comma before them goes along; elsewhere the one behind each.
    edits: list[Edit] = [
        (members[name].start, members[names[names.index(name) + 1]].start, "")
        for name in removed
        if names.index(name) < last
    ]
    if last + 1 < len(names):
        edits.append((members[kept[-1]].end, members[names[-1]].end, ""))
    return edits


def _json_addition(
    text: str, members: Mapping[str, Member], kept: list[str], added: Mapping[str, Any], opening: int
) -> Edit:
    entries = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in added.items()]
    if not kept:
        return opening + 1, opening + 1, ", ".join(entries)
    first, last = members[kept[0]], members[kept[-1]]
    line_start = text.rfind("\n", 0, first.start) + 1
    gap = text[line_start : first.start]
    separator = f",\n{gap}" if gap.strip() == "" and line_start > 0 else ", "
    return last.value_end, last.value_end, "".join(f"{separator}{entry}" for entry in entries)


# ---------------------------------------------------------------------------------------------------------- YAML
def _flow(value: Any) -> str:
    import yaml

    text = str(yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False, allow_unicode=True))
    return text.removesuffix("\n").removesuffix("\n...").strip()


def _yaml_members(loaded: LoadedConfig) -> dict[str, Member] | None:
    import yaml

    root = yaml.compose(loaded.text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        return None
    members: dict[str, Member] = {}
    for key, value in root.value:
        if key.tag.endswith(":merge"):
            continue
        anchored = loaded.text[key.end_mark.index : value.start_mark.index].strip().lstrip(":").strip()
        if anchored:
            return None
        members[key.value] = Member(
            key.start_mark.index, value.end_mark.index, value.start_mark.index, value.end_mark.index
        )
    return members


def _edit_yaml(loaded: LoadedConfig, changes: Mapping[str, Any], removed: list[str]) -> list[Edit] | None:
    members = _yaml_members(loaded)
    if members is None or ("config" in members and "config" not in loaded.config):
        return None
    text = loaded.text
    edits: list[Edit] = []
    for name in removed:
        if name not in members:
            return None
        edits.append(_whole_lines(text, members[name]))
    for name, value in changes.items():
        if name in members:
            edits.append(_yaml_value(text, members[name], value))
        else:
            # An edit that drops the unfinished last line has left a finished one before it.
            cut = any(end == len(text) and start < end and not new for start, end, new in edits)
            newline = "" if text.endswith("\n") or cut else "\n"
            edits.append((len(text), len(text), f"{newline}{name}: {_flow(value)}\n"))
    return edits


def _yaml_value(text: str, member: Member, value: Any) -> Edit:
    old = text[member.value_start : member.value_end]
    # A block value ends where the next key begins; its line break stays.
    trailing = old[len(old.rstrip()) :] if "\n" in old else ""
    start = member.value_start
    lead = text[:start]
    if lead.rstrip().endswith(":") and "\n" in lead[len(lead.rstrip()) :]:
        start = len(lead.rstrip())
        return start, member.value_end, f" {_flow(value)}{trailing or chr(10)}"
    return start, member.value_end, _flow(value) + trailing


def _whole_lines(text: str, member: Member) -> Edit:
    start = text.rfind("\n", 0, member.start) + 1
    content_end = member.start + len(text[member.start : member.value_end].rstrip())
    newline = text.find("\n", max(content_end, member.start))
    return start, (len(text) if newline < 0 else newline + 1), ""


def _edit_script_yaml(loaded: LoadedConfig, changes: Mapping[str, Any], removed: list[str]) -> list[Edit] | None:
    # model_init_kwargs of a command-line file is put together from keys of its own; those are not written back.
    if "model_init_kwargs" in changes or "model_init_kwargs" in removed:
        return None
    return _edit_yaml(loaded, changes, removed)


# -------------------------------------------------------------------------------------------------------- Python
def _edit_python(loaded: LoadedConfig, changes: Mapping[str, Any], removed: list[str]) -> list[Edit] | None:
    script = parse_python(loaded.text, loaded.name)
    call = read_config(script).call
    offset = _Offsets(loaded.text)
    keywords = {keyword.arg: keyword for keyword in call.keywords if keyword.arg is not None}
    edits: list[Edit] = []
    for name in removed:
        if name not in keywords:
            return None
        edits.append(_keyword_removal(loaded.text, offset, call, keywords[name]))
    added: dict[str, Any] = {}
    for name, value in changes.items():
        if name in keywords:
            start, end = offset.span(keywords[name].value)
            edits.append((start, end, _python_literal(loaded.text[start:end], value)))
        elif name in loaded.config:
            # It is set through a dict or a later assignment, which other code may read too.
            return None
        else:
            added[name] = value
    if added:
        addition = _keyword_addition(loaded.text, offset, call, added, removed)
        if addition is None:
            return None
        edits.append(addition)
    return edits


class _Offsets:
    """Character offsets of nodes; `ast` counts columns in UTF-8 bytes."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        """Return the offset of a 1-based line and a byte column."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.expr | ast.keyword) -> tuple[int, int]:
        """Return the offsets of a node's first and behind its last character."""
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno or 0, node.end_col_offset or 0)


def _python_literal(before: str, value: Any) -> str:
    text = repr(value)
    return text.replace("'", '"') if "'" not in before and '"' not in text and "\\" not in text else text


def _keyword_removal(text: str, offset: _Offsets, call: ast.Call, keyword: ast.keyword) -> Edit:
    start, end = offset.span(keyword)
    after = re.compile(r"[ \t]*,").match(text, end)
    if after:
        end = after.end()
        line_start = text.rfind("\n", 0, start) + 1
        rest = re.compile(r"[ \t]*(#[^\n]*)?\n").match(text, end)
        if text[line_start:start].strip() == "" and rest:
            return line_start, rest.end(), ""
        blank = re.compile(r"[ \t]*").match(text, end)
        return start, blank.end() if blank else end, ""
    before = text.rfind(",", offset.span(call.func)[1], start)
    return (before, end, "") if before >= 0 else (start, end, "")


def _keyword_addition(
    text: str, offset: _Offsets, call: ast.Call, added: Mapping[str, Any], removed: list[str]
) -> Edit | None:
    kept = [keyword for keyword in call.keywords if keyword.arg not in removed]
    entries = [f"{name}={value!r}" for name, value in added.items()]
    if not kept:
        closing = offset.span(call)[1] - 1
        return closing, closing, ", ".join(entries) if not call.args else ", " + ", ".join(entries)
    start, end = offset.span(kept[-1])
    line_start = text.rfind("\n", 0, start) + 1
    indent = text[line_start:start]
    separator = f",\n{indent}" if indent.strip() == "" else ", "
    return end, end, "".join(f"{separator}{entry}" for entry in entries)
