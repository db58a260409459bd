"""Bits of HTML that the sections are made of."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from grpo_rlvr.models.common import Interval

TEXT_SHOWN = 700
_NAME = re.compile("`([^`]+)`")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table of cells that are HTML already; empty without rows."""
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    if not body:
        return ""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def prose(value: str) -> str:
    """A sentence of ours: names that stand in backticks are set as code."""
    return _NAME.sub(r"<code>\1</code>", escape(value))


def pill(word: str, tone: str) -> str:
    """A word in a coloured outline."""
    return f'<span class="pill {tone}">{escape(word.replace("_", " "))}</span>'


def text(value: str) -> str:
    """Model output, shown as text and never as markup, cut in the middle when long."""
    if len(value) > TEXT_SHOWN:
        half = TEXT_SHOWN // 2
        value = f"{value[:half]}\n[... {len(value) - TEXT_SHOWN} characters ...]\n{value[-half:]}"
    return f'<span class="text mono">{escape(value)}</span>'


def share(interval: Interval | None) -> str:
    """A value with its interval."""
    if interval is None:
        return "unknown"
    return f"{interval.value:.2f} ({interval.low:.2f} to {interval.high:.2f}, n {interval.n})"
