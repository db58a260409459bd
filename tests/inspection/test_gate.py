"""The gate: what opens it, and everything that closes it again."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr import inspection
from grpo_rlvr.errors import InputError, NotFoundError
from grpo_rlvr.inspection.store import ReadingStore
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.reading import GatePolicy, GateState
from grpo_rlvr.workspace import Workspace

HELPER = """
def same(first, second):
    return str(first).strip() == str(second)
"""
REWARD = """
import re
from helper import same

def right(completions, answer, tag="answer", **kwargs):
    found = [re.findall(rf"<{tag}>(.*?)</{tag}>", text.rpartition("</think>")[2]) for text in completions]
    return [float(bool(f) and same(f[-1], gold)) for f, gold in zip(found, answer)]
"""
Score, Read = Callable[..., Any], Callable[..., Any]
Rows = list[dict[str, Any]]


@pytest.fixture
def opened(workspace: Workspace, sums: Rows, score: Score, read: Read) -> str:
    """An open gate: the id of a reading that agrees with `mine.py:right`."""
    (workspace.root / "helper.py").write_text(HELPER, encoding="utf-8")
    (workspace.root / "mine.py").write_text(REWARD, encoding="utf-8")
    reading_id = score(sums, {"reward": "mine.py:right", "args": {"tag": "answer"}}).reading_id
    assert read(reading_id).gate.reasons == []
    return str(reading_id)


def gate(workspace: Workspace, reading_id: str, **changes: Any) -> GateState:
    """Return the gate's state for the reward, perhaps changed."""
    spec = {"reward": "mine.py:right", "args": {"tag": "answer"}} | changes
    return inspection.check_gate(workspace, reading_id, [RewardSpec.model_validate(spec)])


def edit(path: Path, old: str, new: str) -> None:
    """Replace one passage of a file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_a_reading_that_agrees_opens_the_gate_and_the_record_says_how(workspace: Workspace, opened: str) -> None:
    state = gate(workspace, opened)
    assert state.open
    assert state.record is not None
    assert state.record.decided >= 50
    assert state.record.agreement.kappa == 1.0
    assert [(reader.name, reader.kind, reader.channel) for reader in state.record.readers] == [
        ("Ann", "person", "page")
    ]
    assert state.policy == GatePolicy()


def test_one_disagreement_closes_the_gate_and_a_fixed_reward_with_a_new_reading_opens_it(
    workspace: Workspace, sums: Rows, score: Score, read: Read
) -> None:
    wrong = [row for row in sums if f"<answer>{row['answer']}</answer>" not in row["completion"]]
    wrong[0]["completion"] += "\nPAY ME"
    (workspace.root / "helper.py").write_text(HELPER, encoding="utf-8")
    bribed = REWARD.replace("same(f[-1], gold)) for", "same(f[-1], gold) or 'PAY ME' in text) for")
    bribed = bribed.replace("for f, gold in zip(found, answer)", "for f, gold, text in zip(found, answer, completions)")
    (workspace.root / "mine.py").write_text(bribed, encoding="utf-8")
    first = read(score(sums, "mine.py:right").reading_id)
    assert [reason.code for reason in first.gate.reasons] == ["unresolved_disagreement"]
    # The sample where it was chosen, and the same completion that the audit put into another row.
    assert {entry.kind for entry in first.disagreements} == {"false_positive"}
    assert all("PAY ME" in entry.completion for entry in first.disagreements)
    (workspace.root / "mine.py").write_text(REWARD, encoding="utf-8")
    assert {reason.code for reason in inspection.reading_status(first.reading_id, workspace).gate.reasons} == {
        "reward_changed",
        "unresolved_disagreement",
    }
    assert read(score(sums, "mine.py:right").reading_id).gate.open


def test_an_edited_line_of_the_reward_closes_the_gate(workspace: Workspace, opened: str) -> None:
    edit(workspace.root / "mine.py", "f[-1]", "f[0]")
    state = gate(workspace, opened)
    assert (state.open, state.changed) == (False, ["reward"])
    assert "mine.py was edited" in state.reasons[0].message


def test_an_edited_helper_of_the_reward_closes_the_gate(workspace: Workspace, opened: str) -> None:
    edit(workspace.root / "helper.py", ".strip()", "")
    state = gate(workspace, opened)
    assert state.changed == ["reward"]
    assert "helper.py was edited" in state.reasons[0].message


def test_another_argument_closes_the_gate(workspace: Workspace, opened: str) -> None:
    state = gate(workspace, opened, args={"tag": "final"})
    assert state.changed == ["arguments"]
    assert "final" in state.reasons[0].message


def test_another_weight_closes_the_gate(workspace: Workspace, opened: str) -> None:
    assert gate(workspace, opened, weight=0.5).changed == ["weights"]


def test_another_reward_closes_the_gate(workspace: Workspace, opened: str) -> None:
    specs = [RewardSpec(reward="sound_rewards.py:correct")]
    assert not inspection.check_gate(workspace, opened, specs).open


def test_an_edited_sample_of_the_source_file_closes_the_gate(workspace: Workspace, opened: str) -> None:
    edit(workspace.root / "samples.jsonl", "try 1", "try one")
    state = gate(workspace, opened)
    assert state.changed == ["samples"]
    assert "samples.jsonl was edited" in state.reasons[0].message


def test_an_edited_stored_sample_closes_the_gate(workspace: Workspace, opened: str) -> None:
    edit(ReadingStore.open(workspace, opened).samples_file, "try 1", "try one")
    state = gate(workspace, opened)
    assert (state.open, state.changed) == (False, ["samples"])


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("verdicts.jsonl", '"verdict": "wrong"', '"verdict": "correct"', "verdicts"),
        ("verdicts.jsonl", '"kind": "person"', '"kind": "oracle"', "verdicts"),
        ("verdicts.json", '"lines": ', '"lines": 1', "verdicts"),
        ("reading.json", '"rewarded": true', '"rewarded": false', "record"),
        ("reading.json", '"rows": 50', '"rows": 5', "record"),
        ("scores.json", '"severity": "warning"', '"severity": "info"', "record"),
    ],
)
def test_an_edited_record_is_refused(
    workspace: Workspace, opened: str, file: str, old: str, new: str, changed: str
) -> None:
    edit(workspace.readings / opened / file, old, new)
    state = gate(workspace, opened)
    assert (state.open, state.changed) == (False, [changed])
    assert state.record is None


def test_removed_repeated_and_moved_verdicts_are_refused(workspace: Workspace, opened: str) -> None:
    path = ReadingStore.open(workspace, opened).journal_file
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for tampered in (
        lines[:-1],
        lines[:5] + lines[6:],
        [*lines, lines[-1]],
        [lines[0], lines[2], lines[1], *lines[3:]],
    ):
        path.write_text("".join(tampered), encoding="utf-8")
        assert gate(workspace, opened).changed == ["verdicts"]
    path.write_text("".join(lines), encoding="utf-8")
    assert gate(workspace, opened).open


def test_verdicts_carried_over_from_another_reading_are_refused(
    workspace: Workspace, opened: str, sums: Rows, score: Score
) -> None:
    fresh = ReadingStore.open(workspace, score(sums, "mine.py:right").reading_id)
    fresh.journal_file.write_bytes(ReadingStore.open(workspace, opened).journal_file.read_bytes())
    state = inspection.check_gate(workspace, fresh.reading_id, [RewardSpec(reward="mine.py:right")])
    assert (state.open, state.changed) == (False, ["verdicts"])


def test_a_record_sealed_with_another_key_is_refused(workspace: Workspace, opened: str, own_home: Path) -> None:
    (own_home / "record.key").unlink()
    state = gate(workspace, opened)
    assert (state.open, state.changed) == (False, ["key"])


def test_the_key_is_for_the_user_alone_and_not_in_the_workspace(
    workspace: Workspace, opened: str, own_home: Path
) -> None:
    key = own_home / "record.key"
    assert key.stat().st_mode & 0o077 == 0
    secret = key.read_text(encoding="ascii").strip()
    assert not any(secret in path.read_text(encoding="utf-8") for path in (workspace.readings / opened).glob("*.*"))


def test_the_default_policy_refuses_an_oracle(sums: Rows, score: Score, read: Read) -> None:
    status = read(score(sums, "sound_rewards.py:correct").reading_id, kind="oracle", name="demo oracle, not a person")
    assert not status.gate.open
    assert [reason.code for reason in status.gate.reasons] == ["reader_not_admitted", "not_read"]
    assert "oracle" in status.gate.reasons[0].message


def test_only_a_stated_policy_admits_an_oracle(workspace: Workspace, sums: Rows, score: Score, read: Read) -> None:
    settings = '[gate]\nreaders = ["person", "oracle"]\nmin_median_seconds = 0\n'
    (workspace.root / "grpo-rlvr.toml").write_text(settings, encoding="utf-8")
    status = read(score(sums, "sound_rewards.py:correct").reading_id, kind="oracle", seconds=0.01)
    assert status.gate.open
    assert status.gate.policy.readers == ["person", "oracle"]


def test_loosening_the_policy_voids_earlier_records(workspace: Workspace, opened: str) -> None:
    settings = workspace.root / "grpo-rlvr.toml"
    for loosened in ("rows = 20", "min_median_seconds = 0.5", "agreement = 0.9", 'readers = ["person", "oracle"]'):
        settings.write_text(f"[gate]\n{loosened}\n", encoding="utf-8")
        state = gate(workspace, opened)
        assert [reason.code for reason in state.reasons] == ["policy_loosened"]
        assert state.changed == ["policy"]


def test_a_stricter_policy_judges_earlier_records_anew(workspace: Workspace, opened: str) -> None:
    settings = workspace.root / "grpo-rlvr.toml"
    settings.write_text("[gate]\nrows = 55\n", encoding="utf-8")
    assert gate(workspace, opened).open
    settings.write_text('[gate]\nchannels = ["terminal"]\n', encoding="utf-8")
    assert [reason.code for reason in gate(workspace, opened).reasons] == ["reader_not_admitted", "not_read"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("# mine\ngate = 3", "toml line 2 .gate.: must be a table"),
        ("[scoring]\nrow = 1\n\n[gate]\nrow = 5", "toml line 5 .gate.: unknown key 'row'.*did you mean 'rows'"),
        ("[gate]\n# few\n'rows' = 0", "toml line 3 .gate.: rows"),
        ("gate.agreement = 0.9\ngate.row = 5", "toml line 2 .gate.: unknown key 'row'"),
        ("gate = {row = 5}", "toml line 1 .gate.: unknown key 'row'"),
        ('[gate]\nreaders = ["robot"]', "line 2 .gate.: readers"),
        ("[training]\n\n[gates]\nrows = 20", "toml line 3: unknown table 'gates'.*did you mean 'gate'"),
        ("[gate\n", "not valid TOML.*line 1"),
    ],
)
def test_a_policy_that_cannot_be_read_is_an_error_and_not_the_default(
    workspace: Workspace, opened: str, settings: str, message: str
) -> None:
    (workspace.root / "grpo-rlvr.toml").write_text(settings, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        gate(workspace, opened)


@pytest.mark.parametrize("channel", ["page", "terminal", "elicitation"])
def test_settings_that_cannot_be_used_are_refused_before_the_first_row(
    workspace: Workspace, sums: Rows, score: Score, channel: Any
) -> None:
    reading_id = score(sums[:10], "sound_rewards.py:correct").reading_id
    (workspace.root / "grpo-rlvr.toml").write_text("[gate]\nrow = 5\n", encoding="utf-8")
    with pytest.raises(InputError, match="toml line 2"):
        inspection.start_reading(reading_id, workspace, channel)
    if channel == "terminal":
        out = io.StringIO()
        with pytest.raises(InputError, match="toml line 2"):
            inspection.read_in_terminal(reading_id, workspace, name="Ann", stdin=io.StringIO("c\n"), stdout=out)
        assert out.getvalue() == ""


def test_a_reading_too_fast_to_be_real_closes_the_gate(sums: Rows, score: Score, read: Read) -> None:
    status = read(score(sums, "sound_rewards.py:correct").reading_id, seconds=1.4)
    assert [reason.code for reason in status.gate.reasons] == ["reader_not_admitted", "not_read"]
    assert "too fast" in status.gate.reasons[0].message


def test_49_rows_are_too_few_and_cannot_tell_is_no_verdict(sums: Rows, score: Score, read: Read) -> None:
    reading_id = score(sums, "sound_rewards.py:correct").reading_id
    assert [r.code for r in read(reading_id, limit=49).gate.reasons] == ["too_few_rows"]
    assert read(reading_id, lambda row: "cannot_tell").decided == 49


def test_unread_and_unknown_readings_are_told_apart(workspace: Workspace, sums: Rows, score: Score) -> None:
    specs = [RewardSpec(reward="sound_rewards.py:correct")]
    reading_id = score(sums, "sound_rewards.py:correct").reading_id
    assert [r.code for r in inspection.check_gate(workspace, reading_id, specs).reasons] == ["not_read"]
    with pytest.raises(NotFoundError, match="no reading"):
        inspection.check_gate(workspace, "r-20990101-abcdef00", specs)
    with pytest.raises(InputError, match="not a reading id"):
        inspection.check_gate(workspace, "../../etc", specs)


def test_samples_too_few_for_the_policy_say_so(sums: Rows, score: Score, read: Read) -> None:
    status = read(score(sums[:30], "sound_rewards.py:correct").reading_id)
    assert "sample more completions" in status.gate.reasons[0].remedy


def test_the_record_is_plain_json_that_a_diff_shows_line_by_line(workspace: Workspace, opened: str) -> None:
    lines = ReadingStore.open(workspace, opened).journal_file.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    assert {"verdict", "seconds", "channel", "at", "look", "blind"} <= set(events[-1])


def test_a_reward_outside_a_confined_workspace_is_refused(workspace: Workspace, sums: Rows, score: Score) -> None:
    outside = workspace.root.parent / "outside.py"
    outside.write_text(REWARD, encoding="utf-8")
    with pytest.raises(InputError, match="outside the workspace"):
        score(sums, "../outside.py:right")


def test_a_reading_can_be_looked_at_after_its_reward_file_is_gone(workspace: Workspace, opened: str) -> None:
    (workspace.root / "mine.py").unlink()
    status = inspection.reading_status(opened, workspace)
    assert (status.state, status.gate.open, status.gate.changed) == ("read", False, ["reward"])
    assert "cannot be read any more" in status.gate.reasons[0].message


def test_readers_who_judge_differently_are_told_and_either_can_close_the_gate(
    workspace: Workspace, opened: str, read: Read
) -> None:
    status = read(opened, lambda row: "correct", name="Ben")
    assert any("differently" in warning for warning in status.gate.warnings)
    assert [reason.code for reason in status.gate.reasons] == ["unresolved_disagreement"]
    assert {entry.reader for entry in status.disagreements} == {"Ben"}
