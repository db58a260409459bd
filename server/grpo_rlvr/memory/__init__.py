"""GPU memory of a GRPO run: will it fit, what dominates, which lever first."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_rlvr.memory.answer import estimate

_HOMES = {"estimate": "answer"}

__all__ = ["estimate"]


def __getattr__(name: str) -> Any:
    # Loaded on use: the server starts without the estimator.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
