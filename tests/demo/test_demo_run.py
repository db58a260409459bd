"""The demo in its fast form: every step real, fewer training steps."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The demo's folder and what it printed, run once in a path with spaces."""
    base = tmp_path_factory.mktemp("a path with spaces")
    environment = {**os.environ, "GRPO_RLVR_HOME": str(base / "keys")}
    done = subprocess.run(
        [sys.executable, "-m", "grpo_rlvr", "demo", "--fast", "--out", str(base / "demo")],
        env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return base / "demo", done.stdout


def test_it_goes_through_all_steps_and_says_so(demo: tuple[Path, str]) -> None:
    _, printed = demo
    for step in ("1. route", "2. check", "3. read", "4. launch", "5. diagnose", "Report:", "Next:"):
        assert step in printed
    assert "gate closed; launch refused" in printed and "gate open" in printed
    assert "variant grpo" in printed


def test_training_raises_accuracy_on_problems_it_has_not_seen(demo: tuple[Path, str]) -> None:
    found = re.search(r"held-out problems, correct: ([\d.]+) .*? before, ([\d.]+)", demo[1])
    assert found and float(found.group(2)) > float(found.group(1)) + 0.1


def test_the_record_says_that_no_person_read(demo: tuple[Path, str]) -> None:
    records = list((demo[0] / ".grpo-rlvr" / "runs").glob("train-*/gate.json"))
    assert len(records) == 2
    for path in records:
        readers = json.loads(path.read_text(encoding="utf-8"))["record"]["record"]["readers"]
        assert [(reader["name"], reader["kind"]) for reader in readers] == [("demo oracle, not a person", "oracle")]


def test_the_report_is_one_file_that_loads_nothing(demo: tuple[Path, str]) -> None:
    text = (demo[0] / "report.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text and "<script" not in text
    assert not re.search(r'(?:src|href)="(?!#)', text) and "url(" not in text
    for section in ("evaluation", "config", "route", "reading", "training", "completions", "diagnosis"):
        assert f'<section id="{section}">' in text
