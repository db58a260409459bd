"""Loading a data set's rows inside the training interpreter: JSONL, parquet, a datasets folder, or the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def load_rows(source: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a data set as dictionaries.

    Args:
        source: `{"path", "split", "name", "revision", "limit", "rename"}`, or `{"rows": [...]}`.
    """
    if "rows" in source:
        rows = list(source["rows"])
    elif str(source["path"]).endswith((".jsonl", ".json", ".ndjson")):
        rows = _read_json(Path(source["path"]))
    else:
        rows = list(_dataset(source))
    rename = source.get("rename") or {}
    if rename:
        rows = [{rename.get(key, key): value for key, value in row.items()} for row in rows]
    return rows[: source["limit"]] if source.get("limit") else rows


def load_dataset(source: dict[str, Any]) -> Any:
    """Return the same rows as a `datasets.Dataset`, memory-mapped where the source allows it."""
    import datasets

    if "rows" in source or str(source["path"]).endswith((".jsonl", ".json", ".ndjson")):
        return datasets.Dataset.from_list(load_rows(source))
    loaded = _dataset(source)
    for old, new in (source.get("rename") or {}).items():
        loaded = loaded.rename_column(old, new)
    return loaded.select(range(min(source["limit"], len(loaded)))) if source.get("limit") else loaded


def _dataset(source: dict[str, Any]) -> Any:
    import datasets

    path = Path(source["path"])
    split = source.get("split") or "train"
    if path.suffix == ".parquet":
        return datasets.Dataset.from_parquet(str(path))
    if path.is_dir() and ((path / "state.json").exists() or (path / "dataset_dict.json").exists()):
        loaded = datasets.load_from_disk(str(path))
    else:
        loaded = datasets.load_dataset(
            str(source["path"]), source.get("name"), split=split, revision=source.get("revision")
        )
    return loaded[split] if isinstance(loaded, dict) else loaded


def _read_json(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8-sig")
    if text.lstrip().startswith("["):
        rows = json.loads(text)
    else:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    bad = next((i for i, row in enumerate(rows) if not isinstance(row, dict)), None)
    if bad is not None:
        raise ValueError(f"{path}: row {bad + 1} is not an object")
    return list(rows)
