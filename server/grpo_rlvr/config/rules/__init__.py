"""All rules, in the order they run: a rule comes after those it requires."""

from grpo_rlvr.config.rule import Rule
from grpo_rlvr.config.rules import batch

RULES: tuple[Rule, ...] = (
    batch.batch_not_divisible_by_group,
)
