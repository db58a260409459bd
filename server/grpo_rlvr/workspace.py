"""The workspace: the one folder that the server may read and write, and the store inside it."""

import os
import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError, NotFoundError, nearest

STORE = ".grpo-rlvr"
SETTINGS = "grpo-rlvr.toml"
TABLES = ("training", "gate", "scoring")
# A console log of 100,000 steps is about 80 MB; nothing that people paste or point at is larger.
MAX_TEXT_BYTES = 200_000_000
_HEADER, _PAIR = re.compile(r"\s*\[+([^\[\]]+)\]"), re.compile(r"\s*([\w.\s\"'-]+?)\s*=")


@dataclass(frozen=True)
class Workspace:
    """A root folder with its store.

    Args:
        root: The folder, resolved.
        confined: Whether paths outside the root are refused: true in the server, where an agent names the paths,
            false in the command line, where the person's own rights are the boundary.
    """

    root: Path
    confined: bool = True

    @classmethod
    def open(cls, root: str | os.PathLike[str] = ".", *, confined: bool = True) -> "Workspace":
        """Return the workspace at an existing folder.

        Raises:
            NotFoundError: the folder does not exist.
        """
        folder = Path(root).expanduser().resolve()
        if not folder.is_dir():
            raise NotFoundError(f"no such folder '{root}'", where="workspace root", remedy="Name an existing folder.")
        return cls(folder, confined)

    @property
    def store(self) -> Path:
        """Folder of everything we write: runs, readings, samples, reports."""
        return self.root / STORE

    @property
    def runs(self) -> Path:
        """One folder a run."""
        return self.store / "runs"

    @property
    def readings(self) -> Path:
        """One folder a reading."""
        return self.store / "readings"

    @property
    def reports(self) -> Path:
        """HTML reports."""
        return self.store / "reports"

    def resolve(self, value: str | os.PathLike[str], argument: str) -> Path:
        """Return the absolute path that `value` names, relative to the root, symlinks resolved.

        Raises:
            InputError: empty, not a path, or (when confined) outside the root.
        """
        text = os.fspath(value)
        if not text.strip() or "\0" in text:
            raise InputError(f"not a path: {text[:80]!r}", where=f"argument '{argument}'", remedy="Give a file's path.")
        try:
            path = (self.root / Path(text).expanduser()).resolve()
        except (OSError, RuntimeError) as error:
            raise InputError(f"cannot resolve '{text[:200]}' ({error})", where=f"argument '{argument}'") from None
        if self.confined and not path.is_relative_to(self.root):
            raise InputError(
                f"'{text[:200]}' lies outside the workspace root {self.root}",
                where=f"argument '{argument}'",
                remedy="Copy the file into the workspace, or start the server with --root at a folder that holds it.",
            )
        return path

    def file(self, value: str | os.PathLike[str], argument: str) -> Path:
        """Return the path of an existing regular file.

        Raises:
            InputError: a folder or special file. NotFoundError: nothing there.
        """
        path = self._existing(value, argument)
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "not a regular file"
            raise InputError(f"'{value}' is {kind}", where=f"argument '{argument}'", remedy="Give a file's path.")
        return path

    def folder(self, value: str | os.PathLike[str], argument: str) -> Path:
        """Return the path of an existing folder.

        Raises:
            InputError: a file. NotFoundError: nothing there.
        """
        path = self._existing(value, argument)
        if not path.is_dir():
            raise InputError(f"'{value}' is a file", where=f"argument '{argument}'", remedy="Give a folder's path.")
        return path

    def read_text(self, value: str | os.PathLike[str], argument: str, *, max_bytes: int = MAX_TEXT_BYTES) -> str:
        """Return the text of a UTF-8 file (a byte order mark is dropped).

        Raises:
            InputError: a folder, too large, empty, binary, or not UTF-8. NotFoundError: nothing there.
        """
        path = self.file(value, argument)
        where = f"argument '{argument}'"
        try:
            size = path.stat().st_size
            if size > max_bytes:
                raise InputError(
                    f"'{value}' has {size:,} bytes, the limit is {max_bytes:,}", where=where, remedy="Cut it down."
                )
            data = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read '{value}': {error.strerror}", where=where) from None
        if not data.strip():
            raise InputError(f"'{value}' is empty", where=where, remedy="Give a file with content.")
        if b"\0" in data[:8192]:
            raise InputError(f"'{value}' is a binary file", where=where, remedy="Give a text file.")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(
                f"'{value}' is not UTF-8 (byte {error.start})", where=where, remedy="Save it as UTF-8."
            ) from None

    def settings(self) -> dict[str, Any]:
        """Return the tables of `grpo-rlvr.toml` at the root, empty when there is none.

        Raises:
            InputError: the file is not valid TOML, or has a table that nothing reads.
        """
        path = self.root / SETTINGS
        if not path.is_file():
            return {}
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"not valid TOML: {error}", where=SETTINGS, remedy="Mend or remove the file.") from None
        self._refuse_unknown(found, TABLES, "table")
        return found

    def settings_table(self, name: str, known: Collection[str]) -> dict[str, Any]:
        """Return one table of the settings, empty when it is not stated.

        Raises:
            InputError: the file cannot be used, the table is none, or it has a key that is not in `known`.
        """
        table = self.settings().get(name, {})
        if not isinstance(table, dict):
            raise InputError(
                f"must be a table, got {type(table).__name__}",
                where=self.settings_place(name),
                remedy=f"Write [{name}] and below it key = value.",
            )
        self._refuse_unknown(table, known, "key", name)
        return table

    def settings_place(self, *path: str) -> str:
        """Return where the settings state a key, such as `grpo-rlvr.toml line 3 [gate]`, for a message."""
        line = _line((self.root / SETTINGS).read_text(encoding="utf-8"), path)
        return SETTINGS + (f" line {line}" if line else "") + (f" [{path[0]}]" if path[0] in TABLES else "")

    def _refuse_unknown(self, found: Collection[str], known: Collection[str], word: str, *path: str) -> None:
        for key in found:
            if key not in known:
                raise InputError(
                    f"unknown {word} '{key}'{nearest(key, known)}",
                    where=self.settings_place(*path, key),
                    remedy=f"Known {word}s: {', '.join(known)}.",
                )

    def _existing(self, value: str | os.PathLike[str], argument: str) -> Path:
        path = self.resolve(value, argument)
        try:
            present = path.exists()
        except OSError as error:
            raise InputError(f"not a usable path: {error.strerror}", where=f"argument '{argument}'") from None
        if not present:
            raise NotFoundError(
                f"no such file or folder: '{os.fspath(value)[:200]}'",
                where=f"argument '{argument}'",
                remedy=f"Paths are relative to {self.root}.",
            )
        return path


def _line(text: str, wanted: tuple[str, ...]) -> int | None:
    """Return the number, from 1, of the first TOML line that states a key, else the innermost table around it."""
    table: tuple[str, ...] = ()
    found: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        header, pair = _HEADER.match(line), _PAIR.match(line)
        if header:
            table = path = _path(header[1])
        elif pair:
            path = table + _path(pair[1])
        else:
            continue
        for depth in range(1, len(path) + 1):
            found.setdefault(path[:depth], number)
    return next((found[wanted[:n]] for n in range(len(wanted), 0, -1) if wanted[:n] in found), None)


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip(" \t\"'") for part in dotted.split("."))
