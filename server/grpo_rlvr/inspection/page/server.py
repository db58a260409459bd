"""The page served on loopback: one-time link, session cookie, strict headers."""

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from grpo_rlvr.errors import InputError, UserError
from grpo_rlvr.inspection.page.api import PageApi
from grpo_rlvr.workspace import Workspace

ASSETS = Path(__file__).parent
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/render.js": ("render.js", "text/javascript; charset=utf-8"),
    "/transport.js": ("transport.js", "text/javascript; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
}
HOST = "127.0.0.1"
MAX_BODY = 64_000
SESSION_SECONDS = 7 * 24 * 3600
START_SECONDS = 10.0
HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        b"trusted-types 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """Refuses foreign host names (DNS rebinding) and foreign origins, and adds the headers to every answer."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        if scope["type"] == "http" and not self._trusted(dict(scope["headers"])):
            response = JSONResponse({"error": "This page answers only to its own address."}, status_code=403)
            await response(scope, receive, send_guarded)
            return
        await self.app(scope, receive, send_guarded)

    def _trusted(self, headers: dict[bytes, bytes]) -> bool:
        origin = headers.get(b"origin", b"").decode("latin-1")
        host = headers.get(b"host", b"").decode("latin-1")
        return host in self.hosts and (not origin or origin.partition("://")[2] in self.hosts)


def build_app(api: PageApi, port: int) -> Guard:
    """Return the web application of one reading."""
    cookie = f"grpo_rlvr_{api.reading.store.reading_id}"

    async def asset(request: Request) -> Response:
        name, kind = FILES[request.url.path]
        return Response((ASSETS / name).read_bytes(), headers={"content-type": kind})

    async def session(request: Request) -> Response:
        payload = await _payload(request)
        known = api.session(request.cookies.get(cookie))
        key = known.key if known else api.open_session(str(payload.get("ticket", "")), _browser(request))
        if key is None:
            return _refused("This link was used already. Ask for a new one: each opens the page once.")
        response = JSONResponse({"ok": True})
        response.set_cookie(cookie, key, max_age=SESSION_SECONDS, httponly=True, samesite="strict", path="/")
        return response

    async def act(request: Request) -> Response:
        known = api.session(request.cookies.get(cookie))
        if known is None:
            return _refused("This page is not open here. Ask for a new link.")
        payload = await _payload(request)
        # File locks and disk writes wait, so they stay off the event loop.
        answer = await asyncio.to_thread(api.answer, known, request.path_params["action"], payload)
        return JSONResponse(answer)

    async def user_error(_: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, status_code=422)

    routes = [Route(path, asset, methods=["GET"]) for path in FILES]
    routes.append(Route("/api/session", _json_only(session), methods=["POST"]))
    routes.append(Route("/api/{action}", _json_only(act), methods=["POST"]))
    return Guard(Starlette(routes=routes, exception_handlers={UserError: user_error}), port)


def _json_only(
    endpoint: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Refuse bodies that a foreign page could send without asking: plain forms are never JSON."""

    async def checked(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return JSONResponse({"error": "Send JSON."}, status_code=415)
        return await endpoint(request)

    return checked


async def _payload(request: Request) -> dict[str, Any]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise InputError("the request is too large", where="page", remedy="Shorten the note.")
    try:
        value = await asyncio.to_thread(_parse, body)
    except ValueError:
        raise InputError("the request is not JSON", where="page", remedy="Reload the page.") from None
    return value


def _parse(body: bytes) -> dict[str, Any]:
    import json

    value = json.loads(body or b"{}")
    if not isinstance(value, dict):
        raise ValueError
    return value


def _refused(message: str) -> Response:
    return JSONResponse({"error": message}, status_code=403)


def _browser(request: Request) -> str:
    agent = request.headers.get("user-agent", "unknown browser")
    for name in ("Edg", "OPR", "Firefox", "Chrome", "HeadlessChrome", "Safari"):
        _, found, rest = agent.partition(f"{name}/")
        if found:
            return f"{name} {rest.split()[0]}"
    return agent[:80]


class PageServer:
    """A running page. `new_url()` mints one-time links; `stop()` ends it."""

    def __init__(self, reading_id: str, workspace: Workspace, port: int = 0) -> None:
        self.api = PageApi(reading_id, workspace, "page")
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
        except OSError as error:
            self._socket.close()
            raise InputError(
                f"cannot listen on {HOST}:{port}: {error.strerror}", where="argument 'port'", remedy="Use another port."
            ) from None
        self.port = int(self._socket.getsockname()[1])
        # No log lines and no signal handlers: the page may live inside a server whose stdout is a protocol.
        config = uvicorn.Config(build_app(self.api, self.port), log_config=None, access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="grpo-rlvr reading page", daemon=True)

    def start(self) -> "PageServer":
        """Serve in a thread; returns once requests are answered.

        Raises:
            InputError: it did not start in time.
        """
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise InputError("the reading page did not start", where="page", remedy="Read in the terminal.")
            time.sleep(0.005)
        return self

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def new_url(self) -> str:
        """Return a link that opens the page once; later reloads in the same browser go on working."""
        # Behind the '#' it never reaches a log or a link preview, and fetching the page does not use it up.
        return f"http://{HOST}:{self.port}/#{self.api.new_ticket()}"

    def wait(self) -> None:
        """Block until a reader is done or the page is stopped."""
        while self._thread.is_alive() and not self.api.done.wait(timeout=0.5):
            pass

    def stop(self) -> None:
        """End the page."""
        self._server.should_exit = True
        self._thread.join(timeout=5)
        self._socket.close()
