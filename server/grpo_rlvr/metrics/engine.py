"""The entry point: a log, and what is known of the run, to a decision."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.metrics.context import Context, read_context
from grpo_rlvr.metrics.decide import decide
from grpo_rlvr.metrics.diagnose import diagnose
from grpo_rlvr.metrics.parsing import ParsedLog, Series, parse
from grpo_rlvr.metrics.remedies import WOULD_DECIDE
from grpo_rlvr.metrics.signals import Signals
from grpo_rlvr.metrics.wording import column_name, option_name, remedies_for
from grpo_rlvr.models.recommend import LabelFinding, ParsedSummary, Recommendation, UnreadLine
from grpo_rlvr.models.setup import Setup

CAVEAT = (
    "Read from training metrics alone: it can say that nothing in them is wrong, never that the policy is good. "
    "A run can keep a flat reward and lose held-out accuracy."
)


def recommend(
    log: str | Path,
    *,
    config: Mapping[str, Any] | None = None,
    setup: Setup | None = None,
    trl_version: str | None = None,
) -> Recommendation:
    """Say what a training run is doing, whether the variant is the problem, and what to change.

    `log` is pasted text, or the path of a file or run folder. `config` may be in the names of any framework.

    Raises:
        InputError: the log is empty or binary, or the config is no object.
        NotFoundError: the path names nothing.
        MissingPackageError: scipy, or a reader for the file, is not installed.
    """
    if config is not None and not isinstance(config, Mapping):
        raise InputError(f"a config must be an object, got {type(config).__name__}", where="argument 'config'")
    return judge_parsed(parse(log), config=config, setup=setup, trl_version=trl_version)


def judge_parsed(
    parsed: ParsedLog,
    *,
    config: Mapping[str, Any] | None = None,
    setup: Setup | None = None,
    trl_version: str | None = None,
) -> Recommendation:
    """The same for a log that is already read."""
    context = read_context(config, setup, trl_version, parsed.frameworks)
    signals = Signals(parsed)
    labels = label_all(signals, context)
    return Recommendation(
        labels=labels,
        recommendation=decide(labels, signals, context),
        parsed=summary(parsed),
        missing=_missing(parsed, context, config, hacked=any(label.label == "reward_hacking" for label in labels)),
        caveat=CAVEAT,
    )


def label_all(signals: Signals, context: Context) -> list[LabelFinding]:
    """Diagnoses with their remedies and the columns that would decide."""
    labels = diagnose(signals, context)
    for item in labels:
        item.remedies = remedies_for(item.label, context)
        item.would_decide = [
            column_name(quantity, column, context)
            for quantity, column in WOULD_DECIDE[item.label]
            if not _has(signals.log, quantity)
        ]
    return labels


def _has(log: ParsedLog, quantity: str) -> bool:
    if quantity == "accuracy":
        return bool(log.accuracies or log.evaluation)
    return quantity in log.series


def _missing(log: ParsedLog, context: Context, config: Mapping[str, Any] | None, *, hacked: bool) -> list[str]:
    missing = [
        text
        for quantity, text in (
            ("reward", "a reward column: progress cannot be judged without it"),
            ("length", "a completion length column: length bias and collapse cannot be judged"),
            ("entropy", "an entropy column: loss of exploration cannot be judged"),
        )
        if not _has(log, quantity)
    ]
    if not hacked:
        missing += _missing_measure(log)
    if "zero_std" in log.series and (
        context.given.get("scale_rewards") == "batch"
        or context.given.get("multi_objective_aggregation") == "normalize_then_sum"
    ):
        missing.append("a zero-variance share that can be trusted: frac_reward_zero_std is blind with this config")
    if not config:
        missing.append("the config: whether batches are reused, which loss and which cap decides what a variant can do")
    elif context.cap is None:
        missing.append(f"the cap on completion length ({option_name('max_completion_length', context)})")
    if context.is_trl and not context.trl_stated:
        missing.append("the TRL version")
    if context.moe is None:
        missing.append("whether the model is a mixture of experts (setup.model.moe)")
    return missing


def _missing_measure(log: ParsedLog) -> list[str]:
    """What an independent measure would be, unless there is one, and why the columns at hand are none."""
    reward = log.series.get("reward")

    def equals_reward(series: Series) -> bool:
        import numpy as np

        if reward is None or len(series) != len(reward):
            return False
        return bool(np.allclose(series.values, reward.values))

    held_out = [series for series in log.evaluation.values() if series.quantity in ("accuracy", "reward")]
    if any(len(series) and not equals_reward(series) for series in (*log.accuracies.values(), *held_out)):
        return []
    own = [series for series in (*log.components.values(), *log.accuracies.values()) if len(series)]
    twins = [f"'{series.column}'" for series in own if equals_reward(series)]
    trained = [f"'{series.column}'" for series in own if not equals_reward(series)]
    text = "an independent measure (held-out accuracy): reward hacking cannot be excluded"
    if twins:
        return [f"{text}; {', '.join(twins)} {'equals' if len(twins) == 1 else 'equal'} the reward itself"]
    if trained:
        names = ", ".join(trained[:4]) + (", ..." if len(trained) > 4 else "")
        return [f"{text}; {names} {'is' if len(trained) == 1 else 'are'} part of the reward that is trained on"]
    return ["an independent measure (held-out accuracy or a per-reward column): reward hacking cannot be excluded"]


def summary(log: ParsedLog) -> ParsedSummary:
    """What was read, for the answer."""
    return ParsedSummary(
        rows=log.rows,
        kind=log.kind if log.rows else "none",  # type: ignore[arg-type]
        runs=log.runs,
        source=log.source,
        formats=log.formats,
        frameworks=list(log.frameworks),
        columns=log.columns,
        unknown_columns=list(log.unknown_columns)[:100],
        unread=[UnreadLine(line=line, text=text) for line, text in log.unread],
        unread_count=log.unread_count,
        notes=log.notes,
    )


__all__ = ["judge_parsed", "label_all", "recommend", "summary"]
