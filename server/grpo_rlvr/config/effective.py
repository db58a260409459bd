"""What a config really does, in words and numbers."""

from grpo_rlvr.config.batch import Batch
from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.view import ConfigView
from grpo_rlvr.models.check import Effective


def describe(config: ConfigView, facts: Facts, batch: Batch) -> Effective:
    """Return the effective description of a config.

    Raises:
        Unknown: a value it rests on could not be read.
    """
    kl = f"beta={facts.beta:g} against the reference" if facts.beta else "none"
    return Effective(
        summary=[f"Loss {facts.loss_type}, KL {kl}."],
        loss=facts.loss_type,
        advantage=f"scale_rewards={config.effective('scale_rewards')}",
        kl=kl,
        clipping="idle: every ratio is 1" if batch.on_policy else f"epsilon={config.number('epsilon')}",
        on_policy=batch.on_policy,
        generation=f"vLLM, {facts.vllm_mode}" if facts.use_vllm else "model.generate",
        reference="a second model" if facts.beta and not facts.peft else "none",
        batch=batch.plan(),
        logged=[],
    )
