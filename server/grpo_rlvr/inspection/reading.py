"""Starting a reading and telling how far it is."""

import shlex
from collections.abc import Sequence

from grpo_rlvr.inspection import agreement as agree
from grpo_rlvr.inspection.gate import check_gate
from grpo_rlvr.inspection.policy import policy_in_force
from grpo_rlvr.inspection.rows import Reading
from grpo_rlvr.inspection.verdicts import Reader, fold, refusals
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.reading import Channel, GateState, ReadingStarted, ReadingStatus
from grpo_rlvr.workspace import Workspace

LISTED = 20


def start_reading(reading_id: str, workspace: Workspace, channel: Channel = "page") -> ReadingStarted:
    """Open a reading on a channel. The page is served on loopback by a thread of this process.

    Raises:
        InputError, NotFoundError: no such reading, or settings that cannot be used. EditedError: its record was
            changed.
    """
    reading = Reading.open(workspace, reading_id)
    policy_in_force(workspace)
    readers = list(fold(reading.store.events()).values())
    url = None
    if channel == "page":
        from grpo_rlvr.inspection.page import shared_page

        url = shared_page(reading_id, workspace).new_url()
    command = f"grpo-rlvr read {reading_id} --terminal --root {shlex.quote(str(workspace.root))}"
    says = {
        "page": "A person opens the address in a browser on this machine and reads; then ask for reading_status.",
        "terminal": "A person runs the command in a terminal and reads; then ask for reading_status.",
        "elicitation": "The client shows the rows as forms to the person.",
        "app": "The host shows the reading page to the person.",
    }
    return ReadingStarted(
        reading_id=reading_id,
        channel=channel,
        rows=len(reading.rows),
        read=len(_read(readers)),
        url=url,
        command=command,
        next=says[channel],
    )


def reading_status(reading_id: str, workspace: Workspace) -> ReadingStatus:
    """Return how far a reading is, what it says, and whether the gate is open for the rewards that were scored.

    Raises:
        InputError, NotFoundError: no such reading. EditedError: its record was changed.
    """
    reading = Reading.open(workspace, reading_id)
    policy = policy_in_force(workspace)
    events = reading.store.events()
    readers = list(fold(events).values())
    counting = [reader for reader in readers if reader.looks and not reader.why_not(policy)]
    audit = reading.store.scores()["result"]["audit"]
    read = len(_read(readers))
    gate = check_gate(workspace, reading_id, scored_rewards(reading))
    shown = counting or [reader for reader in readers if reader.looks]
    return ReadingStatus(
        reading_id=reading_id,
        state="not_started" if not read else "read" if read >= len(reading.rows) else "in_progress",
        rows=len(reading.rows),
        read=read,
        decided=agree.decided(reading, counting),
        readers=[reader.summary(policy) for reader in readers],
        refusals=len(refusals(events)),
        agreement=agree.agreement(reading, shown),
        histograms=agree.histograms(reading, shown),
        disagreements=agree.disagreements(reading, shown, audit)[:LISTED],
        resolved=agree.resolved(reading, shown),
        gate=gate,
        next=_next(gate),
    )


def scored_rewards(reading: Reading) -> list[RewardSpec]:
    """Return the reward specs that a reading was scored with."""
    return [RewardSpec.model_validate(spec) for spec in reading.sealed["reward"]["specs"]]


def _read(readers: Sequence[Reader]) -> set[str]:
    return {row for reader in readers for row in reader.looks}


def _next(gate: GateState) -> str:
    if gate.open:
        return "The gate is open: launch_training with these rewards and this reading_id."
    return gate.reasons[0].remedy
