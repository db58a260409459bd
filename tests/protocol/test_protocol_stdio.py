"""The server as clients start it: a process on stdio, in both eras, and over loopback HTTP."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

pytestmark = pytest.mark.anyio
HEAVY = ("torch", "trl", "transformers", "scipy", "numpy", "matplotlib", "pandas", "datasets")
TOKEN = "a-token-of-more-than-16-characters"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def command(root: Path, *more: str) -> list[str]:
    """The command line that serves a workspace."""
    return [sys.executable, "-m", "grpo_rlvr", "serve", "--root", str(root), *more]


async def test_a_process_serves_tools_on_stdio(root: Path, era: str) -> None:
    first, *rest = command(root)
    async with Client(StdioServerParameters(command=first, args=rest), mode=era) as client:  # type: ignore[arg-type]
        names = {tool.name for tool in (await client.list_tools()).tools}
        result = await client.call_tool("check_config", {"path": "config.json"})
        broken = await client.call_tool("check_config", {"path": "nothing.json"})
        again = await client.call_tool("list_runs", {})
    assert "check_config" in names and not result.is_error
    assert broken.is_error and not again.is_error


async def test_a_reward_that_prints_does_not_disturb_the_protocol(root: Path) -> None:
    (root / "loud.py").write_text(
        "import sys, os\n\n\ndef loud(completions, **kwargs):\n    print('x' * 1000)\n    os.write(1, b'raw')\n"
        "    sys.stderr.write('y')\n    return [float(len(c) % 2) for c in completions]\n",
        encoding="utf-8",
    )
    first, *rest = command(root)
    async with Client(StdioServerParameters(command=first, args=rest)) as client:
        result = await client.call_tool(
            "score_samples", {"path": "samples.jsonl", "rewards": [{"reward": "loud.py:loud"}]}
        )
        again = await client.call_tool("list_runs", {})
    assert not result.is_error and not again.is_error


def test_starting_the_server_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom grpo_rlvr.app import build_server\nfrom grpo_rlvr.workspace import Workspace\n"
        "import asyncio\nfrom mcp.client import Client\n"
        "async def main():\n"
        "    async with Client(build_server(Workspace.open('.'))) as client:\n"
        "        await client.list_tools()\n"
        "asyncio.run(main())\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def http_server(root: Path, token: str = "") -> Iterator[int]:
    """Serve over HTTP on loopback; yields the port."""
    port = free_port()
    environment = {**os.environ, "GRPO_RLVR_TOKEN": token}
    with subprocess.Popen(
        command(root, "--http", "--port", str(port)), env=environment, stdin=subprocess.DEVNULL
    ) as process:
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield port
        finally:
            process.terminate()
            process.wait(timeout=90)


def post(port: int, headers: dict[str, str]) -> int:
    """Send an initialize request with these headers. Returns the HTTP status."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/mcp",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


async def test_http_serves_tools_on_loopback_and_refuses_foreign_hosts_and_origins(root: Path) -> None:
    with http_server(root) as port:
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            result = await client.call_tool("list_runs", {})
        assert not result.is_error
        assert post(port, {"Host": "evil.example"}) in {403, 421}
        assert post(port, {"Origin": "http://evil.example"}) == 403


async def test_http_with_a_token_refuses_requests_without_it(root: Path) -> None:
    with http_server(root, TOKEN) as port:
        assert post(port, {}) == 401
        assert post(port, {"Authorization": "Bearer wrong"}) == 401
        assert post(port, {"Authorization": f"Bearer {TOKEN}"}) != 401


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "example.org"])
def test_http_beyond_loopback_is_refused_without_a_token(root: Path, host: str) -> None:
    environment = {**os.environ, "GRPO_RLVR_TOKEN": "short"}
    done = subprocess.run(
        command(root, "--http", "--host", host),
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "token" in done.stderr and "Traceback" not in done.stderr


async def test_waiting_for_a_run_sends_progress_events(root: Path, era: str) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))

    (root / "prompts.jsonl").write_text('{"prompt": "a"}\n', encoding="utf-8")
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "model": "none"}
    first, *rest = command(root)
    async with Client(StdioServerParameters(command=first, args=rest), mode=era) as client:  # type: ignore[arg-type]
        started = await client.call_tool("sample_outputs", {"prompts": "prompts.jsonl", "endpoint": endpoint})
        run_id = started.structured_content["run_id"]  # type: ignore[index]
        asked = {"run_id": run_id, "wait_s": 60}
        status = await client.call_tool("run_status", asked, progress_callback=on_progress)
    assert status.structured_content["state"] == "failed"  # type: ignore[index]
    assert seen and all(message for _, _, message in seen)
