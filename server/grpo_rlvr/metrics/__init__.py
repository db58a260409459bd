"""From a training log to a diagnosis and a decision about the variant.

`recommend(log)` is the whole step; `parse(log)` only reads.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_rlvr.metrics.parsing import ParsedLog, parse
    from grpo_rlvr.metrics.engine import judge_parsed, recommend

_HOMES = {
    "ParsedLog": "grpo_rlvr.metrics.parsing",
    "judge_parsed": "grpo_rlvr.metrics.engine",
    "parse": "grpo_rlvr.metrics.parsing.sources",
    "recommend": "grpo_rlvr.metrics.engine",
}
__all__ = ["ParsedLog", "judge_parsed", "parse", "recommend"]


def __getattr__(name: str) -> Any:
    """Import an engine function when it is first asked for, so that a server start stays cheap."""
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
