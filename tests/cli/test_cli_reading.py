"""What people see of scores, audits and readings: at 80 columns, what matters, and what to do next."""

import json
import os
import re
from pathlib import Path

import pytest

from grpo_rlvr.cli import render, run
from grpo_rlvr.models.reading import ReadingList

REWARDS = """
import re

def first(completions, gold, **kwargs):
    found = [re.search(r"<answer>(.*?)</answer>", text) for text in completions]
    return [float(bool(f) and f[1].strip() == g) for f, g in zip(found, gold)]

def form(completions, **kwargs):
    return [float("</think>" in text) for text in completions]

def raises(completions, **kwargs):
    raise ValueError("no such thing")
"""
SAMPLES = ["--samples", "samples.jsonl", "--reward"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with long samples and rewards, the working directory, and a terminal of 80 columns."""
    monkeypatch.setenv("GRPO_RLVR_HOME", str(tmp_path / "keys"))
    monkeypatch.setattr(render.console, "_width", 80)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(REWARDS, encoding="utf-8")
    thought = "Let me think about this for a while. " * 30
    rows = [
        {
            "prompt": f"{i // 4}+1=",
            "completion": f"<think>{thought}</think><answer>{i // 4 + 1 + i % 2}</answer>",
            "gold": str(i // 4 + 1),
        }
        for i in range(80)
    ]
    (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return tmp_path


def test_the_audit_names_severity_reward_and_the_end_of_the_text(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", *SAMPLES, "mine.py:first", "mine.py:form"]) == 1
    shown = capsys.readouterr().out
    assert "error answer_first: paid 4 of 4 by first" in shown
    assert "warning tags_repeated: paid 4 of 4 by form" in shown
    # The answer that takes the right one back stands at the end of more than 2,000 characters.
    first = shown.split("answer_first")[1].split("\nerror")[0]
    assert "sample 0: '<think>Let me" in first and "</think><answer>2</answer>'" in first
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) < 60
    held = shown.split("held: ")[1].split("not tried")[0]
    assert re.fullmatch(r"(?:[a-z_]+,?\s+)+", held) and "wrong_answer" in held
    assert lines[-1] == "Next: mend the reward and audit it again"


def test_a_score_ends_with_the_command_that_reads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["score", *SAMPLES, "mine.py:first", "mine.py:form"])
    shown = capsys.readouterr().out
    assert "error answer_first: paid 4 of 4 by first" in shown and "held: " not in shown
    assert re.fullmatch(r"Next: grpo-rlvr read r-\S+", shown.splitlines()[-1])


def test_an_audit_that_did_not_run_says_why(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["audit", *SAMPLES, "mine.py:raises"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("audit not run: The rewards failed on the samples themselves (raises ValueError: no such")
    assert " of 0 " not in shown


def test_readings_are_listed_and_the_newest_has_a_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["read"]) == 0
    assert "There are no readings here." in capsys.readouterr().out
    assert run(["read", "latest", "--status"]) == 2
    assert "there are no readings" in capsys.readouterr().err
    ids = []
    for reward in ("mine.py:first", "exact", "mine.py:form"):
        run(["score", *SAMPLES, reward])
        ids.append(re.findall(r"r-\d{8}-\w{8}", capsys.readouterr().out)[0])
    edited = folder / ".grpo-rlvr" / "readings" / ids[0] / "reading.json"
    edited.write_text(edited.read_text(encoding="utf-8").replace('"count": 80', '"count": 81'), encoding="utf-8")
    os.utime(edited, (1_700_000_000, 1_700_000_000))
    assert run(["read", "--json"]) == 0
    found = ReadingList.model_validate_json(capsys.readouterr().out).readings
    assert [one.reading_id for one in found] == ids[::-1]
    assert [(one.samples, one.open) for one in found] == [(80, False), (80, False), (None, False)]
    assert "0 of 50 rows have a verdict" in found[0].why and "was edited" in found[2].why
    assert run(["read"]) == 0
    assert re.findall(r"r-\d{8}-\w{8}", capsys.readouterr().out) == ids[::-1]
    run(["read", "latest", "--status"])
    assert ids[-1] in capsys.readouterr().out
    assert run(["read", "--terminal"]) == 2
    assert "latest" in capsys.readouterr().err
