"""Lines of nothing but names and numbers, after what a logger puts first: `Step 5/100 - loss: 0.5 reward: 0.3`."""

import re
from typing import Any

from grpo_rlvr.metrics.names import meaning
from grpo_rlvr.metrics.parsing.values import NUMBER

# What a logging module writes before the message: a time, a level, the name of a file, in any order.
_LOGGED = re.compile(
    r"(?:\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,\d]*\]?|\[?\d\d:\d\d:\d\d\]?|"
    r"\[?(?:INFO|DEBUG|WARNING)\]?:?|\[[\w.]+:\d+\]|-)\s+"
)
_COUNTER = re.compile(
    r"[\[(]?(?P<word>global[_ ]step|step|iter(?:ation)?|episode|epoch|update)\s*[:=#]?\s*(?P<count>\d{1,9})"
    r"(?:\s*/\s*\d++)?[\])]?(?:\s*[:,|-]\s+|\s+|:)",
    re.IGNORECASE,
)
_END = r"(?:\s*[,;|]\s*|\s+-\s+|\s+|$)"
_SIGNED = re.compile(
    rf"([A-Za-z_][\w/.@]*(?:[ -][A-Za-z_][\w/.@]*){{0,3}})\s*[:=]\s*({NUMBER}%?|nan|-?inf){_END}", re.IGNORECASE
)
_UNSIGNED = re.compile(rf"([A-Za-z_][\w/.@]*)\s+({NUMBER}%?|nan|-?inf){_END}", re.IGNORECASE)
_LONGEST_LINE = 2000


def spaced_row(line: str) -> dict[str, Any] | None:
    """Return the metrics of a line that holds nothing else, None when a word is left over.

    Without a counter before them two names have to be known, so that a line of settings is no row.
    """
    if len(line) > _LONGEST_LINE:
        return None
    rest = line.strip()
    while logged := _LOGGED.match(rest):
        rest = rest[logged.end() :]
    counter = _COUNTER.match(rest)
    rest = rest[counter.end() :] if counter else rest
    pairs = _all_pairs(rest, _SIGNED) or (_all_pairs(rest, _UNSIGNED) if counter else None)
    if not pairs:
        return None
    known = sum(meaning(name) is not None for name in pairs)
    if known < (1 if counter else 2):
        return None
    if counter is None:
        return pairs
    name = "epoch" if counter["word"].lower() == "epoch" else "step"
    return pairs if name in {key.lower() for key in pairs} else {name: counter["count"], **pairs}


def _all_pairs(text: str, pattern: re.Pattern[str]) -> dict[str, str] | None:
    """Return the pairs that fill `text` from its beginning to its end, None when something else stands in it."""
    pairs: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = pattern.match(text, at)
        if found is None or found[1] in pairs:
            return None
        pairs[found[1]] = found[2]
        at = found.end()
    return pairs
