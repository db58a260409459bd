"""Reward wiring: what the trainer passes, what a reward function takes, how it is named and weighted."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import rlvr_rewards
from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Fail, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.rules.reward_columns import column_names, each_reward, hidden_columns, passed_names
from grpo_rlvr.config.signature import Reward, rewards_of
from grpo_rlvr.config.view import ConfigView
from grpo_rlvr.errors import nearest
from grpo_rlvr.models.setup import Setup

_DATASET = {"columns": ["prompt", "answer"], "format": "string"}
_CLI = re.compile(r"\btrl\s+grpo\b|trl/scripts/grpo\.py|trl\.scripts\.grpo")
_GOOD = {"name": "correct", "signature": "def correct(completions, answer, **kwargs)"}


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
            message=f"{reward.shown} requires {', '.join(missing)}, which nobody "
            f"passes{nearest(missing[0], known)}. "
            f"The trainer passes {', '.join(passed)} and the columns "
            f"{', '.join(columns) if columns else '(not stated)'}; rename the column or the parameter.",
        )

    return each_reward(setup, judge)


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

    return each_reward(setup, judge)


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

    return each_reward(setup, judge)


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
        return not_applicable("rewards is not stated")
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
        named = "__name__" in reward.text and not re.search(r"\b(without|no|lacks|missing) (a )?__name__", reward.text)
        partial = reward.signature.kind == "partial" or "partial(" in reward.name
        nameless = (partial or reward.signature.kind in ("method", "object")) and not named
        if not nameless:
            return None
        return fail(
            *reward.fields("signature"),
            *reward.fields("name")[:2],
            value=reward.text or reward.name,
            message=f"{reward.shown} is a {'partial' if partial else 'callable object'} "
            "without __name__, which TRL reads before 1.9. Set __name__ on it, wrap it in a def, or use trl>=1.9.",
        )

    return each_reward(setup, judge)


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

    return each_reward(setup, judge)


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


def own_reward(entry: Mapping[str, Any]) -> Any:
    """Build a reward of our own library; None for another kind, or where building it would load the user's code.

    Raises:
        RewardSpecError: the spec is refused.
    """
    spec = {name: entry[name] for name in ("reward", "args", "weight") if name in entry}
    if "reward" not in spec or "signature" in entry or ".py" in repr(spec) or spec["reward"] == "judge":
        return None
    return rlvr_rewards.build(spec)


@rule(
    "reward-spec-refused",
    severity="error",
    what="A reward spec names a reward or an argument that the reward library does not have.",
    why="The reward cannot be built, so neither a reading nor a run can start.",
    bad=Example({}, {"rewards": [{"reward": "exakt"}]}),
    good=Example({}, {"rewards": [{"reward": "exact"}]}),
    sources=("rewards/rlvr_rewards/spec.py",),
)
def reward_spec_refused(setup: Setup) -> Outcome:
    failures: list[Fail] = []
    for index, entry in enumerate(setup.rewards):
        try:
            own_reward(entry)
        except rlvr_rewards.RewardError as error:
            failures.append(
                fail(
                    f"rewards[{index}].reward",
                    "rewards[].reward",
                    "rewards",
                    value=str(entry.get("reward")),
                    message=f"{str(error).rstrip('.')}.",
                )
            )
    return failures or PASS


@rule(
    "reward-spec-column-missing",
    severity="error",
    what="A reward of the library reads a column that the dataset does not have.",
    why="It raises at the first step, after a full rollout: gold data that is missing is an error, not a 0.",
    bad=Example({}, {"dataset": {"columns": ["prompt", "answer"]}, "rewards": [{"reward": "exact"}]}),
    good=Example({}, {"dataset": {"columns": ["prompt", "gold"]}, "rewards": [{"reward": "exact"}]}),
    sources=("rewards/rlvr_rewards/_core.py",),
    requires=("reward-spec-refused",),
)
def reward_spec_column_missing(setup: Setup, facts: Facts) -> Outcome:
    columns = column_names(facts)
    if columns is None:
        return not_applicable("dataset.columns is not stated")
    failures: list[Fail] = []
    for index, entry in enumerate(setup.rewards):
        reward = own_reward(entry)
        wanted = reward.columns() if reward is not None and hasattr(reward, "columns") else ()
        missing = [name for name in wanted if name not in (*columns, "prompt")]
        if missing:
            failures.append(
                fail(
                    "dataset.columns",
                    f"rewards[{index}].reward",
                    "rewards",
                    value=missing,
                    message=f"The reward {entry['reward']!r} reads {', '.join(missing)}, and the columns are "
                    f"{', '.join(columns) or 'none'}{nearest(missing[0], columns)}. Rename the column, or name "
                    "it in the "
                    "reward's args.",
                )
            )
    return failures or PASS


@rule(
    "command-line-drops-reward-functions",
    severity="error",
    trl="<0.20",
    what="Reward functions on the command line of a `trl grpo` that does not use them.",
    why="Up to 0.17 the script has no such option and refuses it; 0.18 and 0.19 read it and then pass the reward model "
    "alone: UnboundLocalError without one, and a run that ignores the functions with one.",
    bad=Example(
        {}, {"launch": {"command": "trl grpo --reward_funcs think_format_reward"}, "versions": {"trl": "0.19.1"}}
    ),
    good=Example({}, {"launch": {"command": "accelerate launch train.py"}, "versions": {"trl": "0.19.1"}}),
    sources=("huggingface/trl#3455", "huggingface/trl#3639", "trl/scripts/grpo.py"),
)
def command_line_drops_reward_functions(facts: Facts) -> Outcome:
    command = facts.text("launch.command") or ""
    if not _CLI.search(command) or not re.search(r"--reward[_-]funcs\b", command):
        return PASS
    return fail(
        "launch.command",
        "rewards",
        value=command,
        message=f"`trl grpo` of TRL {facts.versions.trl} does not use --reward_funcs: write a script that passes them "
        "to GRPOTrainer, or use trl>=0.20.",
    )


RULES = (
    command_line_drops_reward_functions,
    reward_required_parameter_missing,
    reward_without_kwargs,
    reward_positional_only,
    reward_weights_count,
    reward_weights_all_zero,
    reward_names_collide,
    reward_without_name,
    reward_async_not_awaited,
    reward_source_missing,
    reward_spec_refused,
    reward_spec_column_missing,
)
