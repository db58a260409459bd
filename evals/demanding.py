"""Three tasks that take an agent alone long: versions that are not installed, hostile programs, a long log."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo_rlvr.config import table

Result = tuple[float, list[str]]
ROOT = Path(__file__).resolve().parents[1]
VERSIONS = (
    "0.15.2", "0.16.1", "0.17.0", "0.18.2", "0.19.1", "0.20.0", "0.22.2", "0.24.0", "0.26.2", "0.29.0", "1.0.0",
    "1.9.0", "1.16.0",
)  # fmt: skip
CONFIG = {
    "num_generations": 8, "max_prompt_length": 512, "loss_type": "grpo", "epsilon_high": 0.28, "delta": 2.0,
    "mask_truncated_completions": True, "use_vllm": True, "vllm_mode": "colocate", "vllm_importance_sampling_cap": 3.0,
    "importance_sampling_level": "sequence", "top_entropy_quantile": 0.2, "steps_per_generation": 8,
    "use_liger_kernel": False, "cast_lm_head_to_fp32": True, "num_completions_to_print": 4, "generation_kwargs": {},
}  # fmt: skip
SHOWN_KEYS = ("id", "style", "completion", "tests")
# Rows of a log whose trained reward rises on format alone from this step on.
LOG_ROWS, TURN = 6000, 3600


def version_matrix(folder: Path) -> None:
    """A config that no single release takes as it is."""
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n", encoding="utf-8")


def version_matrix_score(folder: Path) -> Result:
    """The share of versions whose list of unknown arguments is exactly right."""
    said = _read(folder / "answer.json")
    lost = []
    for version in VERSIONS:
        known = table(version)
        wanted = sorted(name for name in CONFIG if name not in known)
        given = said.get(version)
        if not isinstance(given, list) or sorted(map(str, given)) != wanted:
            lost.append(f"{version}: {wanted}, said {given}")
    return 1 - len(lost) / len(VERSIONS), lost


def programs() -> list[dict[str, Any]]:
    """Public hacks that are safe to run anywhere, and programs that are simply right or wrong."""
    rows = []
    for name in ("hacks.jsonl", "unit_test.jsonl"):
        lines = (ROOT / "tests/data/sandbox" / name).read_text(encoding="utf-8").splitlines()
        rows += [json.loads(line) for line in lines if line]
    safe = [
        row for row in rows
        if row.get("style") in {"assert", "pytest"} and not row.get("watch") and not row.get("never_run_unsandboxed")
        and not (row.get("opts") or {}).get("in_place")
        and isinstance(row.get("completion"), str) and isinstance(row.get("tests"), str) and row.get("right") in (0, 1)
    ]  # fmt: skip
    good = [row for row in safe if row["right"] == 1]
    bad = [row for row in safe if row["right"] == 0]
    return sorted(good[:12] + bad[:24], key=lambda row: str(row["id"])[::-1])


def grade_programs(folder: Path) -> None:
    """Programs of a policy in training, some of which play to the grader."""
    lines = [json.dumps({key: row[key] for key in SHOWN_KEYS}) for row in programs()]
    (folder / "programs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def grade_programs_score(folder: Path) -> Result:
    """The mean of the shares of right and of wrong programs that are scored so."""
    said = _read(folder / "scores.json")
    hits: dict[int, list[bool]] = {0: [], 1: []}
    lost = []
    for row in programs():
        hit = said.get(row["id"]) == row["right"] and isinstance(said.get(row["id"]), int | float)
        hits[int(row["right"])].append(hit)
        if not hit:
            lost.append(f"{row['id']}: {row['right']:g}, said {said.get(row['id'])}")
    return sum(sum(values) / len(values) for values in hits.values()) / 2, lost


def long_log(folder: Path) -> None:
    """A run whose reward rises to the end, and whose answers get worse after three fifths of it."""
    rng = random.Random(5)
    with (folder / "train.log").open("w", encoding="utf-8") as log:
        for step in range(1, LOG_ROWS + 1):
            grown, late = min(1.0, step / TURN), max(0.0, (step - TURN) / (LOG_ROWS - TURN))
            accuracy = min(1.0, max(0.0, 0.25 + 0.35 * grown - 0.18 * late + rng.gauss(0, 0.12)))
            style = min(1.0, max(0.0, 0.3 + 0.2 * grown + 0.45 * late + rng.gauss(0, 0.08)))
            row = {
                "loss": f"{rng.gauss(0, 0.02):.4f}", "grad_norm": f"{abs(rng.gauss(0.4, 0.15)):.4f}",
                "learning_rate": "1e-06", "completions/mean_length": f"{rng.gauss(310, 20):.1f}",
                "completions/clipped_ratio": f"{abs(rng.gauss(0.02, 0.01)):.3f}",
                "rewards/accuracy/mean": f"{accuracy:.4f}", "rewards/style/mean": f"{style:.4f}",
                "reward": f"{accuracy + style:.4f}", "reward_std": f"{abs(rng.gauss(0.35, 0.05)):.4f}",
                "frac_reward_zero_std": f"{abs(rng.gauss(0.2, 0.06)):.3f}", "kl": f"{abs(rng.gauss(0.05, 0.01)):.4f}",
                "entropy": f"{0.7 - 0.2 * step / LOG_ROWS + rng.gauss(0, 0.05):.4f}", "epoch": f"{step / LOG_ROWS:.4f}",
            }  # fmt: skip
            log.write(f"{row}\n")


def long_log_score(folder: Path) -> Result:
    """The label, and the step of the turn within a tenth of the run."""
    said = _read(folder / "answer.json")
    step = said.get("since_step")
    parts = [
        (said.get("label") == "reward_hacking", f"label {said.get('label')}, it is reward_hacking"),
        (isinstance(step, int | float) and abs(step - TURN) <= LOG_ROWS / 10, f"since step {step}, it is {TURN}"),
    ]
    return sum(ok for ok, _ in parts) / len(parts), [text for ok, text in parts if not ok]


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


MAKERS: dict[str, Callable[[Path], None]] = {
    "version-matrix": version_matrix, "grade-programs": grade_programs, "long-log": long_log,
}  # fmt: skip
CHECKERS: dict[str, Callable[[Path], Result]] = {
    "version-matrix": version_matrix_score, "grade-programs": grade_programs_score, "long-log": long_log_score,
}  # fmt: skip
