"""What the reading page asks for, independent of how the question travels (HTTP on loopback, or an MCP Apps host)."""

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.errors import InputError, NotFoundError
from grpo_rlvr.inspection.policy import policy_in_force
from grpo_rlvr.inspection.reading import reading_status
from grpo_rlvr.inspection.rows import Reading, Row
from grpo_rlvr.inspection.verdicts import Given, enter_reader, fold, record
from grpo_rlvr.models.reading import Channel
from grpo_rlvr.workspace import Workspace

MAX_SESSIONS = 50


@dataclass
class Session:
    """One opened page: who reads on it, and when it last showed or delivered something."""

    key: str
    client: str
    reader: str | None = None
    since: float = field(default_factory=time.monotonic)


class PageApi:
    """Answers the page of one reading. Tickets open sessions, each once; sessions live as long as this object."""

    def __init__(self, reading_id: str, workspace: Workspace, channel: Channel) -> None:
        self.workspace = workspace
        self.channel: Channel = channel
        self.suggested_name = ""
        self.done = threading.Event()
        self.reading = Reading.open(workspace, reading_id)
        # Settings that cannot be used would fail the last row as well: better before the first.
        policy_in_force(workspace)
        self._numbers = {row.row: number for number, row in enumerate(self.reading.rows, 1)}
        self._tickets: set[str] = set()
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()

    def new_ticket(self) -> str:
        """Return a secret that opens one session."""
        ticket = secrets.token_urlsafe(24)
        with self._lock:
            self._tickets.add(ticket)
        return ticket

    def open_session(self, ticket: str, client: str) -> str | None:
        """Return the key of a new session, or None when the ticket is unknown or used."""
        with self._lock:
            if ticket not in self._tickets or len(self._sessions) >= MAX_SESSIONS:
                return None
            self._tickets.remove(ticket)
            key = secrets.token_urlsafe(24)
            self._sessions[key] = Session(key, client[:120])
            return key

    def session(self, key: str | None) -> Session | None:
        """Return an open session."""
        with self._lock:
            return self._sessions.get(key or "")

    def answer(self, session: Session, action: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an action of the page asks for.

        Raises:
            InputError: an unknown action, or a payload that does not fit it.
        """
        match action:
            case "state":
                return self._state(session)
            case "reader":
                return self._enter(session, payload)
            case "row":
                return self._row(session, payload)
            case "verdict":
                return self._verdict(session, payload)
            case "done":
                self.done.set()
                return {"ok": True}
            case "status":
                return reading_status(self.reading.store.reading_id, self.workspace).model_dump(mode="json")
        raise InputError(f"unknown action '{action[:40]}'", where="page", remedy="Reload the page.")

    def _state(self, session: Session) -> dict[str, Any]:
        looks = self._looks(session)
        readers = fold(self.reading.store.events())
        reader = readers.get(session.reader or "")
        return {
            "reading_id": self.reading.store.reading_id,
            "reader": reader.name if reader else None,
            "rows": [
                {"row": row.row, "verdict": looks[row.row][-1]["verdict"] if row.row in looks else None}
                | ({"agrees": _agrees(row, looks[row.row][-1]["verdict"])} if row.row in looks else {})
                for row in self.reading.rows
            ],
            "suggested_name": self.suggested_name,
        }

    def _enter(self, session: Session, payload: Mapping[str, Any]) -> dict[str, Any]:
        name, kind = _text(payload, "name"), _text(payload, "kind")
        session.reader = enter_reader(self.reading.store, name, kind, self.channel, session.client)
        session.since = time.monotonic()
        return self._state(session)

    def _row(self, session: Session, payload: Mapping[str, Any]) -> dict[str, Any]:
        row = self._find(_text(payload, "row"))
        looks = self._looks(session).get(row.row, [])
        return {
            "row": row.row,
            "number": self._numbers[row.row],
            "prompt": row.prompt,
            "completion": row.completion,
            "columns": {name: value for name, value in row.columns.items() if value is not None},
            # Blind: what the reward says leaves this process only after the verdict.
            "revealed": _reveal(row, looks) if looks else None,
        }

    def _verdict(self, session: Session, payload: Mapping[str, Any]) -> dict[str, Any]:
        if session.reader is None:
            raise InputError("this reader has not said who reads", where="page", remedy="Give a name first.")
        row = self._find(_text(payload, "row"))
        elapsed = time.monotonic() - session.since
        session.since = time.monotonic()
        seconds, look = payload.get("seconds", 0.0), payload.get("look", 1)
        if not isinstance(seconds, int | float) or not isinstance(look, int):
            raise InputError("'seconds' and 'look' must be numbers", where="page", remedy="Reload the page.")
        given = Given(
            row=row.row,
            verdict=_text(payload, "verdict"),
            note=_text(payload, "note"),
            # The page may leave out idle time, never add time that did not pass.
            seconds=min(float(seconds), elapsed),
            look=look,
            token=_text(payload, "token"),
        )
        record(self.reading.store, session.reader, self.channel, [given], self.reading.ids)
        looks = self._looks(session)
        return {"row": row.row, "read": len(looks), "revealed": _reveal(row, looks[row.row])}

    def _looks(self, session: Session) -> dict[str, list[dict[str, Any]]]:
        reader = fold(self.reading.store.events()).get(session.reader or "")
        return reader.looks if reader else {}

    def _find(self, row_id: str) -> Row:
        number = self._numbers.get(row_id)
        if number is None:
            raise NotFoundError(f"no row '{row_id[:40]}'", where="page", remedy="Reload the page.")
        return self.reading.rows[number - 1]


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name, "")
    if not isinstance(value, str):
        raise InputError(f"'{name}' must be text", where="page", remedy="Reload the page.")
    return value


def _agrees(row: Row, verdict: str) -> bool | None:
    if row.rewarded is None or verdict == "cannot_tell":
        return None
    return (verdict == "correct") == row.rewarded


def _reveal(row: Row, looks: list[dict[str, Any]]) -> dict[str, Any]:
    verdict = looks[-1]["verdict"]
    return {
        "verdict": verdict,
        "looks": len(looks),
        "note": looks[-1]["note"],
        "rewarded": row.rewarded,
        "total": row.total,
        "scores": dict(row.scores),
        "agrees": _agrees(row, verdict),
        "source": row.source,
    }
