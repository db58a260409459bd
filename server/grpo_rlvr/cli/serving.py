"""The two verbs that run for long: the server and the demo."""

import argparse

from grpo_rlvr.workspace import Workspace


def serve(options: argparse.Namespace) -> int:
    """Serve the tools over MCP until the client leaves or the process is interrupted."""
    from grpo_rlvr.app import build_server

    server = build_server(Workspace.open(options.root))
    if options.http:
        from grpo_rlvr.protocol.http import serve_http

        serve_http(server, options.host, options.port, options.allowed_host)
    else:
        server.run("stdio")
    return 0


def demo(options: argparse.Namespace) -> int:
    """Run the whole loop and print where the report lies."""
    from grpo_rlvr.demo.loop import run_demo

    return run_demo(options.out, fast=options.fast, real=options.real)
