"""A local judge endpoint that speaks the chat protocol, with faults on demand."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rlvr_rewards import _worker

Answerer = Callable[[str, str], Any]


class JudgeServer:
    """What the endpoint does, and what it was asked."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[Callable[[Any], None]] = []
        self.model = "stub-judge-2026-01"
        self.says: Answerer = lambda answer, nonce: "good" in answer
        self.lock = threading.Lock()
        self.url = ""

    def reply(self, body: dict[str, Any]) -> str:
        """Return the judge's text: a verdict that passes every criterion, or none, as `says` decides."""
        text = body["messages"][-1]["content"]
        nonce = re.search(r"The nonce is (\w+)\.\Z", text)[1]  # type: ignore[index]
        answer = re.search(rf"=====BEGIN ANSWER {nonce}=====\n(.*)\n=====END ANSWER {nonce}=====", text, re.DOTALL)[1]  # type: ignore[index]
        said = self.says(answer, nonce)
        if isinstance(said, str):
            return said
        count = len(re.findall(r"^\d+\. ", text.split("=====BEGIN")[0], re.MULTILINE))
        entries = [{"id": index, "reason": "read it", "pass": said} for index in range(1, count + 1)]
        return json.dumps({"nonce": nonce, "criteria": entries})


def _handler(server: JudgeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append({"path": self.path, **body})
            server.headers.append(dict(self.headers))
            with server.lock:
                fault = server.faults.pop(0) if server.faults else None
            if fault is not None:
                fault(self)
                return
            send(self, 200, {"model": server.model, "choices": [{"message": {"content": server.reply(body)}}]})

        def log_message(self, *args: Any) -> None:
            return

    return Handler


def send(handler: Any, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
    """Answer a request with a JSON body, or with the bytes given."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def status(code: int, headers: dict[str, str] | None = None) -> Callable[[Any], None]:
    """Return a fault that answers with an HTTP status."""
    return lambda handler: send(handler, code, {"error": "no"}, headers)


def raw(body: bytes) -> Callable[[Any], None]:
    """Return a fault that answers 200 with these bytes."""
    return lambda handler: send(handler, 200, body)


def dripping(seconds: float) -> Callable[[Any], None]:
    """Return a fault that sends one byte at a time, each in time, for longer than any deadline."""

    def fault(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                handler.wfile.write(b" ")
                handler.wfile.flush()
            except OSError:
                return
            threading.Event().wait(0.02)

    return fault


class Faults:
    """The faults by name, for tests that cannot import this file."""

    status = staticmethod(status)
    raw = staticmethod(raw)
    dripping = staticmethod(dripping)


@pytest.fixture
def faults() -> type[Faults]:
    return Faults


@pytest.fixture
def judge_server() -> Iterator[JudgeServer]:
    state = JudgeServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield state
    server.shutdown()
    server.server_close()


@pytest.fixture
def fresh_worker() -> Iterator[_worker.Worker]:
    """A symbolic worker of this test's own, ended afterwards."""
    worker = _worker.Worker()
    yield worker
    worker.close()
