"""What this machine and its interpreters can do."""

from typing import Annotated

from pydantic import Field

from grpo_rlvr.models.environment import Environment
from grpo_rlvr.workspace import Workspace


def check_environment(
    workspace: Workspace,
    python: Annotated[str | None, Field(description="Interpreter to look at instead of the configured one.")] = None,
) -> Environment:
    """Report which Python trains, what it has, GPUs, the code sandbox's level and what is missing; installs nothing."""
    from grpo_rlvr.doctor import examine

    return examine(workspace, python)
