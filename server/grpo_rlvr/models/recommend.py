"""Output of the diagnosis step: what a training log says, and what to change."""

from typing import Any, Literal

from pydantic import Field

from grpo_rlvr.models.common import Model

Label = Literal[
    "healthy",
    "entropy_collapse",
    "length_bias",
    "length_collapse",
    "reward_hacking",
    "no_signal",
    "kl_blowup",
    "divergence_nan",
    "truncation",
    "moe_instability",
    "offpolicy_mismatch",
    "plateau",
    "too_short_to_tell",
]
Variant = Literal["grpo", "dapo", "dr_grpo", "gspo", "not_a_variant_problem", "insufficient_data"]
Confidence = Literal["high", "medium", "low"]


class Evidence(Model):
    """One measured fact behind a label."""

    metric: str = Field(description="The quantity, in this project's words (reward, entropy, length, ...).")
    column: str = Field(default="", description="The column of the log it was read from.")
    rows: int = Field(default=0, description="Values used, 0 or more.")
    first: float | None = Field(
        default=None,
        description="Median of the first fifth, or the best level before a fall, in the metric's unit.",
    )
    last: float | None = Field(default=None, description="Median of the last fifth, in the metric's unit.")
    slope: float | None = Field(
        default=None,
        description="Theil-Sen change over the run, or from its best level on, in the metric's unit.",
    )
    p: float | None = Field(default=None, description="Two-sided p of the Mann-Kendall test, 0 to 1.")
    break_row: int | None = Field(
        default=None,
        description="Row of a change of level (Pettitt) or of a turn into a fall, counted from 1.",
    )
    text: str = Field(description="The fact in one sentence.")


class Remedy(Model):
    """One thing to do about a label, the most often at fault first."""

    action: str = Field(description="What to do.")
    tool: str = Field(default="", description="The tool or verb of this project that settles it, empty if none.")
    kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="Arguments to set, where it is one of those: GRPOConfig's, or options of the trainer that the "
        "recommendation's `arguments_of` names.",
    )


class LabelFinding(Model):
    """What the run is doing, one diagnosis."""

    label: Label = Field(description="The diagnosis.")
    confidence: Confidence = Field(description="How far the rows carry it.")
    summary: str = Field(default="", description="The diagnosis in one sentence.")
    evidence: list[Evidence] = Field(default_factory=list, description="The facts behind it, strongest first.")
    remedies: list[Remedy] = Field(default_factory=list, description="What to do, most often at fault first.")
    would_decide: list[str] = Field(default_factory=list, description="Columns that are missing and would settle it.")


class Advice(Model):
    """The decision about the variant."""

    variant: Variant = Field(
        description="grpo means stay as you are; dapo, dr_grpo, gspo are switches; not_a_variant_problem means mend "
        "something else first; insufficient_data means the log cannot tell."
    )
    kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="Exactly the arguments to change: GRPOConfig's for the TRL version in use, or options of the "
        "trainer that `arguments_of` names.",
    )
    arguments_of: str = Field(default="trl", description="The trainer whose names kwargs and already are in.")
    why: str = Field(description="The reason, in one or two sentences.")
    preconditions: list[str] = Field(
        default_factory=list, description="What has to hold for the change to have any effect, and what it costs."
    )
    already: dict[str, Any] = Field(
        default_factory=dict, description="Arguments of the variant that the config or TRL's defaults already have."
    )
    alternatives: list[str] = Field(
        default_factory=list,
        description="Other losses or settings that treat the same cause, most direct first.",
    )


class UnreadLine(Model):
    """A line that was not understood."""

    line: int = Field(description="Line number, from 1.")
    text: str = Field(description="The line, shortened.")


class ParsedSummary(Model):
    """What was read from the log, and what was not."""

    rows: int = Field(description="Training rows of the judged run.")
    kind: Literal["rows", "windows", "runs", "summary", "none"] = Field(
        description="What a row is: one log step, a window of steps, another run, or one point of a summary."
    )
    runs: int = Field(description="Runs or restarts found in the text.")
    source: str = Field(description="Where the log came from.")
    formats: dict[str, int] = Field(description="Rows by the format they were printed in.")
    frameworks: list[str] = Field(description="Frameworks whose names occur, most frequent first.")
    columns: dict[str, str] = Field(description="Column to the quantity it was understood as.")
    unknown_columns: list[str] = Field(description="Columns with numbers that no rule uses.")
    unread: list[UnreadLine] = Field(description="Lines that were not understood, the first 20.")
    unread_count: int = Field(description="All lines that were not understood.")
    notes: list[str] = Field(description="Oddities that were handled: restarts, ranges, cut rows, blocks.")


class MetricDifference(Model):
    """One metric in two runs."""

    metric: str = Field(description="The quantity.")
    first: float = Field(description="Median of the last fifth of the first run.")
    second: float = Field(description="Median of the last fifth of the second run.")
    noise: float = Field(description="Standard deviation of the difference by the runs' own noise.")
    verdict: Literal["higher", "lower", "within_noise", "unknown"] = Field(
        description="Where the second run stands against the first."
    )


class Comparison(Model):
    """Two runs side by side; a difference within noise is never ranked."""

    differences: list[MetricDifference]
    verdict: Literal["first_better", "second_better", "within_noise", "unknown"] = Field(
        description="By reward or accuracy alone; the seeds differ by more than the noise within a run."
    )
    why: str
    notes: list[str]


class Recommendation(Model):
    """What the run is doing, whether the variant is the problem, and what to change."""

    labels: list[LabelFinding] = Field(description="Diagnoses, the main cause first.")
    recommendation: Advice
    parsed: ParsedSummary
    missing: list[str] = Field(description="What the log or the config lacks that would sharpen the answer.")
    comparison: Comparison | None = Field(
        default=None, description="The run beside another one, when that was asked for."
    )
    caveat: str = Field(description="What this answer cannot say.")


class WatchUpdate(Model):
    """What a running run shows so far."""

    alarm: bool = Field(description="True when a label other than healthy, plateau or too_short_to_tell is carried.")
    labels: list[LabelFinding]
    rows: int = Field(description="Rows seen.")
    looks: int = Field(description="Looks spent so far, this one included.")
    level: float = Field(description="Level of the tests at this look, 0 to 1.")
    next_look: int = Field(description="Row at which looking again is worth a look.")
