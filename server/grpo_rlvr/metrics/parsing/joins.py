"""Pieces that only together are a run: tables of one value a metric, and lists of numbers under a name each."""

from dataclasses import dataclass, field
from itertools import pairwise

from grpo_rlvr.metrics.names import meaning
from grpo_rlvr.metrics.parsing.columns import Columns
from grpo_rlvr.metrics.parsing.lines import Row
from grpo_rlvr.metrics.parsing.tables import Table


@dataclass(frozen=True)
class Single:
    """A table of one value a metric, the line it begins at, and the step that the line above states."""

    table: Table
    line: int
    step: float | None


@dataclass
class Joined:
    """Tables, what to say of them, and (line, text, reason) of what is no run."""

    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: list[tuple[int, str, str]] = field(default_factory=list)


def join_singles(singles: list[Single]) -> Joined:
    """Read tables that hold one value a metric as rows of one run, when each has mostly the names of the last."""
    joined, run = Joined(), list[Single]()
    for single in singles:
        if run and not _same_names(run[-1].table.single, single.table.single):
            _close(run, joined)
            run = []
        run.append(single)
    _close(run, joined)
    return joined


def _close(run: list[Single], joined: Joined) -> None:
    if len(run) < 2:
        for single in run:
            joined.notes += single.table.notes
            joined.tables.append(single.table)
        return
    table = Table(Columns(), "rows", "table")
    steps = [single.step for single in run if single.step is not None]
    ordered = len(steps) == len(run) and all(a < b for a, b in pairwise(steps))
    for single in run:
        row = single.table.single
        placed = any((found := meaning(name)) and found.quantity == "step" for name in row)
        table.columns.add({"step": single.step, **row} if ordered and not placed else row, single.line)
    table.columns.finish()
    joined.notes.append(f"{len(run)} tables of one value a metric are read as {len(run)} rows of one run")
    joined.tables.append(table)


def join_arrays(arrays: list[tuple[str, list[float], int]]) -> Joined:
    """Read lists of numbers (name, values, line) as columns of one run: several names, each once, of one length."""
    joined = Joined()
    columns = {name: values for name, values, _ in arrays}
    lengths = {len(values) for values in columns.values()}
    if len(columns) < 2 or len(columns) < len(arrays) or len(lengths) != 1:
        # One list, or the same one again and again: the answers of a batch, not the course of a run.
        joined.unread = [
            (line, f"{name}: a list of {len(values)} numbers", "no course of a run") for name, values, line in arrays
        ]
        return joined
    table = Table(Columns(), "rows", "lists")
    for index in range(lengths.pop()):
        table.columns.add({name: values[index] for name, values in columns.items()}, arrays[0][2])
    table.columns.finish()
    joined.notes.append(f"{len(columns)} lists of {table.columns.rows} numbers are read as columns of one run")
    joined.tables.append(table)
    return joined


def _same_names(one: Row, other: Row) -> bool:
    return len(one.keys() & other.keys()) * 2 > max(len(one), len(other))
