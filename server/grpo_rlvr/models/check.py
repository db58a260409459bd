"""What `check_config` answers: findings, what the config really does, and the config with the safe fixes applied."""

from typing import Literal

from pydantic import Field, JsonValue

from grpo_rlvr.models.common import JsonObject, Model, Severity


class Fix(Model):
    """A change of the config as data: `config.update(set)`, then drop the keys in `unset`."""

    set: JsonObject = Field(default_factory=dict, description="Top-level kwargs with their new, whole values.")
    unset: list[str] = Field(default_factory=list, description="Top-level kwargs to remove.")
    safe: bool = Field(
        description="True when the change keeps what a working run computes, e.g. a renamed or dead option."
    )


class Finding(Model):
    """What one rule says about one config."""

    rule: str = Field(description="Id of the rule, e.g. `batch-not-divisible-by-group`.")
    severity: Severity = Field(
        description="error: fails or trains the wrong thing; warning: likely wastes the run; info: surprising."
    )
    fields: list[str] = Field(
        description="Kwargs and dotted setup paths that the finding is about, the main one first."
    )
    value: JsonValue = Field(default=None, description="The value found, null when the field is unset.")
    message: str = Field(description="What was found, which rule it breaks, and what to write instead.")
    why: str = Field(description="What happens in the run if nothing is changed.")
    fix: Fix | None = Field(
        default=None, description="A change of the config as data, null when only a person can decide."
    )
    sources: list[str] = Field(
        default_factory=list, description="Where this is known from: issues, files, measurements."
    )
    file: str | None = Field(default=None, description="File of the config, when it came from one.")
    line: int | None = Field(default=None, ge=1, description="Line in that file, from 1.")
    doc: str = Field(description="Page and anchor of the rule, relative to the project root.")


class BatchPlan(Model):
    """The batch arithmetic in full. Null means: not known, or the version has no such notion."""

    processes: int = Field(description="Training processes, server GPUs not counted.")
    processes_source: str = Field(description="Where the number of processes comes from.")
    per_device_train_batch_size: int = Field(
        description="Completions (prompts up to TRL 0.14) per process and micro-step."
    )
    gradient_accumulation_steps: int = Field(description="Micro-steps per optimizer update.")
    steps_per_generation: int | None = Field(description="Micro-steps fed by one rollout.")
    num_generations: int = Field(description="Completions per prompt: the group.")
    num_iterations: int = Field(description="Passes over one rollout.")
    completions_per_rollout: int | None = Field(description="Completions generated at once over all processes.")
    prompts_per_rollout: float | None = Field(
        description="Groups per rollout; a fraction when groups do not come out whole."
    )
    completions_per_update: int | None = Field(description="Completions behind one optimizer update.")
    updates_per_rollout: float | None = Field(description="Optimizer updates on one rollout, all passes together.")
    rollouts_per_epoch: int | None = Field(description="Rollouts in one pass over the dataset; the tail is dropped.")
    updates_per_epoch: float | None = Field(description="Optimizer updates in one pass over the dataset.")
    prompts_dropped_per_epoch: int | None = Field(
        description="Dataset rows of the tail that no rollout of an epoch uses."
    )


class Effective(Model):
    """What this config really does, in words and numbers."""

    summary: list[str] = Field(description="A few sentences, the loss first.")
    loss: str = Field(description="The loss that is optimised, with its normaliser.")
    advantage: str = Field(description="How rewards become advantages.")
    kl: str = Field(description="KL term and its estimator, or none.")
    clipping: str = Field(description="Clip range, and whether it can act at all.")
    on_policy: bool | None = Field(description="True when every ratio is 1, null when it cannot be told.")
    generation: str = Field(description="Backend of the rollouts.")
    reference: str = Field(description="Reference model, or none.")
    batch: BatchPlan | None = Field(description="Batch arithmetic, null when a part of it is not a number.")
    logged: list[str] = Field(description="Metrics of interest that will be logged.")
    values: JsonObject = Field(default_factory=dict, description="Values of the main options after defaults.")


class ChangedDefault(Model):
    """A default that differs between two TRL versions and that this config leaves unset."""

    field: str
    before: JsonValue = Field(
        description="Default in `from_version`; where the option did not exist, what that version did, as its value "
        "(null when no value of the option names it)."
    )
    after: JsonValue = Field(description="Default in the version checked, null when the option is gone.")
    existed_before: bool = Field(default=True, description="Whether `from_version` has the option.")
    exists_after: bool = Field(default=True, description="Whether the version checked has the option.")
    changes_training: bool = Field(description="Whether the change alters what the run computes.")
    note: str = Field(description="What it means, in a sentence.")


class DeepFinding(Model):
    """What the real package raised or warned in the deep check."""

    stage: Literal["config", "trainer", "step", "inspect"] = Field(description="Where it happened.")
    kind: Literal["raised", "warned", "observed"] = Field(description="Exception, warning, or a measured fact.")
    text: str = Field(description="The message, shortened.")
    rule: str | None = Field(description="Rule that predicts it, null when none does.")


class DeepResult(Model):
    """Outcome of the deep check: the real classes, a tiny model, one step."""

    ran: bool = Field(description="False when the child process could not do its work; then `reason` says why.")
    reason: str | None = Field(default=None, description="Why it did not run or was stopped.")
    interpreter: str = Field(description="Python that ran it.")
    versions: dict[str, str] = Field(default_factory=dict, description="Package versions in that Python.")
    stages: list[str] = Field(default_factory=list, description="Stages that went through.")
    findings: list[DeepFinding] = Field(default_factory=list)
    trainable_parameters: int | None = Field(default=None, description="Trainable parameters of the tiny model.")
    total_parameters: int | None = Field(default=None, description="All parameters of the tiny model.")
    reference: str | None = Field(default=None, description="What the reference model is.")
    seconds: float | None = Field(default=None, ge=0, description="Wall-clock seconds.")


class ReleaseOutcome(Model):
    """What the config is in TRL releases that all say the same of it; information is left out."""

    trl_versions: list[str] = Field(description="The releases, oldest first.")
    verdict: Literal["ok", "warning", "error"] = Field(description="The worst severity found; info counts as ok.")
    verdict_after_safe_fixes: Literal["ok", "warning", "error"] = Field(
        description="The verdict on the config with every safe fix of that release applied."
    )
    errors: list[str] = Field(description="Errors, each as `rule: field`.")
    warnings: list[str] = Field(description="Warnings, each as `rule: field`.")


class CheckResult(Model):
    """The answer of `check_config`."""

    verdict: Literal["ok", "warning", "error"] = Field(description="The worst severity found; info counts as ok.")
    trl_version: str = Field(description="TRL version that the verdict holds for.")
    trl_version_source: str = Field(description="Why that version: argument, setup, or the newest known.")
    transformers_version: str = Field(description="transformers version whose options are inherited.")
    transformers_version_source: str = Field(
        description="setup, or assumed: the newest that this TRL release could be installed with, and the range that "
        "it admits."
    )
    findings: list[Finding] = Field(description="Errors first, then warnings, then information.")
    effective: Effective | None = Field(description="What the config does; null when errors leave that undefined.")
    fixed_config: JsonObject = Field(description="The config with every safe fix applied.")
    diff: str | None = Field(default=None, description="Unified diff of the input file, when there is one.")
    defaults_changed: list[ChangedDefault] = Field(
        default_factory=list,
        description="Defaults that changed since `from_version` and that this config leaves unset.",
    )
    unused_setup: list[str] = Field(
        default_factory=list, description="Setup keys that nothing reads, or that hold no number where one is needed."
    )
    unread: list[str] = Field(
        default_factory=list,
        description="Kwargs whose value could not be read statically; state them in `config` beside `path`.",
    )
    notes: list[str] = Field(
        default_factory=list, description="What reading the file converted or could not tell, such as YAML's 1e-6."
    )
    not_applicable: dict[str, str] = Field(
        default_factory=dict, description="Rules that could not judge because something is not stated, with the reason."
    )
    missing_facts: dict[str, int] = Field(
        default_factory=dict,
        description="Setup facts that are not stated, with the number of rules that wait for each, the most first.",
    )
    releases: list[ReleaseOutcome] = Field(
        default_factory=list,
        description="Outcome in each release of `compare_versions` and in `trl_version`, the oldest first.",
    )
    deep: DeepResult | None = Field(default=None, description="Outcome of the deep check, when it was asked for.")
