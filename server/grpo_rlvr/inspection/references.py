"""Finding the reference column of the samples, and taking rewarded completions apart at the right answer."""

import functools
import re
from collections.abc import Sequence
from typing import Any

from grpo_rlvr.inspection.attacks import Case, plain_number
from grpo_rlvr.inspection.samples import Samples
from grpo_rlvr.inspection.scoring import as_text

NAMES = (
    "gold", "answer", "solution", "target", "ground_truth", "reference", "label", "expected", "final_answer", "output",
)  # fmt: skip
LONGEST = 200
_NUMBER = re.compile(r"(?P<sign>-?)(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?P<part>\.\d+)?\Z")
_DIGIT, _DIGITS, _WORDS = re.compile(r"\d"), re.compile(r"\d+"), re.compile(r"[^\W\d_]+(?:\s+[^\W\d_]+)*")
# What may stand between groups of three digits: 1,281, 1{,}281, 1\,281, 1 281.
_THOUSANDS = r"(?:,|\{,\}|\\[,!:; ]|[ _'\u2019\u00a0\u202f])?"
# Share of rewarded completions that must hold a column's value before it is taken for the right answer.
ENOUGH = 0.5
LISTED_GOLDS = 4
# Rewarded completions in which the right answer is looked for; more would only take longer.
LOOKED_AT = 300


def gold_texts(samples: Samples, rewarded: Sequence[bool | None]) -> list[str | None]:
    """Return each row's right answer as text, None where it is not known."""
    name = gold_column(samples, rewarded)
    if name is None:
        return [None] * len(samples.rows)
    return [_as_gold(row.get(name)) for row in samples.rows]


def gold_column(samples: Samples, rewarded: Sequence[bool | None]) -> str | None:
    """Return the column that holds the right answers: one that most rewarded completions hold, or by its name."""
    hits = [row for row, outcome in enumerate(rewarded) if outcome][:LOOKED_AT]
    best, best_share = None, 0.0
    named = None
    for name in sorted(samples.names, key=lambda n: NAMES.index(n) if n in NAMES else len(NAMES)):
        golds = {row: _as_gold(samples.rows[row].get(name)) for row in range(len(samples.rows))}
        if len({gold for gold in golds.values() if gold}) < 2:
            continue
        if name in NAMES:
            named = named or name
        found = [bool(golds[row]) and stands_in(samples.completion_text(row), golds[row] or "") for row in hits]
        share = sum(found) / len(found) if found else 0.0
        if share >= ENOUGH and share > best_share:
            best, best_share = name, share
    # With a reward that pays wrong answers the name says more than what the paid completions hold.
    return best or named


def _as_gold(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    if "####" in text:
        text = text.rpartition("####")[2].strip()
    text = _boxed(text) or text
    return text if 0 < len(text) <= LONGEST else None


def _boxed(text: str) -> str:
    """Return the content of the last box whose braces close, which may hold braces of its own; empty without one."""
    for box in reversed(list(re.finditer(r"\\f?boxed\s*\{", text))):
        depth = 1
        for brace in re.finditer(r"[{}]", text[box.end() :]):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                return text[box.end() : box.end() + brace.start()].strip()
    return ""


def stands_in(text: str, gold: str) -> bool:
    """Return whether a right answer stands in a text."""
    return mention(gold).search(text) is not None


@functools.lru_cache(maxsize=1024)
def mention(gold: str) -> re.Pattern[str]:
    """Return what finds a right answer in a text as a whole: a number with any thousands marks, a word in any case.

    A model writes 1281 on the way and 1,281 at the end: both are the answer, and 281 is none of them.
    """
    number = _NUMBER.match(gold)
    if not number:
        return re.compile(rf"(?<!\w){re.escape(gold)}(?!\w)", re.IGNORECASE if len(gold) > 2 else 0)
    sign, whole, part = number["sign"], re.sub(r"\D", "", number["whole"]), number["part"] or ""
    first = len(whole) % 3 or 3
    groups = [whole[:first], *(whole[at : at + 3] for at in range(first, len(whole), 3))]
    digits = _THOUSANDS.join(groups) + (re.escape(part) if part.strip(".0") else r"(?:\.0+)?")
    before = rf"(?<!\w)(?<!\d\.){'(?<![0-9],)' if first == 3 else ''}"
    # A minus that follows an operand subtracts; any other belongs to the number.
    before += r"[-\u2212]" if sign else r"(?<!(?<![\w)\]}])[-\u2212])"
    return re.compile(rf"{before}{digits}(?!\w)(?!\.\d)(?!,\d{{3}}(?!\d))")


def look(text: str) -> str:
    """Return the shape of a text: words as `a`, numbers as `0`, those of four and more digits as `0000`."""
    return _WORDS.sub("a", _DIGITS.sub(lambda run: "0000" if len(run[0]) > 3 else "0", text))


def message_text(completion: Any) -> str:
    """Return the text that the model wrote last: the content of the last message of a chat completion."""
    if isinstance(completion, str):
        return completion
    return as_text(completion[-1:])


def with_text(completion: Any, text: str) -> Any:
    """Return a completion of the same form with another text."""
    if isinstance(completion, str):
        return text
    return [*completion[:-1], {"role": "assistant", **completion[-1], "content": text}]


def cases(samples: Samples, rewarded: Sequence[bool | None], wanted: int) -> list[Case]:
    """Return rewarded completions of different prompts, taken apart at the right answer."""
    golds = gold_texts(samples, rewarded)
    if not any(golds):
        return _whole_cases(samples, rewarded, wanted)
    hits = [row for row, outcome in enumerate(rewarded) if outcome][:LOOKED_AT]
    apart = [case for row in hits if (case := _apart(samples, row, golds))]
    # With a number behind its place the answer may stand there again in another shape: 1/2, then 0.5.
    ends = [case for case in apart if not (_DIGIT.search(case.gold) and _DIGIT.search(case.after))]
    firsts: dict[str, Case] = {}
    for case in ends or apart:
        firsts.setdefault(samples.groups[case.sample], case)
    return _spread(list(firsts.values()))[:wanted]


def _spread(found: Sequence[Case]) -> list[Case]:
    """Order cases so that answers that look unlike each other come first, the long numbers foremost."""
    count: dict[str, int] = {}
    ranked = []
    for case in found:
        # A reward stumbles over how an answer is written: a sign, a part, a word, and above all thousands.
        shape = look(case.gold)
        count[shape] = count.get(shape, 0) + 1
        ranked.append((count[shape], len(_DIGIT.findall((plain_number(case.gold) or "").partition(".")[0])) < 4))
    return [found[at] for at in sorted(range(len(found)), key=ranked.__getitem__)]


def _apart(samples: Samples, row: int, golds: Sequence[str | None]) -> Case | None:
    gold, text = golds[row], message_text(samples.rows[row]["completion"])
    mentions = list(mention(gold).finditer(text)) if gold else []
    if not gold or not mentions:
        return None
    start, end = mentions[-1].span()
    other = _other(gold, golds)
    return Case(
        sample=row,
        prompt=as_text(samples.rows[row]["prompt"]),
        before=text[:start],
        gold=gold,
        after=text[end:],
        other=other,
        golds=_several(gold, golds),
        before_wrong=mention(gold).sub(other.replace("\\", r"\\"), text[:start]),
    )


def _whole_cases(samples: Samples, rewarded: Sequence[bool | None], wanted: int) -> list[Case]:
    """Return rewarded completions as they are, for tasks whose right answer is no text of its own: programs, JSON."""
    firsts: dict[str, int] = {}
    for row, outcome in enumerate(rewarded):
        if outcome and samples.columns(row):
            firsts.setdefault(samples.groups[row], row)
    found = []
    for row in list(firsts.values())[:wanted]:
        others = [
            message_text(samples.rows[other]["completion"])
            for other in firsts.values()
            if samples.columns(other) != samples.columns(row)
        ][: LISTED_GOLDS - 1]
        if others:
            text = message_text(samples.rows[row]["completion"])
            golds = (*others[:1], text, *others[1:], others[-1])
            found.append(Case(row, samples.prompt_text(row), "", text, "", others[0], golds, whole=True))
    return found


def plain_cases(samples: Samples, wanted: int) -> list[Case]:
    """Return rows of different prompts for attacks that need no right answer."""
    found: dict[str, Case] = {}
    for row, group in enumerate(samples.groups):
        if group not in found and len(found) < wanted:
            found[group] = Case(row, samples.prompt_text(row), "", "", "", "", ())
    return list(found.values())


def _other(gold: str, golds: Sequence[str | None]) -> str:
    for other in golds:
        if other and _bare(other) not in _bare(gold) and _bare(gold) not in _bare(other):
            return other
    number = plain_number(gold)
    return str(int(float(number)) + 1) if number else f"{gold[::-1]}x"


def _bare(gold: str) -> str:
    """An answer without what may differ between two ways to write it: letter case and thousands marks."""
    return gold.casefold().replace(",", "")


def _several(gold: str, golds: Sequence[str | None]) -> tuple[str, ...]:
    others = [other for other in dict.fromkeys(golds) if other and other != gold][: LISTED_GOLDS - 1]
    others = others or [_other(gold, golds)]
    # Neither first nor last, so that a reward that takes one end is not blamed for paying a list.
    return (*others[:1], gold, *others[1:], _other(gold, golds))
