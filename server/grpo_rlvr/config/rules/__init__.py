"""All rules, in the order they run: a rule comes after those it requires."""

from grpo_rlvr.config.rule import Rule
from grpo_rlvr.config.rules import batch, kwargs, values

RULES: tuple[Rule, ...] = (
    *kwargs.RULES,
    *values.RULES,
    *batch.RULES,
)
