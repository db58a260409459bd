"""Scores, audits and readings as text for people."""

from collections.abc import Sequence

from grpo_rlvr.cli.render import coloured, console, escape, indented, number, paragraphs, sentences, share, table
from grpo_rlvr.models.reading import Disagreement, ReadingList, ReadingStatus
from grpo_rlvr.models.score import Attack, Audit, ScoreResult
from grpo_rlvr.plain import shortened

# Characters of a completion: what an attack put in stands at its beginning, its end, or both.
EXCERPT = 180
FINE = ("held", "not_applicable")


def score(result: ScoreResult) -> None:
    """Rewards, route, groups, audit, errors."""
    route = result.route
    console.print(f"reading [bold]{result.reading_id}[/]: {result.samples} samples")
    console.print(
        f"route [bold]{route.route}[/]: success {share(route.success_rate)}. {escape(route.why)} {escape(route.next)}"
    )
    table(("reward", "weight", "mean", "floor", "top", "levels", "None", "errors", "ms"), (
        (r.name, number(r.weight), number(r.mean), number(r.floor_share), number(r.ceiling_share), r.distinct,
         r.ungraded, r.errors, "" if r.ms_per_sample is None else f"{r.ms_per_sample:.2f}") for r in result.rewards
    ))  # fmt: skip
    for reward in (reward for reward in result.rewards if reward.reasons):
        counts = ", ".join(f"{reason} {count}" for reason, count in reward.reasons.items())
        console.print(escape(f"{reward.name}: {counts}"))
    paragraphs("Errors", (f"{e.reward}: {e.kind}: {e.message} (row {e.row})" for e in result.errors))
    paragraphs("Notes", result.notes)
    console.print(f"{result.groups.count} prompts; groups without gradient {share(result.groups.no_gradient_share)}")
    _attacks(result.audit)
    read = f"grpo-rlvr read {result.reading_id}"
    first = "" if route.route == "grpo" else "what the route says; to read all the same: "
    console.print(f"Next: {first}{read}")


def audit(result: Audit) -> None:
    """The attacks that did not hold with what they used, the others by name, and what to do."""
    _attacks(result)
    held = [attack.attack for attack in result.attacks if attack.outcome == "held"]
    if held:
        indented(f"held: {', '.join(held)}", mark="")
    idle: dict[str, list[str]] = {}
    for attack in result.attacks:
        if attack.outcome == "not_applicable":
            idle.setdefault(attack.why, []).append(attack.attack)
    for why, names in idle.items():
        indented(escape(f"not tried, {why}: {', '.join(names)}"), mark="")
    score_it = "grpo-rlvr score with the same samples and rewards"
    said = f"{score_it}, then read" if result.verdict == "held" else "mend the reward and audit it again"
    console.print(f"Next: {said}")


def _attacks(result: Audit) -> None:
    bad = [attack for attack in result.attacks if attack.outcome not in FINE]
    tried = sum(attack.outcome != "not_applicable" for attack in result.attacks)
    if result.verdict == "not_run" or not tried:
        why = result.note if result.verdict == "not_run" else "no attack applies to these samples."
        console.print(f"audit [bold]not run[/]: {escape(why)}")
        return
    said = "held" if result.verdict == "held" else f"found {result.verdict}"
    minor = ", none of them serious" if bad and result.verdict == "held" else ""
    console.print(f"audit [bold]{said}[/]: {len(bad)} of {tried} attacks that apply did not hold{minor}")
    for attack in bad:
        _attack(attack)
    console.print(escape(result.note))


def _attack(attack: Attack) -> None:
    by = f" by {', '.join(attack.rewards)}" if attack.rewards else ""
    count = f"{attack.outcome} {attack.bad} of {attack.tried}{by}"
    indented(f"{coloured(attack.severity)} [bold]{attack.attack}[/]: {escape(count)}", mark="")
    indented(escape(attack.why))
    if attack.text.strip():
        indented(f"[dim]sample {attack.row}: {escape(repr(shortened(attack.text, EXCERPT)))}[/]")


def reading(result: ReadingStatus) -> None:
    """How far, agreement, gate."""
    agreed = result.agreement
    console.print(f"reading [bold]{result.reading_id}[/]: {result.state}, {result.read} of {result.rows} rows read")
    table(("", "read as correct", "read as wrong"), (
        ("rewarded", agreed.both_correct, agreed.false_positives),
        ("not rewarded", agreed.false_negatives, agreed.both_wrong),
    ))  # fmt: skip
    console.print(f"agreement {share(agreed.agreement)}")
    _disagreements(result.disagreements)
    state = "[green]open[/]" if result.gate.open else "[red]closed[/]"
    console.print(f"gate {state}")
    paragraphs("Why", (sentences(reason.message, reason.remedy) for reason in result.gate.reasons))
    paragraphs("Worth knowing", result.gate.warnings)
    console.print(f"Next: {escape(result.next)}")


def _disagreements(found: Sequence[Disagreement]) -> None:
    if found:
        console.print("[bold]Unresolved disagreements[/]")
    for one in found:
        what = "paid, but read as wrong" if one.kind == "false_positive" else "not paid, but read as correct"
        note = f" by {one.reader}" + (f": {one.note}" if one.note else "")
        indented(f"[bold]{one.row}[/] {escape(what + note)}", mark="")
        indented(f"[dim]{escape(repr(shortened(one.completion, EXCERPT)))}[/]")
        if one.cause:
            indented(escape(one.cause))


def readings(result: ReadingList) -> None:
    """One line a reading, newest first."""
    table(("reading", "scored (UTC)", "samples", "read", "gate"), (
        (r.reading_id, r.created[:16].replace("T", " "), "" if r.samples is None else r.samples,
         "" if r.rows is None else f"{r.read}/{r.rows}", "open" if r.open else f"closed: {r.why}")
        for r in result.readings
    ))  # fmt: skip
    if not result.readings:
        console.print("There are no readings here.\nNext: grpo-rlvr score --samples FILE --reward SPEC")
        return
    console.print("Next: grpo-rlvr read latest (or an id)")
