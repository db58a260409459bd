"""Where models, data sets and reward files come from: paths of the workspace, or hub ids."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError, NotFoundError
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.run import DatasetSpec, ModelSpec
from grpo_rlvr.workspace import Workspace

# Owner and name begin with a letter or digit: `./model` is a path, never a hub id.
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
ROW_FILES = (".jsonl", ".json", ".ndjson")


def resolve_source(value: str, workspace: Workspace, argument: str) -> tuple[str, bool]:
    """Return the absolute path or the hub id that a value names, and whether it is local.

    Raises:
        NotFoundError: neither a path nor the form of a hub id. InputError: a path outside the workspace.
    """
    path = workspace.resolve(value, argument)
    if path.exists():
        return str(path), True
    if HUB_ID.fullmatch(value) and Path(value).suffix.lower() not in (*ROW_FILES, ".parquet", ".csv", ".txt"):
        return value, False
    raise NotFoundError(
        f"'{value[:200]}' is no file or folder of the workspace, and no hub id (owner/name)",
        where=f"argument '{argument}'",
        remedy=f"Paths are relative to {workspace.root}.",
    )


def resolve_model(model: ModelSpec, workspace: Workspace, argument: str = "model.path") -> dict[str, Any]:
    """Return the model section with its path made absolute.

    Raises:
        InputError: a folder that holds no model. NotFoundError: nothing there.
    """
    path, local = resolve_source(model.path, workspace, argument)
    if local:
        folder = Path(path)
        if not any((folder / name).is_file() for name in ("config.json", "adapter_config.json")):
            raise InputError(
                f"'{model.path}' holds no model: there is no config.json",
                where=f"argument '{argument}'",
                remedy="Name the folder that save_pretrained wrote.",
            )
    return {**model.model_dump(exclude_none=True), "path": path}


def resolve_dataset(dataset: DatasetSpec, workspace: Workspace, argument: str = "dataset.path") -> dict[str, Any]:
    """Return the dataset section with its path made absolute."""
    path, _ = resolve_source(dataset.path, workspace, argument)
    return {**dataset.model_dump(exclude_none=True), "path": path}


def read_rows(section: dict[str, Any], argument: str) -> list[dict[str, Any]] | None:
    """Return the rows of a local JSONL file, None for sources that only the training interpreter reads.

    Raises:
        InputError: not JSON, no object, no rows, no prompt, or a row that lacks a column of the first row.
    """
    path = Path(section["path"])
    if path.suffix not in ROW_FILES or not path.is_file():
        return None
    where = f"argument '{argument}' ({path.name})"
    rows = _parse(path, where)
    rename = section.get("rename") or {}
    if rename:
        rows = [{rename.get(key, key): value for key, value in row.items()} for row in rows]
    rows = rows[: section["limit"]] if section.get("limit") else rows
    if not rows:
        raise InputError("no rows", where=where, remedy="Give a file with one JSON object a line.")
    check_columns(rows, where)
    return rows


def check_columns(rows: list[dict[str, Any]], where: str) -> None:
    """Check that every row has a prompt and the columns of the first row.

    Raises:
        InputError: names the row and the column.
    """
    columns = rows[0].keys()
    if "prompt" not in columns:
        raise InputError(
            f"rows have no 'prompt' column; they have: {', '.join(columns) or 'none'}",
            where=where,
            remedy="Rename the column that holds the prompt (dataset.rename).",
        )
    for number, row in enumerate(rows, 1):
        missing = columns - row.keys()
        if missing:
            raise InputError(
                f"row {number} has no column '{sorted(missing)[0]}', which row 1 has",
                where=where,
                remedy="Fill it in or remove the row: a reward that reads the column would fail there.",
            )


def _parse(path: Path, where: str) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        if text.lstrip().startswith("["):
            rows = list(json.loads(text))
            lines = list(range(1, len(rows) + 1))
        else:
            numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
            lines = [number for number, _ in numbered]
            rows = [_parse_line(line, number, where) for number, line in numbered]
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 (byte {error.start})", where=where, remedy="Save it as UTF-8.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error}", where=where) from None
    for number, row in zip(lines, rows, strict=True):
        if not isinstance(row, dict):
            raise InputError(f"line {number} is no object", where=where, remedy="Give one JSON object a line.")
    return rows


def _parse_line(line: str, number: int, where: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"line {number} is not valid JSON: {error}", where=where) from None


def resolve_rewards(rewards: list[RewardSpec], workspace: Workspace) -> list[dict[str, Any]]:
    """Return the reward specs with user files named relative to the workspace, so that a copy can stand for them.

    Raises:
        InputError: unknown reward or argument, or a file that is missing, does not parse, or lies outside.
    """
    from rlvr_rewards import spec as reward_spec

    resolved = []
    for index, reward in enumerate(rewards):
        where = f"rewards[{index}]"
        try:
            whole = reward_spec.canonical(reward.model_dump())
            if ".py:" in whole["reward"]:
                file, _, name = whole["reward"].rpartition(":")
                path = (workspace.root / file).resolve()
                if not path.is_relative_to(workspace.root):
                    raise InputError(
                        f"'{file}' lies outside the workspace root {workspace.root}",
                        where=where,
                        remedy="Copy the reward file into the workspace: a run keeps a copy of what it trains with.",
                    )
                whole["reward"] = f"{path.relative_to(workspace.root).as_posix()}:{name}"
            reward_spec.source_files(whole, workspace.root)
        except ValueError as error:
            raise InputError(str(error), where=where) from None
        resolved.append(whole)
    return resolved


def reward_digest(rewards: list[dict[str, Any]], root: Path) -> str:
    """Return the digest of reward specs with all their code."""
    from rlvr_rewards import spec as reward_spec

    return str(reward_spec.digest(rewards, root)["digest"])


def reward_files(rewards: list[dict[str, Any]], root: Path) -> dict[str, str]:
    """Return the SHA-256 of every user file that reward specs are made of, by path relative to `root`."""
    from rlvr_rewards import spec as reward_spec

    return dict(reward_spec.digest(rewards, root)["files"])


def copy_rewards(rewards: list[dict[str, Any]], workspace: Workspace, target: Path) -> None:
    """Copy the user's reward files, with all they import from their folder, to the same relative places."""
    from rlvr_rewards import spec as reward_spec

    for reward in rewards:
        for file in reward_spec.source_files(reward, workspace.root):
            destination = target / file.relative_to(workspace.root)
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, destination)
    target.mkdir(parents=True, exist_ok=True)


def content_digest(source: str) -> str:
    """Return a digest of a data file or folder by content, of a model folder by its small files and weight sizes."""
    path = Path(source)
    if not path.exists():
        return f"hub:{source}"
    whole = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
        stat = file.stat()
        whole.update(f"{file.relative_to(path).as_posix()}\0{stat.st_size}\0".encode())
        # Weights of many gigabytes would take minutes; their size and time of change stand for them.
        if file.suffix in (".safetensors", ".bin", ".pt", ".gguf"):
            whole.update(str(stat.st_mtime_ns).encode())
        else:
            with file.open("rb") as opened:
                while block := opened.read(1 << 20):
                    whole.update(block)
    return whole.hexdigest()
