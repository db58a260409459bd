"""Looking at a live run again and again without crying wolf."""

from collections.abc import Iterable, Mapping
from typing import Any

from grpo_rlvr.metrics.context import Context, read_context
from grpo_rlvr.metrics.diagnose import QUIET
from grpo_rlvr.metrics.engine import label_all
from grpo_rlvr.metrics.parsing.assemble import ParsedLog, assemble
from grpo_rlvr.metrics.parsing.scan import Scanner
from grpo_rlvr.metrics.rules import HARD_RULES
from grpo_rlvr.metrics.signals import FEW, WEAK, Signals
from grpo_rlvr.models.recommend import WatchUpdate
from grpo_rlvr.models.setup import Setup

# Every look is one more chance to be wrong: looks every five rows at the level of a single look raise a false alarm in
# a fifth of healthy runs, in most where the noise drifts. So a trend counts at a twentieth of the level, from 20 rows
# on, and only when the look before has seen it too: under 5 % over all looks from 10 to 100 rows (simulated in tests).
LEVEL = 0.0005


def watch_rows(
    rows: Iterable[Mapping[str, Any]],
    *,
    every: int = 5,
    config: Mapping[str, Any] | None = None,
    setup: Setup | None = None,
    trl_version: str | None = None,
) -> WatchUpdate:
    """Judge what a running run has logged so far, for a caller that asks again every `every` rows.

    Hard facts (nan, exploded gradients, everything at the cap) are told at once; trends only at a level that
    allows for all the looks before. Rows are dictionaries of metric names, as in a run folder's metrics.jsonl.
    """
    seen = list(rows)
    every = max(every, 1)
    parsed = from_rows(seen)
    context = read_context(config, setup, trl_version, parsed.frameworks)
    signals = Signals(parsed, LEVEL)
    labels = label_all(signals, context)
    at_once = {found.label for rule in HARD_RULES if (found := rule(signals, context))}
    if any(item.label not in QUIET | at_once for item in labels):
        labels = [item for item in labels if item.label in QUIET | at_once | _seen_before(seen[:-every], context)]
    looks = 0 if parsed.rows < FEW else (parsed.rows - FEW) // every + 1
    return WatchUpdate(
        alarm=any(item.label not in QUIET for item in labels),
        labels=labels,
        rows=parsed.rows,
        looks=looks,
        level=LEVEL,
        next_look=FEW if parsed.rows < FEW else FEW + looks * every,
    )


def _seen_before(rows: list[Mapping[str, Any]], context: Context) -> set[str]:
    """Labels that the look before carried, none below twenty rows."""
    if len(rows) < WEAK:
        return set()
    return {item.label for item in label_all(Signals(from_rows(rows), LEVEL), context)}


def from_rows(rows: Iterable[Mapping[str, Any]]) -> ParsedLog:
    """Read rows that are already dictionaries."""
    scanner = Scanner()
    for number, row in enumerate(rows, 1):
        scanner.take(dict(row), number)
    return assemble(scanner.result(), "rows")
