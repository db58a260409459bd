"""Reading over forms and in the terminal."""

import contextlib
import fcntl
import io
import os
import pty
import struct
import termios
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from grpo_rlvr import inspection
from grpo_rlvr.errors import InputError
from grpo_rlvr.inspection.rows import Reading
from grpo_rlvr.inspection.store import ReadingStore
from grpo_rlvr.inspection.terminal import KEYS, STYLE, WELCOME
from grpo_rlvr.inspection.verdicts import fold
from grpo_rlvr.models.reading import ReadingStatus
from grpo_rlvr.plain import visible
from grpo_rlvr.workspace import Workspace

Rows = list[dict[str, Any]]
CLIENT = {"client_name": "test-client", "client_version": "2.1"}


@pytest.fixture
def reading_id(sums: Rows, score: Callable[..., Any]) -> str:
    """A scored reading of 60 rows."""
    return str(score(sums, "sound_rewards.py:correct").reading_id)


def answered(rows: list[Any], verdict: str = "correct", **more: Any) -> dict[str, Any]:
    """Return an answer to a form with the same verdict for every row."""
    return {f"verdict_{index}": verdict for index in range(1, len(rows) + 1)} | more


def test_forms_hold_only_what_every_client_can_show(workspace: Workspace, reading_id: str) -> None:
    rows = inspection.next_rows(reading_id, workspace, 5)
    schema = inspection.form_for(rows).model_json_schema()
    assert "$defs" not in schema
    assert all(field["type"] in ("string", "boolean") for field in schema["properties"].values())
    assert schema["properties"]["verdict_1"]["enum"] == ["correct", "wrong", "cannot_tell"]
    assert {"reader_kind", "reader_name", *(f"verdict_{i}" for i in range(1, 6))} == set(schema["required"])


def test_an_empty_accept_is_no_valid_answer_and_no_reading(workspace: Workspace, reading_id: str) -> None:
    rows = inspection.next_rows(reading_id, workspace, 5)
    with pytest.raises(ValidationError):
        inspection.form_for(rows).model_validate({})
    status = inspection.record_form(reading_id, workspace, rows, {}, seconds=60, **CLIENT)
    assert (status.read, status.refusals) == (0, 1)


@pytest.mark.parametrize("what", ["declined", "cancelled", "unsupported"])
def test_a_refusal_counts_as_not_read(workspace: Workspace, reading_id: str, what: str) -> None:
    status = inspection.record_refusal(reading_id, workspace, what, **CLIENT)
    assert (status.state, status.read, status.refusals, status.gate.open) == ("not_started", 0, 1, False)


def test_forms_read_a_reading_to_the_end_and_open_the_gate(workspace: Workspace, sums: Rows, reading_id: str) -> None:
    truth = {row["completion"]: row for row in sums}
    asked = 0
    while rows := inspection.next_rows(reading_id, workspace, 8):
        message = inspection.message_for(rows)
        assert all(f"(row {row.number} of 60)" in message for row in rows)
        answers = {
            f"verdict_{i}": "correct" if right(truth[row.completion]) else "wrong" for i, row in enumerate(rows, 1)
        }
        if rows[0].ask_reader:
            asked += 1
            answers |= {"reader_kind": "person", "reader_name": "Ann"}
        form = inspection.form_for(rows).model_validate(answers)
        status = inspection.record_form(reading_id, workspace, rows, form, seconds=8 * 5.0, **CLIENT)
    assert asked == 1
    assert status.gate.open
    assert [(r.name, r.channel, r.client, r.rows) for r in status.readers] == [
        ("Ann", "elicitation", "test-client 2.1", 60)
    ]


def right(row: dict[str, Any]) -> bool:
    """Say whether a sample is right, as a careful reader would."""
    return f"<answer>{row['answer']}</answer>" in row["completion"].replace(" ", "")


def test_a_form_that_comes_twice_is_recorded_once(workspace: Workspace, reading_id: str) -> None:
    rows = inspection.next_rows(reading_id, workspace, 3)
    answer = answered(rows, reader_kind="person", reader_name="Ann")
    for _ in range(2):
        status = inspection.record_form(reading_id, workspace, rows, answer, seconds=30, **CLIENT)
    assert status.read == 3
    looks = next(iter(fold(ReadingStore.open(workspace, reading_id).events()).values())).looks
    assert [len(each) for each in looks.values()] == [1, 1, 1]


def test_a_form_of_an_unknown_row_or_reader_records_nothing(workspace: Workspace, reading_id: str) -> None:
    rows = inspection.next_rows(reading_id, workspace, 2)
    with pytest.raises(InputError, match="who reads"):
        inspection.record_form(reading_id, workspace, rows, answered(rows), seconds=9, **CLIENT)
    stranger = [rows[0].model_copy(update={"row": "r999"})]
    answer = answered(stranger, reader_kind="person", reader_name="Ann")
    with pytest.raises(InputError, match="no row"):
        inspection.record_form(reading_id, workspace, stranger, answer, seconds=9, **CLIENT)
    assert inspection.reading_status(reading_id, workspace).read == 0


def test_a_completion_cannot_pose_as_the_text_of_the_form(workspace: Workspace, sums: Rows, score: Any) -> None:
    for row in sums:
        row["completion"] = "x\n--- 2. (row 2 of 60) ---\nPROMPT\nall good\n" + "long " * 700 + row["completion"]
    rows = inspection.next_rows(score(sums, "sound_rewards.py:correct").reading_id, workspace, 2)
    message = inspection.message_for(rows)
    assert len([line for line in message.split("\n") if line.startswith("--- ")]) == 2
    assert "characters left out" in message
    assert len(message) < 9000


def test_the_terminal_has_the_keys_of_the_page(workspace: Workspace, reading_id: str) -> None:
    out = io.StringIO()
    keys = "Ann\nc\nn\nodd\nt\nu\nw\ng\n40\n2\ng\n999\ns\nz\nq\n"
    status = inspection.read_in_terminal(reading_id, workspace, stdin=io.StringIO(keys), stdout=out)
    reader = next(iter(fold(ReadingStore.open(workspace, reading_id).events()).values()))
    verdicts = {row: [look["verdict"] for look in looks] for row, looks in reader.looks.items()}
    assert verdicts == {"r001": ["correct"], "r002": ["cannot_tell", "wrong"], "r040": ["wrong"]}
    assert reader.looks["r002"][0]["note"] == "odd"
    assert (status.read, status.readers[0].channel, status.state) == (3, "terminal", "in_progress")
    shown = out.getvalue()
    assert "There are rows 1 to 60." in shown
    assert "The gate is closed" in shown
    assert "\x1b" not in shown


def test_the_terminal_goes_on_where_it_stopped_and_ends_with_the_input(workspace: Workspace, reading_id: str) -> None:
    for _ in range(2):
        inspection.read_in_terminal(
            reading_id, workspace, name="Ann", stdin=io.StringIO("c\nc\n"), stdout=io.StringIO()
        )
    assert inspection.reading_status(reading_id, workspace).read == 4
    with pytest.raises(InputError, match="nobody said who reads"):
        inspection.read_in_terminal(reading_id, workspace, stdin=io.StringIO(""), stdout=io.StringIO())


def at_a_terminal(workspace: Workspace, reading_id: str, keys: bytes, columns: int = 80) -> tuple[ReadingStatus, str]:
    """Type keys at a terminal of 24 lines; return the status and what was shown, with plain line ends."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    shown = bytearray()

    def drain() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(main, 4096):
                shown.extend(data)

    watcher = threading.Thread(target=drain, daemon=True)
    watcher.start()
    # Keys may come before they are asked for: none is lost.
    os.write(main, keys)
    with os.fdopen(side, "r", encoding="utf-8") as given, os.fdopen(os.dup(side), "w", encoding="utf-8") as out:
        status = inspection.read_in_terminal(reading_id, workspace, stdin=given, stdout=out)
    watcher.join(timeout=5)
    os.close(main)
    return status, STYLE.sub("", shown.decode("utf-8").replace("\r\n", "\n"))


def test_a_real_terminal_takes_single_keys(workspace: Workspace, reading_id: str) -> None:
    status, shown = at_a_terminal(workspace, reading_id, b"Anx\x7fn\ncwqq")
    assert [(reader.name, reader.kind, reader.rows) for reader in status.readers] == [("Ann", "person", 2)]
    assert "Row 1: you said correct" in shown


def test_what_the_reward_says_stands_above_the_keys_of_the_next_row(workspace: Workspace, reading_id: str) -> None:
    _, shown = at_a_terminal(workspace, reading_id, b"Ann\ncwuq")
    screens = shown.split("── Row ")[1:]
    assert [screen.split(" ")[0] for screen in screens] == ["1", "2", "3", "2"]
    said = [" ".join(screen.split("[c] correct")[0].rstrip().split("\n")[-2:]) for screen in screens]
    assert "you said" not in said[0]
    assert "Row 1: you said correct, the reward says" in said[1]
    assert "Row 2: you said wrong, the reward says" in said[2]
    assert "Again row 2: you said wrong" in said[3] and said[3].endswith("Your verdict stands until you give another.")
    # The way back is offered where reward and reader disagree, and only there.
    paid = [row.rewarded for row in Reading.open(workspace, reading_id).rows]
    assert ["A slip? u looks again." in text for text in said] == [False, not paid[0], bool(paid[1]), False]


@pytest.mark.parametrize("columns", [40, 80])
def test_lines_break_at_word_ends_and_never_inside_a_key_hint(
    workspace: Workspace, sums: Rows, score: Any, columns: int
) -> None:
    prose = "extraordinarily long paragraphs about interchangeable components " * 6
    for row in sums:
        row["completion"] = f"  {prose}\n    indented {prose}\n{row['completion']}"
    reading_id = score(sums, "sound_rewards.py:correct").reading_id
    _, shown = at_a_terminal(workspace, reading_id, b"Ann\ncq", columns)
    shown = shown.split("1 of 60 read.")[0]
    lines = shown.split("\n")
    assert max(map(len, lines)) <= columns
    assert "    indented extraordinarily long" in shown
    assert shown.count("extraordinarily") == shown.count("interchangeable") == 24
    assert all("\n" not in hint and hint in shown for hint in KEYS)
    assert " ".join(WELCOME.split()).split("\x1b[0m ")[1] in " ".join(shown.split())


def test_a_beginning_that_all_prompts_share_is_shown_once_and_one_key_unfolds_it(
    workspace: Workspace, sums: Rows, score: Any
) -> None:
    rules = "Think first, answer last.\n" * 12
    for row in sums:
        row["prompt"] = [{"role": "system", "content": rules}, {"role": "user", "content": row["prompt"]}]
    reading_id = score(sums, "sound_rewards.py:correct").reading_id
    _, shown = at_a_terminal(workspace, reading_id, b"Ann\nccfq")
    first, second, third, unfolded = shown.split("── Row ")[1:]
    assert "Think first" in first and "Think first" in unfolded
    for screen in (second, third):
        assert "Think first" not in screen and "characters as in every row, f shows all" in screen
        assert "[user] What is" in screen


def test_the_summary_shows_answers_without_escapes(workspace: Workspace, sums: Rows, score: Any) -> None:
    for row in sums:
        row["completion"] = f"One line.\nAnother.\n{row['completion']}"
    reading_id = score(sums, "sound_rewards.py:correct").reading_id
    _, shown = at_a_terminal(workspace, reading_id, b"Ann\n" + b"c" * 12 + b"sq")
    summary = shown.split("12 of 60 read.")[1]
    assert "but read as" in summary and "\\n" not in summary


def test_a_reading_that_was_begun_is_gone_on_with(workspace: Workspace, reading_id: str, read: Any) -> None:
    assert "Start the reading" in inspection.reading_status(reading_id, workspace).next
    assert "Start the reading" in read(reading_id, limit=4, kind="oracle", name="Bot").gate.reasons[-1].remedy
    assert "Go on with the reading" in read(reading_id, limit=4, seconds=0.5).gate.reasons[-1].remedy
    last = read(reading_id, lambda row: "cannot_tell", name="Bo").gate.reasons[-1]
    assert "Look again at the rows that nobody could tell" in last.remedy


def test_keys_through_a_pipe_are_no_person(workspace: Workspace, reading_id: str) -> None:
    keys = io.StringIO("c\n" * 70)
    status = inspection.read_in_terminal(reading_id, workspace, name="Ann", stdin=keys, stdout=io.StringIO())
    assert [(reader.kind, reader.admitted) for reader in status.readers] == [("oracle", False)]


def test_a_completion_cannot_steer_the_terminal() -> None:
    assert visible("a\x1b[2Jb\u202ec\r\x07\n\td") == "a\\x1b[2Jb⟨U+202E⟩c\\x0d\\x07\n\td"


def test_a_second_look_over_forms_may_take_a_verdict_back_and_both_looks_stay(
    workspace: Workspace, sums: Rows, reading_id: str
) -> None:
    truth = {row["completion"]: row for row in sums}
    slip: str | None = None
    looks: list[str] = []
    while rows := inspection.next_rows(reading_id, workspace, 10):
        answers: dict[str, Any] = {"reader_kind": "person", "reader_name": "Ann"} if rows[0].ask_reader else {}
        for index, row in enumerate(rows, 1):
            said = right(truth[row.completion])
            if slip is None:
                slip, said = row.row, not said
            looks.append(row.second_look)
            answers[f"verdict_{index}"] = "correct" if said else "wrong"
        status = inspection.record_form(reading_id, workspace, rows, answers, seconds=50, **CLIENT)
    assert next(look for look in looks if look).startswith("You said")
    assert len(looks) == 61
    assert (status.resolved, status.disagreements, status.gate.open) == (1, [], True)
    assert status.gate.record is not None
    assert status.gate.record.second_looks == 1
    events = [event for event in ReadingStore.open(workspace, reading_id).events() if event.get("row") == slip]
    assert [event["blind"] for event in events] == [True, False]


def test_a_disagreement_that_stands_on_the_second_look_is_not_asked_a_third_time(
    workspace: Workspace, reading_id: str
) -> None:
    asked = 0
    while rows := inspection.next_rows(reading_id, workspace, 30):
        asked += len(rows)
        answer = answered(rows, **({"reader_kind": "person", "reader_name": "Ann"} if rows[0].ask_reader else {}))
        status = inspection.record_form(reading_id, workspace, rows, answer, seconds=300, **CLIENT)
    assert asked == 60 + status.agreement.false_negatives
    assert status.agreement.false_negatives > 0
    assert [reason.code for reason in status.gate.reasons] == ["unresolved_disagreement"]
