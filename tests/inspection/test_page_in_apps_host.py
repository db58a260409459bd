"""The reading page inside the sandboxed frame of an MCP Apps host, in a real Chromium."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from grpo_rlvr import inspection
from grpo_rlvr.errors import RefusedError
from grpo_rlvr.inspection.store import ReadingStore
from grpo_rlvr.inspection.verdicts import fold
from grpo_rlvr.workspace import Workspace

pytestmark = pytest.mark.slow
Rows = list[dict[str, Any]]
HOST = """
window.relay = (id, result, error) => document.querySelector("iframe").contentWindow.postMessage(
  error ? {jsonrpc: "2.0", id, error: {code: -1, message: error}} : {jsonrpc: "2.0", id, result}, "*");
window.addEventListener("message", ({ data }) => {
  if (data.method === "ui/initialize") relay(data.id, {protocolVersion: "2026-01-26"});
  else if (data.method === "ui/notifications/initialized") document.querySelector("iframe").contentWindow.postMessage(
    {jsonrpc: "2.0", method: "ui/notifications/tool-result", params: {_meta: {"grpo-rlvr/ticket": TICKET}}}, "*");
  else if (data.method === "tools/call") calls.push(data);
});
window.calls = [];
const frame = document.createElement("iframe");
frame.sandbox = "allow-scripts";
frame.style = "width: 100%; height: 800px; border: 0";
frame.srcdoc = HTML;
document.body.replaceChildren(frame);
"""


class AppsHost:
    """An MCP Apps host: shows the page in a sandboxed frame and carries its tool calls to the server."""

    def __init__(self, browser: Any, ticket: str) -> None:
        self.browser, self.log = browser, []
        self.lost = 0
        browser.open("about:blank")
        setup = HOST.replace("TICKET", json.dumps(ticket))
        browser.run(f"{{ const HTML = {json.dumps(inspection.app_page_html())}; {setup} }}")

    def serve(self) -> None:
        """Answer what the page has asked since; the first `lost` calls of a verdict get no answer."""
        for call in self.browser.run("calls.splice(0)"):
            assert call["params"]["name"] == "reading_page"
            arguments = call["params"]["arguments"]
            answer = inspection.app_call(arguments["ticket"], arguments["action"], arguments["payload"])
            self.log.append(arguments["action"])
            if arguments["action"] == "verdict" and self.lost:
                self.lost -= 1
                continue
            result = {"content": [{"type": "text", "text": json.dumps(answer)}], "structuredContent": answer}
            self.browser.run(f"relay({call['id']}, {json.dumps(result)})")

    def see(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        with self.browser.frame():
            return self.browser.run(expression)

    def until(self, expression: str, seconds: float = 90) -> None:
        """Serve the page until an expression is true in it."""
        deadline = time.monotonic() + seconds
        while not self.see(expression):
            assert time.monotonic() < deadline, (expression, self.log)
            self.serve()

    def enter(self, name: str) -> None:
        """Say who reads, with the keyboard."""
        self.until("typeof state === 'object' && state.rows.length && !document.getElementById('welcome').hidden")
        with self.browser.frame():
            self.browser.focus("#reader-name")
            self.browser.type(name)
            self.browser.press("Enter")

    def judge(self, number: int, key: str) -> None:
        """Give row `number` a verdict once it is shown."""
        self.until(f"state.shownAt && document.getElementById('place').textContent.startsWith('{number} /')")
        with self.browser.frame():
            self.browser.press(key)


def test_the_same_page_reads_inside_a_sandboxed_apps_host(
    browser: Any, workspace: Workspace, sums: Rows, score: Callable[..., Any]
) -> None:
    reading_id = score(sums, "sound_rewards.py:correct").reading_id
    host = AppsHost(browser, inspection.app_ticket(reading_id, workspace, "test host 1.0"))
    host.enter("Ann")
    for number, key in enumerate("cwt", 1):
        host.judge(number, key)
    host.until("state.queue.length === 0 && state.at === 3")
    reader = next(iter(fold(ReadingStore.open(workspace, reading_id).events()).values()))
    assert (reader.channel, reader.client) == ("app", "test host 1.0")
    assert {row: [look["verdict"] for look in looks] for row, looks in reader.looks.items()} == {
        "r001": ["correct"], "r002": ["wrong"], "r003": ["cannot_tell"],
    }  # fmt: skip


def test_a_verdict_that_the_host_loses_is_sent_again_and_counts_once(
    browser: Any, workspace: Workspace, sums: Rows, score: Callable[..., Any]
) -> None:
    reading_id = score(sums, "sound_rewards.py:correct").reading_id
    host = AppsHost(browser, inspection.app_ticket(reading_id, workspace, "test host 1.0"))
    host.enter("Ann")
    host.lost = 1
    host.see("transport.patience = 300")
    host.judge(1, "c")
    host.until("!document.getElementById('problem').hidden")
    assert "1 not saved yet: The host does not answer." in host.see("document.getElementById('problem').textContent")
    host.judge(2, "c")
    host.until("state.queue.length === 0")
    assert host.see("document.getElementById('problem').hidden")
    assert host.log.count("verdict") == 3
    reader = next(iter(fold(ReadingStore.open(workspace, reading_id).events()).values()))
    assert [len(looks) for looks in reader.looks.values()] == [1, 1]


def test_a_tool_call_without_the_pages_ticket_is_refused(
    workspace: Workspace, sums: Rows, score: Callable[..., Any]
) -> None:
    inspection.app_ticket(score(sums, "sound_rewards.py:correct").reading_id, workspace, "host")
    with pytest.raises(RefusedError, match="opens no reading"):
        inspection.app_call("guess", "state", "{}")
