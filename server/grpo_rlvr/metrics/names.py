"""What the columns of a training log are called, and what they measure: one table for all frameworks."""

import re
from dataclasses import dataclass
from functools import lru_cache

from grpo_rlvr.metrics.aliases import ALIASES, Alias
from grpo_rlvr.metrics.translations import in_english

__all__ = ["ALIASES", "QUANTITIES", "Alias", "Meaning", "Quantity", "meaning", "normalise"]


@dataclass(frozen=True)
class Quantity:
    """One thing that logs measure. `low` and `high` bound it where it has bounds."""

    name: str
    unit: str
    what: str
    low: float | None = None
    high: float | None = None


QUANTITIES: dict[str, Quantity] = {
    q.name: q
    for q in (
        Quantity("step", "steps", "Position in the run."),
        Quantity("epoch", "epochs", "Passes over the data.", 0),
        Quantity("num_tokens", "tokens", "Prompt and completion tokens since the start.", 0),
        Quantity("step_time", "s", "Seconds a step.", 0),
        Quantity("learning_rate", "", "Learning rate of this row.", 0),
        Quantity("loss", "", "Training loss: about 0 on-policy, it carries no progress information."),
        Quantity("grad_norm", "", "Gradient norm before clipping.", 0),
        Quantity("reward", "reward", "Mean of the weighted sum of rewards."),
        Quantity("reward_std", "reward", "Spread of the reward in the batch.", 0),
        Quantity("zero_std", "share", "Share of samples in groups whose rewards are all equal: no gradient.", 0, 1),
        Quantity("all_wrong", "share", "Share of groups in which every answer fails.", 0, 1),
        Quantity("all_right", "share", "Share of groups in which every answer succeeds.", 0, 1),
        Quantity("length", "tokens", "Mean completion length.", 0),
        Quantity("length_min", "tokens", "Shortest completion.", 0),
        Quantity("length_max", "tokens", "Longest completion.", 0),
        Quantity("length_finished", "tokens", "Mean length of the completions that ended by themselves.", 0),
        Quantity("clipped", "share", "Share of completions cut at the cap.", 0, 1),
        Quantity("entropy", "nats", "Mean entropy of the next token.", 0),
        Quantity("kl", "nats", "Distance to the reference model."),
        Quantity("clip_frac", "share", "Share of tokens (sequence level: answers) whose ratio is clipped.", 0, 1),
        Quantity("clip_low", "share", "The same, at the lower bound.", 0, 1),
        Quantity("clip_high", "share", "The same, at the upper bound.", 0, 1),
        Quantity("policy_kl", "nats", "Distance to the policy that sampled, within one batch."),
        Quantity("logp_gap", "nats", "Mean absolute log-probability gap between sampler and trainer.", 0),
        Quantity("logp_gap_max", "nats", "Largest such gap.", 0),
        Quantity("mismatch_kl", "nats", "KL between sampler and trainer on the same tokens."),
        Quantity("is_mean", "", "Mean importance ratio of trainer to sampler, after masking or truncation.", 0),
        Quantity("is_min", "", "Smallest such ratio.", 0),
        Quantity("is_max", "", "Largest such ratio.", 0),
        Quantity("ess", "share", "Effective sample size under those ratios.", 0, 1),
        Quantity("advantage", "", "Mean advantage."),
        Quantity("advantage_max", "", "Largest advantage."),
        Quantity("advantage_min", "", "Smallest advantage."),
        Quantity("accuracy", "share", "A measure of success beside the trained reward."),
        Quantity("component", "reward", "Mean of one reward function."),
        Quantity("component_std", "reward", "Spread of one reward function.", 0),
        Quantity("aux_loss", "", "Router load-balancing loss of a mixture of experts.", 0),
        Quantity("tool_calls", "calls", "Tool calls a sample.", 0),
        Quantity("tool_failures", "share", "Share of tool calls that fail.", 0, 1),
        Quantity("prompt_length", "tokens", "Mean prompt length.", 0),
        Quantity("other", "", "Known, and not used in a verdict."),
    )
}

_SEPARATORS = re.compile(r"[^a-z0-9%]+")
_AGGREGATE = re.compile(r"(_last|_max|_final|_end|_mean|_avg)$")
_ACCURACY = re.compile(
    r"(^|_)(acc|accuracy|correct|correctness|pass_?1|pass_?at_?1|solve_?rate|solved|success|success_rate|exact_match|em)"
    r"(_|%|$)"
)
_COMPONENT = re.compile(
    r"^(?:rewards?|reward_func(?:tion)?s?|train_rewards?)[/_](?P<name>.+?)(?P<std>[/_]std)?(?:[/_]mean)?$"
)
# Shares of ways to fail, as verifiers log them by reason: they fall when things go well, whatever stands before them.
_FAILURE = re.compile(
    r"(^|_)(no_answer|bad_(format|row)|not_json|schema_error|wrong(_call)?|tests_failed|timeouts?|limit|died|hedge|partial"
    r"|harness_error|incorrect|invalid|errors?|fail(s|ed|ures?)?)(_(rate|share|frac|fraction|count))?$"
)
# Where a name is kept, in frameworks that print paths: "grpo_actor/update/entropy/avg" is an entropy. `critic` is not
# here: the loss and the gradient norm of a value model are others.
_PLACE = re.compile(
    r"^(?:train(?:er|ing)?|policy(?:_train)?|actor(?:_train)?|grpo(?:_(?:actor|loss|trainer))?|ppo_actor|update|optim(?:izer)?"
    r"|loss(?:es)?|stats|metrics|main|generat(?:e|ion)|rollout|response)/"
)
# Speed and memory: a "timing_s/reward" is the time that a reward takes.
_COST = re.compile(r"^(?:timing\w*|time|timeperf|perf|profil\w*|mfu|memory|system|throughput)/")
# What an evaluation counts beside success: turns, calls, seconds, lengths.
_NO_SUCCESS = re.compile(
    r"(^|_)(num|count|counts|turns?|took|time|seconds|duration|runtime|tokens?|len|lengths?|ratio|var|std|min|max|steps?"
    r"|calls?|tools?|memory|loss|ppl|perplexity|lr|epoch|size|throughput)(_|$)"
)
_AGAIN = re.compile(r" #\d+$")
_SPREAD = re.compile(r"_(std|var)(_\d+)?$")
_BOUND = re.compile(r"[/_](?:min|max|std|sum)$")
# Groups whose rewards are all equal, in people's own words: "groups with zero reward spread", "zero-advantage share".
_NO_SPREAD = re.compile(r"(^|_)(zero|no)_(reward_)?(std|var|variance|spread|adv|advantage|signal)(_|%|$)")
_LEADING_AGGREGATE = re.compile(r"^(mean|avg|average|median)_")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_REWARD_WORD = re.compile(r"(_|^)(reward|rew|score)(_func(tion)?)?(_|$)")


@dataclass(frozen=True)
class Meaning:
    """What one column measures.

    `quantity` is a key of QUANTITIES, `scale` and `flip` bring the printed number to its unit
    (percent to share, one minus), `detail` names the reward function of a component.
    """

    quantity: str
    alias: Alias | None = None
    scale: float = 1.0
    flip: bool = False
    detail: str = ""
    evaluation: bool = False


def normalise(name: str) -> str:
    """Return a column name in the form the table is keyed by: English, lower case, every separator an underscore."""
    name = name if name.isascii() else in_english(name)
    return _SEPARATORS.sub("_", name.lower()).replace("_%", "%").strip("_")


_BY_NAME: dict[str, Alias] = {}
for _alias in ALIASES:
    _BY_NAME.setdefault(normalise(_alias.name), _alias)


@lru_cache(maxsize=4096)
def meaning(column: str) -> Meaning | None:
    """Return what a column of this name measures, None when the table does not know it."""
    if column.endswith(("__MIN", "__MAX", "_timestamp")) or _AGAIN.search(column):
        return Meaning("other")  # what exports of W&B and SwanLab put beside each metric, or another run's column
    name = normalise(column)
    evaluation = bool(re.match(r"(eval|val|validation|test)[_ ]", name + "_")) and not name.startswith("value")
    if evaluation:
        inner = meaning(re.sub(r"^(eval|val|validation|test)_", "", name)) if "_" in name else None
        success = "other" if _NO_SUCCESS.search(name) else "accuracy"
        return Meaning(
            inner.quantity if inner else success,
            inner.alias if inner else None,
            inner.scale if inner else 1.0,
            detail=inner.detail if inner else name,
            evaluation=True,
        )
    # "train/loss" is the loss of a W&B export; "train_loss" is the mean that a run prints when it ends.
    lowered = column.strip().lower()
    bare = (normalise(lowered.removeprefix("train/")),) if lowered.startswith("train/") else ()
    for candidate in (*bare, *_candidates(name), *_candidates(normalise(_CAMEL.sub("_", column)))):
        if alias := _BY_NAME.get(candidate):
            if alias.quantity in ("reward", "entropy") and name.endswith("_max") and not candidate.endswith("_max"):
                return Meaning("other")  # the best answer of a batch says nothing of its mean
            return Meaning(alias.quantity, alias, 0.01 if "%" in name else 1.0, alias.flip)
    inner = _in_its_place(column.strip())
    return inner if inner and inner.alias else _by_shape(column, name) or inner


def _in_its_place(column: str) -> Meaning | None:
    """What the name after a known place measures; None for a bound of it, which is another quantity."""
    place = _PLACE.match(column.lower())
    return meaning(column[place.end() :]) if place and not _BOUND.search(column.lower()) else None


def _candidates(name: str) -> list[str]:
    """The spellings to look up: as it is, without a percent sign, without a train prefix, without an aggregate."""
    plain = name.replace("%", "").strip("_")
    bare = re.sub(r"^(train|training|metrics|global|all)_", "", plain)
    short = _AGGREGATE.sub("", bare)
    return [name, plain, bare, _AGGREGATE.sub("", plain), short, _LEADING_AGGREGATE.sub("", short)]


def _by_shape(column: str, name: str) -> Meaning | None:
    lowered = re.sub(r"\s*/\s*", "/", column.strip().lower()).removeprefix("train/")
    scale = 0.01 if "%" in name else 1.0
    if found := _COMPONENT.match(lowered):
        quantity = "component_std" if found["std"] else "component"
        return Meaning(quantity, detail=found["name"])
    if _NO_SPREAD.search(name):
        return Meaning("zero_std", scale=scale)
    if _COST.match(lowered):
        return Meaning("other")
    if _SPREAD.search(name) and (_REWARD_WORD.search(name) or _ACCURACY.search(name)):
        return Meaning("component_std", detail=name)
    if _FAILURE.search(name):
        return Meaning("other")
    if _ACCURACY.search(name):
        return Meaning("accuracy", scale=scale, detail=name)
    if _REWARD_WORD.search(name) and not name.endswith(("_std", "_max", "_min")) and "per_group" not in name:
        return Meaning("component", scale=scale, detail=name)
    return None
