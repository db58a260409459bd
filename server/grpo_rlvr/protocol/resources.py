"""What a client can read without calling a tool: references, rules, runs, readings; and the two prompts."""

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from grpo_rlvr.errors import UserError
from grpo_rlvr.protocol.skills import SCHEME
from grpo_rlvr.skillfiles import skill_files
from grpo_rlvr.workspace import Workspace


def add_resources(server: MCPServer[Any], workspace: Workspace) -> None:
    """Register the resource templates."""

    @server.resource("grpo://rules/{rule_id}", title="Rule", mime_type="text/markdown")
    def rule(rule_id: str) -> str:
        """One config rule: what it checks, why, examples, fix, sources."""
        from grpo_rlvr.config import explain

        return _found(explain, rule_id)

    @server.resource(f"{SCHEME}references/rules/{{page}}", title="Rule family", mime_type="text/markdown")
    def rule_page(page: str) -> str:
        """The rules of one family, such as batch.md."""
        path = skill_files().get(f"references/rules/{page}")
        if path is None:
            raise ResourceNotFoundError(f"no page '{page}' of rules")
        return path.read_text(encoding="utf-8")

    @server.resource("grpo://runs/{run_id}", title="Run", mime_type="application/json")
    def run(run_id: str) -> str:
        """A run's status as JSON."""
        from grpo_rlvr.runs import run_status

        return _found(lambda: run_status(run_id, workspace).model_dump_json(indent=2))

    @server.resource("grpo://readings/{reading_id}", title="Reading", mime_type="application/json")
    def reading(reading_id: str) -> str:
        """A reading's status as JSON."""
        from grpo_rlvr.inspection import reading_status

        return _found(lambda: reading_status(reading_id, workspace).model_dump_json(indent=2))


def add_prompts(server: MCPServer[Any]) -> None:
    """Register the two prompts that people start from."""

    @server.prompt(name="start-grpo-run", title="Start a GRPO run")
    def start(task: str = "") -> str:
        """From a verifiable task to a launched run, through all five steps."""
        subject = f" for this task: {task}" if task else ""
        return (
            f"Take me to a GRPO run{subject}. First find out whether code can check an answer; if not, say that RL "
            "does not apply. Sample the model and score the samples to measure the base success rate and route by it. "
            "Check the config for my TRL version and estimate memory; show me findings before changing anything not "
            "marked safe. Open the reading for me and wait until I have read it. Launch proof, then smoke, then full."
        )

    @server.prompt(name="diagnose-run", title="Diagnose a run")
    def diagnose(log: str = "") -> str:
        """From a log to a decision."""
        source = f"\n\nThe log, a run or a file: {log}" if log else " I will paste the log or name the run."
        return (
            "Diagnose this GRPO run with recommend_variant, with its config if I have it. Tell me what the evidence "
            f"is, what is missing, and whether a variant would help or something else is at fault.{source}"
        )


def _found(fn: Any, *arguments: str) -> str:
    try:
        return str(fn(*arguments))
    except UserError as error:
        raise ResourceNotFoundError(str(error)) from error
