"""A whole real run: what it leaves behind."""

import json

import pytest

from grpo_rlvr.errors import RefusedError
from grpo_rlvr.runs import metric_rows, resume_run, run_logs, sampled_completions


def test_run_finishes_with_steps_checkpoints_and_model(finished_run):
    status = finished_run.status
    assert status.state == "finished", status.log_tail
    assert status.message == "trained 4 steps"
    assert (status.progress.done, status.progress.total, status.progress.unit) == (4, 4, "steps")
    assert status.checkpoints == [2, 4]
    assert (finished_run.folder / "model" / "model.safetensors").stat().st_size > 100_000
    assert status.attempt == 1 and status.log_tail == []


def test_every_step_has_one_row_with_every_metric_of_trl(finished_run):
    rows = metric_rows(finished_run.status.run_id, finished_run.workspace)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    expected = {"loss", "grad_norm", "reward", "reward_std", "frac_reward_zero_std", "entropy", "step_time", "time"}
    expected |= {"rewards/early_letter/mean", "completions/clipped_ratio", "completions/mean_length", "learning_rate"}
    assert expected <= rows[-1].keys()
    assert any(row["grad_norm"] > 0 for row in rows), "nothing was learned from"


def test_completions_are_kept_with_rewards_advantages_and_columns(finished_run):
    early = sampled_completions(finished_run.status.run_id, finished_run.workspace, "early", 4)
    late = sampled_completions(finished_run.status.run_id, finished_run.workspace, "late", 4)
    assert {row["step"] for row in early} == {1} and {row["step"] for row in late} == {4}
    for row in early + late:
        assert row["rewards"]["early_letter"] == float(row["completion"][:1] in tuple("abcdefghijklm"))
        assert row["columns"]["answer"] == row["prompt"][0]
        assert isinstance(row["advantage"], float)


def test_advantages_belong_to_their_completions(finished_run):
    rows = [json.loads(line) for line in (finished_run.folder / "completions.jsonl").read_text("utf-8").splitlines()]
    judged = [row for row in rows if row["advantage"]]
    assert judged, "no group had a spread"
    for row in judged:
        assert (row["advantage"] > 0) == (row["rewards"]["early_letter"] == 1.0), row


def test_held_out_prompts_are_compared_before_and_after(finished_run):
    evaluation = finished_run.status.evaluation
    assert (evaluation.prompts, evaluation.samples_per_prompt) == (6, 2)
    change = evaluation.rewards[0]
    assert change.reward == "early_letter"
    assert change.difference.value == pytest.approx(change.after.value - change.before.value)
    assert change.before.low <= change.before.value <= change.before.high


def test_tensorboard_events_are_written(finished_run):
    assert list((finished_run.folder / "tensorboard").rglob("events.out.tfevents.*"))


def test_model_card_names_config_digests_reading_and_result(finished_run):
    card = (finished_run.folder / "model" / "README.md").read_text(encoding="utf-8")
    status = finished_run.status
    for part in (status.digest, status.run_id, status.reading_id, "learning_rate", "| early_letter |", "the tests"):
        assert part in card, part


def test_run_keeps_the_code_it_was_trained_with(finished_run):
    copied = finished_run.folder / "code" / "user"
    assert (copied / "my_rewards.py").read_bytes() == (finished_run.workspace.root / "my_rewards.py").read_bytes()
    assert (copied / "helper.py").is_file()


def test_finished_run_is_not_resumed(finished_run):
    with pytest.raises(RefusedError, match="has finished"):
        resume_run(finished_run.status.run_id, finished_run.workspace)


def test_logs_can_be_cut_filtered_and_started_later(finished_run):
    run_id, workspace = finished_run.status.run_id, finished_run.workspace
    whole = run_logs(run_id, workspace, tail=100_000)
    assert len(run_logs(run_id, workspace, tail=2).lines) == 2
    phases = run_logs(run_id, workspace, grep=r"phase '\w+'").lines
    assert len(phases) == 1 and "phase 'train'" in phases[0]
    assert run_logs(run_id, workspace, tail=100_000, since=3).lines == whole.lines[3:]
    assert run_logs(run_id, workspace, grep="[", tail=5).lines, "a text that is no expression is searched as it is"
