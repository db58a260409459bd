"""The reading page inside a host that shows MCP Apps.

The host renders the page for a call of start_reading. The page asks through one tool of its own, which needs a ticket
that travels in the metadata of the result: hosts hand that to the page and not to the model. Without a ticket the tool
refuses, so that a model which calls it writes nothing.
"""

import functools
from typing import Annotated, Any

import anyio.to_thread
from mcp.server.apps import APP_MIME_TYPE, Apps, client_supports_apps
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resources import FunctionResource
from pydantic import Field

from grpo_rlvr.protocol.strict import StrictTool, guarded, strict_from
from grpo_rlvr.tools import Tool
from grpo_rlvr.workspace import Workspace

PAGE_URI = "ui://grpo-rlvr/reading.html"
READING_META = {"ui": {"resourceUri": PAGE_URI}}
TICKET = "grpo-rlvr/ticket"


def reading_app() -> Apps:
    """Return the extension that serves the page."""
    apps = Apps()
    apps.add_resource(
        FunctionResource(uri=PAGE_URI, name="reading", title="Reading page", mime_type=APP_MIME_TYPE, fn=_page_html)
    )
    return apps


def page_tool() -> StrictTool:
    """Return the tool that the page calls; hosts hide it from the model, and it refuses whoever has no ticket."""
    tool = Tool(reading_page, "Reading page", read_only=False)
    return strict_from(reading_page, tool, meta={"ui": {"resourceUri": PAGE_URI, "visibility": ["app"]}})


async def reading_page(
    ticket: Annotated[str, Field(description="The page's own ticket; nobody else has one.")],
    action: Annotated[str, Field(description="What the page asks for.")],
    payload: Annotated[str, Field(description="Its details, a JSON object as text.")] = "{}",
) -> dict[str, Any]:
    """Answer the reading page inside an MCP Apps host; not for models: it refuses without the page's ticket."""
    from grpo_rlvr.inspection import app_call

    call = functools.partial(guarded, app_call, ticket, action, payload)
    answered: dict[str, Any] = await anyio.to_thread.run_sync(call)
    return answered


async def ticket_for(ctx: Context[Any, Any], workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata that lets the page work, empty where the client shows no apps."""
    if arguments.get("channel", "page") != "page" or not client_supports_apps(ctx):
        return {}
    from grpo_rlvr.inspection import app_ticket

    info = ctx.session.client_params.client_info if ctx.session.client_params else None
    client = f"{info.name} {info.version}" if info else "unknown client"
    call = functools.partial(guarded, app_ticket, arguments["reading_id"], workspace, client)
    return {TICKET: await anyio.to_thread.run_sync(call)}


def _page_html() -> str:
    from grpo_rlvr.inspection import app_page_html

    return app_page_html()
