"""What is asked of a worker and what comes back: one run of a program, its limits, its result."""

import marshal
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from rlvr_rewards.sandbox import _wire
from rlvr_rewards.sandbox._launch import Kind

Mode = Literal["values", "split", "stdio"]
Status = Literal["ok", "timeout", "output", "ready", "lost"]
T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """Bounds of one program.

    Attributes:
        wall_s: Wall time for all of it, in seconds.
        cpu_s: Processor time, in whole seconds.
        memory_mb: Address space of each of its processes.
        output_kb: Bytes taken from it before it is stopped.
    """

    wall_s: float = 10.0
    cpu_s: int = 11
    memory_mb: int = 512
    output_kb: int = 8192


@dataclass(frozen=True)
class Job:
    """One run of a program.

    Attributes:
        mode: How it is run.
        payloads: One a child.
        limits: What bounds it.
        rich: Mode `split`: the worker should have the large packages of tests loaded.
    """

    mode: Mode
    payloads: tuple[dict[str, Any], ...]
    limits: Limits
    rich: bool = False

    @property
    def kind(self) -> Kind:
        """The kind of worker that it needs."""
        if self.mode != "split":
            return "program"
        return "rich tests" if self.rich else "tests"

    def frames(self) -> bytes:
        """Return the request as bytes."""
        bodies, limits = [marshal.dumps(payload) for payload in self.payloads], self.limits
        sizes = [*map(len, bodies), 0][:2]
        head = _wire.REQUEST.pack(_wire.MODES.index(self.mode), limits.wall_s, limits.cpu_s, limits.memory_mb,
                                  limits.output_kb, *sizes)  # fmt: skip
        return b"".join([head, *bodies])


@dataclass(frozen=True)
class Result:
    """What came out of a run: how it ended, the exit status (negative: a signal), the bytes of its result pipe."""

    status: Status
    exit: int = 0
    data: bytes = b""
    facts: dict[str, Any] = field(default_factory=dict)


Grading = Generator[Job, Result, T]  # yields jobs, and returns what it found
