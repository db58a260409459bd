"""The rows of a reading, joined from its sealed description and its samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.inspection.samples import Samples
from grpo_rlvr.inspection.scoring import as_text
from grpo_rlvr.inspection.store import EditedError, ReadingStore
from grpo_rlvr.models.reading import GatePolicy
from grpo_rlvr.workspace import Workspace


@dataclass(frozen=True)
class Row:
    """One row to read, with what the reward said about it (shown only after the verdict)."""

    row: str
    sample: int
    source: str
    prompt: str
    completion: str
    columns: Mapping[str, Any]
    scores: Mapping[str, float | None]
    total: float | None
    rewarded: bool | None

    @property
    def sampled(self) -> bool:
        """Whether the model wrote the completion; otherwise the audit did."""
        return self.source == "sample"


@dataclass(frozen=True)
class Reading:
    """An intact reading: its store, sealed description and rows."""

    store: ReadingStore
    sealed: Mapping[str, Any]
    samples: Samples
    rows: tuple[Row, ...]

    @classmethod
    def open(cls, workspace: Workspace, reading_id: str) -> "Reading":
        """Return a reading.

        Raises:
            InputError, NotFoundError: the id names none. EditedError: a file of it was changed.
        """
        store = ReadingStore.open(workspace, reading_id)
        sealed = store.reading()
        samples = Samples(store.samples(), sealed["columns"])
        if samples.digest != sealed["samples"]["digest"]:
            raise EditedError(
                "the stored samples were edited after they were scored",
                where=f"{reading_id}/samples.jsonl",
                remedy="Restore the file, or score and read again.",
                change="samples",
            )
        return cls(store, sealed, samples, tuple(_row(entry, samples, sealed["names"]) for entry in sealed["rows"]))

    @property
    def ids(self) -> set[str]:
        """Ids of all rows."""
        return {row.row for row in self.rows}

    @property
    def policy(self) -> GatePolicy:
        """The policy under which the samples were scored."""
        return GatePolicy.model_validate(self.sealed["policy"])


def _row(entry: Mapping[str, Any], samples: Samples, names: list[str]) -> Row:
    sample = entry["sample"]
    completion = samples.rows[sample]["completion"] if entry["completion"] is None else entry["completion"]
    return Row(
        row=entry["row"],
        sample=sample,
        source=entry["source"],
        prompt=samples.prompt_text(sample),
        completion=as_text(completion),
        columns=samples.columns(sample),
        scores=dict(zip(names, entry["scores"], strict=True)),
        total=entry["total"],
        rewarded=entry["rewarded"],
    )
