"""Choosing the rows that a person reads: spread over score levels, kinds of disagreement and prompts."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from grpo_rlvr.inspection.judging import Judge, Scores
from grpo_rlvr.inspection.samples import Samples

LARGEST = 100
# Beyond the policy's rows, so that some "cannot tell" do not leave too few.
SPARE_SHARE = 0.2
MAX_ATTACK_ROWS = 8
LEVELS = 5
NEAR_DUPLICATE = 0.9
# Completions of one prompt that a further one is compared with, so that huge groups stay cheap.
COMPARED = 200
# Of more samples than this, a random part is looked at.
CONSIDERED = 2000


@dataclass(frozen=True)
class Candidate:
    """A sample that could be read: its kind (verdict, component pattern, score levels) and its prompt."""

    row: int
    kind: tuple[object, ...]
    group: str


def choose(samples: Samples, scores: Sequence[Scores], judge: Judge, wanted: int, seed: str) -> tuple[list[int], int]:
    """Return the sample rows to read, in reading order, and how many near-duplicates are among them.

    Rows are taken in turn from every kind (component pattern and score level), inside a kind from every prompt, so that
    any beginning of the list is spread too. Near-duplicates come only when nothing else is left.
    """
    target = min(len(samples.rows), LARGEST, wanted + max(10, round(wanted * SPARE_SHARE)))
    order = random.Random(seed)
    rows = range(len(samples.rows))
    considered = sorted(order.sample(rows, CONSIDERED)) if len(rows) > CONSIDERED else list(rows)
    fresh, duplicates = _split_duplicates(samples, considered)
    chosen = _in_turn([_candidate(samples, scores, judge, row) for row in fresh], target, order)
    missing = min(len(samples.rows), wanted) - len(chosen)
    extra = _in_turn([_candidate(samples, scores, judge, row) for row in duplicates], max(0, missing), order)
    return chosen + extra, len(extra)


def _candidate(samples: Samples, scores: Sequence[Scores], judge: Judge, row: int) -> Candidate:
    own = scores[row]
    pattern = tuple(None if score is None else judge.at_top(i, score) for i, score in enumerate(own))
    levels = tuple(
        None if score is None else round(judge.ranges[i].share(score) * LEVELS) for i, score in enumerate(own)
    )
    return Candidate(row, (judge.rewarded(own), pattern, levels), samples.groups[row])


def _in_turn(candidates: Sequence[Candidate], wanted: int, order: random.Random) -> list[int]:
    kinds: dict[tuple[object, ...], dict[str, list[int]]] = {}
    for candidate in candidates:
        kinds.setdefault(candidate.kind, {}).setdefault(candidate.group, []).append(candidate.row)
    queues = []
    for kind in sorted(kinds, key=repr):
        piles = list(kinds[kind].values())
        order.shuffle(piles)
        for pile in piles:
            order.shuffle(pile)
        queues.append([row for turn in range(max(map(len, piles))) for pile in piles for row in pile[turn : turn + 1]])
    chosen: list[int] = []
    while len(chosen) < wanted and any(queues):
        # A new order each round, or the reader could learn that every third row is a paid one.
        order.shuffle(queues)
        for queue in queues:
            if queue and len(chosen) < wanted:
                chosen.append(queue.pop(0))
    return chosen


def _split_duplicates(samples: Samples, rows: Sequence[int]) -> tuple[list[int], list[int]]:
    fresh: list[int] = []
    duplicates: list[int] = []
    seen: dict[str, list[frozenset[str]]] = {}
    for row in rows:
        group = samples.groups[row]
        shingles = _shingles(samples.completion_text(row))
        near = any(_likeness(shingles, other) >= NEAR_DUPLICATE for other in seen.setdefault(group, [])[-COMPARED:])
        (duplicates if near else fresh).append(row)
        if not near:
            seen[group].append(shingles)
    return fresh, duplicates


def _shingles(text: str) -> frozenset[str]:
    words = re.findall(r"\w+|[^\w\s]", text.casefold())
    return frozenset(" ".join(words[i : i + 3]) for i in range(max(1, len(words) - 2)))


def _likeness(first: frozenset[str], second: frozenset[str]) -> float:
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def mixed(rows: Sequence[int], attacks: Sequence[int], wanted: int, seed: str) -> list[tuple[str, int]]:
    """Return sample rows and attack rows in one order, the attacks scattered over the first `wanted` places."""
    order = random.Random(f"{seed} attacks")
    result = [("sample", row) for row in rows]
    stretch = min(wanted, len(rows)) / max(1, len(attacks))
    for place, attack in enumerate(order.sample(attacks, len(attacks))):
        # One in each stretch, at a place that nobody can foresee; those inserted before push it on by one each.
        result.insert(place + int(stretch * (place + order.random())), ("attack", attack))
    return result
