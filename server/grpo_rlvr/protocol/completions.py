"""Completions for the arguments of resource templates and prompts: rule ids, run ids, reading ids, log files."""

import functools
from collections.abc import Callable
from typing import Any

import anyio.to_thread
from mcp.server import MCPServer
from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)

from grpo_rlvr.errors import UserError
from grpo_rlvr.workspace import Workspace

# The protocol's limit for one answer.
MAX_VALUES = 100
LOG_ENDINGS = (".log", ".jsonl", ".txt", ".csv", ".out")
Source = Callable[[Workspace], list[str]]


def add_completions(server: MCPServer[Any], workspace: Workspace) -> None:
    """Register the handler."""

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(
        ref: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        context: CompletionContext | None,
    ) -> Completion | None:
        source = SOURCES.get((ref.uri if isinstance(ref, ResourceTemplateReference) else ref.name, argument.name))
        if source is None:
            return None
        values = await anyio.to_thread.run_sync(functools.partial(matching, source, workspace, argument.value))
        return Completion(values=values[:MAX_VALUES], total=len(values), has_more=len(values) > MAX_VALUES)


def matching(source: Source, workspace: Workspace, typed: str) -> list[str]:
    """Return the values that hold what was typed, those that start with it first; none when they cannot be listed."""
    try:
        found = [value for value in source(workspace) if typed.lower() in value.lower()]
    except (UserError, OSError):
        return []
    return sorted(found, key=lambda value: not value.lower().startswith(typed.lower()))


def rule_ids(workspace: Workspace) -> list[str]:
    """Return the ids of all config rules, sorted."""
    from grpo_rlvr.config import RULES

    return sorted(rule.id for rule in RULES)


def run_ids(workspace: Workspace) -> list[str]:
    """Return the ids of this workspace's runs, newest first."""
    from grpo_rlvr.runs import list_runs

    return [run.run_id for run in list_runs(workspace).runs]


def reading_ids(workspace: Workspace) -> list[str]:
    """Return the ids of this workspace's readings, newest first."""
    from grpo_rlvr.inspection import reading_ids as ids

    return ids(workspace)


def log_sources(workspace: Workspace) -> list[str]:
    """Return what a diagnosis can read: log files at the top of the workspace, then runs."""
    files = sorted(path.name for path in workspace.root.iterdir() if path.is_file() and path.suffix in LOG_ENDINGS)
    return [*files, *run_ids(workspace)]


# (template or prompt, argument) -> what may stand there.
SOURCES: dict[tuple[str, str], Source] = {
    ("grpo://rules/{rule_id}", "rule_id"): rule_ids,
    ("grpo://runs/{run_id}", "run_id"): run_ids,
    ("grpo://readings/{reading_id}", "reading_id"): reading_ids,
    ("diagnose-run", "log"): log_sources,
}
