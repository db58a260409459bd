"""The demo's reader: a program that solves the task itself. It says so in every record, and it is not a person.

It shares no code with the rewards: it reads the form as a person would see it, works out the answer from the prompt
alone, and judges the completion by its own rules.
"""

import re
from collections.abc import Callable
from typing import Any

NAME = "demo oracle, not a person"
_ROW = re.compile(
    r"^--- (\d+)\. \(row \d+ of \d+\) ---\n(?:SECOND LOOK: .*\n)?PROMPT\n(?P<prompt>(?:> ?.*\n)+)"
    r"REFERENCE\n(?:> ?.*\n)+COMPLETION\n(?P<completion>(?:> ?.*(?:\n|$))+)",
    re.MULTILINE,
)
# (prompt, completion) -> whether the completion deserves the reward
Judge = Callable[[str, str], bool]


def answer_form(message: str, schema: dict[str, Any], judge: Judge) -> dict[str, str]:
    """Return the answers to one form of a reading.

    Raises:
        ValueError: the form asks for rows that the message does not show.
    """
    content: dict[str, str] = {}
    rows = {
        int(match.group(1)): (_text(match["prompt"]), _text(match["completion"])) for match in _ROW.finditer(message)
    }
    for name in schema["properties"]:
        kind, _, number = name.partition("_")
        if name == "reader_kind":
            content[name] = "oracle"
        elif name == "reader_name":
            content[name] = NAME
        elif kind == "verdict":
            if int(number) not in rows:
                raise ValueError(f"the form asks for row {number}, which its message does not show")
            content[name] = "correct" if judge(*rows[int(number)]) else "wrong"
    return content


def judge_shift(prompt: str, completion: str) -> bool:
    """Whether a completion is `<reasoning>...</reasoning><answer>WORD</answer>` with every letter moved on by one."""
    asked = re.fullmatch(r"shift ([a-l]+):", prompt.strip())
    given = re.fullmatch(r"<reasoning>[^<>]*\S[^<>]*</reasoning>\s*<answer>([^<>]*)</answer>", completion.strip())
    if not asked or not given:
        return False
    expected = "".join("a" if letter == "l" else chr(ord(letter) + 1) for letter in asked.group(1))
    return given.group(1).strip() == expected


def _text(quoted: str) -> str:
    lines = [line[2:] if line.startswith("> ") else line[1:] for line in quoted.rstrip("\n").split("\n")]
    text = "\n".join(lines)
    return "" if text == "(empty)" else text
