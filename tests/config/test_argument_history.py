"""The page of arguments by release says what the tables say, release by release."""

import re

import pytest

from grpo_rlvr.config.history import arguments_page
from grpo_rlvr.config.tables import known_versions, table

ROWS = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", arguments_page(), re.MULTILINE))
MINORS = [version.rpartition(".")[0] for version in known_versions()]


def listed(spans: str) -> set[str]:
    """The minor releases that a cell of the page names."""
    if spans == "always":
        return set(MINORS)
    found: set[str] = set()
    for span in spans.split(", "):
        first, _, last = span.removesuffix(" on").partition(" to ")
        end = MINORS[-1] if span.endswith(" on") else last or first
        found |= set(MINORS[MINORS.index(first) : MINORS.index(end) + 1])
    return found


@pytest.mark.parametrize("version", known_versions())
def test_the_page_lists_a_releases_own_arguments(version: str) -> None:
    minor = version.rpartition(".")[0]
    own = {name for name, spec in table(version).fields.items() if spec.get("x-from") == "trl"}
    assert own and all(minor in listed(ROWS[name]) for name in own)
    assert all(name in table(version) for name, spans in ROWS.items() if minor in listed(spans))


def test_the_page_knows_what_people_ask_for() -> None:
    page = arguments_page()
    assert "| `max_prompt_length` | 0.14 to 0.27 | 0.14: `512`, 0.26: `None` |" in page
    assert "| `loss_type` | 0.17 on | 0.17: `'bnpo'`, 0.22: `'dapo'` |" in page
    assert "| `beta` | always | 0.14: `0.04`, 0.19: `0.0` |" in page
