"""The form a reward looks for, and whether any prompt asks for it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Fail, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.rules.rewards import own_reward
from grpo_rlvr.config.signature import Reward, rewards_of
from grpo_rlvr.models.setup import Setup
from rlvr_rewards import RewardError

_TAG = re.compile(r"<([A-Za-z][\w-]{0,40})>")
_BOXED = "\\boxed"
# What many models write unasked, since they were trained on it or their chat template asks for it.
_HABITS = ("<think>", "<thinking>", "<tool_call>", _BOXED)
_PROMPTS = ["What is 2+2?", "What is 3+3? Show your work."]
_ASKING = [[{"role": "system", "content": "Answer inside <answer> tags."}, {"role": "user", "content": "What is 2+2?"}]]


@dataclass(frozen=True)
class Mark:
    """Something that a reward looks for in a completion; `asked` finds a prompt that asks for it."""

    shown: str
    asked: re.Pattern[str]

    @property
    def habit(self) -> bool:
        """Whether many models write it without being asked."""
        return self.shown in _HABITS


def mark_of(text: str) -> Mark:
    """Return the mark that a text such as `<answer>`, `\\boxed` or `JSON` stands for."""
    tag = _TAG.fullmatch(text)
    if tag:
        name = re.escape(tag[1])
        found = rf"<{name}\b|\b{name}\b\W{{0,3}}(tags?|blocks?|elements?|sections?)\b|\b(xml|html|svg|markup)\b"
    elif text == _BOXED:
        found = r"\bboxed\b|\bfbox\b"
    else:
        found = re.escape(text) if text != "JSON" else r"\bjson|\bschema\b"
    return Mark(text, re.compile(found, re.I))


def _of_library(reward: Any) -> Iterator[Mark]:
    """Yield what a reward of our library cannot pay without."""
    # A composite reads the answer in the block that its format asks for.
    parts = [getattr(reward, "answer_part", None), getattr(reward, "format", None)]
    for part in parts:
        if part is not None and not isinstance(part, str):
            yield from _of_library(part)
    if isinstance(tag := getattr(reward, "answer_tag", None), str) and tag:
        yield mark_of(f"<{tag}>")
    if isinstance(tags := getattr(reward, "tags", None), tuple):
        yield from (mark_of(f"<{tag}>") for tag in tags[1 if getattr(reward, "prefilled", False) else 0 :])
    name = getattr(reward, "reward_name", "")
    if name == "math" and reward.extract == "box":
        yield mark_of(_BOXED)
    elif name == "math" and not reward.answer_tag:
        yield Mark(_BOXED, re.compile(r"\bboxed\b|\bfbox\b|\banswer\W{0,3}(is|:)|\bfinal answer\b|####", re.I))
    if name == "schema":
        yield mark_of("JSON")


def _marks(entry: Mapping[str, Any], reward: Reward) -> list[Mark]:
    stated = entry.get("looks_for")
    if isinstance(stated, list | tuple):
        return [mark_of(str(text)) for text in stated]
    try:
        own = own_reward(entry)
    except RewardError:
        return []  # a finding of its own
    if own is not None:
        return list(_of_library(own))
    closed = [tag for tag in dict.fromkeys(_TAG.findall(reward.reads)) if f"</{tag}>" in reward.reads]
    return [mark_of(f"<{tag}>") for tag in closed] + [mark_of(_BOXED) for _ in re.findall(r"\\boxed", reward.reads)[:1]]


def _never_asked(setup: Setup, facts: Facts, *, habit: bool, judge: Callable[[Reward, list[str]], Fail]) -> Outcome:
    prompts = facts.sample_prompts
    if not prompts:
        return not_applicable("dataset.prompts is not stated as a list of samples")
    if setup.get("trainer.rollout_func") or setup.get("environment_factory"):
        return not_applicable("a rollout function or an environment may add to the prompts")
    if (facts.number("measured.base_success_rate") or 0) > 0:
        return PASS
    failures: list[Fail] = []
    for entry, reward in zip(setup.rewards, rewards_of(setup.rewards), strict=True):
        marks = [mark for mark in _marks(entry, reward) if mark.habit is habit]
        missing = [mark.shown for mark in marks if not any(mark.asked.search(prompt) for prompt in prompts)]
        if missing:
            failures.append(judge(reward, list(dict.fromkeys(missing))))
    return failures or PASS


def _seen(facts: Facts) -> str:
    count = len(facts.sample_prompts or ())
    return "the sample prompt does not mention it" if count == 1 else f"none of the {count} sample prompts mentions it"


@rule(
    "reward-form-never-asked-for",
    severity="warning",
    what="A reward looks for tags or JSON that no prompt asks for.",
    why="A policy that was never told the form does not write it: every completion gets the same score, and there is "
    "no gradient.",
    bad=Example({}, {"dataset": {"prompts": _PROMPTS}, "rewards": [{"reward": "exact"}]}),
    good=Example({}, {"dataset": {"prompts": _ASKING}, "rewards": [{"reward": "exact"}]}),
    sources=("rewards/rlvr_rewards/_exact.py", "rewards/rlvr_rewards/_format.py", "huggingface/open-r1#395"),
    requires=("reward-spec-refused",),
)
def reward_form_never_asked_for(setup: Setup, facts: Facts) -> Outcome:
    def judge(reward: Reward, missing: list[str]) -> Fail:
        return fail(
            "dataset.prompts",
            *reward.fields("looks_for"),
            value=missing,
            message=f"{reward.shown} looks for {', '.join(missing)}, and {_seen(facts)}. Ask for it in the system "
            "prompt or in every prompt, with an example; where the model was tuned to write it, sample it and state "
            "measured.base_success_rate.",
        )

    return _never_asked(setup, facts, habit=False, judge=judge)


@rule(
    "reward-form-left-to-habit",
    severity="info",
    what="A reward looks for \\boxed, <think> or <tool_call>, and no prompt asks for it.",
    why="Many models write them unasked and others never do, so the base success rate measures habit as well as skill.",
    bad=Example({}, {"dataset": {"prompts": _PROMPTS}, "rewards": [{"reward": "math"}]}),
    good=Example({}, {"dataset": {"prompts": ["2+2? Put the answer in \\boxed{}."]}, "rewards": [{"reward": "math"}]}),
    sources=("rewards/rlvr_rewards/_math/__init__.py", "rewards/rlvr_rewards/_format.py"),
    requires=("reward-spec-refused",),
)
def reward_form_left_to_habit(setup: Setup, facts: Facts) -> Outcome:
    def judge(reward: Reward, missing: list[str]) -> Fail:
        return fail(
            "dataset.prompts",
            *reward.fields("looks_for"),
            value=missing,
            message=f"{reward.shown} looks for {', '.join(missing)}, and {_seen(facts)}: ask for it, unless samples "
            "show that the model writes it unasked.",
        )

    return _never_asked(setup, facts, habit=True, judge=judge)


RULES = (reward_form_never_asked_for, reward_form_left_to_habit)
