"""Configs as people have them: JSON, YAML, a TRL command-line YAML, a training script, a notebook."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from grpo_rlvr.config.load_json import parse_json
from grpo_rlvr.config.load_limits import checked_mapping
from grpo_rlvr.config.load_origin import notes_on_origin, refuse_repeated
from grpo_rlvr.config.load_python import notebook_text, parse_python, read_config, subclass_fields
from grpo_rlvr.config.load_rewards import known_signature
from grpo_rlvr.config.load_script import is_script_file, route
from grpo_rlvr.config.load_setup import read_setup
from grpo_rlvr.config.load_yaml import parse_yaml
from grpo_rlvr.config.tables import lifetimes, transformers_history
from grpo_rlvr.errors import InputError

Format = Literal["json", "yaml", "trl-yaml", "python", "notebook"]

# Real configs hold a few kilobytes and scripts under a hundred; a notebook carries its outputs, pictures included.
MAX_BYTES = {"json": 1_000_000, "yaml": 500_000, "python": 1_000_000, "notebook": 30_000_000}
_SUFFIXES: dict[str, Format] = {
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".py": "python",
    ".ipynb": "notebook",
}
# A file may carry config and setup together, in these words.
_WRAPPED = ({"config"}, {"config", "setup"}, {"config", "context"})


@dataclass(frozen=True)
class LoadedConfig:
    """A config read from a text.

    `config` holds GRPOConfig keyword arguments and `setup` what the text shows around them. `unread` maps a field, or
    `**name` for an unpacked dict whose keys are unknown, to the reason why its value cannot be read without running
    the file; such a field is unknown, not at its default; `unread_setup` does so for setup paths. `lines` maps fields
    and setup paths to 1-based lines of `text`; `cells` maps those to notebook cells as (first line, cell number).
    """

    config: dict[str, Any]
    setup: dict[str, Any]
    lines: dict[str, int]
    unread: dict[str, str]
    format: Format
    name: str
    text: str
    path: Path | None = None
    notes: tuple[str, ...] = ()
    unread_setup: dict[str, str] = field(default_factory=dict)
    cells: tuple[tuple[int, int], ...] = field(default=())

    def line_of(self, dotted: str) -> int | None:
        """Return the line that states a field or the nearest object that holds it."""
        path = dotted.replace("[]", "[0]")
        while path:
            if path in self.lines:
                return self.lines[path]
            cut = max(path.rfind("."), path.rfind("["))
            path = path[:cut] if cut > 0 else ""
        return None

    def told(self, values: Mapping[str, Any]) -> "LoadedConfig":
        """Return the same text with fields known that it leaves to its command line; `config` stays what it says."""
        unread = {name: reason for name, reason in self.unread.items() if name not in values}
        notes = tuple(note for note in self.notes if note.partition(":")[0] not in values)
        return replace(self, unread=unread, notes=notes)

    def place(self, dotted: str) -> str:
        """Return `name:line`, or `name cell 3 line 2`, of a field; the name alone when nothing states it."""
        line = self.line_of(dotted)
        if line is None:
            return self.name
        if not self.cells:
            return f"{self.name}:{line}"
        first, cell = max(start for start in self.cells if start[0] <= line)
        return f"{self.name} cell {cell} line {line - first + 1}"

    @property
    def file(self) -> str:
        """Name of the file, as findings show it."""
        return self.name


def load_config(text: str, name: str, *, path: Path | None = None) -> LoadedConfig:
    """Read a config from a text; a script or notebook is parsed, never executed.

    Args:
        text: The file's content.
        name: The file's name, as messages show it; its suffix tells the format.
        path: Where the file lies, if it does.

    Raises:
        InputError: the text is no config within the limits; the message says where and what to do.
    """
    kind = _format(text, name)
    if len(text) > MAX_BYTES[kind]:
        raise InputError(
            f"{len(text):,} characters of {kind}; the limit is {MAX_BYTES[kind]:,}",
            where=name,
            remedy="Give the config alone.",
        )
    if not text.strip():
        raise InputError("is empty", where=name, remedy="Give GRPOConfig keyword arguments.")
    if kind in ("python", "notebook"):
        return _from_python(text, name, kind, path)
    return _from_data(text, name, kind, path)


def _format(text: str, name: str) -> Format:
    suffix = Path(name).suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if suffix in (".toml", ".ini", ".txt", ".md", ".sh"):
        raise InputError(
            f"'{suffix}' is no format that a config is read from",
            where=name,
            remedy=f"Known: {', '.join(_SUFFIXES)}.",
        )
    return "json" if text.lstrip()[:1] in ("{", "[") else "yaml"


def _from_data(text: str, name: str, kind: Format, path: Path | None) -> LoadedConfig:
    notes: list[str] = []
    if kind == "json":
        value, lines = parse_json(text, name)
    else:
        parsed = parse_yaml(text, name)
        value, lines, notes = parsed.value, parsed.lines, parsed.notes
    mapping = checked_mapping(value, name)
    setup: dict[str, Any] = {}
    if any(mapping.keys() == keys for keys in _WRAPPED) and isinstance(mapping["config"], dict):
        setup = checked_mapping(mapping.get("setup") or mapping.get("context") or {}, f"{name}: setup")
        mapping = mapping["config"]
        lines = {key.removeprefix("config."): line for key, line in lines.items() if key.startswith("config.")}
    if is_script_file(mapping):
        routed = route(mapping, known_signature)
        kind = "trl-yaml"
        notes += routed.notes
        lines = {**lines, **{f"model_init_kwargs.{key}": line for key, line in lines.items() if key == "dtype"}}
        mapping = routed.config
        for key, item in routed.setup.items():
            setup.setdefault(key, item)
    return LoadedConfig(mapping, setup, lines, {}, kind, name, text, path, tuple(notes))


def _from_python(text: str, name: str, kind: Format, path: Path | None) -> LoadedConfig:
    cells: tuple[tuple[int, int], ...] = ()
    if kind == "notebook":
        notebook = notebook_text(text, name)
        text, cells = notebook.text, notebook.starts
    script = parse_python(text, name)
    script.folder = path.resolve().parent if path is not None else None
    read = read_config(script)
    refuse_repeated(script, read.call)
    origin_notes = notes_on_origin(script, read.call)
    around = read_setup(script, read.call)
    ever = {*lifetimes(), *transformers_history()["fields"]}
    for own in sorted(subclass_fields(script, read.call).keys() - ever):
        read.config.pop(own, None)
        read.unread.pop(own, None)
        origin_notes.append(f"{own}: a field that this file adds to GRPOConfig; not judged.")
    config = checked_mapping(read.config, name)
    setup = checked_mapping(around.setup, name)
    notes = tuple(origin_notes) + tuple(
        f"{field}: not read ({reason})." for field, reason in {**read.unread, **around.unread}.items()
    )
    if setup.get("trainer", {}).get("unsloth"):
        notes += (
            "The script imports unsloth, which patches TRL's config and trainer: what it fits itself is not judged.",
        )
    lines = {**around.lines, **read.lines, "": read.call.lineno}
    return LoadedConfig(
        config, setup, lines, read.unread, kind, name, text, path, notes, dict(around.unread), cells=cells
    )


def merge_setup(shown: dict[str, Any], stated: dict[str, Any] | None) -> dict[str, Any]:
    """Return the setup that a file shows with what the caller states over it, section by section."""
    merged = dict(shown)
    for section, value in (stated or {}).items():
        own = merged.get(section)
        if isinstance(own, dict) and isinstance(value, dict):
            merged[section] = {**own, **value}
        else:
            merged[section] = value
    return merged


__all__ = ["Format", "LoadedConfig", "load_config", "merge_setup"]
