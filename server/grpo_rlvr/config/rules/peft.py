"""PEFT and quantization: which weights are trained, which are merged, what the reference is taken from."""

from typing import Any

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView, judge_each

# Names of output layers in the architectures that TRL trains.
OUTPUT_LAYERS = ("lm_head", "embed_out", "output_layer")
_ADAPTER = {"peft": True, "instance": "PeftModel"}
_FROZEN = {**_ADAPTER, "adapter": {"is_trainable": False}}
_TRAINABLE = {**_ADAPTER, "adapter": {"is_trainable": True}}
_EXPERTS = {**_ADAPTER, "adapter": {"is_trainable": True, "target_parameters": ["experts.up"]}}


@rule(
    "adapter-frozen-with-kl",
    severity="error",
    trl=">=0.27",
    what="A PeftModel loaded for inference, with a KL term.",
    why="The reference adapter copied from it carries the gradients' graph, so the run goes on with a healthy loss "
    "and grad_norm while the optimizer holds no parameter: the saved adapter is the one that was loaded.",
    bad=Example({"beta": 0.04}, {"model": _FROZEN}),
    good=Example({"beta": 0.04}, {"model": _TRAINABLE}),
    sources=("huggingface/trl#6700",),
)
def adapter_frozen_with_kl(config: ConfigView, facts: Facts) -> Outcome:
    if facts.adapter.get("is_trainable") is not False or not facts.beta:
        return PASS
    return fail(
        "model.adapter.is_trainable",
        "model.adapter",
        "beta",
        value=False,
        message=f"The adapter was loaded with is_trainable=False; with beta={facts.beta:g} nothing fails and nothing "
        "is trained. Load it with PeftModel.from_pretrained(..., is_trainable=True).",
    )


@rule(
    "adapter-frozen",
    severity="error",
    what="A PeftModel loaded for inference.",
    why="No parameter requires a gradient: the first backward pass raises RuntimeError after a full rollout, or, with "
    "gradient checkpointing on, the run goes through and trains nothing.",
    bad=Example({"beta": 0.0}, {"model": _FROZEN}),
    good=Example({"beta": 0.0}, {"model": _TRAINABLE}),
    sources=("huggingface/trl#3031",),
    requires=("adapter-frozen-with-kl",),
)
def adapter_frozen(facts: Facts) -> Outcome:
    if facts.adapter.get("is_trainable") is not False:
        return PASS
    return fail(
        "model.adapter.is_trainable",
        "model.adapter",
        value=False,
        message="The adapter was loaded with is_trainable=False, so there is nothing to train. Load it with "
        "PeftModel.from_pretrained(..., is_trainable=True).",
    )


@rule(
    "adapter-given-twice",
    severity="error",
    what="A PeftModel together with a peft_config.",
    why="TRL refuses it since 0.27; before, the first adapter was merged or stacked without a word.",
    bad=Example({}, {"model": _TRAINABLE, "peft_config": {"r": 8}}),
    good=Example({}, {"model": {"peft": True}, "peft_config": {"r": 8}}),
    sources=("huggingface/trl#4723",),
)
def adapter_given_twice(facts: Facts) -> Outcome:
    carries = "PeftModel" in (facts.instance or "") or (facts.instance and facts.adapter)
    if not carries or not facts.peft_config:
        return PASS
    return fail(
        "peft_config",
        "model.instance",
        value="PeftModel and peft_config",
        message="The model is a PeftModel already and a peft_config is given too. Drop peft_config to train on with "
        "its adapter, or merge the adapter, save the model, and pass that path.",
    )


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(item) for item in value] if isinstance(value, list | tuple) else []


def _targets(facts: Facts) -> list[str]:
    stated = [facts.setup.get("model.lora_targets")]
    for holder in (facts.peft_config, facts.adapter):
        stated += [holder.get("target_modules"), holder.get("target_parameters")]
    return [text for value in stated for text in _texts(value)]


def _output_layer(facts: Facts) -> str | None:
    return next((name for target in _targets(facts) for name in OUTPUT_LAYERS if name in target), None)


@rule(
    "adapter-on-output-layer",
    severity="error",
    trl=">=1.15",
    what="A LoRA adapter on the output layer.",
    why="Log-probabilities are computed from lm_head.weight directly, so the adapter there would never be trained; "
    "TRL raises ValueError when the trainer is built.",
    bad=Example({}, {"model": {"peft": True}, "peft_config": {"target_modules": ["q_proj", "lm_head"]}}),
    good=Example({}, {"model": {"peft": True}, "peft_config": {"target_modules": ["q_proj", "v_proj"]}}),
    sources=("huggingface/trl#4612",),
)
def adapter_on_output_layer(facts: Facts) -> Outcome:
    layer = _output_layer(facts)
    if layer is None:
        return PASS
    return fail(
        "peft_config.target_modules",
        "peft_config",
        value=layer,
        message=f"target_modules holds {layer}, which TRL refuses since 1.15. Remove it.",
    )


@rule(
    "adapter-on-output-layer-with-liger",
    severity="error",
    trl="<1.15",
    what="A LoRA adapter on the output layer with Liger's fused loss.",
    why="The fused loss reads lm_head.weight directly, so the adapter there gets no gradient: silently before 1.7, "
    "with a ValueError from 1.7 on.",
    bad=Example(
        {"use_liger_kernel": True}, {"peft_config": {"target_modules": ["lm_head"]}, "versions": {"trl": "1.3.0"}}
    ),
    good=Example(
        {"use_liger_kernel": False}, {"peft_config": {"target_modules": ["lm_head"]}, "versions": {"trl": "1.3.0"}}
    ),
    sources=("huggingface/trl#4612",),
    fix_safety="The plain loss computes the same with more memory, and trains the adapter.",
)
def adapter_on_output_layer_with_liger(config: ConfigView, facts: Facts) -> Outcome:
    switches = ("use_liger_kernel", "use_liger_loss")
    used = judge_each(switches, lambda name: name if config.exists(name) and config.flag(name) else None)
    layer = _output_layer(facts)
    if not used or layer is None:
        return PASS
    return fail(
        "peft_config.target_modules",
        "peft_config",
        *used,
        value=layer,
        message=f"target_modules holds {layer} and {used[0]} reads its base weight directly, so the adapter there is "
        f"not trained. Remove it, or set {used[0]}=False.",
        set={used[0]: False},
    )


@rule(
    "head-cast-over-adapter",
    severity="error",
    trl=">=1.9,<1.15",
    what="cast_lm_head_to_fp32 with a LoRA adapter on the output layer.",
    why="The cast replaces the layer's forward, which would pass by the adapter; the trainer raises ValueError.",
    bad=Example(
        {"cast_lm_head_to_fp32": True}, {"peft_config": {"target_modules": ["lm_head"]}, "versions": {"trl": "1.10.0"}}
    ),
    good=Example(
        {"cast_lm_head_to_fp32": True}, {"peft_config": {"target_modules": ["q_proj"]}, "versions": {"trl": "1.10.0"}}
    ),
    sources=("trl wheels 1.8 and 1.9",),
)
def head_cast_over_adapter(config: ConfigView, facts: Facts) -> Outcome:
    layer = _output_layer(facts)
    if layer is None or not config.flag("cast_lm_head_to_fp32"):
        return PASS
    return fail(
        "cast_lm_head_to_fp32",
        "peft_config.target_modules",
        "peft_config",
        value=True,
        message=f"cast_lm_head_to_fp32=True is refused with an adapter on {layer}: take {layer} out of target_modules, "
        "or set it to False.",
    )


@rule(
    "reference-without-parameter-adapter",
    severity="warning",
    trl=">=0.27",
    what="KL for an adapter on target_parameters with a PEFT that holds only one such adapter.",
    why="Before PEFT 0.20 no reference copy can be added, so KL is taken against the base model instead of your "
    "adapter.",
    bad=Example({"beta": 0.04}, {"model": _EXPERTS, "versions": {"peft": "0.19.1"}}),
    good=Example({"beta": 0.04}, {"model": _EXPERTS, "versions": {"peft": "0.20.0"}}),
    sources=("huggingface/trl#6621",),
)
def reference_without_parameter_adapter(facts: Facts) -> Outcome:
    if not facts.beta or not facts.adapter.get("target_parameters"):
        return PASS
    old = facts.versions.within("peft", "<0.20")
    if old is None:
        return not_applicable("versions.peft is not stated")
    if not old:
        return PASS
    return fail(
        "versions.peft",
        "beta",
        "model.adapter.target_parameters",
        value=facts.versions.get("peft"),
        message=f"PEFT {facts.versions.get('peft')} cannot copy an adapter on target_parameters, so KL is measured "
        "against the base model. Use peft>=0.20, or set beta=0.0.",
    )


@rule(
    "lora-weights-stale-in-vllm",
    severity="error",
    trl="<0.16",
    what="LoRA with vLLM in a version that sends the wrong weights.",
    why="vLLM gets the weights without the merged adapter (up to 0.15.0), so rollouts come from the base model for "
    "the whole run.",
    bad=Example({"use_vllm": True}, {"model": {"peft": True}, "versions": {"trl": "0.15.0"}}),
    good=Example({"use_vllm": True}, {"model": {"peft": False}, "versions": {"trl": "0.15.0"}}),
    sources=("huggingface/trl#2856",),
)
def lora_weights_stale_in_vllm(facts: Facts) -> Outcome:
    if not facts.use_vllm or facts.unsloth or not facts.peft or not facts.trl_is("<=0.15.0"):
        return PASS
    return fail(
        "use_vllm",
        "model.peft",
        "peft_config",
        "versions.trl",
        value=True,
        message=f"TRL {facts.versions.trl} sends vLLM stale weights when an adapter is trained. Use trl>=0.16, or set "
        "use_vllm=False.",
    )


@rule(
    "quantized-without-adapter",
    severity="error",
    what="Full fine-tuning of a quantized model.",
    why="Quantized weights cannot be trained; transformers raises ValueError when the trainer is built.",
    bad=Example({}, {"model": {"peft": False, "quantized": "4bit"}}),
    good=Example({}, {"model": {"peft": True, "quantized": "4bit"}}),
    sources=("huggingface/transformers:src/transformers/trainer.py",),
)
def quantized_without_adapter(facts: Facts) -> Outcome:
    if facts.quantized not in ("4bit", "8bit") or facts.peft is not False:
        return PASS
    return fail(
        "model.quantized",
        "model.peft",
        "quantization_config",
        value=facts.quantized,
        message=f"A {facts.quantized} model cannot be trained in full. Add a peft_config, or load it unquantized.",
    )


@rule(
    "four-bit-base-with-vllm",
    severity="error",
    trl="<0.28",
    what="LoRA on a 4-bit base with vLLM.",
    why="Merging into a 4-bit base gives weights whose shape the serving engine does not expect; the first sync "
    "fails an assertion.",
    bad=Example({"use_vllm": True}, {"model": {"peft": True, "quantized": "4bit"}, "versions": {"trl": "0.27.2"}}),
    good=Example({"use_vllm": False}, {"model": {"peft": True, "quantized": "4bit"}, "versions": {"trl": "0.27.2"}}),
    sources=("huggingface/trl#3654", "huggingface/trl#4973"),
    fix_safety="Rollouts come from generate(): the same policy, much slower.",
)
def four_bit_base_with_vllm(facts: Facts) -> Outcome:
    if facts.quantized != "4bit" or not facts.use_vllm or facts.peft is False:
        return PASS
    if facts.unsloth:
        return not_applicable("unsloth loads the adapter into its own vLLM engine")
    return fail(
        "model.quantized",
        "use_vllm",
        "quantization_config",
        value="4bit",
        message="A 4-bit base with an adapter cannot be synced to vLLM here. Set use_vllm=False with QLoRA, or train "
        "LoRA on the bfloat16 model.",
        set={"use_vllm": False},
    )


@rule(
    "four-bit-base-with-vllm-server",
    severity="warning",
    trl=">=0.28",
    what="LoRA on a 4-bit base with a vLLM server.",
    why="In colocate mode TRL asks vLLM for bitsandbytes itself; a server gets merged 4-bit weights, whose shapes it "
    "was reported not to accept.",
    bad=Example({"use_vllm": True, "vllm_mode": "server"}, {"model": {"peft": True, "quantized": "4bit"}}),
    good=Example({"use_vllm": True, "vllm_mode": "colocate"}, {"model": {"peft": True, "quantized": "4bit"}}),
    sources=("huggingface/trl#4973",),
    fix_safety="Rollouts come from generate(): the same policy, much slower.",
)
def four_bit_base_with_vllm_server(facts: Facts) -> Outcome:
    if facts.quantized != "4bit" or not facts.server or facts.peft is False:
        return PASS
    return fail(
        "model.quantized",
        "use_vllm",
        "vllm_mode",
        "quantization_config",
        value="4bit",
        message="A 4-bit base with an adapter is merged into shapes that a vLLM server may refuse. Try one step "
        "first, use colocate mode, or train LoRA on the bfloat16 model.",
    )


@rule(
    "eight-bit-base-with-vllm",
    severity="error",
    trl=">=0.26",
    what="An 8-bit base with colocated vLLM.",
    why="vLLM cannot quantize to 8 bits in flight; the trainer raises ValueError when it starts the engine.",
    bad=Example({"use_vllm": True, "vllm_mode": "colocate"}, {"model": {"peft": True, "quantized": "8bit"}}),
    good=Example({"use_vllm": False}, {"model": {"peft": True, "quantized": "8bit"}}),
    sources=("huggingface/trl:trl/generation/vllm_generation.py",),
    fix_safety="Rollouts come from generate(): the same policy, much slower.",
)
def eight_bit_base_with_vllm(facts: Facts) -> Outcome:
    if facts.quantized != "8bit" or not facts.use_vllm or facts.server:
        return PASS
    return fail(
        "model.quantized",
        "quantization_config",
        "use_vllm",
        value="8bit",
        message="An 8-bit base cannot be loaded into vLLM. Load it in 4 bits or bfloat16, or set use_vllm=False.",
        set={"use_vllm": False},
    )


RULES = (
    adapter_frozen_with_kl,
    adapter_frozen,
    adapter_given_twice,
    adapter_on_output_layer,
    adapter_on_output_layer_with_liger,
    head_cast_over_adapter,
    reference_without_parameter_adapter,
    lora_weights_stale_in_vllm,
    quantized_without_adapter,
    four_bit_base_with_vllm,
    four_bit_base_with_vllm_server,
    eight_bit_base_with_vllm,
)
