"""What the columns of a table are whose rows are metrics: points of one run, other runs, or statistics."""

import re
from collections.abc import Sequence
from typing import Literal

from grpo_rlvr.metrics.parsing.values import range_end, read_number, without_words

# Headings of columns that compare the others, and of statistics over a whole run.
_CHANGE = re.compile(
    r"^(?:rel(?:ative)?\.?\s*)?(?:change|diff(?:erence)?|delta|Δ.*|gain|improvement|increase|decrease|ratio|verdict"
    r"|status|notes?|comment|trend|moves\?|变化|变动|差异|差值|提升|变化率|状态|说明|备注|변화|변화율|비고|판정|変化|差分|備考)\s*[%(（]?.*$",
    re.IGNORECASE,
)
_STATISTIC = frozenset(
    "mean avg average median sd std stdev var min max p5 p10 p25 p50 p75 p90 p95 p99 t p slope n count first_quartile "
    "均值 平均 标准差 最小 最大 中位数 평균 표준편차 최소 최대".split()
)
_CENTRE = ("mean", "avg", "average", "median", "均值", "平均", "평균")
_MOMENT = re.compile(
    r"^\W*(?:steps?|epochs?|iter\w*|row|@)?\W*\d[\d.,~%kK –→>-]*\s*(?:steps?|epochs?|iter\w*|rows?)?\W*$"
    r"|start|begin|init|first|early|before|base|middle|mid\b|late|last|end|final|after|now|recent|latest|current|peak"
    r"|best|值|value|初|早|开始|前|中|后|末|终|最近|초|중|후|말|최근|시작|終|最後",
    re.IGNORECASE,
)
Kind = Literal["summary", "runs"]


def points(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[int], Kind, str]:
    """Return the columns to read, what they are, and a note on those left out ('' when there is none).

    `header` and `rows` have the names of the metrics in their first column.
    """
    cells = {i: [row[i] for row in rows if len(row) > i] for i in range(1, len(header))}
    wanted = [i for i in cells if not _compares(header[i], cells[i]) and not _describes(cells[i])]
    left_out = [header[i] for i in range(1, len(header)) if i not in wanted]
    note = f"left out of the table of metrics: {', '.join(map(repr, left_out))} (no point in time)" if left_out else ""
    statistics = [i for i in wanted if _word(header[i]) in _STATISTIC]
    if len(statistics) >= 2:
        centre = next((i for name in _CENTRE for i in statistics if _word(header[i]) == name), statistics[0])
        return [centre], "summary", f"statistics of a whole run: '{header[centre]}' is read, there is no course in it"
    moments = sum(is_moment(header[i]) for i in wanted)
    return wanted, "summary" if moments * 2 > len(wanted) else "runs", note


def _describes(cells: Sequence[str]) -> bool:
    """True for a column of sentences, as in a table that explains what each metric means."""
    told = [cell for cell in cells if cell.strip()]
    return sum(read_number(without_words(cell)) is None for cell in told) * 2 > len(told) and len(told) > 1


def is_moment(text: str) -> bool:
    """True for words that place a row in time: `step 20`, `early`, `after warmup`, `1-50`."""
    return bool(_MOMENT.search(text)) or range_end(text) is not None


def _compares(name: str, cells: Sequence[str]) -> bool:
    """True for a column that states changes: by its heading, or because its cells are signed percentages."""
    if _CHANGE.match(name.strip()):
        return True
    signed = sum(bool(re.match(r"^\W*[-+−]\s*[\d.,]+\s*(%|pp)", cell.strip())) for cell in cells)
    return signed * 2 > len(cells) and read_number(name) is None


def _word(name: str) -> str:
    return name.strip().lower().split("(")[0].strip()
