"""The readings of a workspace."""

from datetime import UTC, datetime

from grpo_rlvr.errors import NotFoundError, UserError
from grpo_rlvr.inspection.policy import policy_in_force
from grpo_rlvr.inspection.reading import reading_status
from grpo_rlvr.inspection.rows import Reading
from grpo_rlvr.models.reading import ReadingList, ReadingSummary
from grpo_rlvr.workspace import Workspace


def reading_ids(workspace: Workspace) -> list[str]:
    """Return the ids of all readings, newest first."""
    # Written once, as the last file of a scoring; verdicts leave it alone.
    files = {path: path.stat().st_mtime_ns for path in workspace.readings.glob("*/reading.json")}
    return [path.parent.name for path in sorted(files, key=lambda path: files[path], reverse=True)]


def newest_reading(workspace: Workspace) -> str:
    """Return the id of the reading that was scored last.

    Raises:
        NotFoundError: there is none.
    """
    found = reading_ids(workspace)
    if not found:
        raise NotFoundError("there are no readings", where=str(workspace.root), remedy="Score samples first.")
    return found[0]


def list_readings(workspace: Workspace) -> ReadingList:
    """Return every reading with how far it is and whether its gate is open; one that was edited is listed as such.

    Raises:
        InputError: the settings file cannot be used.
    """
    policy_in_force(workspace)
    return ReadingList(readings=[_summary(workspace, reading_id) for reading_id in reading_ids(workspace)])


def _summary(workspace: Workspace, reading_id: str) -> ReadingSummary:
    try:
        sealed = Reading.open(workspace, reading_id).sealed
        status = reading_status(reading_id, workspace)
    except UserError as error:
        when = (workspace.readings / reading_id / "reading.json").stat().st_mtime
        created = datetime.fromtimestamp(when, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return ReadingSummary(reading_id=reading_id, created=created, open=False, why=error.message)
    return ReadingSummary(
        reading_id=reading_id,
        created=sealed["created"],
        samples=sealed["samples"]["count"],
        rows=status.rows,
        read=status.read,
        open=status.gate.open,
        why="; ".join(reason.message for reason in status.gate.reasons),
    )
