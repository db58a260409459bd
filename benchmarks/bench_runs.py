"""Cost of the launcher: the same training as a bare TRL script, per step after start-up; and of asking about runs.

Run: python benchmarks/bench_runs.py [--steps N]. Prints one JSON object; exit code 1 when a limit is broken.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Ratio of the time per step; seconds to the run id; milliseconds for 50 runs listed and for the status of 10^6 rows.
LIMIT_RATIO, LIMIT_LAUNCH_S, LIMIT_LIST_MS, LIMIT_STATUS_MS = 1.03, 2.0, 100.0, 200.0
ROUNDS = 3
CONFIG: dict[str, Any] = {
    "loss_type": "grpo", "beta": 0.0, "num_generations": 8, "per_device_train_batch_size": 32,
    "max_completion_length": 24, "learning_rate": 1e-4, "use_cpu": True, "bf16": False,
    "gradient_checkpointing": False, "seed": 1, "save_strategy": "no", "report_to": "none", "logging_steps": 1,
    "disable_tqdm": True,
}  # fmt: skip
REWARD = (
    "def early(completions, **kwargs):\n    return [float(c[:1] in 'abcdefghijklm' and c != '') for c in completions]\n"
)
BARE = """
import json, sys, time
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from rewards import early

class Clock(TrainerCallback):
    def __init__(self):
        self.times = []
    def on_step_end(self, args, state, control, **kwargs):
        self.times.append(time.perf_counter())

config = json.loads(sys.argv[1])
rows = [json.loads(line) for line in open("train.jsonl", encoding="utf-8")]
clock = Clock()
trainer = GRPOTrainer(model="tiny", reward_funcs=[early], args=GRPOConfig(output_dir="bare", **config),
                      train_dataset=Dataset.from_list(rows), callbacks=[clock])
trainer.train()
print("TIMES", json.dumps(clock.times))
"""


def make_workspace(folder: Path) -> Any:
    """Write a tiny model, prompts and a reward, and the policy that lets a program read."""
    sys.path.insert(0, str(ROOT / "tests" / "runs"))
    from conftest import build_tiny_model  # type: ignore[import-not-found]
    from grpo_rlvr.workspace import Workspace

    build_tiny_model(folder / "tiny")
    (folder / "rewards.py").write_text(REWARD, encoding="utf-8")
    (folder / "bare.py").write_text(BARE, encoding="utf-8")
    rows = [{"prompt": f"{letter}{number}="} for number in range(64) for letter in "abcd"]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    policy = '[gate]\nreaders = ["oracle"]\nchannels = ["elicitation"]\nmin_median_seconds = 0\n'
    (folder / "grpo-rlvr.toml").write_text(policy, encoding="utf-8")
    return Workspace.open(folder, confined=False)


def read_truthfully(workspace: Any) -> str:
    """Score samples and read them, and return the reading that opens the gate."""
    from grpo_rlvr.inspection import next_rows, record_form, score
    from grpo_rlvr.models.common import RewardSpec

    samples = [{"prompt": f"a{n}=", "completion": f"{'am'[n % 2] if n % 3 else 'z'}{n:02d}"} for n in range(60)]
    reading = score(samples, [RewardSpec(reward="rewards.py:early")], workspace).reading_id
    while rows := next_rows(reading, workspace, 60):
        answers = {"reader_name": "benchmark", "reader_kind": "oracle"}
        for index, row in enumerate(rows, 1):
            answers[f"verdict_{index}"] = "correct" if row.completion[:1] in "am" else "wrong"
        record_form(reading, workspace, rows, answers, client_name="bench", client_version="1", seconds=2.0 * len(rows))
    return str(reading)


def bare_steps(folder: Path, steps: int) -> list[float]:
    """Seconds of each step of a bare TRL script, the first three left out."""
    config = json.dumps({**CONFIG, "max_steps": steps})
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "bare.py", config], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    times = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("TIMES"))[6:])
    return _differences(times)


def our_steps(workspace: Any, reading: str, steps: int) -> tuple[list[float], float, float]:
    """Seconds of each step under the launcher, seconds until launch returns, and until the first step began."""
    from grpo_rlvr.models.run import RunSpec
    from grpo_rlvr.runs import launch, metric_rows, run_status

    spec = RunSpec.model_validate(
        {
            "config": {**CONFIG, "max_steps": steps},
            "model": {"path": "tiny"},
            "dataset": {"path": "train.jsonl"},
            "rewards": [{"reward": "rewards.py:early"}],
            "reading": reading,
        }
    )
    began = time.time()
    run_id = launch(spec, workspace, stage="full", waive="benchmark").run_id or ""
    launched = time.time() - began
    while run_status(run_id, workspace).state in ("starting", "running"):
        time.sleep(0.2)
    status = run_status(run_id, workspace)
    if status.state != "finished":
        raise SystemExit(f"{status.state}: {status.message}")
    times = [row["time"] for row in metric_rows(run_id, workspace)]
    return _differences(times), launched, times[0] - began


def quiet(rounds: list[list[float]]) -> float:
    """Mean seconds of a step, each step taken from the round in which other load disturbed it least.

    Both trainings have the same seed, so a step does the same work in every round.
    """
    return sum(min(times) for times in zip(*rounds, strict=True)) / len(rounds[0])


def _differences(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times[2:])]


def ask(workspace: Any) -> tuple[float, float]:
    """Milliseconds for a list of 50 runs and for the status of a run with a million metric rows, libraries loaded."""
    from grpo_rlvr.runs import list_runs, run_status
    from grpo_rlvr.runs.records import write_record
    from grpo_rlvr.runs.store import RunStore, write_attempt

    store = RunStore(workspace)
    for _ in range(50):
        run_id = store.new_id("train")
        with store.building(run_id) as folder:
            (folder / "attempts").mkdir()
            write_record(folder / "run.json", {"run_id": run_id, "kind": "train", "created": ""})
        attempt = write_attempt(store.get(run_id), 1, {})
        write_record(attempt / "outcome.json", {"state": "finished", "message": "", "ended": 1.0})
    line = (
        '{"step": %d, "time": 1.0, "loss": 0.1, "reward": 0.5, "reward_std": 0.3, "entropy": 1.1, "grad_norm": 0.2}\n'
    )
    with store.get(run_id).metrics.open("w", encoding="utf-8") as file:
        file.writelines(line % step for step in range(1, 1_000_001))
    run_status(run_id, workspace)
    return _milliseconds(lambda: list_runs(workspace)), _milliseconds(lambda: run_status(run_id, workspace))


def _milliseconds(call: Any) -> float:
    times = []
    for _ in range(7):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1000)
    return median(times)


def main() -> int:
    """Run both trainings in turn, so that other load on the machine meets both, and compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as name:
        os.environ["GRPO_RLVR_HOME"] = str(Path(name) / "home")
        folder = Path(name) / "workspace"
        folder.mkdir()
        workspace = make_workspace(folder)
        bare: list[list[float]] = []
        ours: list[list[float]] = []
        starts, launches = [], []
        for _ in range(ROUNDS):
            bare.append(bare_steps(folder, steps))
            mine, launched, start = our_steps(workspace, read_truthfully(workspace), steps)
            ours.append(mine)
            launches.append(launched)
            starts.append(start)
        listed, status = ask(workspace)
    per_step_bare, per_step_ours = quiet(bare), quiet(ours)
    answer = {
        "seconds_per_step_bare": round(per_step_bare, 5),
        "seconds_per_step_launcher": round(per_step_ours, 5),
        "ratio": round(per_step_ours / per_step_bare, 4),
        "launch_returns_s": round(max(launches), 3),
        "first_step_logged_after_s": round(median(starts), 2),
        "list_50_runs_ms": round(listed, 1),
        "status_of_a_million_rows_ms": round(status, 1),
    }
    print(json.dumps(answer, indent=1))
    return int(
        answer["ratio"] > LIMIT_RATIO
        or answer["launch_returns_s"] > LIMIT_LAUNCH_S
        or listed > LIMIT_LIST_MS
        or status > LIMIT_STATUS_MS
    )


if __name__ == "__main__":
    sys.exit(main())
