"""The two verbs that run for long: the server and the demo."""

import argparse
import gc
from pathlib import Path

from grpo_rlvr.errors import InputError
from grpo_rlvr.skillfiles import CHECKOUT, PLUGIN
from grpo_rlvr.workspace import Workspace


def serve(options: argparse.Namespace) -> int:
    """Serve the tools over MCP until the client leaves or the process is interrupted."""
    # Start-up makes a hundred thousand objects that all stay: collecting among them costs a tenth of the start.
    gc.disable()
    from grpo_rlvr.app import build_server

    workspace = Workspace.open(options.root)
    refuse_strange_roots(workspace.root)
    server = build_server(workspace)
    gc.freeze()
    gc.enable()
    if options.http:
        from grpo_rlvr.protocol.http import serve_http

        serve_http(server, options.host, options.port, options.allowed_host)
    else:
        server.run("stdio")
    return 0


def refuse_strange_roots(root: Path) -> None:
    """Some clients start servers at / or in the plugin's own folder, where nobody would look for runs and readings.

    Raises:
        InputError: the workspace is such a folder.
    """
    if root == Path(root.anchor) or (root == CHECKOUT and PLUGIN.is_dir()):
        raise InputError(
            f"the client started the server in '{root}', which is no workspace",
            where="--root",
            remedy="Add --root and the project's folder to the server's arguments in the client's settings.",
        )


def demo(options: argparse.Namespace) -> int:
    """Run the whole loop and print where the report lies."""
    from grpo_rlvr.demo.loop import run_demo

    return run_demo(options.out, fast=options.fast, real=options.real)
