"""From a careless reward to an accepted launch, over forms, in both eras; and every edit that closes the gate again."""

import json
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult, Implementation

pytestmark = pytest.mark.anyio
POLICY = '[gate]\nreaders = ["person", "oracle"]\nmin_median_seconds = 0.0\n'
CARELESS = "def right(completions, gold, **kwargs):\n    return [float(g in c) for c, g in zip(completions, gold)]\n"
MENDED = (
    "def right(completions, gold, **kwargs):\n"
    "    return [float(c == f'<answer>{g}</answer>') for c, g in zip(completions, gold)]\n"
)
CONFIG = {"loss_type": "grpo", "use_cpu": True, "bf16": False, "max_steps": 2, "per_device_train_batch_size": 8}
REWARDS = [{"reward": "mine.py:right"}]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def workspace(root: Path) -> Path:
    """Samples of which one is paid by the careless reward although wrong; a model and data to launch with."""
    (root / "grpo-rlvr.toml").write_text(POLICY, encoding="utf-8")
    (root / "mine.py").write_text(CARELESS, encoding="utf-8")
    rows = []
    for index in range(64):
        gold = str(100 + index // 4)
        completion = f"<answer>{gold}</answer>" if index % 2 else "<answer>none</answer>"
        rows.append({"prompt": f"{99 + index // 4} + 1 =", "completion": completion, "gold": gold})
    rows[0]["completion"] = "<answer>perhaps 100</answer>"
    (root / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (root / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    model = root / "policy"
    model.mkdir()
    config = {
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
        "tie_word_embeddings": True,
    }  # fmt: skip
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return root


async def careful(context: Any, params: Any) -> ElicitResult:
    """A reader who compares each completion with the reference, and stands by it on a second look."""
    blocks = params.message.split("\n--- ")[1:]
    content: dict[str, Any] = {}
    for name in params.requested_schema["properties"]:
        if name == "reader_kind":
            content[name] = "oracle"
        elif name == "reader_name":
            content[name] = "careful"
        elif name.startswith("verdict_"):
            block = blocks[int(name.removeprefix("verdict_")) - 1]
            gold = block.split("gold: ")[1].split("\n")[0]
            content[name] = "correct" if f"COMPLETION\n> <answer>{gold}</answer>" in block else "wrong"
    return ElicitResult(action="accept", content=content)


async def read(client: Any) -> tuple[str, dict[str, Any]]:
    """Score the samples, read them all, and return the reading's id and status."""
    scored = await client.call_tool("score_samples", {"path": "samples.jsonl", "rewards": REWARDS})
    assert not scored.is_error, scored.content
    reading = scored.structured_content["reading_id"]
    asked = {"reading_id": reading, "channel": "elicitation", "rows_per_form": 10}
    for _ in range(3):
        started = await client.call_tool("start_reading", asked)
        assert not started.is_error, started.content
    status = await client.call_tool("reading_status", {"reading_id": reading})
    return reading, dict(status.structured_content)


async def gate_reasons(client: Any, reading: str, rewards: list[dict[str, Any]] | None = None) -> list[str]:
    """The gate's part of what stands against a launch; empty when the gate lets it start."""
    spec = {
        "config": CONFIG, "model": {"path": "policy"}, "dataset": {"path": "train.jsonl"},
        "rewards": rewards or REWARDS, "reading": reading,
    }  # fmt: skip
    result = await client.call_tool("launch_training", {"spec": spec, "stage": "proof", "dry_run": True})
    assert not result.is_error, result.content
    found = [refusal["rule"] for refusal in result.structured_content["refusals"]]
    assert [rule for rule in found if not rule.startswith("gate:")] == []
    return found


async def test_the_reward_is_mended_until_reading_and_reward_agree(connect: Any, era: str, workspace: Path) -> None:
    info = Implementation(name="scripted", version="1")
    async with connect(era, elicitation_callback=careful, client_info=info) as client:
        careless, status = await read(client)
        assert status["gate"]["open"] is False
        assert [row["kind"] for row in status["disagreements"]].count("false_positive") >= 1
        assert await gate_reasons(client, careless)
        (workspace / "mine.py").write_text(MENDED, encoding="utf-8")
        assert await gate_reasons(client, careless), "the old reading must not hold for the mended reward"
        mended, status = await read(client)
        assert status["gate"]["open"] is True, status["gate"]["reasons"]
        assert await gate_reasons(client, mended) == []


async def test_every_edit_closes_the_gate_again(connect: Any, workspace: Path) -> None:
    (workspace / "mine.py").write_text(MENDED, encoding="utf-8")
    async with connect(elicitation_callback=careful) as client:
        reading, _ = await read(client)
        assert await gate_reasons(client, reading) == []
        (workspace / "mine.py").write_text(MENDED + "# one line more\n", encoding="utf-8")
        assert await gate_reasons(client, reading)
        (workspace / "mine.py").write_text(MENDED, encoding="utf-8")
        assert await gate_reasons(client, reading) == []
        assert await gate_reasons(client, reading, [{"reward": "mine.py:right", "weight": 0.5}])
        folder = workspace / ".grpo-rlvr" / "readings" / reading
        for name, old, new in (("samples.jsonl", "perhaps", "surely"), ("verdicts.jsonl", '"wrong"', '"correct"')):
            text = (folder / name).read_text(encoding="utf-8")
            assert old in text
            (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")
            assert await gate_reasons(client, reading), name
            (folder / name).write_text(text, encoding="utf-8")
        assert await gate_reasons(client, reading) == []
