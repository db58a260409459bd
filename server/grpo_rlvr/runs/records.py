"""Small JSON records and row files, standard library only: shared by the server and by the processes of a run."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_record(path: Path, value: Any, *, durable: bool = True) -> None:
    """Write JSON to a temporary name and rename it; `durable` flushes it to the disk first."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            # One call of the compiled encoder: this is written at every training step.
            file.write(json.dumps(value, ensure_ascii=False))
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_record(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file; None when it is absent or not a whole object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def append_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Append rows as JSON lines in one write, so that a kill leaves at most one broken last line."""
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")
    with path.open("ab") as file:
        file.write(data)
        file.flush()


def iter_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole rows of a JSON lines file; a broken last line is left out, an absent file is empty."""
    # A device in a file's place could be read for ever.
    if not path.is_file():
        return
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row


def tail_lines(path: Path, count: int, max_bytes: int = 1_000_000) -> tuple[list[str], bool]:
    """Return the last lines of a text file and whether earlier ones were left out."""
    if not path.is_file():
        return [], False
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - max_bytes)
            file.seek(start)
            data = file.read(max_bytes)
    except OSError:
        return [], False
    lines = data.decode("utf-8", errors="replace").splitlines()
    if start and lines:
        lines = lines[1:]
    return lines[-count:], start > 0 or len(lines) > count


def keep_rows(path: Path, keep: Any, dropped: Path) -> int:
    """Rewrite a row file with the rows for which `keep(row)` holds; append the others to `dropped`.

    Returns:
        How many rows were moved.
    """
    if not path.exists():
        return 0
    kept: list[str] = []
    gone: list[dict[str, Any]] = []
    for row in iter_rows(path):
        if keep(row):
            kept.append(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            gone.append(row)
    if gone:
        append_rows(dropped, gone)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text("".join(kept), encoding="utf-8")
    temporary.replace(path)
    return len(gone)
