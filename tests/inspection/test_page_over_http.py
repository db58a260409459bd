"""The page's server: one-time links, sessions, blindness, headers, and readers at the same time."""

import http.client
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from grpo_rlvr import inspection
from grpo_rlvr.errors import InputError
from grpo_rlvr.inspection.store import ReadingStore
from grpo_rlvr.inspection.verdicts import fold
from grpo_rlvr.workspace import Workspace

Rows = list[dict[str, Any]]


class Page:
    """A browser without a screen: asks the page's server and keeps its cookie."""

    def __init__(self, url: str) -> None:
        address, _, self.ticket = url.partition("#")
        self.port = int(address.rstrip("/").rpartition(":")[2])
        self.cookie = ""

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Send one request and return status, headers and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        own = {"content-type": "application/json", "cookie": self.cookie} | headers
        connection.request(method, path, None if body is None else json.dumps(body), own)
        response = connection.getresponse()
        data = response.read()
        answered = {name.lower(): value for name, value in response.getheaders()}
        connection.close()
        if "set-cookie" in answered:
            self.cookie = answered["set-cookie"].partition(";")[0]
        return response.status, answered, data

    def ask(self, action: str, payload: Any = None, expect: int = 200, **headers: str) -> Any:
        """Ask for an action of the page."""
        status, _, data = self.request("POST", f"/api/{action}", payload or {}, **headers)
        assert status == expect, data
        return json.loads(data)

    def open(self, name: str = "Ann", kind: str = "person") -> Any:
        """Use the link and say who reads."""
        self.ask("session", {"ticket": self.ticket})
        return self.ask("reader", {"name": name, "kind": kind})


@pytest.fixture
def reading_id(sums: Rows, score: Callable[..., Any]) -> str:
    """A scored reading."""
    return str(score(sums, "sound_rewards.py:correct").reading_id)


@pytest.fixture
def server(workspace: Workspace, reading_id: str) -> Iterator[Any]:
    """A running page."""
    _, started = inspection.serve_page(reading_id, workspace)
    yield started
    started.stop()


def verdict(row: str, said: str = "correct", **more: Any) -> dict[str, Any]:
    """Return a verdict as the page sends it."""
    return {"row": row, "verdict": said, "note": "", "seconds": 2.0, "look": 1, "token": f"{row}-{said}"} | more


def test_a_link_opens_the_page_once_and_fetching_the_page_does_not_use_it_up(server: Any) -> None:
    url = server.new_url()
    page = Page(url)
    assert page.request("GET", "/")[0] == 200
    assert page.request("GET", "/app.js")[0] == 200
    page.open()
    assert "used already" in Page(url).ask("session", {"ticket": url.partition("#")[2]}, expect=403)["error"]
    page.ask("session", {"ticket": ""})
    assert page.ask("state")["reader"] == "Ann"


def test_nothing_is_answered_without_a_session(server: Any) -> None:
    page = Page(server.new_url())
    for action in ("state", "row", "verdict", "status", "reader"):
        page.ask(action, {}, expect=403)
    page.cookie = f"grpo_rlvr_{server.api.reading.store.reading_id}=guess"
    page.ask("state", {}, expect=403)
    page.ask("session", {"ticket": "guess"}, expect=403)


def test_foreign_hosts_origins_and_plain_forms_are_refused(server: Any) -> None:
    page = Page(server.new_url())
    page.open()
    page.ask("state", expect=403, host="evil.example")
    page.ask("state", expect=403, origin="https://evil.example")
    page.ask("state", expect=403, origin="null")
    page.ask("state", expect=415, **{"content-type": "text/plain"})
    page.ask("state", origin=f"http://127.0.0.1:{server.port}")
    assert page.request("GET", "/../server.py")[0] == 404


def test_every_answer_carries_the_strict_headers(server: Any) -> None:
    page = Page(server.new_url())
    answers = [page.request("GET", "/"), page.request("GET", "/none"), page.request("POST", "/api/state", {})]
    for _, headers, _ in answers:
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
    page.ask("session", {"ticket": page.ticket})
    _, headers, _ = page.request("POST", "/api/session", {})
    assert {"HttpOnly", "SameSite=strict"} <= set(headers["set-cookie"].split("; "))


def test_the_reader_is_blind_until_the_verdict(server: Any) -> None:
    page = Page(server.new_url())
    rows = page.open()["rows"]
    for row in rows:
        answer = page.ask("row", {"row": row["row"]})
        assert answer["revealed"] is None
        assert set(answer) == {"row", "number", "prompt", "completion", "columns", "revealed"}
    assert all(set(row) == {"row", "verdict"} for row in page.ask("state")["rows"])
    revealed = page.ask("verdict", verdict(rows[0]["row"]))["revealed"]
    assert set(revealed["scores"]) == {"correct"}
    assert page.ask("row", {"row": rows[0]["row"]})["revealed"]["looks"] == 1
    assert page.ask("row", {"row": rows[1]["row"]})["revealed"] is None


def test_a_verdict_that_arrives_twice_counts_once(server: Any, workspace: Workspace, reading_id: str) -> None:
    page = Page(server.new_url())
    row = page.open()["rows"][0]["row"]
    first = page.ask("verdict", verdict(row))
    assert page.ask("verdict", verdict(row)) == first
    page.ask("verdict", verdict(row, "wrong", token="another tab"))
    looks = next(iter(fold(ReadingStore.open(workspace, reading_id).events()).values())).looks[row]
    assert [look["verdict"] for look in looks] == ["correct"]
    page.ask("verdict", verdict(row, "wrong", look=2, token="second look"))
    assert page.ask("row", {"row": row})["revealed"]["verdict"] == "wrong"


def test_the_page_cannot_claim_time_that_did_not_pass(server: Any, workspace: Workspace, reading_id: str) -> None:
    page = Page(server.new_url())
    for row in page.open()["rows"][:5]:
        page.ask("verdict", verdict(row["row"], seconds=500.0))
    reader = next(iter(fold(ReadingStore.open(workspace, reading_id).events()).values()))
    assert reader.median_seconds is not None
    assert reader.median_seconds < 100


@pytest.mark.parametrize(
    ("action", "payload", "message"),
    [
        ("verdict", {"row": "r999"}, "no row"),
        ("verdict", {"row": "r001", "verdict": "fine"}, "unknown verdict"),
        ("verdict", {"row": 3}, "must be text"),
        ("verdict", {"row": "r001", "verdict": "wrong", "seconds": "x"}, "must be numbers"),
        ("verdict", {"row": "r001", "verdict": "wrong", "look": 3}, "needs a first"),
        ("verdict", {"row": "r001", "verdict": "wrong", "note": "x" * 3000}, "longer than 2000"),
        ("verdict", {"row": "r001", "verdict": "wrong", "note": "x" * 90_000}, "too large"),
        ("reader", {"name": "  ", "kind": "person"}, "needs a name"),
        ("reader", {"name": "x", "kind": "robot"}, "unknown kind"),
        ("dance", {}, "unknown action"),
    ],
)
def test_a_wrong_request_is_answered_with_what_is_wrong(
    server: Any, action: str, payload: dict[str, Any], message: str
) -> None:
    page = Page(server.new_url())
    page.open()
    assert message in page.ask(action, payload, expect=422)["error"]


def test_a_body_that_is_no_object_is_refused(server: Any) -> None:
    page = Page(server.new_url())
    page.open()
    assert page.request("POST", "/api/state", [1])[0] == 422


def test_several_people_at_once_lose_nothing_and_double_nothing(
    server: Any, workspace: Workspace, reading_id: str
) -> None:
    other = inspection.serve_page(reading_id, workspace)[1]
    failures: list[BaseException] = []

    def person(name: str, own: Any) -> None:
        try:
            page = Page(own.new_url())
            for row in page.open(name)["rows"][:20]:
                for _ in range(2):
                    page.ask("verdict", verdict(row["row"], token=f"{name} {row['row']}"))
        except BaseException as error:
            failures.append(error)

    people = [("Ann", server), ("Ben", other), ("Cy", server)]
    threads = [threading.Thread(target=person, args=one) for one in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.stop()
    assert failures == []
    events = ReadingStore.open(workspace, reading_id).events()
    counts = Counter((event["reader"], event["row"]) for event in events if event["event"] == "verdict")
    rows = [row.row for row in server.api.reading.rows[:20]]
    assert counts == {(f"person:{name}", row): 1 for name in ("ann", "ben", "cy") for row in rows}


def test_a_port_that_is_taken_is_an_error(server: Any, workspace: Workspace, reading_id: str) -> None:
    with pytest.raises(InputError, match="cannot listen"):
        inspection.serve_page(reading_id, workspace, port=server.port)


def test_start_reading_serves_one_page_a_reading_and_gives_a_fresh_link_each_time(
    workspace: Workspace, reading_id: str
) -> None:
    first = inspection.start_reading(reading_id, workspace, "page")
    second = inspection.start_reading(reading_id, workspace, "page")
    assert first.url is not None
    assert second.url is not None
    assert first.url != second.url
    assert first.url.partition("#")[0] == second.url.partition("#")[0]
    Page(first.url).open("Ann")
    Page(second.url).open("Ben")


def test_the_app_page_is_one_document_that_loads_nothing(workspace: Workspace) -> None:
    html = inspection.app_page_html()
    assert 'data-host="app"' in html
    assert "src=" not in html.replace("script-src", "")
    assert "<link" not in html
    assert html.count("<script>") == 3


def test_the_command_line_serves_the_page_until_the_reader_is_done(
    workspace: Workspace, sums: Rows, reading_id: str
) -> None:
    arguments = ["read", reading_id, "--root", str(workspace.root), "--name", "Ann", "--no-browser", "--json"]
    command = [sys.executable, "-m", "grpo_rlvr", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        page = Page("http" + process.stderr.readline().rpartition("http")[2].strip())
        page.ask("session", {"ticket": page.ticket})
        assert page.ask("state")["suggested_name"] == "Ann"
        row = page.ask("reader", {"name": "Ann", "kind": "person"})["rows"][0]["row"]
        page.ask("verdict", verdict(row))
        page.ask("done")
        status = json.loads(process.stdout.read())
        assert process.wait(timeout=90) == 1
    assert (status["read"], status["gate"]["open"]) == (1, False)
