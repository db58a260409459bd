"""Reading the code fences around JSON, in time that grows with the text and no faster."""

import re
from dataclasses import dataclass

# A fence and its label, then a new line or, for a document on the fence's own line, its first bracket. It starts only
# where its row of marks starts: a flood of marks is read once.
_OPENING = re.compile(r"(?P<mark>(?<!`)`{3,}+|(?<!~)~{3,}+)[ \t]*+(?P<label>[\w+-]*+)[ \t\r]*+(?:\n|(?=[\[{]))")
# A JSON string, which may hold marks, or a mark. A string that never closes ends with its line, so that text before
# it is read once.
_CLOSING = re.compile(r'"(?:[^"\\\n]|\\[^\n])*+"?|(?P<mark>`{3,}+|~{3,}+)')


@dataclass(frozen=True)
class Block:
    """A fenced block: the fence's label in lower case ("" without one) and the text inside."""

    label: str
    body: str


def whole_block(text: str) -> Block | None:
    """Return the block that is all of a text, or None if there is text outside it or no fence."""
    opening = _OPENING.match(text)
    if opening is None:
        return None
    mark = opening["mark"]
    end = len(text.rstrip(mark[0]))
    if len(text) - end < len(mark) or end < opening.end():
        return None
    return Block(opening["label"].lower(), text[opening.end() : end])


def blocks(text: str) -> list[Block]:
    """Return the closed blocks of a text in their order; what follows a fence that never closes holds none."""
    found: list[Block] = []
    position = 0
    while opening := _OPENING.search(text, position):
        closing = _closing(text, opening.end(), opening["mark"])
        if closing is None:
            break
        found.append(Block(opening["label"].lower(), text[opening.end() : closing.start()]))
        position = closing.end()
    return found


def _closing(text: str, start: int, mark: str) -> re.Match[str] | None:
    for match in _CLOSING.finditer(text, start):
        other = match["mark"]
        if other and other[0] == mark[0] and len(other) >= len(mark):
            return match
    return None
