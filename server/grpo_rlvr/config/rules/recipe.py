"""Recipe: remarks on a config that works, measured against plain GRPO as this project recommends it."""

import re

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.lifetimes import default_of
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.tables import table
from grpo_rlvr.config.view import ConfigView
from grpo_rlvr.models.setup import Setup

GROUP = 8
FULL_RATE, LORA_RATE = 5e-7, 1e-5
# Within this factor of the recipe's rate nothing is remarked.
RATE_FACTOR = 5
_FORMAT = re.compile(r"format|tag|xml|think|schema|structure|template|json|parse|style|syntax", re.I)
_COMPOSITE = re.compile(r"composite|combin|total|mixed|weighted|overall|multi", re.I)
_CORRECT = re.compile(
    r"correct|accura|exact|match|answer|solution|verif|math|equat|pass|test|unit|code|score|task|judge|grade|"
    r"result|win|solve|valid|check|outcome|f1|bleu|rouge|equal|numeric",
    re.I,
)


@rule(
    "recipe-few-generations",
    severity="info",
    what="Fewer than eight completions a prompt.",
    why="The group's mean is the baseline: with few completions it is noisy, and groups without any difference are "
    "more frequent. It works, and TRL documents such recipes; it just learns less a prompt.",
    bad=Example({"num_generations": 4, "per_device_train_batch_size": 4}),
    good=Example({"num_generations": 8, "per_device_train_batch_size": 8}),
    sources=("huggingface/trl:docs/source/grpo_trainer.md",),
    requires=("group-smaller-than-two",),
)
def recipe_few_generations(config: ConfigView) -> Outcome:
    group = config.integer("num_generations")
    if group is None or group < 2 or group >= GROUP:
        return PASS
    return fail(
        "num_generations",
        value=group,
        message=f"num_generations={group}: a noisier baseline than the usual {GROUP} to 16.",
    )


@rule(
    "recipe-learning-rate",
    severity="info",
    what="A learning rate away from the recipe's.",
    why="The recipe's rates are 5e-7 for full fine-tuning (TRL's default is 1e-6) and 1e-5 for LoRA, whose few "
    "weights need larger steps; a much smaller one trains slowly, a larger one may not be stable.",
    bad=Example({"learning_rate": 5e-7}, {"model": {"peft": True}}),
    good=Example({"learning_rate": 1e-5}, {"model": {"peft": True}}),
    sources=("huggingface/trl:docs/source/lora_without_regret.md",),
    requires=("full-tuning-rate-high", "learning-rate-extreme", "bfloat16-weights-lose-updates"),
    fix_safety="Changes the training.",
)
def recipe_learning_rate(config: ConfigView, facts: Facts) -> Outcome:
    rate = config.number("learning_rate")
    if facts.peft is None:
        return not_applicable("model.peft is not stated")
    if rate is None or rate <= 0:
        return PASS
    wanted = LORA_RATE if facts.peft else FULL_RATE
    if wanted / RATE_FACTOR < rate < wanted * RATE_FACTOR:
        return PASS
    way = "LoRA" if facts.peft else "full fine-tuning"
    return fail(
        "learning_rate",
        value=rate,
        message=f"learning_rate={rate:g} for {way}, where the recipe has "
        f"{wanted:g}{'' if config.has('learning_rate') else ' (it is left to the default)'}.",
        set={"learning_rate": wanted},
    )


@rule(
    "recipe-loss-left-to-version",
    severity="info",
    trl=">=0.17",
    what="loss_type is left to the version's default, which has changed.",
    why="The default was bnpo from 0.17 and is dapo since 0.22, so a config that says nothing is not the "
    "per-completion mean of the GRPO paper, and trains something else after an upgrade.",
    bad=Example({}),
    good=Example({"loss_type": "grpo"}),
    sources=("huggingface/trl:docs/source/grpo_trainer.md",),
    fix_safety="Changes the loss; the message says which value keeps what runs now.",
)
def recipe_loss_left_to_version(config: ConfigView, facts: Facts) -> Outcome:
    if config.has("loss_type") or not config.exists("loss_type"):
        return PASS
    now, before = facts.loss_type, _loss_before(facts)
    keeps = f"{now!r} to keep what runs now"
    was = ""
    if before not in (None, now):
        was = f", and TRL {facts.versions.came_from} optimised {before!r}"
        keeps = f"{before!r} to keep what ran there, {keeps}"
    plain = "" if before == "grpo" else "'grpo' for plain GRPO, "
    return fail(
        "loss_type",
        message=f"loss_type is not set, so TRL {facts.versions.trl} optimises {now!r}{was}. Name it: {plain}{keeps}.",
        set={"loss_type": "grpo" if before in (None, now) else before},
    )


def _loss_before(facts: Facts) -> str | None:
    """Return the loss of an unset loss_type in the TRL version that the config came from, None when none is named."""
    version = facts.versions.came_from
    return None if version is None else str(default_of("loss_type", table(version)))


@rule(
    "recipe-kl-strong",
    severity="info",
    what="A KL coefficient far above the recipe's.",
    why="With a verifiable reward the policy need not be held close to its start: TRL's default is 0.0, the R1 "
    "recipe 0.001, this project's 0.01 at most; a strong pull caps what can be learned.",
    bad=Example({"beta": 0.5}),
    good=Example({"beta": 0.001}),
    sources=("huggingface/trl:docs/source/paper_index.md",),
    fix_safety="Changes the objective.",
)
def recipe_kl_strong(config: ConfigView, facts: Facts) -> Outcome:
    if facts.beta <= 0.1:
        return PASS
    return fail(
        "beta",
        value=facts.beta,
        message=f"beta={facts.beta:g} is a strong pull to the reference; 0.0 to 0.01 is usual.",
        set={"beta": 0.01},
    )


@rule(
    "recipe-reward-not-composite",
    severity="info",
    what="The rewards check only the form, or only one thing.",
    why="A verifiable task is usually graded by correctness together with format: format alone is learned in a few "
    "steps and says nothing about the answer, correctness alone gives unparsable answers the same 0 as wrong ones.",
    bad=Example({}, {"rewards": [{"name": "format_reward"}]}),
    good=Example({}, {"rewards": [{"name": "format_reward"}, {"name": "correctness_reward"}]}),
    sources=("wshobson/agents:plugins/llm-finetuning/skills/grpo-rlvr-training/SKILL.md",),
)
def recipe_reward_not_composite(setup: Setup) -> Outcome:
    names = [str(reward.get("name") or reward.get("reward") or "") for reward in setup.rewards]
    if not names:
        return not_applicable("rewards is not stated")
    if any(_COMPOSITE.search(name) for name in names):
        return PASS
    form = [name for name in names if _FORMAT.search(name)]
    other = [name for name in names if name not in form]
    correct = [name for name in names if _CORRECT.search(name)]
    if (form and other) or len(names) > 1:
        return PASS
    missing = "correctness" if form and not correct else "format"
    return fail(
        "rewards[].name",
        "rewards",
        value=names,
        message=f"The only reward is {names[0]!r}; a {missing} reward beside it is usual for a verifiable task.",
    )


RULES = (
    recipe_few_generations,
    recipe_learning_rate,
    recipe_loss_left_to_version,
    recipe_kl_strong,
    recipe_reward_not_composite,
)
