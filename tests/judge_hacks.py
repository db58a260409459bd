"""Judges programs that try to be paid for wrong work, and honest ones that must be paid, through the public reward."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def judge(path: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield id, whether the verdict is right, and what was said, for every row of a file of programs."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("contested") is True:
            continue
        yield row["id"], *judge_row(row)


def judge_row(row: dict[str, Any]) -> tuple[bool, str]:
    """Return whether one row is scored as labelled, and what was said."""
    from rlvr_rewards.spec import build

    try:
        reward = build({"reward": "unit_test", "args": {"style": row["style"], **row.get("opts", {})}})
        columns = {"tests": [row["tests"]], "files": [row.get("files")]}
        (score,) = reward(completions=[row["completion"]], **columns)
    except Exception as error:  # a raising reward is a wrong answer, whatever it raised
        return False, f"raised {type(error).__name__}: {error}"
    wanted = None if row["right"] is None else float(row["right"])
    return score == wanted, f"{score}, expected {wanted}"
