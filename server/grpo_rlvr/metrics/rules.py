"""The rules in the order of causes: what is first explains what follows."""

from collections.abc import Callable

from grpo_rlvr.metrics.context import Context
from grpo_rlvr.metrics.rules_hard import (
    gradient_explosion,
    kl_blowup,
    no_signal,
    not_finite,
    offpolicy_mismatch,
    truncation,
)
from grpo_rlvr.metrics.rules_trend import (
    entropy_collapse,
    length_bias,
    length_collapse,
    policy_falls_apart,
    reward_hacking,
)
from grpo_rlvr.metrics.signals import Signals
from grpo_rlvr.models.recommend import LabelFinding

Rule = Callable[[Signals, Context], LabelFinding | None]

RULES: tuple[Rule, ...] = (
    not_finite,
    gradient_explosion,
    kl_blowup,
    policy_falls_apart,
    no_signal,
    reward_hacking,
    length_collapse,
    truncation,
    offpolicy_mismatch,
    length_bias,
    entropy_collapse,
)

# Rules that hold at once, without a course over time.
HARD_RULES: tuple[Rule, ...] = (not_finite, gradient_explosion, kl_blowup, no_signal, truncation, offpolicy_mismatch)
