"""The gate: whether a run may start on a reading."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_rlvr.errors import InputError, UserError
from grpo_rlvr.inspection import agreement as agree
from grpo_rlvr.inspection import summary
from grpo_rlvr.inspection.causes import FOUND
from grpo_rlvr.inspection.policy import loosened, policy_in_force
from grpo_rlvr.inspection.rows import Reading
from grpo_rlvr.inspection.samples import load_samples
from grpo_rlvr.inspection.store import EditedError
from grpo_rlvr.inspection.verdicts import Reader, fold
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.reading import Change, Disagreement, GatePolicy, GateReason, GateRecord, GateState
from grpo_rlvr.models.score import Route
from grpo_rlvr.workspace import Workspace
from rlvr_rewards import spec as reward_spec

AGAIN = "Run score_samples with the rewards and samples as they are now, and read again."


def reward_digest(rewards: Sequence[RewardSpec], workspace: Workspace) -> dict[str, Any]:
    """Return what the rewards are made of, with one digest over it.

    Raises:
        InputError: a spec is malformed, or its file is missing, does not parse, or lies outside a confined workspace.
    """
    specs = [entry.model_dump() for entry in rewards]
    try:
        found = reward_spec.digest(specs, workspace.root)
    except ValueError as error:
        raise InputError(str(error), where="argument 'rewards'") from None
    for name in found["files"]:
        workspace.resolve(name, "rewards")
    return found


def check_gate(workspace: Workspace, reading_id: str, rewards: Sequence[RewardSpec]) -> GateState:
    """Return whether a run with these rewards may start on this reading, and if not, every reason why.

    Raises:
        InputError: not an id, or a spec or the policy file that cannot be used. NotFoundError: no such reading.
    """
    policy = policy_in_force(workspace)
    try:
        reading = Reading.open(workspace, reading_id)
        events = reading.store.events()
        stored = reading.store.scores()
    except EditedError as error:
        change: Change = error.change
        reason = GateReason(code="record_edited", message=error.message, remedy=error.remedy)
        return GateState(open=False, reading_id=reading_id, reasons=[reason], policy=policy, changed=[change])
    readers = list(fold(events).values())
    admitted = [reader for reader in readers if reader.looks and not reader.why_not(policy)]
    reasons, changed = _stale(reading, rewards, workspace)
    reasons += _policy_reasons(reading, policy, changed)
    reasons += _scoring_reasons(stored, policy)
    reasons += _reading_reasons(reading, readers, admitted, policy, stored["result"]["audit"])
    return GateState(
        open=not reasons,
        reading_id=reading_id,
        reasons=reasons,
        warnings=_warnings(reading, admitted, stored),
        policy=policy,
        changed=list(dict.fromkeys(changed)),
        record=_record(reading, events, readers, admitted, policy),
        route=Route.model_validate(stored["result"]["route"]),
    )


def _stale(
    reading: Reading, rewards: Sequence[RewardSpec], workspace: Workspace
) -> tuple[list[GateReason], list[Change]]:
    then = reading.sealed["reward"]
    found: list[tuple[Change, str]] = []
    try:
        now = reward_digest(rewards, workspace)
    except InputError as error:
        # A reading outlives its reward file: its state can still be asked for.
        found.append(("reward", f"the rewards cannot be read any more ({error.message})"))
    else:
        found += _reward_changes(then, now) if now["digest"] != then["digest"] else []
    source = reading.sealed["samples"]["source"]
    if source:
        found += _source_changes(reading, source, workspace)
    reasons = [GateReason(code=f"{change}_changed", message=message, remedy=AGAIN) for change, message in found]
    return reasons, [change for change, _ in found]


def _reward_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[Change, str]]:
    found: list[tuple[Change, str]] = []
    for name in sorted({*then["files"], *now["files"]}):
        old, new = then["files"].get(name), now["files"].get(name)
        if old != new:
            word = "was added" if old is None else "is no longer used" if new is None else "was edited"
            found.append(("reward", f"{name} {word} since the reading"))
    if then["library"] != now["library"]:
        found.append(("reward", "the reward library is not the one that was read (another version or edited)"))
    names = [[entry["reward"] for entry in part["specs"]] for part in (then, now)]
    if names[0] != names[1]:
        found.append(("reward", f"the rewards were {', '.join(names[0])} and are now {', '.join(names[1])}"))
    else:
        for old, new in zip(then["specs"], now["specs"], strict=True):
            if old["args"] != new["args"]:
                text = f"the arguments of {old['reward']} were {old['args']} and are {new['args']}"
                found.append(("arguments", text))
            if old["weight"] != new["weight"]:
                found.append(("weights", f"the weight of {old['reward']} was {old['weight']} and is {new['weight']}"))
    return found or [("reward", "the rewards are not the ones that were read")]


def _source_changes(reading: Reading, source: str, workspace: Workspace) -> list[tuple[Change, str]]:
    path = workspace.root / source
    if not path.is_file():
        return []
    try:
        same = load_samples(path, workspace).digest == reading.sealed["samples"]["digest"]
    except UserError:
        same = False
    return [] if same else [("samples", f"{source} was edited since the reading")]


def _policy_reasons(reading: Reading, policy: GatePolicy, changed: list[Change]) -> list[GateReason]:
    looser = loosened(policy, reading.policy)
    if not looser:
        return []
    changed.append("policy")
    return [
        GateReason(
            code="policy_loosened",
            message=f"the policy was loosened after the scoring: {'; '.join(looser)}",
            remedy="A record holds only under the policy it was made with, or a stricter one: score and read again.",
        )
    ]


def _scoring_reasons(stored: Mapping[str, Any], policy: GatePolicy) -> list[GateReason]:
    result = stored["result"]
    reasons = []
    if result["errors"]:
        first = result["errors"][0]
        row = "" if first["row"] is None else f" on sample {first['row']}"
        reasons.append(
            GateReason(
                code="reward_broken",
                message=f"{first['reward']} {first['message']}{row} ({len(result['errors'])} errors in all)",
                remedy="A run would stop or train on noise: mend the reward and score again.",
            )
        )
    failed = [a["attack"] for a in result["audit"]["attacks"] if a["severity"] == "error" and a["outcome"] != "held"]
    failed = [name for name in failed if name not in _not_applicable(result["audit"])]
    if failed and policy.audit == "must_hold":
        reasons.append(
            GateReason(
                code="audit_failed",
                message=f"the reward does not hold against: {', '.join(failed)}",
                remedy="The policy says audit = 'must_hold': mend the reward and score again.",
            )
        )
    return reasons


def _not_applicable(audit: Mapping[str, Any]) -> set[str]:
    return {attack["attack"] for attack in audit["attacks"] if attack["outcome"] == "not_applicable"}


def _reading_reasons(
    reading: Reading,
    readers: Sequence[Reader],
    admitted: Sequence[Reader],
    policy: GatePolicy,
    audit: Mapping[str, Any],
) -> list[GateReason]:
    reasons = [
        GateReason(
            code="reader_not_admitted",
            message=f"{reader.name}: {why}",
            remedy="Only a reading that the policy admits counts: let a person read, at the pace of reading.",
        )
        for reader in readers
        if reader.looks and (why := reader.why_not(policy))
    ]
    # A reader who does not count closes nothing as long as others who count read enough.
    count = agree.decided(reading, admitted)
    if count >= policy.rows:
        reasons = []
    else:
        reasons.append(_too_few(reading, readers, admitted, policy))
    return reasons + _disagreement_reasons(reading, admitted, policy, audit)


def _too_few(reading: Reading, readers: Sequence[Reader], admitted: Sequence[Reader], policy: GatePolicy) -> GateReason:
    available = sum(row.sampled for row in reading.rows)
    count = agree.decided(reading, admitted)
    command = f"grpo-rlvr read {reading.store.reading_id}"
    # Whoever began may go on; a reader of a kind that never counts began nothing.
    begun = any(reader.looks for reader in readers if reader.kind in policy.readers)
    remedy = f"{'Go on with' if begun else 'Start'} the reading: {command}"
    ungraded = sum(row.sampled and row.rewarded is None for row in reading.rows)
    if ungraded > available - policy.rows:
        remedy = (
            f"The reward gave no score for {_rows(ungraded)}, on which no verdict can count: mend it where it breaks "
            "or returns None, and score again."
        )
    elif {row for reader in admitted for row in reader.looks} >= reading.ids:
        remedy = f"Look again at the rows that nobody could tell ({command}), or sample more, score and read them."
    if available < policy.rows:
        remedy = f"There are only {available} rows to read: sample more completions, score them, and read."
    return GateReason(
        code="not_read" if count == 0 else "too_few_rows",
        message=f"{count} of {policy.rows} rows have a verdict of correct or wrong by a reader who counts",
        remedy=remedy,
    )


def _disagreement_reasons(
    reading: Reading, admitted: Sequence[Reader], policy: GatePolicy, audit: Mapping[str, Any]
) -> list[GateReason]:
    standing = agree.disagreements(reading, admitted, audit)
    if policy.agreement < 1:
        figure = agree.agreement(reading, admitted).agreement
        if figure is None or figure.value >= policy.agreement:
            return []
    if not standing:
        return []
    paid = sum(entry.kind == "false_positive" for entry in standing)
    causes = _causes(standing)
    return [
        GateReason(
            code="unresolved_disagreement",
            message=f"reward and reader disagree on {_rows(len(standing))}: {paid} paid but wrong, "
            f"{len(standing) - paid} right but not paid",
            remedy=f"Mend the reward, score and read again{causes}. "
            "If it was a slip, take the verdict back on a second look.",
        )
    ]


def _causes(standing: Sequence[Disagreement]) -> str:
    """Return the most frequent cause of the paid ones and that of the unpaid ones."""
    found = {}
    for kind, words in (("false_positive", "paid"), ("false_negative", "not paid")):
        # Rows that the audit made have its attack for a cause, and are named where no sample has one.
        entries = sorted((e for e in standing if e.kind == kind and e.cause), key=lambda e: e.source != "sample")
        told = [entry.cause.removeprefix(FOUND) for entry in entries if entry.source == entries[0].source]
        if told:
            found[Counter(told).most_common(1)[0][0]] = words
    if len(found) < 2:
        return "".join(f" (the likely cause: {cause})" for cause in found)
    return f" (the likely causes: {'; '.join(f'of those {words}, {cause}' for cause, words in found.items())})"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _warnings(reading: Reading, admitted: Sequence[Reader], stored: Mapping[str, Any]) -> list[str]:
    found = []
    for attack in stored["result"]["audit"]["attacks"]:
        if attack["outcome"] in ("paid", "lost", "changed", "failed") and attack["severity"] != "info":
            found.append(f"audit, {attack['attack']}: {attack['why']}")
    found += [note for note in stored["result"]["notes"] if note.startswith(summary.OVERLAP)]
    for reader in admitted:
        words = {reader.final(row) for row in reader.looks}
        if len(words) == 1 and len(reader.looks) > 1:
            found.append(f"every verdict of {reader.name} is '{words.pop()}'")
    differing = sum(len(verdicts) > 1 for verdicts in _verdicts_by_row(reading, admitted).values())
    if differing:
        found.append(f"readers judge {_rows(differing)} differently: agree first on what deserves the reward")
    ungraded = sum(row.rewarded is None for row in reading.rows)
    if ungraded:
        found.append(f"no score for {_rows(ungraded)}, so nothing could agree or disagree on them")
    if repeats := reading.sealed["near_duplicates"]:
        found.append(f"{_rows(repeats)} nearly repeat others: sample more prompts for a reading that sees more")
    if reading.sealed["samples"]["source"] is None:
        found.append("the samples came without a file: the record is bound to the stored copy alone")
    return found


def _verdicts_by_row(reading: Reading, readers: Sequence[Reader]) -> dict[str, set[bool]]:
    found: dict[str, set[bool]] = {}
    for reader in readers:
        for row, said in agree.judged(reading.rows, reader):
            found.setdefault(row.row, set()).add(said)
    return found


def _record(
    reading: Reading,
    events: Sequence[Mapping[str, Any]],
    readers: Sequence[Reader],
    admitted: Sequence[Reader],
    policy: GatePolicy,
) -> GateRecord:
    verdicts = [event for event in events if event["event"] == "verdict"]
    return GateRecord(
        reading_id=reading.store.reading_id,
        created=reading.sealed["created"],
        finished=verdicts[-1]["at"] if verdicts else None,
        reward_digest=reading.sealed["reward"]["digest"],
        samples_digest=reading.sealed["samples"]["digest"],
        record_mac=events[-1]["mac"] if events else reading.sealed["mac"],
        readers=[reader.summary(policy) for reader in readers],
        decided=agree.decided(reading, admitted),
        agreement=agree.agreement(reading, admitted),
        second_looks=sum(event["look"] > 1 for event in verdicts),
    )
