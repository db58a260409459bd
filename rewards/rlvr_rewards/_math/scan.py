"""Cutting a formula at its outermost level."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_STEP = re.compile(r"\\begin|\\end|\\[A-Za-z]+|\\.|[A-Za-z]+|\d[\d,.]*\d|.", re.DOTALL)
_OPEN = ("(", "[", "{", "\\{", "\\begin", "\\lfloor", "\\lceil")
_CLOSE = (")", "]", "}", "\\}", "\\end", "\\rfloor", "\\rceil")
_WORD_SEPARATORS = {"and", "or"}
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Cut:
    """The parts of a text and the separators between them, one fewer."""

    parts: tuple[str, ...]
    words: tuple[str, ...]


def pieces(text: str, separators: tuple[str, ...]) -> Cut:
    """Cut at the given tokens where they stand outside all brackets."""
    parts: list[str] = []
    words: list[str] = []
    start = 0
    for begin, end, token in _outer(text):
        if token in separators:
            parts.append(text[start:begin].strip())
            words.append(token)
            start = end
    return Cut((*parts, text[start:].strip()), tuple(words))


def cut(text: str, bare: bool) -> Cut:
    """Cut at commas, semicolons and the words "and" and "or", as text or in `\\text{..}`, outside all brackets.

    A comma between groups of three digits belongs to the number when `bare`, or when other commas have spaces behind.
    """
    grouped = bare or ", " in text
    parts: list[str] = []
    words: list[str] = []
    start = 0
    text = re.sub(r"\\text\s*\{\s*,?\s*(and|or)\s*,?\s*\}", r" \1 ", text)
    for begin, end, token in _outer(text):
        if token in (",", ";") or token in _WORD_SEPARATORS:
            _cut_at(text, start, begin, token, parts, words)
            start = end
        elif "," in token and not (grouped and _GROUPED.fullmatch(token)):
            for match in re.finditer(",", token):
                _cut_at(text, start, begin + match.start(), ",", parts, words)
                start = begin + match.end()
    last = text[start:].strip()
    if last or not parts:
        parts.append(last)
    return Cut(tuple(parts), tuple(words))


def _cut_at(text: str, start: int, end: int, word: str, parts: list[str], words: list[str]) -> None:
    part = text[start:end].strip()
    # "1, 2, and 3" has a comma before the word; the empty part between them is none.
    if part or word in (",", ";"):
        parts.append(part)
        words.append(word)
    elif words:
        words[-1] = word


def outer_bracket(text: str) -> tuple[str, str, str] | None:
    """Return the opening and closing bracket around the whole text and what they enclose, or None."""
    opener = next((mark for mark in ("(", "[", "\\{") if text.startswith(mark)), None)
    closer = next((mark for mark in (")", "]", "\\}") if text.endswith(mark)), None)
    if opener is None or closer is None or len(text) < len(opener) + len(closer):
        return None
    level = 0
    for begin, _, token, after in _levels(text):
        level = after
        if level == 0 and begin < len(text) - len(closer):
            return None
        if token in _CLOSE and level < 0:
            return None
    return (opener, closer, text[len(opener) : len(text) - len(closer)].strip()) if level == 0 else None


def _levels(text: str) -> Iterator[tuple[int, int, str, int]]:
    level = 0
    for match in _STEP.finditer(text):
        token = match[0]
        if token in _OPEN:
            level += 1
        elif token in _CLOSE:
            level -= 1
        yield match.start(), match.end(), token, level


def _outer(text: str) -> Iterator[tuple[int, int, str]]:
    for begin, end, token, level in _levels(text):
        if level == 0 and token not in _CLOSE:
            yield begin, end, token
