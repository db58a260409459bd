"""Real training in its kinds: stages, several processes, LoRA, chat, rewards of the library, guards."""

import json
import os
import signal
from pathlib import Path

import pytest

from grpo_rlvr.errors import RefusedError
from grpo_rlvr.runs import launch, metric_rows, sampled_completions


def test_smoke_run_opens_the_way_to_the_full_run_of_the_same_digest(workspace, spec, make_spec, ended):
    smoke = launch(spec, workspace, stage="smoke")
    assert smoke.state == "starting"
    with pytest.raises(RefusedError, match="no-smoke"):
        launch(spec, workspace, stage="full")
    status = ended(smoke.run_id)
    assert (status.state, status.stage, status.progress.total) == ("finished", "smoke", 4), status.log_tail
    full = launch(spec, workspace, stage="full", dry_run=True)
    assert full.refusals == [] and full.digest == smoke.digest
    for changed in (
        spec.model_copy(update={"config": {**spec.config, "learning_rate": 2e-3}}),
        spec.model_copy(update={"dataset": spec.dataset.model_copy(update={"limit": 16})}),
    ):
        other = launch(changed, workspace, stage="full", dry_run=True)
        assert [refusal.rule for refusal in other.refusals] == ["no-smoke"]
    rows = (workspace.root / "train.jsonl").read_text(encoding="utf-8")
    (workspace.root / "train.jsonl").write_text(rows + rows.splitlines()[0] + "\n", encoding="utf-8")
    assert launch(spec, workspace, stage="full", dry_run=True).refusals[0].rule == "no-smoke"


def test_two_processes_train_together_on_chat_prompts(workspace, make_spec, gate_for, ended):
    rows = [{"prompt": [{"role": "user", "content": f"{c}="}], "answer": c} for c in "abcdefgh" * 4]
    (workspace.root / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    rewards = [{"reward": "my_rewards.py:early_letter"}]
    spec = make_spec(
        workspace,
        rewards=rewards,
        reading=gate_for(workspace, rewards, chat=True),
        dataset={"path": "chat.jsonl"},
        launcher={"processes": 2},
        config={"per_device_train_batch_size": 4},
    )
    status = ended(launch(spec, workspace, stage="smoke").run_id)
    assert status.state == "finished", status.log_tail
    assert status.progress.processes == 2
    assert [row["step"] for row in metric_rows(status.run_id, workspace)] == [1, 2, 3, 4]
    kept = sampled_completions(status.run_id, workspace, "late")
    assert all(row["completion"][0]["role"] == "assistant" for row in kept)


@pytest.mark.slow
def test_lora_trains_the_adapter_and_evaluates_it(workspace, make_spec, ended):
    spec = make_spec(
        workspace,
        model={"path": "tiny", "peft": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}},
        evaluation={"dataset": {"path": "train.jsonl", "limit": 4}},
    )
    status = ended(launch(spec, workspace, stage="proof").run_id)
    assert status.state == "finished", status.log_tail
    model = workspace.root / status.files["model"]
    assert (model / "adapter_config.json").is_file() and not (model / "model.safetensors").exists()
    assert status.evaluation.prompts == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guard", "reward", "text"),
    [
        ({"constant_reward_logs": 3}, "return [0.0] * len(completions)", "in 3 logs in a row"),
        ({"truncated_logs": 2}, None, "cut off in 2 logs in a row"),
    ],
)
def test_guards_halt_with_a_checkpoint_and_say_why(workspace, make_spec, ended, guard, reward, text):
    if reward:
        code = (
            f"from pathlib import Path\n\n\ndef r(completions, **k):\n    if Path('flat').exists():\n        {reward}\n"
        )
        code += "    return [float(c[:1] in 'abcdefghijklm' and c != '') for c in completions]\n"
        (workspace.root / "r.py").write_text(code, encoding="utf-8")
    rewards = [{"reward": "r.py:r" if reward else "my_rewards.py:early_letter"}]
    length = 8 if reward else 1
    spec = make_spec(workspace, rewards=rewards, guards=guard, config={"max_steps": 8, "max_completion_length": length})
    (workspace.root / "flat").write_text("", encoding="utf-8")
    status = ended(launch(spec, workspace, stage="full", waive="guards").run_id)
    assert status.state == "halted", status.message
    assert text in status.message
    assert status.checkpoints and status.checkpoints[-1] <= 4


@pytest.mark.slow
def test_one_killed_rank_of_two_ends_the_other(workspace, make_spec, alive, ended, until):
    spec = make_spec(
        workspace, launcher={"processes": 2}, config={"per_device_train_batch_size": 4, "max_steps": 100_000}
    )
    run_id = launch(spec, workspace, stage="full", waive="rank").run_id
    until(lambda: len(metric_rows(run_id, workspace)) >= 2, 120, "two steps")
    ranks = [pid for pid in alive(run_id) if b"LOCAL_RANK=1" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
    os.kill(ranks[0], signal.SIGKILL)
    status = ended(run_id)
    assert status.state == "failed" and "SIGKILL" in status.message, status.message
    assert status.log_tail


@pytest.mark.slow
def test_data_without_a_column_that_the_reward_reads_fails_with_its_name(workspace, make_spec, ended):
    from datasets import Dataset

    Dataset.from_list([{"prompt": f"{c}="} for c in "abcdefgh"]).save_to_disk(str(workspace.root / "saved"))
    spec = make_spec(workspace, dataset={"path": "saved"})
    status = ended(launch(spec, workspace, stage="proof").run_id)
    assert status.state == "failed" and "answer" in status.message


@pytest.mark.slow
def test_parquet_data_and_a_wrong_argument_of_trl(workspace, make_spec, ended):
    from datasets import Dataset

    rows = [{"prompt": f"{c}=", "answer": c} for c in "abcdefgh"]
    Dataset.from_list(rows).to_parquet(str(workspace.root / "rows.parquet"))
    spec = make_spec(workspace, dataset={"path": "rows.parquet"})
    status = ended(launch(spec, workspace, stage="proof").run_id)
    assert status.state == "finished", status.log_tail


@pytest.mark.slow
def test_tool_call_and_code_rewards_of_the_library_train(workspace, make_spec, gate_for, ended):
    """The library's own rewards inside real training: a tool call, and code that runs in a sandbox."""

    def columns(number):
        gold = [{"name": "add", "arguments": {"a": number % 3}}]
        return {"gold": gold, "tests": [f"assert f(1) == {number % 3}"]}

    def text(number):
        call = json.dumps({"name": "add", "arguments": {"a": number % 3}})
        return f"<tool_call>{call}</tool_call>\n```python\ndef f(x):\n    return {number % 3}\n```"

    rows = [{"prompt": f"{c}=", "answer": c, **columns(n)} for n, c in enumerate("abcdefgh" * 2)]
    (workspace.root / "tools.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    rewards = [
        {"reward": "tool_call", "args": {"tools_column": ""}},
        {"reward": "unit_test"},
    ]
    reading = gate_for(workspace, rewards, columns=columns, right_text=text)
    spec = make_spec(workspace, rewards=rewards, reading=reading, dataset={"path": "tools.jsonl"})
    status = ended(launch(spec, workspace, stage="proof").run_id)
    assert status.state == "finished", status.log_tail
    row = metric_rows(status.run_id, workspace)[-1]
    means = [key for key in row if key.startswith("rewards/") and key.endswith("/mean")]
    assert len(means) == 2, means
