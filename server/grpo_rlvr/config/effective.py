"""What a config really does: the loss with its normaliser, the KL, whether clipping can act, the batch, the backend."""

from typing import Any

from grpo_rlvr.config.batch import Batch
from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.view import ConfigView, Unknown
from grpo_rlvr.models.check import BatchPlan, Effective

# What each loss divides the summed token losses by, as TRL computes it.
NORMALISERS = {
    "grpo": "each completion's tokens are averaged first, then completions (short ones weigh more per token)",
    "sapo": "each completion's tokens are averaged first, then completions",
    "bnpo": "averaged over the unmasked tokens of each process's micro-batch",
    "dr_grpo": "divided by the constant batch size x max_completion_length ({cap})",
    "dapo": "averaged over all unmasked tokens of one update, across processes and accumulation",
    "cispo": "averaged over all unmasked tokens of one update, across processes and accumulation",
    "vespo": "averaged over all unmasked tokens of one update, across processes and accumulation",
    "luspo": "each completion's tokens are summed, then completions averaged (weighted by length)",
}
_OBJECTIVES = {
    "cispo": "REINFORCE with a capped, detached importance weight",
    "sapo": "policy gradient with a soft sigmoid gate instead of a clip",
    "vespo": "policy gradient with a gamma-shaped, detached sequence weight",
}
_VALUES = (
    "loss_type", "beta", "epsilon", "epsilon_high", "scale_rewards", "importance_sampling_level", "learning_rate",
    "optim", "lr_scheduler_type", "temperature", "top_p", "top_k", "max_completion_length", "num_generations",
    "num_iterations", "mask_truncated_completions", "bf16", "gradient_checkpointing", "use_vllm", "vllm_mode",
    "num_train_epochs", "max_steps",
)  # fmt: skip


def describe(config: ConfigView, facts: Facts, batch: Batch) -> Effective:
    """Describe a config in words and numbers.

    Raises:
        Unknown: a value that the description needs could not be read.
    """
    plan, on_policy = _plan(batch)
    loss, clipping, kl = _loss(config, facts), _clipping(config, facts, on_policy), _kl(config, facts)
    generation, reference = _generation(config, facts), _reference(facts)
    advantage = _advantage(config, facts)
    return Effective(
        summary=[
            f"Optimises {loss}.",
            f"{advantage}.",
            f"KL: {kl}; reference model: {reference}.",
            f"Clipping: {clipping}.",
            *_batch_sentences(plan),
            f"Completions of up to {config.effective('max_completion_length')} tokens come from {generation}.",
        ],
        loss=loss,
        advantage=advantage,
        kl=kl,
        clipping=clipping,
        on_policy=on_policy,
        generation=generation,
        reference=reference,
        batch=plan,
        logged=_logged(config, facts),
        values=_values(config),
    )


def _plan(batch: Batch) -> tuple[BatchPlan | None, bool | None]:
    try:
        return batch.plan(), batch.on_policy
    except (Unknown, ZeroDivisionError):
        return None, None


def _values(config: ConfigView) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in _VALUES:
        if config.exists(name):
            try:
                values[name] = config.effective(name)
            except Unknown:
                continue
    return values


def _loss(config: ConfigView, facts: Facts) -> str:
    kind = facts.loss_type
    stated = "" if config.has("loss_type") else " (the default of this TRL version)"
    normaliser = NORMALISERS.get(kind)
    if normaliser is None:
        return f"loss_type={kind!r}, which TRL does not know"
    if kind == "dapo" and facts.trl_is("<0.22"):
        normaliser = NORMALISERS["bnpo"]
    objective = _OBJECTIVES.get(kind, "the clipped policy-gradient objective")
    level = "one ratio per completion" if facts.sequence_level else "one ratio per token"
    cap = config.effective("max_completion_length")
    return f"{objective}, loss_type={kind!r}{stated}, {level}: {normaliser.format(cap=cap)}"


def _advantage(config: ConfigView, facts: Facts) -> str:
    scale = str(config.effective("scale_rewards")).lower() if config.exists("scale_rewards") else "true"
    how = {
        "true": "divided by the group's standard deviation",
        "group": "divided by the group's standard deviation",
        "false": "not divided by any standard deviation",
        "none": "not divided by any standard deviation",
        "batch": "divided by the batch's standard deviation",
    }.get(scale, f"scaled by scale_rewards={scale!r}, which TRL does not know")
    several = config.exists("multi_objective_aggregation") and config.effective("multi_objective_aggregation")
    if several == "normalize_then_sum":
        return "Each reward function is normalised in its group, then the weighted values are summed"
    return f"A completion's advantage is its weighted reward minus its group's mean, {how}"


def _kl(config: ConfigView, facts: Facts) -> str:
    beta = config.number("beta")
    if not beta:
        return "none (beta=0), so `kl` is not logged"
    corrected = config.exists("use_bias_correction_kl") and config.flag("use_bias_correction_kl")
    estimator = "k3 estimate weighted by the importance ratio" if corrected else "k3 estimate per token"
    stated = "" if config.has("beta") else ", the default of this TRL version"
    return f"beta={beta:g}{stated}, {estimator}"


def _reference(facts: Facts) -> str:
    if not facts.beta:
        return "none is loaded"
    if "PeftModel" in (facts.instance or "") and facts.trl_is(">=0.27"):
        return "a frozen copy of the adapter as it was given"
    if facts.peft:
        return "the base model with the adapter switched off (no second copy)"
    if facts.instance:
        return "a second copy, loaded again from the name in the model's config"
    return "a second copy of the starting model"


def _clipping(config: ConfigView, facts: Facts, on_policy: bool | None) -> str:
    kind = facts.loss_type
    if kind in ("sapo", "vespo"):
        return f"none ({kind} shapes the weight instead; epsilon is not used)"
    low = config.number("epsilon")
    stated_high = config.number("epsilon_high") if config.exists("epsilon_high") else None
    high = stated_high if stated_high is not None else low
    if low is None or high is None:
        return "unknown (epsilon is no number)"
    if kind == "cispo":
        span = f"the weight is capped at {high:g}"
    else:
        span = f"ratio within [{1 - low:g}, {1 + high:g}]"
        delta = config.effective("delta") if config.exists("delta") else None
        span += f", and at most {delta} for negative advantages" if delta is not None else ""
    if on_policy is None:
        return f"{span}; whether it can act depends on the batch arithmetic"
    if on_policy:
        return f"{span}, but idle: every completion is used once by the policy that made it, so every ratio is 1"
    return f"{span}, active: completions are reused after the policy has moved"


def _corrects(config: ConfigView) -> bool:
    name = "vllm_importance_sampling_correction"
    return config.exists(name) and config.flag(name)


def _generation(config: ConfigView, facts: Facts) -> str:
    if facts.use_vllm:
        corrected = ""
        if _corrects(config):
            mode = config.text("vllm_importance_sampling_mode") or "token_truncate"
            corrected = f", with importance sampling correction ({mode})"
        if facts.colocate:
            share = config.number("vllm_gpu_memory_utilization")
            part = f" on {share:.0%} of each training GPU" if share is not None and 0 < share <= 1 else ""
            return f"vLLM in the training processes (colocate{part}){corrected}"
        if facts.server:
            return f"a vLLM server{corrected}"
        if facts.unsloth:
            return "vLLM inside the process, built and fed by unsloth"
        if facts.vllm_mode == "device":
            return "vLLM on a GPU of its own"
        return f"vLLM in mode {facts.vllm_mode!r}, which TRL does not know"
    for name in ("use_transformers_continuous_batching", "use_transformers_paged"):
        if config.exists(name) and config.flag(name):
            return "transformers with continuous batching"
    return "transformers' generate() in the training processes"


def _prompts(count: float | None) -> str:
    if count is None or count != int(count):
        return "an unknown number of prompts" if count is None else "no whole number of prompts"
    return f"{count:g} prompt{'s' if count != 1 else ''}"


def _batch_sentences(plan: BatchPlan | None) -> list[str]:
    if plan is None:
        return ["The batch arithmetic does not come out: see the findings."]
    rollout = plan.completions_per_rollout
    processes = f"{plan.processes} process{'es' if plan.processes != 1 else ''}"
    assumed = " (assumed)" if plan.processes_source.startswith("assumed") else ""
    sentences = [
        f"One rollout: {processes}{assumed} x {plan.per_device_train_batch_size} x {plan.steps_per_generation} "
        f"micro-steps = {rollout} completions, {_prompts(plan.prompts_per_rollout)} with {plan.num_generations} each; "
        f"one update sees {plan.completions_per_update}, and one rollout feeds {_count(plan.updates_per_rollout)} "
        "update(s)."
    ]
    if plan.rollouts_per_epoch is not None and plan.updates_per_epoch is not None:
        tail = f"; {plan.prompts_dropped_per_epoch} rows are dropped" if plan.prompts_dropped_per_epoch else ""
        sentences.append(
            f"An epoch has {plan.rollouts_per_epoch} rollouts and {_count(plan.updates_per_epoch)} updates{tail}."
        )
    return sentences


def _count(value: float | None) -> str:
    return "an unknown number of" if value is None else f"{value:g}"


def _logged(config: ConfigView, facts: Facts) -> list[str]:
    names = ["reward", "reward_std", "completions/mean_length", "completions/clipped_ratio"]
    names += [f"rewards/{reward.get('name')}/mean" for reward in facts.setup.rewards if reward.get("name")]
    if facts.trl_is(">=0.17"):
        names.append("frac_reward_zero_std")
    if facts.trl_is(">=0.20"):
        names.append("entropy")
    if facts.beta:
        names.append("kl")
    if facts.loss_type in ("grpo", "bnpo", "dr_grpo", "dapo", "luspo"):
        names.append("clip_ratio/region_mean" if facts.trl_is(">=0.17") else "clip_ratio")
    elif facts.loss_type == "cispo":
        names.append("cispo_clip_ratio")
    if facts.use_vllm and _corrects(config):
        names += ["sampling/importance_sampling_ratio/mean", "sampling/sampling_logp_difference/mean"]
    if config.exists("log_completions") and config.flag("log_completions"):
        names.append("completions (table)")
    return names
