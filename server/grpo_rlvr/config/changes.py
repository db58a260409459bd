"""Defaults that change between two TRL versions for the options a config leaves unset."""

from collections.abc import Collection
from typing import Any

from grpo_rlvr.config.lifetimes import default_of, other_name
from grpo_rlvr.config.tables import Table
from grpo_rlvr.models.check import ChangedDefault

# What a changed default does to a run that leaves the option unset; options that are not here change no result.
NOTES = {
    "temperature": "Rollouts are sampled at another temperature.",
    "top_k": "Up to 0.17 the 50 likeliest tokens were sampled from (before 0.16 not with vLLM); since then all are "
        "(None and 0 mean the same).",
    "beta": "The KL term, and with it the reference model, is on by default only up to 0.18.",
    "loss_type": "The loss is normalised differently: grpo per sequence (before 0.17), bnpo per local batch, dapo "
        "per global batch.",
    "vllm_gpu_memory_utilization": "vLLM reserves another share of the GPU.",
    "gradient_checkpointing": "Activations are recomputed: less memory, about 20 % slower, the same result.",
    "bf16": "Forward passes run under bfloat16 autocast when fp16 is off.",
    "vllm_mode": "use_vllm=True alone means a server up to 0.29 and the training GPUs themselves since 1.0.",
    "max_completion_length": "Completions are cut at another length.",
    "use_bias_correction_kl": "The gradient of the KL term is corrected for off-policy samples.",
    "vllm_importance_sampling_cap": "Upper bound of the ratio between trainer and vLLM log-probs.",
    "vllm_importance_sampling_clip_max": "Upper bound of the ratio between trainer and vLLM log-probs; called "
        "vllm_importance_sampling_cap before 1.6.",
    "vllm_importance_sampling_mode": "How the ratio between trainer and vLLM log-probs is bounded.",
    "vllm_importance_sampling_correction": "The mismatch of trainer and vLLM log-probs is corrected since 0.23.",
    "router_aux_loss_coef": "MoE models: the load-balancing loss takes the model's own coefficient since 1.14.",
    "scale_rewards": "Spelled true up to 0.21 and 'group' since: the same scaling by the group's standard deviation.",
    "max_prompt_length": "Prompts were cut to 512 tokens on the left up to 0.25; nothing cuts them since.",
    "steps_per_generation": "Since 0.18 one rollout feeds gradient_accumulation_steps micro-steps unless this is set.",
    "per_device_train_batch_size": "Another batch; up to 0.14 it counts prompts, later completions.",
    "gradient_accumulation_steps": "Another batch.",
    "learning_rate": "Another learning rate.",
    "pad_to_multiple_of": "Padding only; the same result.",
    "optim": "The fused kernel of the same AdamW, since transformers 4.54 and with torch 2.8 or later.",
    "report_to": "Unset meant every tracker that is installed up to transformers 4.57, and means none since 5.0.",
    "weight_decay": "Another weight decay.",
    "max_grad_norm": "Gradients are clipped at another norm.",
    "lr_scheduler_type": "Another learning-rate schedule.",
    "num_train_epochs": "Another number of passes over the dataset.",
    "ref_model_mixup_alpha": "The synchronised reference model keeps another share of itself.",
    "ref_model_sync_steps": "The reference model is synchronised at other intervals.",
    "adam_epsilon": "Another epsilon of Adam.",
}  # fmt: skip
SAME_RESULT = {
    "gradient_checkpointing", "optim", "pad_to_multiple_of", "report_to", "scale_rewards",
    "vllm_gpu_memory_utilization",
}  # fmt: skip


def changed_defaults(
    stated: Collection[str], old: Table, new: Table, *, uses_vllm: bool = True, syncs_reference: bool = True
) -> list[ChangedDefault]:
    """Return every default that differs between two releases and that the config leaves unset.

    Fields that only one of the two has are listed when leaving them unset changes what is computed, those of vLLM only
    where it generates, those of a synchronised reference model only where there is one.
    """
    idle = (*(() if uses_vllm else ("vllm_",)), *(() if syncs_reference else ("ref_model_",)))
    changes = []
    for name in sorted({*old.fields, *new.fields} - {*stated}):
        if name.startswith(idle) or other_name(name, new) is not None:
            continue
        one, other = _before(name, old, uses_vllm=uses_vllm), new.default(name)
        in_both = name in old and name in new
        # A field that appears or leaves matters only when its default is an active choice.
        if one == other or not (in_both or name in NOTES) or _housekeeping_of_nothing(name, one, other):
            continue
        changes.append(
            ChangedDefault(
                field=name,
                before=one,
                after=other,
                existed_before=name in old,
                exists_after=name in new,
                changes_training=name in NOTES and name not in SAME_RESULT and not _same_meaning(name, one, other),
                note=NOTES.get(name, "A default of the trainer's housekeeping; what is trained stays the same."),
            )
        )
    return sorted(changes, key=lambda change: (not change.changes_training, change.field))


def _before(name: str, old: Table, *, uses_vllm: bool) -> Any:
    if name == "top_k" and name not in old and not uses_vllm:
        return 50  # GenerationConfig's own default; vLLM's is all tokens
    return default_of(name, old)


def _housekeeping_of_nothing(name: str, one: Any, other: Any) -> bool:
    # An empty dict that became null, or a switch that became its word for off.
    return name not in NOTES and (not one or one == "no") and (not other or other == "no")


def _same_meaning(name: str, one: Any, other: Any) -> bool:
    return name == "top_k" and not one and not other
