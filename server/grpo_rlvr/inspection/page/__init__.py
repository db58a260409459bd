"""The reading page: keyboard-first, served on loopback, or shown by an MCP Apps host."""

import contextlib
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from grpo_rlvr.workspace import Workspace

if TYPE_CHECKING:
    from grpo_rlvr.inspection.page.server import PageServer

FOLDER = Path(__file__).parent
_shared: dict[tuple[Path, str], "PageServer"] = {}
_lock = threading.Lock()


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
