"""The project's own judged cases, through the public interface: every one of them right."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
DATA = TESTS / "data"
CASES = (
    ("config", "config/cases.jsonl"),
    ("logs", "logs/public"),
    ("memory", "memory"),
    ("rewards", "rewards/answers.jsonl"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "path"), CASES, ids=[kind for kind, _ in CASES])
def test_every_case_is_right(kind: str, path: str) -> None:
    command = [sys.executable, str(TESTS / "run_cases.py"), kind, str(DATA / path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    wrong = [line for line in done.stdout.splitlines() if line.startswith("WRONG")]
    assert done.returncode == 0, "\n".join(wrong) or done.stderr
    assert done.stdout.splitlines()[-1].endswith(" right, 0 wrong")


def test_a_case_that_nothing_handles_counts_as_wrong(tmp_path: Path) -> None:
    case = {
        "id": "x",
        "config": {"num_generations": 1},
        "context": {"versions": {"trl": "1.16.0"}},
        "expect": {"severity": "ok", "fields": []},
    }
    (tmp_path / "cases.jsonl").write_text(json.dumps(case) + "\n", encoding="utf-8")
    command = [sys.executable, str(TESTS / "run_cases.py"), "config", str(tmp_path / "cases.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "0 right, 1 wrong"
