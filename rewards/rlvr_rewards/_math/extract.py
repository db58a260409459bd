"""Finding the committed answer of a completion. Never "the last number in the text"."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlvr_rewards._core import Reason
from rlvr_rewards._math.limits import MAX_CHARACTERS, MAX_MEMBERS
from rlvr_rewards._math.normal import strip_marks
from rlvr_rewards._math.units import is_unit
from rlvr_rewards._text import END_TOKEN, after_thinking, last_block

# What may stand between two boxes that are one list, also with the name of what the second one holds.
_BETWEEN_BOXES = re.compile(
    r"(?:[\s,;$*&]|\\[()\[\],;:!> ]|\\q?quad(?![A-Za-z])"
    r"|\\(?:text|mathrm|textrm|mbox)\s*\{\s*(?:and|or)\s*\}|\b(?:and|or)\b|\b[A-Za-z](?:_\{?\w\}?)?\s*=)*"
)
_BETWEEN_FORMULAS = re.compile(_BETWEEN_BOXES.pattern.replace("$", "", 1))
_LEAD = re.compile(
    r"\s*(?P<text>\\text\s*\{\s*)?(?:the\s+)?(?:(?:final|correct)\s+)?answer\s*(?:is\b\s*:?|:|=)\s*", re.IGNORECASE
)
# A token with which chat templates begin a message.
_BEGINNING = re.compile(r"\s*<\|im_start\|>(?:assistant)?\s*")
_MARKER = re.compile(
    r"(?:final\s+answers?(?![A-Za-z])[*_\s]*(?::|=|(?:is|are)\b)?"
    r"|(?<![A-Za-z])answers?(?![A-Za-z])[*_\s]*(?::|=|(?:is|are)\b))[*_\s]*:?[*_]*|\#{4}",
    re.IGNORECASE,
)
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_INLINE = re.compile(r"\s*(\$\$.+?\$\$|\$(?:[^$\n\\]|\\[^\n])++\$|\\\(.+?\\\)|\\\[.+?\\\])", re.DOTALL)
_SENTENCE_END = re.compile(
    r"\.(?=\s|$)|(?<!\\)[!?](?=\s|$)|\n|,?\s\(?(?:because|since|as\s(?:shown|required|stated|above))\b"
    r"|,\s(?:i\.e\.|that is)|;\s(?:this|that|it|so|hence|thus|therefore)\b"
    r"|,\s(?:I|so|which|as|where|in|for|with|making|meaning|giving|thus|hence|therefore|altogether|rounded|not)\b"
)
# A fence around the answer.
_FENCE = re.compile(r"`{3,}[A-Za-z]*\n\s*")
# A question that is denied at once is no answer.
_DENIED = re.compile(r"\?\s+(?:no|nope|not|wait|hmm|actually|but)\b", re.IGNORECASE)
# A sentence behind a marker that says at its end what the answer is, as in "the largest n is 34".
_SENTENCE = re.compile(r"(?=[A-Za-z]{2})(?:[^.\n]|\.(?=\S))*\s(?:is|are|equals|be)\s+(?:equal to\s+|exactly\s+)?(?=\S)")
# Words between a marker and its answer that say nothing.
_FILLER = re.compile(
    r"(?:(?:therefore|thus|simply|just|then|hence|also|indeed|exactly|approximately|equal to|given by)\b[\s,:]*)+",
    re.IGNORECASE,
)
# What takes an answer back right behind it: "Wait, that's wrong.", "Scratch that.", "Hmm, I made a mistake."
_TAKEN_BACK = re.compile(
    r"[^\w\\]*+(?:\\[\])][^\w\\]*+)?"
    r"(?:(?:oh|hm+|wait|no|nope|oops|whoops|sorry|actually|hold on|but)\b[\s,.!:;\u2026-]*+)*+"
    r"(?:(?:that|this|it|(?:the|my) answer)(?:['\u2019]s| is| was| must be| seems| looks)(?: (?!not\b)[a-z]+){0,2}?"
    r" (?:wrong|incorrect|not (?:right|correct)|a mistake|an error|mistaken)"
    r"|(?:that|this|it)(?: isn['\u2019]t| is not|['\u2019]s not| can['\u2019]t be| cannot be"
    r"| doesn['\u2019]t (?:look|seem))(?: [a-z]+){0,2}? (?:right|correct)"
    r"|(?:is|was)(?: not|n['\u2019]t) (?:the |my )?(?:final |right |correct )?(?:answer|right|correct|it)"
    r"|(?:is|was) (?:wrong|incorrect)"
    r"|I (?:think I |must have |have )?made (?:a|an)(?: [a-z]+)? (?:mistake|error)"
    r"|(?:scratch|ignore|forget) that|never ?mind|I take (?:that|it) back)\b(?!\s+(?:to|that|if|about|for)\b)",
    re.IGNORECASE,
)
# Words after a formula that take it back or hedge it; "not" with another formula behind rules that one out.
_RETRACTION = re.compile(r"(?:is|was|or|but|not(?!\s+[\d$\\(-])|maybe|perhaps|and)\b", re.IGNORECASE)
# A second value behind a formula: another way to write it, or a hedge.
_OTHER = re.compile(
    r"\((?:or|i\.e\.,?|that is,?|=)\s*([^()]+)\)|or\s+(?=[^()]*\d)([^()]+)|(?:,|;|and)\s*(-?\d[\d.,/]*)",
)


@dataclass(frozen=True, slots=True)
class Extracted:
    """The committed answer, as the members of a list when several boxes stand side by side; or why there is none."""

    members: tuple[str, ...] = ()
    reason: Reason | None = None

    @property
    def text(self) -> str:
        """The answer as one text."""
        return ", ".join(self.members)


def extract(
    text: str, *, stop: Sequence[str], boxes: Sequence[str], boxes_only: bool, keep_thinking: bool, tag: str = ""
) -> Extracted:
    """Return the committed answer: the last box, or without any box what follows the last marker.

    Args:
        text: The completion.
        tag: Look only at the last block of this tag, and take all of it where it holds neither box nor marker.
        stop: The text from the first of these strings on is cut.
        boxes: Commands that count as a box.
        boxes_only: A text without any box has no answer.
        keep_thinking: Look at the whole text instead of what follows the last `</think>`.
    """
    tail = text if keep_thinking else after_thinking(text)
    if tail is None:
        return Extracted(reason="no_answer")
    cut = min((place for mark in stop if (place := tail.find(mark)) >= 0), default=len(tail))
    tail = tail[:cut]
    if beginning := _BEGINNING.match(tail):
        tail = tail[beginning.end() :]
    if ending := END_TOKEN.search(tail):
        tail = tail[: ending.start()]
    block = last_block(tail, tag) if tag else tail
    if block is None:
        return Extracted(reason="no_answer")
    found = _boxes(block, boxes)
    if found is not None:
        return found
    if boxes_only:
        return Extracted(reason="no_answer")
    if tag and not _MARKER.search(block):
        return Extracted((block.strip(),)) if block.strip() else Extracted(reason="no_answer")
    return _after_marker(block)


def _boxes(text: str, commands: Sequence[str]) -> Extracted | None:
    """Return the last box, joined with those right before it, or None when there is no box at all."""
    pattern = re.compile("|".join(re.escape(command) + r"(?![A-Za-z])" for command in commands))
    closings = _closing_braces(text)
    spans: list[tuple[int, int, str | None]] = []
    position = 0
    while match := pattern.search(text, position):
        content, end = _box_content(text, match.end(), closings)
        spans.append((match.start(), end, content))
        position = end
    if not spans:
        return None
    if not (spans[-1][2] or "").strip(" $") or _TAKEN_BACK.match(text, spans[-1][1]):
        return Extracted(reason="no_answer")
    members = [spans[-1][2] or ""]
    for (_, end, content), (start, _, _) in zip(reversed(spans[:-1]), reversed(spans[1:]), strict=True):
        if content is None or not _BETWEEN_BOXES.fullmatch(text, end, start):
            break
        members.append(content)
        if len(members) > MAX_MEMBERS:
            return Extracted(reason="hedge")
    return Extracted(tuple(dict.fromkeys(map(_without_lead, reversed(members)))))


def _without_lead(content: str) -> str:
    """Return the content of a box without the words "the answer is" at its beginning."""
    lead = _LEAD.match(content)
    if lead is None:
        return content
    rest = content[lead.end() :]
    if not lead["text"]:
        return rest or content
    # The words were set as text: the group ends right behind them, or behind the answer.
    inside, _, behind = rest.partition("}")
    return inside + behind if (inside + behind).strip() else content


def _closing_braces(text: str) -> dict[int, int]:
    """Return, for every brace that closes, where; one pass, since a text may hold thousands of boxes."""
    closings: dict[int, int] = {}
    waiting: list[int] = []
    for match in _BRACES.finditer(text):
        if match[0] == "{":
            waiting.append(match.start())
        elif match[0] == "}" and waiting:
            closings[waiting.pop()] = match.start()
    return closings


def _box_content(text: str, start: int, closings: Mapping[int, int]) -> tuple[str | None, int]:
    """Return the content of the box whose command ends at `start`, None when it never closes, and where it ends."""
    while start < len(text) and text[start].isspace():
        start += 1
    if start in closings:
        return text[start + 1 : closings[start]], closings[start] + 1
    if text[start : start + 1] in ("{", ""):
        return None, start + 1
    token = re.compile(r"\\[A-Za-z]+|\\.|[^\s]").match(text, start)
    return (token[0], token.end()) if token and token[0] not in "$}\\" else (None, start + 1)


def _after_marker(text: str) -> Extracted:
    last = next(reversed(list(_MARKER.finditer(text))), None)
    if last is None:
        return Extracted(reason="no_answer")
    rest = text[last.end() :].lstrip(" \t*_:=").lstrip()[: 2 * MAX_CHARACTERS]
    rest = rest[fence.end() :] if (fence := _FENCE.match(rest)) else rest
    rest = _FILLER.sub("", rest, count=1) if _FILLER.match(rest) else rest
    if said := _SENTENCE.match(rest):
        rest = rest[said.end() :]
    members, position, behind = [], 0, 0
    while match := _INLINE.match(rest, position):
        members.append(match[1])
        behind = match.end()
        between = _BETWEEN_FORMULAS.match(rest, behind)
        position = between.end() if between else behind
    end = _SENTENCE_END.search(rest, position)
    if end and _TAKEN_BACK.match(rest, end.start()):
        return Extracted(reason="no_answer")
    if not members:
        sentence = (rest[: end.start()] if end else rest).strip()
        if not sentence or (end and _DENIED.match(rest, end.start())):
            return Extracted(reason="no_answer")
        return Extracted((sentence,))
    tail = _SENTENCE_END.split(rest[position:], maxsplit=1)[0].strip(" *$")
    if other := _OTHER.fullmatch(f"{rest[behind:position].strip(' *$')} {tail}".strip()):
        members[-1] = f"{strip_marks(members[-1])} \\text{{ or }} {other[1] or other[2] or other[3]}"
    elif tail and (_RETRACTION.match(tail) or is_unit(tail)):
        members[-1] = f"{strip_marks(members[-1])} \\text{{ {tail}}}"
    return Extracted(tuple(dict.fromkeys(members)))
