"""The reading over the client's own forms, in both eras: answers count, everything else does not."""

from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitResult, Implementation

pytestmark = pytest.mark.anyio
PERMISSIVE = '[gate]\nreaders = ["person", "oracle"]\nmin_median_seconds = 0.0\n'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Reader:
    """Answers every form the same way, and counts."""

    def __init__(self, action: str = "accept", kind: str = "oracle", wrong_at: int | None = None) -> None:
        self.action, self.kind, self.wrong_at, self.forms = action, kind, wrong_at, 0
        # A verdict that stands on the second look: the same row is judged the same way again.
        self.wrong_rows: set[str] = set()

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.forms += 1
        content: dict[str, Any] = {}
        blocks = params.message.split("\n--- ")[1:]
        for name in params.requested_schema["properties"]:
            if name == "reader_kind":
                content[name] = self.kind
            elif name == "reader_name":
                content[name] = "test reader"
            elif name.startswith("verdict_"):
                content[name] = self._verdict(blocks[int(name.removeprefix("verdict_")) - 1])
        return ElicitResult(action=self.action, content=content if self.action == "accept" else None)  # type: ignore[arg-type]

    def _verdict(self, block: str) -> str:
        reference = block.split("gold: ")[1].split("\n")[0]
        right = f"> <answer>{reference}</answer>" in block
        row = block.partition("(row ")[2].partition(" ")[0]
        if self.forms == self.wrong_at:
            self.wrong_rows.add(row)
        if row in self.wrong_rows:
            right = not right
        return "correct" if right else "wrong"


async def read_all(connect: Any, era: str, reader: Reader, calls: int = 4) -> dict[str, Any]:
    """Score, then call start_reading until every row is read. Returns the reading's status."""
    info = Implementation(name="test-client", version="9.9")
    async with connect(era, elicitation_callback=reader, client_info=info) as client:
        scored = await client.call_tool("score_samples", {"path": "samples.jsonl", "rewards": [{"reward": "exact"}]})
        reading = scored.structured_content["reading_id"]
        for _ in range(calls):
            result = await client.call_tool(
                "start_reading", {"reading_id": reading, "channel": "elicitation", "rows_per_form": 10}
            )
            assert not result.is_error, result.content
            if result.structured_content["read"] >= result.structured_content["rows"]:
                break
        status = await client.call_tool("reading_status", {"reading_id": reading})
    return dict(status.structured_content)


async def test_an_oracle_opens_the_gate_only_where_the_policy_says_so(connect: Any, era: str, root: Path) -> None:
    (root / "grpo-rlvr.toml").write_text(PERMISSIVE, encoding="utf-8")
    status = await read_all(connect, era, Reader())
    assert status["gate"]["open"] is True
    reader = status["readers"][0]
    assert (reader["kind"], reader["channel"], reader["client"]) == ("oracle", "elicitation", "test-client 9.9")


async def test_the_default_policy_refuses_an_oracle(connect: Any, era: str) -> None:
    status = await read_all(connect, era, Reader())
    assert status["gate"]["open"] is False
    assert "oracle" in status["readers"][0]["why_not"]


async def test_the_default_policy_refuses_answers_too_fast_for_a_person(connect: Any, era: str) -> None:
    status = await read_all(connect, era, Reader(kind="person"))
    assert status["gate"]["open"] is False
    assert "too fast" in status["readers"][0]["why_not"]


async def test_a_disagreement_closes_the_gate(connect: Any, era: str, root: Path) -> None:
    (root / "grpo-rlvr.toml").write_text(PERMISSIVE, encoding="utf-8")
    status = await read_all(connect, era, Reader(wrong_at=2))
    assert status["gate"]["open"] is False and status["disagreements"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_refused_form_counts_as_not_read(connect: Any, era: str, action: str) -> None:
    reader = Reader(action=action)
    status = await read_all(connect, era, reader, calls=1)
    assert status["read"] == 0 and status["refusals"] == 1 and reader.forms == 1


async def test_an_accepted_but_empty_form_counts_as_not_read(connect: Any, era: str) -> None:
    async def empty(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={})

    async with connect(era, elicitation_callback=empty) as client:
        scored = await client.call_tool("score_samples", {"path": "samples.jsonl", "rewards": [{"reward": "exact"}]})
        reading = scored.structured_content["reading_id"]
        await client.call_tool("start_reading", {"reading_id": reading, "channel": "elicitation"})
        status = (await client.call_tool("reading_status", {"reading_id": reading})).structured_content
    assert status["read"] == 0 and status["refusals"] == 1


async def test_a_client_without_forms_is_told_to_use_the_page(connect: Any, era: str) -> None:
    async with connect(era) as client:
        scored = await client.call_tool("score_samples", {"path": "samples.jsonl", "rewards": [{"reward": "exact"}]})
        reading = scored.structured_content["reading_id"]
        result = await client.call_tool("start_reading", {"reading_id": reading, "channel": "elicitation"})
    assert result.is_error and "page" in result.content[0].text


async def test_a_host_that_shows_apps_gets_the_page_and_a_ticket_that_no_model_has(connect: Any, era: str) -> None:
    from mcp.client import advertise
    from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID

    async with connect(era, extensions=[advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})]) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        page = await client.read_resource(tools["start_reading"].meta["ui"]["resourceUri"])
        scored = await client.call_tool("score_samples", {"path": "samples.jsonl", "rewards": [{"reward": "exact"}]})
        started = await client.call_tool("start_reading", {"reading_id": scored.structured_content["reading_id"]})
        ticket = started.meta["grpo-rlvr/ticket"]
        state = await client.call_tool("reading_page", {"ticket": ticket, "action": "state", "payload": "{}"})
        guessed = await client.call_tool("reading_page", {"ticket": "guess", "action": "state", "payload": "{}"})
    assert tools["reading_page"].meta["ui"]["visibility"] == ["app"]
    assert page.contents[0].mime_type == APP_MIME_TYPE and "<html" in page.contents[0].text
    assert ticket not in str(started.content) + str(started.structured_content)
    assert not state.is_error and guessed.is_error
