"""The variants as data: what each changes, since which TRL, what it needs to act, and what TRL lacks of it."""

from dataclasses import dataclass, field
from typing import Any

Version = tuple[int, ...]

# Defaults of GRPOConfig as (since, value), oldest first; an argument is unknown to TRL before its first entry.
DEFAULTS: dict[str, tuple[tuple[Version, Any], ...]] = {
    "loss_type": (((0, 17), "bnpo"), ((0, 22), "dapo")),
    "beta": (((0, 14), 0.04), ((0, 19), 0.0)),
    "epsilon": (((0, 16), 0.2),),
    "epsilon_high": (((0, 16), None),),
    "delta": (((0, 18), None),),
    "scale_rewards": (((0, 16), True), ((0, 22), "group")),
    "mask_truncated_completions": (((0, 17), False),),
    "importance_sampling_level": (((0, 20), "token"),),
    "num_iterations": (((0, 16), 1),),
    "steps_per_generation": (((0, 18), None),),
    "top_entropy_quantile": (((0, 20), 1.0),),
    "sapo_temperature_pos": (((0, 26), 1.0),),
    "sapo_temperature_neg": (((0, 26), 1.05),),
    "entropy_coef": (((1, 8), 0.0),),
    "use_adaptive_entropy": (((1, 8), False),),
    "cast_lm_head_to_fp32": (((0, 25), False),),
    "off_policy_mask_threshold": (((0, 27), None),),
    "max_grad_norm": (((0, 14), 1.0),),
    "learning_rate": (((0, 14), 1e-6),),
    "temperature": (((0, 14), 0.9), ((0, 18), 1.0)),
    "vllm_importance_sampling_correction": (((0, 23), True),),
    "vllm_importance_sampling_mode": (((0, 26), "sequence_mask"),),
}
# Losses by the version that brought them.
LOSSES: dict[str, Version] = {
    "grpo": (0, 17), "bnpo": (0, 17), "dr_grpo": (0, 17), "dapo": (0, 22), "cispo": (0, 26), "sapo": (0, 26),
    "luspo": (0, 28), "vespo": (1, 0),
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """One variant: its arguments, when it is the answer, and what it depends on."""

    name: str
    title: str
    kwargs: dict[str, Any]
    answers: str
    effective_if: tuple[str, ...]
    costs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    main: bool = True
    since: Version = (0, 14)
    extra: dict[str, Any] = field(default_factory=dict)


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "grpo",
        "plain GRPO",
        {"loss_type": "grpo", "scale_rewards": "group", "epsilon": 0.2},
        "The recipe to stay on while nothing in the metrics asks for another.",
        ("nothing: it is the baseline",),
        costs=(
            "loss_type='grpo' averages per answer, so long wrong answers are punished less: watch the length",
            "it is not TRL's default: since 0.22 that is loss_type='dapo', since 0.19 beta=0.0",
        ),
        sources=("DeepSeekMath, arXiv 2402.03300",),
        since=(0, 17),
    ),
    Recipe(
        "dapo",
        "DAPO",
        {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28, "mask_truncated_completions": True, "beta": 0.0},
        "Entropy falls without gain in reward on long chains of thought, or cut answers pollute the reward.",
        (
            "epsilon_high acts only off-policy: num_iterations > 1, or steps_per_generation > "
            "gradient_accumulation_steps",
            "mask_truncated_completions wants less than half of the answers cut: near 1 it masks everything",
        ),
        costs=(
            "a reward for length near the cap belongs to it: "
            "trl.rewards.get_soft_overlong_punishment(max_completion_len, soft_punish_cache)",
        ),
        lacks=(
            "dynamic sampling, the largest step of the paper, is not in TRL: drop prompts that are always solved or "
            "never solved from the data (base success between 0.1 and 0.9), and refresh the selection between runs",
        ),
        sources=("DAPO, arXiv 2503.14476",),
        since=(0, 22),
    ),
    Recipe(
        "dr_grpo",
        "Dr. GRPO",
        {"loss_type": "dr_grpo", "scale_rewards": "none", "beta": 0.0},
        "Length or reward rises regardless of quality while the loss averages per answer.",
        ("the loss in use is 'grpo' (or sapo, or bnpo with one answer a device): 'dapo' is token-level already",),
        costs=(
            "re-tune the learning rate: the divisor is batch x max_completion_length, so the gradient shrinks "
            "with a generous cap (one replication needed 10 times the rate)",
        ),
        sources=("Understanding R1-Zero-like training, arXiv 2503.20783",),
        since=(0, 17),
    ),
    Recipe(
        "gspo",
        "GSPO",
        {
            "importance_sampling_level": "sequence",
            "loss_type": "grpo",
            "epsilon": 3e-4,
            "epsilon_high": 4e-4,
            "beta": 0.0,
        },
        "A mixture of experts whose batches are used for more than one update.",
        (
            "it acts only off-policy: steps_per_generation = 4 x gradient_accumulation_steps, as in the paper",
            "the sampler and the trainer agree first: a broken weight sync is not repaired by another ratio",
        ),
        costs=("10 to 30 % of the answers clipped is normal for it", "on dense models it scores like GRPO"),
        lacks=("routing replay (R3) is not in TRL",),
        sources=("GSPO, arXiv 2507.18071",),
        since=(0, 20),
    ),
    Recipe(
        "cispo",
        "CISPO",
        {"loss_type": "cispo", "epsilon_high": 5.0, "scale_rewards": "batch", "cast_lm_head_to_fp32": True},
        "Clipping removes the rare tokens that start a line of thought, in off-policy updates.",
        ("off-policy only", "epsilon_high must be set: unset, every ratio is clamped at 0.2"),
        costs=("frac_reward_zero_std is blind with batch scaling",),
        sources=("arXiv 2506.13585",),
        main=False,
        since=(0, 26),
    ),
    Recipe(
        "sapo",
        "SAPO",
        {"loss_type": "sapo", "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05},
        "Variance of token ratios, as with a mixture of experts; softer than GSPO.",
        ("off-policy only",),
        costs=("no clip metric is logged", "epsilon is ignored"),
        sources=("arXiv 2511.20347",),
        main=False,
        since=(0, 26),
    ),
    Recipe(
        "luspo",
        "LUSPO",
        {"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon": 2e-3, "epsilon_high": 2.5e-3},
        "Answers shrink under a sequence-level ratio.",
        ("off-policy only",),
        sources=("arXiv 2602.05261",),
        main=False,
        since=(0, 28),
    ),
    Recipe(
        "vespo",
        "VESPO",
        {"loss_type": "vespo", "importance_sampling_level": "token", "vllm_importance_sampling_mode": "token_truncate"},
        "Stale samples: asynchronous or many updates a batch.",
        ("off-policy only",),
        costs=("the default vllm_importance_sampling_mode raises in the trainer",),
        sources=("arXiv 2602.10693",),
        main=False,
        since=(1, 0),
    ),
    Recipe(
        "entropy_bonus",
        "entropy bonus",
        {"entropy_coef": 0.001},
        "Entropy falls without gain, on-policy as well.",
        ("nothing: it acts on-policy",),
        costs=("too much of it keeps the policy from committing",),
        sources=("TRL 1.8",),
        main=False,
        since=(1, 8),
    ),
    Recipe(
        "delta",
        "two-sided clipping",
        {"delta": 4.0},
        "Single answers with a negative advantage and a huge ratio.",
        ("off-policy only", "losses grpo, bnpo, dr_grpo, dapo"),
        sources=("INTELLECT-2",),
        main=False,
        since=(0, 18),
    ),
    Recipe(
        "high_entropy_tokens",
        "80/20",
        {"top_entropy_quantile": 0.2},
        "Learning only from the fifth of tokens that decide.",
        ("entropy is alive at the start",),
        sources=("arXiv 2506.01939",),
        main=False,
        since=(0, 20),
    ),
    Recipe(
        "opsm",
        "off-policy sequence masking",
        {"off_policy_mask_threshold": 0.5},
        "Stale answers with a negative advantage.",
        ("off-policy only",),
        sources=("DeepSeek-V3.2",),
        main=False,
        since=(0, 27),
    ),
)
BY_NAME: dict[str, Recipe] = {recipe.name: recipe for recipe in RECIPES}


def default_of(argument: str, version: Version) -> Any:
    """The default of an argument in a TRL version.

    Raises:
        KeyError: that version has no such argument.
    """
    found = [value for since, value in DEFAULTS.get(argument, ()) if version >= since]
    if not found:
        raise KeyError(argument)
    return found[-1]


def spelled(argument: str, value: Any, version: Version) -> Any:
    """A value in the spelling of that version: scale_rewards was a bool before 0.22."""
    if argument == "scale_rewards" and version < (0, 22):
        return value != "none"
    return value


@dataclass(frozen=True)
class Change:
    """What a recipe changes for one config: `set` to give, `already` in place, `unknown` to that TRL version."""

    set: dict[str, Any]
    already: dict[str, Any]
    unknown: tuple[str, ...]


def change_for(recipe: Recipe, given: "dict[str, Any]", version: Version) -> Change:
    """Compare a recipe with a config and the defaults of its TRL version."""
    to_set: dict[str, Any] = {}
    already: dict[str, Any] = {}
    unknown: list[str] = []
    for argument, wanted in recipe.kwargs.items():
        try:
            default = default_of(argument, version)
        except KeyError:
            unknown.append(f"{argument} (TRL {'.'.join(map(str, DEFAULTS[argument][0][0]))} or later)")
            continue
        if argument == "loss_type" and version < LOSSES.get(str(wanted), (0,)):
            unknown.append(f"loss_type='{wanted}' (TRL {'.'.join(map(str, LOSSES[str(wanted)]))} or later)")
            continue
        value = spelled(argument, wanted, version)
        effective = given.get(argument, default)
        same = effective == value or (argument == "scale_rewards" and {effective, value} <= {False, "none"})
        (already if same else to_set)[argument] = value
    return Change(to_set, already, tuple(unknown))
