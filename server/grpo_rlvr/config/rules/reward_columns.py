"""Reward columns: which dataset columns reach a reward function, and under which names."""

import re
from collections.abc import Callable, Iterable

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Fail, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.signature import Reward, rewards_of
from grpo_rlvr.config.view import ConfigView
from grpo_rlvr.errors import nearest
from grpo_rlvr.models.setup import Setup

# Columns that the trainer takes out before it passes the rest to a reward, and the one it replaces.
_HIDDEN = ("prompt", "completion", "completion_ids")
_IMAGE_COLUMNS = frozenset({"prompt", "image", "images"})
_INDEXED = re.compile(r"\bkwargs\[['\"](\w+)['\"]\]")
_ASKED = re.compile(r"\bkwargs\.get\(['\"](\w+)['\"]")
_DATASET = {"columns": ["prompt", "answer"], "format": "string"}
_GOOD = {"name": "correct", "signature": "def correct(completions, answer, **kwargs)"}


def passed_names(facts: Facts) -> tuple[str, ...]:
    """Return the keyword arguments that the trainer passes to every reward, dataset columns left out."""
    names = ["prompts", "completions"]
    if facts.trl_is(">=0.18"):
        names.append("completion_ids")
    if facts.trl_is(">=0.20"):
        names.append("trainer_state")
    if facts.trl_is(">=1.0"):
        names += ["log_extra", "log_metric"]
    if facts.trl_is(">=0.29") and facts.setup.get("environment_factory"):
        names.append("environments")
    return tuple(names)


def hidden_columns(facts: Facts) -> tuple[str, ...]:
    """Return the column names that never reach a reward under this TRL version."""
    return _HIDDEN if facts.trl_is(">=0.18") else _HIDDEN[:2]


def column_names(facts: Facts) -> tuple[str, ...] | None:
    """Return the dataset columns that reach a reward, None when the columns are not stated."""
    if facts.columns is None:
        return None
    return tuple(name for name in facts.columns if name not in hidden_columns(facts))


def each_reward(setup: Setup, judge: Callable[[Reward], Fail | None]) -> Outcome:
    rewards = rewards_of(setup.rewards)
    if not rewards:
        return not_applicable("rewards is not stated")
    failures: Iterable[Fail | None] = (judge(reward) for reward in rewards)
    return [failure for failure in failures if failure is not None] or PASS


@rule(
    "reward-column-passed-twice",
    severity="error",
    what="A dataset column has a name that the trainer passes itself.",
    why="prompts and completions (and completion_ids in some versions) are handed over twice, so the call raises "
    "TypeError at the first step.",
    bad=Example({}, {"dataset": {"columns": ["prompt", "completions"]}}),
    good=Example({}, {"dataset": _DATASET}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
)
def reward_column_passed_twice(facts: Facts, config: ConfigView) -> Outcome:
    if facts.columns is None:
        return not_applicable("dataset.columns is not stated")
    if config.flag("remove_unused_columns"):
        return PASS
    twice = [name for name in facts.columns if name in ("prompts", "completions")]
    if not twice:
        return PASS
    return fail(
        "dataset.columns",
        value=twice,
        message=f"Column {', '.join(twice)} has a name that TRL passes to rewards itself, so a reward gets it twice. "
        "Rename the column.",
    )


@rule(
    "reward-column-overwritten",
    severity="error",
    trl=">=0.20",
    what="A reward reads a dataset column whose name the trainer overwrites.",
    why="trainer_state, log_extra and log_metric are set by the trainer after the columns, so the reward gets the "
    "trainer's object instead of the column.",
    bad=Example({}, {"dataset": {"columns": ["prompt", "trainer_state"]}}),
    good=Example({}, {"dataset": _DATASET}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
)
def reward_column_overwritten(facts: Facts) -> Outcome:
    if facts.columns is None:
        return not_applicable("dataset.columns is not stated")
    own = [name for name in passed_names(facts) if name not in ("prompts", "completions", "completion_ids")]
    lost = [name for name in facts.columns if name in own]
    if not lost:
        return PASS
    return fail(
        "dataset.columns",
        value=lost,
        message=f"Column {', '.join(lost)} is overwritten by the trainer before rewards see it. Rename the column.",
    )


def _hidden(facts: Facts) -> list[str]:
    return [name for name in facts.columns or () if name in hidden_columns(facts) and name != "prompt"]


def _reads_column(reward: Reward, name: str) -> bool:
    quoted = rf"['\"]{name}['\"]"
    said = rf"\[{quoted}\]|get\({quoted}|\b{name} column\b|\bcolumn {name}\b"
    return re.search(said, reward.reads) is not None


@rule(
    "reward-column-hidden",
    severity="error",
    what="A reward reads a column that rewards never receive.",
    why="The trainer takes prompt, completion and completion_ids out of what it passes, so a reward that reads them "
    "gets nothing: KeyError, or a constant.",
    bad=Example(
        {},
        {
            "dataset": {"columns": ["prompt", "completion"]},
            "rewards": [{"name": "f", "signature": "def f(completions, **kwargs)", "reads": "kwargs['completion']"}],
        },
    ),
    good=Example({}, {"dataset": _DATASET, "rewards": [_GOOD]}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
    requires=("reward-required-parameter-missing",),
)
def reward_column_hidden(setup: Setup, facts: Facts) -> Outcome:
    if facts.columns is None:
        return not_applicable("dataset.columns is not stated")
    rewards = rewards_of(setup.rewards)
    read = [name for name in _hidden(facts) if any(_reads_column(reward, name) for reward in rewards)]
    if not read:
        return PASS
    return fail(
        "dataset.columns",
        "rewards[].reads",
        "rewards[].signature",
        "rewards",
        value=read,
        message=f"Column {', '.join(read)} never reaches a reward function: TRL leaves it out of what it passes. "
        "Rename it, for example to solution.",
    )


@rule(
    "column-left-out-of-rewards",
    severity="info",
    what="The dataset has a column that rewards never receive.",
    why="TRL leaves completion and completion_ids out of what it passes. That is fine as long as no reward needs them.",
    bad=Example({}, {"dataset": {"columns": ["prompt", "completion"]}}),
    good=Example({}, {"dataset": _DATASET}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
    requires=("reward-required-parameter-missing", "reward-column-hidden"),
)
def column_left_out_of_rewards(facts: Facts) -> Outcome:
    left = _hidden(facts)
    if not left:
        return PASS
    return fail(
        "dataset.columns",
        value=left,
        message=f"Column {', '.join(left)} does not reach reward functions. Rename it if one should read it.",
    )


@rule(
    "reward-columns-removed",
    severity="error",
    what="remove_unused_columns drops the columns that rewards read.",
    why="Only prompt and images survive; a required parameter raises TypeError, and kwargs.get turns it into a "
    "constant reward.",
    bad=Example({"remove_unused_columns": True}, {"dataset": _DATASET, "rewards": [_GOOD]}),
    good=Example({"remove_unused_columns": False}, {"dataset": _DATASET, "rewards": [_GOOD]}),
    sources=("huggingface/transformers#43598",),
    fix_safety="Restores TRL's default; a run that reads no column is not changed by it.",
)
def reward_columns_removed(config: ConfigView, setup: Setup, facts: Facts) -> Outcome:
    if not config.flag("remove_unused_columns"):
        return PASS
    rewards = rewards_of(setup.rewards)
    needed = [name for reward in rewards for name in reward.signature.required if name not in passed_names(facts)]
    reading = [reward for reward in rewards if re.search(r"kwargs|column", reward.reads)]
    extra = [name for name in facts.columns or () if name not in _IMAGE_COLUMNS]
    silent = bool(extra) and (not rewards or any(item.signature.takes_any and not item.reads for item in rewards))
    if not needed and not reading and not silent:
        return PASS
    return fail(
        "remove_unused_columns",
        value=True,
        message="remove_unused_columns=True drops every column but prompt and images before rewards see it (here "
        f"{', '.join(dict.fromkeys([*needed, *extra])) or 'what they read'}). Set it to False, TRL's default.",
        set={"remove_unused_columns": False},
        safe=True,
    )


@rule(
    "reward-reads-missing-column",
    severity="error",
    what="A reward indexes its keyword arguments by a column that the dataset does not have.",
    why="The lookup raises KeyError at the first step, after a full rollout.",
    bad=Example({}, {"dataset": _DATASET, "rewards": [{**_GOOD, "reads": "kwargs['solution']"}]}),
    good=Example({}, {"dataset": _DATASET, "rewards": [{**_GOOD, "reads": "kwargs['answer']"}]}),
    sources=("FareedKhan-dev/train-deepseek-r1#2",),
    requires=("reward-columns-removed", "reward-column-hidden"),
)
def reward_reads_missing_column(setup: Setup, facts: Facts) -> Outcome:
    return _reads_missing(setup, facts, _INDEXED, "raises KeyError")


@rule(
    "reward-misses-column-silently",
    severity="warning",
    what="A reward asks its keyword arguments for a column that the dataset does not have.",
    why="kwargs.get answers None without a word, which often makes the reward constant.",
    bad=Example({}, {"dataset": _DATASET, "rewards": [{**_GOOD, "reads": "kwargs.get('solution')"}]}),
    good=Example({}, {"dataset": _DATASET, "rewards": [{**_GOOD, "reads": "kwargs.get('answer')"}]}),
    sources=("huggingface/transformers#43598",),
    requires=("reward-columns-removed", "reward-column-hidden"),
)
def reward_misses_column_silently(setup: Setup, facts: Facts) -> Outcome:
    return _reads_missing(setup, facts, _ASKED, "gets None")


def _reads_missing(setup: Setup, facts: Facts, pattern: re.Pattern[str], effect: str) -> Outcome:
    columns = column_names(facts)
    if columns is None:
        return not_applicable("dataset.columns is not stated")

    def judge(reward: Reward) -> Fail | None:
        known = {*columns, *passed_names(facts), *reward.signature.names}
        missing = [name for name in pattern.findall(reward.reads) if name not in known]
        if not missing:
            return None
        return fail(
            *reward.fields("reads"),
            "dataset.columns",
            value=missing,
            message=f"{reward.shown} reads {', '.join(missing)} from its keyword arguments and "
            f"{effect}{nearest(missing[0], known)}. The columns are {', '.join(columns) or 'none'}.",
        )

    return each_reward(setup, judge)


RULES = (
    reward_column_passed_twice,
    reward_column_overwritten,
    reward_column_hidden,
    column_left_out_of_rewards,
    reward_columns_removed,
    reward_reads_missing_column,
    reward_misses_column_silently,
)
