"""Run sampling and training as detached runs that are watched, stopped, resumed, and never lost."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_rlvr.runs.launching import launch
    from grpo_rlvr.runs.resuming import resume_run
    from grpo_rlvr.runs.sampling import start_sampling
    from grpo_rlvr.runs.specs import run_gate, run_spec
    from grpo_rlvr.runs.status import list_runs, metric_rows, run_logs, run_status, sampled_completions, stop_run

_HOMES = {
    "launch": "launching",
    "list_runs": "status",
    "metric_rows": "status",
    "resume_run": "resuming",
    "run_gate": "specs",
    "run_logs": "status",
    "run_spec": "specs",
    "run_status": "status",
    "sampled_completions": "status",
    "start_sampling": "sampling",
    "stop_run": "status",
}

__all__ = [
    "launch",
    "list_runs",
    "metric_rows",
    "resume_run",
    "run_gate",
    "run_logs",
    "run_spec",
    "run_status",
    "sampled_completions",
    "start_sampling",
    "stop_run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
