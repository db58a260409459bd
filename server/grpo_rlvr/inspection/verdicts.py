"""Verdicts: appending them to the journal, and folding the journal into what each reader said."""

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.inspection.store import Event, ReadingStore, now
from grpo_rlvr.models.reading import Channel, GatePolicy, ReaderKind, ReaderSummary, Verdict

VERDICTS: tuple[Verdict, ...] = ("correct", "wrong", "cannot_tell")
MAX_NOTE = 2000
MAX_NAME = 80
# A row that was on screen longer than this was not being read all that time.
LONGEST_SECONDS = 3600.0


@dataclass
class Reader:
    """One reader's part of the journal: every look at every row, in order."""

    key: str
    name: str
    kind: ReaderKind
    channel: Channel
    client: str
    looks: dict[str, list[Event]] = field(default_factory=dict)

    def final(self, row: str) -> Verdict | None:
        """Return the verdict that stands for a row."""
        looks = self.looks.get(row)
        return looks[-1]["verdict"] if looks else None

    @property
    def median_seconds(self) -> float | None:
        """Median seconds of the blind looks."""
        seconds = [looks[0]["seconds"] for looks in self.looks.values()]
        return median(seconds) if seconds else None

    def why_not(self, policy: GatePolicy) -> str:
        """Return why the policy does not admit this reader, or an empty string."""
        channels = {look["channel"] for looks in self.looks.values() for look in looks} or {self.channel}
        closed = sorted(channels - set(policy.channels))
        if self.kind not in policy.readers:
            return f"a reader of kind '{self.kind}' does not count here (readers: {', '.join(policy.readers)})"
        if closed:
            return f"channel '{closed[0]}' does not count here (channels: {', '.join(policy.channels)})"
        pace = self.median_seconds
        if pace is not None and pace < policy.min_median_seconds:
            return f"median {pace:.1f} s a row is too fast to be a reading (at least {policy.min_median_seconds:g} s)"
        return ""

    def summary(self, policy: GatePolicy) -> ReaderSummary:
        """Return this reader's line of the record."""
        why_not = self.why_not(policy)
        return ReaderSummary(
            name=self.name,
            kind=self.kind,
            channel=self.channel,
            client=self.client,
            rows=len(self.looks),
            second_looks=sum(len(looks) - 1 for looks in self.looks.values()),
            median_seconds=self.median_seconds,
            admitted=not why_not,
            why_not=why_not,
        )


def fold(events: list[Event]) -> dict[str, Reader]:
    """Return the readers of a journal by their key."""
    readers: dict[str, Reader] = {}
    for event in events:
        if event["event"] == "reader":
            reader = readers.setdefault(
                event["reader"],
                Reader(event["reader"], event["name"], event["kind"], event["channel"], event["client"]),
            )
            reader.channel, reader.client = event["channel"], event["client"]
        elif event["event"] == "verdict":
            readers[event["reader"]].looks.setdefault(event["row"], []).append(event)
    return readers


def refusals(events: list[Event]) -> list[Event]:
    """Return the forms that were declined, cancelled or empty."""
    return [event for event in events if event["event"] == "refusal"]


def enter_reader(store: ReadingStore, name: str, kind: str, channel: Channel, client: str) -> str:
    """Record who reads and return the reader's key; the same name continues where it left off.

    Raises:
        InputError: no name, too long a name, or an unknown kind.
    """
    name = " ".join(name.split())
    if not name or len(name) > MAX_NAME:
        raise InputError(
            f"a reader needs a name of 1 to {MAX_NAME} characters", where="reader", remedy="Say who reads."
        )
    if kind not in ("person", "oracle"):
        raise InputError(f"unknown kind of reader '{kind}'", where="reader", remedy="Use person or oracle.")
    key = f"{kind}:{name.casefold()}"
    client = client[:120]
    with store.appending() as (events, fresh):
        known = fold(events).get(key)
        if known is None or (known.channel, known.client) != (channel, client):
            fresh.append(
                {
                    "event": "reader",
                    "reader": key,
                    "name": name,
                    "kind": kind,
                    "channel": channel,
                    "client": client,
                    "at": now(),
                }
            )
    return key


@dataclass(frozen=True)
class Given:
    """A verdict as a channel delivers it.

    Args:
        row: Id of the row.
        verdict: correct, wrong or cannot_tell.
        note: The reader's words.
        seconds: Time the row was on screen.
        look: 1 for the blind look, 2 and more after the score was seen.
        token: Id that the channel made for this verdict, so that a repeated delivery is not a second verdict.
    """

    row: str
    verdict: str
    note: str = ""
    seconds: float = 0.0
    look: int = 1
    token: str = ""


def record(store: ReadingStore, reader: str, channel: Channel, given: list[Given], known_rows: set[str]) -> int:
    """Append verdicts, all or none. Returns how many were new.

    A blind verdict for a row that this reader has judged already, or a delivery that arrived before, changes nothing.

    Raises:
        InputError: unknown row, reader or verdict, or a second look without a first.
    """
    with store.appending() as (events, fresh):
        readers = fold(events)
        if reader not in readers:
            raise InputError("this reader has not said who reads", where="reader", remedy="Give the name first.")
        tokens = {event.get("token") for event in events if event["event"] == "verdict"} - {"", None}
        looks = {row: len(seen) for row, seen in readers[reader].looks.items()}
        for verdict in given:
            _check(verdict, known_rows)
            done = looks.get(verdict.row, 0)
            if verdict.token in tokens or (verdict.look <= done):
                continue
            if verdict.look > done + 1:
                raise InputError("a second look needs a first", where=f"row {verdict.row}", remedy="Read it first.")
            looks[verdict.row] = done + 1
            fresh.append(_event(verdict, reader, channel))
        return len(fresh)


def _check(given: Given, known_rows: set[str]) -> None:
    if given.row not in known_rows:
        raise InputError(f"no row '{given.row[:40]}' in this reading", where="row", remedy="Reload the reading.")
    if given.verdict not in VERDICTS:
        raise InputError(
            f"unknown verdict '{given.verdict[:40]}'", where=f"row {given.row}", remedy=f"Use {', '.join(VERDICTS)}."
        )
    if len(given.note) > MAX_NOTE:
        raise InputError(f"the note is longer than {MAX_NOTE} characters", where=f"row {given.row}")


def _event(given: Given, reader: str, channel: Channel) -> dict[str, Any]:
    return {
        "event": "verdict",
        "reader": reader,
        "row": given.row,
        "verdict": given.verdict,
        "note": given.note.strip(),
        "look": given.look,
        "blind": given.look == 1,
        "seconds": round(min(max(given.seconds, 0.0), LONGEST_SECONDS), 2),
        "channel": channel,
        "token": given.token,
        "at": now(),
    }


def record_not_read(store: ReadingStore, channel: Channel, client: str, what: str) -> None:
    """Record a form that was declined, cancelled, empty or not supported: it counts as not read."""
    with store.appending() as (_, fresh):
        fresh.append({"event": "refusal", "channel": channel, "client": client[:120], "what": what[:200], "at": now()})
