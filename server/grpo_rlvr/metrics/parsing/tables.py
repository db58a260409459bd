"""Tables: Markdown, ASCII boxes, CSV and TSV exports, columns aligned by spaces, and metrics written as rows."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from grpo_rlvr.metrics.names import meaning, normalise
from grpo_rlvr.metrics.parsing.columns import Columns
from grpo_rlvr.metrics.parsing.lines import is_number_or_blank
from grpo_rlvr.metrics.parsing.points import is_moment, points
from grpo_rlvr.metrics.parsing.values import range_end, read_cell, without_words

# Rows looked at before deciding what kind of table it is; afterwards rows are stored as they come.
PREVIEW = 200
_RULE = re.compile(r"^[\s|+:=─━┄═╌┼╪├┤┬┴┌┐└┘╒╕╘╛╞╡┏┓┗┛┳┻┣┫╋┠┨┰┸┡┩╇╈┯┷╭╮╰╯-]+$")
_SEPARATED_WORDS = re.compile(r"\b(Training|Validation|Train|Valid|Wall|Grad|Step) (Loss|time|Norm)\b", re.IGNORECASE)
_WANDB_RUN = re.compile(
    r"^.+(?: - |-(?=(?:train|eval|val|rollout|actor|critic)/))(?P<metric>[\w./]+?)(?P<bound>__(?:MIN|MAX))?$"
)
# A first column of this name says that every row is another run.
_RUN_COLUMNS = frozenset(
    {"run", "exp", "experiment", "run_name", "name", "config", "model", "variant", "arm", "seed", "setting", "method"}
)
# A sweep: the first column is what differs between the runs, and nothing says where in a run a row stands.
_SWEPT = frozenset(
    {"lr", "learning_rate", "beta", "temperature", "num_generations", "epsilon", "epsilon_high", "batch_size"}
)
_ORDER = frozenset({"step", "steps", "global_step", "epoch", "iteration", "iter"})
_METRIC_COLUMNS = frozenset({"metric", "metrics", "key", "name", "quantity", "measure", "column", "signal"})
# A row of a table that stands for rows left out.
_ELLIPSIS = re.compile(r"^[\s|.…⋮]*(?:\.\.\.|…|⋮)[\s|.…⋮]*$")
# "20 (val)" in the place of the step: a row of an evaluation between rows of training.
_EVALUATION_ROW = re.compile(r"\b(?:val|valid|validation|eval|evaluation|test)\b", re.IGNORECASE)


@dataclass
class Table:
    """Columns with what the table is: `rows` of one run, `windows` of it, `runs` (another run a row) or `summary`."""

    columns: Columns
    kind: str = "rows"
    format: str = ""
    notes: list[str] = field(default_factory=list)
    evaluation: Columns = field(default_factory=Columns)
    # The only column of a table whose rows are metrics: what Tinker and AReaL print at every step.
    single: dict[str, str] = field(default_factory=dict)


@dataclass
class OpenTable:
    """A table whose header has been read and whose rows are coming in."""

    header: list[str]
    format: str
    line: int
    delimiter: str = ""
    preview: list[tuple[int, list[str]]] = field(default_factory=list)
    table: Table | None = None
    position: int | None = None
    # Columns of each of several parts that stand side by side under the same headings, 0 when there is one part.
    part: int = 0

    def add(self, cells: list[str], line: int) -> None:
        """Take one row of cells, as many as the header has."""
        if self.table is not None:
            for piece in self._parts(cells):
                self._store(self.table, piece, line)
            return
        self.preview.append((line, cells))
        if len(self.preview) >= PREVIEW:
            self.table = self._decide()

    def close(self) -> Table | None:
        """Return the table, None when it has no row with a number in a known column."""
        if self.table is None and self.preview:
            self.table = self._decide()
        if self.table is None:
            return None
        self.table.columns.finish()
        self.table.evaluation.finish()
        return self.table if self.table.columns.data or self.table.evaluation.data else None

    def _parts(self, cells: list[str]) -> list[list[str]]:
        if not self.part:
            return [cells]
        return [piece for at in range(0, len(cells), self.part) if any(piece := cells[at : at + self.part])]

    def _unfold(self) -> None:
        """Put parts that stand side by side (`| Step | Reward | Step | Reward |`) below each other."""
        self.part = next((n for n in range(2, len(self.header) // 2 + 1) if _repeats(self.header, n)), 0)
        if not self.part:
            return
        split = [(line, self._parts(cells)) for line, cells in self.preview]
        most = max(len(pieces) for _, pieces in split)
        self.preview = [(line, pieces[i]) for i in range(most) for line, pieces in split if i < len(pieces)]
        self.header = self.header[: self.part]

    def _decide(self) -> Table | None:
        self._unfold()
        rows = [cells for _, cells in self.preview]
        if _is_transposed(self.header, rows):
            return self._transposed(rows)
        if not any(meaning(name) for name in self.header):
            return None
        header = _unique([_wandb_metric(name) for name in self.header])
        table = Table(Columns(), "rows", self.format)
        if again := sorted(
            {
                name.rsplit(" #", 1)[0]
                for name in header
                if " #" in name and name not in self.header and "__M" not in name
            }
        ):
            table.notes.append(f"several columns are called {', '.join(map(repr, again[:4]))}: the first one is read")
        if self.part:
            table.notes.append("parts that stand side by side under the same headings are read one below the other")
        if _is_runs(header, rows):
            table.kind = "runs"
            table.notes.append("every row of this table is another run: levels are judged, trends are not")
        elif (position := _window_column(header, rows)) is not None:
            table.kind, self.position = "windows", position
            table.notes.append(f"column '{header[position]}' holds ranges: each row is a window, not one step")
        table.notes += _odd_cells(header, self.preview)
        self.header = ["step" if i == self.position else name for i, name in enumerate(header)]
        for line, cells in self.preview:
            self._store(table, cells, line)
        return table

    def _store(self, table: Table, cells: list[str], line: int) -> None:
        if table.kind == "rows" and self.delimiter == "|" and _is_evaluation(self.header, cells):
            table.evaluation.add({f"eval_{name}": cell for name, cell in zip(self.header, cells, strict=False)}, line)
            return
        row: dict[str, str | float] = dict(zip(self.header, cells, strict=False))
        if self.position is not None:
            end = range_end(cells[self.position])
            row["step"] = end if end is not None else cells[self.position]
        if self.delimiter == "|":
            row = {
                name: without_words(cell) if isinstance(cell, str) and meaning(name) else cell
                for name, cell in row.items()
            }
        table.columns.add(row, line)

    def _transposed(self, rows: list[list[str]]) -> Table:
        table = Table(Columns(), "summary", self.format)
        names = [self.header[0]] if meaning(self.header[0]) else []
        wide = [self.header, *rows] if names else rows
        wanted = list(range(1, max(len(cells) for cells in wide)))
        if not names:
            wanted, table.kind, note = points(self.header, rows)
            read = "points in time" if table.kind == "summary" else "different runs: levels are judged, trends are not"
            table.notes.append(f"metrics are written as rows; {len(wanted)} columns read as {read}")
            table.notes += [note] if note else []
        if len(wanted) == 1:
            table.single = {cells[0]: cells[wanted[0]] for cells in wide if len(cells) > wanted[0]}
        for index in wanted:
            table.columns.add(
                {cells[0]: without_words(cells[index]) for cells in wide if len(cells) > index}, self.line
            )
        return table


def split_cells(line: str, delimiter: str) -> list[str]:
    """Split one line of a table into stripped cells."""
    if delimiter == "|":
        inner = line.strip().replace("│", "|").replace("┃", "|").replace("║", "|").strip("|")
        return [_clean(cell) for cell in inner.split("|")]
    if delimiter == " ":
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]


def is_rule(line: str) -> bool:
    """True for the lines that only draw a table: `|---|---|`, `+-----+`."""
    return bool(_RULE.match(line)) and any(mark in line for mark in "-─━═=")


def header_of(line: str, number: int) -> OpenTable | None:
    """Return the table that this line opens, None when it is no header."""
    stripped = line.strip()
    marks = stripped.replace("│", "|").replace("┃", "|").replace("║", "|")
    if marks.count("|") >= 2 and "%|" not in marks:
        cells = split_cells(marks, "|")
        if len(cells) >= 2 and (not _numeric(cells) or meaning(cells[0])):
            table = OpenTable(cells, "table", number, "|")
            if sum(is_number_or_blank(cell) for cell in cells[1:]) == len(cells) - 1 and meaning(cells[0]):
                table.preview.append((number, cells))
                table.header = ["metric", *[f"value {i}" for i in range(1, len(cells))]]
            return table
        return None
    for delimiter, name in (("\t", "tsv"), (",", "csv"), (";", "csv")):
        cells = split_cells(stripped, delimiter) if delimiter in stripped else []
        if len(cells) >= 2 and not any(map(_states_number, cells)) and _known(cells, 1):
            return OpenTable([c or f"column {i + 1}" for i, c in enumerate(cells)], name, number, delimiter)
    words = _SEPARATED_WORDS.sub(r"\1_\2", stripped).replace(" / ", "/")
    cells = re.split(r"\s{2,}", words)
    cells = cells if len(cells) >= 3 and not any(" " in cell for cell in cells) else words.split()
    if len(cells) >= 3 and not any(map(_is_number, cells)) and _known(cells, 2) and len(cells) <= 60:
        return OpenTable(cells, "aligned table", number, " ")
    return None


def is_ellipsis(line: str) -> bool:
    """True for `...`, alone or in every cell, where rows of a table are left out."""
    return bool(_ELLIPSIS.match(line))


def row_of(table: OpenTable, line: str) -> list[str] | None:
    """Return the cells of the next row of an open table, None when the line does not belong to it."""
    if table.delimiter == "|":
        marks = line.replace("│", "|").replace("┃", "|").replace("║", "|")
        if "|" not in marks or "%|" in marks:
            return None
        cells = split_cells(marks, "|")
        return (cells + [""] * (len(table.header) - len(cells)))[: len(table.header)] if len(cells) >= 2 else None
    if table.delimiter not in line:
        return None
    line = line.replace("No log", "-") if table.delimiter == " " else line
    cells = split_cells(line.strip("\r\n") if table.delimiter == "\t" else line.strip(), table.delimiter)
    if len(cells) != len(table.header):
        # A printed data frame numbers its rows, and its header has no name for that.
        if table.delimiter != " " or len(cells) != len(table.header) + 1 or not cells[0].isdecimal():
            return None
        cells = cells[1:]
    return cells if sum(map(_is_number, cells)) >= 1 else None


def _repeats(header: Sequence[str], size: int) -> bool:
    """True for a header that is its first `size` names, with a known one among them, again and again."""
    whole = len(header) % size == 0 and list(header) == list(header[:size]) * (len(header) // size)
    return whole and _known(header[:size], 1)


def _numeric(cells: Sequence[str]) -> bool:
    return sum(map(_is_number, cells)) * 2 > len(cells)


@lru_cache(maxsize=65_536)  # The words of prose repeat; asking each anew makes a long paste three times slower.
def _is_number(cell: str) -> bool:
    return bool(cell.strip()) and read_cell(cell)[0] is not None


def _states_number(cell: str) -> bool:
    """True for a number, also one with a unit or a spread behind it: a heading does not begin with one."""
    return _is_number(cell) or bool(re.match(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?\s", cell))


def _known(cells: Sequence[str], least: int) -> bool:
    return sum(meaning(_wandb_metric(cell)) is not None for cell in cells) >= least


def _clean(cell: str) -> str:
    return cell.replace("**", "").replace("`", "").strip().strip("*").strip()


def _wandb_metric(name: str) -> str:
    """`my-run - train/reward` of a W&B export is `train/reward`; its __MIN and __MAX columns keep their mark."""
    found = _WANDB_RUN.match(name)
    return f"{found['metric']}{found['bound'] or ''}" if found else name


def _unique(names: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return result


def _is_transposed(header: list[str], rows: list[list[str]]) -> bool:
    if len(header) < 2 or any(len(cells) < 2 for cells in rows):
        return False
    named = sum(meaning(cells[0]) is not None and not _is_number(cells[0]) for cells in rows)
    if normalise(header[0]) in _METRIC_COLUMNS:
        return named >= 1
    return named * 2 > len(rows) and not _known(header[1:], 1)


def _is_runs(header: list[str], rows: list[list[str]]) -> bool:
    """Several rows told apart by a name, or by a learning rate or seed that no schedule would print so."""
    names = {normalise(name) for name in header}
    first_is_words = sum(not _is_number(cells[0]) and range_end(cells[0]) is None for cells in rows) * 2 > len(rows)
    if names & _RUN_COLUMNS and first_is_words:
        return True
    if normalise(header[0]) in _RUN_COLUMNS | _SWEPT and not names & _ORDER:
        return True
    if first_is_words and names & {"lr", "learning_rate", "beta", "steps_run", "warmup"}:
        return True
    # Rows told apart by a word of their own (splits, tasks, arms) and by no place in time.
    labels = [cells[0] for cells in rows]
    timed = any(found and found.quantity in ("step", "epoch") for found in map(meaning, header))
    return first_is_words and not timed and len(set(labels)) == len(labels) > 2 and not any(map(is_moment, labels))


def _window_column(header: list[str], rows: list[list[str]]) -> int | None:
    """The column whose ranges say which steps a row stands for: the first one, or the one of the step."""
    candidates = [0, *(i for i, name in enumerate(header) if (found := meaning(name)) and found.quantity == "step")]
    return next((i for i in candidates if any(range_end(cells[i]) is not None for cells in rows)), None)


def _is_evaluation(header: list[str], cells: list[str]) -> bool:
    place = meaning(header[0])
    return place is not None and place.quantity in ("step", "epoch") and bool(_EVALUATION_ROW.search(cells[0]))


def _odd_cells(header: list[str], preview: list[tuple[int, list[str]]]) -> list[str]:
    """Say which cells of known columns hold words, ranges or spreads instead of plain numbers."""
    notes = []
    told = {i: sum(is_number_or_blank(without_words(cells[i])) for _, cells in preview) for i in range(1, len(header))}
    for line, cells in preview[:20]:
        for i, (name, cell) in list(enumerate(zip(header, cells, strict=False)))[1:]:
            if not meaning(name) or told[i] * 2 < len(preview):
                continue  # a column of words has no odd cells
            value, form = read_cell(without_words(cell))
            if form == "range":
                notes.append(f"line {line}: '{cell}' in column '{name}' is a range, its middle {value:g} is used")
            elif value is None and not is_number_or_blank(cell):
                notes.append(f"line {line}: '{cell}' in column '{name}' is no number, left out")
    return notes[:10]
