"""A reading on disk: what was scored, what is to be read, and the journal of verdicts.

readings/<id>/reading.json    specs, digests, policy, the rows to read with their scores; sealed
              samples.jsonl   the samples as they were scored
              scores.json     the answer of score_samples, and the scores of every sample
              verdicts.jsonl  one line an event, each sealed together with the seal before it
              verdicts.json   number of lines and last seal, so that removed lines are noticed
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError, NotFoundError, RefusedError, nearest
from grpo_rlvr.files import write_atomic, write_json
from grpo_rlvr.inspection import seal
from grpo_rlvr.models.reading import Change
from grpo_rlvr.workspace import Workspace

ID = re.compile(r"[a-z0-9][a-z0-9-]{2,60}\Z")
FORMAT = 1
Event = dict[str, Any]


class EditedError(RefusedError):
    """A record that was changed by something other than us; `change` says which part."""

    def __init__(self, message: str, *, where: str, remedy: str, change: Change = "record") -> None:
        super().__init__(message, where=where, remedy=remedy)
        self.change: Change = change


def now() -> str:
    """Return the time in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ReadingStore:
    """The folder of one reading; it alone knows the file names."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.reading_id = folder, folder.name
        self.reading_file = folder / "reading.json"
        self.samples_file = folder / "samples.jsonl"
        self.scores_file = folder / "scores.json"
        self.journal_file = folder / "verdicts.jsonl"
        self.head_file = folder / "verdicts.json"

    @classmethod
    def create(cls, workspace: Workspace) -> "ReadingStore":
        """Make the folder of a new reading under a random id."""
        stamp = datetime.now(UTC).strftime("%Y%m%d")
        folder = workspace.readings / f"r-{stamp}-{secrets.token_hex(4)}"
        folder.mkdir(parents=True)
        return cls(folder)

    @classmethod
    def open(cls, workspace: Workspace, reading_id: str) -> "ReadingStore":
        """Return the store of an existing reading.

        Raises:
            InputError: not the form of an id. NotFoundError: no such reading.
        """
        if not isinstance(reading_id, str) or not ID.match(reading_id):
            raise InputError(
                f"not a reading id: {str(reading_id)[:80]!r}",
                where="argument 'reading_id'",
                remedy="Take it from the answer of score_samples, or from `grpo-rlvr read`.",
            )
        folder = workspace.readings / reading_id
        if not (folder / "reading.json").is_file():
            known = [path.name for path in workspace.readings.glob("*") if path.is_dir()]
            raise NotFoundError(
                f"no reading '{reading_id}'{nearest(reading_id, known)}",
                where="argument 'reading_id'",
                remedy="score_samples names the id; `grpo-rlvr read` lists all.",
            )
        return cls(folder)

    def write(self, reading: Mapping[str, Any], rows: list[dict[str, Any]], scores: Mapping[str, Any]) -> None:
        """Write a scored reading; its journal is empty. The sealed file comes last: it makes the reading exist."""
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        write_atomic(self.samples_file, "\n".join(lines) + "\n")
        write_json(self.scores_file, scores)
        bound = {"key": seal.key_id(), "scores_sha256": hashlib.sha256(self.scores_file.read_bytes()).hexdigest()}
        write_atomic(self.journal_file, "")
        self._write_head(0, "")
        write_json(self.reading_file, seal.sealed({"format": FORMAT, **reading, **bound}))

    def reading(self) -> dict[str, Any]:
        """Return the sealed description.

        Raises:
            EditedError: it was edited, or sealed with another key.
        """
        value = self._json(self.reading_file)
        if value.get("key") != seal.key_id():
            raise EditedError(
                "the record was sealed with another key, on another machine or by another user",
                where=self.reading_id,
                remedy="Score and read the samples here.",
                change="key",
            )
        if not seal.intact(value):
            raise EditedError(
                "reading.json was edited after it was written",
                where=self.reading_id,
                remedy="Restore the file, or score and read again.",
            )
        if value.get("format") != FORMAT:
            raise self._edited(f"reading.json has format {value.get('format')}, this version reads {FORMAT}")
        return value

    def samples(self) -> list[dict[str, Any]]:
        """Return the stored samples.

        Raises:
            EditedError: the file is missing or not JSON lines.
        """
        try:
            text = self.samples_file.read_text(encoding="utf-8")
            # Only "\n" ends a line here: texts may hold other line separators unescaped.
            return [json.loads(line) for line in text.split("\n") if line]
        except (OSError, ValueError) as error:
            raise self._edited(f"samples.jsonl cannot be read: {error}", "samples") from None

    def scores(self) -> dict[str, Any]:
        """Return the answer of the scoring and the scores of every sample.

        Raises:
            EditedError: the file is missing or was edited.
        """
        stated = self.reading()["scores_sha256"]
        try:
            data = self.scores_file.read_bytes()
        except OSError as error:
            raise self._edited(f"scores.json cannot be read: {error}") from None
        if hashlib.sha256(data).hexdigest() != stated:
            raise self._edited("scores.json was edited after it was written")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def events(self) -> list[Event]:
        """Return the journal.

        Raises:
            EditedError: a line was edited, removed, added or moved.
        """
        with self._lock():
            return self._read_events()

    @contextlib.contextmanager
    def appending(self) -> Iterator[tuple[list[Event], list[Event]]]:
        """Lock the journal; give its events and a list whose entries are appended on leaving, all or none."""
        with self._lock():
            events = self._read_events()
            fresh: list[Event] = []
            yield events, fresh
            if fresh:
                self._append(events, fresh)

    def _append(self, events: list[Event], fresh: list[Event]) -> None:
        last = events[-1][seal.MAC] if events else self.reading_id
        lines = []
        for number, event in enumerate(fresh, len(events) + 1):
            entry = seal.sealed({"n": number, **event, "after": last})
            last = entry[seal.MAC]
            lines.append(json.dumps(entry, ensure_ascii=False) + "\n")
        with self.journal_file.open("ab") as file:
            file.write("".join(lines).encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        self._write_head(len(events) + len(fresh), last)

    def _read_events(self) -> list[Event]:
        head = self._json(self.head_file)
        if not seal.intact(head):
            raise self._edited("verdicts.json was edited", "verdicts")
        try:
            data = self.journal_file.read_bytes()
        except OSError:
            raise self._edited("verdicts.jsonl is missing", "verdicts") from None
        whole, _, torn = data.rpartition(b"\n")
        events = self._parse(whole)
        if len(events) < head["lines"]:
            raise self._edited(f"{head['lines'] - len(events)} lines of verdicts.jsonl were removed", "verdicts")
        if head["lines"] and events[head["lines"] - 1][seal.MAC] != head["last"]:
            raise self._edited("verdicts.jsonl is not the journal that was written", "verdicts")
        if torn:
            # The writer was killed in the middle of a line: nothing had been acknowledged, so the part is dropped.
            with self.journal_file.open("r+b") as file:
                file.truncate(len(whole) + 1 if whole else 0)
        if len(events) > head["lines"]:
            self._write_head(len(events), events[-1][seal.MAC])
        return events

    def _parse(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        last = self.reading_id
        event: Event = {}
        for number, line in enumerate(data.split(b"\n") if data else [], 1):
            try:
                event = json.loads(line)
                sound = event["n"] == number and event["after"] == last and seal.intact(event)
            except (ValueError, KeyError, TypeError):
                sound = False
            if not sound:
                raise self._edited(f"line {number} of verdicts.jsonl was edited, added or moved", "verdicts")
            last = event[seal.MAC]
            events.append(event)
        return events

    def _write_head(self, lines: int, last: str) -> None:
        write_json(self.head_file, seal.sealed({"reading_id": self.reading_id, "lines": lines, "last": last}))

    def _edited(self, what: str, change: Change = "record") -> EditedError:
        remedy = "Restore the file from a backup, or score and read again."
        return EditedError(what, where=self.reading_id, remedy=remedy, change=change)

    def _json(self, path: Path) -> dict[str, Any]:
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise self._edited(f"{path.name} cannot be read: {error}") from None
        if not isinstance(value, dict):
            raise self._edited(f"{path.name} holds no object")
        return value

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        # A lock of the open file, so that threads of one process exclude each other too.
        with (self.folder / ".lock").open("a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
