"""From a training log to a diagnosis and a decision about the variant.

`recommend(log)` is the whole step; `parse(log)` only reads; `judge_parsed` judges what was read, so that a picture can
be drawn of the same data; `compare` sets two runs side by side; `watch_rows` looks at a run that is still going.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_rlvr.metrics.engine import judge_parsed, recommend
    from grpo_rlvr.metrics.parsing import ParsedLog, parse
    from grpo_rlvr.metrics.picture import picture_png, picture_svg
    from grpo_rlvr.metrics.reference import render_docs
    from grpo_rlvr.metrics.two_runs import compare
    from grpo_rlvr.metrics.watch import watch_rows

_HOMES = {
    "ParsedLog": "grpo_rlvr.metrics.parsing",
    "compare": "grpo_rlvr.metrics.two_runs",
    "judge_parsed": "grpo_rlvr.metrics.engine",
    "parse": "grpo_rlvr.metrics.parsing",
    "picture_png": "grpo_rlvr.metrics.picture",
    "picture_svg": "grpo_rlvr.metrics.picture",
    "recommend": "grpo_rlvr.metrics.engine",
    "render_docs": "grpo_rlvr.metrics.reference",
    "watch_rows": "grpo_rlvr.metrics.watch",
}
__all__ = [
    "ParsedLog",
    "compare",
    "judge_parsed",
    "parse",
    "picture_png",
    "picture_svg",
    "recommend",
    "render_docs",
    "watch_rows",
]


def __getattr__(name: str) -> Any:
    """Import an engine function when it is first asked for, so that a server start stays cheap."""
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
