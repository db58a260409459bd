"""What to do about each label, the thing most often at fault first, with the tool that settles it."""

from typing import Any

from grpo_rlvr.models.recommend import Label, Remedy


def _do(action: str, tool: str = "", **kwargs: Any) -> Remedy:
    return Remedy(action=action, tool=tool, kwargs=kwargs)


SOFT_PENALTY = (
    "Add a soft penalty near the cap (in TRL: "
    "trl.rewards.get_soft_overlong_punishment(max_completion_len, soft_punish_cache))."
)

REMEDIES: dict[Label, tuple[Remedy, ...]] = {
    "healthy": (
        _do("Stay on this recipe; judge the result by a held-out evaluation, which these metrics do not replace."),
    ),
    "plateau": (
        _do(
            "Look at which prompts still differ within their group: if most are solved or hopeless, change the data.",
            "score_samples",
        ),
        _do(
            "Read a sample of outputs against their reward: a reward that cannot tell good from better ends progress.",
            "start_reading",
        ),
        _do("Only then raise the learning rate or the number of generations.", "check_config"),
    ),
    "too_short_to_tell": (
        _do("Wait for 20 logged rows, or log every step (in TRL logging_steps=1), then ask again.", "run_logs"),
    ),
    "no_signal": (
        _do(
            "Score a few dozen outputs: a reward that is never paid is a broken grader or a wrong "
            "answer format until shown otherwise.",
            "score_samples",
        ),
        _do(
            "Read the outputs themselves: are they finished, and in the format that the reward expects?",
            "start_reading",
        ),
        _do(
            "Measure the base success rate: below about 0.05 train on demonstrations first, or take easier prompts.",
            "sample_outputs",
        ),
        _do("If every group is solved, the data is exhausted: take harder prompts."),
    ),
    "reward_hacking": (
        _do(
            "Score outputs of the current policy and look at the highest paid: find what is paid for nothing.",
            "score_samples",
        ),
        _do(
            "Read 50 to 100 of them blind; a disagreement means the reward is to be fixed before another step.",
            "start_reading",
        ),
        _do("Restart from before the break with the mended reward, and log an independent measure."),
        _do("As a brake, not as a cure: keep the policy near the reference.", "", beta=0.04),
    ),
    "truncation": (
        _do("Raise the cap to the length that unhindered answers have, if the memory allows.", "check_config"),
        _do("Read cut answers: do they ramble, miss the end token, or lack a stop sequence?", "start_reading"),
        _do(SOFT_PENALTY),
        _do("Mask cut answers only when fewer than half are cut.", "check_config", mask_truncated_completions=True),
    ),
    "length_bias": (
        _do("Read long answers: is the length work or padding?", "start_reading"),
        _do("If the loss averages per answer (in TRL loss_type='grpo'), use a token-level one (dapo or dr_grpo)."),
        _do(SOFT_PENALTY),
    ),
    "length_collapse": (
        _do("Score the short answers: a reward that pays for saying nothing is the usual cause.", "score_samples"),
        _do("Lower the learning rate by 3 to 10 and restart from before the break.", "check_config"),
    ),
    "entropy_collapse": (
        _do("Lower the learning rate by 3 to 10: fast loss of entropy is most often too large a step.", "check_config"),
        _do(
            "Sample at temperature 1.0 and on prompts that the policy sometimes solves.",
            "sample_outputs",
            temperature=1.0,
        ),
        _do(
            "On-policy, the direct remedy is an entropy bonus (in TRL from 1.8 on).", "check_config", entropy_coef=0.001
        ),
        _do("Off-policy, clip higher on the upside (DAPO).", "check_config", epsilon_high=0.28),
    ),
    "kl_blowup": (
        _do(
            "Check that the reference and the policy start as the same model (adapter loaded, "
            "same template, same dtype).",
            "check_config",
        ),
        _do("Lower the learning rate by 3 to 10 and restart from before the break."),
        _do("Keep a KL term and a guard on single ratios.", "check_config", beta=0.04, delta=4.0),
    ),
    "divergence_nan": (
        _do("Restart from the last good checkpoint with a learning rate 3 to 10 times lower."),
        _do(
            "Clip gradients at 1.0 or below, and train in bfloat16, not float16.",
            "check_config",
            max_grad_norm=1.0,
            bf16=True,
        ),
        _do(
            "If nan stands on the first row: look for an empty or fully masked batch, a padding "
            "side or an attention kernel.",
            "check_config",
        ),
        _do("Score outputs of the broken policy: a reward that pays for ruin pulls there.", "score_samples"),
    ),
    "offpolicy_mismatch": (
        _do(
            "Check the weight sync (LoRA merge, sleep mode, stale engine) and restart the sampler "
            "from the trainer's weights.",
            "check_config",
        ),
        _do(
            "Use the same dtype and quantisation in sampler and trainer; top_p=1.0, no top_k or min_p.",
            "check_config",
            top_p=1.0,
        ),
        _do(
            "Correct per token instead of per answer on long answers.",
            "check_config",
            vllm_importance_sampling_mode="token_truncate",
        ),
        _do("Compute the head in float32.", "check_config", cast_lm_head_to_fp32=True),
    ),
    "moe_instability": (
        _do("Lower the learning rate first: a blow-up within a few updates is a step size before it is a ratio."),
        _do(
            "Check the adapters: leave the router frozen, compute the head in float32.",
            "check_config",
            cast_lm_head_to_fp32=True,
        ),
        _do("Keep the router balanced (aux_loss in the log).", "check_config"),
        _do("If batches are used for several updates: a sequence-level ratio (GSPO) or SAPO.", "check_config"),
    ),
}

# Columns that would decide between explanations, by label: quantity and the column's name in TRL.
WOULD_DECIDE: dict[Label, tuple[tuple[str, str], ...]] = {
    "divergence_nan": (("grad_norm", "grad_norm"), ("entropy", "entropy"), ("kl", "kl (set beta > 0)")),
    "kl_blowup": (("grad_norm", "grad_norm"), ("reward", "reward")),
    "no_signal": (("zero_std", "frac_reward_zero_std"), ("clipped", "completions/clipped_ratio")),
    "truncation": (("length_finished", "completions/mean_terminated_length"), ("reward", "reward")),
    "length_bias": (("clipped", "completions/clipped_ratio"), ("accuracy", "a held-out accuracy")),
    "length_collapse": (("entropy", "entropy"),),
    "entropy_collapse": (("zero_std", "frac_reward_zero_std"), ("clip_frac", "clip_ratio/region_mean")),
    "reward_hacking": (("length", "completions/mean_length"),),
    "offpolicy_mismatch": (
        ("logp_gap", "sampling/sampling_logp_difference/mean"),
        ("is_mean", "sampling/importance_sampling_ratio/mean"),
    ),
    "moe_instability": (("aux_loss", "aux_loss"), ("logp_gap", "sampling/sampling_logp_difference/mean")),
    "healthy": (("accuracy", "a held-out accuracy"), ("entropy", "entropy"), ("length", "completions/mean_length")),
    "plateau": (("zero_std", "frac_reward_zero_std"), ("accuracy", "a held-out accuracy")),
    "too_short_to_tell": (("reward", "reward"), ("entropy", "entropy"), ("length", "completions/mean_length")),
}
