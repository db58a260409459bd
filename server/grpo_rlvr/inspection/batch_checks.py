"""Attacks on how a reward uses its batch: another row, another order, the same again, the other form."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from grpo_rlvr.inspection.judging import Judge, Scores
from grpo_rlvr.inspection.references import gold_texts, message_text
from grpo_rlvr.inspection.samples import Samples
from grpo_rlvr.inspection.scoring import Batch, Called, RewardChild, as_text
from grpo_rlvr.models.common import Severity
from grpo_rlvr.models.score import Attack, AttackOutcome
from grpo_rlvr.plain import shortened

PART, MOVED = 128, 48
# One donor among the worst for so many among the best.
WORST = 3
# Seconds that these checks may take: a slow reward is checked on fewer rows, at least on these.
PART_SECONDS, MOVED_SECONDS = 20.0, 10.0
FEWEST = 6
PART_CALLS, MOVED_CALLS = 3, 3
EXCERPT = 600
Moved = tuple[int, Any, Scores]
# What explains every other attack that a reward fails, so it is named as the cause.
IGNORES_ROW = "the reward ignores the row"
IGNORES_COMPLETION = (
    "the score is that of the row whatever was written: the reward looks at the prompt or a column only, or keeps the "
    "first score of a prompt"
)
PARTIAL = "wrong answers earn part of the reward, and more than the half from which on a sample counts as rewarded"
EXPLAIN_ALL = (IGNORES_ROW, IGNORES_COMPLETION)
# Up to this share two rows may have the same right answer by chance, in other words: two queries with one result.
FEW = 0.1
# Share of rows whose verdict changes on a second call, from which a reward is no judge but a lottery.
FLIPS = 0.05


@dataclass(frozen=True)
class Check:
    """An attack on a whole batch.

    Args:
        attack: Its id, for ever.
        expects: What a sound reward does.
        severity: How bad it is when it does otherwise.
        why: What it means then.
    """

    attack: str
    expects: Literal["no_reward", "reward", "same_score"]
    severity: Severity
    why: str

    def report(self, outcome: AttackOutcome, *, why: str = "", tried: int = 0, bad: int = 0, **more: Any) -> Attack:
        """Return the outcome of this check."""
        own: dict[str, Any] = {"attack": self.attack, "expects": self.expects, "severity": self.severity}
        return Attack(**(own | more), outcome=outcome, why=why or self.why, tried=tried, bad=bad)


OTHER_ROW = Check(
    "other_row", "no_reward", "error", "completions that are paid in one row are paid in another with another reference"
)
REPEATED = Check(
    "repeated", "same_score", "warning",
    "the same batch gets other scores the second time: it throws dice, or keeps something from earlier calls",
)  # fmt: skip
REORDERED = Check(
    "reordered", "same_score", "error", "scores change with the order of the batch: rows are probably mixed up"
)
ALONE = Check(
    "alone", "same_score", "info", "a row alone gets another score than in its batch: it depends on other rows"
)
OTHER_FORM = Check(
    "other_form", "same_score", "info", "the same text in the other form (string or chat) scores otherwise"
)
UNGRADED = Check(
    "ungraded", "same_score", "error",
    "None for one completion of a prompt and a number for another: None is for rows that cannot be graded, and a "
    "policy can learn to be not graded",
)  # fmt: skip
CHECKS = (OTHER_ROW, REPEATED, REORDERED, ALONE, OTHER_FORM, UNGRADED)


def seconds_a_row(calls: Sequence[Called]) -> float:
    """Return what all rewards together took for one sample."""
    return sum(call.seconds / max(1, len(call.scores)) for call in calls)


def affordable(calls: Sequence[Called], seconds: float, times: int, most: int) -> int:
    """Return how many rows can be called `times` times within `seconds`."""
    each = seconds_a_row(calls) * times
    return most if each * most <= seconds else max(FEWEST, int(seconds / each))


def moves(samples: Samples, calls: Sequence[Called], *, worst: bool = False) -> list[tuple[int, int]]:
    """Return pairs of a row and a donor: the donor's completion is tried in the row, whose reference differs.

    Donors are the samples that some reward scored best, since a score that is 0 anyway says nothing; or the worst.
    """
    best = [
        max((s for c in calls if (s := c.scores[row]) is not None), default=0.0) for row in range(len(samples.rows))
    ]
    golds = gold_texts(samples, [score > 0 for score in best])
    references = [
        golds[row] if golds[row] is not None else repr(sorted(samples.columns(row).items(), key=str))
        for row in range(len(samples.rows))
    ]
    order = sorted(range(len(samples.rows)), key=lambda row: -best[row])
    # Targets in a random order of their own: data often repeats at even distances, and then every target at a fixed
    # distance has the donor's answer.
    targets = list(range(len(samples.rows)))
    random.Random(0).shuffle(targets)
    pairs: list[tuple[int, int]] = []
    count = affordable(calls, MOVED_SECONDS, MOVED_CALLS, MOVED)
    for place, donor in enumerate(order[::-1][: count // WORST] if worst else order[:count]):
        for step in range(len(targets)):
            target = targets[(place + step) % len(targets)]
            if samples.groups[target] != samples.groups[donor] and references[target] != references[donor]:
                pairs.append((target, donor))
                break
    return pairs


def reads_row(child: RewardChild, samples: Samples, calls: Sequence[Called]) -> list[bool | None]:
    """Return for each reward whether its score depends on the row: None when no score could tell."""
    # The worst too: with a sign turned round it is they that change.
    pairs = moves(samples, calls) + moves(samples, calls, worst=True)
    if not pairs:
        return [None] * len(calls)
    child.add("moved", samples.batch_of([(row, samples.rows[donor]["completion"]) for row, donor in pairs]))
    child.add("unmoved", samples.batch([donor for _, donor in pairs]))
    answers: list[bool | None] = []
    for index, call in enumerate(calls):
        if call.broken:
            answers.append(None)
            continue
        moved, unmoved = child.call(index, "moved", explain=False), child.call(index, "unmoved", explain=False)
        if moved.errors or unmoved.errors:
            answers.append(None)
        elif _differ(moved.scores, unmoved.scores):
            answers.append(True)
        else:
            answers.append(False if any(score for score in unmoved.scores) else None)
    return answers


def _differ(first: Scores, second: Scores) -> list[int]:
    return [
        place
        for place, (a, b) in enumerate(zip(first, second, strict=True))
        if (a is None) != (b is None) or (a is not None and b is not None and abs(a - b) > 1e-6)
    ]


def batch_attacks(
    child: RewardChild,
    samples: Samples,
    calls: Sequence[Called],
    judge: Judge,
    names: Sequence[str],
    rewarded: Sequence[bool | None],
) -> tuple[list[Attack], list[Moved]]:
    """Return the attacks on whole batches, and completions that were paid in another row."""
    sound = [i for i, call in enumerate(calls) if not call.broken]
    other, paid = _other_row(child, samples, calls, judge, names, sound)
    part = _part(samples, affordable(calls, PART_SECONDS, PART_CALLS, PART))
    whole = len(part) == len(samples.rows)
    child.add("part", samples.batch(part))
    child.add("reversed", samples.batch(part[::-1]))
    child.add("alone", samples.batch(part[:1]))
    child.add("form", _other_form(samples.batch(part)))
    base = {i: calls[i] if whole else child.call(i, "part", explain=False) for i in sound}
    sound = [i for i in sound if not base[i].errors]
    again = _compare(child, REPEATED, "part", base, sound, part, samples, names)
    again = _weighed(again, child, calls, base, judge, part)
    stable = [i for i in sound if names[i] not in again.rewards]
    ordered = _compare(child, REORDERED, "reversed", base, stable, part, samples, names)
    orderly = [i for i in stable if names[i] not in ordered.rewards]
    alone = _compare(child, ALONE, "alone", base, orderly, part, samples, names)
    form = _compare(child, OTHER_FORM, "form", base, stable, part, samples, names)
    return [other, again, ordered, alone, form, _ungraded(samples, calls, names)], paid


def _weighed(
    again: Attack,
    child: RewardChild,
    calls: Sequence[Called],
    base: dict[int, Called],
    judge: Judge,
    part: Sequence[int],
) -> Attack:
    """Say how many verdicts a second call changes: a tie that is broken by chance changes none."""
    if again.outcome != "changed":
        return again
    twice = {i: child.call(i, "part", explain=False) for i in base}

    def verdicts(called: dict[int, Called]) -> list[bool | None]:
        return [
            judge.rewarded([called[i].scores[k] if i in called else None for i in range(len(calls))])
            for k in range(len(part))
        ]

    flips = sum(a != b for a, b in zip(verdicts(base), verdicts(twice), strict=True))
    severe = flips > FLIPS * len(part)
    told = f"{again.why} (for {flips} of {len(part)} the verdict changes)"
    return again.model_copy(update={"why": told, "severity": "error" if severe else again.severity})


def _ungraded(samples: Samples, calls: Sequence[Called], names: Sequence[str]) -> Attack:
    """Look for prompts of which a reward grades some completions and not others."""
    found: list[tuple[int, str]] = []
    for call, name in zip(calls, names, strict=True):
        faulty = {error.row for error in call.errors}
        graded = {group for group, score in zip(samples.groups, call.scores, strict=True) if score is not None}
        found += [
            (row, name)
            for row, score in enumerate(call.scores)
            if score is None and row not in faulty and samples.groups[row] in graded
        ]
    if not found:
        return UNGRADED.report("held", tried=len(samples.rows), why="no prompt is graded in part")
    return UNGRADED.report(
        "changed",
        tried=len(samples.rows),
        bad=len(found),
        row=found[0][0],
        rewards=list(dict.fromkeys(name for _, name in found)),
        text=shortened(samples.completion_text(found[0][0]), EXCERPT),
    )


def _compare(
    child: RewardChild,
    check: Check,
    name: str,
    base: dict[int, Called],
    indices: Sequence[int],
    part: Sequence[int],
    samples: Samples,
    names: Sequence[str],
) -> Attack:
    changed: dict[str, list[int]] = {}
    failed: list[str] = []
    for index in indices:
        called = child.call(index, name, explain=False)
        if called.errors:
            failed.append(names[index])
            continue
        scores = called.scores[::-1] if name == "reversed" else called.scores
        if places := _differ(scores, base[index].scores[: len(scores)]):
            changed[names[index]] = places
    tried = len(part)
    if changed:
        place = next(iter(changed.values()))[0]
        worse: dict[str, Any] = {}
        if check is OTHER_FORM and not isinstance(samples.rows[0]["completion"], str):
            worse = {"severity": "error", "why": f"{check.why}: it probably tests the message list, not the text"}
        return check.report(
            "changed", tried=tried, bad=max(map(len, changed.values())), rewards=list(changed), row=part[place],
            text=shortened(samples.completion_text(part[place]), EXCERPT), **worse,
        )  # fmt: skip
    if failed:
        # The other form never reaches the reward in this run: that it fails there is worth a word, not an alarm.
        severity = "info" if check is OTHER_FORM else "error"
        why = f"{', '.join(failed)} fails on it"
        why += ": it only takes the form of the samples" if check is OTHER_FORM else ""
        return check.report("failed", tried=tried, bad=tried, rewards=failed, severity=severity, why=why)
    if not indices:
        return check.report("not_applicable", why="an earlier check failed already")
    return check.report("held", tried=tried, why="the scores stay the same")


def _part(samples: Samples, most: int) -> list[int]:
    """Return up to `most` rows, whole prompts in file order."""
    if len(samples.rows) <= most:
        return list(range(len(samples.rows)))
    kept: list[int] = []
    groups: dict[str, list[int]] = {}
    for row, group in enumerate(samples.groups):
        groups.setdefault(group, []).append(row)
    for rows in groups.values():
        if len(kept) + len(rows) <= most:
            kept += rows
    return sorted(kept) or list(range(most))


def _other_form(batch: Batch) -> Batch:
    chat = not isinstance(batch.completions[0], str)
    if chat:
        prompts: list[Any] = [as_text(prompt) for prompt in batch.prompts]
        completions: list[Any] = [message_text(completion) for completion in batch.completions]
    else:
        prompts = [[{"role": "user", "content": as_text(prompt)}] for prompt in batch.prompts]
        completions = [[{"role": "assistant", "content": text}] for text in batch.completions]
    return Batch(prompts, completions, batch.completion_ids, batch.columns)


def _other_row(
    child: RewardChild,
    samples: Samples,
    calls: Sequence[Called],
    judge: Judge,
    names: Sequence[str],
    sound: Sequence[int],
) -> tuple[Attack, list[Moved]]:
    own = [judge.rewarded([call.scores[row] for call in calls]) for row in range(len(samples.rows))]
    pairs = [(row, donor) for row, donor in moves(samples, calls) if own[donor]]
    if not pairs:
        return OTHER_ROW.report(
            "not_applicable", why="no rewarded sample and another row with a different reference"
        ), []
    child.add("moved", samples.batch_of([(row, samples.rows[donor]["completion"]) for row, donor in pairs]))
    called = {i: child.call(i, "moved", explain=False) for i in sound}
    if any(call.errors for call in called.values()):
        why = "a reward fails when completions and rows do not belong together"
        return OTHER_ROW.report("failed", tried=len(pairs), why=why), []
    got: list[Scores] = [
        [called[i].scores[k] if i in called else None for i in range(len(calls))] for k in range(len(pairs))
    ]
    paid = [
        (row, samples.rows[donor]["completion"], scores)
        for (row, donor), scores in zip(pairs, got, strict=True)
        if judge.rewarded(scores)
    ]
    if not paid:
        return OTHER_ROW.report("held", tried=len(pairs), why="completions of other rows earn nothing"), []
    telling = _telling(calls, judge, pairs, got)
    few = len(paid) <= FEW * len(pairs)
    chance = " (few: two rows may have the same right answer in other words)" if few else ""
    row, completion, scores = paid[0]
    attack = OTHER_ROW.report(
        "paid", tried=len(pairs), bad=len(paid), row=row, text=shortened(as_text(completion), EXCERPT),
        rewards=[names[i] for i in judge.primary if judge.at_top(i, scores[i])], score=judge.total(scores),
        why=f"{OTHER_ROW.why}: {telling}" if telling else OTHER_ROW.why + chance,
        **({"severity": "warning"} if few else {}),
    )  # fmt: skip
    return attack, paid


def _telling(calls: Sequence[Called], judge: Judge, pairs: Sequence[tuple[int, int]], got: Sequence[Scores]) -> str:
    """Return what all scores of moved completions together say of a reward; empty when they say nothing."""
    own = [[call.scores[row] for call in calls] for row in range(len(calls[0].scores))]

    def alike(first: Scores, second: Scores) -> bool:
        return not _differ([first[i] for i in judge.primary], [second[i] for i in judge.primary])

    targets = [own[target] for target, _ in pairs]
    varied = any(map(judge.rewarded, targets)) and not all(map(judge.rewarded, targets))
    if varied and all(map(alike, got, targets)):
        return IGNORES_COMPLETION
    if all(judge.rewarded(scores) for scores in got):
        if all(alike(scores, own[donor]) for scores, (_, donor) in zip(got, pairs, strict=True)):
            # With a sign turned round the paid completions are wrong in every row.
            return IGNORES_ROW if judge.blind else ""
        return PARTIAL
    return ""
