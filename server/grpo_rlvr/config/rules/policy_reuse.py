"""How often a rollout is used: clips that cannot act, routing noise on MoE models, stale copies of the loss."""

import re

from grpo_rlvr.config.batch import Batch
from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView

MOE = {"model": {"class": "moe"}, "hardware": {"num_processes": 1}}
CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
# Options of the main trainer that copies of its loss may lack.
COPIED = (
    "loss_type", "importance_sampling_level", "mask_truncated_completions", "top_entropy_quantile", "delta",
    "off_policy_mask_threshold", "use_bias_correction_kl", "entropy_coef", "scale_rewards",
    "vllm_importance_sampling_mode", "vllm_importance_sampling_correction", "router_aux_loss_coef",
)  # fmt: skip
_STALE = re.compile(r"gspo[_-]?token|gmpo|replay[_-]?buffer", re.IGNORECASE)


@rule(
    "clip-without-effect",
    severity="info",
    trl=">=0.16",
    what="Clip values are set, but every rollout is used for one update by the policy that made it.",
    why="All ratios are 1, so epsilon, epsilon_high, delta and the sequence level change nothing.",
    bad=Example({"epsilon_high": 0.28}, {"hardware": {"num_processes": 1}}),
    good=Example({"epsilon_high": 0.28, "num_iterations": 2}, {"hardware": {"num_processes": 1}}),
    sources=("huggingface/trl#3120", "huggingface/trl#3757"),
)
def clip_without_effect(config: ConfigView, facts: Facts, batch: Batch) -> Outcome:
    stated = [name for name in ("epsilon_high", "epsilon", "delta") if config.has(name)]
    if facts.sequence_level:
        stated.append("importance_sampling_level")
    if not stated or facts.loss_type == "cispo" or facts.use_vllm or not batch.on_policy:
        return PASS
    return fail(
        *stated,
        "num_iterations",
        "steps_per_generation",
        "gradient_accumulation_steps",
        value=config.effective(stated[0]),
        message=f"{', '.join(stated)} cannot act: {batch.accumulation} accumulation steps on {batch.steps} rollout "
        "steps make one "
        "update per rollout. Set steps_per_generation to a multiple of gradient_accumulation_steps, or "
        "num_iterations=2, if "
        "clipping is meant to act.",
    )


@rule(
    "rollout-cut-by-update-uncorrected",
    severity="warning",
    trl=">=0.18,<0.20",
    what="An update in the middle of a rollout, in a release that keeps the old log-probs for longer rollouts alone.",
    why="The rest of such a rollout comes from the policy before the update and is trained as if from the one after: "
    "every ratio counts as 1, unclipped. From 0.20 on the log-probs are kept.",
    bad=Example({"gradient_accumulation_steps": 4, "steps_per_generation": 3}, {"versions": {"trl": "0.19.1"}}),
    good=Example({"gradient_accumulation_steps": 4, "steps_per_generation": 2}, {"versions": {"trl": "0.19.1"}}),
    sources=("huggingface/trl#3493", "trl wheels 0.18 to 0.20"),
    fix_safety="Changes how many completions are made at once.",
)
def rollout_cut_by_update_uncorrected(config: ConfigView, facts: Facts, batch: Batch) -> Outcome:
    if batch.iterations > 1 or batch.steps >= batch.accumulation or batch.accumulation % batch.steps == 0:
        return PASS
    return fail(
        "steps_per_generation",
        "gradient_accumulation_steps",
        "generation_batch_size",
        value=batch.steps,
        message=f"{batch.accumulation} micro-steps an update are no multiple of {batch.steps} a rollout, and TRL "
        f"{facts.versions.trl} corrects nothing there. Set steps_per_generation={batch.accumulation} or a divisor of "
        "it.",
        set={"steps_per_generation": batch.accumulation},
        unset=("generation_batch_size",) if config.has("generation_batch_size") else (),
    )


@rule(
    "delta-below-upper-clip",
    severity="warning",
    trl=">=0.18",
    what="delta lies below 1 + epsilon_high.",
    why="delta bounds the ratio of bad completions from above; below the normal clip range it cuts ordinary gradients.",
    bad=Example({"delta": 1.1, "epsilon": 0.2}),
    good=Example({"delta": 1.5, "epsilon": 0.2}),
    sources=("trl/trainer/grpo_config.py",),
)
def delta_below_upper_clip(config: ConfigView, facts: Facts) -> Outcome:
    delta, high = config.number("delta"), config.number("epsilon_high")
    high = config.number("epsilon") if high is None else high
    if delta is None or high is None or facts.loss_type not in CLIPPED or delta > 1 + high:
        return PASS
    return fail(
        "delta",
        "epsilon_high",
        "epsilon",
        value=delta,
        message=f"delta={delta:g} is not above 1 + {high:g}: set it above, e.g. {1 + high + 0.3:g}, or leave it unset.",
    )


@rule(
    "token-ratio-on-reused-moe-rollouts",
    severity="warning",
    trl=">=0.16",
    what="Token-level ratios on a mixture-of-experts model with reused rollouts.",
    why="Experts are routed anew after each update, so token ratios are noisy and clipping acts on routing, not on "
    "learning.",
    bad=Example({"num_iterations": 2}, MOE),
    good=Example(
        {"num_iterations": 2, "importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4}, MOE
    ),
    sources=("trl docs paper_index.md (GSPO)", "The-School-of-AI/LLM#431"),
    fix_safety="Changes the loss.",
)
def token_ratio_on_reused_moe_rollouts(config: ConfigView, facts: Facts, batch: Batch) -> Outcome:
    if facts.model_class != "moe" or facts.sequence_level or facts.loss_type not in CLIPPED:
        return PASS
    if batch.updates_per_rollout <= 1:
        return PASS
    gspo = {"importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4}
    return fail(
        "importance_sampling_level",
        "num_iterations",
        "steps_per_generation",
        "model.class",
        "loss_type",
        value="token",
        message=f"{batch.updates_per_rollout:g} updates per rollout with token ratios on an MoE: set "
        "importance_sampling_level='sequence', loss_type='grpo', epsilon=3e-4, epsilon_high=4e-4, or use each "
        "rollout once.",
        set=gspo if config.exists("importance_sampling_level") else {},
    )


@rule(
    "router-loss-on-dense-model",
    severity="error",
    trl=">=1.14",
    what="router_aux_loss_coef on a model without experts.",
    why="The trainer raises ValueError: there is no router loss to weight.",
    bad=Example({"router_aux_loss_coef": 0.001}, {"model": {"class": "dense"}}),
    good=Example({"router_aux_loss_coef": 0.001}, {"model": {"class": "moe"}}),
    sources=("trl/trainer/grpo_trainer.py",),
    fix_safety="Safe: with the option the run cannot start.",
)
def router_loss_on_dense_model(config: ConfigView, facts: Facts) -> Outcome:
    value = config.number("router_aux_loss_coef")
    if not value or facts.model_class == "moe":
        return PASS
    if facts.model_class is None:
        return not_applicable("model.class is not stated")
    return fail(
        "router_aux_loss_coef",
        "model.class",
        value=value,
        message=f"router_aux_loss_coef={value:g} with a {facts.model_class} model: remove it.",
        unset=("router_aux_loss_coef",),
        safe=True,
    )


@rule(
    "router-loss-by-default",
    severity="info",
    trl=">=1.14",
    what="A mixture-of-experts model with router_aux_loss_coef left to the model.",
    why="The model's own coefficient is added to the loss and logged as aux_loss.",
    bad=Example({}, MOE),
    good=Example({"router_aux_loss_coef": 0.0}, MOE),
    sources=("trl/trainer/grpo_trainer.py",),
)
def router_loss_by_default(config: ConfigView, facts: Facts) -> Outcome:
    if facts.model_class != "moe" or config.effective("router_aux_loss_coef") is not None:
        return PASS
    return fail(
        "router_aux_loss_coef",
        message="The model's own load-balancing coefficient (0.001 in Qwen3-MoE) is added; router_aux_loss_coef=0.0 "
        "is none.",
    )


@rule(
    "stale-copy-of-loss",
    severity="warning",
    trl=">=1.0",
    what="An experimental trainer that carries a copy of an older loss.",
    why="The gspo_token, gmpo and replay-buffer trainers ignore options that the main trainer has gained since.",
    bad=Example(
        {"mask_truncated_completions": True}, {"trainer": {"class": "trl.experimental.gspo_token.GRPOTrainer"}}
    ),
    good=Example({"mask_truncated_completions": True}, {"trainer": {"class": "trl.GRPOTrainer"}}),
    sources=("huggingface/trl#6807", "huggingface/trl#6808", "huggingface/trl#6804"),
)
def stale_copy_of_loss(config: ConfigView, facts: Facts) -> Outcome:
    trainer = facts.setup.get("trainer")
    found = _STALE.search(str(trainer)) if trainer else None
    if found is None:
        return PASS
    given = [name for name in COPIED if config.has(name)]
    return fail(
        "trainer",
        "trainer.class",
        "trainer.name",
        *given,
        value=str(trainer)[:200],
        message=f"The {found[0]} trainer has its own copy of the loss"
        + (f" and may ignore {', '.join(given)}" if given else "")
        + ": use trl.GRPOTrainer, or read what the copy does.",
    )


@rule(
    "aggregation-of-one-reward",
    severity="info",
    trl=">=0.27",
    what="multi_objective_aggregation='normalize_then_sum' with one reward function.",
    why="There is nothing to aggregate: the result is that of the default.",
    bad=Example({"multi_objective_aggregation": "normalize_then_sum"}, {"rewards": [{"name": "exact"}]}),
    good=Example(
        {"multi_objective_aggregation": "normalize_then_sum"}, {"rewards": [{"name": "exact"}, {"name": "format"}]}
    ),
    sources=("trl/trainer/grpo_trainer.py",),
)
def aggregation_of_one_reward(config: ConfigView, facts: Facts) -> Outcome:
    if config.effective("multi_objective_aggregation") != "normalize_then_sum" or len(facts.setup.rewards) != 1:
        return PASS
    return fail(
        "multi_objective_aggregation",
        "rewards",
        value="normalize_then_sum",
        message="normalize_then_sum needs at least two reward functions to differ from the default.",
    )


RULES = (
    clip_without_effect,
    rollout_cut_by_update_uncorrected,
    delta_below_upper_clip,
    token_ratio_on_reused_moe_rollouts,
    router_loss_on_dense_model,
    router_loss_by_default,
    stale_copy_of_loss,
    aggregation_of_one_reward,
)
