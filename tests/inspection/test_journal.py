"""The journal of verdicts survives a writer that dies at any moment."""

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from grpo_rlvr import inspection
from grpo_rlvr.inspection.rows import Reading
from grpo_rlvr.inspection.store import ReadingStore
from grpo_rlvr.inspection.verdicts import Given, enter_reader, fold, record
from grpo_rlvr.workspace import Workspace

WRITER = """
import sys
from grpo_rlvr.inspection.rows import Reading
from grpo_rlvr.inspection.verdicts import Given, enter_reader, record
from grpo_rlvr.workspace import Workspace

reading = Reading.open(Workspace.open(sys.argv[1]), sys.argv[2])
key = enter_reader(reading.store, "Ann", "person", "page", "writer")
for row in reading.rows:
    record(reading.store, key, "page", [Given(row=row.row, verdict="wrong", seconds=3)], reading.ids)
    print(row.row, flush=True)
"""
Rows = list[dict[str, Any]]


@pytest.fixture
def store(workspace: Workspace, sums: Rows, score: Callable[..., Any]) -> ReadingStore:
    """The store of a reading that nobody has read."""
    return ReadingStore.open(workspace, score(sums, "sound_rewards.py:correct").reading_id)


def judged(store: ReadingStore) -> list[str]:
    """Return the rows with a verdict, in order."""
    return [event["row"] for event in store.events() if event["event"] == "verdict"]


@pytest.mark.parametrize("after", [1, 5, 23])
def test_a_writer_killed_in_the_middle_loses_and_doubles_nothing(
    workspace: Workspace, store: ReadingStore, after: int
) -> None:
    command = [sys.executable, "-c", WRITER, str(workspace.root), store.reading_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline().strip() for _ in range(after)]
        writer.send_signal(signal.SIGKILL)
        told += writer.stdout.read().split()
    kept = judged(store)
    assert kept[: len(told)] == told
    assert len(kept) <= len(told) + 1
    reading = Reading.open(workspace, store.reading_id)
    key = enter_reader(store, "Ann", "person", "page", "writer")
    given = [Given(row=row.row, verdict="wrong", seconds=3) for row in reading.rows]
    assert record(store, key, "page", given, reading.ids) == len(reading.rows) - len(kept)
    assert sorted(judged(store)) == sorted(reading.ids)


def test_half_a_line_at_the_end_is_dropped_and_the_journal_goes_on(workspace: Workspace, store: ReadingStore) -> None:
    key = enter_reader(store, "Ann", "person", "page", "")
    record(store, key, "page", [Given("r001", "wrong")], {"r001", "r002"})
    with store.journal_file.open("ab") as file:
        file.write(b'{"n": 3, "event": "verd')
    assert judged(store) == ["r001"]
    record(store, key, "page", [Given("r002", "wrong")], {"r001", "r002"})
    assert judged(store) == ["r001", "r002"]


def test_a_line_that_was_written_but_not_yet_counted_is_kept(workspace: Workspace, store: ReadingStore) -> None:
    key = enter_reader(store, "Ann", "person", "page", "")
    before = store.head_file.read_bytes()
    record(store, key, "page", [Given("r001", "wrong")], {"r001"})
    store.head_file.write_bytes(before)
    assert judged(store) == ["r001"]
    assert store.head_file.read_bytes() != before


def test_a_failing_delivery_writes_nothing_at_all(workspace: Workspace, store: ReadingStore) -> None:
    key = enter_reader(store, "Ann", "person", "page", "")
    before = store.journal_file.read_bytes()
    with pytest.raises(Exception, match="no row"):
        record(store, key, "page", [Given("r001", "wrong"), Given("r999", "wrong")], {"r001"})
    assert store.journal_file.read_bytes() == before


def test_the_same_name_goes_on_as_the_same_reader_and_another_does_not(store: ReadingStore) -> None:
    names = ["Ann", " ann ", "ANN", "Ben"]
    keys = [enter_reader(store, name, "person", "page", "x") for name in names]
    assert [key == keys[0] for key in keys] == [True, True, True, False]
    assert enter_reader(store, "Ann", "oracle", "page", "x") != keys[0]
    assert len(fold(store.events())) == 3


def test_a_reading_is_kept_apart_from_one_that_is_still_being_written(workspace: Workspace) -> None:
    half = ReadingStore.create(workspace)
    with pytest.raises(Exception, match="no reading"):
        inspection.reading_status(half.reading_id, workspace)
    assert list(half.folder.iterdir()) == []
