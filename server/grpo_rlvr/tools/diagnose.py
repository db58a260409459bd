"""Step 5: from a log to a decision."""

from pathlib import Path
from typing import Annotated, Any

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
    compare_with: Annotated[
        str | None, Field(description="File or run folder of another run to compare with, against both runs' noise.")
    ] = None,
) -> Recommendation:
    """Diagnose a GRPO run from its metrics and say which variant, if any, would help; never certifies quality."""
    from grpo_rlvr.metrics import compare, recommend

    source = log_source(workspace, log, path)
    result = recommend(source, config=config, setup=load_setup(setup), trl_version=trl_version)
    if compare_with is None:
        return result
    other = _log_path(workspace, compare_with, "compare_with")
    return result.model_copy(update={"comparison": compare(source, other)})


def picture_of_log(workspace: Workspace, result: Recommendation, arguments: dict[str, Any]) -> bytes:
    """Draw the few curves that carry the verdict, as a PNG.

    Raises:
        MissingPackageError: matplotlib is not installed. InputError: the log has no curve.
    """
    from grpo_rlvr.metrics import parse, picture_png

    return picture_png(parse(log_source(workspace, arguments.get("log"), arguments.get("path"))), result)


def log_source(workspace: Workspace, log: str | None, path: str | None) -> str | Path:
    """Return the pasted text, or the path of the log.

    Raises:
        InputError: both or neither given. NotFoundError: nothing at the path.
    """
    if log is not None and path is None:
        return log
    if path is None or log is not None:
        raise InputError(
            "give exactly one of 'log' and 'path'", where="arguments", remedy="Paste the log, or name its file."
        )
    return _log_path(workspace, path, "path")


def _log_path(workspace: Workspace, path: str, argument: str) -> Path:
    is_folder = workspace.resolve(path, argument).is_dir()
    return workspace.folder(path, argument) if is_folder else workspace.file(path, argument)
