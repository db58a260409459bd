"""The demo's MCP client: calls tools over stdio and says what it does."""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import anyio
from mcp.client import Client, ClientRequestContext
from mcp.client.stdio import StdioServerParameters
from mcp_types import ElicitRequestParams, ElicitResult, Implementation, TextContent

from grpo_rlvr import __version__
from grpo_rlvr.demo.oracle import Judge, answer_form
from grpo_rlvr.errors import UserError

POLL_S = 1.0
# A person wants to see progress, not every step.
SAY_S = 5.0
ENDED = frozenset({"halted", "finished", "failed", "stopped", "lost"})


class DemoError(UserError):
    """A step of the demo did not do what it shows."""

    exit_code = 1


class DemoClient:
    """A connected client with the demo's oracle behind its forms."""

    def __init__(self, root: str, judge: Judge, say: Callable[[str], None]) -> None:
        self.say, self._judge = say, judge
        self.forms = 0
        # The client passes only a few variables on by itself; this server must see the same settings as this process.
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "grpo_rlvr", "serve", "--root", root], env=dict(os.environ)
        )
        self.client = Client(
            server,
            client_info=Implementation(name="grpo-rlvr-demo", version=__version__),
            elicitation_callback=self._answer,
            read_timeout_seconds=600,
        )

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured answer.

        Raises:
            DemoError: the tool answered with an error.
        """
        answer, failed = await self.attempt(tool, **arguments)
        if failed:
            raise DemoError(f"{tool} failed: {answer}")
        return answer if isinstance(answer, dict) else {}

    async def attempt(self, tool: str, **arguments: Any) -> tuple[dict[str, Any] | str, bool]:
        """Call a tool. Returns (structured answer, False) or (error text, True)."""
        result = await self.client.call_tool(tool, arguments)
        text = " ".join(block.text for block in result.content if isinstance(block, TextContent))
        if result.is_error:
            return text, True
        return (result.structured_content or json.loads(text)), False

    async def wait(self, run_id: str, what: str) -> dict[str, Any]:
        """Poll a run until it ends, and say how far it is, at most every five seconds.

        Raises:
            DemoError: it did not finish; the end of its log is in the message.
        """
        said, when = "", 0.0
        while True:
            status = await self.call("run_status", run_id=run_id)
            line = _progress_line(status)
            if line != said and time.monotonic() - when > SAY_S:
                self.say(f"  {what}: {line}")
                said, when = line, time.monotonic()
            if status["state"] in ENDED:
                break
            await anyio.sleep(POLL_S)
        if status["state"] != "finished":
            tail = "\n".join(status["log_tail"])
            raise DemoError(f"{what} ended as {status['state']}: {status['message']}\n{tail}")
        return status

    async def _answer(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.forms += 1
        schema = getattr(params, "requested_schema", {})
        content: Any = answer_form(params.message, schema, self._judge)
        return ElicitResult(action="accept", content=content)


def _progress_line(status: dict[str, Any]) -> str:
    parts = [status["state"]]
    if progress := status.get("progress"):
        total = f"/{progress['total']}" if progress.get("total") else ""
        parts = [f"{progress['phase']} {progress['done']}{total} {progress['unit']}"]
    metrics = status.get("metrics") or {}
    for key, name in (("reward", "reward"), ("entropy", "entropy")):
        if isinstance(metrics.get(key), int | float):
            parts.append(f"{name} {metrics[key]:.2f}")
    return ", ".join(parts)
