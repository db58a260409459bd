"""Attacks on how a reward uses its batch: another row, another order, the same again, the other form."""

from collections.abc import Sequence
from typing import Any

from grpo_rlvr.inspection.judging import Judge, Scores
from grpo_rlvr.inspection.references import gold_texts, message_text
from grpo_rlvr.inspection.samples import Samples
from grpo_rlvr.inspection.scoring import Batch, Called, RewardChild, as_text
from grpo_rlvr.models.common import Severity
from grpo_rlvr.models.score import Attack

PART = 128
MOVED = 48
EXCERPT = 600
Moved = tuple[int, Any, Scores]


def moves(samples: Samples, calls: Sequence[Called]) -> list[tuple[int, int]]:
    """Return pairs of a row and a donor: the donor's completion is tried in the row, whose reference differs.

    Donors are the samples that some reward scored best, since a score that is 0 anyway says nothing.
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
    pairs: list[tuple[int, int]] = []
    for place, donor in enumerate(order[:MOVED]):
        # Start looking half a list away, so that targets are spread over the prompts.
        for step in range(len(order)):
            target = order[(place + len(order) // 2 + step) % len(order)]
            if samples.groups[target] != samples.groups[donor] and references[target] != references[donor]:
                pairs.append((target, donor))
                break
    return pairs


def reads_row(child: RewardChild, samples: Samples, calls: Sequence[Called]) -> list[bool | None]:
    """Return for each reward whether its score depends on the row: None when no score could tell."""
    pairs = moves(samples, calls)
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
    part = _part(samples)
    child.add("part", samples.batch(part))
    child.add("reversed", samples.batch(part[::-1]))
    child.add("alone", samples.batch(part[:1]))
    child.add("form", _other_form(samples.batch(part)))
    base = {i: child.call(i, "part", explain=False) for i in sound}
    sound = [i for i in sound if not base[i].errors]
    again = _compare(child, "part", base, sound, part, samples, names)
    stable = [i for i in sound if names[i] not in again.rewards]
    ordered = _compare(child, "reversed", base, stable, part, samples, names)
    alone = _compare(child, "alone", base, [i for i in stable if names[i] not in ordered.rewards], part, samples, names)
    form = _compare(child, "form", base, stable, part, samples, names)
    return [other, again, ordered, alone, form, _ungraded(samples, calls, names)], paid


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
    shared: dict[str, Any] = {"attack": "ungraded", "expects": "same_score", "severity": "error"}
    if not found:
        why = "no prompt is graded in part"
        return Attack(**shared, outcome="held", tried=len(samples.rows), bad=0, why=why)
    return Attack(
        **shared, outcome="changed", tried=len(samples.rows), bad=len(found), row=found[0][0],
        rewards=list(dict.fromkeys(name for _, name in found)), text=samples.completion_text(found[0][0])[:EXCERPT],
        why="None for one completion of a prompt and a number for another: None is for rows that cannot be graded, "
        "and a policy can learn to be not graded",
    )  # fmt: skip


_WHY: dict[str, tuple[str, Severity, str]] = {
    "part": (
        "repeated",
        "warning",
        "the same batch gets other scores the second time: the reward is not deterministic",
    ),
    "reversed": ("reordered", "error", "scores change with the order of the batch: rows are probably mixed up"),
    "alone": ("alone", "info", "a row alone gets another score than in its batch: the score depends on other rows"),
    "form": ("other_form", "info", "the same text in the other form (string or chat) gets another score"),
}


def _compare(
    child: RewardChild,
    name: str,
    base: dict[int, Called],
    indices: Sequence[int],
    part: Sequence[int],
    samples: Samples,
    names: Sequence[str],
) -> Attack:
    attack, severity, why = _WHY[name]
    chat = not isinstance(samples.rows[0]["completion"], str)
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
    shared: dict[str, Any] = {"attack": attack, "expects": "same_score", "tried": len(part), "bad": 0}
    if changed:
        place = next(iter(changed.values()))[0]
        if name == "form" and chat:
            severity = "error"
            why = "chat completions score otherwise than the same text as a string: it probably tests the message list"
        return Attack(
            **{**shared, "bad": max(map(len, changed.values()))}, severity=severity, outcome="changed",
            rewards=list(changed), row=part[place], text=samples.completion_text(part[place])[:EXCERPT], why=why,
        )  # fmt: skip
    if failed:
        # The other form never reaches the reward in this run: that it fails there is worth a word, not an alarm.
        severity = "info" if name == "form" else "error"
        why = f"{', '.join(failed)} fails on it" + (": it only takes the form of the samples" if name == "form" else "")
        return Attack(**{**shared, "bad": len(part)}, severity=severity, outcome="failed", rewards=failed, why=why)
    if not indices:
        return Attack(**shared, severity=severity, outcome="not_applicable", why="an earlier check failed already")
    return Attack(**shared, severity=severity, outcome="held", why="the scores stay the same")


def _part(samples: Samples) -> list[int]:
    """Return up to PART rows, whole prompts in file order."""
    if len(samples.rows) <= PART:
        return list(range(len(samples.rows)))
    kept: list[int] = []
    groups: dict[str, list[int]] = {}
    for row, group in enumerate(samples.groups):
        groups.setdefault(group, []).append(row)
    for rows in groups.values():
        if len(kept) + len(rows) <= PART:
            kept += rows
    return sorted(kept) or list(range(PART))


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
    shared: dict[str, Any] = {"attack": "other_row", "expects": "no_reward", "severity": "error", "bad": 0}
    if not pairs:
        why = "no rewarded sample and another row with a different reference"
        return Attack(**shared, outcome="not_applicable", tried=0, why=why), []
    child.add("moved", samples.batch_of([(row, samples.rows[donor]["completion"]) for row, donor in pairs]))
    called = {i: child.call(i, "moved", explain=False) for i in sound}
    if any(call.errors for call in called.values()):
        why = "a reward fails when completions and rows do not belong together"
        return Attack(**shared, outcome="failed", tried=len(pairs), why=why), []
    got: list[Scores] = [
        [called[i].scores[k] if i in called else None for i in range(len(calls))] for k in range(len(pairs))
    ]
    paid = [
        (row, samples.rows[donor]["completion"], scores)
        for (row, donor), scores in zip(pairs, got, strict=True)
        if judge.rewarded(scores)
    ]
    if not paid:
        return Attack(**shared, outcome="held", tried=len(pairs), why="completions of other rows earn nothing"), []
    ignores = len(paid) == len(pairs)
    why = "completions that were right for another row are paid here" + (
        ": the reward ignores the row" if ignores else ""
    )
    row, completion, scores = paid[0]
    attack = Attack(
        **{**shared, "bad": len(paid)}, outcome="paid", tried=len(pairs), row=row,
        rewards=[names[i] for i in judge.primary if judge.at_top(i, scores[i])],
        text=as_text(completion)[:EXCERPT], score=judge.total(scores), why=why,
    )  # fmt: skip
    return attack, paid
