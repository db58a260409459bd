"""The answer of `write_report`."""

from pydantic import Field

from grpo_rlvr.models.common import Model


class ReportWritten(Model):
    """A report that was written."""

    path: str = Field(description="The HTML file.")
    bytes: int = Field(description="Its size.")
    sections: list[str] = Field(description="What it shows, in order.")
    missing: list[str] = Field(description="What it could not show, with the reason.")
