"""`grpo-rlvr calibrate`: from labels to a judge that may serve as a reward."""

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.cli import run
from rlvr_rewards import build


@pytest.fixture
def spec(judge_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A judge's spec; three hundred labels lie beside it in the working directory."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"prompt": f"Question {i}", "completion": f"{'good' if i % 2 else 'poor'} {i}", "label": i % 2 == 1}
        for i in range(300)
    ]
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    client = {"base_url": judge_server.url, "model": "stub-judge", "retries": 2, "backoff_s": 0.001}
    return {"reward": "judge", "args": {"rubric": ["The answer is good."], "client": client}}


def call(spec: dict[str, Any], *more: str) -> int:
    return run(["calibrate", "--judge", json.dumps(spec), "--labels", "labels.jsonl", *more])


def test_a_judge_that_agrees_with_the_labels_may_serve_as_a_reward(
    spec: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(spec, "--record", "judge.json", "--json") == 0
    assert json.loads(capsys.readouterr().out)["labels"]["count"] == 300
    spec["args"]["calibration"] = "judge.json"
    assert build(spec)(completions=["good", "poor"], prompts=["p", "q"]) == [1.0, 0.0]


def test_a_judge_that_is_wrong_gets_no_record(
    spec: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text(encoding="utf-8").splitlines()]
    swapped = [{**row, "label": not row["label"]} for row in rows]
    (tmp_path / "labels.jsonl").write_text("\n".join(map(json.dumps, swapped)), encoding="utf-8")
    assert call(spec) == 1
    assert "dev part: true-positive rate 0 of" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "judge-calibration.json").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"reward": "math"}, "'math' is no judge"),
        ({"args": {}}, "missing"),
        ({"args": {"rubric": ["x"], "client": {"base_url": "http://127.0.0.1:9/v1", "modle": "m"}}}, "model"),
    ],
)
def test_a_spec_that_is_no_judge_gets_one_line(
    spec: dict[str, Any], change: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call({**spec, **change}) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("line", ["{", "[]", '{"prompt": "p", "completion": "c"}', '{"prompt": "p", "label": true}'])
def test_a_line_that_is_no_label_is_named(
    spec: dict[str, Any], tmp_path: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "labels.jsonl").write_text("\n" + line, encoding="utf-8")
    assert call(spec) == 2
    assert "labels.jsonl, line 2" in capsys.readouterr().err


def test_an_endpoint_that_is_not_there_is_said_in_one_line(
    spec: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    spec["args"]["client"]["base_url"] = "http://127.0.0.1:9/v1"
    assert call(spec) == 2
    assert "could not grade a labelled row" in capsys.readouterr().err
