"""The report: one HTML file that a person can decide by."""

from typing import Annotated

from pydantic import Field

from grpo_rlvr.models.report import ReportWritten
from grpo_rlvr.workspace import Workspace


def write_report(
    workspace: Workspace,
    run_id: Annotated[str, Field(description="Run to report on.")],
    path: Annotated[str | None, Field(description="File to write; in the store when not given.")] = None,
    notes: Annotated[
        list[str] | None,
        Field(max_length=50, description="Sentences to show on top, such as how the config came about."),
    ] = None,
) -> ReportWritten:
    """Write one self-contained HTML report on a run, from config to diagnosis; does not judge quality."""
    from grpo_rlvr.report import write

    return write(run_id, workspace, path, notes or [])
