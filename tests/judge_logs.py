"""Judge the diagnosis of training logs against a file of cases: first label, variant, and no false alarm."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_rlvr.metrics import recommend
from grpo_rlvr.models.setup import parse_setup

QUIET = {"healthy", "plateau", "too_short_to_tell"}


def judge(path: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield (id, right, why not) for each line of `path`, a folder with index.jsonl or the index file."""
    index = path / "index.jsonl" if path.is_dir() else path
    for line in index.read_text(encoding="utf-8").splitlines():
        if line.strip():
            case = json.loads(line)
            if not case.get("contested"):
                try:
                    right, text = judge_case(case, index.parent)
                except Exception as error:  # a case that raises is wrong, and the others are still judged
                    right, text = False, f"{type(error).__name__}: {error}"
                yield case["id"], right, text


def judge_case(case: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """Run one case and return whether the answer is right, and the answer or what was wrong with it."""
    answer = recommend(
        folder / case["file"], config=case.get("config"), setup=parse_setup({"model": case.get("model") or {}})
    )
    labels = [item.label for item in answer.labels] or ["healthy"]
    variant = {"grpo": "none"}.get(answer.recommendation.variant, answer.recommendation.variant)
    wrong = []
    if labels[0] not in case["acceptable_first_labels"]:
        wrong.append(f"label {labels[0]}, accepted {case['acceptable_first_labels']}")
    if variant not in case["acceptable_variants"]:
        wrong.append(f"variant {variant}, accepted {case['acceptable_variants']}")
    if case.get("must_not_alarm") and set(labels) - QUIET:
        wrong.append(f"false alarm {sorted(set(labels) - QUIET)}")
    return not wrong, "; ".join(wrong) or f"{labels[0]}, {variant}"
