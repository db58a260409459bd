"""From labels to a variant: the map of symptoms to variants, braked by what the config makes effective."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.metrics.context import Context
from grpo_rlvr.metrics.signals import Signals
from grpo_rlvr.metrics.variants import BY_NAME, Recipe
from grpo_rlvr.metrics.wording import changes, conditions_of, reuse, told, whose
from grpo_rlvr.models.recommend import Advice, Label, LabelFinding, Variant

# Tokens clipped in the median row: enough to show that ratios leave 1.
_CLIPPING_SEEN = 1e-3


def decide(labels: list[LabelFinding], s: Signals, c: Context) -> Advice:
    """Return the advice that the labels, the signals and the config support together."""
    advice = _advice(labels, s, c)
    advice.arguments_of = whose(c)
    return advice


def _advice(labels: list[LabelFinding], s: Signals, c: Context) -> Advice:
    names: list[Label] = [item.label for item in labels]
    first = names[0]
    if first in ("healthy", "plateau", "too_short_to_tell"):
        return _quiet(first, s, c)
    if first == "entropy_collapse":
        return _entropy(s, c)
    if first == "length_bias":
        return _length(c, falls="divergence_nan" in names)
    if first == "moe_instability":
        return _routing(labels, s, c)
    return Advice(variant="not_a_variant_problem", why=_NOT_A_VARIANT[first], alternatives=_alternatives(first, c))


_NOT_A_VARIANT: dict[Label, str] = {
    "divergence_nan": "The step size or the numerics broke the policy; every variant takes the same broken step.",
    "kl_blowup": "The policy has left the reference: learning rate, adapter or reference first, no ratio mends that.",
    "no_signal": "Without a difference inside a group every variant has a zero gradient: mend reward, format or data.",
    "reward_hacking": "The reward pays for the wrong thing; a better optimiser would only get there faster.",
    "truncation": "Answers are cut before they can be scored: the cap or the length is at fault.",
    "length_collapse": "A reward that short answers satisfy, or too large a step, shrinks answers under every variant.",
    "offpolicy_mismatch": "Sampler and trainer disagree: sync, precision or sampling settings come before any ratio.",
}


def _alternatives(label: Label, c: Context) -> list[str]:
    """Settings that treat the same cause, in the names of the trainer in use."""
    if label == "truncation":
        mask = told(c, mask_truncated_completions=True)
        masked = f", and {mask} once fewer than half are cut" if mask else ""
        return [f"the overlong parts of DAPO: a soft overlong penalty{masked}"]
    if label == "kl_blowup" and (guard := told(c, delta=4.0)):
        return [f"{guard} (two-sided clipping) as a guard when batches are reused"]
    if label == "offpolicy_mismatch" and (mask := told(c, off_policy_mask_threshold=0.5)):
        return [f"{'vespo, or ' if c.is_trl else ''}{mask}, for samples that are stale by design"]
    return []


def _quiet(label: Label, s: Signals, c: Context) -> Advice:
    if c.moe and c.off_policy and not c.sequence_level and (c.is_trl or c.trainer == "ms-swift"):
        return _switch(
            BY_NAME["gspo"],
            c,
            "A mixture of experts whose batches are reused: the sequence-level ratio is the "
            "precaution asked for such models, before any symptom. Nothing in the metrics demands it yet.",
        )
    options = _for_experts(c)
    if label == "too_short_to_tell":
        read = s.log.rows > 0
        return Advice(
            variant="insufficient_data",
            why="The log cannot carry a decision; nothing in it demands another variant."
            if read
            else "No metrics were read: nothing can be said of the run.",
            alternatives=options,
        )
    if label == "plateau":
        return Advice(
            variant="not_a_variant_problem",
            why="A reward without trend is no sign of any mechanism that a variant "
            "changes: data, reward and learning rate come first.",
            alternatives=options,
        )
    held_out = s.log.evaluation or s.log.accuracies
    return Advice(
        variant="grpo",
        why="No sign of trouble in these metrics: stay as you are.",
        preconditions=[] if held_out else ["held-out accuracy is not in the log: judge the result by it"],
        alternatives=options,
    )


def _for_experts(c: Context) -> list[str]:
    """What to say to the owner of a mixture of experts whose config leaves GSPO idle, or may do so."""
    if not c.moe or c.sequence_level:
        return []
    state = "is idle on-policy, as here" if c.off_policy is False else "is idle unless batches are reused"
    arguments = told(c, importance_sampling_level="sequence", loss_type="grpo", epsilon=3e-4, epsilon_high=4e-4)
    return [f"gspo {state}: first {reuse(c)}, then {arguments}"]


def _entropy(s: Signals, c: Context) -> Advice:
    clip = s.get("clip_frac")
    clipping = clip is not None and float(clip.values.mean()) > _CLIPPING_SEEN
    if c.off_policy is True or (c.off_policy is None and clipping):
        return _switch(
            BY_NAME["dapo"],
            c,
            "Entropy is spent without gain while batches are reused: the upper clip bound is what "
            "holds rare tokens down, and DAPO's clip-higher lifts it.",
        )
    state = (
        "is on-policy: every ratio is 1, so clip-higher and GSPO are idle"
        if c.off_policy is False
        else "is not known to reuse batches, and without that clip-higher and GSPO are idle"
    )
    change = changes(BY_NAME["entropy_bonus"], c)
    options = (
        f"dapo ({told(c, epsilon_high=0.28)}) once batches are reused",
        "cispo when clipping is seen to remove rare tokens" if told(c, loss_type="cispo") else "",
        told(c, top_entropy_quantile=0.2),
    )
    return Advice(
        variant="not_a_variant_problem",
        kwargs=change.set,
        why=f"Entropy is spent without gain, and the run {state}. The direct remedies are a lower learning rate and "
        "an entropy bonus.",
        preconditions=[f"for clip-higher to act, first {reuse(c)}", *(f"needs {name}" for name in change.unknown)],
        alternatives=[option for option in options if option],
    )


def _length(c: Context, falls: bool) -> Advice:
    loss = f"loss_type='{c.loss_type}'" if c.is_trl else "the loss in use"
    if c.loss_type in ("grpo", "sapo"):
        return _switch(
            BY_NAME["dr_grpo"],
            c,
            f"Answers grow without gain under {loss}, which averages per answer and punishes long wrong answers less; "
            "Dr. GRPO removes that weight.",
            ["dapo, which is token-level too and keeps the scaling"],
        )
    known = f"{loss} is token-level already" if c.loss_type else "the loss in use is not known"
    return Advice(
        variant="not_a_variant_problem",
        why=f"Answers grow without gain, and {known}: a penalty on length, not another divisor, is the remedy.",
        alternatives=[
            "a soft overlong penalty (the part of DAPO that is a reward)",
            "dr_grpo, if the loss turns out to average per answer",
        ],
    )


def _routing(labels: list[LabelFinding], s: Signals, c: Context) -> Advice:
    if c.off_policy and not c.sequence_level and not any(item.label == "offpolicy_mismatch" for item in labels):
        return _switch(
            BY_NAME["gspo"],
            c,
            "A mixture of experts with reused batches shows unstable ratios: the sequence-level ratio "
            "averages the routing noise.",
            ["sapo, a softer gate on the same ratios"],
        )
    why = (
        "already uses a sequence-level ratio"
        if c.sequence_level
        else "is not known to reuse batches, and on-policy GSPO is idle"
    )
    return Advice(
        variant="not_a_variant_problem",
        why=f"The signs of unstable routing come with a run that {why}: "
        "learning rate, adapters, router and sampler sync come first.",
        alternatives=["gspo once batches are reused and the sampler is in sync", "sapo"],
    )


def _switch(recipe: Recipe, c: Context, why: str, others: list[str] | None = None) -> Advice:
    """Advice to change to a recipe: exactly what differs from the config, and what has to hold."""
    change = changes(recipe, c)
    kwargs: dict[str, Any] = dict(change.set)
    if not change.set and not change.unknown:
        return Advice(
            variant="not_a_variant_problem",
            why=f"{why} The config has all of {recipe.title} already, so the cause lies elsewhere.",
            already=change.already,
            alternatives=others or [],
        )
    conditions = conditions_of(recipe, c)
    if change.unknown and c.dialect:
        conditions.append(f"no option of {c.trainer} is known here for {', '.join(change.unknown)}")
    elif change.unknown:
        conditions.insert(0, f"this TRL lacks {', '.join(change.unknown)}: upgrade first")
    split = c.is_trl and kwargs.get("loss_type") in ("dapo", "cispo") and c.trl < (1, 9) and _split_batches(c.given)
    if split:
        del kwargs["loss_type"]
        conditions.append(
            "loss_type stays: before TRL 1.9 'dapo' scales the gradient wrongly when steps_per_generation differs from "
            "gradient_accumulation_steps"
        )
    if c.is_trl and not c.trl_stated:
        conditions.append(
            f"arguments are those of TRL {'.'.join(map(str, c.trl[:2]))}: the version in use was not stated"
        )
    name: Variant = recipe.name  # type: ignore[assignment]
    return Advice(
        variant=name,
        kwargs=kwargs,
        why=why,
        preconditions=conditions,
        already=change.already,
        alternatives=others or [],
    )


def _split_batches(given: Mapping[str, Any]) -> bool:
    """True when a generation is consumed in other portions than one optimiser step takes."""
    steps = given.get("steps_per_generation")
    return steps is not None and steps != given.get("gradient_accumulation_steps", 1)
