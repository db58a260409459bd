"""Loss and variant: settings that belong together, clip values that fit the loss, options that the loss ignores."""

from grpo_rlvr.config.batch import Batch
from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, rule
from grpo_rlvr.config.view import ConfigView, judge_each

# Losses that sum over tokens, so that a per-sequence ratio counts once per token.
TOKEN_SUMMED = ("bnpo", "dr_grpo", "dapo", "cispo")
# Losses that divide by the tokens of the whole update.
GLOBALLY_NORMALISED = ("dapo", "cispo", "vespo")
# Losses without the two-sided clip that epsilon and delta belong to.
WITHOUT_CLIP = ("sapo", "vespo")
# The largest sequence-level clip range that still acts: ratios are geometric means over a sequence, within about
# 1e-3 of 1.
SEQUENCE_EPSILON = 0.01
GSPO = {"importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4}
REUSED = {"steps_per_generation": 4, "per_device_train_batch_size": 8}


@rule(
    "sequence-ratio-summed-over-tokens",
    severity="warning",
    trl=">=0.20",
    requires=("value-not-allowed",),
    what="importance_sampling_level='sequence' with a loss that sums over tokens (dapo is the default).",
    why="The sequence's ratio counts once per token, so long answers weigh more than short ones; TRL logs it since "
    "1.7.",
    bad=Example({"importance_sampling_level": "sequence", "epsilon": 3e-4}),
    good=Example(GSPO),
    sources=("huggingface/trl#3823", "huggingface/trl#6042"),
    fix_safety="Changes the loss.",
)
def sequence_ratio_summed_over_tokens(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.sequence_level or facts.loss_type not in TOKEN_SUMMED:
        return PASS
    default = "" if config.has("loss_type") else f" (the default of TRL {facts.versions.trl})"
    return fail(
        "loss_type",
        "importance_sampling_level",
        value=facts.loss_type,
        message=f"importance_sampling_level='sequence' with loss_type={facts.loss_type}{default}: set "
        "loss_type='grpo'.",
        set={"loss_type": "grpo"},
    )


@rule(
    "sequence-clip-too-wide",
    severity="warning",
    trl=">=0.20",
    what="A sequence-level ratio with an epsilon made for tokens, on reused rollouts.",
    why="A sequence ratio stays within about a thousandth of 1, so the clip never acts: use 3e-4 and 4e-4.",
    bad=Example({**REUSED, "importance_sampling_level": "sequence", "loss_type": "grpo"}),
    good=Example({**REUSED, **GSPO}),
    sources=("trl docs paper_index.md (GSPO)",),
    fix_safety="Changes the clip range.",
)
def sequence_clip_too_wide(config: ConfigView, facts: Facts, batch: Batch) -> Outcome:
    epsilon = config.number("epsilon")
    if (
        not facts.sequence_level
        or facts.loss_type in (*WITHOUT_CLIP, "cispo")
        or epsilon is None
        or epsilon < SEQUENCE_EPSILON
    ):
        return PASS
    if batch.on_policy:
        return PASS
    return fail(
        "epsilon",
        "epsilon_high",
        "importance_sampling_level",
        value=epsilon,
        message=f"epsilon={epsilon:g} at sequence level never clips: GSPO uses epsilon=3e-4, epsilon_high=4e-4.",
        set={"epsilon": 3e-4, "epsilon_high": 4e-4},
    )


@rule(
    "cispo-cap-below-one",
    severity="error",
    trl=">=0.26",
    what="loss_type='cispo' with epsilon_high unset or below 1.",
    why="For cispo epsilon_high caps the weight itself; unset it falls back to 0.2, so every gradient is cut to 0.2 "
    "of itself.",
    bad=Example({"loss_type": "cispo"}),
    good=Example({"loss_type": "cispo", "epsilon_high": 5.0}),
    sources=("huggingface/trl#4495",),
    fix_safety="Changes the weight of every token.",
)
def cispo_cap_below_one(config: ConfigView, facts: Facts) -> Outcome:
    high = config.number("epsilon_high")
    cap = high if high is not None else config.number("epsilon")
    if facts.loss_type != "cispo" or cap is None or cap >= 1:
        return PASS
    unset = "unset, so epsilon is taken: " if high is None else ""
    return fail(
        "epsilon_high",
        "loss_type",
        value=high,
        message=f"epsilon_high is {unset}{cap:g}; as the cap of a cispo weight it must be above 1: set "
        "epsilon_high=5.0.",
        set={"epsilon_high": 5.0},
    )


@rule(
    "luspo-at-token-level",
    severity="warning",
    trl=">=0.28",
    what="loss_type='luspo' with token-level ratios.",
    why="luspo is a sequence-level loss; TRL only logs it.",
    bad=Example({"loss_type": "luspo", "epsilon": 0.002}),
    good=Example({"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon": 0.002}),
    sources=("trl docs paper_index.md (LUSPO)",),
    fix_safety="Changes the loss.",
)
def luspo_at_token_level(facts: Facts) -> Outcome:
    if facts.loss_type != "luspo" or facts.sequence_level:
        return PASS
    return fail(
        "importance_sampling_level",
        "loss_type",
        value="token",
        message="loss_type='luspo' needs importance_sampling_level='sequence'.",
        set={"importance_sampling_level": "sequence"},
    )


@rule(
    "vespo-at-sequence-level",
    severity="warning",
    trl=">=1.0",
    what="loss_type='vespo' with sequence-level ratios.",
    why="vespo computes sequence weights itself from token ratios; TRL only logs it.",
    bad=Example({"loss_type": "vespo", "importance_sampling_level": "sequence"}),
    good=Example({"loss_type": "vespo"}),
    sources=("trl docs paper_index.md (VESPO)",),
    fix_safety="Changes the loss.",
)
def vespo_at_sequence_level(facts: Facts) -> Outcome:
    if facts.loss_type != "vespo" or not facts.sequence_level:
        return PASS
    return fail(
        "importance_sampling_level",
        "loss_type",
        value="sequence",
        message="loss_type='vespo' takes importance_sampling_level='token' (the default).",
        set={"importance_sampling_level": "token"},
    )


@rule(
    "dr-grpo-with-scaled-rewards",
    severity="info",
    trl=">=0.17",
    what="loss_type='dr_grpo' with rewards scaled by the group's standard deviation.",
    why="That is half of Dr. GRPO: the length bias is gone, the bias towards easy and hard prompts is still there.",
    bad=Example({"loss_type": "dr_grpo"}),
    good=Example({"loss_type": "dr_grpo", "scale_rewards": False}),
    sources=("trl docs grpo_trainer.md",),
    fix_safety="Changes the advantages.",
)
def dr_grpo_with_scaled_rewards(config: ConfigView, facts: Facts) -> Outcome:
    if facts.loss_type != "dr_grpo" or config.effective("scale_rewards") in (False, "none"):
        return PASS
    return fail(
        "scale_rewards",
        "loss_type",
        value=config.effective("scale_rewards"),
        message=f"scale_rewards={config.effective('scale_rewards')}: set scale_rewards=False for the whole of Dr. "
        "GRPO.",
        set={"scale_rewards": False},
    )


def _ignored(config: ConfigView, loss: str) -> list[str]:
    idle = []
    if loss in ("cispo", *WITHOUT_CLIP):
        idle.append("delta")
    if loss in WITHOUT_CLIP:
        idle += ["epsilon", "epsilon_high"]
    if loss == "cispo":
        idle.append("epsilon")
    idle += [name for name in config.given if name.startswith(("sapo_", "vespo_")) and not name.startswith(f"{loss}_")]
    stated = [name for name in idle if config.has(name) and config.exists(name)]
    return judge_each(stated, lambda name: None if config.effective(name) is None else name)


@rule(
    "option-unused-by-loss",
    severity="info",
    trl=">=0.26",
    requires=("value-not-allowed", "cispo-cap-below-one"),
    what="An option that the chosen loss does not read.",
    why="It changes nothing, so the run is not the one that the option suggests.",
    bad=Example({"loss_type": "cispo", "epsilon_high": 5.0, "delta": 4.0}),
    good=Example({"loss_type": "cispo", "epsilon_high": 5.0}),
    sources=("huggingface/trl#3435",),
    fix_safety="Safe: the loss does not read it.",
)
def option_unused_by_loss(config: ConfigView, facts: Facts) -> Outcome:
    idle = _ignored(config, facts.loss_type)
    if not idle:
        return PASS
    return fail(
        *idle,
        "loss_type",
        value=config.effective(idle[0]),
        message=f"loss_type={facts.loss_type} does not read {', '.join(idle)}: remove "
        f"{'them' if len(idle) > 1 else 'it'}.",
        unset=idle,
        safe=True,
    )


@rule(
    "entropy-filter-off",
    severity="warning",
    trl=">=0.20",
    what="top_entropy_quantile is above 1.",
    why="It is the share of tokens to keep, a fraction: from 1 on the filter is off, silently.",
    bad=Example({"top_entropy_quantile": 20}),
    good=Example({"top_entropy_quantile": 0.2}),
    sources=("trl docs paper_index.md (80/20)",),
)
def entropy_filter_off(config: ConfigView) -> Outcome:
    value = config.number("top_entropy_quantile")
    if value is None or value <= 1:
        return PASS
    advice = f"; {value / 100:g} keeps the top {value:g} %" if value <= 100 else ""
    return fail(
        "top_entropy_quantile",
        value=value,
        message=f"top_entropy_quantile={value:g}: it is a fraction up to 1.0 (off){advice}.",
        set={"top_entropy_quantile": value / 100} if 1 < value <= 100 else {},
    )


@rule(
    "reward-scaling-swapped",
    severity="error",
    trl=">=0.22,<0.22.2",
    what="scale_rewards in the release that takes its words for one another.",
    why="Advantages are divided by the group's standard deviation for 'none' and 'batch', and by nothing for 'group', "
    "without a word.",
    bad=Example({"scale_rewards": False}, {"versions": {"trl": "0.22.0"}}),
    good=Example({"scale_rewards": False}, {"versions": {"trl": "0.22.2"}}),
    sources=("huggingface/trl#3991", "trl wheels 0.22.1 and 0.22.2"),
)
def reward_scaling_swapped(config: ConfigView, facts: Facts) -> Outcome:
    # Left out it means 'group', and training without the division is what Dr. GRPO recommends: no fault of the config.
    if not config.has("scale_rewards"):
        return PASS
    value = config.effective("scale_rewards")
    scaled = value in (False, "none", "batch")
    does = "divides by the group's standard deviation" if scaled else "does not divide at all"
    return fail(
        "scale_rewards",
        "versions.trl",
        value=value,
        message=f"TRL {facts.versions.trl} {does} for scale_rewards={value!r}: use trl>=0.22.2.",
    )


@rule(
    "masked-tokens-in-denominator",
    severity="warning",
    trl=">=0.22,<1.9",
    requires=("all-completions-masked",),
    what="mask_truncated_completions with a globally normalised loss in a TRL that still counts masked tokens.",
    why="Masked completions stay in the denominator, so the gradient shrinks with the share of truncated ones.",
    bad=Example({"loss_type": "dapo", "mask_truncated_completions": True}, {"versions": {"trl": "1.8.0"}}),
    good=Example({"loss_type": "dapo", "mask_truncated_completions": True}, {"versions": {"trl": "1.9.2"}}),
    sources=("huggingface/trl#6369",),
)
def masked_tokens_in_denominator(config: ConfigView, facts: Facts) -> Outcome:
    clipped = facts.number("measured.clipped_ratio")
    if not config.flag("mask_truncated_completions") or facts.loss_type not in GLOBALLY_NORMALISED:
        return PASS
    if clipped is not None and clipped < 0.05:
        return PASS
    return fail(
        "mask_truncated_completions",
        "loss_type",
        "max_completion_length",
        "versions.trl",
        value=True,
        message=f"loss_type={facts.loss_type} of TRL {facts.versions.trl} divides by masked tokens too: upgrade to "
        "1.9 or later, "
        "or raise max_completion_length until few completions are truncated.",
    )


@rule(
    "rollout-steps-differ-from-accumulation",
    severity="error",
    trl=">=0.22,<1.9.1",
    what="steps_per_generation differs from gradient_accumulation_steps with a globally normalised loss.",
    why="These releases divide by the tokens of a rollout instead of an update: the gradient is off by the factor "
    "between them.",
    bad=Example({"gradient_accumulation_steps": 32, "steps_per_generation": 8}, {"versions": {"trl": "1.6.0"}}),
    good=Example({"gradient_accumulation_steps": 32, "steps_per_generation": 32}, {"versions": {"trl": "1.6.0"}}),
    sources=("huggingface/trl#6024", "trl wheels 1.9.0 and 1.9.1"),
)
def rollout_steps_differ_from_accumulation(config: ConfigView, facts: Facts, batch: Batch) -> Outcome:
    if facts.loss_type not in GLOBALLY_NORMALISED or batch.steps == batch.accumulation:
        return PASS
    return fail(
        "steps_per_generation",
        "gradient_accumulation_steps",
        "generation_batch_size",
        "loss_type",
        value=batch.steps,
        message=f"{batch.steps} micro-steps a rollout against {batch.accumulation} an update: TRL "
        f"{facts.versions.trl} scales the "
        f"gradient by {batch.accumulation / batch.steps:g}. Set steps_per_generation={batch.accumulation}, or "
        "upgrade to 1.9.1.",
        set={"steps_per_generation": batch.accumulation},
        unset=("generation_batch_size",) if config.has("generation_batch_size") else (),
    )


@rule(
    "length-normalizer-without-cap",
    severity="error",
    trl=">=0.17",
    what="loss_type='dr_grpo' without max_completion_length.",
    why="That loss divides by batch size times max_completion_length; null raises TypeError at the first loss, after a "
    "full rollout.",
    bad=Example({"loss_type": "dr_grpo", "max_completion_length": None}),
    good=Example({"loss_type": "dr_grpo", "max_completion_length": 1024}),
    sources=("trl/trainer/grpo_trainer.py",),
)
def length_normalizer_without_cap(config: ConfigView, facts: Facts) -> Outcome:
    if facts.loss_type != "dr_grpo" or config.effective("max_completion_length") is not None:
        return PASS
    return fail(
        "max_completion_length",
        "loss_type",
        value=None,
        message="dr_grpo divides by max_completion_length: give it a number.",
    )


RULES = (
    length_normalizer_without_cap,
    sequence_ratio_summed_over_tokens,
    sequence_clip_too_wide,
    cispo_cap_below_one,
    luspo_at_token_level,
    vespo_at_sequence_level,
    dr_grpo_with_scaled_rewards,
    option_unused_by_loss,
    entropy_filter_off,
    reward_scaling_swapped,
    masked_tokens_in_denominator,
    rollout_steps_differ_from_accumulation,
)
