"""Live diagnosis of a run: what its metrics so far support, and a watcher that halts it on chosen labels.

The watcher runs in the server's own interpreter, as a child of the run's supervisor, since the training interpreter
need not have what a diagnosis needs.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import UserError
from grpo_rlvr.runs.records import iter_rows, read_record, write_record

# Looks are made every few rows; more rows than this are thinned evenly, so that a look stays under a tenth of a second.
LOOK_EVERY = 5
MOST_ROWS = 200
FEWEST_ROWS = 10
POLL_S = 2.0


def thin_rows(path: Path, most: int = MOST_ROWS) -> list[dict[str, Any]]:
    """Return about `most` rows of a metrics file at most, spread evenly, without reading all of it."""
    try:
        size = path.stat().st_size
    except OSError:
        return []
    # 2 KB is a long row; a file that small is simply read.
    if size < most * 2000:
        rows = list(iter_rows(path))
        step = max(1, len(rows) // most)
        return rows[(len(rows) - 1) % step :: step]
    found: dict[Any, dict[str, Any]] = {}
    with path.open("rb") as file:
        for index in range(most):
            file.seek(int(size * index / most))
            if index:
                file.readline()
            row = _row(file.readline())
            if row is not None:
                found[row.get("step")] = row
    return list(found.values())


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def live_labels(folder: Path) -> list[str] | None:
    """Return the labels that a run's metrics support now; None while there are too few rows, or without scipy."""
    rows = thin_rows(folder / "metrics.jsonl")
    if len(rows) < FEWEST_ROWS:
        return None
    from grpo_rlvr.metrics import watch_rows

    spec = read_record(folder / "spec.json") or {}
    version = ((read_record(folder / "run.json") or {}).get("packages") or {}).get("trl")
    try:
        update = watch_rows(rows, every=LOOK_EVERY, config=spec.get("config"), trl_version=version)
    except UserError:
        return None
    return [item.label for item in update.labels]


def watch(folder: Path, attempt: int, labels: list[str]) -> str:
    """Look at a run every few rows until one of the labels holds, ask for a halt, and return the label."""
    seen = 0
    while True:
        count = sum(1 for _ in iter_rows(folder / "metrics.jsonl"))
        if count >= seen + LOOK_EVERY:
            seen = count
            found = [label for label in live_labels(folder) or [] if label in labels]
            if found:
                reason = f"the metrics show '{found[0]}', which this run was told to halt on"
                write_record(folder / "stop.json", {"attempt": attempt, "halt": True, "reason": reason})
                return found[0]
        time.sleep(POLL_S)


def main() -> None:
    """Entry point: `python -m grpo_rlvr.runs.watch RUN_FOLDER ATTEMPT`."""
    folder, attempt = Path(sys.argv[1]), int(sys.argv[2])
    guards = (read_record(folder / "spec.json") or {}).get("guards") or {}
    print(f"halting on '{watch(folder, attempt, guards.get('labels') or [])}'", flush=True)


def watch_phase(folder: Path, attempt: str) -> dict[str, Any]:
    """Return the phase that runs the watcher beside the training."""
    roots = [str(Path(path)) for path in sys.path if path]
    return {
        "name": "watch",
        "argv": [sys.executable, "-m", "grpo_rlvr.runs.watch", str(folder), attempt],
        "environment": {"PYTHONPATH": os.pathsep.join(roots), "OMP_NUM_THREADS": "1"},
        "background": True,
    }


if __name__ == "__main__":
    main()
