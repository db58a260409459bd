"""The evals: every task can be prepared, an untouched folder fails it, and a right answer passes it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "evals"))
import demanding  # noqa: E402
import triggers  # noqa: E402
from fixtures import OLD_CONFIG, ZERO_REWARD  # noqa: E402
from run import CHECKERS, MAKERS  # noqa: E402

from grpo_rlvr.config import table  # noqa: E402
from rlvr_rewards import UnitTest  # noqa: E402

EVALS = json.loads((ROOT / "evals" / "evals.json").read_text(encoding="utf-8"))
TASKS = [task["id"] for task in EVALS["tasks"]]
SCHEMA_REWARD = """
from rlvr_rewards import Schema

reward = Schema()
"""
GONE = {"max_prompt_length", "vllm_device", "vllm_guided_decoding_regex"}
FIXED = {
    **{key: value for key, value in OLD_CONFIG.items() if key not in GONE},
    "loss_type": "grpo", "gradient_accumulation_steps": 4, "vllm_structured_outputs_regex": "<answer>.*</answer>",
}  # fmt: skip
FIXED["warmup_steps"] = FIXED.pop("warmup_ratio")
PORTED = {
    "learning_rate": 1e-6, "num_generations": 8, "per_device_train_batch_size": 8, "logging_steps": 10,
    "loss_type": "bnpo", "beta": 0.04, "temperature": 0.9, "max_completion_length": 256,
    "use_bias_correction_kl": False,
}  # fmt: skip


def answer(**values: Any) -> dict[str, str]:
    """answer.json with these values."""
    return {"answer.json": json.dumps(values)}


SOLUTIONS: dict[str, dict[str, str]] = {
    "fix-config": {"fixed.json": json.dumps(FIXED)},
    "reward-is-zero": answer(cause="template_prefills_tag")
    | {"mended.py": ZERO_REWARD.replace("<think>.*?", "(?:<think>)?.*?")},
    "variant-for-log": answer(variant="grpo", why="it learns"),
    "size-a-model": answer(**{"Qwen2.5-0.5B": True, "Qwen2.5-1.5B": True, "Qwen2.5-3B": True, "Qwen2.5-7B": False}),
    "schema-reward": {"reward.py": SCHEMA_REWARD},
    "no-verifier": answer(rlvr_applies=False, instead="preference optimisation"),
    "route-never-succeeds": answer(route="sft_first", success_rate=0.0),
    "port-config": {"ported.json": json.dumps(PORTED)},
    "launch-needs-reading": answer(launched=False, next="read 50 to 100 scored samples"),
    "vision-language": answer(launched=False, why="reference only"),
    "judge-graded": answer(rlvr_applies=False, instead="no verifier"),
    "compare-runs": answer(verdict="within_noise"),
    # What only the tools know is asked of them; the tests below hold them against facts.
    "version-matrix": answer(
        **{v: [name for name in demanding.CONFIG if name not in table(v)] for v in demanding.VERSIONS}
    ),
    "grade-programs": {"scores.json": json.dumps({row["id"]: row["right"] for row in demanding.programs()})},
    "long-log": answer(label="reward_hacking", since_step=3500),
}


def test_there_are_enough_queries_and_half_of_them_are_near_misses() -> None:
    wanted = [query["should_trigger"] for query in EVALS["trigger_queries"]]
    assert len(wanted) >= 20 and sum(wanted) * 2 == len(wanted)
    assert len({query["query"] for query in EVALS["trigger_queries"]}) == len(wanted)


def test_every_task_has_a_fixture_a_checker_and_a_solution() -> None:
    assert len(TASKS) >= 12
    assert set(TASKS) == set(CHECKERS) == set(MAKERS) == set(SOLUTIONS)


@pytest.mark.parametrize("task", TASKS)
def test_an_untouched_folder_fails(task: str, tmp_path: Path) -> None:
    MAKERS[task](tmp_path)
    score, lost = CHECKERS[task](tmp_path)
    assert score < 1 and lost


@pytest.mark.parametrize("task", TASKS)
def test_a_right_answer_passes(task: str, tmp_path: Path) -> None:
    MAKERS[task](tmp_path)
    for name, text in SOLUTIONS[task].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert CHECKERS[task](tmp_path) == (1.0, [])


def test_the_runner_prepares_every_arm_and_scores_from_files(tmp_path: Path) -> None:
    agent = 'test -f prompt.md && ls -a > seen.txt && echo \'{"verdict": "within_noise"}\' > answer.json'
    runner = ROOT / "evals" / "run.py"
    done = subprocess.run(
        [sys.executable, str(runner), "--agent", agent, "--out", str(tmp_path), "--task", "compare-runs"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [(r["arm"], r["score"]) for r in results] == [
        ("neither", 1.0),
        ("skill", 1.0),
        ("server", 1.0),
        ("both", 1.0),
    ]
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert [(row["arm"], row["score"], row["score_gain"], row["tokens"]) for row in summary] == [
        (arm, 1.0, 0.0, None) for arm in ("neither", "skill", "server", "both")
    ]
    seen: Callable[[str], str] = lambda arm: (tmp_path / "compare-runs" / arm / "seen.txt").read_text(encoding="utf-8")  # noqa: E731
    assert ".mcp.json" not in seen("neither") + seen("skill") and ".mcp.json" in seen("server")
    assert ".claude" in seen("skill") and ".claude" not in seen("server")


def test_an_agent_without_a_command_is_scored_from_what_it_left(tmp_path: Path) -> None:
    runner = [sys.executable, str(ROOT / "evals" / "run.py"), "--out", str(tmp_path), "--task", "compare-runs"]
    subprocess.run([*runner, "--arm", "skill", "--prepare"], check=True, timeout=120)
    folder = tmp_path / "compare-runs" / "skill"
    (folder / "answer.json").write_text('{"verdict": "within_noise"}', encoding="utf-8")
    (folder / "usage.json").write_text('{"seconds": 12.5, "tool_calls": 3}', encoding="utf-8")
    subprocess.run([*runner, "--arm", "skill", "--score"], check=True, timeout=120)
    (row,) = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert (row["score"], row["seconds"], row["tool_calls"], row["tokens"]) == (1.0, 12.5, 3, None)


def test_triggers_are_scored_by_what_opens_the_skill(tmp_path: Path) -> None:
    name, description = triggers.description()
    assert description in triggers.prompt() and name not in triggers.NEIGHBOURS
    right = {str(n): name if ours else None for n, (_, ours) in enumerate(triggers.queries(), 1)}
    assert triggers.score(right) == (1.0, 1.0, [])
    assert triggers.score(dict.fromkeys(right, name))[:2] == (1.0, 0.0)
    assert triggers.score({})[:2] == (0.0, 0.0)


def test_the_sandbox_grades_the_programs_of_the_task_rightly() -> None:
    for style in ("assert", "pytest"):
        rows = [row for row in demanding.programs() if row["style"] == style]
        scores = UnitTest(style=style)([row["completion"] for row in rows], tests=[row["tests"] for row in rows])
        assert scores == [row["right"] for row in rows]


def test_our_own_tools_solve_what_they_are_for(tmp_path: Path) -> None:
    """What the server answers must be what the checkers take for right: else the skill would make agents worse."""
    from grpo_rlvr.metrics import compare, recommend

    MAKERS["variant-for-log"](tmp_path)
    assert recommend(tmp_path / "train.log").recommendation.variant == "grpo"
    MAKERS["long-log"](tmp_path)
    judged = recommend(tmp_path / "train.log")
    (label,) = judged.labels
    assert not any("reward hacking cannot be excluded" in text for text in judged.missing)
    assert label.label == "reward_hacking"
    fall = next(fact for fact in label.evidence if fact.metric == "component:accuracy")
    assert demanding.long_log_score(_answered(tmp_path, label=label.label, since_step=fall.break_row)) == (1.0, [])
    assert abs(fall.break_row - demanding.TURN) < 200
    MAKERS["compare-runs"](tmp_path)
    assert compare(tmp_path / "a.log", tmp_path / "b.log").verdict == "within_noise"


def _answered(folder: Path, **values: Any) -> Path:
    (folder / "answer.json").write_text(json.dumps(values), encoding="utf-8")
    return folder
