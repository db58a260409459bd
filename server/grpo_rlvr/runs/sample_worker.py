"""Samples completions from a model, and grades them when asked to. Runs inside the training interpreter.

Every group (the completions of one prompt) is appended in one write, so an interrupted run goes on with the next group.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo_rlvr.runs.records import append_rows, iter_rows, read_record, write_record
from grpo_rlvr.runs.rows import load_rows
from grpo_rlvr.runs.seal import verify_folder
from grpo_rlvr.runs.stopping import StopFlag

Generate = Callable[[list[Any], int], list[dict[str, Any]]]


def finished_groups(path: Path, per_group: int) -> int:
    """Return how many leading groups a samples file holds whole, and cut off whatever follows them."""
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in iter_rows(path):
        groups.setdefault(int(row.get("group", -1)), []).append(row)
    done = 0
    while len(groups.get(done, [])) == per_group:
        done += 1
    if path.exists():
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text("", encoding="utf-8")
        append_rows(temporary, [row for group in range(done) for row in groups[group]])
        temporary.replace(path)
    return done


def sample(folder: Path, attempt: Path, job: dict[str, Any]) -> dict[str, Any]:
    """Complete all prompts of a job and return the result record."""
    rows = load_rows(job["prompts"])
    without = next((i for i, row in enumerate(rows) if "prompt" not in row), None)
    if without is not None:
        raise ValueError(f"row {without + 1} of the prompts has no 'prompt'; it has: {', '.join(rows[without])}")
    per_group = int(job["num_per_prompt"])
    out = folder / job["out"]
    done = finished_groups(out, per_group)
    flag = StopFlag(folder, int(attempt.name))
    note = _Progress(folder, attempt, job, per_group, len(rows), done)
    note.write("loading the model")
    grade = _grader(folder, job)
    generate = build_generate(job)
    per_call = max(1, int(job["batch_size"]) // per_group)
    for start in range(done, len(rows), per_call):
        if flag.check():
            return {"state": "stopped", "message": f"{flag.reason} after {start} of {len(rows)} prompts"}
        chunk = rows[start : start + per_call]
        prompts = [row["prompt"] for row in chunk for _ in range(per_group)]
        answers = generate(prompts, start)
        owners = [index for index in range(start, start + len(chunk)) for _ in range(per_group)]
        whole = [{**rows[i], **answer, "group": i} for i, answer in zip(owners, answers, strict=True)]
        append_rows(out, grade(whole))
        note.groups = start + len(chunk)
        note.write(job["phase"])
    return {"state": "finished", "message": f"{len(rows) * per_group} completions of {len(rows)} prompts"}


class _Progress:
    def __init__(
        self, folder: Path, attempt: Path, job: dict[str, Any], per_group: int, total: int, groups: int
    ) -> None:
        self.folder, self.attempt, self.job = folder, attempt, job
        self.per_group, self.total, self.groups, self.first = per_group, total, groups, groups
        self.began = time.time()

    def write(self, phase: str) -> None:
        elapsed = time.time() - self.began
        made = self.groups - self.first
        record = {
            "attempt": int(self.attempt.name),
            "phase": phase,
            "time": time.time(),
            "began": self.began,
            "done": self.groups * self.per_group,
            "total": self.total * self.per_group,
            "elapsed_s": round(elapsed, 3),
            "eta_s": round(elapsed / made * (self.total - self.groups), 1) if made else None,
            "unit": "completions",
        }
        write_record(self.folder / self.job["progress"], record, durable=False)


def _grader(folder: Path, job: dict[str, Any]) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    specs = job.get("rewards")
    if not specs:
        return lambda rows: rows
    from grpo_rlvr.runs.rewards import build_rewards, grade_rows

    rewards = build_rewards(folder, specs)
    return lambda rows: grade_rows(rewards, rows)


def build_generate(job: dict[str, Any]) -> Generate:
    """Return the function that completes a list of prompts, by the engine that the job names."""
    if job.get("endpoint"):
        from grpo_rlvr.runs.sample_endpoint import endpoint_generate

        return endpoint_generate(job)
    if job["engine"] == "vllm":
        from grpo_rlvr.runs.sample_vllm import vllm_generate

        return vllm_generate(job)
    from grpo_rlvr.runs.sample_transformers import transformers_generate

    return transformers_generate(job)


def read_job(folder: Path, name: str) -> dict[str, Any]:
    """Return a sampling job of a run: its own, or the evaluation before or after training."""
    spec = read_record(folder / "spec.json")
    if spec is None:
        raise RuntimeError(f"no readable spec.json in {folder}")
    verify_folder(folder, spec)
    return {**spec["jobs"][name], "workspace": spec["workspace"]}


def main() -> None:
    """Entry point: `python -m grpo_rlvr.runs.sample_worker RUN_FOLDER ATTEMPT JOB`."""
    sys.path[:] = [entry for entry in sys.path if entry not in ("", str(Path.cwd()))]
    folder, attempt, name = Path(sys.argv[1]), Path(sys.argv[1]) / "attempts" / sys.argv[2], sys.argv[3]
    try:
        job = read_job(folder, name)
        os.chdir(job["workspace"])
        result = sample(folder, attempt, job)
        if name == "sample" or result["state"] != "finished":
            write_record(attempt / "result.json", result)
    except BaseException as error:
        traceback.print_exc()
        text = str(error).strip() or type(error).__name__
        write_record(attempt / "error.json", {"message": f"{type(error).__name__}: {text[-2000:]}"})
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
