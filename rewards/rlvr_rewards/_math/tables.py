"""Answers in rows: matrices, and functions that are given by cases."""

import re
from collections.abc import Callable

from rlvr_rewards._math import terms
from rlvr_rewards._math.form import Form
from rlvr_rewards._math.limits import MAX_MEMBERS
from rlvr_rewards._math.quantities import read_number

_ENVIRONMENT = re.compile(
    r"\\begin\s*\{\s*(?P<name>[pbBvV]?(?:small)?matrix|array)\s*\}(?P<body>.*)\\end\s*\{\s*(?P=name)\s*\}"
)
# The words before a condition.
_CONDITION = re.compile(r"^\s*(?:\\text\s*\{\s*(?:if|for|when|where)\s*\}|(?:if|for|when|where)(?![a-z]))\s*")
_Reader = Callable[[str], Form]


def read(text: str, reader: _Reader) -> Form | None:
    """Read a matrix, with a number before it or none, or cases; `reader` reads the cells."""
    return _cases(text, reader) if text.startswith("\\begin{cases}") else _matrix(text, reader)


def _cases(text: str, reader: _Reader) -> Form | None:
    """Read values with their conditions; a value without one holds otherwise."""
    body = text.removeprefix("\\begin{cases}").removesuffix("\\end{cases}")
    if "\\begin" in body or "\\end" in body or not text.endswith("\\end{cases}"):
        return None
    rows = [row.split("&") for row in re.split(r"\\\\", body) if row.strip()]
    if not 2 <= len(rows) <= MAX_MEMBERS or any(len(row) > 2 or not row[0].strip(" ,") for row in rows):
        return None
    pieces = []
    for value, *rest in rows:
        condition = _CONDITION.sub("", rest[0]).strip(" ,.;") if rest else ""
        said = reader(condition or "\\text{otherwise}")
        pieces.append(Form("case", f"{value}&{condition}", (reader(value.strip(" ,")), said)))
    return Form("cases", text, tuple(pieces))


def _matrix(text: str, reader: _Reader) -> Form | None:
    start = text.find("\\begin")
    match = _ENVIRONMENT.fullmatch(text, max(start, 0))
    if match is None or "\\begin" in match["body"] or match["name"].startswith(("v", "V")):
        return None
    body = re.sub(r"^\s*\{[lcr| ]*\}", "", match["body"]) if match["name"] == "array" else match["body"]
    rows = [row for row in re.split(r"\\\\", body) if row.strip()]
    cells = [[reader(cell) for cell in row.split("&")] for row in rows]
    if not rows or len({len(row) for row in cells}) != 1 or len(rows) * len(cells[0]) > MAX_MEMBERS:
        return None
    if match["name"] == "array" and start <= 0 and len(rows) == len(cells[0]) == 1:
        return cells[0][0]
    flat = _times(text[:start], [cell for row in cells for cell in row])
    return None if flat is None else Form("matrix", text, tuple(flat), marks=(str(len(rows)),))


def _times(factor: str, cells: list[Form]) -> list[Form] | None:
    """Return the cells of a matrix times the number before it, or None when either is no number."""
    plain = re.sub(r"\s*(?:\\cdot|\\times|\*)\s*$", "", factor).strip()
    if not plain:
        return cells
    number = read_number("-1" if plain == "-" else plain)
    if number is None or number.node is None or number.unit:
        return None
    nodes = [terms.Node("multiply", (number.node, cell.node)) for cell in cells if cell.node is not None]
    if len(nodes) < len(cells):
        return None
    return [Form("number", f"{plain}({cell.text})", node=node) for cell, node in zip(cells, nodes, strict=True)]


def rows_of(text: str, forms: tuple[Form, ...]) -> Form | None:
    """Read `[[1, 2], [3, 4]]` as a matrix."""
    square = all(form.kind in ("tuple", "interval") and form.marks == ("[", "]") for form in forms)
    if not square or len({len(form.parts) for form in forms}) != 1:
        return None
    return Form("matrix", text, tuple(cell for form in forms for cell in form.parts), marks=(str(len(forms)),))
