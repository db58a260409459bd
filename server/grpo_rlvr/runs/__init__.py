"""Run sampling and training as detached runs that are watched, stopped, resumed, and never lost."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_rlvr.runs.launching import launch
    from grpo_rlvr.runs.sampling import start_sampling
    from grpo_rlvr.runs.status import list_runs, metric_rows, run_logs, run_status, sampled_completions, stop_run

_HOMES = {
    "launch": "launching",
    "list_runs": "status",
    "metric_rows": "status",
    "run_logs": "status",
    "run_status": "status",
    "sampled_completions": "status",
    "start_sampling": "sampling",
    "stop_run": "status",
}

__all__ = [
    "launch",
    "list_runs",
    "metric_rows",
    "run_logs",
    "run_status",
    "sampled_completions",
    "start_sampling",
    "stop_run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
