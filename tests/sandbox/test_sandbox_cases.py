"""The judged programs of the project's data are scored as labelled, and nothing of what they try happens."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
DATA = TESTS / "data" / "sandbox"
# What the programs would leave behind, were they run without a boundary.
TRACES = ("/tmp/planted_by_candidate", "/etc/planted", "/var/tmp/planted", "/tmp/conftest.py", "/tmp/result.json",
          "/logs/result.json", "big.bin", "conftest.py", "sitecustomize.py", "random.py", "planted")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hacks.jsonl", "unit_test.jsonl", "examined.jsonl"])
def test_judged_programs_are_scored_as_labelled(name: str, tmp_path: Path) -> None:
    cases = tmp_path / name
    with cases.open("w", encoding="utf-8") as stream:
        for line in (DATA / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if "time" in row.get("watch", ()):
                row["opts"]["limit_s"] = 2  # most of them run until they are stopped
            stream.write(json.dumps(row) + "\n")
    there = {trace for trace in TRACES if (tmp_path / trace).exists()}
    processes = _others()
    command = [sys.executable, str(TESTS / "run_cases.py"), "hacks", str(cases)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert [line for line in done.stdout.splitlines() if line.startswith("WRONG")] == []
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(" right, 0 wrong")
    assert {trace for trace in TRACES if (tmp_path / trace).exists()} == there
    assert not {text for text in _others() - processes if "time.sleep(120)" in text}


def _others() -> set[str]:
    """Return the command lines of all processes of this user."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == os.geteuid():
                    found.add((entry / "cmdline").read_text(encoding="utf-8", errors="replace"))
            except OSError:
                continue
    return found
