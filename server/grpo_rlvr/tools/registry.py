"""What a tool is, apart from any protocol."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# Called with (done, total or None, message) by long tools.
Progress = Callable[[float, float | None, str], None]


@dataclass(frozen=True)
class Tool:
    """A function whose first parameter is the workspace, with the hints that clients show.

    The function's name, docstring and annotations are the tool's name, description and schemas.
    """

    fn: Callable[..., Any]
    title: str
    read_only: bool = True
    destructive: bool = False
    idempotent: bool | None = None
    open_world: bool = False
    # (workspace, result, arguments) -> PNG: shown beside the answer where the caller asks for it.
    picture: Callable[[Any, Any, dict[str, Any]], bytes] | None = None

    @property
    def name(self) -> str:
        """The tool's name on the wire."""
        return self.fn.__name__
