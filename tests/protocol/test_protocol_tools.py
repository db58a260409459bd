"""Every tool through the in-memory client, in both protocol eras."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import CallToolResult, TextContent

from grpo_rlvr.tools import TOOLS

pytestmark = pytest.mark.anyio
TRL_LOG = "\n".join(str({"loss": 0.0, "reward": 0.1 + index / 50, "epoch": index / 40}) for index in range(40))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def answer(result: CallToolResult) -> dict[str, Any]:
    """The structured answer of a call that succeeded; its text is the same JSON."""
    text = "".join(block.text for block in result.content if isinstance(block, TextContent))
    assert not result.is_error, text
    assert json.loads(text) == result.structured_content
    return dict(result.structured_content or {})


def refusal(result: CallToolResult) -> str:
    """The one-line error of a call that failed."""
    assert result.is_error
    text = "".join(block.text for block in result.content if isinstance(block, TextContent))
    assert "Traceback" not in text
    return text


async def test_lists_every_tool_with_title_description_hints_and_both_schemas(connect: Any, era: str) -> None:
    async with connect(era) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [*(tool.name for tool in TOOLS), "reading_page"]
    assert len(tools) <= 15
    for tool in tools:
        assert tool.title and tool.description and "\n" not in tool.description
        assert ";" in tool.description or " not " in tool.description, f"{tool.name} does not say what it leaves out"
        assert tool.annotations is not None
        hints = tool.annotations
        assert None not in (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
        assert tool.output_schema and tool.output_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        for name, schema in tool.input_schema["properties"].items():
            assert schema.get("description"), f"{tool.name}.{name} is not described"


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
async def test_refuses_an_unknown_argument_with_the_known_ones(connect: Any, tool: str) -> None:
    async with connect() as client:
        text = refusal(await client.call_tool(tool, {"frobnicate": 1}))
    assert "unknown argument 'frobnicate'" in text and "Known arguments" in text


async def test_names_the_nearest_argument_for_a_typo(connect: Any, era: str) -> None:
    async with connect(era) as client:
        text = refusal(await client.call_tool("check_config", {"config": {}, "trl_versoin": "1.16.0"}))
    assert "trl_version" in text


async def test_says_which_argument_has_the_wrong_type(connect: Any) -> None:
    async with connect() as client:
        text = refusal(await client.call_tool("list_runs", {"limit": "many"}))
    assert "argument 'limit'" in text and "many" in text and "pydantic" not in text


async def test_check_config_answers_with_findings_and_fixes(connect: Any, era: str) -> None:
    config = {"num_generations": 8, "per_device_train_batch_size": 6, "max_prompt_length": 128}
    async with connect(era) as client:
        found = answer(await client.call_tool("check_config", {"config": config, "trl_version": "1.16.0"}))
    assert found["verdict"] == "error"
    fields = {field for finding in found["findings"] for field in finding["fields"]}
    assert {"per_device_train_batch_size", "max_prompt_length"} <= fields
    assert "max_prompt_length" not in found["fixed_config"]


async def test_check_config_knows_the_size_of_a_model_by_its_name(connect: Any) -> None:
    setup = {"model": {"name": "Qwen/Qwen2.5-7B"}, "hardware": {"gpus": 1, "gpu_mem_gb": 24.1}}
    config = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3}
    async with connect() as client:
        checked = await client.call_tool("check_config", {"config": config, "setup": setup, "trl_version": "1.16.0"})
    assert "vllm-share-below-weights" in {finding["rule"] for finding in checked.structured_content["findings"]}


async def test_check_config_reads_a_file_of_the_workspace(connect: Any) -> None:
    async with connect() as client:
        found = answer(await client.call_tool("check_config", {"path": "config.json"}))
    assert found["verdict"] == "ok"


async def test_estimate_memory_answers_with_phases_and_assumptions(connect: Any, era: str) -> None:
    setup = {"model": {"name": "Qwen2.5-7B-Instruct"}, "hardware": {"gpus": 1, "gpu_mem_gb": 80}}
    async with connect(era) as client:
        found = answer(await client.call_tool("estimate_memory", {"config": {}, "setup": setup}))
    assert found["verdict"] == "does_not_fit" and found["peak_gb"] > 100
    assert found["phases"] and found["assumed"] and found["levers"]


async def test_score_then_read_status_keeps_the_gate_closed_until_somebody_reads(connect: Any, era: str) -> None:
    async with connect(era) as client:
        scored = answer(
            await client.call_tool("score_samples", {"path": "samples.jsonl", "rewards": [{"reward": "exact"}]})
        )
        status = answer(await client.call_tool("reading_status", {"reading_id": scored["reading_id"]}))
    assert scored["route"]["route"] == "grpo" and scored["errors"] == []
    assert status["state"] == "not_started" and status["gate"]["open"] is False


async def test_start_reading_on_the_page_gives_a_loopback_address_and_a_command(connect: Any) -> None:
    async with connect() as client:
        scored = answer(
            await client.call_tool("score_samples", {"path": "samples.jsonl", "rewards": [{"reward": "exact"}]})
        )
        started = answer(await client.call_tool("start_reading", {"reading_id": scored["reading_id"]}))
    assert started["url"].startswith("http://127.0.0.1:") and "grpo-rlvr read" in started["command"]


async def test_recommend_variant_reads_a_pasted_log(connect: Any, era: str) -> None:
    async with connect(era) as client:
        found = answer(await client.call_tool("recommend_variant", {"log": TRL_LOG}))
    assert found["labels"][0]["label"] == "healthy" and found["recommendation"]["variant"] == "grpo"


async def test_launch_without_a_reading_is_refused_with_the_remedy(connect: Any, root: Path) -> None:
    (root / "train.jsonl").write_text('{"prompt": "1+1=", "gold": "2"}\n' * 16, encoding="utf-8")
    spec = {
        "config": {"use_cpu": True, "bf16": False, "loss_type": "grpo"},
        "model": {"path": "policy"},
        "dataset": {"path": "train.jsonl"},
        "rewards": [{"reward": "exact"}],
    }
    async with connect() as client:
        text = refusal(await client.call_tool("launch_training", {"spec": spec, "stage": "proof"}))
        runs = answer(await client.call_tool("list_runs", {}))
    assert "reading" in text
    assert runs["runs"] == []


@pytest.mark.parametrize("tool", ["run_status", "run_logs", "stop_run", "write_report"])
async def test_an_unknown_run_is_one_clear_error(connect: Any, tool: str) -> None:
    async with connect() as client:
        text = refusal(await client.call_tool(tool, {"run_id": "train-20260101-000000-abcdef"}))
    assert "no run" in text and "list_runs" in text


async def test_sample_outputs_names_the_model_that_is_not_there(connect: Any) -> None:
    async with connect() as client:
        text = refusal(
            await client.call_tool("sample_outputs", {"prompts": [{"prompt": "x"}], "model": "./no-such-model"})
        )
    assert "no-such-model" in text


async def test_check_environment_names_the_training_interpreter(connect: Any, era: str) -> None:
    async with connect(era) as client:
        found = answer(await client.call_tool("check_environment", {}))
    assert found["training_python"] and found["packages"].get("trl")
    assert any(check["name"] == "code sandbox" for check in found["checks"])


async def test_resources_and_prompts_are_there(connect: Any, era: str) -> None:
    async with connect(era) as client:
        client_: Client = client
        templates = {t.uri_template for t in (await client_.list_resource_templates()).resource_templates}
        prompts = {prompt.name for prompt in (await client_.list_prompts()).prompts}
        rule = await client_.read_resource("grpo://rules/batch-not-divisible-by-group")
    assert {"grpo://rules/{rule_id}", "grpo://runs/{run_id}", "grpo://readings/{reading_id}"} <= templates
    assert prompts == {"start-grpo-run", "diagnose-run"}
    assert "num_generations" in getattr(rule.contents[0], "text", "")


async def test_a_picture_comes_beside_the_same_answer(connect: Any, era: str) -> None:
    async with connect(era) as client:
        for tool, arguments in (
            ("recommend_variant", {"log": TRL_LOG}),
            ("estimate_memory", {"setup": {"model": {"params_b": 7}}}),
        ):
            plain = await client.call_tool(tool, arguments)
            drawn = await client.call_tool(tool, {**arguments, "picture": True})
            assert drawn.structured_content == plain.structured_content
            image = drawn.content[-1]
            assert image.type == "image" and base64.b64decode(image.data).startswith(b"\x89PNG")


async def test_a_run_is_not_ranked_against_itself(connect: Any, root: Path) -> None:
    (root / "log.txt").write_text(TRL_LOG, encoding="utf-8")
    async with connect() as client:
        found = answer(await client.call_tool("recommend_variant", {"log": TRL_LOG, "compare_with": "log.txt"}))
    assert found["comparison"]["verdict"] in {"within_noise", "unknown"}
