"""Reward wiring: what the trainer passes, what a reward function takes, how it is named and weighted."""

import re
from collections import Counter
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


def _each(setup: Setup, judge: Callable[[Reward], Fail | None]) -> Outcome:
    rewards = rewards_of(setup.rewards)
    if not rewards:
        return not_applicable("the setup states no reward functions")
    failures: Iterable[Fail | None] = (judge(reward) for reward in rewards)
    return [failure for failure in failures if failure is not None] or PASS


@rule(
    "reward-required-parameter-missing",
    severity="error",
    what="A reward function requires a parameter that is neither a dataset column nor passed by the trainer.",
    why="The call raises TypeError at the first step, after a full rollout has been paid for.",
    bad=Example(
        {}, {"dataset": _DATASET, "rewards": [{"name": "f", "signature": "def f(completions, gold, **kwargs)"}]}
    ),
    good=Example({}, {"dataset": _DATASET, "rewards": [_GOOD]}),
    sources=("FareedKhan-dev/train-deepseek-r1#2", "huggingface/trl:trl/trainer/grpo_trainer.py"),
)
def reward_required_parameter_missing(setup: Setup, facts: Facts) -> Outcome:
    columns = column_names(facts)
    passed = passed_names(facts)

    def judge(reward: Reward) -> Fail | None:
        known = set(passed) | set(columns or ())
        missing = [name for name in reward.signature.required if name not in known]
        if columns is None:
            # Without the columns only names that no dataset can supply are certain.
            missing = [name for name in missing if name in hidden_columns(facts)]
        if not missing:
            return None
        return fail(
            "dataset.columns",
            *reward.fields("signature"),
            value=missing,
            message=f"{reward.shown} requires {', '.join(missing)}, which nobody passes{nearest(missing[0], known)} "
            f"The trainer passes {', '.join(passed)} and the columns "
            f"{', '.join(columns) if columns else '(not stated)'}; rename the column or the parameter.",
        )

    return _each(setup, judge)


@rule(
    "reward-without-kwargs",
    severity="error",
    what="A reward function does not accept every keyword that the trainer passes.",
    why="The trainer passes its own arguments and every dataset column by keyword; a function without **kwargs "
    "raises TypeError at the first step.",
    bad=Example({}, {"dataset": _DATASET, "rewards": [{"name": "f", "signature": "def f(prompts, completions)"}]}),
    good=Example({}, {"dataset": _DATASET, "rewards": [_GOOD]}),
    sources=("huggingface/trl#4939", "huggingface/trl:trl/trainer/grpo_trainer.py"),
)
def reward_without_kwargs(setup: Setup, facts: Facts) -> Outcome:
    expected = (*passed_names(facts), *(column_names(facts) or ()))

    def judge(reward: Reward) -> Fail | None:
        signature = reward.signature
        if not signature.known or signature.takes_any:
            return None
        refused = [name for name in expected if name not in signature.names]
        if not refused:
            return None
        return fail(
            *reward.fields("signature"),
            value=reward.text or None,
            message=f"{reward.shown} has no **kwargs, so it refuses {', '.join(refused)}, which TRL passes by "
            "keyword. Add **kwargs.",
        )

    return _each(setup, judge)


@rule(
    "reward-positional-only",
    severity="error",
    what="A reward function takes a parameter by position only.",
    why="The trainer passes everything by keyword, so the call raises TypeError at the first step.",
    bad=Example({}, {"rewards": [{"name": "f", "signature": "def f(completions, /, **kwargs)"}]}),
    good=Example({}, {"rewards": [_GOOD]}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
)
def reward_positional_only(setup: Setup) -> Outcome:
    def judge(reward: Reward) -> Fail | None:
        only = reward.signature.positional_only
        if not only:
            return None
        return fail(
            *reward.fields("signature"),
            value=list(only),
            message=f"{reward.shown} takes {', '.join(only)} by position only; TRL passes keywords. Drop the slash.",
        )

    return _each(setup, judge)


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


@rule(
    "reward-column-hidden",
    severity="error",
    what="The gold data lies in a column that rewards never receive.",
    why="The trainer takes prompt, completion and completion_ids out of what it passes, so a reward that reads them "
    "gets nothing: KeyError, TypeError, or a constant.",
    bad=Example(
        {},
        {
            "dataset": {"columns": ["prompt", "completion"]},
            "rewards": [{"name": "f", "signature": "def f(completions, **kwargs)"}],
        },
    ),
    good=Example({}, {"dataset": _DATASET, "rewards": [_GOOD]}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
    requires=("reward-required-parameter-missing",),
)
def reward_column_hidden(setup: Setup, facts: Facts) -> Outcome:
    if facts.columns is None:
        return not_applicable("dataset.columns is not stated")
    hidden = [name for name in facts.columns if name in hidden_columns(facts) and name != "prompt"]
    if not hidden:
        return PASS
    rewards = rewards_of(setup.rewards)
    read = [name for name in hidden for reward in rewards if re.search(rf"\b{name}\b(?!s)", reward.reads)]
    # Nothing else in the dataset could hold the gold answer, and the reward does take columns.
    only = len(facts.columns) <= 1 + len(hidden) and any(reward.signature.takes_any for reward in rewards)
    if not read and not only:
        return PASS
    return fail(
        "dataset.columns",
        "rewards[].signature",
        "rewards",
        value=read or hidden,
        message=f"Column {', '.join(read or hidden)} never reaches a reward function: TRL leaves it out of what it "
        "passes. Rename it, for example to solution.",
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
    reading = [reward for reward in rewards if re.search(r"kwargs|column|\[['\"]", reward.reads)]
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
    "reward-weights-count",
    severity="error",
    what="reward_weights has another length than the list of reward functions.",
    why="The trainer raises ValueError when it is built.",
    bad=Example({"reward_weights": [1.0, 0.5]}, {"rewards": [_GOOD]}),
    good=Example({"reward_weights": [1.0]}, {"rewards": [_GOOD]}),
    sources=("huggingface/trl:docs/source/grpo_trainer.md",),
)
def reward_weights_count(config: ConfigView, setup: Setup) -> Outcome:
    weights = config.effective("reward_weights")
    if not isinstance(weights, list | tuple):
        return PASS
    if not setup.rewards:
        return not_applicable("the setup states no reward functions")
    if len(weights) == len(setup.rewards):
        return PASS
    return fail(
        "reward_weights",
        "rewards",
        value=list(weights),
        message=f"{len(weights)} weights for {len(setup.rewards)} reward functions. Give one weight for each.",
    )


@rule(
    "reward-weights-all-zero",
    severity="error",
    what="Every reward weight is zero.",
    why="The weighted sum is 0 for every completion, so every advantage is 0 and nothing is trained.",
    bad=Example({"reward_weights": [0.0]}),
    good=Example({"reward_weights": [1.0]}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
)
def reward_weights_all_zero(config: ConfigView) -> Outcome:
    weights = config.effective("reward_weights")
    if not isinstance(weights, list | tuple) or not weights or any(weight != 0 for weight in weights):
        return PASS
    return fail("reward_weights", value=list(weights), message="All reward weights are 0, so no reward counts.")


@rule(
    "reward-names-collide",
    severity="warning",
    what="Several reward functions have the same name.",
    why="Metrics and the completion table are keyed by the name, so their means are averaged into one curve and "
    "nobody sees which reward moves.",
    bad=Example({}, {"rewards": [{"name": "wrapped"}, {"name": "wrapped"}]}),
    good=Example({}, {"rewards": [{"name": "format"}, {"name": "correct"}]}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
)
def reward_names_collide(setup: Setup) -> Outcome:
    rewards = rewards_of(setup.rewards)
    names = [("<lambda>" if reward.signature.kind == "lambda" else reward.name) for reward in rewards]
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if not twice:
        return PASS
    return fail(
        "rewards[].name",
        "rewards",
        "reward_funcs",
        value=twice,
        message=f"{names.count(twice[0])} reward functions are called {twice[0]!r}, so their metrics are merged. Give "
        "each its own __name__.",
    )


@rule(
    "reward-without-name",
    severity="error",
    trl="<1.9",
    what="A reward is a partial or a callable object, which has no __name__.",
    why="The trainer reads __name__ when it is built and raises AttributeError.",
    bad=Example({}, {"rewards": [{"name": "judge", "signature": "functools.partial(judge, rubric=1)"}]}),
    good=Example({}, {"rewards": [_GOOD]}),
    sources=("huggingface/trl#6313",),
)
def reward_without_name(setup: Setup) -> Outcome:
    def judge(reward: Reward) -> Fail | None:
        nameless = reward.signature.kind in ("partial", "method", "object") and "__name__" not in reward.text
        if not nameless:
            return None
        return fail(
            *reward.fields("signature"),
            *reward.fields("name")[:2],
            value=reward.text,
            message=f"{reward.shown} is a {'partial' if reward.signature.kind == 'partial' else 'callable object'} "
            "without __name__, which TRL reads before 1.9. Set __name__ on it, wrap it in a def, or use trl>=1.9.",
        )

    return _each(setup, judge)


@rule(
    "reward-async-not-awaited",
    severity="error",
    trl="<0.27",
    what="A reward function is a coroutine, which this TRL version does not await.",
    why="The trainer iterates over the coroutine object and raises TypeError at the first step.",
    bad=Example({}, {"rewards": [{"name": "judge", "signature": "async def judge(completions, **kwargs)"}]}),
    good=Example({}, {"rewards": [_GOOD]}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
)
def reward_async_not_awaited(setup: Setup) -> Outcome:
    def judge(reward: Reward) -> Fail | None:
        if not reward.signature.asynchronous and not reward.text.startswith("async "):
            return None
        return fail(
            *reward.fields("signature"),
            value=reward.text,
            message=f"{reward.shown} is async; TRL awaits rewards since 0.27. Make it a plain function, or upgrade.",
        )

    return _each(setup, judge)


@rule(
    "reward-source-missing",
    severity="error",
    what="There is no reward function and no environment that gives a reward.",
    why="The trainer raises ValueError, or trains on nothing.",
    bad=Example({}, {"rewards": []}),
    good=Example({}, {"rewards": [_GOOD]}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
)
def reward_source_missing(setup: Setup) -> Outcome:
    if "rewards" not in setup.sections or setup.get("environment_factory"):
        return PASS
    if setup.sections["rewards"] is None or setup.rewards:
        return PASS
    return fail(
        "rewards", "reward_funcs", value=[], message="The list of reward functions is empty. Give at least one."
    )


RULES = (
    reward_required_parameter_missing,
    reward_without_kwargs,
    reward_positional_only,
    reward_column_passed_twice,
    reward_column_overwritten,
    reward_column_hidden,
    reward_columns_removed,
    reward_weights_count,
    reward_weights_all_zero,
    reward_names_collide,
    reward_without_name,
    reward_async_not_awaited,
    reward_source_missing,
)
