"""All rules, in the order they run: a rule comes after those it requires."""

from grpo_rlvr.config.rule import Rule
from grpo_rlvr.config.rules import (
    batch,
    completion_length,
    generation,
    importance_sampling,
    kl_reference,
    kwargs,
    loss_variant,
    policy_reuse,
    values,
    vllm_colocate,
    vllm_connection,
    vllm_engine,
    vllm_server,
)

RULES: tuple[Rule, ...] = (
    *kwargs.RULES,
    *values.RULES,
    *batch.RULES,
    *generation.RULES,
    *completion_length.RULES,
    *vllm_colocate.RULES,
    *vllm_engine.RULES,
    *vllm_server.RULES,
    *vllm_connection.RULES,
    *importance_sampling.RULES,
    *loss_variant.RULES,
    *policy_reuse.RULES,
    *kl_reference.RULES,
)
