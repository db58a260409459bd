"""Numbers as people paste them: quoted, bold, with units, percent signs, ranges and plus-minus."""

import math
import re

# Digits are taken once and not given back: hundreds of them in a row would be tried in every division otherwise.
NUMBER = r"[-+−]?(?:\d{1,3}(?:,\d{3})++(?:\.\d++)?|\d++\.?\d*+|\.\d++)(?:[eE][-+]?\d++)?"
_WORDS = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "-inf": -math.inf, "-infinity": -math.inf}
_DIGIT = re.compile(r"\d")
_DECORATION = re.compile(r"np\.float\d+\(|tensor\(|[*_`'\"$()\[\]]|device=\S+")
_DECORATION_MARKS = re.compile(r"[*_`'\"$]")
_LEADING = re.compile(
    r"^(?:[~≈<>=≤≥±≲≳]|steps?\b|calls?\b|epochs?\b|iters?\b|approx\.?|ca\.?|about)+\s*", re.IGNORECASE
)
_SINGLE = re.compile(rf"^(?P<number>{NUMBER})\s*(?P<unit>%|k|K|M|s|ms|tok|tokens|it/s)?$")
_SPREAD = re.compile(r"\s*(?:±|\+/-|\+-)\s*.*$")
_RANGE = re.compile(rf"^(?P<low>{NUMBER})\s*(?:-|–|—|\.\.|to|→|->)\s*(?P<high>{NUMBER})\s*(?P<unit>%|k|K|M)?$")
_FRACTION = re.compile(r"^(?P<part>\d+)\s*/\s*(?:\d+|\?)$")
# A number, or a range, between short words: "降到0.4-0.5", "-17.7% (lowest 0.09)", "→ 0.6", "95 s (autotune)".
_WORDED = re.compile(
    rf"^[^\d+−-]{{0,12}}?(?P<core>{NUMBER}(?:\s*(?:-|–|—|→|->)\s*{NUMBER})?\s*(?:%|s|ms|k|K|M)?)(?:[^\d\w].*|[^\x00-\x7f\d].*)?$"
)
# A cell of more characters is a sentence, or no number that anybody measured.
_LONGEST_CELL = 300
_FACTOR = {"%": 0.01, "k": 1e3, "K": 1e3, "M": 1e6}
MISSING_WORDS = frozenset({"", "-", "–", "—", "none", "null", "n/a", "na", "no log", "?", "..."})


def read_number(text: str) -> float | None:
    """Return the number a cell states, None when it states none.

    A percentage becomes a share, a range its middle, `mean±std` the mean; nan and inf are returned as such.
    """
    value, _ = read_cell(text)
    return value


def read_cell(text: str) -> tuple[float | None, str]:
    """Return the number of a cell and the form it took: `plain`, `percent`, `range`, `spread`, `fraction` or `none`."""
    try:
        return float(text), "plain"
    except ValueError:
        pass
    cell = _DECORATION.sub("", text.strip()).strip().rstrip(",;")
    if cell.lower() in _WORDS:
        return _WORDS[cell.lower()], "plain"
    if cell.lower() in MISSING_WORDS or len(cell) > _LONGEST_CELL or not _DIGIT.search(cell):
        return None, "none"
    cell = _LEADING.sub("", cell)
    without_spread = _SPREAD.sub("", cell)
    if found := _SINGLE.match(without_spread):
        value = _to_float(found["number"]) * _FACTOR.get(found["unit"] or "", 1.0)
        form = "spread" if without_spread != cell else "percent" if found["unit"] == "%" else "plain"
        return value, form
    if found := _RANGE.match(cell):
        middle = (_to_float(found["low"]) + _to_float(found["high"])) / 2
        return middle * _FACTOR.get(found["unit"] or "", 1.0), "range"
    if found := _FRACTION.match(cell):
        return float(found["part"]), "fraction"
    return None, "none"


def without_words(cell: str) -> str:
    """Return the number or range that stands in a cell among a few words, the cell itself when that is not clear."""
    if len(cell) > _LONGEST_CELL or read_cell(cell)[1] != "none" or not _DIGIT.search(cell):
        return cell
    text = re.sub(r"[(（][^()（）]*[)）]", " ", _DECORATION_MARKS.sub("", cell)).strip()
    found = _WORDED.match(text)
    return found["core"].strip() if found and not _DIGIT.search(text[found.end("core") :]) else cell


def range_end(text: str) -> float | None:
    """Return the upper end of `1-50` or `steps 1–50`, None when the text is no range."""
    found = _RANGE.match(_LEADING.sub("", _DECORATION.sub("", text.strip())))
    return _to_float(found["high"]) if found else None


def _to_float(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))
