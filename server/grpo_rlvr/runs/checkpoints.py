"""Checkpoints that are known to be whole: a marker is written after the last file, with every file's size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpo_rlvr.runs.records import read_record, write_record

MARKER = "grpo_rlvr_complete.json"


def checkpoint_folders(output: Path) -> list[tuple[int, Path]]:
    """Return the checkpoints below a folder as (step, folder), earliest first."""
    found = []
    for folder in output.glob("checkpoint-*"):
        step = folder.name.rpartition("-")[2]
        if folder.is_dir() and step.isdecimal():
            found.append((int(step), folder))
    return sorted(found)


def mark_complete(checkpoint: Path, step: int) -> None:
    """State that a checkpoint is whole."""
    files = {
        str(path.relative_to(checkpoint)): path.stat().st_size
        for path in sorted(checkpoint.rglob("*"))
        if path.is_file() and path.name != MARKER
    }
    write_record(checkpoint / MARKER, {"step": step, "files": files})


def is_complete(checkpoint: Path) -> bool:
    """Whether a checkpoint has its marker and every file that it names in full length."""
    marker: dict[str, Any] | None = read_record(checkpoint / MARKER)
    if marker is None or not isinstance(marker.get("files"), dict):
        return False
    for name, size in marker["files"].items():
        path = checkpoint / name
        if not path.is_file() or path.stat().st_size != size:
            return False
    return True


def complete_steps(output: Path) -> list[int]:
    """Return the steps with a whole checkpoint, ascending."""
    return [step for step, folder in checkpoint_folders(output) if is_complete(folder)]


def last_complete(output: Path) -> Path | None:
    """Return the newest whole checkpoint."""
    for _, folder in reversed(checkpoint_folders(output)):
        if is_complete(folder):
            return folder
    return None
