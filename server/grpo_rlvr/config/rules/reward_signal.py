"""Reward values: what a reward returns, whether it can vary within a group, whether it reads what is there."""

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Fail, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.signature import Reward, rewards_of
from grpo_rlvr.models.setup import Setup

Shape = Literal["dict", "single", "scalar", "none", "text", "nested"]
_DICT = re.compile(r"\bdict(ionary)?s?\b|\bmapping\b", re.I)
_SCALAR = re.compile(
    r"^(a |one |the )?(single |plain |bare |mean |average )*(scalar|float|number|int|integer|bool|double|score|value|"
    r"reward|tensor scalar)\b(?!s)(?! per| for each| for every| each)|\bscalar\b|\b(float|number|value) instead of a "
    r"list|"
    r"^(np|numpy|torch|statistics|math)\.\w*(mean|sum|max|min|item)\w*\(|^(sum|float|int|bool|len|max|min)\(",
    re.I,
)
_NONE = re.compile(
    r"^(returns? )?(none|nothing)\b(?! (for|when|where|if|on|in))|no return|forgets? (to|the) return", re.I
)
_SCALAR_TENSOR = re.compile(r"\b(0-?d|zero-dim\w*|scalar) tensor\b|\btensor\b.*\bshape \(\)", re.I)
_TEXTS = re.compile(r"\blist of (str|strings|texts)\b|\blist\[str\]", re.I)
_NESTED = re.compile(r"\blist of (lists|tuples|dicts)\b|\blist\[(list|tuple|dict)", re.I)
_WRONG_COUNT = re.compile(
    r"\bone (value|reward|score|float|number|entry) (per|for each|for every) (prompt|group|batch|question|example)\b|"
    r"\bper[- ](prompt|group|batch)\b|\b(fewer|less|more|too many|too few|shorter|longer) (values|rewards|scores|than)|"
    r"\bone (value|reward|score|element) for the (whole )?(batch|list|group)|\bwrong length\b|\bshorter list\b|"
    r"\bskips? (failed|invalid|bad|unparsable|empty)|\bonly (the "
    r")?(parsed|valid|graded|first)\b|\blen\(prompts\)\s*//|\blen\(completions\)\s*[-+/]|\boff by one\b|\bdrops "
    r"(some|failed|invalid)",
    re.I,
)
_INFINITE = re.compile(
    r"\binf(inite|inity)?\b|\bnan\b|math\.inf|np\.inf|float\(['\"](-?inf|nan)|divi\w+ by zero|log\(0", re.I
)
_FINITE = re.compile(r"\b(never|no|without|not|clamp\w*|clip\w*|finite)\b", re.I)
_CONSTANT = re.compile(
    r"\bsame (value|reward|score)\b.*\b(every|each|all)\b|\b(constant|identical|equal)\b|\balways (0|1|zero|one|the "
    r"same|"
    r"-?\d)|\b(all|every) (completions?|rewards?|scores?|values?) (is|are|get|gets|score|scores|receive) (the "
    r"same|0|zero|"
    r"equal|identical|1\.0|0\.0)|\bno (variance|variation|spread)\b|\bzero (variance|std)\b|\bdepends only on the "
    r"prompt\b|"
    r"\bignores the completion\b|\b[01](\.0)? for (almost |nearly )?(all|every|each|any) (completion|answer|response|"
    r"sample|output)|\ball completions?\b.{0,40}\bget 0\b",
    re.I,
)
_SUSPECTED = re.compile(
    r"\b(may|might|maybe|often|mostly|nearly|almost|usually|likely|probably|can "
    r"be|seems?|suspected?|rarely|hardly|most|some|"
    r"sparse|9\d ?%)\b",
    re.I,
)
_NEGATIVE = re.compile(r"-\s*\d|negative|below 0|below zero|less than (0|zero)", re.I)
_ERASED = re.compile(r"\bmin\(\s*(reward|score|r|base|value)\w*\s*,", re.I)
_CLAMPED = re.compile(r"max\(\s*0(\.0)?\s*,\s*min\(", re.I)
_OPTIONAL = re.compile(r"\bnone\b", re.I)
_ALL = re.compile(r"\bboth\b|\b(all|every) (functions?|rewards?|of them)\b|\bsame rows?\b", re.I)
_GOOD = Example(
    {}, {"rewards": [{"name": "f", "signature": "def f(completions, **kwargs)", "returns": "one float each"}]}
)


def _bad(returns: str, **more: Any) -> Example:
    entry = {"name": "f", "signature": "def f(completions, **kwargs)", "returns": returns, **more}
    return Example({}, {"rewards": [entry]})


def returned_shape(text: str) -> Shape | None:
    """Return the wrong shape that a `returns` text states, None for a list of one number each or an unclear text."""
    text = text.strip()
    literal = _literal_shape(text)
    if literal is not None:
        return literal or None
    if text.startswith("{") or _DICT.search(text):
        return "dict"
    if _TEXTS.search(text):
        return "text"
    if _NESTED.search(text):
        return "nested"
    if _WRONG_COUNT.search(text):
        return "single"
    if _NONE.search(text):
        return "none"
    return "scalar" if _SCALAR.search(text) or _SCALAR_TENSOR.search(text) else None


def _literal_shape(text: str) -> Shape | Literal[""] | None:
    """Return the shape of a Python expression, `` for one that is fine, None when the text is no expression."""
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if isinstance(node, ast.List | ast.Tuple):
        if len(node.elts) == 1 and not isinstance(node.elts[0], ast.Starred):
            return "single"
        return "text" if node.elts and isinstance(getattr(node.elts[0], "value", None), str) else ""
    if isinstance(node, ast.ListComp):
        return ""
    if isinstance(node, ast.BinOp):
        lists = any(isinstance(side, ast.List | ast.ListComp) for side in (node.left, node.right))
        return "" if lists else "scalar" if isinstance(node.op, ast.Div) else None
    if isinstance(node, ast.Dict | ast.DictComp | ast.Set | ast.SetComp):
        return "dict"
    if isinstance(node, ast.Constant):
        return "none" if node.value is None else "scalar" if isinstance(node.value, int | float) else None
    return None


def _same_number_for_all(text: str) -> bool:
    """Return whether a Python expression such as `[0.0 for _ in completions]` or `[1] * 8` holds one number only."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.List):
        return len(node.left.elts) == 1 and isinstance(node.left.elts[0], ast.Constant)
    return isinstance(node, ast.ListComp) and isinstance(node.elt, ast.Constant)


_SHAPES: dict[str, str] = {
    "dict": "a dict, whose keys would be taken for the rewards",
    "single": "another number of values than there are completions",
    "scalar": "one number instead of a list",
    "none": "nothing",
    "text": "texts instead of numbers",
    "nested": "lists instead of numbers",
}


def _each(setup: Setup, part: str, judge: Callable[[Reward], Fail | None]) -> Outcome:
    rewards = [reward for reward in rewards_of(setup.rewards) if getattr(reward, part)]
    if not rewards:
        return not_applicable(f"rewards[].{part} is not stated")
    return [failure for reward in rewards if (failure := judge(reward)) is not None] or PASS


@rule(
    "reward-returns-wrong-shape",
    severity="error",
    what="A reward function does not return one number for each completion.",
    why="Another length raises since TRL 1.10 and was broadcast silently before, so that all advantages were zero; a "
    "dict's keys become the rewards; a scalar or None raises TypeError at the first step.",
    bad=_bad("[1.0]"),
    good=_GOOD,
    sources=("huggingface/trl#6533", "huggingface/trl:trl/trainer/grpo_trainer.py"),
)
def reward_returns_wrong_shape(setup: Setup) -> Outcome:
    def judge(reward: Reward) -> Fail | None:
        shape = returned_shape(reward.returns)
        if shape is None:
            return None
        return fail(
            *reward.fields("returns"),
            value=reward.returns,
            message=f"{reward.shown} returns {_SHAPES[shape]} ({reward.returns}). Return a list with one float, or "
            "None, for each completion.",
        )

    return _each(setup, "returns", judge)


@rule(
    "reward-not-finite",
    severity="error",
    what="A reward may be infinite or NaN.",
    why="One such value makes the group's mean and deviation non-finite and every advantage in it zero, while "
    "frac_reward_zero_std still reads 0.",
    bad=_bad("may contain inf"),
    good=_GOOD,
    sources=("modelscope/ms-swift#8123",),
)
def reward_not_finite(setup: Setup) -> Outcome:
    def judge(reward: Reward) -> Fail | None:
        if not _INFINITE.search(reward.returns) or _FINITE.search(reward.returns):
            return None
        return fail(
            *reward.fields("returns"),
            value=reward.returns,
            message=f"{reward.shown} may return a value that is not finite ({reward.returns}). Clamp it, and return "
            "None where the row cannot be graded.",
        )

    return _each(setup, "returns", judge)


@rule(
    "reward-constant-in-group",
    severity="error",
    what="A reward has the same value for every completion of a prompt.",
    why="The group's mean is then every completion's reward, so all advantages are zero (frac_reward_zero_std 1.0) "
    "and nothing is trained.",
    bad=_bad("same value for every completion of a prompt"),
    good=_GOOD,
    sources=("huggingface/trl#3857",),
    requires=("reward-returns-wrong-shape",),
)
def reward_constant_in_group(setup: Setup) -> Outcome:
    count = len(setup.rewards)
    if setup.get("measured.reward_constant") is True:
        return fail(
            "measured.reward_constant",
            "rewards",
            "reward_funcs",
            value=True,
            message="The reward was measured to be constant within groups.",
        )

    def judge(reward: Reward) -> Fail | None:
        stated = _CONSTANT.search(reward.returns) and not _SUSPECTED.search(reward.returns)
        # Beside others a constant function is a usual way to log: only alone does it leave nothing to learn from.
        if not stated and not (count == 1 and _same_number_for_all(reward.returns)):
            return None
        alone = "" if count == 1 else " and adds nothing to the other rewards' differences"
        return fail(
            *reward.fields("returns"),
            value=reward.returns,
            message=f"{reward.shown} is constant within a group ({reward.returns}){alone}. Grade on a finer scale, "
            "raise temperature or num_generations, or drop prompts that are always solved or never.",
        )

    return _each(setup, "returns", judge)


@rule(
    "reward-perhaps-constant",
    severity="warning",
    what="A reward is suspected to be the same for most completions of a prompt.",
    why="Groups without a difference train nothing; watch frac_reward_zero_std, since the per-function deviation "
    "also varies across prompts and looks healthy.",
    bad=_bad("almost always 0"),
    good=_GOOD,
    sources=("huggingface/trl#3857",),
    requires=("reward-constant-in-group", "reward-returns-wrong-shape"),
)
def reward_perhaps_constant(setup: Setup) -> Outcome:
    def judge(reward: Reward) -> Fail | None:
        if not (_CONSTANT.search(reward.returns) and _SUSPECTED.search(reward.returns)):
            return None
        return fail(
            *reward.fields("returns"),
            value=reward.returns,
            message=f"{reward.shown} hardly differs within a group ({reward.returns}). Measure the base success rate "
            "first.",
        )

    return _each(setup, "returns", judge)


def _none_for_whole_row(rewards: Sequence[Reward]) -> bool:
    if not all(_OPTIONAL.search(reward.returns) for reward in rewards):
        return False
    # Functions that each grade another task return None in turn, which is what None is for.
    return len(rewards) == 1 or any(_ALL.search(reward.returns) for reward in rewards)


@rule(
    "reward-none-for-whole-row-refused",
    severity="error",
    trl=">=0.20,<0.22",
    what="Every reward function may return None for the same row, in a release that fails while it warns of it.",
    why="The warning indexes trainer_state as if it were a column: TypeError at the first such row.",
    bad=Example({}, {**_bad("None when the answer is missing").setup, "versions": {"trl": "0.21.0"}}),
    good=_GOOD,
    sources=("huggingface/trl#3936", "trl wheels 0.20 to 0.22"),
    requires=("reward-returns-wrong-shape",),
)
def reward_none_for_whole_row_refused(setup: Setup, facts: Facts) -> Outcome:
    rewards = rewards_of(setup.rewards)
    if not rewards:
        return not_applicable("rewards is not stated")
    if not _none_for_whole_row(rewards):
        return PASS
    return fail(
        *rewards[0].fields("returns"),
        "versions.trl",
        value=rewards[0].returns,
        message=f"Where {rewards[0].shown} returns None ({rewards[0].returns}) and no other reward grades the row, TRL "
        f"{facts.versions.trl} raises TypeError. Filter such rows out of the dataset, or use trl>=0.22.",
    )


@rule(
    "reward-none-for-whole-row",
    severity="warning",
    what="Every reward function may return None for the same row.",
    why="Such a row has no reward at all: TRL warns and gives it no advantage since 1.6, and counted it as 0 before.",
    bad=_bad("None when the answer is missing"),
    good=_GOOD,
    sources=("huggingface/trl#5775",),
    requires=("reward-returns-wrong-shape", "reward-none-for-whole-row-refused"),
)
def reward_none_for_whole_row(setup: Setup, facts: Facts) -> Outcome:
    rewards = rewards_of(setup.rewards)
    if not rewards:
        return not_applicable("rewards is not stated")
    if not _none_for_whole_row(rewards):
        return PASS
    before = "counts as reward 0" if facts.trl_is("<1.6") else "gets no advantage"
    return fail(
        *rewards[0].fields("returns"),
        value=rewards[0].returns,
        message=f"Where {rewards[0].shown} returns None ({rewards[0].returns}) no other reward grades the row, so it "
        f"{before}. Filter such rows out of the dataset, or add a reward that always grades.",
    )


@rule(
    "reward-penalty-erases-negatives",
    severity="error",
    what="A penalty is cut to min(reward, ...) and taken off a reward that can be negative.",
    why="For a negative reward min(reward, penalty) is the reward itself, so subtracting it gives 0: bad answers are "
    "no longer punished.",
    bad=_bad("base range is [-1, 1]", reads="penalty = min(reward, over * rate); returns reward - penalty"),
    good=_bad("in [0, 1]", reads="penalty = max(0.0, min(reward, over * rate)); returns reward - penalty"),
    sources=("wshobson/agents:plugins/llm-finetuning/skills/grpo-rlvr-training/references/reward-functions.md",),
)
def reward_penalty_erases_negatives(setup: Setup) -> Outcome:
    def judge(reward: Reward) -> Fail | None:
        if not _ERASED.search(reward.reads) or _CLAMPED.search(reward.reads):
            return None
        if reward.returns and not _NEGATIVE.search(reward.returns):
            return None
        return fail(
            *reward.fields("reads"),
            *reward.fields("returns")[:2],
            *reward.fields("signature")[:2],
            value=reward.reads,
            message=f"{reward.shown} subtracts min(reward, ...), which is the reward itself when that is negative, so "
            "every negative score becomes 0. Use max(0.0, min(reward, penalty)).",
        )

    return _each(setup, "reads", judge)


RULES = (
    reward_returns_wrong_shape,
    reward_not_finite,
    reward_constant_in_group,
    reward_perhaps_constant,
    reward_none_for_whole_row_refused,
    reward_none_for_whole_row,
    reward_penalty_erases_negatives,
)
