"""Where a log comes from: pasted text, a file of any kind, or a run folder."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError, MissingPackageError, NotFoundError
from grpo_rlvr.metrics.parsing.assemble import ParsedLog, assemble
from grpo_rlvr.metrics.parsing.lines import split_lines
from grpo_rlvr.metrics.parsing.scan import Scan, Scanner, scan_lines
from grpo_rlvr.metrics.parsing.wandb_file import history_rows

# A trainer_state.json is read whole; a longer run keeps its log as lines.
_WHOLE_JSON = 200_000_000
# What a decoder puts where bytes are no text.
REPLACED = "\ufffd"
_HISTORY_KEYS = ("log_history", "history", "logs", "metrics", "rows", "data")


def parse(log: str | Path) -> ParsedLog:
    """Read a pasted log (`str`), a file or a run folder (`Path`).

    Raises:
        NotFoundError: the path names nothing.
        InputError: nothing to read: empty, binary, or a folder without a log.
        MissingPackageError: the file needs a reader that is not installed.
    """
    if isinstance(log, Path):
        return _parse_path(log)
    if not log.strip():
        raise InputError("the log is empty", where="argument 'log'", remedy="Paste the rows that the trainer printed.")
    if "\x00" in log[:8192]:
        raise InputError("the log is binary data, not text", where="argument 'log'", remedy="Give the file as a path.")
    text = log.lstrip("\ufeff")
    scan = _whole_json(text) if text.lstrip()[:1] in ("{", "[") else None
    return assemble(scan or scan_lines(split_lines(text)), "text")


def _parse_path(path: Path) -> ParsedLog:
    if not path.exists():
        raise NotFoundError(f"'{path}' does not exist", where="argument 'path'", remedy="Give the path of a log file.")
    if path.is_dir():
        return _parse_folder(path)
    if "tfevents" in path.name:
        return assemble(_tensorboard(path), path.name)
    if path.suffix == ".wandb":
        return assemble(_scan_rows(list(history_rows(path)), "wandb offline run"), path.name)
    encoding = _encoding(path)
    with path.open(encoding=encoding, errors="replace", newline="\n") as file:
        head = file.read(4096).lstrip("\ufeff").lstrip()
    if not head:
        raise InputError(
            "the file is empty", where=str(path), remedy="Give a file with the rows that the trainer printed."
        )
    if head[:1] in ("{", "[") and path.stat().st_size <= _WHOLE_JSON and not _is_json_lines(head):
        text = path.read_text(encoding=encoding, errors="replace").lstrip("\ufeff")
        scan = _whole_json(text, path.stem.split("tag-")[-1])
        if scan is not None:
            return _noting(assemble(scan, path.name), encoding, text.count(REPLACED))
    odd: list[int] = []
    with path.open(encoding=encoding, errors="replace", newline="\n") as file:
        log = assemble(scan_lines(_named_values(path, file, odd)), path.name)
    return _noting(log, encoding, len(odd))


def _noting(log: ParsedLog, encoding: str, odd: int) -> ParsedLog:
    """Say what was read although it could not be decoded: a log of one odd byte is still a log."""
    if odd:
        log.notes.append(f"not wholly {encoding.upper()}: in {odd} places bytes were replaced, and the rest was read")
    return log


def _named_values(path: Path, lines: Iterator[str], odd: list[int]) -> Iterator[str]:
    """A TensorBoard CSV calls its column 'Value' and keeps the name in the file name: put it into the header.

    The numbers of lines with undecodable bytes are added to `odd`.
    """
    for number, line in enumerate(lines):
        if REPLACED in line:
            odd.append(number)
        if number == 0 and line.strip().replace('"', "") in ("Wall time,Step,Value", "step,value", "Step,Value"):
            tag = path.stem.split("tag-")[-1]
            line = line.replace("Value", tag).replace("value", tag)
        yield line.lstrip("\ufeff") if number == 0 else line


def _parse_folder(folder: Path) -> ParsedLog:
    """A run folder of ours, a checkpoint, a TensorBoard or a W&B folder: the first that has a log."""
    for pattern in (
        "metrics.jsonl",
        "trainer_state.json",
        "checkpoint-*/trainer_state.json",
        "*tfevents*",
        "*.wandb",
        "logging.jsonl",
        "train.log",
        "log.txt",
    ):
        found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime)
        found = [path for path in found if path.is_file()]
        if found:
            return _parse_path(found[-1])
    raise InputError(
        "the folder holds no log",
        where=str(folder),
        remedy="Expected metrics.jsonl, trainer_state.json, a tfevents or a .wandb file in it.",
    )


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(8192)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\x00" in head:
        raise InputError(
            "the file is binary", where=str(path), remedy="Give text, CSV, JSON, a tfevents or a .wandb file."
        )
    return "utf-8"


def _is_json_lines(head: str) -> bool:
    """True when the first line alone is an object and another line follows."""
    first, newline, rest = head.partition("\n")
    return bool(newline and rest.strip()) and first.rstrip().endswith("}") and first.startswith("{")


def _whole_json(text: str, tag: str = "") -> Scan | None:
    """Read a text that is one JSON document: trainer_state.json, a list of rows, or columns. None when it is not.

    `tag` names the values of TensorBoard's JSON, which has none: `[[seconds, step, value], ...]`.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    rows = _scalars(document, tag) or _rows_of(document)
    if rows is None:
        return None
    scanner = Scanner()
    for number, row in enumerate(rows, 1):
        scanner.take(dict(row) if isinstance(row, Mapping) else {}, number, json.dumps(row)[:200])
    scan = scanner.result()
    scan.formats = {
        "trainer_state.json" if isinstance(document, dict) and "log_history" in document else "json": len(rows)
    }
    return scan


def _scalars(document: Any, tag: str) -> list[Any] | None:
    rows = document if tag and isinstance(document, list) else []
    plain = all(
        isinstance(row, list) and len(row) == 3 and all(isinstance(v, (int, float)) for v in row) for row in rows
    )
    return [{"step": row[1], tag: row[2]} for row in rows] if rows and plain else None


def _rows_of(document: Any) -> list[Any] | None:
    if isinstance(document, list):
        return document if document and all(isinstance(row, Mapping) for row in document) else None
    if not isinstance(document, Mapping):
        return None
    for key in _HISTORY_KEYS:
        if isinstance(document.get(key), list):
            return _rows_of(document[key])
    columns = {key: value for key, value in document.items() if isinstance(value, list)}
    if columns:
        longest = max(len(value) for value in columns.values())
        return [{k: v[i] for k, v in columns.items() if i < len(v)} for i in range(longest)]
    return [document]


def _tensorboard(path: Path) -> Scan:
    try:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError:
        raise MissingPackageError(
            "reading TensorBoard event files needs the package tensorboard",
            where=str(path),
            remedy="Run: pip install tensorboard, or export the scalars as CSV.",
        ) from None
    rows: dict[int, dict[str, Any]] = {}
    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            number = (
                float(make_ndarray(value.tensor))
                if value.HasField("tensor") and not value.tensor.tensor_shape.dim and value.tensor.dtype in (1, 2)
                else value.simple_value
                if value.HasField("simple_value")
                else None
            )
            if number is not None:
                rows.setdefault(event.step, {"step": event.step})[value.tag] = number
    return _scan_rows([rows[step] for step in sorted(rows)], "tensorboard events")


def _scan_rows(rows: list[dict[str, Any]], name: str) -> Scan:
    scanner = Scanner()
    for number, row in enumerate(rows, 1):
        scanner.take(row, number)
    scan = scanner.result()
    scan.formats = {name: len(rows)}
    return scan
