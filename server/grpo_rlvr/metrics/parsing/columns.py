"""Columns that stay small: rows are kept as they are up to a limit, then averaged in blocks."""

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.metrics.parsing.values import read_number

# Marks "this row has no such column" inside an array of floats: nan is a value that a log can print.
MISSING = -1.7976931348623157e308
# Rows held exactly; beyond, neighbours are averaged. 8192 rows of 40 columns are 2.6 MB.
LIMIT = 8192
# Columns of one table; a log with more is a dump of something else.
MAX_COLUMNS = 2000


@dataclass
class Nonfinite:
    """How often, and where, a column printed nan or inf. Rows are counted from 0."""

    count: int = 0
    first: int = -1
    last: int = -1


@dataclass
class Columns:
    """A table that grows a row at a time.

    `stride` is how many printed rows one stored row stands for.
    """

    data: dict[str, "array[float]"] = field(default_factory=dict)
    nonfinite: dict[str, Nonfinite] = field(default_factory=dict)
    rows: int = 0
    stride: int = 1
    dropped_columns: int = 0
    first_line: int = 0
    last_line: int = 0
    _pending: dict[str, "array[float]"] = field(default_factory=dict)
    _pending_rows: int = 0
    _layout: tuple[str, ...] = ()
    _targets: list["array[float]"] = field(default_factory=list)

    def add(self, row: Mapping[str, Any], line: int = 0) -> None:
        """Append one row; values that state no number are left out."""
        layout = tuple(row)
        if layout != self._layout or not self._add_floats(row):
            self._add_any(row)
        self._pending_rows += 1
        self.rows += 1
        self.first_line = self.first_line or line
        self.last_line = line
        if self._pending_rows >= LIMIT:
            self._flush()

    def _add_floats(self, row: Mapping[str, Any]) -> bool:
        """The fast path: same columns as the row before, all numbers. False when a value is none, nothing added."""
        added = 0
        try:
            for target, value in zip(self._targets, row.values(), strict=True):
                target.append(value)
                added += 1
        except (TypeError, OverflowError):
            for target in self._targets[:added]:
                target.pop()
            return False
        return True

    def _add_any(self, row: Mapping[str, Any]) -> None:
        for name, value in row.items():
            number = _as_number(value)
            if number is None:
                continue
            target = self._pending.get(name)
            if target is None:
                if len(self._pending) >= MAX_COLUMNS:
                    self.dropped_columns += 1
                    continue
                target = self._pending[name] = array("d")
            target.extend([MISSING] * (self._pending_rows - len(target)))
            if len(target) == self._pending_rows:
                target.append(number)
        for target in self._pending.values():
            if len(target) <= self._pending_rows:
                target.append(MISSING)
        # The fast path may only run while these are all the columns, so that none falls behind.
        known = tuple(row)
        whole = len(known) == len(self._pending) and all(name in self._pending for name in known)
        self._layout = known if whole else ()
        self._targets = [self._pending[name] for name in known] if whole else []

    def finish(self) -> "Columns":
        """Move what is pending into `data`."""
        if self._pending_rows:
            self._flush()
        return self

    def _flush(self) -> None:
        import numpy as np

        start = self.rows - self._pending_rows
        stored = max((len(column) for column in self.data.values()), default=0)
        blocks = -(-self._pending_rows // self.stride)
        for name, column in self._pending.items():
            values = np.frombuffer(column, dtype=float).copy()
            self._count_nonfinite(name, values, start)
            kept = self.data.setdefault(name, array("d"))
            kept.extend([MISSING] * (stored - len(kept)))
            kept.frombytes(_average(values, self.stride).tobytes())
        for column in self.data.values():
            column.extend([MISSING] * (stored + blocks - len(column)))
        self._pending = {name: array("d") for name in self._pending}
        self._pending_rows, self._layout = 0, ()
        while stored + blocks > LIMIT:
            self.data = {n: array("d", _average(np.frombuffer(c, dtype=float), 2)) for n, c in self.data.items()}
            self.stride *= 2
            stored, blocks = -(-(stored + blocks) // 2), 0

    def _count_nonfinite(self, name: str, values: Any, start: int) -> None:
        import numpy as np

        where = np.flatnonzero(~np.isfinite(values))
        if len(where):
            record = self.nonfinite.setdefault(name, Nonfinite(first=start + int(where[0])))
            record.count += len(where)
            record.last = start + int(where[-1])
            values[where] = MISSING


def _average(values: Any, size: int) -> Any:
    """Means of blocks of `size`, leaving out what is missing."""
    import numpy as np

    if size == 1:
        return values
    padded = np.concatenate([values, np.full(-len(values) % size, MISSING)]).reshape(-1, size)
    known = padded != MISSING
    counts = known.sum(axis=1)
    sums = np.where(known, padded, 0.0).sum(axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), MISSING)


def _as_number(value: Any) -> float | None:
    if value is None or isinstance(value, (list, dict)):
        return None
    if isinstance(value, (int, float)):
        return _bounded(float(value)) if abs(value) < 1e308 or value != value else math.inf
    if isinstance(value, str):
        number = read_number(value)
        return None if number is None else _bounded(number)
    return None


def _bounded(number: float) -> float:
    """Keep a printed number from being taken for the mark of a missing one."""
    return -math.inf if number <= MISSING else number
