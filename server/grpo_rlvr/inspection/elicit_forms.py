"""Reading over forms: rows as text, the form for them, and its answers."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from grpo_rlvr.errors import InputError
from grpo_rlvr.inspection.agreement import judged
from grpo_rlvr.inspection.rows import Reading
from grpo_rlvr.inspection.verdicts import Given, Reader, enter_reader, fold, record, record_not_read
from grpo_rlvr.models.reading import Channel, ReadingRow, ReadingStatus
from grpo_rlvr.workspace import Workspace

CHANNEL: Channel = "elicitation"
# Clients show the message of a form in a small window.
SHOWN = 1500


def next_rows(reading_id: str, workspace: Workspace, count: int) -> list[ReadingRow]:
    """Return the next rows for a form: those that the reader of this channel has not judged, blind.

    When all are judged, the rows on which reader and reward disagree come once more, with what both said.

    Returns:
        Up to `count` rows; empty when there is nothing left to ask.

    Raises:
        InputError, NotFoundError: no such reading. EditedError: its record was changed.
    """
    reading = Reading.open(workspace, reading_id)
    reader = _current(reading)
    done = set(reader.looks) if reader else set()
    wanted = {row.row: "" for row in reading.rows if row.row not in done}
    if not wanted and reader:
        wanted = {
            row.row: f"You said {'correct' if said else 'wrong'}, the reward says {'wrong' if said else 'correct'}."
            for row, said in judged(reading.rows, reader)
            if said != row.rewarded and len(reader.looks[row.row]) == 1
        }
    return [
        ReadingRow(
            row=row.row,
            number=number,
            total=len(reading.rows),
            prompt=row.prompt,
            completion=row.completion,
            columns=dict(row.columns),
            second_look=wanted[row.row],
            ask_reader=reader is None,
        )
        for number, row in enumerate(reading.rows, 1)
        if row.row in wanted
    ][: max(1, count)]


def message_for(rows: Sequence[ReadingRow]) -> str:
    """Return the text that a form shows: what to do, then each row, quoted so that no content can pose as ours."""
    parts = [
        "Read each completion yourself and say whether it deserves the reward: is the answer right, in the form that "
        "was asked for? Scores are not shown on purpose."
    ]
    for index, row in enumerate(rows, 1):
        references = "\n".join(f"{name}: {value}" for name, value in row.columns.items())
        parts.append(
            f"--- {index}. (row {row.number} of {row.total}) ---\n{_again(row)}PROMPT\n{_quote(row.prompt)}\n"
            f"REFERENCE\n{_quote(references) or '> (no columns)'}\nCOMPLETION\n{_quote(row.completion)}"
        )
    return "\n\n".join(parts)


def _again(row: ReadingRow) -> str:
    if not row.second_look:
        return ""
    return f"SECOND LOOK: {row.second_look} Give the verdict that stands; both looks stay in the record.\n"


def _quote(text: str) -> str:
    if len(text) > SHOWN:
        half = SHOWN // 2
        left_out = f"[... {len(text) - SHOWN} characters left out: read this row on the page ...]"
        text = f"{text[:half]}\n{left_out}\n{text[-half:]}"
    return "\n".join(f"> {line}" for line in text.split("\n")) if text else "> (empty)"


def form_for(rows: Sequence[ReadingRow]) -> type[BaseModel]:
    """Return the form for some rows: only strings, enums and booleans, which every client can show.

    A verdict is required for every row and has no default, so that an empty answer never counts.
    """
    fields: dict[str, Any] = {}
    if any(row.ask_reader for row in rows):
        fields["reader_kind"] = (
            Literal["person", "oracle"],
            Field(title="Who reads", description="person: you read it yourself. oracle: a program answers."),
        )
        fields["reader_name"] = (str, Field(title="Name", description="Name for the record.", min_length=1))
    for index, row in enumerate(rows, 1):
        fields[f"verdict_{index}"] = (
            Literal["correct", "wrong", "cannot_tell"],
            Field(title=f"{index}. Row {row.number}: verdict", description="Does this completion deserve the reward?"),
        )
        fields[f"note_{index}"] = (
            str,
            Field(default="", title=f"{index}. Row {row.number}: note", description="Why, if you like."),
        )
    form: type[BaseModel] = create_model("ReadingForm", __config__=ConfigDict(extra="forbid"), **fields)
    return form


def record_form(
    reading_id: str,
    workspace: Workspace,
    rows: Sequence[ReadingRow],
    answers: BaseModel | Mapping[str, Any],
    *,
    client_name: str,
    client_version: str,
    seconds: float,
) -> ReadingStatus:
    """Record an accepted form. An answer without a verdict for every row is recorded as not read.

    Args:
        reading_id: The reading.
        workspace: Where it lies.
        rows: The rows that the form showed.
        answers: What came back.
        client_name: The MCP client that showed the form.
        client_version: Its version.
        seconds: Time between showing the form and its answer; it is spread evenly over the rows.
    """
    from grpo_rlvr.inspection.reading import reading_status

    values = answers.model_dump() if isinstance(answers, BaseModel) else dict(answers)
    client = f"{client_name} {client_version}".strip()
    reading = Reading.open(workspace, reading_id)
    if any(not values.get(f"verdict_{index}") for index in range(1, len(rows) + 1)):
        record_not_read(reading.store, CHANNEL, client, "empty")
        return reading_status(reading_id, workspace)
    known = _current(reading)
    if "reader_name" in values:
        key = enter_reader(reading.store, values["reader_name"], values["reader_kind"], CHANNEL, client)
    elif known is not None:
        key = enter_reader(reading.store, known.name, known.kind, CHANNEL, client)
    else:
        raise InputError("the form did not say who reads", where="reader", remedy="Show the form again.")
    given = [
        Given(
            row=row.row,
            verdict=values[f"verdict_{index}"],
            note=values.get(f"note_{index}") or "",
            seconds=seconds / len(rows),
            look=2 if row.second_look else 1,
        )
        for index, row in enumerate(rows, 1)
    ]
    record(reading.store, key, CHANNEL, given, reading.ids)
    return reading_status(reading_id, workspace)


def record_refusal(
    reading_id: str, workspace: Workspace, what: str, *, client_name: str = "", client_version: str = ""
) -> ReadingStatus:
    """Record a form that was declined, cancelled, empty or not supported; its rows count as not read.

    Args:
        reading_id: The reading.
        workspace: Where it lies.
        what: declined, cancelled, empty or unsupported.
        client_name: The MCP client that showed the form.
        client_version: Its version.
    """
    from grpo_rlvr.inspection.reading import reading_status

    reading = Reading.open(workspace, reading_id)
    record_not_read(reading.store, CHANNEL, f"{client_name} {client_version}".strip(), what)
    return reading_status(reading_id, workspace)


def _current(reading: Reading) -> Reader | None:
    events = reading.store.events()
    entered = [event["reader"] for event in events if event["event"] == "reader" and event["channel"] == CHANNEL]
    return fold(events)[entered[-1]] if entered else None
