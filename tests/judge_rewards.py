"""Judges answer cases: one reward and one completion a case, graded as training would grade them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlvr_rewards import build

# What a case must return within, in seconds; programs get their own limit and one second more.
LIMIT_S = 10.0
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "exact": ("gold",),
    "format": (),
    "math": ("gold",),
    "schema": ("schema",),
    "tool_call": ("gold", "tools"),
    "unit_test": ("tests",),
}


def judge(path: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield `(id, right, note)` for every answer case of a JSONL file or a folder of them, contested ones left out."""
    for file in sorted(path.glob("*.jsonl")) if path.is_dir() else [path]:
        for line in file.read_text(encoding="utf-8").splitlines():
            case = json.loads(line) if line.strip() else {}
            if case.get("reward") in COLUMNS and not case.get("contested"):
                try:
                    right, note = judge_case(case)
                except Exception as error:
                    right, note = False, f"raised {type(error).__name__}: {error}"
                yield case["id"], right, note


def judge_case(case: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether the reward answers a case rightly, and what it said."""
    name = case["reward"]
    args = dict(case["spec"] if name == "format" else case.get("opts") or {})
    if name == "unit_test":
        args["style"] = case["style"]
    reward = build({"reward": name, "args": args})
    row = {column: case.get(column) for column in COLUMNS[name]}
    columns = {column: [value] for column, value in row.items()}
    [score] = reward(completions=[case["completion"]], **columns)
    verdict = reward.grade(case["completion"], row)  # type: ignore[attr-defined]
    wanted = None if case["right"] is None else float(case["right"])
    limit = args.get("limit_s", 10) + 1 if name == "unit_test" else LIMIT_S
    right = score == wanted and verdict.score == wanted and verdict.seconds <= limit
    # A faulty row must also be found before training.
    if wanted is None and name != "unit_test":
        right = right and bool(reward.check_rows([row]))  # type: ignore[attr-defined]
    return right, f"{verdict.score} {verdict.reason} {verdict.extracted!r:.80} in {verdict.seconds:.2f} s, not {wanted}"
