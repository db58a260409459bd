"""What clients show before a call: completions, the icon, descriptions of resources, pages of long lists."""

from pathlib import Path
from typing import Any

import pytest
from mcp_types import PromptReference, ResourceTemplateReference

from grpo_rlvr.config import RULES
from grpo_rlvr.models.run import RunLogs
from grpo_rlvr.tools.run import _last_lines

pytestmark = pytest.mark.anyio
RULE_TEMPLATE = ResourceTemplateReference(type="ref/resource", uri="grpo://rules/{rule_id}")
READING_TEMPLATE = ResourceTemplateReference(type="ref/resource", uri="grpo://readings/{reading_id}")
RUN_TEMPLATE = ResourceTemplateReference(type="ref/resource", uri="grpo://runs/{run_id}")
DIAGNOSE = PromptReference(type="ref/prompt", name="diagnose-run")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def completed(connect: Any, era: str, ref: Any, name: str, typed: str) -> Any:
    """The completion of one argument."""
    async with connect(era) as client:
        return (await client.complete(ref, {"name": name, "value": typed})).completion


async def test_rule_ids_are_completed_those_that_start_so_first(connect: Any, era: str) -> None:
    answer = await completed(connect, era, RULE_TEMPLATE, "rule_id", "kwarg")
    ids = {rule.id for rule in RULES}
    assert set(answer.values) == {name for name in ids if "kwarg" in name}
    assert answer.values[0].startswith("kwarg") and not answer.has_more


async def test_a_long_list_is_cut_and_its_length_told(connect: Any, era: str) -> None:
    answer = await completed(connect, era, RULE_TEMPLATE, "rule_id", "")
    assert len(answer.values) == 100 and answer.total == len(RULES) and answer.has_more


async def test_every_completed_rule_can_be_read(connect: Any) -> None:
    async with connect() as client:
        answer = await client.complete(RULE_TEMPLATE, {"name": "rule_id", "value": "batch"})
        for value in answer.completion.values:
            assert value in (await client.read_resource(f"grpo://rules/{value}")).contents[0].text
    assert answer.completion.values


async def test_readings_are_completed_and_an_empty_workspace_has_none(connect: Any, era: str, root: Path) -> None:
    assert (await completed(connect, era, READING_TEMPLATE, "reading_id", "")).values == []
    assert (await completed(connect, era, RUN_TEMPLATE, "run_id", "")).values == []
    async with connect(era) as client:
        scored = await client.call_tool("score_samples", {"path": "samples.jsonl", "rewards": [{"reward": "exact"}]})
        reading = scored.structured_content["reading_id"]
        answer = await client.complete(READING_TEMPLATE, {"name": "reading_id", "value": reading[:4]})
    assert answer.completion.values == [reading]


async def test_the_prompt_completes_logs_and_unknown_arguments_complete_to_nothing(
    connect: Any, era: str, root: Path
) -> None:
    (root / "train.log").write_text("{'loss': 0}\n", encoding="utf-8")
    assert (await completed(connect, era, DIAGNOSE, "log", "tra")).values == ["train.log"]
    assert (await completed(connect, era, DIAGNOSE, "nothing", "")).values == []


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_server_has_an_icon_that_needs_no_network(connect: Any, mode: str) -> None:
    async with connect(mode) as client:
        icons = client.server_info.icons
    assert icons and icons[0].src.startswith("data:image/svg+xml;base64,") and icons[0].mime_type == "image/svg+xml"


async def test_the_skill_file_bears_the_skills_name_and_references_say_when_to_read_them(connect: Any) -> None:
    async with connect() as client:
        resources = {str(item.uri): item for item in (await client.list_resources()).resources}
    skill = resources["skill://grpo-rlvr-training/SKILL.md"]
    assert skill.name == "grpo-rlvr-training" and skill.description and "GRPO" in skill.description
    recipe = resources["skill://grpo-rlvr-training/references/recipe.md"]
    assert recipe.description and recipe.description.startswith("Read this")


def logs(*lines: str) -> RunLogs:
    """Some lines of a run's log."""
    return RunLogs(run_id="train-1", lines=list(lines), truncated=False, path="train.log")


def test_a_log_is_cut_from_its_front_and_says_so() -> None:
    cut = _last_lines(logs(*(f"{n:03d}" + "x" * 96 for n in range(100))), 1000)
    assert [line[:3] for line in cut.lines] == [f"{n:03d}" for n in range(90, 100)]
    assert cut.truncated


def test_a_single_line_that_is_too_long_keeps_its_end() -> None:
    cut = _last_lines(logs("short", "y" * 5000 + "ValueError: the cause"), 1000)
    assert len(cut.lines) == 1 and len(cut.lines[0]) == 1000 and cut.lines[0].endswith("the cause")
    assert cut.truncated


def test_a_log_that_fits_is_returned_whole() -> None:
    assert _last_lines(logs("one", "two"), 1000) == logs("one", "two")
    assert _last_lines(logs(), 1000) == logs()
