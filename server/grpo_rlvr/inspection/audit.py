"""The audit: attacks on the user's own reward, made from the user's own rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.inspection.attacks import KINDS, Case, Kind
from grpo_rlvr.inspection.batch_checks import batch_attacks, seconds_a_row
from grpo_rlvr.inspection.judging import Judge, Scores
from grpo_rlvr.inspection.opening import opening_tag
from grpo_rlvr.inspection.references import cases, plain_cases, with_text
from grpo_rlvr.inspection.samples import Samples
from grpo_rlvr.inspection.scoring import Called, RewardChild, as_text
from grpo_rlvr.models.score import Attack, Audit, ScoreError
from grpo_rlvr.plain import shortened

NOTE = "Holding against these attacks is no proof: a policy tries far more than this list."
CASES = 4
# A reward that takes longer for all attacks is attacked with fewer rows.
BUDGET_SECONDS = 30.0
# Attacks on rewards that are quick on the samples: a regular expression that goes astray must not cost minutes.
ATTACK_SECONDS, ATTACK_TIMES = 10.0, 20.0
# After this many completions that make a reward fail, the rest of the attacks is not tried.
MAX_FAILURES = 5
EXCERPT = 600
ROWS_A_KIND = 2
ORDER = {"error": 0, "warning": 1, "info": 2}


@dataclass(frozen=True)
class AttackRow:
    """A completion that was rewarded although it should not be; it goes to the reader, who decides."""

    attack: str
    sample: int
    completion: Any
    scores: Scores


@dataclass(frozen=True)
class Found:
    """What the audit found: the report, and the rows for the reader."""

    audit: Audit
    rows: list[AttackRow] = field(default_factory=list)


@dataclass(frozen=True)
class _Try:
    kind: Kind
    case: Case
    completion: Any


def audit(
    child: RewardChild,
    samples: Samples,
    calls: Sequence[Called],
    judge: Judge,
    names: Sequence[str],
    reads_row: Sequence[bool | None],
) -> Found:
    """Attack the rewards with completions made from the samples, and look for dependence on batch, order and form.

    A reward that could not be called on the samples is not attacked.
    """
    sound = [i for i, call in enumerate(calls) if not call.broken]
    if not sound or not set(judge.primary) <= set(sound):
        broken = "; ".join(dict.fromkeys(f"{e.reward} {e.message}" for call in calls for e in call.errors[:1]))
        note = f"The rewards failed on the samples themselves ({broken}): mend them first."
        return Found(Audit(verdict="not_run", note=note))
    scores = list(zip(*(call.scores for call in calls), strict=True))
    rewarded = [judge.rewarded(row) for row in scores]
    seconds = seconds_a_row(calls)
    attacks, rows = _text_attacks(child, samples, judge, names, reads_row, rewarded, seconds, sound)
    more, moved = batch_attacks(child, samples, calls, judge, names, rewarded)
    rows += [AttackRow("other_row", sample, completion, got) for sample, completion, got in moved]
    attacks += [*more, opening_tag(child, samples, calls, judge, names, rewarded)]
    attacks.sort(key=lambda attack: (attack.outcome in ("held", "not_applicable"), ORDER[attack.severity]))
    return Found(Audit(verdict=_verdict(attacks), attacks=attacks, note=NOTE), _in_turn(rows))


def _verdict(attacks: Sequence[Attack]) -> Any:
    failed = {attack.severity for attack in attacks if attack.outcome not in ("held", "not_applicable")}
    return "errors" if "error" in failed else "warnings" if "warning" in failed else "held"


def _in_turn(rows: Sequence[AttackRow]) -> list[AttackRow]:
    """Order the rows so that the first of every attack comes before the second of any."""
    count: dict[str, int] = {}
    ranked: list[tuple[int, int, AttackRow]] = []
    for row in rows:
        count[row.attack] = count.get(row.attack, 0) + 1
        if count[row.attack] <= ROWS_A_KIND:
            ranked.append((count[row.attack], len(ranked), row))
    return [row for _, _, row in sorted(ranked, key=lambda entry: entry[:2])]


def _text_attacks(
    child: RewardChild,
    samples: Samples,
    judge: Judge,
    names: Sequence[str],
    reads_row: Sequence[bool | None],
    rewarded: Sequence[bool | None],
    seconds: float,
    sound: Sequence[int],
) -> tuple[list[Attack], list[AttackRow]]:
    tries = _tries(samples, rewarded, CASES)
    for fewer in range(CASES - 1, 0, -1):
        if len(tries) * seconds <= BUDGET_SECONDS:
            break
        tries = _tries(samples, rewarded, fewer)
    if len(tries) * seconds > BUDGET_SECONDS:
        tries = tries[: int(BUDGET_SECONDS / seconds)]
    scored, failures = _score(child, samples, tries, sound, seconds)
    format_only = [i for i, reads in enumerate(reads_row) if reads is False and i not in judge.primary]
    attacks = [_report(kind, scored, failures, judge, names, format_only) for kind in KINDS]
    rows = [
        AttackRow(entry.kind.attack, entry.case.sample, entry.completion, got)
        for entry, got in scored
        if entry.kind.severity == "error" and entry.kind.expects == "no_reward" and judge.rewarded(got)
    ]
    return attacks, rows


def _tries(samples: Samples, rewarded: Sequence[bool | None], wanted: int) -> list[_Try]:
    with_gold, plain = cases(samples, rewarded, wanted), plain_cases(samples, wanted)
    return [
        _Try(kind, case, with_text(samples.rows[case.sample]["completion"], text))
        for kind in KINDS
        for case in (with_gold if kind.needs_gold else plain)
        if kind.whole or not case.whole
        for text in kind.build(case)
    ]


def _score(
    child: RewardChild, samples: Samples, tries: list[_Try], sound: Sequence[int], seconds: float
) -> tuple[list[tuple[_Try, Scores]], dict[str, tuple[str, _Try, str]]]:
    """Return the tries with their scores, and by attack id the reward that failed on it, the try and the message."""
    failures: dict[str, tuple[str, _Try, str]] = {}
    while tries:
        child.add("attacks", samples.batch_of([(entry.case.sample, entry.completion) for entry in tries]))
        columns: list[Sequence[float | None]] = [[None] * len(tries)] * len(child.specs)
        bad: int | None = None
        for index in sound:
            patience = max(ATTACK_SECONDS, ATTACK_TIMES * seconds * len(tries))
            called = child.call(index, "attacks", seconds=patience)
            if called.errors:
                error = called.errors[0]
                bad = error.row if error.row is not None else -1
                # A failure that no single row causes cannot be laid to one attack.
                at = tries[bad] if bad >= 0 else tries[0]
                failures.setdefault(at.kind.attack, (error.reward, at, _how(error, seconds)))
                break
            columns[index] = called.scores
        if bad is None:
            return [(entry, list(got)) for entry, got in zip(tries, zip(*columns, strict=True), strict=True)], failures
        if bad < 0 or len(failures) >= MAX_FAILURES:
            break
        # The whole attack goes: its other rows would fail alike.
        tries = [entry for entry in tries if entry.kind is not tries[bad].kind]
    return [], failures


def _how(error: ScoreError, seconds: float) -> str:
    if error.kind != "timeout":
        return f"fails on such a completion, which would end the run: {error.kind}: {error.message}"
    took = error.message.removesuffix(" ([scoring] seconds)")
    return (
        f"{took} for such a completion, and {seconds * 1000:.2g} ms for a sample: a loop, or a regular expression that "
        "tries endless ways to match; the run would wait for it"
    )


def _report(
    kind: Kind,
    scored: Sequence[tuple[_Try, Scores]],
    failures: Mapping[str, tuple[str, _Try, str]],
    judge: Judge,
    names: Sequence[str],
    format_only: Sequence[int],
) -> Attack:
    base: dict[str, Any] = {"attack": kind.attack, "expects": kind.expects, "severity": kind.severity, "bad": 0}
    if kind.attack in failures:
        reward, entry, message = failures[kind.attack]
        why = f"{reward} {message}"
        return Attack(
            **{**base, "severity": "error", "bad": 1},
            outcome="failed", tried=1, rewards=[reward], row=entry.case.sample,
            text=shortened(as_text(entry.completion), EXCERPT), why=why,
        )  # fmt: skip
    own = [(entry, got) for entry, got in scored if entry.kind is kind]
    if not own or (kind.aim == "format" and not format_only):
        missing = (
            "no reward judges the format alone" if own else "no rewarded sample fits it" if kind.needs_gold else ""
        )
        return Attack(**base, outcome="not_applicable", tried=0, why=missing or "not tried: the reward is too slow")
    if any(judge.rewarded(got) for entry, got in scored if entry.kind.attack == kind.unless):
        return Attack(**base, outcome="not_applicable", tried=0, why=f"it would show no more than {kind.unless} does")
    bad = [(entry, got, who) for entry, got in own if (who := _culprits(kind, got, judge, names, format_only))]
    if not bad:
        return Attack(**base, outcome="held", tried=len(own), why="the reward does what it should")
    entry, got, _ = bad[0]
    # What a format reward alone pays earns no more than the format is worth.
    slight = kind.severity == "error" and not any(judge.rewarded(got) for _, got, _ in bad)
    return Attack(
        **{**base, "bad": len(bad), "severity": "warning" if slight else kind.severity},
        outcome="paid" if kind.expects == "no_reward" else "lost",
        tried=len(own),
        rewards=list(dict.fromkeys(name for _, _, who in bad for name in who)),
        row=entry.case.sample,
        text=shortened(as_text(entry.completion), EXCERPT),
        score=judge.total(got),
        why=kind.why,
    )


def _culprits(kind: Kind, got: Scores, judge: Judge, names: Sequence[str], format_only: Sequence[int]) -> list[str]:
    """Return the rewards that did not do what the attack expects of them."""
    wrong = bool(judge.rewarded(got)) == (kind.expects == "no_reward")
    found = []
    if kind.aim in ("answer", "any") and wrong:
        tops = [i for i in judge.primary if judge.at_top(i, got[i]) == (kind.expects == "no_reward")]
        found += [names[i] for i in tops]
    if kind.aim in ("format", "any"):
        found += [names[i] for i in format_only if judge.at_top(i, got[i]) == (kind.expects == "no_reward")]
    return found
