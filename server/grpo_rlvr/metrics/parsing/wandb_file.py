"""Reading the history out of a W&B offline run (.wandb): a LevelDB-style log of protobuf records, no package needed."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError

_BLOCK, _HEADER = 32768, 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
# Field numbers: Record.history, HistoryRecord.item, HistoryItem.key, .nested_key and its value in one of four forms.
_HISTORY, _ITEM, _KEY, _NESTED = 2, 1, 1, 2
_INTEGER, _NUMBER, _JSON, _VALUE_JSON = 5, 6, 8, 16


def history_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield one dictionary of metrics for each logged step.

    Raises:
        InputError: the file does not begin as a .wandb file does.
    """
    with path.open("rb") as file:
        if file.read(_HEADER)[:4] != b":W&B":
            raise InputError("this is no W&B run file", where=str(path), remedy="Give the run-*.wandb file itself.")
        file.seek(0)
        for record in _records(iter(lambda: file.read(_BLOCK), b"")):
            for number, history in _fields(record):
                if number == _HISTORY and isinstance(history, bytes):
                    yield dict(_items(history))


def _records(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Join the pieces of each record; a torn end (a run that was killed) ends the reading."""
    pieces: list[bytes] = []
    start = _HEADER
    for block in blocks:
        while start + _HEADER <= len(block):
            length, kind = int.from_bytes(block[start + 4 : start + 6], "little"), block[start + 6]
            piece = block[start + _HEADER : start + _HEADER + length]
            if kind not in (_FULL, _FIRST, _MIDDLE, _LAST) or len(piece) < length:
                break
            pieces = [piece] if kind in (_FULL, _FIRST) else [*pieces, piece]
            start += _HEADER + length
            if kind in (_FULL, _LAST):
                yield b"".join(pieces)
        start = 0


def _items(history: bytes) -> Iterator[tuple[str, Any]]:
    for number, item in _fields(history):
        if number != _ITEM or not isinstance(item, bytes):
            continue
        names, value = [], None
        for field, content in _fields(item):
            if field in (_KEY, _NESTED) and isinstance(content, bytes):
                names.append(content.decode("utf-8", "replace"))
            elif field in (_INTEGER, _NUMBER, _JSON, _VALUE_JSON):
                value = _value(field, content)
        if value is not None:
            yield "/".join(names), value


def _value(field: int, content: int | bytes) -> Any:
    """The value of an item, None when it is none that can be read."""
    if isinstance(content, int):
        return (content >> 1) ^ -(content & 1) if field == _INTEGER else None
    if field == _NUMBER:
        return struct.unpack("<d", content)[0] if len(content) == 8 else None
    try:
        return json.loads(content)
    except ValueError:
        return None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message; reading stops where the bytes make no sense."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = _varint(message, position)
            yield number, value
        elif wire == 2:
            length, position = _varint(message, position)
            yield number, message[position : position + length]
            position += length
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            yield number, message[position : position + size]
            position += size
        else:
            return


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(message):
        byte = message[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            break
    return value, position
