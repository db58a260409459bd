"""Samples and the answer of `score_samples`."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from grpo_rlvr.models.common import Interval, JsonObject, Model

RouteWord = Literal["sft_first", "grpo", "nothing_to_learn", "unknown"]
# Keys of a samples line that are not dataset columns: they are never passed to a reward as columns.
SAMPLE_KEYS = ("prompt", "completion", "group", "completion_ids", "finish_reason")
# What the audit concludes about one attack: `paid` = a completion that should earn nothing was rewarded, `lost` = one
# that deserves the reward did not get it, `changed` = the score depends on something it should not depend on.
AttackOutcome = Literal["held", "paid", "lost", "changed", "failed", "not_applicable"]


class Sample(BaseModel):
    """One line of a samples file. Every further key is a dataset column and reaches the rewards by its name."""

    model_config = ConfigDict(extra="allow")

    prompt: str | list[JsonObject] = Field(description="The prompt, as text or as chat messages.")
    completion: str | list[JsonObject] = Field(description="What the model answered, as text or as chat messages.")
    group: str | int | None = Field(default=None, description="Id of the prompt; same prompt, same group when absent.")
    completion_ids: list[int] | None = Field(default=None, description="Token ids of the completion.")
    finish_reason: str | None = Field(default=None, description="'stop', or 'length' when the completion was cut.")


class ScoreError(Model):
    """A reward that broke, with the row that caused it. An error is never a zero."""

    reward: str = Field(description="Name of the reward function.")
    kind: str = Field(
        description="What broke: raised, wrong_length, not_a_list, not_a_number, nan, infinite, exit, died, timeout, "
        "memory, output, processes or load."
    )
    message: str = Field(description="What happened, in one sentence.")
    row: int | None = Field(default=None, description="Index of the sample that caused it, from 0; null when unknown.")
    excerpt: str = Field(default="", description="Start of that sample's completion, or the end of the traceback.")
    rows: int = Field(default=1, description="How many samples show this error.")


class RewardScore(Model):
    """What one reward did on the samples."""

    name: str = Field(description="The function's __name__: the key of its metrics in TRL.")
    weight: float = Field(description="Weight in the sum.")
    scored: int = Field(description="Samples with a number.")
    ungraded: int = Field(description="Samples for which it returned None.")
    errors: int = Field(description="Samples that have an error instead of a score.")
    mean: float | None = Field(description="Mean over the scored samples.")
    std: float | None = Field(description="Standard deviation over the scored samples.")
    low: float | None = Field(description="Lowest score seen.")
    high: float | None = Field(description="Highest score seen.")
    floor_share: float | None = Field(description="Share of scores at the lowest value of its range, 0 to 1.")
    ceiling_share: float | None = Field(description="Share of scores at the highest value of its range, 0 to 1.")
    distinct: int = Field(description="Number of different scores.")
    ms_per_sample: float | None = Field(description="Wall time a sample, in milliseconds, in one batched call.")
    reads_row: bool | None = Field(
        description="Whether the score depends on the row's columns: false for pure format rewards, null when unknown."
    )
    reasons: dict[str, int] = Field(
        default_factory=dict,
        description="How many samples got each reason, most frequent first; empty if it gives none.",
    )
    logged: dict[str, Any] = Field(default_factory=dict, description="Metrics it sent through log_metric (last value).")


class Composite(Model):
    """The weighted sum that training would see, and the part of it that says whether an answer is right."""

    mean: float | None = Field(description="Mean of the weighted sum over samples with a score.")
    std: float | None = Field(description="Standard deviation of the weighted sum.")
    distinct: int = Field(description="Number of different sums.")
    histogram: list[int] = Field(description="Counts in ten equal bins from the lowest to the highest sum.")
    low: float | None = Field(description="Lowest sum.")
    high: float | None = Field(description="Highest sum.")
    judged_by: list[str] = Field(description="The rewards that decide whether a sample counts as rewarded.")
    threshold: float = Field(description="Share of their range above which a sample counts as rewarded, 0 to 1.")
    length_correlation: float | None = Field(
        default=None, description="Correlation of the sum with the completion's length in characters, -1 to 1."
    )


class PredictedSignal(Model):
    """Share of groups without gradient at another group size, from the per-prompt success rates in closed form."""

    num_generations: int = Field(description="Completions a prompt.")
    no_gradient_share: Interval = Field(description="Expected share of groups with all completions alike, 0 to 1.")


class PromptSummary(Model):
    """A prompt that gives no signal."""

    group: str = Field(description="Group id.")
    samples: int = Field(description="Completions sampled.")
    rewarded: int = Field(description="Completions that were rewarded.")
    prompt: str = Field(description="Start of the prompt.")


class Groups(Model):
    """Samples by prompt."""

    count: int = Field(description="Number of prompts.")
    smallest: int = Field(description="Fewest completions of a prompt.")
    largest: int = Field(description="Most completions of a prompt.")
    mean_std: float | None = Field(
        description="Mean standard deviation of the sum inside a group; null with no group of 2."
    )
    no_gradient_share: Interval | None = Field(
        description="Share of groups of at least 2 whose sums are all equal: they give no gradient. Null when unknown."
    )
    predicted: list[PredictedSignal] = Field(default_factory=list, description="The same for other group sizes.")
    never: list[PromptSummary] = Field(default_factory=list, description="Prompts never rewarded (20 at most).")
    always: list[PromptSummary] = Field(default_factory=list, description="Prompts always rewarded (20 at most).")
    never_count: int = Field(default=0, description="Number of prompts never rewarded.")
    always_count: int = Field(default=0, description="Number of prompts always rewarded.")
    clipped_share: float | None = Field(
        default=None, description="Share of completions cut at the length limit, 0 to 1; null when samples do not say."
    )


class Route(Model):
    """Whether GRPO applies at all, from the base success rate."""

    route: RouteWord = Field(description="sft_first | grpo | nothing_to_learn | unknown.")
    success_rate: Interval | None = Field(
        description="Share of rewarded samples with its interval; groups are clusters."
    )
    pass_at_k: float | None = Field(
        default=None, description="Share of prompts with at least one rewarded sample, 0 to 1."
    )
    k: int | None = Field(default=None, description="Completions a prompt behind pass_at_k (the median).")
    why: str = Field(description="The reason, with the numbers.")
    next: str = Field(description="What to do next.")


class Attack(Model):
    """One attack on the reward, made from the samples' own rows."""

    attack: str = Field(description="Id of the attack, e.g. 'prompt_echo'.")
    expects: Literal["no_reward", "reward", "same_score"] = Field(description="What a sound reward does with it.")
    outcome: AttackOutcome = Field(description="held | paid | lost | changed | failed | not_applicable.")
    severity: Literal["error", "warning", "info"] = Field(description="How bad it is if it did not hold.")
    tried: int = Field(description="Rows tried.")
    bad: int = Field(description="Rows that did not do what a sound reward does.")
    rewards: list[str] = Field(default_factory=list, description="The rewards concerned.")
    row: int | None = Field(default=None, description="Sample index of the example, from 0.")
    text: str = Field(default="", description="The offending completion (beginning and end, 600 characters).")
    score: float | None = Field(default=None, description="The weighted sum it got.")
    why: str = Field(description="What it means, or why it does not apply.")


class Audit(Model):
    """Attacks on the reward. Passing them is no proof: a policy finds more than a list of known tricks."""

    verdict: Literal["errors", "warnings", "held", "not_run"] = Field(description="The worst outcome.")
    attacks: list[Attack] = Field(default_factory=list, description="Every attack, the failed ones first.")
    note: str = Field(description="What the audit does not show.")


class ScoreResult(Model):
    """What the rewards did on the samples. It is stored under `reading_id`, ready to be read by a person."""

    reading_id: str = Field(description="Id of the stored scores, samples and rewards: start_reading takes it.")
    samples: int = Field(description="Number of samples scored.")
    rewards: list[RewardScore]
    composite: Composite
    groups: Groups
    route: Route
    audit: Audit
    errors: list[ScoreError] = Field(description="Rewards that broke; while there are any, the gate stays closed.")
    notes: list[str] = Field(default_factory=list, description="What was assumed or left out.")
