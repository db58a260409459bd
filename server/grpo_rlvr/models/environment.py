"""The answer of `check_environment` and of the CLI's `doctor`."""

from typing import Literal

from pydantic import Field

from grpo_rlvr.models.common import Model


class Check(Model):
    """One thing that was looked at."""

    name: str = Field(description="What was looked at.")
    state: Literal["ok", "optional", "warning", "missing"] = Field(
        description="missing stops a step; a warning may; optional is not needed unless its purpose is."
    )
    detail: str = Field(description="What was found.")
    remedy: str = Field(default="", description="The command or change that mends it.")


class Gpu(Model):
    """A GPU that nvidia-smi lists."""

    index: int
    name: str
    memory_gb: float = Field(description="Total memory, GB of 10^9 bytes.")
    free_gb: float = Field(description="Free memory, GB of 10^9 bytes.")


class Environment(Model):
    """What this machine and its interpreters can do."""

    server_python: str = Field(description="The interpreter of this server or command line.")
    server_version: str = Field(description="Version of grpo-rlvr-training.")
    training_python: str = Field(description="The interpreter that trains.")
    training_source: str = Field(description="Where that choice comes from.")
    packages: dict[str, str] = Field(description="Training packages found there, with versions.")
    gpus: list[Gpu]
    sandbox: str = Field(description="Level of the boundary for model-written code.")
    checks: list[Check] = Field(description="What was looked at, the missing ones first.")
