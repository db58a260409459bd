"""What a report shows of a reading: the stored scores, and every row with its score and the verdict on it."""

from typing import Any

from grpo_rlvr.inspection.rows import Reading, Row
from grpo_rlvr.inspection.store import ReadingStore
from grpo_rlvr.inspection.verdicts import Reader, fold
from grpo_rlvr.models.score import ScoreResult
from grpo_rlvr.workspace import Workspace


def score_result(reading_id: str, workspace: Workspace) -> ScoreResult:
    """Return the stored answer of score_samples.

    Raises:
        InputError, NotFoundError: no such reading. EditedError: its file is missing or damaged.
    """
    return ScoreResult.model_validate(ReadingStore.open(workspace, reading_id).scores()["result"])


def read_rows(reading_id: str, workspace: Workspace) -> list[dict[str, Any]]:
    """Return the rows that have a verdict: row, source, prompt, completion, scores, total, rewarded, verdict, note.

    Where several people read a row, the first reader's standing verdict is given.

    Raises:
        InputError, NotFoundError: no such reading. EditedError: its record was changed.
    """
    reading = Reading.open(workspace, reading_id)
    readers = list(fold(reading.store.events()).values())
    found = []
    for row in reading.rows:
        reader = next((reader for reader in readers if reader.final(row.row)), None)
        if reader is not None:
            found.append(_shown(row, reader))
    return found


def _shown(row: Row, reader: Reader) -> dict[str, Any]:
    return {
        "row": row.row,
        "source": row.source,
        "prompt": row.prompt,
        "completion": row.completion,
        "scores": dict(row.scores),
        "total": row.total,
        "rewarded": row.rewarded,
        "verdict": reader.final(row.row),
        "note": reader.looks[row.row][-1].get("note", ""),
    }
