"""The MCP server: tools, resources and prompts over one workspace. Engines are imported only when a tool runs."""

import inspect
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, RequestStateSecurity
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import Field

from grpo_rlvr import __version__
from grpo_rlvr.models.reading import ReadingStarted
from grpo_rlvr.protocol.apps import READING_META, page_tool, reading_app, ticket_for
from grpo_rlvr.protocol.completions import add_completions
from grpo_rlvr.protocol.elicit import read_by_forms
from grpo_rlvr.protocol.icon import ICON
from grpo_rlvr.protocol.resources import add_prompts, add_resources
from grpo_rlvr.protocol.skills import Skills
from grpo_rlvr.protocol.strict import bind, dress, server_tool, strict_from, whole_result
from grpo_rlvr.tools import TOOLS, Tool
from grpo_rlvr.tools.read import start_reading
from grpo_rlvr.workspace import Workspace

INSTRUCTIONS = """\
Checks, gates, launches and diagnoses GRPO / RLVR training on Hugging Face TRL. The steps:
1. route: sample_outputs, then score_samples. Its route says sft_first, grpo or nothing_to_learn from the measured base
   success rate. Without a verifier that code can run, RL does not apply.
2. check: check_config for the user's own TRL version, and estimate_memory. Findings carry fixes as data.
3. read: start_reading opens 50-100 scored samples for a person. Verdicts come from the person, over a local page, a
   terminal or the client's forms; no tool takes them as arguments. reading_status shows disagreements and the gate.
4. launch: launch_training starts stage proof, smoke, then full, each in the background; run_status, run_logs, stop_run.
5. diagnose: recommend_variant on a run folder or pasted log. Most bad runs are not a variant problem.
Paths are relative to the workspace root. Unknown stays unknown: leave out setup facts that are not known.
Vision-language RL, DPO, SFT and judge-only tasks are outside; VLM configs are explained but not launched.
"""
# A person may look at one form for a while before sending it.
FORM_TTL_S = 24 * 3600.0


def build_server(workspace: Workspace) -> MCPServer[Any]:
    """Return a server whose tools act on one workspace."""
    tools = [
        _reading_tool(tool, workspace) if tool.fn is start_reading else server_tool(tool, workspace) for tool in TOOLS
    ]
    server: MCPServer[Any] = MCPServer(
        name="grpo-rlvr",
        title="GRPO / RLVR training",
        description="Validates, gates, launches and diagnoses GRPO training on TRL.",
        instructions=INSTRUCTIONS,
        icons=[ICON],
        version=__version__,
        tools=[*tools, page_tool()],
        extensions=[Skills(), reading_app()],
        log_level="WARNING",
        request_state_security=RequestStateSecurity.ephemeral(ttl=FORM_TTL_S),
    )
    add_resources(server, workspace)
    add_prompts(server)
    add_completions(server, workspace)
    return server


def _reading_tool(tool: Tool, workspace: Workspace) -> Any:
    """`start_reading` may talk back to the client's person, which only the protocol layer can do."""
    plain = bind(tool, workspace)

    async def bound(ctx: Context[Any, Any], rows_per_form: int = 5, **arguments: Any) -> Any:
        if arguments.get("channel") == "elicitation":
            answer = await read_by_forms(ctx, workspace, arguments["reading_id"], rows_per_form)
            return answer if isinstance(answer, InputRequiredResult) else whole_result(answer)
        started = await plain(ctx=ctx, **arguments)
        return started.model_copy(update={"meta": await ticket_for(ctx, workspace, arguments) or None})

    rows_per_form = inspect.Parameter(
        "rows_per_form",
        inspect.Parameter.KEYWORD_ONLY,
        default=5,
        annotation=Annotated[int, Field(ge=1, le=10, description="Rows on one form, for channel 'elicitation'.")],
    )
    shown = [*inspect.signature(plain).parameters.values(), rows_per_form]
    returns = Annotated[CallToolResult, ReadingStarted] | InputRequiredResult
    return strict_from(dress(bound, tool.name, shown, returns), tool, meta=READING_META)
