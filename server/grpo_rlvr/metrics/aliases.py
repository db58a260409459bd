"""The names that frameworks print, as data: one row a name. To teach the parser a name, add a row."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Alias:
    """One printed name.

    `since` and `until` are versions of the framework, empty where unknown; `flip` marks a share that is printed
    as its complement; `note` is what a reader has to know about this name beyond the quantity it measures.
    """

    framework: str
    name: str
    quantity: str
    since: str = ""
    until: str = ""
    note: str = ""
    flip: bool = False


_TRL_ROWS: tuple[tuple[str, str, str, str, str], ...] = (
    ("loss", "loss", "", "", "about 0 on-policy; a growing loss is mostly beta times kl"),
    ("grad_norm", "grad_norm", "", "", "of the last step, before clipping"),
    ("learning_rate", "learning_rate", "", "", ""),
    ("epoch", "epoch", "", "", ""),
    ("step", "step", "", "", "only in trainer_state.json and exports"),
    ("num_tokens", "num_tokens", "0.16", "", ""),
    ("step_time", "step_time", "0.26", "", ""),
    ("completion_length", "length", "0.14", "0.16", "Unsloth still prints it"),
    ("completions/mean_length", "length", "0.17", "", "tool tokens excluded; rows with a fresh generation only"),
    ("completions/min_length", "length_min", "0.17", "", ""),
    ("completions/max_length", "length_max", "0.17", "", ""),
    ("completions/clipped_ratio", "clipped", "0.17", "", "last token is neither EOS nor padding"),
    ("completions/mean_terminated_length", "length_finished", "0.17", "", "0 if none finished"),
    ("completions/min_terminated_length", "other", "0.17", "", ""),
    ("completions/max_terminated_length", "other", "0.17", "", ""),
    ("tools/call_frequency", "tool_calls", "0.26", "", ""),
    ("tools/failure_frequency", "tool_failures", "0.26", "", ""),
    ("reward", "reward", "", "", ""),
    ("reward_std", "reward_std", "", "", "whole batch since 0.27, mean within groups before"),
    (
        "frac_reward_zero_std",
        "zero_std",
        "0.18",
        "",
        "blind with scale_rewards='batch' or multi_objective_aggregation='normalize_then_sum'; too low where equal "
        "rewards are not exact in float32 (eight times 1.2: std 1.3e-7, not counted)",
    ),
    ("sampling/sampling_logp_difference/mean", "logp_gap", "0.23", "", "vLLM with correction"),
    ("sampling/sampling_logp_difference/max", "logp_gap_max", "0.23", "", ""),
    ("sampling/importance_sampling_ratio/min", "is_min", "0.23", "", ""),
    (
        "sampling/importance_sampling_ratio/mean",
        "is_mean",
        "0.23",
        "",
        "after masking: far below 1 = data thrown away",
    ),
    ("sampling/importance_sampling_ratio/max", "is_max", "0.23", "", ""),
    ("kl", "kl", "", "", "absent when beta is 0; k3, heavy-tailed"),
    ("entropy", "entropy", "0.20", "", ""),
    ("clip_ratio", "clip_frac", "0.16", "0.16", ""),
    ("clip_ratio/low_mean", "clip_low", "0.17", "", "exactly 0 on-policy"),
    ("clip_ratio/low_min", "other", "0.17", "", ""),
    ("clip_ratio/high_mean", "clip_high", "0.17", "", "exactly 0 on-policy"),
    ("clip_ratio/high_max", "other", "0.17", "", ""),
    ("clip_ratio/region_mean", "clip_frac", "0.17", "", "a share of answers when the ratio is per sequence"),
    ("cispo_clip_ratio", "clip_frac", "0.26", "", ""),
    ("vespo/phi_seq_mean", "other", "1.0", "", ""),
    ("policy_loss", "other", "1.8", "", "loss without the entropy bonus"),
    ("entropy_coef", "other", "1.8", "", ""),
    ("aux_loss", "aux_loss", "1.7", "", "router loss"),
    ("train_runtime", "other", "", "", "the closing summary line"),
    ("train_loss", "other", "", "", "the closing summary line"),
    ("train_samples_per_second", "other", "", "", ""),
    ("train_steps_per_second", "other", "", "", ""),
    ("total_flos", "other", "", "", ""),
    ("time", "other", "", "", "seconds since 1970 in a run folder"),
    ("mean_token_accuracy", "other", "", "", "SFT: next-token accuracy, not a success rate"),
    ("runtime", "other", "", "", "eval_runtime: seconds of an evaluation"),
    ("samples_per_second", "other", "", "", "eval_samples_per_second"),
    ("steps_per_second", "other", "", "", "eval_steps_per_second"),
    ("model_preparation_time", "other", "", "", "eval_model_preparation_time"),
)


def _trl() -> tuple[Alias, ...]:
    return tuple(Alias("trl", name, quantity, since, until, note) for name, quantity, since, until, note in _TRL_ROWS)


_VERL_ROWS: tuple[tuple[str, str, str], ...] = (
    ("critic/rewards/mean", "reward", "after KL in the reward, if any"),
    ("critic/score/mean", "reward", "before KL in the reward"),
    ("critic/rewards/max", "other", ""),
    ("critic/rewards/min", "other", ""),
    ("critic/score/max", "other", ""),
    ("critic/score/min", "other", ""),
    ("critic/advantages/mean", "advantage", ""),
    ("critic/advantages/max", "advantage_max", ""),
    ("critic/advantages/min", "advantage_min", ""),
    ("critic/returns/mean", "other", ""),
    ("response_length/mean", "length", ""),
    ("response_length/max", "length_max", ""),
    ("response_length/min", "length_min", ""),
    (
        "response_length/clip_ratio",
        "clipped",
        "the V1 trainer measures against the longest answer of the batch, so it is never 0",
    ),
    ("prompt_length/mean", "prompt_length", ""),
    ("prompt_length/clip_ratio", "other", ""),
    ("actor/entropy", "entropy", ""),
    ("actor/entropy_loss", "entropy", "older name"),
    ("actor/kl_loss", "kl", ""),
    ("actor/reward_kl_penalty", "kl", ""),
    ("actor/kl_coef", "other", ""),
    ("actor/pg_loss", "loss", ""),
    ("actor/pg_clipfrac", "clip_frac", ""),
    ("actor/pg_clipfrac_lower", "clip_low", "dual clip"),
    ("actor/ppo_kl", "policy_kl", "signed"),
    ("actor/grad_norm", "grad_norm", ""),
    ("actor/lr", "learning_rate", ""),
    ("training/rollout_probs_diff_mean", "logp_gap", "of probabilities, not log-probabilities"),
    ("training/rollout_probs_diff_max", "logp_gap_max", ""),
    ("rollout_corr/kl", "mismatch_kl", ""),
    ("rollout_corr/k3_kl", "mismatch_kl", ""),
    ("rollout_corr/log_ppl_abs_diff", "logp_gap", ""),
    ("rollout_corr/rollout_is_mean", "is_mean", ""),
    ("rollout_corr/rollout_is_eff_sample_size", "ess", ""),
    ("training/global_step", "step", ""),
    ("training/epoch", "epoch", ""),
    ("group_reward/all_zero_rate", "all_wrong", "a user's own column, seen in agent runs"),
    ("group_reward/at_least_one_positive_rate", "other", ""),
    ("timing_s/step", "step_time", ""),
    ("perf/time_per_step", "step_time", ""),
)


def _verl() -> tuple[Alias, ...]:
    return tuple(Alias("verl", name, quantity, note=note) for name, quantity, note in _VERL_ROWS)


_OTHER_ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("openrlhf", "return", "other", ""),
    ("openrlhf", "group_reward_std", "reward_std", ""),
    ("openrlhf", "dynamic_filtering_pass_rate", "other", ""),
    ("openrlhf", "response_length", "length", ""),
    ("openrlhf", "gen_len", "length", "progress bar"),
    ("openrlhf", "response_clip_ratio", "clipped", ""),
    ("openrlhf", "truncated", "clipped", ""),
    ("openrlhf", "truncated_rate", "clipped", ""),
    ("openrlhf", "entropy_loss", "entropy", ""),
    ("openrlhf", "ent_loss", "entropy", "progress bar"),
    ("openrlhf", "ppo_clip_ratio", "clip_frac", ""),
    ("openrlhf", "ppo_clip", "clip_frac", ""),
    ("openrlhf", "ppo_kl", "policy_kl", "signed"),
    ("openrlhf", "vllm_kl", "mismatch_kl", ""),
    ("openrlhf", "actor_grad_norm", "grad_norm", ""),
    ("openrlhf", "act_loss", "loss", "progress bar"),
    ("openrlhf", "actor_lr", "learning_rate", ""),
    ("openrlhf", "act_lr", "learning_rate", "progress bar"),
    ("ms-swift", "entropy/mean", "entropy", "needs log_entropy"),
    ("ms-swift", "entropy/max", "other", ""),
    ("ms-swift", "entropy/min", "other", ""),
    ("ms-swift", "global_step/max_steps", "step", "printed as 12/100"),
    ("ms-swift", "rollout_correction/kl", "mismatch_kl", ""),
    ("ms-swift", "rollout_correction/k3_kl", "mismatch_kl", ""),
    ("ms-swift", "rollout_correction/is_weight_mean", "is_mean", ""),
    ("ms-swift", "rollout_correction/ess", "ess", ""),
    ("ms-swift", "rollout_correction/clipped_frac", "other", ""),
    ("ms-swift", "memory(GiB)", "other", ""),
    ("ms-swift", "train_speed(iter/s)", "other", ""),
    ("ms-swift", "percentage", "other", ""),
    ("ms-swift", "elapsed_time", "other", ""),
    ("ms-swift", "remaining_time", "other", ""),
    ("nemo-rl", "train/reward", "reward", ""),
    ("nemo-rl", "avg_reward", "reward", "console"),
    ("nemo-rl", "baseline_reward/pct_0", "all_wrong", ""),
    ("nemo-rl", "baseline_reward/pct_1", "all_right", ""),
    ("nemo-rl", "baseline_reward/pct_mixed", "zero_std", "printed as its complement"),
    ("nemo-rl", "mean_gen_tokens_per_sample", "length", ""),
    ("nemo-rl", "mean_generation_length", "length", "console"),
    ("nemo-rl", "truncation_rate", "clipped", ""),
    ("nemo-rl", "natural_termination_rate", "clipped", "printed as its complement"),
    ("nemo-rl", "approx_entropy", "entropy", ""),
    ("nemo-rl", "kl_penalty", "kl", ""),
    ("nemo-rl", "policy_kl_error", "policy_kl", ""),
    ("nemo-rl", "gen_kl_error", "mismatch_kl", "about 3e-4"),
    ("nemo-rl", "generation_kl_error", "mismatch_kl", "console"),
    ("nemo-rl", "js_divergence_error", "other", ""),
    ("nemo-rl", "probs_ratio", "other", ""),
    ("nemo-rl", "token_mult_prob_error", "other", "1 is perfect, above 1.05 is a fault"),
    ("nemo-rl", "sampling_importance_ratio", "is_mean", ""),
    ("nemo-rl", "is_oob_ratio", "other", ""),
    ("prime-rl", "reward/all/mean", "reward", ""),
    ("prime-rl", "solved_none", "all_wrong", ""),
    ("prime-rl", "solved_all", "all_right", ""),
    ("prime-rl", "seq_len/all/mean", "length", ""),
    ("prime-rl", "seq_length", "length", "console"),
    ("prime-rl", "num_output_tokens", "length", ""),
    ("prime-rl", "is_truncated/all/mean", "clipped", ""),
    ("prime-rl", "truncation", "clipped", "console"),
    ("prime-rl", "trainable", "zero_std", "console; printed as its complement"),
    ("prime-rl", "entropy/all/mean", "entropy", ""),
    ("prime-rl", "ref_kl/all/mean", "kl", ""),
    ("prime-rl", "mismatch_kl/all/mean", "mismatch_kl", "3e-4 to 5e-4"),
    ("prime-rl", "mismatch_kl", "mismatch_kl", ""),
    ("prime-rl", "optim/grad_norm", "grad_norm", ""),
    ("prime-rl", "optim/lr", "learning_rate", ""),
    ("prime-rl", "masked_advantage_positive", "clip_high", ""),
    ("prime-rl", "max_off_policy_level", "other", ""),
    ("prime-rl", "masked_advantage_negative", "clip_low", ""),
    ("prime-rl", "off_policy/mean", "other", "staleness"),
    ("slime", "rollout/raw_reward", "reward", ""),
    ("slime", "rollout/rewards", "other", "after normalisation"),
    ("slime", "response_len/mean", "length", ""),
    ("slime", "rollout/response_lengths", "length", ""),
    ("slime", "rollout/response_len/mean", "length", ""),
    ("slime", "rollout/response_len/max", "length_max", ""),
    ("slime", "rollout/response_len/min", "length_min", ""),
    ("slime", "rollout/advantages", "advantage", ""),
    ("slime", "truncated_ratio", "clipped", ""),
    ("slime", "rollout/truncated", "clipped", ""),
    ("slime", "rollout/truncated_ratio", "clipped", ""),
    ("slime", "rollout/entropy", "entropy", ""),
    ("slime", "train/entropy_loss", "entropy", ""),
    ("slime", "rollout/returns", "other", ""),
    ("slime", "rollout/total_lengths", "other", ""),
    ("slime", "rollout/log_probs", "other", ""),
    ("slime", "rollout/ref_log_probs", "other", ""),
    ("slime", "rollout/rollout_log_probs", "other", ""),
    ("slime", "train_rollout_logprob_abs_diff", "logp_gap", ""),
    ("slime", "kl_loss", "kl", ""),
    ("slime", "train/kl_loss", "kl", ""),
    ("slime", "pg_loss", "loss", ""),
    ("slime", "pg_clipfrac", "clip_frac", ""),
    ("slime", "train/ppo_kl", "policy_kl", ""),
    ("slime", "tis", "is_mean", ""),
    ("slime", "ois", "other", ""),
    ("slime", "tis_clipfrac", "other", ""),
    ("slime", "train/step", "step", ""),
    ("slime", "rollout/step", "step", ""),
    ("mlx-lm-lora", "total_rewards_mean", "reward", "console"),
    ("mlx-lm-lora", "total_rewards_std", "other", "of all answers, not within groups"),
    ("mlx-lm-lora", "grouped_rewards_mean", "other", "the same mean"),
    ("mlx-lm-lora", "grouped_rewards_std", "reward_std", "console"),
    ("tinker", "reward/mean", "reward", ""),
    ("tinker", "reward/total", "reward", ""),
    ("tinker", "env/all/reward/total", "reward", ""),
    ("tinker", "policy/entropy", "entropy", ""),
    ("tinker", "optim/entropy", "entropy", ""),
    ("tinker", "progress/step", "step", ""),
    ("tinker", "progress/batch", "step", ""),
    ("tinker", "progress/epoch", "epoch", ""),
    ("tinker", "progress/done_frac", "other", ""),
    ("tinker", "time/total", "step_time", ""),
    ("tinker", "optim/kl_sample_train_v1", "mismatch_kl", ""),
    ("tinker", "optim/kl_sample_train_v2", "other", ""),
    ("tinker", "env/all/ac_tokens_per_turn", "length", ""),
    ("tinker", "env/all/by_group/frac_all_bad", "all_wrong", ""),
    ("tinker", "env/all/by_group/frac_all_good", "all_right", ""),
    ("tinker", "env/all/by_group/frac_mixed", "zero_std", "printed as its complement"),
)


def _others() -> tuple[Alias, ...]:
    flipped = {
        "natural_termination_rate", "baseline_reward/pct_mixed", "env/all/by_group/frac_mixed", "trainable",
    }  # fmt: skip
    return tuple(Alias(f, name, q, note=note, flip=name in flipped) for f, name, q, note in _OTHER_ROWS)


def _plain() -> tuple[Alias, ...]:
    """Spellings that people use in tables, notes and their own loops."""
    spellings = {
        "step": "steps iter iters iteration iterations global_step global_steps train_step training_step rollout "
        "update _step batch calls trainer/global_step optimizer_step",
        "epoch": "epochs",
        "loss": "training_loss policy_loss pg_loss actor_loss train/loss grpo_loss total_loss",
        "grad_norm": "grad gradient_norm gnorm grad_norms gradnorm total_norm",
        "learning_rate": "lr",
        "reward": "rewards mean_reward reward_mean avg_reward average_reward total_reward mean_total reward_total "
        "score mean_score score_mean proxy_reward rm_score rew r_mean train_reward raw_reward return_mean",
        "reward_std": "std_reward reward_stdev rewards_std within_group_std",
        "zero_std": "frac_zero_std zero_std zero_var_groups zero_variance_groups zero_std_frac zero_std_ratio "
        "zero_variance frac_zero_variance degenerate_groups zero_std_groups zero_adv_groups zero_var "
        "zero_advantage_frac frac_zero_advantage zero_adv_frac frac_zero_adv uniform_groups flat_groups dead_groups",
        "all_wrong": "all_zero_rate all_wrong frac_all_wrong all_zero_groups solve_none all_fail",
        "all_right": "all_correct_rate all_right frac_all_correct solve_all all_pass all_correct",
        "length": "mean_length mean_len avg_length avg_len average_length completion_len completion_tokens "
        "response_len response_lengths length len mean_response_length mean_completion_length avg_response_length "
        "tokens words "
        "mean_tokens output_len output_length gen_length mean_completion_len",
        "length_min": "min_length min_len", "length_max": "max_length max_len",
        "clipped": "clipped_ratio clip_len truncation_ratio trunc trunc_rate truncation_frac clipped_frac hit_cap "
        "cut_at_cap truncated_ratio truncated_share truncated_frac length_clip_ratio hit_limit cap_rate",
        "entropy": "mean_entropy token_entropy policy_entropy entropy_mean ent",
        "kl": "mean_kl kl_div kl_divergence kl_mean approx_kl ref_kl kl_ref kl_to_ref",
        "clip_frac": "clip_fraction clipfrac pg_clipfrac clip_ratio_mean ratio_clipped",
        "logp_gap": "logp_diff logprob_diff mean_logp_diff sampling_logp_difference logprob_gap",
        "mismatch_kl": "rollout_kl train_infer_kl sampler_kl",
        "is_mean": "is_ratio importance_ratio is_ratio_mean mean_is_ratio ratio_mean",
        "step_time": "time_per_step sec_per_step seconds",
        "accuracy": "acc accuracy strict_acc eval_acc test_acc val_acc pass@1 pass_rate",
        "other": "token_accuracy token_acc mean_token_acc",
    }  # fmt: skip
    return tuple(Alias("any", name, quantity) for quantity, names in spellings.items() for name in names.split())


ALIASES: tuple[Alias, ...] = (*_trl(), *_verl(), *_others(), *_plain())
