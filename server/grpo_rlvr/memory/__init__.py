"""GPU memory of a GRPO run: will it fit, what dominates, which lever first."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_rlvr.memory.answer import estimate
    from grpo_rlvr.memory.hardware import card_memory_gb
    from grpo_rlvr.memory.measuring import measure
    from grpo_rlvr.memory.picture import picture_png, picture_svg
    from grpo_rlvr.memory.solving import solve
    from grpo_rlvr.memory.summary import describe
    from grpo_rlvr.memory.tables import render_docs

_HOMES = {
    "card_memory_gb": "hardware",
    "describe": "summary",
    "estimate": "answer",
    "measure": "measuring",
    "picture_png": "picture",
    "picture_svg": "picture",
    "render_docs": "tables",
    "solve": "solving",
}

__all__ = [
    "card_memory_gb", "describe", "estimate", "measure", "picture_png", "picture_svg", "render_docs", "solve",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Loaded on use: the server starts without the estimator.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
