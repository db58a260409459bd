"""Step 3: a person's reading, and the gate it opens."""

from typing import Annotated, Literal

from pydantic import Field

from grpo_rlvr.models.reading import ReadingStarted, ReadingStatus
from grpo_rlvr.workspace import Workspace


def start_reading(
    workspace: Workspace,
    reading_id: Annotated[str, Field(description="Id that score_samples returned.")],
    channel: Annotated[
        Literal["page", "terminal", "elicitation"],
        Field(description="Where the person reads: a local web page, a terminal, or this client's own forms."),
    ] = "page",
) -> ReadingStarted:
    """Open scored samples for a person to read blind; takes no verdicts itself."""
    from grpo_rlvr.inspection import start_reading as start

    return start(reading_id, workspace, channel)


def reading_status(
    workspace: Workspace,
    reading_id: Annotated[str, Field(description="Id that score_samples returned.")],
) -> ReadingStatus:
    """Report how far a reading is, where reward and reader disagree, and whether the gate is open; changes nothing."""
    from grpo_rlvr.inspection import reading_status as status

    return status(reading_id, workspace)
