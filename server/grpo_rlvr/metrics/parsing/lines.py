"""One line at a time: the shapes in which trainers print a row of metrics."""

import ast
import json
import math
import re
import warnings
from collections.abc import Iterator
from typing import Any

from grpo_rlvr.metrics.names import meaning
from grpo_rlvr.metrics.parsing.spaced import spaced_row
from grpo_rlvr.metrics.parsing.values import MISSING_WORDS, NUMBER, read_number

Row = dict[str, Any]

# Quantities that say where a row is, not how training goes: they do not make a line a row of metrics.
_POSITION = frozenset({"step", "epoch", "learning_rate", "num_tokens", "step_time", "prompt_length", "other"})
_SUMMARY = frozenset({"train_runtime", "train_samples_per_second", "train_steps_per_second"})

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What stands before a line that was printed elsewhere: Ray's and torchrun's name of a process, the mark of a quotation,
# the sign of a comment before a table.
_CARRIED = re.compile(r"^\s*(?:\(\w[\w.:/-]* pid=\d+[^()]*\)|\[(?:rank|default)\d+\]:|(?:>\s?)+|(?:#|//)+\s*(?=\|))\s?")
_SPARKLINE = re.compile(r"^\s*(?:wandb:\s+)?\S.*\s[▁▂▃▄▅▆▇█]+\s*$")
_VERL = re.compile(r"\bstep:(?P<step>\d+)\s+-\s+(?P<rest>.*)$")
_VERL_PAIR = re.compile(r"([A-Za-z_][^\s:]*(?:/[^\s:]*)*)\s*:\s*(np\.\w+\(\S+?\)|\S+)")
_DICT_START = re.compile(r"\{\s*['\"]")
_DICT_PAIR = re.compile(
    rf"['\"]([^'\"]+)['\"]\s*:\s*(?:np\.\w+\(|tensor\()?['\"]?({NUMBER}|nan|inf|-inf|NaN|Infinity|-Infinity)['\"]?\)?",
    re.IGNORECASE,
)
_EQUALS_PAIR = re.compile(
    rf"((?:(?![0-9])\w)[\w/.@-]*)\s*=\s*({NUMBER}(?:\s*±\s*{NUMBER})?%?|nan|-?inf)(?=[\s,;|\]\)}}]|$)", re.IGNORECASE
)
_COLON_PAIR = re.compile(
    rf"((?:(?![0-9])\w)[\w/.@ -]*?)\s*:\s*({NUMBER}%?|nan|-?inf)\s*(?=[,;|]|\s-\s|\s{{2,}}|$)", re.IGNORECASE
)
_BAR_FIELD = re.compile(
    rf"^\s*([A-Za-z][\w ./-]*?)[:=]?\s+({NUMBER}|nan|-?inf)\s*(%)?(?:\s*[A-Za-z][\w/]*)?\s*(?:\([^)]*\))?\s*$",
    re.IGNORECASE,
)
# "Trainable 12/64 (18.8%)": the share in the brackets says more than the count.
_BAR_SHARE = re.compile(r"^\s*([A-Za-z][\w ./-]*?)[:=]?\s+\d+\s*/\s*\d+\s*\(\s*(\d+\.?\d*)\s*%\s*\)\s*$")
# "[12/60] loss 0.1 | ..." and "12:00:01 INFO loss 0.1 | ...": the first metric of a line after what stands before it.
_BAR_COUNTER = re.compile(r"^\s*[\[(](\d+)\s*/\s*\d+[\])]\s*(?=[A-Za-z])")
_BAR_FIRST = re.compile(rf"(?:^|\s)([A-Za-z_][\w./-]*)[:=]?\s+({NUMBER}|nan|-?inf)\s*(%)?\s*$", re.IGNORECASE)
# mlx-lm-lora: "Iter 20: Train loss 0.001, Total rewards mean 0.21, ..., It/sec 0.08".
_ITERATION = re.compile(
    r"(?:^|\s)(?:iter|iteration|step|epoch)\s+\[?(\d+)(?:\s*/\s*\d+)?\]?\s*[:,]\s*(?=[A-Za-z])", re.IGNORECASE
)
# "epoch 1 step 12 reward 0.4 loss 0.001": names of one word and numbers in turn, with no sign between them.
_IN_TURN = re.compile(rf"\b([A-Za-z_][\w/.@-]*)[:=]?\s+({NUMBER}%?|nan|-?inf)(?:\s*[,;|]\s*|\s+|$)", re.IGNORECASE)
_WORDS_NUMBER = re.compile(
    rf"^\s*([A-Za-z][\w ./-]*?)[:=]?\s+({NUMBER}|nan|-?inf)\s*(?:[A-Za-z%/]+)?\s*$", re.IGNORECASE
)
# The rest of a verl line that a terminal or a page has broken: pairs between dashes, and no step. Its first pair may
# lack its beginning, its last one its end.
_VERL_REST = re.compile(
    r"^\s*(?:-\s+)?(?:[\w/.()@-]*:\S+|[\d.eE+-]+(?=\s+-\s))(?:\s+-\s+[\w/.()@-]+:\S+)*(?:\s+-(?:\s+[\w/.()@-]+)?)?\s*$"
)
_VERL_OPEN_NAME = re.compile(r"\s-\s+[\w/.()@-]+$")
_STEP_WORD = re.compile(r"\b(?:global[_ ]step|step|iter(?:ation)?|rollout|episode)[\s:=#\[]*(\d+)", re.IGNORECASE)
_PLUS_MINUS = rf"(?:\s*(?:±|\+/?-)\s*{NUMBER})?"
_BULLET = re.compile(
    rf"^\s*[•*·-]\s*([A-Za-z][\w .()/-]*?)\s*:\s*({NUMBER}|nan|-?inf){_PLUS_MINUS}\s*%?\s*\S*\s*$", re.IGNORECASE
)
_LONE_PAIR = re.compile(
    rf"^\s*(?:wandb:\s+)?([A-Za-z_][\w/.@ -]*?)\s*[:=]?\s+({NUMBER}|nan|-?inf){_PLUS_MINUS}%?\s*$", re.IGNORECASE
)
# "'grad_norm': '0'   -> no gradient at all,": one pair of a dictionary on a line of its own, and a remark.
_QUOTED_PAIR = re.compile(
    rf"^\s*(['\"])([A-Za-z_][^'\"]*)\1\s*:\s*['\"]?({NUMBER}|nan|-?inf)['\"]?\s*,?\s*(?:(?:→|->|#|//|[-–—←(（]).*)?$",
    re.IGNORECASE,
)
# "- **actor/entropy: 0.17** - what it means": a metric by its path, and what somebody says of it.
_TOLD = re.compile(
    rf"^\s*[•*·-]\s*([A-Za-z_][\w.@-]*(?:/[\w.@()-]+)+)\s*:\s*({NUMBER}|nan|-?inf)\s*[-–—(（,;].*$", re.IGNORECASE
)
# "actor/grad_norm: mean=5.9 min=0.3 max=9.6": the mean of a run's rows stands for it.
_STATED_MEAN = re.compile(
    rf"^\s*(?:[•*·-]\s*)?([A-Za-z_][\w/.@()-]*)\s*[:=]\s*mean\s*[=:]\s*({NUMBER}|nan|-?inf)(?=[\s,;|]|$)", re.IGNORECASE
)
STEP_HEADING = re.compile(
    r"=+\s*Step\s+(\d+)\s*/\s*\d+|^\W*(?:step|iteration|iter)\s+(\d+)\s*(?:(?:/|of)\s*\d+)?\s*:?\W*$", re.IGNORECASE
)
_ARRAY = re.compile(
    r"^\s*['\"]?([A-Za-z_][\w/ ]*?)['\"]?\s*[:=]\s*\[([-+\d.,eE\s]*|[^\[\]]*\bnan\b[^\[\]]*)\]\s*,?\s*$"
)


# Signs of East Asian keyboards for those that stand between names and numbers.
_FULL_WIDTH = dict(zip("：＝，；｜（）", ":=,;|()", strict=True))


# A number as an array library prints it: tensor(0.5, device='cuda:0'), array([0.5], dtype=float32), np.float64(0.5).
_WRAPPED = re.compile(
    rf"\b(?:\w+\.)?(?:tensor|[aA]rray|b?float\d+|int\d+)\(\s*\[?\s*({NUMBER}|nan|-?inf)\s*\]?\s*(?:,[^()]*(?:\([^()]*\)[^()]*)*)?\)"
)
# One comma between digits, as a cell or a value of its own, and no part of a time. It is a decimal comma for sure after
# a lone 0, or when no three digits follow; a line with decimal points has none.
_ALONE, _ENDS = r"(?<![\w.,\[(])(?<!\d:)", r"(?![\w.,\])])"
_COMMA = re.compile(rf"{_ALONE}([-+−]?\d+),(\d+){_ENDS}")
_SURE_COMMA = re.compile(rf"{_ALONE}[-+−]?(?:0,\d+|\d+,(?:\d{{1,2}}|\d{{4,}})){_ENDS}")
_POINT = re.compile(r"\d\.\d")
_NAME_BEFORE = re.compile(r"([\w/.@-]+)['\"]?\s*[=:]\s*['\"]?$")


def plain_signs(line: str) -> str:
    """Return a line with the signs that other keyboards write for colons, commas and the like."""
    if not line.isascii():
        for sign, plain in _FULL_WIDTH.items():
            line = line.replace(sign, plain)
    return line


def unwrapped(line: str) -> str:
    """Return a line with plain numbers for those that an array library printed."""
    return _WRAPPED.sub(r"\1", line) if "(" in line else line


def has_decimal_comma(line: str, in_table: bool) -> bool:
    """True when the value of a metric, or a cell of a table, surely has a comma where others have a point.

    `CUDA_VISIBLE_DEVICES=0,1` looks the same and is no value of a metric.
    """
    found = _SURE_COMMA.search(line) if _POINT.search(line) is None else None
    if found is None or in_table:
        return found is not None
    name = _NAME_BEFORE.search(line, 0, found.start())
    return name is not None and meaning(name[1]) is not None


def with_decimal_points(line: str) -> str:
    """Return a line of decimal commas with points."""
    return _COMMA.sub(r"\1.\2", line) if _POINT.search(line) is None else line


def without_carrier(line: str) -> str:
    """Return a line without what a process manager, a quotation or a comment put before it."""
    while line.lstrip()[:1] in ("(", "[", ">", "#", "/") and (found := _CARRIED.match(line)) is not None:
        line = line[found.end() :]
    return line


def is_sparkline(line: str) -> bool:
    """True for a curve drawn in characters, as W&B prints at the end of a run: it states no number."""
    return line.rstrip()[-1:] in "▁▂▃▄▅▆▇█" and _SPARKLINE.match(line) is not None


def dict_rows(line: str) -> tuple[list[Row], str]:
    """Return the dictionaries printed in a line, and the tail of one that the line does not close."""
    rows: list[Row] = []
    start = line.find("{")
    while start >= 0:
        opening = _DICT_START.match(line, start)
        if not opening and not line[start + 1 :].strip():
            return rows, line[start:].rstrip()
        if not opening:
            start = line.find("{", start + 1)
            continue
        end = _closing(line, start)
        if end < 0:
            return rows, line[start:]
        row = read_dict(line[start : end + 1])
        if row is not None:
            rows.append(row)
        start = line.find("{", end + 1)
    return rows, ""


def read_dict(text: str) -> Row | None:
    """Return a printed Python or JSON object as a mapping, None when it is neither."""
    # A Python dictionary of plain numbers is JSON but for its quotes, and json reads it ten times as fast.
    for attempt in (text,) if text.startswith('{"') else (text.replace("'", '"'), text):
        try:
            value = json.loads(attempt)
        except (ValueError, RecursionError):
            continue
        if not isinstance(value, dict):
            return None
        return _flat(value) if text.find("{", 1) >= 0 else value
    plain = re.sub(r"(?<=[:\s\[(])(nan|-inf|inf|-?Infinity|NaN)(?=[,\s}\])])", r"'\1'", text)
    plain = re.sub(r"np\.\w+\(([^()]*)\)|tensor\(([^(),]*)[^()]*\)", r"\1\2", plain)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            value = ast.literal_eval(plain)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return salvage(text)
    return _flat(value) if isinstance(value, dict) else None


def salvage(text: str) -> Row | None:
    """Return the complete pairs of a dictionary that is cut or broken, None below two."""
    pairs = dict(_DICT_PAIR.findall(text))
    return pairs if len(pairs) >= 2 else None


def _flat(value: Row, depth: int = 4) -> Row:
    """Lift the nesting: {'train': {'loss': 1}} becomes {'train/loss': 1}. What lies deeper is not read."""
    if all(isinstance(key, str) for key in value) and not any(isinstance(inner, dict) for inner in value.values()):
        return value
    flat: Row = {}
    for key, inner in ((str(key), inner) for key, inner in value.items()):
        if isinstance(inner, dict) and depth:
            flat.update({f"{key}/{name}": item for name, item in _flat(inner, depth - 1).items()})
        else:
            flat[key] = inner
    return flat


def _closing(line: str, start: int) -> int:
    """Index of the brace that closes the one at `start`, -1 when the line ends first."""
    simple = line.find("}", start)
    if simple < 0 or "{" not in line[start + 1 : simple]:
        return simple
    depth = 0
    for index in range(start, len(line)):
        depth += {"{": 1, "}": -1}.get(line[index], 0)
        if depth == 0:
            return index
    return -1


def text_row(line: str) -> Row | None:
    """Return the metrics of a line that is no dictionary: verl, key=value, `Name 1.2 | Name 3.4`, `name: 1.2, ...`."""
    if found := _VERL.search(line):
        pairs = {key: value for key, value in _VERL_PAIR.findall(found["rest"]) if read_number(value) is not None}
        if pairs:
            return {"step": float(found["step"]), **pairs}
    signs = _bars(line) or _pairs(line, _EQUALS_PAIR, "=")
    return signs or spaced_row(line) or _pairs(line, _COLON_PAIR, ":") or _commas(line) or _in_turn(line)


def is_verl(line: str) -> bool:
    """True for verl's `step:12 - key:value - key:value`."""
    return _VERL.search(line) is not None


def verl_joined(begun: str, line: str) -> str | None:
    """Return a verl line with its next piece, None when `line` is something else."""
    if "step:" in line or not _VERL_REST.match(line):
        return None
    piece = line.strip()
    # Broken within a name ("... - critic" / "/rewards/min:1.0"), within a number, or between two pairs.
    within = piece.startswith(("/", "_", ":")) or _VERL_OPEN_NAME.search(begun) or ":" not in piece.split(" ", 1)[0]
    return begun.rstrip() + piece if within and piece[0] != "-" else f"{begun.rstrip()} {piece}"


def bare_pairs(line: str) -> Row | None:
    """Return the pairs of a dictionary whose opening brace was not copied, None below three."""
    row = salvage(line) if line.count("':") >= 3 or line.count('":') >= 3 else None
    return row if row and len(row) >= 3 else None


def _commas(line: str) -> Row | None:
    """`Iter 20: Train loss 0.001, Total rewards mean 0.21, KL 0.000`: three fields at least."""
    found = _ITERATION.search(line) if line.count(",") >= 2 else None
    if not found:
        return None
    fields = [_WORDS_NUMBER.match(part) for part in line[found.end() :].split(",")]
    pairs = {field[1].strip(): field[2] for field in fields if field}
    return {"step": found[1], **pairs} if len(pairs) >= 3 else None


def _in_turn(line: str) -> Row | None:
    """`epoch 1 step 12 reward 0.4 loss 0.001`: from the step on nothing but names and numbers, three at least."""
    found = _STEP_WORD.search(line)
    if not found:
        return None
    rest = line[found.start() :].strip()
    pairs = _IN_TURN.findall(rest)
    whole = sum(len(part[0]) for part in _IN_TURN.finditer(rest)) == len(rest)
    return dict(pairs) if whole and len(pairs) >= 3 else None


def array_line(line: str) -> tuple[str, list[float]] | None:
    """Return the name and the numbers of `rewards = [0.1, 0.2, ...]`: ten of them at least."""
    found = _ARRAY.match(line)
    numbers = [read_number(part) for part in found[2].split(",") if part.strip()] if found else []
    known = [math.nan if number is None else number for number in numbers]
    return (found[1].strip(), known) if found and len(known) >= 10 else None


def _bars(line: str) -> Row | None:
    """prime-rl: `Step 12 | Time: 4.1s | Reward 0.42 | Seq. Length 812 tokens/sample | Truncation 3.1%`."""
    if line.count("|") < 2 or "%|" in line:
        return None
    row: Row = {}
    for place, part in enumerate(line.split("|")):
        found = _BAR_FIELD.match(re.sub(r"^.*?(?=\bStep\s+\d)", "", part)) or _BAR_FIELD.match(part)
        if place == 0 and (found is None or _STEP_WORD.search(found[1])):
            found = _BAR_FIRST.search(part)
        if found:
            row[found[1].strip()] = f"{found[2]}%" if found[3] == "%" else found[2]
        elif share := _BAR_SHARE.match(part):
            row[share[1].strip()] = f"{share[2]}%"
    if len(row) < 2:
        return None
    counter = _BAR_COUNTER.match(line) or _STEP_WORD.search(line.split("|", 1)[0])
    return row if counter is None or "step" in {name.lower() for name in row} else {"step": counter[1], **row}


def _pairs(line: str, pattern: re.Pattern[str], sign: str) -> Row | None:
    # Prose is the bulk of what people paste around a log: look for the sign before searching.
    if line.count(sign) < 2:
        return None
    pairs = {key.strip(): value for key, value in pattern.findall(line)}
    if len(pairs) < 2:
        return None
    if "step" not in {key.lower() for key in pairs} and (found := _STEP_WORD.search(line)):
        pairs = {"step": found[1], **pairs}
    return pairs


def heading_step(line: str) -> float | None:
    """Return N of a heading such as `===== Step N/100 =====`."""
    found = STEP_HEADING.search(line)
    return float(found[1] or found[2]) if found else None


def prefix_step(line: str) -> float | None:
    """Return the step a dictionary's prefix states, as in `rollout 12: {...}`."""
    found = _STEP_WORD.search(line.split("{", 1)[0])
    return float(found[1]) if found else None


def lone_pair(line: str) -> tuple[str, str] | None:
    """Return one metric that stands alone on its line, as `• Avg Reward: 0.41` or `reward: 0.41`."""
    line = line.replace("**", "")
    if quoted := quoted_pair(line):
        return quoted
    found = _BULLET.match(line) or _LONE_PAIR.match(line) or _STATED_MEAN.match(line) or _TOLD.match(line)
    # A number among the words is a value of another name: the line is not one metric.
    return (found[1].strip(), found[2]) if found and not re.search(r"\s[-+]?\d[\d.]*\s", found[1]) else None


def quoted_pair(line: str) -> tuple[str, str] | None:
    """Return one pair of a dictionary that stands on a line of its own, as `'reward': 0.41,`."""
    found = _QUOTED_PAIR.match(line)
    return (found[2], found[3]) if found else None


def key_value(line: str) -> tuple[str, str] | None:
    """Return the two cells of a `key,value` line, as at the end of some CSV exports."""
    cells = [cell.strip() for cell in line.split(",")]
    named = len(cells) == 2 and re.fullmatch(r"[A-Za-z_][\w/ .-]*", cells[0])
    return (cells[0], cells[1]) if named and read_number(cells[1]) is not None else None


def is_number_or_blank(cell: str) -> bool:
    """True for a table cell that states a number or says that there is none."""
    return cell.strip().lower() in MISSING_WORDS or read_number(cell) is not None


def is_finite(value: float | None) -> bool:
    """True for a number that is neither missing, nan nor infinite."""
    return value is not None and math.isfinite(value)


def kind_of(row: Row) -> str:
    """`train`, `eval`, `summary` (the closing line of a run) or `none`."""
    if _SUMMARY & set(row):
        return "summary"
    known = [found for name in row if (found := meaning(str(name)))]
    informative = [found for found in known if found.quantity not in _POSITION]
    if not informative:
        return "none"
    return "eval" if all(found.evaluation for found in informative) else "train"


def split_lines(text: str) -> Iterator[str]:
    """Lines of a text, one at a time, so that a pasted log is not held twice."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        if end < 0:
            yield text[start:]
            return
        yield text[start:end]
        start = end + 1
