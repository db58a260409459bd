"""Step 5: from a log to a decision."""

from typing import Annotated

from pydantic import Field

from grpo_rlvr.errors import InputError
from grpo_rlvr.models.recommend import Recommendation
from grpo_rlvr.tools.inputs import ConfigArgument, SetupArgument, TrlVersionArgument, load_setup
from grpo_rlvr.workspace import Workspace


def recommend_variant(
    workspace: Workspace,
    log: Annotated[
        str | None, Field(description="Pasted training output: any format TRL or its relatives print.")
    ] = None,
    path: Annotated[
        str | None,
        Field(description="File or folder with the log instead: console text, JSON lines, CSV, a run folder."),
    ] = None,
    config: ConfigArgument = None,
    setup: SetupArgument = None,
    trl_version: TrlVersionArgument = None,
) -> Recommendation:
    """Diagnose a GRPO run from its metrics and say which variant, if any, would help; never certifies quality."""
    from grpo_rlvr.metrics import recommend

    if (log is None) == (path is None):
        raise InputError(
            "give exactly one of 'log' and 'path'", where="arguments", remedy="Paste the log, or name its file."
        )
    source = log if log is not None else workspace.resolve(path or "", "path")
    if path is not None:
        workspace.folder(path, "path") if workspace.resolve(path, "path").is_dir() else workspace.file(path, "path")
    return recommend(source, config=config, setup=load_setup(setup), trl_version=trl_version)
