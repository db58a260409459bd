"""Finds the program in a completion: the last fence of a fitting label, or the whole text."""

import ast
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rlvr_rewards._text import END_TOKEN, after_thinking

_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([^\s`{]*)([^`\n]*)$")
# In the middle of a program, such marks may be text of its own.
_LAST_TOKEN = re.compile(rf"(?:{END_TOKEN.pattern})\s*\Z")
_FUTURE = re.compile(r"^from __future__ import [^\n(]*\n", re.MULTILINE)
MAX_PARSED = 64 * 1024  # characters that are parsed here to tell where a fence ends
MAX_ENDS = 5  # lines that are tried as the end of one fence


@dataclass(frozen=True)
class _Block:
    label: str
    text: str


def extract(text: str, languages: Sequence[str], pick: str, fence: bool) -> str | None:
    """Return the program, or None when there is none.

    Args:
        text: The completion's text; an open `<think>` means no answer.
        languages: Fence labels, in lower case, that hold a program.
        pick: `last` or `first` of several.
        fence: Whether fences are looked for at all.
    """
    visible = after_thinking(text)
    if visible is None:
        return None
    visible = _LAST_TOKEN.sub("", visible)
    if not fence:
        return visible if visible.strip() else None
    visible = _inside_answer(visible)
    blocks = _blocks(visible)
    if not blocks:
        return visible if visible.strip() else None
    fitting = [block.text for block in blocks if block.label.lower() in languages]
    if not fitting:
        return None
    program = fitting[-1 if pick == "last" else 0]
    return program if program.strip() else None


def with_prelude(program: str, prelude: str) -> str:
    """Return a program behind other source, which stays behind the imports that must be the first statements of all."""
    if not prelude:
        return program
    first = list(_FUTURE.finditer(program))
    cut = first[-1].end() if first else 0
    return f"{program[:cut]}{prelude}\n{program[cut:]}"


def _inside_answer(text: str) -> str:
    """Return the content of an answer tag that encloses all of the text, as a format reward asks for; else the text."""
    whole = text.strip()
    if whole.startswith("<answer>") and whole.endswith("</answer>") and whole.count("<answer>") == 1:
        return whole[len("<answer>") : -len("</answer>")].strip("\n") + "\n"
    return text


def _blocks(text: str) -> list[_Block]:
    """Return the fenced blocks; the last one may be open."""
    lines, blocks, place = text.splitlines(), list[_Block](), 0
    while place < len(lines):
        opening = _FENCE.match(lines[place])
        if opening is None:
            place += 1
            continue
        ends = _closing_lines(lines, place + 1, opening[2])
        end = _fitting_end(lines, place + 1, ends)
        body = "\n".join(lines[place + 1 : end])
        blocks.append(_Block(opening[3], textwrap.dedent(body) if opening[1] else body))
        place = end + 1
    return blocks


def _closing_lines(lines: list[str], start: int, mark: str) -> list[int]:
    """Return where the fence could close: bare marks, up to the next labelled opening after the first of them."""
    ends: list[int] = []
    for place in range(start, len(lines)):
        found = _FENCE.match(lines[place])
        if found is None or found[2][0] != mark[0] or len(found[2]) < len(mark):
            continue
        if found[3] or found[4].strip():
            if ends:
                break
            continue
        ends.append(place)
        if len(ends) == MAX_ENDS:
            break
    return ends


def _fitting_end(lines: list[str], start: int, ends: list[int]) -> int:
    """Return the first closing line after which the program parses; a fence can stand inside one of its strings."""
    if not ends:
        return len(lines)
    for end in ends:
        if parses("\n".join(lines[start:end])):
            return end
    return ends[0]


def parses(text: str) -> bool:
    """Return whether a text is Python source of a usual length."""
    if len(text) > MAX_PARSED:
        return False
    try:
        ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
