"""Reading a log line by line, in bounded memory, without knowing beforehand who printed it."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import unescape

from grpo_rlvr.metrics.names import meaning
from grpo_rlvr.metrics.parsing import lines as shapes
from grpo_rlvr.metrics.parsing.columns import Columns
from grpo_rlvr.metrics.parsing.joins import Joined, Single, join_arrays, join_singles
from grpo_rlvr.metrics.parsing.lines import Row, kind_of
from grpo_rlvr.metrics.parsing.prose import Prose
from grpo_rlvr.metrics.parsing.tables import OpenTable, Table, header_of, is_ellipsis, is_rule, row_of
from grpo_rlvr.metrics.parsing.values import read_number

# Lines quoted back as not understood; all are counted.
UNREAD_SHOWN = 20
# An object printed over several lines is joined up to here.
_OPEN_LINES, _OPEN_CHARS = 120, 60_000
# A longer line is no row of metrics; it is cut so that a regular expression cannot be made to crawl.
_LONGEST = 200_000
_LONGEST_TEXT = 8_000
_HTML = re.compile(r"</?(?:table|thead|tbody|tr|t[hd])\b", re.IGNORECASE)
_HTML_END = re.compile(r"</(tr|table)\s*>", re.IGNORECASE)
_HTML_CELL = re.compile(r"<t[hd]\b[^<>]*>", re.IGNORECASE)
_HTML_OPEN = re.compile(r"<t[hd]\b[^<>]*>[^<]*$", re.IGNORECASE)
_HTML_TAG = re.compile(r"<[^<>]*>")


@dataclass
class Scan:
    """What was found: one table of printed rows, further tables, evaluation rows, and what was not understood."""

    stream: Table = field(default_factory=lambda: Table(Columns(), "rows", ""))
    tables: list[Table] = field(default_factory=list)
    formats: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unread: list[tuple[int, str]] = field(default_factory=list)
    unread_count: int = 0
    lines: int = 0
    facts: dict[str, float] = field(default_factory=dict)


class Scanner:
    """Feed it lines, then take `result()`."""

    def __init__(self) -> None:
        self.scan = Scan()
        self._table: OpenTable | None = None
        self._open: list[str] = []
        self._open_line = 0
        self._block: Row = {}
        self._block_line = 0
        self._heading: float | None = None
        self._shapes: dict[tuple[str, ...], str] = {}
        self._verl, self._verl_line = "", 0
        self._text_row: Row = {}
        self._text_line = 0
        self._singles: list[Single] = []
        self._stated_step: float | None = None
        self._arrays: list[tuple[str, list[float], int]] = []
        self._html, self._html_line = "", 0
        self._sparklines = 0
        self._commas = False
        self._prose = Prose()

    def feed(self, line: str, number: int) -> None:
        """Take one line, numbered from 1."""
        self.scan.lines = number
        if len(line) > _LONGEST:
            self._unread(number, line, "longer than 200,000 characters")
            return
        if "\x1b" in line:
            line = shapes.ANSI.sub("", line)
        if "\r" in line:
            for piece in line.split("\r"):
                if piece.strip():
                    self._piece(piece, number)
            return
        self._piece(line, number)

    def take(self, row: Row, number: int, quoted: str = "") -> bool:
        """Take one row that is a dictionary already; False, and counted as unread, when it holds no metric."""
        taken = self._row(row, number, "json")
        if not taken and quoted:
            self._unread(number, quoted, "no metric in it")
        return taken

    def result(self) -> Scan:
        """Close what is open and return everything."""
        self._close_open()
        self._close_verl()
        self._close_text()
        self._close_table()
        self._close_block()
        self._take_joined(join_singles(self._singles))
        self._take_joined(join_arrays(self._arrays))
        if self._sparklines:
            self._note(
                f"{self._sparklines} curves are drawn in characters and state no numbers: what was read beside them is "
                "the last row only; export the run's history (as CSV) to have its course judged"
            )
        self.scan.stream.columns.finish()
        self.scan.stream.evaluation.finish()
        return self.scan

    def _piece(self, line: str, number: int) -> None:
        line = shapes.without_carrier(shapes.plain_signs(line))
        line = self._with_points(shapes.unwrapped(line))
        if self._open and self._continue_open(line, number):
            return
        if self._verl and self._continue_verl(line):
            return
        if "{" in line and self._dictionaries(line, number):
            return
        if (self._html or "<" in line) and self._take_html(line, number):
            return
        if not line.strip():
            self._close_table()
            return
        begun = self._table is not None or self._block  # what surrounds a line may give it a meaning
        if len(line) > _LONGEST_TEXT or (not begun and line in self._prose):
            self._unread(number, line, "")
            return
        if not self._table_line(line, number):
            self._text(line, number)

    def _with_points(self, line: str) -> str:
        """Read decimal commas as points from the first line on that surely has one; not where commas part cells."""
        if "," not in line or (self._table is not None and self._table.delimiter == ","):
            return line
        if not self._commas and shapes.has_decimal_comma(line, self._table is not None):
            self._commas = True
            self._note("numbers have decimal commas (0,5): read as points")
        return shapes.with_decimal_points(line) if self._commas else line

    def _dictionaries(self, line: str, number: int) -> bool:
        rows, tail = shapes.dict_rows(line)
        if not rows and not tail:
            return False
        self._close_table()
        self._close_text()
        taken = 0
        for row in rows:
            if "step" not in row and (step := shapes.prefix_step(line)) is not None and line[0] not in "{":
                row = {"step": step, **row}
            if self._block:
                row = self._with_block(row)
            taken += self._row(row, number, "json" if line.lstrip().startswith('{"') else "dict")
        if tail and len(tail) < _OPEN_CHARS:
            self._open, self._open_line = [tail], number
        elif rows and not taken:
            self._unread(number, line, "")
        return True

    def _continue_open(self, line: str, number: int) -> bool:
        """Join a dictionary that the line before left open; False when this line begins something else."""
        starts_anew = re.match(r"\s*\{\s*(?:['\"]|$)", line) is not None
        joined = "".join([*self._open, line])
        if not starts_anew and len(self._open) < _OPEN_LINES and len(joined) < _OPEN_CHARS:
            rows, tail = shapes.dict_rows(joined)
            if tail:
                self._open.append(line)
                return True
            if rows:
                begun, self._open = self._open_line, []
                taken = sum(self._row(row, begun, "dict") for row in rows)
                if not taken:
                    self._unread(begun, joined, "")
                elif len(rows) == 1 and number - begun == 1:
                    self._note(f"line {begun}: the row is broken over two lines, joined")
                return True
        self._close_open()
        return False

    def _close_open(self) -> None:
        if not self._open:
            return
        text, line = "".join(self._open), self._open_line
        self._open = []
        row = shapes.salvage(text)
        if row and self._row(row, line, "dict"):
            self._note(f"line {line}: the row is cut off, {len(row)} complete values of it are used")
        else:
            self._unread(line, text, "an object that is never closed")

    def _table_line(self, line: str, number: int) -> bool:
        if self._table is not None:
            if is_rule(line) or is_ellipsis(line):
                return True
            cells = row_of(self._table, line)
            if cells is not None:
                self._table.add(cells, number)
                return True
            self._close_table()
        if is_rule(line.strip()) and ("|" in line or "+" in line or "─" in line or "━" in line):
            return True
        is_row = any(shape(line) is not None for shape in (shapes.text_row, shapes.bare_pairs, shapes.quoted_pair))
        if not is_row and (opened := header_of(line, number)):
            self._close_block()
            self._table = opened
            return True
        return False

    def _close_table(self) -> None:
        opened, self._table = self._table, None
        if opened is None:
            return
        table = opened.close()
        if table is None:
            self._unread(opened.line, " ".join(opened.header), "")
            return
        self._count(table.format, table.columns.rows)
        if table.single:
            step, self._stated_step = self._stated_step, None
            self._singles.append(Single(table, opened.line, step))
            return
        self.scan.notes += table.notes
        self.scan.tables.append(table)

    def _take_joined(self, joined: Joined) -> None:
        self.scan.tables += joined.tables
        for table in joined.tables:
            if table.format == "lists":
                self._count(table.format, table.columns.rows)
        for note in joined.notes:
            self._note(note)
        for line, text, why in joined.unread:
            self._unread(line, text, why)

    def _take_html(self, line: str, number: int) -> bool:
        """Read the rows of an HTML table, as a notebook is copied; False when the line has nothing of one."""
        if not self._html and not _HTML.search(line):
            return False
        if "<" not in line and not _HTML_OPEN.search(self._html[-500:]):
            self._unread(self._html_line, self._html, "")  # a tag that somebody wrote in prose: no cell is open
            self._html, self._html_line = "", 0
            return False
        self._html_line = self._html_line or number
        self._html += line + " "
        while (end := _HTML_END.search(self._html)) is not None:
            piece, self._html = self._html[: end.start()], self._html[end.end() :]
            cells = [_HTML_TAG.sub("", cell).strip() for cell in _HTML_CELL.split(piece)[1:]]
            if end[1].lower() == "table":
                self._close_table()
            elif cells:
                self._table_line(f"| {' | '.join(unescape(cell).replace('|', '/') for cell in cells)} |", number)
        if len(self._html) > _OPEN_CHARS or not _HTML.search(self._html):
            rest = self._html.strip()
            if rest:
                self._unread(self._html_line, rest, "")
            self._html, self._html_line = "", 0
        return True

    def _continue_verl(self, line: str) -> bool:
        """Join the pieces of a verl line that was broken; False when this line is something else."""
        joined = shapes.verl_joined(self._verl, line) if len(self._verl) < _OPEN_CHARS else None
        if joined is None:
            self._close_verl()
            return False
        self._verl = joined
        return True

    def _close_verl(self) -> None:
        line, self._verl = self._verl, ""
        row = shapes.text_row(line) if line else None
        if line and not (row and self._row(row, self._verl_line, "text")):
            self._unread(self._verl_line, line, "")

    def _hold_text(self, row: Row, number: int) -> bool:
        """Keep a row of text until the next line: names of one step are often printed over two lines."""
        if kind_of(row) == "none":
            return False
        adjacent = self._text_row and number == self._text_line + 1 and not self._text_row.keys() & row.keys()
        if adjacent and "step" not in {name.lower() for name in row} and kind_of(row) == kind_of(self._text_row):
            self._text_row |= row
            self._text_line = number
            return True
        self._close_text()
        self._text_row, self._text_line = row, number
        return True

    def _close_text(self) -> None:
        row, self._text_row = self._text_row, {}
        if row:
            self._row(row, self._text_line, "text")

    def _text(self, line: str, number: int) -> None:
        if shapes.is_verl(line):
            self._close_text()
            self._verl, self._verl_line = line, number
            return
        row = shapes.text_row(line)
        if row is not None and self._hold_text(row, number):
            return
        bare = shapes.bare_pairs(line)
        if bare is not None and self._row(bare, number, "dict"):
            self._note(f"line {number}: the row has no opening brace, {len(bare)} pairs of it are used")
            return
        stated = shapes.prefix_step(line)
        self._stated_step = self._stated_step if stated is None else stated
        step = shapes.heading_step(line)
        if step is not None:
            self._close_block()
            self._heading = step
            return
        if (array := shapes.array_line(line)) and meaning(array[0]):
            self._arrays.append((*array, number))
            return
        if shapes.is_sparkline(line):
            self._sparklines += 1
            return
        pair = shapes.lone_pair(line) or shapes.key_value(line)
        known = meaning(pair[0]) if pair else None
        if pair and (known or self._block):
            self._pair(pair, number)
            return
        if stated is None:
            self._prose.add(line)
        self._unread(number, line, "")

    def _pair(self, pair: tuple[str, str], number: int) -> None:
        name, value = pair
        if name in self._block or (self._is_step(name) and any(map(self._is_step, self._block))):
            self._close_block()
        if not self._block:
            self._block_line = number
            self._block = {} if self._heading is None else {"step": self._heading}
        self._block[name] = value

    @staticmethod
    def _is_step(name: str) -> bool:
        found = meaning(name)
        return found is not None and found.quantity == "step"

    def _with_block(self, row: Row) -> Row:
        """Close the block above a dictionary; one that the dictionary repeats is the same row, and only adds to it."""
        shared = self._block.keys() & row.keys()
        if len(shared) >= 2 and all(_alike(self._block[name], row[name]) for name in shared):
            row, self._block = {**self._block, **row}, {}
        elif kind_of(row) != "none":
            self._close_block()
        return row

    def _close_block(self) -> None:
        block, self._block = self._block, {}
        self._heading = None
        if block and not (len(block) >= 2 and self._row(block, self._block_line, "block")):
            self._unread(self._block_line, ", ".join(f"{name}: {value}" for name, value in block.items()), "")

    def _row(self, row: Row, number: int, shape: str) -> bool:
        """Put a row where it belongs; False when it holds no metric of training."""
        layout = tuple(row)
        kind = self._shapes.get(layout)
        if kind is None:
            if len(self._shapes) > 5000:
                self._shapes.clear()
            kind = self._shapes[layout] = kind_of(row)
        if kind == "none":
            return False
        if kind == "summary":
            self.scan.facts.update({k: float(v) for k, v in row.items() if isinstance(v, (int, float))})
            return True
        target = self.scan.stream.evaluation if kind == "eval" else self.scan.stream.columns
        target.add(row, number)
        self._count(
            {"dict": "console dict", "json": "json lines", "block": "labelled values"}.get(shape, "console line"), 1
        )
        return True

    def _count(self, name: str, rows: int) -> None:
        self.scan.formats[name] = self.scan.formats.get(name, 0) + rows

    def _note(self, text: str) -> None:
        if len(self.scan.notes) < 40:
            self.scan.notes.append(text)

    def _unread(self, number: int, line: str, why: str) -> None:
        self.scan.unread_count += 1
        if len(self.scan.unread) < UNREAD_SHOWN:
            text = line.strip()
            text = text if len(text) <= 100 else text[:97] + "..."
            self.scan.unread.append((number, f"{text} ({why})" if why else text))


def _alike(printed: str, value: object) -> bool:
    """True for one number printed twice, once with fewer digits."""
    numbers = [read_number(str(each)) for each in (printed, value)]
    return None not in numbers and math.isclose(*numbers, rel_tol=5e-3, abs_tol=5e-4)  # type: ignore[arg-type]


def scan_lines(lines: Iterable[str]) -> Scan:
    """Read all lines of a log."""
    scanner = Scanner()
    for number, line in enumerate(lines, 1):
        scanner.feed(line.rstrip("\n"), number)
    return scanner.result()
