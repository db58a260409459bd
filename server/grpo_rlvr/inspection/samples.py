"""Samples: reading them from JSON lines, their groups, and the columns that reach the rewards."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from grpo_rlvr.errors import InputError
from grpo_rlvr.inspection.scoring import Batch, as_text
from grpo_rlvr.models.score import SAMPLE_KEYS, Sample
from grpo_rlvr.workspace import Workspace

MAX_SAMPLES = 20_000
# Keyword arguments that TRL itself passes: a dataset column of that name would collide with them.
RESERVED = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")
# Without token ids in the samples one id stands for this many characters: a plausible length for length rewards.
CHARACTERS_A_TOKEN = 4


class Samples:
    """Checked samples in file order.

    `rows` are the samples as plain objects; `groups` gives each row's group id.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str] | None = None) -> None:
        self.rows = [dict(row) for row in rows]
        self.renamed = dict(columns or {})
        self.names = self._column_names()
        self.groups = self._group_ids()

    @property
    def digest(self) -> str:
        """SHA-256 over the samples, independent of key order and white space."""
        text = json.dumps(self.rows, sort_keys=True, ensure_ascii=False)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def has_ids(self) -> bool:
        """Whether every sample carries its token ids."""
        return all(row.get("completion_ids") for row in self.rows)

    def columns(self, row: int) -> dict[str, Any]:
        """Return the dataset columns of a row under the names that the rewards see."""
        return {self.renamed.get(name, name): self.rows[row].get(name) for name in self.names}

    def prompt_text(self, row: int) -> str:
        """Return a row's prompt as text."""
        return as_text(self.rows[row]["prompt"])

    def completion_text(self, row: int) -> str:
        """Return a row's completion as text."""
        return as_text(self.rows[row]["completion"])

    def batch(self, rows: Sequence[int] | None = None) -> Batch:
        """Return a reward call's arguments for some rows, all by default."""
        picked = list(range(len(self.rows))) if rows is None else list(rows)
        return self.batch_of([(row, self.rows[row]["completion"]) for row in picked], ids=True)

    def batch_of(self, pairs: Sequence[tuple[int, Any]], *, ids: bool = False) -> Batch:
        """Return a reward call's arguments for completions put in the place of a row's own.

        Args:
            pairs: Row index and completion.
            ids: Whether the rows' own token ids belong to the completions.
        """
        visible = [self.renamed.get(name, name) for name in self.names]
        filled = [self.columns(row) for row, _ in pairs]
        return Batch(
            prompts=[self.rows[row]["prompt"] for row, _ in pairs],
            completions=[completion for _, completion in pairs],
            completion_ids=[
                (ids and self.rows[row].get("completion_ids")) or _stand_in_ids(completion) for row, completion in pairs
            ],
            columns={name: [columns[name] for columns in filled] for name in visible},
        )

    def _column_names(self) -> list[str]:
        names: dict[str, None] = {}
        for row in self.rows:
            names.update(dict.fromkeys(key for key in row if key not in SAMPLE_KEYS))
        missing = sorted(set(self.renamed) - set(names))
        if missing:
            raise InputError(
                f"no such column: {', '.join(missing)}",
                where="argument 'columns'",
                remedy=f"The samples have: {', '.join(names) or 'no columns'}.",
            )
        visible = [self.renamed.get(name, name) for name in names]
        taken = sorted({name for name in visible if visible.count(name) > 1 or name in RESERVED})
        if taken:
            raise InputError(
                f"column name {', '.join(taken)} is used twice or reserved by TRL",
                where="argument 'columns'",
                remedy="Rename the column.",
            )
        return list(names)

    def _group_ids(self) -> list[str]:
        if any(row.get("group") is not None for row in self.rows):
            return [
                str(row["group"]) if row.get("group") is not None else f"row {i}" for i, row in enumerate(self.rows)
            ]
        seen: dict[str, str] = {}
        # The same prompt with other reference values is another task.
        keys = [
            json.dumps([row["prompt"], [row.get(name) for name in self.names]], sort_keys=True) for row in self.rows
        ]
        return [seen.setdefault(key, str(len(seen))) for key in keys]


def _stand_in_ids(completion: Any) -> list[int]:
    return list(range(-(-len(as_text(completion)) // CHARACTERS_A_TOKEN)))


def load_samples(
    source: Sequence[Mapping[str, Any]] | str | Path, workspace: Workspace, columns: Mapping[str, str] | None = None
) -> Samples:
    """Read and check samples from a list of objects or from a JSON lines file.

    Raises:
        InputError: no samples, too many, a line that is not a sample, or a column mapping that does not fit.
        NotFoundError: no such file.
    """
    if isinstance(source, str | Path):
        rows = _read_lines(workspace.read_text(source, "path"), str(source))
    else:
        rows = [(f"samples[{index}]", row) for index, row in enumerate(source)]
    if not rows:
        raise InputError("there are no samples", where="argument 'samples'", remedy="Give at least one sample.")
    if len(rows) > MAX_SAMPLES:
        raise InputError(
            f"{len(rows):,} samples, the limit is {MAX_SAMPLES:,}",
            where="argument 'samples'",
            remedy="A reading needs 50 to 100; score a part of them.",
        )
    checked = [_check(where, row) for where, row in rows]
    kinds = {type(row["completion"]) for row in checked}
    if len(kinds) > 1:
        raise InputError(
            "some completions are text and others are chat messages",
            where="argument 'samples'",
            remedy="A training run has one of the two: sample again, or convert the file.",
        )
    return Samples(checked, columns)


def _read_lines(text: str, name: str) -> list[tuple[str, Any]]:
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append((f"{name} line {number}", json.loads(line, parse_constant=_no_constant)))
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"not JSON: {error}", where=f"{name} line {number}", remedy="A samples file holds one object a line."
            ) from None
    return rows


def _no_constant(value: str) -> float:
    raise ValueError(f"{value} is not JSON")


def _check(where: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise InputError(f"a sample must be an object, got {type(row).__name__}", where=where)
    try:
        Sample.model_validate(row)
        json.dumps(row, allow_nan=False)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "sample"
        raise InputError(
            f"'{field}': {first['msg'].lower()}",
            where=where,
            remedy="A sample has 'prompt' and 'completion' (text or messages) and any dataset columns.",
        ) from None
    except (TypeError, ValueError) as error:
        raise InputError(f"not plain JSON: {error}", where=where) from None
    if isinstance(row["completion"], list) and not row["completion"]:
        raise InputError("'completion' is an empty list of messages", where=where, remedy="Give one message at least.")
    return dict(row)
