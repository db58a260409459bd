"""Reward texts: whether a reward reads completions in the form they come in, and what decoding leaves of them."""

import re
from collections.abc import Callable, Mapping

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Fail, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.signature import Reward, rewards_of
from grpo_rlvr.models.setup import Setup

_CHAT = re.compile(
    r"\[\s*(0|-1)\s*\]\s*\[\s*['\"]content['\"]|\[['\"]content['\"]\]|\.get\(['\"]content|"
    r"\bmessages?\b|\bcontent of\b|\bconversation",
    re.I,
)
_ITEM = r"(completions?(\[\w+\])?|comp|compl|c|x|text|response|output|answer_text|out|o|s)"
_STRING = re.compile(
    rf"\b{_ITEM}\.(startswith|endswith|strip|lstrip|rstrip|split|lower|upper|find|rfind|count|replace|partition|"
    rf"splitlines|index)\b|\bre\.\w+\([^)]*,\s*{_ITEM}\b|\.(search|match|fullmatch|findall)\({_ITEM}\b|"
    rf"['\">]\s+(not )?in {_ITEM}\b|\b{_ITEM}\s*[!=]=|\bas (a )?(plain )?(str|strings?|texts?)\b|\b(plain|raw) "
    rf"(strings?|texts?)\b|"
    rf"\b(treats?|expects?|assumes?) .*(str|strings?|text)\b|\bstring "
    rf"(methods?|operations?|code)\b|\bregex\b.*\bcompletion",
    re.I,
)
_SPECIAL = re.compile(r"<\|[^<>|\s]{1,60}\|>|</?s>|\[/?INST\]|<(bos|eos|pad|start_of_turn|end_of_turn)>")
_EOS = re.compile(r"\b(eos|bos|pad)_?token\b|special tokens?", re.I)
_PREFIX = re.compile(r"\^|starts? ?with|begins? with|leading|re\.(full)?match", re.I)
_TAG = re.compile(r"<[A-Za-z_|/][^<>\s]{0,40}>")
_CHAT_DATA = {"columns": ["prompt"], "format": "conversational"}
_READS_CONTENT = {"name": "f", "signature": "def f(completions, **kwargs)", "reads": "completion[0]['content']"}
_READS_TEXT = {"name": "f", "signature": "def f(completions, **kwargs)", "reads": "'<answer>' in completion"}


def _each(setup: Setup, judge: Callable[[Reward], Fail | None]) -> Outcome:
    rewards = rewards_of(setup.rewards)
    if not rewards:
        return not_applicable("rewards is not stated")
    return [failure for reward in rewards if (failure := judge(reward)) is not None] or PASS


def _said(reward: Reward) -> str:
    return f"{reward.reads} {reward.text.partition(')')[2]}"


@rule(
    "reward-reads-chat-as-text",
    severity="error",
    what="A reward treats completions as texts, and the prompts are conversations.",
    why="With message prompts a completion is a list of messages: text methods raise, and an `in` test is silently "
    "false for every completion, so the reward is always 0.",
    bad=Example({}, {"dataset": _CHAT_DATA, "rewards": [_READS_TEXT]}),
    good=Example({}, {"dataset": _CHAT_DATA, "rewards": [_READS_CONTENT]}),
    sources=("huggingface/trl#4202", "unslothai/unsloth#2907"),
)
def reward_reads_chat_as_text(setup: Setup, facts: Facts) -> Outcome:
    if facts.text("dataset.format") != "conversational":
        return not_applicable("dataset.format is not stated to be conversational")

    def judge(reward: Reward) -> Fail | None:
        said = _said(reward)
        if _CHAT.search(said) or not _STRING.search(said):
            return None
        return fail(
            *reward.fields("reads"),
            "dataset.format",
            *reward.fields("signature")[:2],
            value=reward.reads or reward.text,
            message=f"{reward.shown} reads completions as texts, but with conversational prompts each is a list of "
            "messages. Read completion[0]['content'].",
        )

    return _each(setup, judge)


@rule(
    "reward-reads-text-as-chat",
    severity="error",
    what="A reward reads message contents, and the prompts are plain texts.",
    why="With text prompts a completion is a text: indexing it for 'content' raises TypeError at the first step.",
    bad=Example({}, {"dataset": {"columns": ["prompt"], "format": "string"}, "rewards": [_READS_CONTENT]}),
    good=Example({}, {"dataset": {"columns": ["prompt"], "format": "string"}, "rewards": [_READS_TEXT]}),
    sources=("huggingface/trl#4202", "unslothai/unsloth#2907"),
)
def reward_reads_text_as_chat(setup: Setup, facts: Facts) -> Outcome:
    if facts.text("dataset.format") != "string":
        return not_applicable("dataset.format is not stated to be string")

    def judge(reward: Reward) -> Fail | None:
        said = _said(reward)
        # A reward that asks for the type handles both.
        if not _CHAT.search(said) or re.search(r"isinstance|if .*str\b|both|either", said):
            return None
        return fail(
            *reward.fields("reads"),
            "dataset.format",
            *reward.fields("signature")[:2],
            value=reward.reads or reward.text,
            message=f"{reward.shown} reads message contents, but with text prompts a completion is a text. Use the "
            "text itself, or give the prompts as messages.",
        )

    return _each(setup, judge)


def _special_tokens(facts: Facts) -> list[str]:
    stated = facts.setup.get("model.special_tokens")
    if isinstance(stated, Mapping):
        stated = [item for value in stated.values() for item in (value if isinstance(value, list) else [value])]
    if isinstance(stated, str):
        return _TAG.findall(stated) or stated.split()
    return [str(token) for token in stated] if isinstance(stated, list | tuple) else []


@rule(
    "reward-needs-special-tokens",
    severity="error",
    what="A reward looks for tokens that decoding strips.",
    why="TRL decodes completions with skip_special_tokens=True and offers no switch, so the reward never sees them "
    "and stays 0.",
    bad=Example({}, {"model": {"special_tokens": ["<answer>"]}, "rewards": [_READS_TEXT]}),
    good=Example({}, {"model": {"special_tokens": ["<|im_end|>"]}, "rewards": [_READS_TEXT]}),
    sources=("huggingface/trl#2897", "huggingface/trl#3026"),
)
def reward_needs_special_tokens(setup: Setup, facts: Facts) -> Outcome:
    special = _special_tokens(facts)

    def judge(reward: Reward) -> Fail | None:
        said = f"{reward.reads} {reward.returns} {reward.text}"
        hits = [token for token in special if token and token in said] or _SPECIAL.findall(said)
        named = [match if isinstance(match, str) else match[0] for match in hits]
        if not named and not (_EOS.search(reward.reads) and "completion_ids" not in reward.reads):
            return None
        shown = ", ".join(dict.fromkeys(filter(None, named))) or "special tokens"
        return fail(
            *reward.fields("reads"),
            "model.special_tokens",
            *reward.fields("signature")[:2],
            *reward.fields("name")[:2],
            value=reward.reads or None,
            message=f"{reward.shown} looks for {shown}, which decoding removes. Use tags that are ordinary text, or "
            "read completion_ids.",
        )

    return _each(setup, judge)


@rule(
    "reward-expects-prefilled-text",
    severity="error",
    what="A format reward wants completions to start with text that the chat template already writes.",
    why="The template puts it at the end of the prompt, so no completion starts with it and the reward is always 0.",
    bad=Example(
        {}, {"model": {"chat_template_prefills": "<think>"}, "rewards": [{"name": "trl.rewards.think_format_reward"}]}
    ),
    good=Example({}, {"model": {"chat_template_prefills": "<think>"}, "rewards": [_READS_CONTENT]}),
    sources=("huggingface/trl#6966",),
)
def reward_expects_prefilled_text(setup: Setup, facts: Facts) -> Outcome:
    prefill = facts.text("model.chat_template_prefills")
    if not prefill:
        return not_applicable("model.chat_template_prefills is not stated")
    tag = prefill.strip()

    def judge(reward: Reward) -> Fail | None:
        said = f"{reward.reads} {reward.returns} {reward.text}"
        if tag not in said or not _PREFIX.search(said):
            return None
        return fail(
            "model.chat_template_prefills",
            *reward.fields("name"),
            *reward.fields("reads")[:2],
            value=prefill,
            message=f"The chat template already ends the prompt with {tag!r}, so no completion starts with it and "
            f"{reward.shown} is always 0. Require only the closing tag, or put {tag!r} before the text that is scored.",
        )

    return _each(setup, judge)


RULES = (
    reward_reads_chat_as_text,
    reward_reads_text_as_chat,
    reward_needs_special_tokens,
    reward_expects_prefilled_text,
)
