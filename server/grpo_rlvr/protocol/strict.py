"""Tools that refuse what they do not know, with errors that an agent can act on."""

import base64
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, cast

import anyio.from_thread
import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool as ServerTool
from mcp_types import CallToolResult, ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from grpo_rlvr.errors import UserError, nearest
from grpo_rlvr.tools import Tool
from grpo_rlvr.workspace import Workspace

MAX_REPORTED = 5
# Some clients refuse a schema without any keyword, which is how pydantic writes "any JSON value".
ANY_JSON = {"anyOf": [{"type": name} for name in ("object", "array", "string", "number", "boolean", "null")]}
PICTURE = inspect.Parameter(
    "picture",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, Field(description="Also return the picture (PNG, about 1,500 tokens).")],
)


class StrictTool(ServerTool):
    """A tool whose unknown arguments are an error, where the SDK would drop them silently."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Run the tool; every mistake in the arguments is named with its remedy."""
        self._refuse_bad(arguments)
        return await super().run(arguments, context, convert_result)

    def _refuse_bad(self, arguments: dict[str, Any]) -> None:
        known = self.parameters.get("properties", {})
        for name in arguments:
            if name not in known:
                raise ToolError(
                    f"{self.name}: unknown argument '{name}'{nearest(name, known)}. Known arguments: "
                    f"{', '.join(known) or 'none'}."
                )
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            raise ToolError(f"{self.name}: {describe_validation(error)}") from error


def describe_validation(error: ValidationError) -> str:
    """Say in one line which arguments are wrong, with the value found and what was expected."""
    parts = []
    for item in error.errors()[:MAX_REPORTED]:
        where = ".".join(str(part) for part in item["loc"]) or "arguments"
        if item["type"] == "missing":
            parts.append(f"argument '{where}' is missing")
            continue
        found = repr(item.get("input"))
        parts.append(f"argument '{where}': {item['msg']} (found {found[:80]}{'...' if len(found) > 80 else ''})")
    more = error.error_count() - MAX_REPORTED
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "") + "."


def server_tool(tool: Tool, workspace: Workspace, meta: dict[str, Any] | None = None) -> StrictTool:
    """Bind a tool to a workspace and dress it for the SDK, with closed input schema and all hints stated."""
    return strict_from(bind(tool, workspace), tool, meta)


def strict_from(fn: Callable[..., Any], tool: Tool, meta: dict[str, Any] | None = None) -> StrictTool:
    """Make the SDK's tool from a function that already has the wire's signature."""
    made = StrictTool.from_function(
        fn,
        name=tool.name,
        title=tool.title,
        description=(inspect.getdoc(tool.fn) or "").splitlines()[0],
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.read_only if tool.idempotent is None else tool.idempotent,
            open_world_hint=tool.open_world,
        ),
        meta=meta,
    )
    made.parameters["additionalProperties"] = False
    for schema in (made.parameters, made.output_schema or {}):
        _drop_titles(schema)
        if "JsonValue" in schema.get("$defs", {}):
            schema["$defs"]["JsonValue"] = ANY_JSON
    return cast(StrictTool, made)


def _drop_titles(schema: Any) -> None:
    """Remove the titles that pydantic derives from names: every client would pay for reading each name twice."""
    if isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        for part in schema.values():
            _drop_titles(part)
    elif isinstance(schema, list):
        for part in schema:
            _drop_titles(part)


def bind(tool: Tool, workspace: Workspace) -> Callable[..., Any]:
    """Return the tool as the wire sees it: its workspace fixed, its progress reported to the client."""
    signature = inspect.signature(tool.fn)
    hidden = {"workspace", "progress"}
    wants_progress = "progress" in signature.parameters

    async def bound(ctx: Context[Any, Any], picture: bool = False, **arguments: Any) -> Any:
        more = {"progress": functools.partial(_report, ctx)} if wants_progress else {}
        call = functools.partial(guarded, tool.fn, workspace, **arguments, **more)
        result = await anyio.to_thread.run_sync(call)
        if not picture or tool.picture is None:
            return whole_result(result)
        draw = functools.partial(guarded, tool.picture, workspace, result, arguments)
        return whole_result(result, await anyio.to_thread.run_sync(draw))

    shown = [parameter for name, parameter in signature.parameters.items() if name not in hidden]
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Context[Any, Any])
    if tool.picture is not None:
        shown.append(PICTURE)
    returns = Annotated[CallToolResult, signature.return_annotation]
    return dress(bound, tool.name, [context, *shown], returns)


def whole_result(result: BaseModel, picture: bytes | None = None) -> CallToolResult:
    """Return a model as the text that agents read, without the indentation that they would pay for, and as data."""
    content: list[Any] = [TextContent(type="text", text=result.model_dump_json())]
    if picture is not None:
        content.append(ImageContent(type="image", data=base64.b64encode(picture).decode(), mime_type="image/png"))
    return CallToolResult(content=content, structured_content=result.model_dump(mode="json"))


def dress(fn: Callable[..., Any], name: str, parameters: list[inspect.Parameter], returns: Any) -> Callable[..., Any]:
    """Give a generic function the name, signature and annotations that the SDK reads schemas from."""
    fn.__name__ = name
    fn.__signature__ = inspect.Signature(parameters, return_annotation=returns)  # type: ignore[attr-defined]
    fn.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": returns}
    return fn


def guarded(fn: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Call, turning what a user can cause into a tool error; anything else stays a bug with its traceback."""
    try:
        return fn(*arguments, **keywords)
    except UserError as error:
        raise ToolError(str(error)) from error


def _report(ctx: Context[Any, Any], done: float, total: float | None, message: str) -> None:
    anyio.from_thread.run(ctx.report_progress, done, total, message[:200])
