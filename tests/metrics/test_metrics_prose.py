"""Noise that a log repeats is passed over by its shape, and nothing else is."""

from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.metrics.parsing import scan
from grpo_rlvr.metrics.parsing.prose import Prose

LOGS = sorted(
    file
    for folder in ("collected", "public", "formats")
    for file in (Path(__file__).parents[1] / "data" / "logs" / folder).iterdir()
    if file.suffix in (".log", ".txt", ".md", ".csv", ".out") and file.stat().st_size < 40_000
)


def found(lines: list[str]) -> dict[str, Any]:
    """Everything that a scan holds, as plain data."""
    result = scan.scan_lines(lines)
    tables = [result.stream, *result.tables]
    return {
        "rows": [(table.columns.data, table.columns.rows, table.evaluation.data) for table in tables],
        "other": (result.formats, result.notes, result.unread, result.unread_count, result.facts),
    }


def test_the_shape_of_noise_leaves_out_numbers_of_their_own_only() -> None:
    prose = Prose()
    prose.add("worker 3 took 12.5 ms for pass@8 of f1\n")
    assert "worker 14 took 0.1 ms for pass@8 of f1\n" in prose
    assert "worker 3 took 12.5 ms for pass@1 of f1\n" not in prose
    assert "worker 3 took 12.5 ms for pass@8 of f2\n" not in prose


def test_every_log_reads_the_same_when_no_noise_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(LOGS) > 50
    noise = "worker {0} waited {0}.5 ms for its turn: nothing to see"
    logs = {}
    for file in LOGS:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        logs[file.name] = [part for n, line in enumerate(lines) for part in (line, noise.format(n))[: 1 + (n % 7 == 0)]]
    quick = {name: repr(found(lines)) for name, lines in logs.items()}
    monkeypatch.setattr(Prose, "__contains__", lambda self, line: False)
    assert quick == {name: repr(found(lines)) for name, lines in logs.items()}
