"""What TRL's arguments are called in other trainers, as data: names read in those trainers' own sources and guides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Dialect:
    """One trainer's options.

    `names` maps an argument of TRL to the option that takes the same value, `values` an argument and its value to the
    options that mean the same. `reuse`, `overlong` and `sampling` say how a batch is used for more than one update, how
    long answers are penalised and how groups without a difference are dropped; empty where that was not found.
    """

    trainer: str
    read_in: str
    names: Mapping[str, str]
    values: Mapping[tuple[str, Any], Mapping[str, Any]] = field(default_factory=dict)
    reuse: str = ""
    overlong: str = ""
    sampling: str = ""


_ACTOR = "actor_rollout_ref.actor"
_SWIFT_SAME = (
    "loss_type scale_rewards beta epsilon epsilon_high delta importance_sampling_level num_iterations "
    "steps_per_generation top_entropy_quantile learning_rate max_grad_norm temperature top_p max_completion_length "
    "num_generations"
).split()

DIALECTS: dict[str, Dialect] = {
    d.trainer: d
    for d in (
        Dialect(
            "verl",
            "verl 0.9.1",
            {
                "epsilon": f"{_ACTOR}.clip_ratio_low", "epsilon_high": f"{_ACTOR}.clip_ratio_high",
                "entropy_coef": f"{_ACTOR}.entropy_coeff", "learning_rate": f"{_ACTOR}.optim.lr",
                "max_grad_norm": f"{_ACTOR}.optim.clip_grad", "num_iterations": f"{_ACTOR}.ppo_epochs",
                "sapo_temperature_pos": f"{_ACTOR}.tau_pos", "sapo_temperature_neg": f"{_ACTOR}.tau_neg",
                "temperature": "actor_rollout_ref.rollout.temperature", "top_p": "actor_rollout_ref.rollout.top_p",
                "num_generations": "actor_rollout_ref.rollout.n", "max_completion_length": "data.max_response_length",
            },
            {
                ("loss_type", "grpo"): {f"{_ACTOR}.loss_agg_mode": "seq-mean-token-mean"},
                ("loss_type", "dapo"): {f"{_ACTOR}.loss_agg_mode": "token-mean"},
                ("loss_type", "dr_grpo"): {f"{_ACTOR}.loss_agg_mode": "seq-mean-token-sum-norm"},
                ("loss_type", "cispo"): {f"{_ACTOR}.policy_loss.loss_mode": "cispo"},
                ("loss_type", "sapo"): {f"{_ACTOR}.policy_loss.loss_mode": "sapo"},
                ("scale_rewards", "none"): {"algorithm.norm_adv_by_std_in_grpo": False},
                ("scale_rewards", "group"): {"algorithm.norm_adv_by_std_in_grpo": True},
                ("importance_sampling_level", "sequence"): {f"{_ACTOR}.policy_loss.loss_mode": "gspo"},
                ("beta", 0.0): {f"{_ACTOR}.use_kl_loss": False},
                ("beta", 0.04): {f"{_ACTOR}.use_kl_loss": True, f"{_ACTOR}.kl_loss_coef": 0.04},
                ("vllm_importance_sampling_mode", "token_truncate"): {
                    "algorithm.rollout_correction.rollout_is": "token"
                },
            },
            "ppo_mini_batch_size below train_batch_size, or ppo_epochs above 1",
            "reward.reward_manager.name=dapo with reward.reward_kwargs.overlong_buffer_cfg (enable, len, "
            "penalty_factor); in older versions reward_model.overlong_buffer",
            "algorithm.filter_groups.enable=True, in its DAPO recipe",
        ),
        Dialect(
            "openrlhf",
            "OpenRLHF 0.11.2 (older versions: --eps_clip_low_high, --init_kl_coef, --entropy_loss_coef and so on)",
            {
                "beta": "algo.kl.init_coef", "entropy_coef": "actor.entropy_coef", "learning_rate": "actor.adam.lr",
                "max_grad_norm": "actor.max_norm", "num_iterations": "train.max_epochs",
                "temperature": "rollout.temperature", "top_p": "rollout.top_p",
                "num_generations": "rollout.n_samples_per_prompt", "max_completion_length": "rollout.max_new_tokens",
            },
            {
                ("epsilon_high", 0.28): {"actor.eps_clip_low_high": "0.2 0.28"},
                ("epsilon_high", 4e-4): {"actor.eps_clip_low_high": "3e-4 4e-4"},
                ("epsilon", 0.2): {}, ("epsilon", 3e-4): {},
                ("importance_sampling_level", "sequence"): {"actor.policy_loss_type": "gspo"},
                ("scale_rewards", "none"): {"algo.advantage.estimator": "dr_grpo"},
                ("scale_rewards", "group"): {"algo.advantage.estimator": "group_norm"},
                ("vllm_importance_sampling_mode", "token_truncate"): {
                    "algo.advantage.is_correction_level": "token", "algo.advantage.is_correction_mode": "clip",
                },
            },
            "train.batch_size below rollout.batch_size x rollout.n_samples_per_prompt, or train.max_epochs above 1",
            "reward.overlong_buffer_len and reward.overlong_penalty_factor",
            "algo.dynamic_filtering_enable",
        ),
        Dialect(
            "ms-swift",
            "ms-swift 4.6.0",
            {name: name for name in _SWIFT_SAME} | {
                "mask_truncated_completions": "overlong_filter", "sapo_temperature_pos": "tau_pos",
                "sapo_temperature_neg": "tau_neg", "off_policy_mask_threshold": "off_policy_sequence_mask_delta",
                "vllm_importance_sampling_mode": "rollout_importance_sampling_mode",
            },
            {("bf16", True): {"torch_dtype": "bfloat16"}},
            "num_iterations above 1, or steps_per_generation above gradient_accumulation_steps",
            "reward_funcs soft_overlong with soft_cache_length (and soft_max_length)",
            "dynamic_sample true (with max_resample_times)",
        ),
        Dialect(
            "nemo-rl",
            "NeMo RL's guides on GRPO and DAPO",
            {
                "epsilon": "loss_fn.ratio_clip_min", "epsilon_high": "loss_fn.ratio_clip_max",
                "beta": "loss_fn.reference_policy_kl_penalty", "learning_rate": "policy.optimizer.kwargs.lr",
                "max_grad_norm": "policy.max_grad_norm", "num_generations": "grpo.num_generations_per_prompt",
            },
            {
                ("loss_type", "dapo"): {"loss_fn.token_level_loss": True},
                ("loss_type", "grpo"): {"loss_fn.token_level_loss": False},
                ("scale_rewards", "none"): {"grpo.normalize_rewards": False},
                ("scale_rewards", "group"): {"grpo.normalize_rewards": True},
                ("importance_sampling_level", "sequence"): {"loss_fn.sequence_level_importance_ratios": True},
                ("vllm_importance_sampling_mode", "token_truncate"): {
                    "loss_fn.use_importance_sampling_correction": True,
                    "loss_fn.truncated_importance_sampling_type": "tis",
                    "loss_fn.truncated_importance_sampling_ratio": 2,
                },
            },
            "policy.train_global_batch_size below the answers of one step",
            "grpo.reward_shaping (enabled, overlong_buffer_length, max_response_length)",
            "grpo.use_dynamic_sampling with grpo.batch_multiplier",
        ),
        Dialect(
            "slime",
            "slime's arguments.py",
            {
                "epsilon": "eps-clip", "epsilon_high": "eps-clip-high", "entropy_coef": "entropy-coef",
                "learning_rate": "lr", "max_grad_norm": "clip-grad", "temperature": "rollout-temperature",
                "top_p": "rollout-top-p", "num_generations": "n-samples-per-prompt",
                "max_completion_length": "rollout-max-response-len",
            },
            {
                ("loss_type", "dapo"): {"calculate-per-token-loss": True},
                ("scale_rewards", "none"): {"disable-grpo-std-normalization": True},
                ("importance_sampling_level", "sequence"): {"advantage-estimator": "gspo"},
                ("beta", 0.04): {"use-kl-loss": True, "kl-loss-coef": 0.04},
                ("beta", 0.0): {"kl-loss-coef": 0.0},
                ("vllm_importance_sampling_mode", "token_truncate"): {"use-tis": True},
            },
            "num-steps-per-rollout above 1 (global-batch-size below the answers of one rollout)",
            "",
            "dynamic-sampling-filter-path",
        ),
        Dialect(
            "skyrl",
            "SkyRL's DAPO example",
            {
                "epsilon": "trainer.algorithm.eps_clip_low", "epsilon_high": "trainer.algorithm.eps_clip_high",
            },
            {
                ("loss_type", "dapo"): {"trainer.algorithm.loss_reduction": "token_mean"},
                ("loss_type", "grpo"): {"trainer.algorithm.loss_reduction": "sequence_mean"},
                ("loss_type", "dr_grpo"): {"trainer.algorithm.loss_reduction": "seq_mean_token_sum_norm"},
                ("scale_rewards", "none"): {"trainer.algorithm.grpo_norm_by_std": False},
                ("scale_rewards", "group"): {"trainer.algorithm.grpo_norm_by_std": True},
                ("importance_sampling_level", "sequence"): {"trainer.algorithm.policy_loss_type": "gspo"},
                ("mask_truncated_completions", True): {"generator.apply_overlong_filtering": True},
            },
            "",
            "trainer.algorithm.overlong_buffer (len, penalty_factor), in its DAPO example",
            "trainer.algorithm.dynamic_sampling.type",
        ),
    )
}  # fmt: skip


def translate(dialect: Dialect, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return TRL's arguments as options of another trainer, and those for which none is known."""
    options: dict[str, Any] = {}
    lost = []
    for name, value in arguments.items():
        if (name, value) in dialect.values:
            options |= dialect.values[name, value]
        elif name in dialect.names:
            options[dialect.names[name]] = value
        else:
            lost.append(f"{name}={value!r}")
    return options, lost


def stated(given: Mapping[str, Any], option: str) -> Any:
    """The value that a config states for an option, by its whole path or its last part; None when it states none."""
    for name in (option, option.rsplit(".", 1)[-1]):
        for spelling in (name, name.replace("-", "_")):
            if spelling in given:
                return given[spelling]
    return None
