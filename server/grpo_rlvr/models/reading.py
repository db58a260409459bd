"""The reading of samples by a person, its record, and the gate."""

from typing import Any, Literal

from pydantic import Field

from grpo_rlvr.models.common import Interval, Model
from grpo_rlvr.models.score import Route

Verdict = Literal["correct", "wrong", "cannot_tell"]
Channel = Literal["page", "terminal", "elicitation", "app"]
ReaderKind = Literal["person", "oracle"]
Change = Literal["reward", "arguments", "weights", "columns", "samples", "verdicts", "record", "key", "policy"]


class GatePolicy(Model):
    """What opens the gate. The defaults are the strict ones; `[gate]` in grpo-rlvr.toml states others."""

    rows: int = Field(default=50, ge=1, description="Sampled rows that need a verdict of correct or wrong.")
    readers: list[ReaderKind] = Field(default=["person"], min_length=1, description="Kinds of reader that count.")
    channels: list[Channel] = Field(
        default=["page", "terminal", "elicitation", "app"], min_length=1, description="Channels that count."
    )
    min_median_seconds: float = Field(
        default=1.5, ge=0, description="Slowest pace that is too fast: median seconds a row."
    )
    agreement: float = Field(
        default=1.0, gt=0, le=1, description="Share of judged rows on which reward and reader agree."
    )
    rewarded_at: float = Field(
        default=0.5, gt=0, le=1, description="Share of a reward's range above which it says 'correct'."
    )
    audit: Literal["report", "must_hold"] = Field(
        default="report", description="Whether an attack that succeeds closes the gate, or is only reported and read."
    )


class ReadingRow(Model):
    """One row as the reader sees it: blind, without any score."""

    row: str = Field(description="Id of the row inside the reading.")
    number: int = Field(description="Its place in the reading, from 1.")
    total: int = Field(description="Rows in the reading.")
    prompt: str = Field(description="The prompt as text.")
    completion: str = Field(description="The completion as text.")
    columns: dict[str, Any] = Field(description="Reference columns of the row.")
    second_look: str = Field(
        default="", description="On a second look, what the reader said before and what the reward says; else empty."
    )
    ask_reader: bool = Field(default=False, description="Whether this form must first ask who reads.")


class Disagreement(Model):
    """A row on which reward and reader disagree."""

    row: str = Field(description="Id of the row inside the reading.")
    kind: Literal["false_positive", "false_negative"] = Field(description="Paid but wrong, or right but not paid.")
    reader: str = Field(description="Who read it.")
    note: str = Field(default="", description="The reader's note.")
    prompt: str = Field(description="Start of the prompt.")
    completion: str = Field(description="Beginning and end of the completion.")
    scores: dict[str, float | None] = Field(description="Score by reward.")
    source: str = Field(default="sample", description="'sample', or 'attack:<id>' for a row that the audit made.")
    cause: str = Field(default="", description="The likely cause, where the audit found one.")


class Agreement(Model):
    """Reward against reader over the rows with a verdict of correct or wrong."""

    judged: int = Field(description="Verdicts of correct or wrong.")
    both_correct: int = Field(description="Rewarded and read as correct.")
    both_wrong: int = Field(description="Not rewarded and read as wrong.")
    false_positives: int = Field(description="Rewarded, but read as wrong.")
    false_negatives: int = Field(description="Not rewarded, but read as correct.")
    agreement: Interval | None = Field(description="Share of agreeing verdicts; null before the first.")
    false_positive_rate: Interval | None = Field(description="Among the rewarded, share read as wrong.")
    false_negative_rate: Interval | None = Field(description="Among the not rewarded, share read as correct.")
    kappa: float | None = Field(description="Cohen's kappa, -1 to 1; null when one side has only one word.")


class ScoreHistogram(Model):
    """One reward's scores on the rows read, in ten equal bins from `low` to `high`, apart by the reader's verdict."""

    reward: str = Field(description="Name of the reward.")
    low: float = Field(description="Lowest score among the rows read.")
    high: float = Field(description="Highest score among the rows read.")
    correct: list[int] = Field(description="Rows read as correct, by bin.")
    wrong: list[int] = Field(description="Rows read as wrong, by bin.")
    cannot_tell: list[int] = Field(description="Rows that the reader could not tell, by bin.")


class ReaderSummary(Model):
    """One reader's part of the record."""

    name: str
    kind: ReaderKind
    channel: Channel
    client: str = Field(default="", description="Client or browser name and version.")
    rows: int = Field(description="Rows with a verdict.")
    second_looks: int = Field(default=0, description="Verdicts given again after the score was seen.")
    median_seconds: float | None = Field(description="Median seconds a row.")
    admitted: bool = Field(description="Whether the policy in force lets this reader count.")
    why_not: str = Field(default="", description="Why not.")


class ReadingStarted(Model):
    """Where the reading happens."""

    reading_id: str
    channel: Channel
    rows: int = Field(description="Rows to read.")
    read: int = Field(description="Rows that have a verdict already.")
    url: str | None = Field(default=None, description="One-time address of the reading page, on this machine only.")
    command: str = Field(description="Shell command that reads in a terminal.")
    next: str = Field(description="What has to happen now.")


class ReadingStatus(Model):
    """How far a reading is and what it says."""

    reading_id: str
    state: Literal["not_started", "in_progress", "read"]
    rows: int = Field(description="Rows to read.")
    read: int = Field(description="Rows with a verdict.")
    decided: int = Field(description="Sampled rows with a verdict of correct or wrong by an admitted reader.")
    readers: list[ReaderSummary]
    refusals: int = Field(description="Forms that were declined, cancelled or empty: they count as not read.")
    agreement: Agreement
    histograms: list[ScoreHistogram] = Field(default_factory=list, description="Scores of the rows read, by reward.")
    disagreements: list[Disagreement] = Field(description="Unresolved ones, the paid ones first (20 at most).")
    resolved: int = Field(description="Disagreements that a second look took back.")
    gate: "GateState"
    next: str = Field(description="What to do next.")


class ReadingSummary(Model):
    """One line of the list of readings."""

    reading_id: str
    created: str = Field(description="UTC time of the scoring, ISO 8601.")
    samples: int | None = Field(default=None, description="Samples scored; null when the record cannot be read.")
    rows: int | None = Field(default=None, description="Rows to read; null when the record cannot be read.")
    read: int = Field(default=0, description="Rows with a verdict.")
    open: bool = Field(description="Whether the gate is open.")
    why: str = Field(default="", description="Why it is closed; empty when it is open.")


class ReadingList(Model):
    """All readings of a workspace, newest first."""

    readings: list[ReadingSummary]


class GateReason(Model):
    """Why the gate is closed."""

    code: str = Field(description="Id of the reason, e.g. 'unresolved_disagreement'.")
    message: str = Field(description="What is so.")
    remedy: str = Field(description="What to do.")


class GateRecord(Model):
    """The record behind the gate's state, as it is copied into runs and reports."""

    reading_id: str
    created: str = Field(description="UTC time of the scoring, ISO 8601.")
    finished: str | None = Field(default=None, description="UTC time of the last verdict.")
    reward_digest: str = Field(description="SHA-256 over the reward code, its imports, arguments and weights.")
    samples_digest: str = Field(description="SHA-256 over the samples.")
    record_mac: str = Field(description="Keyed digest over the whole record.")
    readers: list[ReaderSummary]
    decided: int = Field(description="Sampled rows judged by an admitted reader.")
    agreement: Agreement
    second_looks: int = Field(description="Verdicts taken back or confirmed after the score was seen.")


class GateState(Model):
    """Whether a run may start on this reading."""

    open: bool
    reading_id: str
    reasons: list[GateReason] = Field(description="Why it is closed; empty when open.")
    warnings: list[str] = Field(default_factory=list, description="What is worth knowing although it does not close.")
    policy: GatePolicy = Field(description="The policy in force.")
    changed: list[Change] = Field(default_factory=list, description="What changed since the reading.")
    record: GateRecord | None = Field(default=None, description="Null when there is no intact record.")
    route: Route | None = Field(default=None, description="The base success rate that the scoring measured.")


ReadingStatus.model_rebuild()
