"""A real server process goes on serving whatever a reward does to its surroundings."""

import json
import sys
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from grpo_rlvr.workspace import Workspace

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
REWARDS = """
import os, signal, sys

def kills_its_parent(completions, **kwargs):
    os.kill(os.getppid(), signal.SIGKILL)
    return [0.0] * len(completions)

def exits(completions, **kwargs):
    sys.exit(0)

def prints(completions, **kwargs):
    for _ in range(1024):
        os.write(1, b"x" * (1 << 20))
    return [0.0] * len(completions)

def bombs(completions, **kwargs):
    while True:
        os.fork()

def allocates(completions, **kwargs):
    return [float(len(bytearray(50 << 30)))]
"""
EXPECTED = {
    "kills_its_parent": "died",
    "exits": "exit",
    "prints": "output",
    "bombs": "processes",
    "allocates": "memory",
}


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone."""
    return "asyncio"


async def test_the_server_names_the_reward_and_goes_on_serving(
    workspace: Workspace, sums: list[dict[str, Any]]
) -> None:
    (workspace.root / "r.py").write_text(REWARDS, encoding="utf-8")
    (workspace.root / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sums), encoding="utf-8")
    command = ["-m", "grpo_rlvr", "serve", "--root", str(workspace.root)]
    async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
        for name, kind in EXPECTED.items():
            arguments = {"path": "samples.jsonl", "rewards": [{"reward": f"r.py:{name}"}]}
            answer = await client.call_tool("score_samples", arguments)
            assert answer.structured_content is not None
            assert [(e["reward"], e["kind"]) for e in answer.structured_content["errors"]] == [(name, kind)]
        sound = {"path": "samples.jsonl", "rewards": [{"reward": "sound_rewards.py:correct"}]}
        answer = await client.call_tool("score_samples", sound)
    assert answer.structured_content is not None
    assert answer.structured_content["errors"] == []
