"""Bad input to every tool that takes a file or an object: one clear error each, and the server keeps serving."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.anyio

# (tool, name of the path argument, further arguments)
FILE_TOOLS = (
    ("check_config", "path", {}),
    ("recommend_variant", "path", {}),
    ("score_samples", "path", {"rewards": [{"reward": "exact"}]}),
    ("launch_training", "path", {}),
    ("sample_outputs", "prompts", {"model": "policy"}),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def bad_files(root: Path) -> dict[str, str]:
    """Make files that nobody can use. Returns name -> what the error must mention."""
    (root / "empty.jsonl").write_text("", encoding="utf-8")
    (root / "blank.jsonl").write_text(" \n\n", encoding="utf-8")
    (root / "broken.json").write_text('{"a": [1, 2', encoding="utf-8")
    (root / "binary.jsonl").write_bytes(os.urandom(2000) + b"\0" * 100)
    (root / "latin1.jsonl").write_bytes('{"prompt": "é", "completion": "ü"}\n'.encode("latin-1"))
    (root / "folder.jsonl").mkdir()
    (root / "outside.jsonl").symlink_to(root.parent / "secret.jsonl")
    (root.parent / "secret.jsonl").write_text('{"prompt": "a", "completion": "b"}\n', encoding="utf-8")
    return {
        "no-such-file.jsonl": "no-such-file.jsonl",
        "empty.jsonl": "empty",
        "blank.jsonl": "blank.jsonl",
        "broken.json": "broken.json",
        "binary.jsonl": "binary",
        "latin1.jsonl": "UTF-8",
        "outside.jsonl": "outside",
        "../secret.jsonl": "outside",
        "/etc/passwd": "outside",
        "": "",
        "a\0b": "",
    }


async def assert_refused(client: Any, tool: str, arguments: dict[str, Any], mention: str) -> None:
    """The call fails with one clear line, and the server still answers."""
    result = await client.call_tool(tool, arguments)
    text = "".join(getattr(block, "text", "") for block in result.content)
    shown = {key: str(value)[:60] for key, value in arguments.items()}
    assert result.is_error, f"{tool}({shown}) was accepted: {text[:300]}"
    assert text.strip() not in {"", f"Error executing tool {tool}"}, f"{tool}({shown}) crashed"
    assert "Traceback" not in text and mention.lower() in text.lower(), f"{tool}({shown}): {text[:300]}"
    assert len(text) < 2000
    assert not (await client.call_tool("list_runs", {})).is_error


@pytest.mark.parametrize(("tool", "argument", "more"), FILE_TOOLS, ids=[row[0] for row in FILE_TOOLS])
async def test_files_that_cannot_be_used(
    connect: Any, root: Path, tool: str, argument: str, more: dict[str, Any]
) -> None:
    files = bad_files(root)
    (root / "policy").mkdir()
    (root / "policy" / "config.json").write_text("{}", encoding="utf-8")
    async with connect() as client:
        for name, mention in files.items():
            if tool == "recommend_variant" and name in {"broken.json", "latin1.jsonl"}:
                continue  # any text is a log: what cannot be read is named in the answer, see the test below
            await assert_refused(client, tool, {argument: name, **more}, mention)
        before = sorted(path.name for path in (root / ".grpo-rlvr").rglob("*") if path.is_file())
    assert before == [], "a refused call left something behind"


@pytest.mark.parametrize("tool", ["check_config", "score_samples", "launch_training"])
async def test_a_folder_instead_of_a_file(connect: Any, root: Path, tool: str) -> None:
    bad_files(root)
    more = {"rewards": [{"reward": "exact"}]} if tool == "score_samples" else {}
    async with connect() as client:
        await assert_refused(client, tool, {"path": "folder.jsonl", **more}, "folder")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"config": [1]},
        {"config": "text"},
        {"path": 7},
        {"config": {"a": 1}, "setup": []},
    ],
)
async def test_check_config_with_the_wrong_shape(connect: Any, arguments: dict[str, Any]) -> None:
    async with connect() as client:
        await assert_refused(client, "check_config", arguments, "argument")


async def test_a_setup_with_an_unknown_key_names_the_nearest(connect: Any) -> None:
    async with connect() as client:
        for tool in ("check_config", "estimate_memory"):
            await assert_refused(client, tool, {"config": {}, "setup": {"modell": {}}}, "did you mean 'model'")


async def test_an_unknown_key_inside_a_section_is_reported_not_refused(connect: Any) -> None:
    async with connect() as client:
        result = await client.call_tool(
            "check_config", {"config": {}, "setup": {"model": {"class": "dense", "colour": 1}}}
        )
    assert result.structured_content["unused_setup"] == ["model.colour"]


async def test_a_log_that_is_not_utf8_is_read_as_far_as_it_goes(connect: Any, root: Path) -> None:
    bad_files(root)
    async with connect() as client:
        result = await client.call_tool("recommend_variant", {"path": "latin1.jsonl"})
    assert result.structured_content["recommendation"]["variant"] == "insufficient_data"
    assert "UTF-8" in json.dumps(result.structured_content["parsed"])


async def test_fifty_megabytes_of_text_are_answered(connect: Any) -> None:
    line = "nothing to see here, just words 12 34\n"
    async with connect() as client:
        result = await client.call_tool("recommend_variant", {"log": line * (50_000_000 // len(line))})
        assert not result.is_error
        assert result.structured_content["recommendation"]["variant"] == "insufficient_data"
        assert len(json.dumps(result.structured_content)) < 40_000


async def test_rewards_that_name_nothing(connect: Any) -> None:
    async with connect() as client:
        for spec, mention in (
            ({"reward": "exat"}, "exact"),
            ({"reward": "exact", "args": {"cse": True}}, "case"),
            ({"reward": "missing.py:f"}, "missing.py"),
            ({"reward": "exact", "weigth": 1}, "weigth"),
            ({}, "reward"),
        ):
            await assert_refused(client, "score_samples", {"path": "samples.jsonl", "rewards": [spec]}, mention)


async def test_readings_that_are_not_there(connect: Any) -> None:
    async with connect() as client:
        for tool in ("reading_status", "start_reading"):
            for reading in ("r-20260101-00000000", "../../etc", ""):
                await assert_refused(client, tool, {"reading_id": reading}, "reading")
