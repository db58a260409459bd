"""What an agent pays in context: instructions, tool list, and each tool's answer on realistic input."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from grpo_rlvr.app import INSTRUCTIONS, build_server
from grpo_rlvr.tools.run import run_logs
from grpo_rlvr.workspace import Workspace

pytestmark = pytest.mark.anyio
# JSON of this kind has about 3.5 characters a token; 3 is on the safe side.
CHARACTERS_PER_TOKEN = 3
LIMIT = 10_000
BAD_CONFIG = {
    "learning_rate": 1e-4, "num_generations": 8, "per_device_train_batch_size": 3, "gradient_accumulation_steps": 3,
    "max_prompt_length": 512, "vllm_device": "auto", "use_vllm": True, "vllm_guided_decoding_regex": "x",
    "warmup_ratio": 0.1, "beta": 0.04, "loss_type": "dapoo", "epsilon": 2, "temperature": 0.0, "top_p": 0.5,
    "fp16": True, "bf16": True, "reward_weights": [1, 2, 3], "vllm_gpu_memory_utilization": 0.95,
    "vllm_mode": "colocate", "optim": "adamw_8bit", "num_iterations": 4, "use_liger_loss": True,
    "importance_sampling_level": "seq", "gradient_checkpointing": False, "remove_unused_columns": True,
    "eval_strategy": "steps", "max_steps": -1, "model_init_kwargs": {"torch_dtype": "bfloat16"},
}  # fmt: skip
SETUP = {
    "model": {"class": "dense", "params_b": 7, "peft": False, "name": "Qwen2.5-7B-Instruct"},
    "hardware": {"device": "cuda", "gpus": 2, "gpu_mem_gb": 24, "num_processes": 2},
    "dataset": {"columns": ["prompt", "gold"], "format": "conversational", "rows": 500, "max_prompt_tokens": 800},
}
COMPOSITE = [{"reward": "composite", "args": {"answer": {"reward": "exact"}, "format": {"reward": "format"}}}]
SPEC = {
    "config": {"loss_type": "grpo", "num_generations": 8, "per_device_train_batch_size": 8, "max_steps": 100},
    "model": {"path": "Qwen/Qwen2.5-0.5B-Instruct"}, "dataset": {"path": "train.jsonl"}, "rewards": COMPOSITE,
}  # fmt: skip


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with 128 long samples, 500 rows of log and a dataset."""
    monkeypatch.setenv("GRPO_RLVR_HOME", str(tmp_path / "keys"))
    folder, rng = tmp_path / "workspace", random.Random(0)
    folder.mkdir()
    rows, thought = [], "First the tens, then the units, and we check again. "
    for index in range(128):
        a, b = index // 8 * 3 + 1, index // 8 * 7 + 2
        answer = a + b + (rng.randint(1, 9) if rng.random() < 0.6 else 0)
        text = f"<think>{thought * rng.randint(5, 60)}</think><answer>{answer}</answer>"
        prompt = [
            {"role": "user", "content": f"What is {a} plus {b}? " + "Think in think tags, answer in answer tags. " * 8}
        ]
        rows.append({"prompt": prompt, "completion": [{"role": "assistant", "content": text}], "gold": str(a + b)})
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    log = [
        str({
            "loss": f"{rng.gauss(0, 0.01):.4f}", "grad_norm": "0.3", "reward": f"{0.3 + step / 1500:.4f}",
            "reward_std": "0.3", "entropy": f"{max(0.02, 0.9 - step / 400):.4f}", "kl": f"{step / 1000:.4f}",
            "completions/mean_length": str(200 + step), "completions/clipped_ratio": "0.1",
        })
        for step in range(500)
    ]  # fmt: skip
    (folder / "train.log").write_text("\n".join(log), encoding="utf-8")
    return folder


async def answered(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool and hold its answer against the limit, as text and as data."""
    result = await client.call_tool(tool, arguments)
    text = "".join(getattr(part, "text", "") for part in result.content)
    assert not result.is_error, text
    assert len(text) < LIMIT * CHARACTERS_PER_TOKEN, f"{tool}: {len(text)} characters"
    return dict(result.structured_content or {})


async def test_every_answer_on_realistic_input_stays_small(root: Path) -> None:
    async with Client(build_server(Workspace.open(root))) as client:
        checked = await answered(
            client, "check_config", {"config": BAD_CONFIG, "setup": SETUP, "from_version": "0.17.0"}
        )
        assert len(checked["findings"]) > 10
        await answered(client, "estimate_memory", {"config": BAD_CONFIG, "setup": SETUP})
        scored = await answered(client, "score_samples", {"path": "samples.jsonl", "rewards": COMPOSITE})
        assert scored["samples"] == 128
        reading = {"reading_id": scored["reading_id"]}
        await answered(client, "start_reading", {**reading, "channel": "terminal"})
        await answered(client, "reading_status", reading)
        await answered(client, "launch_training", {"spec": SPEC, "dry_run": True})
        await answered(client, "recommend_variant", {"path": "train.log", "config": {"loss_type": "grpo"}})
        await answered(client, "check_environment", {})
        await answered(client, "list_runs", {})


def test_a_page_of_a_log_stays_small(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo_rlvr.models.run import RunLogs

    wide = RunLogs(run_id="train-1", lines=["│ table " * 150] * 100, truncated=False, path="log")
    monkeypatch.setattr("grpo_rlvr.runs.run_logs", lambda *_, **__: wide)
    result = run_logs(Workspace.open(root), "train-1")
    assert result.truncated and len(result.model_dump_json()) < LIMIT * CHARACTERS_PER_TOKEN


async def test_what_every_session_pays_stays_small(root: Path) -> None:
    assert len(INSTRUCTIONS) < 500 * CHARACTERS_PER_TOKEN
    async with Client(build_server(Workspace.open(root))) as client:
        tools = (await client.list_tools()).tools
    shown = sum(len(json.dumps([tool.name, tool.description, tool.input_schema])) for tool in tools)
    assert len(tools) <= 15 and shown < LIMIT * CHARACTERS_PER_TOKEN
    assert all(len(tool.description or "") < 160 for tool in tools)
