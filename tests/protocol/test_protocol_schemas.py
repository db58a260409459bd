"""The published schemas, compared with committed snapshots: a changed schema shows in review.

GRPO_RLVR_UPDATE_SNAPSHOTS=1 rewrites them.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

SNAPSHOTS = Path(__file__).parents[1] / "data" / "tool_schemas"
UPDATE = "GRPO_RLVR_UPDATE_SNAPSHOTS"
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_the_published_tools_are_the_committed_ones(connect: Any) -> None:
    async with connect() as client:
        tools = (await client.list_tools()).tools
    published = {tool.name: tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools}
    if os.environ.get(UPDATE):
        SNAPSHOTS.mkdir(parents=True, exist_ok=True)
        for name, schema in published.items():
            text = json.dumps(schema, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
            (SNAPSHOTS / f"{name}.json").write_text(text, encoding="utf-8")
    committed = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in SNAPSHOTS.glob("*.json")}
    assert sorted(committed) == sorted(published), f"run with {UPDATE}=1 and commit the changes"
    for name, schema in published.items():
        assert committed[name] == schema, f"the schema of {name} changed: run with {UPDATE}=1 and commit the change"


async def test_both_eras_publish_the_same_schemas(connect: Any) -> None:
    published = []
    for era in ("legacy", "2026-07-28"):
        async with connect(era) as client:
            tools = (await client.list_tools()).tools
        published.append([(tool.name, tool.input_schema, tool.output_schema) for tool in tools])
    assert published[0] == published[1]
