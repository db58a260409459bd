"""The tool and verb tables of README.md, generated between two marks."""

import inspect
from pathlib import Path

from grpo_rlvr.tools import TOOLS

BEGIN, END = "<!-- generated: tools -->", "<!-- end of generated -->"
VERBS = {
    "check_config": "check",
    "estimate_memory": "memory",
    "sample_outputs": "sample",
    "score_samples": "score",
    "start_reading": "read",
    "reading_status": "read --status",
    "launch_training": "launch",
    "run_status": "status",
    "run_logs": "logs",
    "stop_run": "stop",
    "list_runs": "runs",
    "recommend_variant": "recommend",
    "write_report": "report",
    "check_environment": "doctor",
}


def render_docs() -> dict[str, str]:
    """Return README.md with its table of tools made anew. Run from a checkout, where README.md lies."""
    path = Path(__file__).resolve().parents[3] / "README.md"
    text = path.read_text(encoding="utf-8")
    head, found, rest = text.partition(BEGIN)
    if not found:
        return {}
    _, _, tail = rest.partition(END)
    rows = ["| tool | command line | what it does |", "| --- | --- | --- |"]
    rows += [
        f"| `{t.name}` | `grpo-rlvr {VERBS[t.name]}` | {(inspect.getdoc(t.fn) or '').splitlines()[0]} |" for t in TOOLS
    ]
    return {"README.md": head + BEGIN + "\n" + "\n".join(rows) + "\n" + END + tail}
