"""From what was read to one run with named series: restarts, evaluation rows, the table that carries the run."""

import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from grpo_rlvr.metrics.names import QUANTITIES, Meaning, meaning, normalise
from grpo_rlvr.metrics.parsing.columns import MISSING, Columns, Nonfinite
from grpo_rlvr.metrics.parsing.relate import join_continued, other_runs
from grpo_rlvr.metrics.parsing.scan import Scan
from grpo_rlvr.metrics.parsing.tables import Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

# Names that several frameworks print: they do not tell who wrote the log.
_SHARED_NAMES = frozenset(
    [
        "loss",
        "grad_norm",
        "learning_rate",
        "epoch",
        "step",
        "reward",
        "reward_mean",
        "reward_std",
        "kl",
        "entropy",
        "clip_ratio",
        "time",
        "step_time",
        "response_length",
        "gen_len",
        "truncated",
        "truncation",
        "return",
        "seq_length",
        "avg_reward",
        "kl_loss",
        "pg_loss",
        "pg_clipfrac",
        "entropy_loss",
    ]
)
# Trainers that print TRL's names and some of their own: the few are the mark.
_BUILT_ON_TRL = ("ms-swift", "mlx-lm-lora")
_VALUE_MODEL = re.compile(r"(?:^|/)(?:vf_loss|value_loss|vf_explained_var|values/mean)(?:$|/)")


# Columns that hold a number of groups where others hold a share. rLLM prints all three, so that the share is known.
_COUNTED = re.compile(r"(?:^|_)(?:num|n|count|counts|groups|solve_(?:none|all|partial))(?:_\d+)?(?:_|$)")
_SOLVE = ("batch/solve_none", "batch/solve_all", "batch/solve_partial")


@dataclass(frozen=True)
class Series:
    """One quantity over the run.

    `rows` are positions of the values in the run, counted from 1 in printed rows; `values` are finite.
    `nonfinite` counts printed nan and inf. `aside` says that the values stand beside the rows (an evaluation, another
    table of the paste), so that few of them are each a summary, not single rows.
    """

    quantity: str
    column: str
    rows: "Indices"
    values: "Floats"
    nonfinite: Nonfinite = field(default_factory=Nonfinite)
    detail: str = ""
    aside: bool = False

    def __len__(self) -> int:
        return len(self.values)


@dataclass
class ParsedLog:
    """A log as the rest of the engine sees it.

    `kind` is `rows`, `windows`, `runs` or `summary` (see Table). `components` and `accuracies` hold the reward
    functions and the independent measures by name, `evaluation` the series of eval rows.
    """

    rows: int = 0
    kind: str = "rows"
    stride: int = 1
    series: dict[str, Series] = field(default_factory=dict)
    components: dict[str, Series] = field(default_factory=dict)
    accuracies: dict[str, Series] = field(default_factory=dict)
    evaluation: dict[str, Series] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    unknown_columns: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    formats: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unread: list[tuple[int, str]] = field(default_factory=list)
    unread_count: int = 0
    lines: int = 0
    runs: int = 1
    source: str = "text"

    def get(self, quantity: str) -> Series | None:
        """The series of a quantity, None when the log has none."""
        return self.series.get(quantity)


def assemble(scan: Scan, source: str) -> ParsedLog:
    """Choose the table that carries the run, split appended runs, and name the series."""
    read, joins = join_continued(scan.tables)
    tables = [scan.stream, *read] if scan.stream.columns.data else read
    log = ParsedLog(
        formats=scan.formats,
        notes=scan.notes + joins,
        unread=scan.unread,
        unread_count=scan.unread_count,
        lines=scan.lines,
        source=source,
    )
    if not tables:
        _add_evaluation(log, scan.stream.evaluation)
        return log
    main = max(tables, key=lambda table: (table.kind != "summary", table.columns.rows * len(table.columns.data)))
    _fill(log, main)
    log.notes += other_runs(main, tables)
    for table in tables:
        if table is not main:
            _borrow(log, table)
    for table in tables:
        _add_evaluation(log, table.evaluation)
    if scan.stream not in tables:
        _add_evaluation(log, scan.stream.evaluation)
    _stand_in(log)
    _report_gaps(log)
    return log


def _stand_in(log: ParsedLog) -> None:
    """Without a reward column, read the only reward function, or a measure of success, as the measure of progress."""
    if "reward" in log.series:
        return
    held_out = {name: series for name, series in log.evaluation.items() if series.quantity in ("reward", "accuracy")}
    for candidates in (log.components, log.accuracies, held_out):
        if candidates and (len(candidates) == 1 or candidates is not log.components):
            column, series = max(candidates.items(), key=lambda item: len(item[1]))
            log.series["reward"] = series
            log.notes.append(f"no reward column: '{column}' is read as the measure of progress")
            return


def _report_gaps(log: ParsedLog) -> None:
    """Say where rows lack what others have, and where they print nan: reused batches log neither reward nor length."""
    for series in log.series.values():
        if series.nonfinite.count and len(series):
            log.notes.append(
                f"'{series.column}' is nan or inf on {series.nonfinite.count} of {log.rows} rows: left out"
            )
    if any(_VALUE_MODEL.search(name.lower()) for name in log.unknown_columns):
        log.notes.append("the run has a value model (PPO): what is said of groups and of GRPO's variants may not apply")
    reward = log.series.get("reward")
    if log.kind == "rows" and reward is not None and 0 < len(reward) < 0.9 * log.rows / log.stride:
        log.notes.append(
            f"the reward stands on {len(reward)} of {log.rows} rows; the others count as missing, not as zeros "
            "(rows of reused batches carry no reward)"
        )


def _fill(log: ParsedLog, table: Table) -> None:
    log.rows, log.kind, log.stride = table.columns.rows, table.kind, table.columns.stride
    if log.stride > 1:
        log.notes.append(f"{log.rows} rows: averaged in blocks of {log.stride} to bound memory")
    start, stop = _last_run(log, table)
    _share_of_groups(table.columns)
    named: dict[str, tuple[int, Series]] = {}
    unknown = []
    frameworks: dict[str, int] = {}
    for column in table.columns.data:
        found = meaning(column)
        if found is None:
            unknown.append(column)
            continue
        log.columns[column] = found.quantity
        if _is_count(table.columns, column, found, start, stop):
            log.columns[column] = "other"
            log.notes.append(f"'{column}' holds numbers of groups, not shares: left out")
            continue
        series = _series(table.columns, column, found, start, stop)
        if found.scale != 1.0 or _is_percent(table.columns, column, found, start, stop):
            log.notes.append(f"'{column}' is in percent and read as a share")
        if found.alias and found.alias.framework != "any" and normalise(column) not in _SHARED_NAMES:
            frameworks[found.alias.framework] = frameworks.get(found.alias.framework, 0) + 1
        _place(log, named, series, found)
    log.series = {quantity: series for quantity, (_, series) in named.items()}
    log.unknown_columns = tuple(_adopt_components(log, table.columns, unknown, start, stop))
    log.frameworks = tuple(sorted(frameworks, key=lambda name: (name not in _BUILT_ON_TRL, -frameworks[name])))
    log.rows = (stop - start) * log.stride if (start, stop) != (0, _stored(table.columns)) else log.rows


def _place(log: ParsedLog, named: dict[str, tuple[int, Series]], series: Series, found: Meaning) -> None:
    if not len(series) and not series.nonfinite.count:
        return
    if found.evaluation:
        log.evaluation.setdefault(series.column, series)
    elif found.quantity == "component":
        log.components.setdefault(found.detail or series.column, series)
    elif found.quantity == "accuracy":
        log.accuracies.setdefault(series.column, series)
    else:
        # Longer series win, then the framework's own name over a spelling, then the earlier column.
        rank = 2 * (len(series) + series.nonfinite.count) + (found.alias is not None and found.alias.framework != "any")
        if found.quantity not in named or rank > named[found.quantity][0]:
            named[found.quantity] = (rank, series)


def _series(columns: Columns, column: str, found: Meaning, start: int, stop: int, *, aside: bool = False) -> Series:
    import numpy as np

    raw = np.frombuffer(columns.data[column], dtype=float)[start:stop]
    where = np.flatnonzero(raw != MISSING)
    values = raw[where] * found.scale
    if _is_percent(columns, column, found, start, stop):
        values = values / 100.0
    if found.flip:
        values = 1.0 - values
    nonfinite = columns.nonfinite.get(column, Nonfinite())
    if nonfinite.last < start * columns.stride or nonfinite.first >= stop * columns.stride:
        nonfinite = Nonfinite()  # printed by another of the appended runs
    aside = aside or found.evaluation or found.quantity == "accuracy"
    return Series(found.quantity, column, where * columns.stride + 1, values, nonfinite, found.detail, aside)


def _share_of_groups(columns: Columns) -> None:
    """Turn rLLM's three numbers of prompts (none, all, some answers right) into shares of their sum."""
    import numpy as np

    if not all(name in columns.data for name in _SOLVE):
        return
    counts = np.array([np.frombuffer(columns.data[name], dtype=float) for name in _SOLVE])
    known = np.all(counts != MISSING, axis=0)
    total = np.where(known, counts.sum(axis=0), 0.0)
    if not known.any() or float(counts[:, known].max()) <= 1.0:
        return
    for name, values in zip(_SOLVE, counts, strict=True):
        columns.data[name] = array("d", np.where(total > 0, values / np.maximum(total, 1.0), MISSING))


def _is_count(columns: Columns, column: str, found: Meaning, start: int, stop: int) -> bool:
    """True for a number of groups where a share is expected: whole numbers above 1 under a name of counts."""
    import numpy as np

    if QUANTITIES[found.quantity].unit != "share" or found.scale != 1.0 or not _COUNTED.search(normalise(column)):
        return False
    raw = np.frombuffer(columns.data[column], dtype=float)[start:stop]
    known = raw[raw != MISSING]
    return len(known) > 0 and float(known.max()) > 1.0 and bool(np.all(known == np.round(known)))


def _is_percent(columns: Columns, column: str, found: Meaning, start: int, stop: int) -> bool:
    """True for a share that is printed as percent without a sign."""
    import numpy as np

    if QUANTITIES[found.quantity].unit != "share" or found.scale != 1.0:
        return False
    raw = np.frombuffer(columns.data[column], dtype=float)[start:stop]
    known = raw[raw != MISSING]
    return len(known) > 0 and 1.5 < float(known.max()) <= 100.0


def _adopt_components(log: ParsedLog, columns: Columns, unknown: list[str], start: int, stop: int) -> list[str]:
    """Reward functions without a prefix (Unsloth's table): the unknown columns that add up to the reward."""
    import numpy as np

    reward = log.series.get("reward")
    candidates = [_series(columns, name, Meaning("component", detail=name), start, stop) for name in unknown]
    candidates = [series for series in candidates if reward and np.array_equal(series.rows, reward.rows)]
    if reward is None or len(candidates) < 2 or len(reward) < 2:
        return unknown
    total = np.sum([series.values for series in candidates], axis=0)
    if not np.allclose(total, reward.values, rtol=1e-3, atol=1e-3):
        return unknown
    for series in candidates:
        log.components[series.detail] = series
        log.columns[series.column] = "component"
    log.notes.append(f"{len(candidates)} columns add up to the reward and are read as its components")
    return [name for name in unknown if name not in log.components]


def _stored(columns: Columns) -> int:
    return max((len(column) for column in columns.data.values()), default=0)


def _last_run(log: ParsedLog, table: Table) -> tuple[int, int]:
    """Return the stored rows of the run to judge: the last one, or the longest when the last has under 10 rows."""
    import numpy as np

    stored = _stored(table.columns)
    if table.kind != "rows" or stored < 2:
        return 0, stored
    order = _order_column(table.columns)
    if order is None:
        return 0, stored
    raw = np.frombuffer(table.columns.data[order], dtype=float)
    where = np.flatnonzero(raw != MISSING)
    steps = raw[where]
    drops = np.flatnonzero(np.diff(steps) < 0)
    if not len(drops):
        return 0, stored
    starts = [0, *(int(where[d + 1]) for d in drops), stored]
    spans = [(a, b) for a, b in pairwise(starts) if b > a]
    log.runs = len(spans)
    last = spans[-1] if spans[-1][1] - spans[-1][0] >= 10 else max(spans, key=lambda span: span[1] - span[0])
    which = spans.index(last) + 1
    log.notes.append(
        f"'{order}' goes back {len(drops)} time(s): {len(spans)} runs or restarts are appended here; "
        f"number {which} (rows {last[0] * table.columns.stride + 1} to {last[1] * table.columns.stride}) is judged"
    )
    return last


def _order_column(columns: Columns) -> str | None:
    """The column that grows within a run: the step, else the epoch, else the token count."""
    for wanted in ("step", "epoch", "num_tokens"):
        for column, values in columns.data.items():
            found = meaning(column)
            if found and found.quantity == wanted and not found.evaluation:
                known = sum(1 for value in values if value != MISSING)
                if known * 2 > len(values):
                    return column
    return None


def _borrow(log: ParsedLog, table: Table) -> None:
    """Take from a further table the quantities that the main one lacks."""
    for column in table.columns.data:
        found = meaning(column)
        if not found or found.quantity in ("other", "step", "epoch"):
            continue
        series = _series(table.columns, column, found, 0, _stored(table.columns), aside=True)
        taken = {"component": log.components, "accuracy": log.accuracies}.get(found.quantity, log.series)
        key = (found.detail or column) if found.quantity == "component" else column
        key = key if found.quantity in ("component", "accuracy") else found.quantity
        target: dict[str, Any] = log.evaluation if found.evaluation else taken
        if key not in target and len(series):
            target[key] = series
            log.columns.setdefault(column, found.quantity)
            log.notes.append(f"'{column}' is taken from another table in the paste ({len(series)} values)")


def _add_evaluation(log: ParsedLog, columns: Columns) -> None:
    count = 0
    for column in columns.data:
        found = meaning(column)
        if found and found.evaluation and found.quantity != "other":
            series = _series(columns, column, found, 0, _stored(columns))
            log.evaluation.setdefault(column, series)
            count = max(count, len(series))
    if count:
        log.notes.append(f"{count} evaluation rows are kept apart from the training rows")


def quantities(log: ParsedLog, names: Iterable[str]) -> list[Series]:
    """The series of those quantities that the log has."""
    return [log.series[name] for name in names if name in log.series]
