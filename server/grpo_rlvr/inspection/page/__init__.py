"""The reading page: keyboard-first, served on loopback, or shown by an MCP Apps host."""

import contextlib
import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from grpo_rlvr.errors import InputError, RefusedError
from grpo_rlvr.workspace import Workspace

if TYPE_CHECKING:
    from grpo_rlvr.inspection.page.api import PageApi
    from grpo_rlvr.inspection.page.server import PageServer

FOLDER = Path(__file__).parent
_shared: dict[tuple[Path, str], "PageServer"] = {}
_apps: dict[str, "PageApi"] = {}
_lock = threading.Lock()
MAX_APPS = 50


def serve_page(reading_id: str, workspace: Workspace, *, port: int = 0) -> tuple[str, "PageServer"]:
    """Serve the page of a reading on loopback, in a thread.

    Args:
        reading_id: The reading.
        workspace: Where it lies.
        port: The port; 0 takes a free one.

    Returns:
        A one-time address, and the server with `new_url()`, `wait()` and `stop()`.

    Raises:
        InputError, NotFoundError: no such reading, or the port is taken. EditedError: its record was changed.
    """
    from grpo_rlvr.inspection.page.server import PageServer

    server = PageServer(reading_id, workspace, port).start()
    return server.new_url(), server


def read_on_page(
    reading_id: str,
    workspace: Workspace,
    *,
    name: str | None = None,
    open_browser: bool = True,
    port: int = 0,
    out: TextIO | None = None,
) -> None:
    """Serve the page until the reader says they are done, or the process is interrupted.

    Args:
        reading_id: The reading.
        workspace: Where it lies.
        name: The reader's name, filled in on the page.
        open_browser: Whether to open the page in a browser on this machine.
        port: The port; 0 takes a free one.
        out: Where the address is printed; standard error by default, since output may be JSON.

    Raises:
        As `serve_page`.
    """
    import webbrowser

    stream = out or sys.stderr
    url, server = serve_page(reading_id, workspace, port=port)
    server.api.suggested_name = name or ""
    print(
        f"Read here, the link opens once: {url}\nEvery verdict is saved at once; Ctrl-C stops.", file=stream, flush=True
    )
    if open_browser:
        webbrowser.open(url)
    with contextlib.suppress(KeyboardInterrupt):
        server.wait()
    server.stop()


def shared_page(reading_id: str, workspace: Workspace) -> "PageServer":
    """Return this process's one page of a reading, started on first use.

    Raises:
        As `serve_page`.
    """
    key = (workspace.root, reading_id)
    with _lock:
        if key not in _shared:
            _shared[key] = serve_page(reading_id, workspace)[1]
        return _shared[key]


def app_ticket(reading_id: str, workspace: Workspace, client: str) -> str:
    """Return a secret that lets the page in an MCP Apps host work on a reading.

    It belongs into the metadata of a tool result, which hosts hand to the page and not to the model.

    Raises:
        InputError, NotFoundError: no such reading. EditedError: its record was changed.
    """
    from grpo_rlvr.inspection.page.api import PageApi

    api = PageApi(reading_id, workspace, "app")
    ticket = api.open_session(api.new_ticket(), client)
    assert ticket is not None, "a fresh ticket opens a session"
    with _lock:
        _apps[ticket] = api
        while len(_apps) > MAX_APPS:
            _apps.pop(next(iter(_apps)))
    return ticket


def app_call(ticket: str, action: str, payload: str) -> dict[str, Any]:
    """Answer the page in an MCP Apps host.

    Args:
        ticket: What `app_ticket` returned.
        action: state, reader, row, verdict, status or done.
        payload: A JSON object as text.

    Raises:
        RefusedError: the ticket is unknown: a model does not have it. InputError: a payload that does not fit.
    """
    with _lock:
        api = _apps.get(ticket)
    session = api.session(ticket) if api else None
    if api is None or session is None:
        raise RefusedError(
            "this ticket opens no reading",
            where="argument 'ticket'",
            remedy="Only the reading page has one: read there.",
        )
    try:
        value = json.loads(payload)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InputError("must be a JSON object", where="argument 'payload'", remedy="Reload the page.")
    return api.answer(session, action, value)


def app_page_html() -> str:
    """Return the same page as one HTML document with everything inside, for an MCP Apps host."""
    html = (FOLDER / "index.html").read_text(encoding="utf-8")
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    html = html.replace('<link rel="stylesheet" href="style.css">', f"<style>\n{style}</style>")
    for name in ("render.js", "transport.js", "app.js"):
        script = (FOLDER / name).read_text(encoding="utf-8")
        html = html.replace(f'<script defer src="{name}"></script>', "")
        html = html.replace("</body>", f"<script>\n{script}</script>\n</body>")
    return html.replace('<html lang="en">', '<html lang="en" data-host="app">')
