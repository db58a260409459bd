"""Training an adapter: gradients that do not reach it, and parts of it that do not move."""

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView, as_mapping

_OLD = {"model": {"peft": True}, "versions": {"trl": "0.15.2"}}
_QUANTIZED = {"peft": True, "quantized": "4bit"}


@rule(
    "reentrant-checkpointing-over-frozen-base",
    severity="error",
    trl="<0.16",
    what="An adapter with reentrant gradient checkpointing, in a release that does not switch input gradients on.",
    why="The embeddings are frozen, so no input of a checkpointed block requires a gradient, and the backward pass "
    "raises RuntimeError (element 0 of tensors does not require grad). transformers checkpoints reentrantly unless "
    "told otherwise.",
    bad=Example({"gradient_checkpointing": True}, _OLD),
    good=Example({"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}}, _OLD),
    sources=("huggingface/trl#2671", "huggingface/trl#3089", "trl wheels 0.15 and 0.16"),
    fix_safety="Checkpointing recomputes the same values; only how differs.",
)
def reentrant_checkpointing_over_frozen_base(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.peft or not config.flag("gradient_checkpointing") or facts.unsloth:
        return PASS
    if facts.instance is not None:
        return not_applicable("a model made in the script may have its input gradients on already")
    kwargs = as_mapping(config.effective("gradient_checkpointing_kwargs"))
    if kwargs.get("use_reentrant") is False:
        return PASS
    return fail(
        "gradient_checkpointing_kwargs",
        "gradient_checkpointing",
        "gradient_checkpointing_kwargs.use_reentrant",
        "model.peft",
        "peft_config",
        value=kwargs.get("use_reentrant"),
        message=f"TRL {facts.versions.trl} with an adapter fails at the first backward pass under reentrant "
        "checkpointing. Set gradient_checkpointing_kwargs={'use_reentrant': False}, or use trl>=0.16.",
        set={"gradient_checkpointing_kwargs": {**kwargs, "use_reentrant": False}},
        safe=True,
    )


@rule(
    "quantized-adapter-frozen-again",
    severity="error",
    trl=">=0.22,<0.23.1",
    what="A PeftModel on a quantized base, in a release that prepares it for k-bit training once more.",
    why="That freezes every parameter, the adapter's too: RuntimeError at the first backward pass, or a run that "
    "trains nothing.",
    bad=Example({}, {"model": {**_QUANTIZED, "instance": "PeftModel"}, "versions": {"trl": "0.22.2"}}),
    good=Example({}, {"model": _QUANTIZED, "peft_config": {"r": 16}, "versions": {"trl": "0.22.2"}}),
    sources=("huggingface/trl#3926", "huggingface/trl#4081", "trl wheels 0.21 to 0.23.1"),
)
def quantized_adapter_frozen_again(facts: Facts) -> Outcome:
    instance = facts.instance or ""
    carries = "peft" in instance.lower() or bool(instance and facts.adapter)
    if facts.quantized not in ("4bit", "8bit") or not carries or facts.peft_config or facts.unsloth:
        return PASS
    # A 4-bit base that is sharded already is left alone.
    if facts.quantized == "4bit" and (facts.zero_stage == 3 or facts.fsdp_version is not None):
        return PASS
    return fail(
        "model.instance",
        "model.quantized",
        "model.peft",
        "versions.trl",
        value=instance,
        message=f"TRL {facts.versions.trl} freezes the adapter of a PeftModel on a {facts.quantized} base. Pass the "
        "base model and a peft_config, or use trl>=0.23.1.",
    )


@rule(
    "dora-magnitude-frozen",
    severity="warning",
    trl=">=0.26,<1.15",
    what="DoRA on a quantized base in a release that casts the whole adapter to bfloat16.",
    why="The updates of DoRA's magnitude vector are smaller than bfloat16 resolves, so it keeps its first values: "
    "plain LoRA is trained at the cost of DoRA.",
    bad=Example({}, {"model": _QUANTIZED, "peft_config": {"use_dora": True}, "versions": {"trl": "1.14.2"}}),
    good=Example({}, {"model": _QUANTIZED, "peft_config": {"use_dora": False}, "versions": {"trl": "1.14.2"}}),
    sources=("huggingface/trl#7268", "huggingface/trl#7273"),
)
def dora_magnitude_frozen(facts: Facts) -> Outcome:
    holder = next((h for h in (facts.peft_config, facts.adapter) if h.get("use_dora")), None)
    if holder is None or facts.quantized not in ("4bit", "8bit"):
        return PASS
    name = "peft_config" if holder is facts.peft_config else "model.adapter"
    return fail(
        f"{name}.use_dora",
        name,
        "model.quantized",
        value=True,
        message=f"TRL {facts.versions.trl} casts DoRA's magnitude vector to bfloat16, where it does not move. Use "
        "trl>=1.15, or LoRA without use_dora.",
    )


@rule(
    "lora-zero3-mixed-dtypes",
    severity="error",
    trl="<1.7",
    what="LoRA on a bfloat16 base under ZeRO-3 with DeepSpeed 0.19.2.",
    why="That release gathers float32 adapter weights and bfloat16 base weights into one buffer: TypeError at the "
    "first optimizer step. TRL keeps the adapter in the base's dtype since 1.7.",
    bad=Example(
        {"model_init_kwargs": {"dtype": "bfloat16"}},
        {
            "model": {"peft": True},
            "hardware": {"deepspeed_stage": 3},
            "versions": {"trl": "1.6.0", "deepspeed": "0.19.2"},
        },
    ),
    good=Example(
        {"model_init_kwargs": {"dtype": "bfloat16"}},
        {
            "model": {"peft": True},
            "hardware": {"deepspeed_stage": 3},
            "versions": {"trl": "1.6.0", "deepspeed": "0.19.1"},
        },
    ),
    sources=("deepspeedai/DeepSpeed#8072", "huggingface/trl#6091"),
)
def lora_zero3_mixed_dtypes(facts: Facts) -> Outcome:
    if not facts.peft or facts.zero_stage != 3 or facts.quantized or facts.weights_dtype in ("float32", "float16"):
        return PASS
    if facts.versions.within("deepspeed", "==0.19.2") is None:
        return not_applicable("versions.deepspeed is not stated")
    if not facts.versions.within("deepspeed", "==0.19.2"):
        return PASS
    return fail(
        "versions.deepspeed",
        "hardware.deepspeed_stage",
        "model.peft",
        "versions.trl",
        value=facts.versions.get("deepspeed"),
        message="DeepSpeed 0.19.2 cannot gather a float32 adapter beside a bfloat16 base. Install another DeepSpeed, "
        "or trl>=1.7.",
    )


RULES = (
    reentrant_checkpointing_over_frozen_base,
    quantized_adapter_frozen_again,
    dora_magnitude_frozen,
    lora_zero3_mixed_dtypes,
)
