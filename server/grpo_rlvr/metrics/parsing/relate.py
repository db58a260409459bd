"""How the tables of one paste belong together: one table that was cut in two, or the tables of several runs."""

from array import array

from grpo_rlvr.metrics.names import meaning
from grpo_rlvr.metrics.parsing.columns import MISSING, Columns
from grpo_rlvr.metrics.parsing.tables import Table

# Quantities that say how training goes; two tables that share two of them tell of two runs, or of one in two parts.
_TOLD = frozenset({"reward", "loss", "kl", "entropy", "length", "accuracy", "clipped", "reward_std"})


def join_continued(tables: list[Table]) -> tuple[list[Table], list[str]]:
    """Put a table behind the one before it where it has its columns and its steps go on; also return notes."""
    joined: list[Table] = []
    notes = []
    for table in tables:
        if joined and _continues(joined[-1], table):
            joined[-1].columns = _after(joined[-1].columns, table.columns)
            notes.append(f"the table at line {table.columns.first_line} goes on with the one before it: read as one")
        else:
            joined.append(table)
    return joined, notes


def other_runs(main: Table, tables: list[Table]) -> list[str]:
    """Say which tables have what the judged one has, and so are other runs that are not judged."""
    told = _quantities(main) & _TOLD
    return [
        f"a further table of {table.columns.rows} rows (line {table.columns.first_line}) has the same columns: taken "
        "for another run and not judged; give it alone, or compare the two"
        for table in tables
        if table is not main and not table.single and table.kind == main.kind and len(_quantities(table) & told) >= 2
    ]


def _continues(first: Table, second: Table) -> bool:
    same = first.columns.data.keys() == second.columns.data.keys()
    if not same or {first.kind, second.kind} != {"rows"} or first.columns.stride + second.columns.stride > 2:
        return False
    ends = [_steps(table.columns) for table in (first, second)]
    return all(ends) and ends[0][-1] < ends[1][0]


def _steps(columns: Columns) -> list[float]:
    for name, values in columns.data.items():
        if (found := meaning(name)) and found.quantity == "step":
            return [value for value in values if value != MISSING]
    return []


def _after(first: Columns, second: Columns) -> Columns:
    joined = Columns(first_line=first.first_line, last_line=second.last_line, rows=first.rows + second.rows)
    joined.data = {name: array("d", values) + second.data[name] for name, values in first.data.items()}
    joined.nonfinite = dict(first.nonfinite)
    for name, record in second.nonfinite.items():
        kept = joined.nonfinite.get(name)
        if kept is None:
            record.first, record.last = record.first + first.rows, record.last + first.rows
            joined.nonfinite[name] = record
        else:
            kept.count, kept.last = kept.count + record.count, record.last + first.rows
    return joined


def _quantities(table: Table) -> set[str]:
    return {found.quantity for name in table.columns.data if (found := meaning(name)) and not found.evaluation}
