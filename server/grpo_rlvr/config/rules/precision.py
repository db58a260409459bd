"""Precision and optimizer: what the weights are loaded as, what the hardware can do, steps too small or too large."""

import re
from typing import Any

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.versions import Versions
from grpo_rlvr.config.view import ConfigView

# Bytes a parameter in float32: weights and gradients of a full fine-tune, and the weights of a frozen base alone.
TRAINED_BYTES, FROZEN_BYTES = 8, 4
# Bytes a parameter that the optimizer keeps on the GPU: two float32 moments unless its name says otherwise.
MOMENT_BYTES = 8
SMALLER_MOMENTS = (("paged", 0), ("8bit", 2), ("bnb", 2), ("adafactor", 0), ("sgd", 0), ("lion", 4), ("rmsprop", 4))
# Below this a bfloat16 weight seldom moves by an AdamW step: in 100 steps 15 % of them move at 1e-5, 2 % at 1e-6.
BF16_STEP = 1e-5
FULL_RATE_LIMIT = 1e-5
# Measured: 0.135 B trains well at 3e-5 and 0.0006 B at 3e-4, all weights; the reports of failure are of 1.5 B and up.
SMALL_MODEL_B = 0.3
ANY_RATE_LIMIT = 1e-3
_PRE_AMPERE = re.compile(
    r"\b(T4|V100|P100|P40|P4|K80|M60|GTX|TITAN|(RTX )?20[678]0|Quadro RTX|RTX [568]000(?! ?ada))\b", re.I
)
_BNB_OPTIMIZERS = re.compile(r"8bit|bnb|^paged_|^ademamix_8|^rmsprop_bnb", re.I)
_NOT_INSTALLED = ("none", "no", "false", "missing", "absent", "not installed")
_DENSE = {"class": "dense", "params_b": 7}
_GPU = {"num_processes": 1, "device": "cuda", "gpus": 1, "gpu_mem_gb": 80}


def loads_float32(facts: Facts) -> bool:
    """Return whether the model is loaded in float32, asked for or because nothing else is said.

    Up to 0.25 from_pretrained's own default decides (float32 before transformers 5), 0.26 takes the checkpoint's dtype,
    and since 0.27 TRL asks for float32 itself.
    """
    if facts.instance or facts.quantized:
        return False
    if facts.weights_dtype is not None:
        return facts.weights_dtype in ("float32", "fp32", "float")
    if facts.setup.get("model.dtype"):
        return str(facts.setup.get("model.dtype")).removeprefix("torch.") in ("float32", "fp32")
    if facts.trl_is(">=0.27"):
        return True
    if facts.trl_is(">=0.26"):
        return False
    return facts.versions.within("transformers", "<5") is not False


def _with_dtype(config: ConfigView, dtype: str) -> dict[str, Any]:
    given = {name: value for name, value in config.mapping("model_init_kwargs").items() if name != "torch_dtype"}
    return {"model_init_kwargs": {**given, "dtype": dtype}}


@rule(
    "fp16-and-bf16",
    severity="error",
    what="Both half precisions are switched on.",
    why="transformers raises ValueError when the config is built.",
    bad=Example({"fp16": True, "bf16": True}),
    good=Example({"bf16": True}),
    sources=("huggingface/transformers:src/transformers/training_args.py",),
    fix_safety="Which of the two is kept changes the numerics.",
)
def fp16_and_bf16(config: ConfigView) -> Outcome:
    if not (config.effective("fp16") is True and config.effective("bf16") is True):
        return PASS
    return fail(
        "fp16",
        "bf16",
        value=True,
        message="fp16 and bf16 are both True; at most one may be. Keep bf16 on GPUs that have it.",
        set={"fp16": False},
    )


@rule(
    "full-eval-fp16-and-bf16",
    severity="error",
    what="Both half precisions are switched on for evaluation.",
    why="transformers raises ValueError when the config is built.",
    bad=Example({"fp16_full_eval": True, "bf16_full_eval": True}),
    good=Example({"bf16_full_eval": True}),
    sources=("huggingface/transformers:src/transformers/training_args.py",),
    fix_safety="Evaluation only.",
)
def full_eval_fp16_and_bf16(config: ConfigView) -> Outcome:
    if not (config.effective("fp16_full_eval") is True and config.effective("bf16_full_eval") is True):
        return PASS
    return fail(
        "fp16_full_eval",
        "bf16_full_eval",
        value=True,
        message="fp16_full_eval and bf16_full_eval are both True; at most one may be.",
        set={"fp16_full_eval": False},
    )


@rule(
    "float32-weights-do-not-fit",
    severity="error",
    what="The model is loaded in float32, and that alone exceeds the GPU.",
    why="bf16=True sets the autocast only; a model given by name is loaded in float32, so weights, gradients and "
    "AdamW states of a full fine-tune take 16 bytes a parameter, a frozen base 4.",
    bad=Example({"bf16": True}, {"model": {**_DENSE, "peft": False}, "hardware": _GPU}),
    good=Example({"bf16": True}, {"model": {**_DENSE, "params_b": 1.5, "peft": False}, "hardware": _GPU}),
    sources=("huggingface/trl#6684", "huggingface/trl:trl/trainer/utils.py"),
    fix_safety="bfloat16 weights of a frozen base change the rollouts slightly; a trained model should keep float32.",
)
def float32_weights_do_not_fit(config: ConfigView, facts: Facts) -> Outcome:
    need = _float32_need(config, facts)
    if need is None:
        return not_applicable("model.params_b, hardware.gpu_mem_gb or model.peft is not stated")
    gigabytes, memory = need
    if gigabytes <= memory:
        return PASS
    advice = (
        "Set model_init_kwargs={'dtype': 'bfloat16'} for the frozen base"
        if facts.peft
        else "Use PEFT with model_init_kwargs={'dtype': 'bfloat16'}, or ZeRO-3, which shards float32 masters; "
        "bfloat16 weights alone would lose most updates"
    )
    return fail(
        "model_init_kwargs.dtype",
        "model_init_kwargs",
        "model.params_b",
        "hardware.gpu_mem_gb",
        message=f"Loaded in float32, {facts.params_b:g}B parameters need about {gigabytes:.0f} GB a GPU, which has "
        f"{memory:g}. {advice}.",
        set=_with_dtype(config, "bfloat16") if facts.peft else None,
    )


def _float32_need(config: ConfigView, facts: Facts) -> tuple[float, float] | None:
    """Return GB needed a GPU and GB there are; None when it cannot be told, 0 needed when float32 is not the reason."""
    params, memory = facts.params_b, facts.gpu_mem_gb
    if params is None or memory is None or facts.peft is None or facts.setup.get("launch.offload"):
        return None
    if not loads_float32(facts):
        return 0.0, memory
    if facts.sharded:
        shards = facts.processes if facts.zero_stage == 3 or facts.fsdp_version is not None else 1
        return params * FROZEN_BYTES / shards, memory
    if facts.peft:
        return params * FROZEN_BYTES, memory
    name = str(config.effective("optim") or "")
    moments = next((size for part, size in SMALLER_MOMENTS if part in name), MOMENT_BYTES)
    return params * (TRAINED_BYTES + moments), memory


@rule(
    "weights-loaded-in-float32",
    severity="info",
    what="dtype is left open, so a model given by name is loaded in float32.",
    why="That is right for a full fine-tune (bf16 autocast over float32 weights) and twice the memory that a frozen "
    "LoRA base needs.",
    bad=Example({}, {"model": {**_DENSE, "peft": True}, "hardware": _GPU}),
    good=Example({"model_init_kwargs": {"dtype": "bfloat16"}}, {"model": {**_DENSE, "peft": True}, "hardware": _GPU}),
    sources=("huggingface/trl#6684",),
    requires=("float32-weights-do-not-fit",),
    fix_safety="bfloat16 weights of a frozen base change the rollouts slightly.",
)
def weights_loaded_in_float32(config: ConfigView, facts: Facts) -> Outcome:
    if facts.peft is not True or facts.weights_dtype is not None or not loads_float32(facts):
        return PASS
    if config.mapping("model_init_kwargs").get("torch_dtype") is not None:
        return PASS  # of which torch-dtype-not-read speaks
    return fail(
        "model_init_kwargs.dtype",
        "model_init_kwargs",
        message="dtype is not set, so the frozen base is loaded in float32, twice the memory of bfloat16. Set "
        "model_init_kwargs={'dtype': 'bfloat16'} for LoRA.",
        set=_with_dtype(config, "bfloat16"),
    )


@rule(
    "bfloat16-weights-lose-updates",
    severity="warning",
    what="A full fine-tune of bfloat16 weights at a rate too small for them.",
    why="A bfloat16 weight cannot take an AdamW step far below its own spacing. Measured over 100 steps without a "
    "float32 master copy: at 5e-7 1 % of the weights move at all, at 1e-6 2 %, at 1e-5 15 %; in float32 all do.",
    bad=Example(
        {"learning_rate": 5e-7, "model_init_kwargs": {"dtype": "bfloat16"}},
        {"model": {**_DENSE, "params_b": 1.5, "peft": False}, "hardware": _GPU},
    ),
    good=Example(
        {"learning_rate": 5e-7, "model_init_kwargs": {"dtype": "float32"}},
        {"model": {**_DENSE, "params_b": 1.5, "peft": False}, "hardware": _GPU},
    ),
    sources=("measured: 200,000 weights of std 0.02, AdamW, 100 steps",),
    fix_safety="Doubles the memory of the weights, and lets them move.",
)
def bfloat16_weights_lose_updates(config: ConfigView, facts: Facts) -> Outcome:
    if facts.peft is not False or facts.sharded:
        return PASS if facts.peft is not None else not_applicable("model.peft is not stated")
    dtype = str(facts.setup.get("model.dtype") or "").removeprefix("torch.") if facts.instance else facts.weights_dtype
    rate = config.number("learning_rate")
    if dtype not in ("bfloat16", "bf16") or rate is None or rate > BF16_STEP or rate <= 0:
        return PASS
    if not facts.setup.section("hardware") and facts.text("launch.command") is None:
        return not_applicable("whether ZeRO or FSDP keeps float32 masters is not stated (hardware, launch.command)")
    return fail(
        "model_init_kwargs.dtype",
        "learning_rate",
        "model_init_kwargs",
        value=dtype,
        message=f"Weights in bfloat16 trained in full at learning_rate={rate:g} hardly move. Set "
        "model_init_kwargs={'dtype': 'float32'} with bf16=True (autocast), use ZeRO-3 with its float32 masters, or "
        "train an adapter.",
        set=None if facts.instance else _with_dtype(config, "float32"),
    )


@rule(
    "float16-weights-under-fp16",
    severity="error",
    what="A full fine-tune of float16 weights with fp16 autocast.",
    why="The gradient scaler refuses float16 gradients and raises ValueError at the first update.",
    bad=Example({"fp16": True, "bf16": False, "model_init_kwargs": {"dtype": "float16"}}, {"model": {"peft": False}}),
    good=Example({"fp16": True, "bf16": False, "model_init_kwargs": {"dtype": "float32"}}, {"model": {"peft": False}}),
    sources=("pytorch/pytorch:torch/amp/grad_scaler.py",),
    fix_safety="Doubles the memory of the weights.",
)
def float16_weights_under_fp16(config: ConfigView, facts: Facts) -> Outcome:
    if facts.peft is not False or facts.sharded or config.effective("fp16") is not True:
        return PASS
    if facts.instance or facts.weights_dtype not in ("float16", "fp16", "half"):
        return PASS
    return fail(
        "model_init_kwargs.dtype",
        "fp16",
        "model_init_kwargs",
        value=facts.weights_dtype,
        message="float16 weights cannot be trained in full under fp16=True. Load them as float32.",
        set=_with_dtype(config, "float32"),
    )


@rule(
    "bf16-without-native-support",
    severity="warning",
    what="bf16 on a GPU that has no native bfloat16.",
    why="Before Ampere bfloat16 is emulated, several times slower, and vLLM falls back to float16 there, so rollouts "
    "and training use different numerics. bf16 is on by default since TRL 0.19.",
    bad=Example({}, {"hardware": {"device": "cuda", "gpu": "T4", "native_bf16": False}}),
    good=Example({"bf16": False, "fp16": True}, {"hardware": {"device": "cuda", "gpu": "T4", "native_bf16": False}}),
    sources=("huggingface/trl#2698",),
    fix_safety="Changes the numerics of training.",
)
def bf16_without_native_support(config: ConfigView, facts: Facts) -> Outcome:
    native, gpu = facts.setup.get("hardware.native_bf16"), facts.text("hardware.gpu") or ""
    lacks = native is False or (native is None and bool(_PRE_AMPERE.search(gpu)))
    stated = config.effective("bf16")
    # unsloth takes the precision of its model where none is stated, which is float16 on such a card.
    by_default = facts.trl_is(">=0.19") and config.effective("fp16") is not True and not facts.unsloth
    if not lacks or not (stated is True or (stated is None and by_default)):
        return PASS
    return fail(
        "bf16",
        "hardware.gpu",
        "hardware.native_bf16",
        value=True,
        message=f"bf16 is on{'' if config.has('bf16') else ' by default'} and {gpu or 'this GPU'} has no native "
        "bfloat16. Set bf16=False and fp16=True.",
        set={"bf16": False, "fp16": True},
    )


@rule(
    "tf32-without-ampere",
    severity="error",
    what="tf32=True on hardware that does not have it.",
    why="GRPOConfig raises ValueError before Ampere and without a GPU.",
    bad=Example({"tf32": True}, {"hardware": {"device": "cuda", "gpu": "T4"}}),
    good=Example({"tf32": True}, {"hardware": {"device": "cuda", "gpu": "A100"}}),
    sources=("transformers/training_args.py",),
    fix_safety="Safe: with it the config cannot be built.",
)
def tf32_without_ampere(config: ConfigView, facts: Facts) -> Outcome:
    gpu, device = facts.text("hardware.gpu") or "", facts.text("hardware.device")
    if not config.flag("tf32") or not (device in ("cpu", "mps") or _PRE_AMPERE.search(gpu)):
        return PASS
    return fail(
        "tf32",
        "hardware.gpu",
        "hardware.device",
        value=True,
        message=f"tf32=True needs an Ampere GPU or newer, and this is {gpu or device}. Set tf32=False.",
        set={"tf32": False},
        safe=True,
    )


@rule(
    "full-tuning-rate-high",
    severity="warning",
    what="A full fine-tune at a learning rate of supervised training.",
    why="GRPO's default for full fine-tuning is 1e-6; at ten times that rewards were reported not to rise and "
    "benchmark scores to fall within 150 steps.",
    bad=Example({"learning_rate": 2e-5}, {"model": {"peft": False}}),
    good=Example({"learning_rate": 1e-6}, {"model": {"peft": False}}),
    sources=("huggingface/open-r1#436", "huggingface/open-r1#358"),
    fix_safety="Changes the training.",
)
def full_tuning_rate_high(config: ConfigView, facts: Facts) -> Outcome:
    rate = config.number("learning_rate")
    if rate is None or rate < FULL_RATE_LIMIT or rate >= ANY_RATE_LIMIT:
        return PASS
    if facts.peft is not False:
        return PASS if facts.peft else not_applicable("model.peft is not stated")
    if facts.params_b is not None and facts.params_b < SMALL_MODEL_B:
        return not_applicable("the reports behind it are of larger models; small ones learn at higher rates")
    return fail(
        "learning_rate",
        value=rate,
        message=f"learning_rate={rate:g} for a full fine-tune is {rate / 1e-6:.0f} times TRL's 1e-6. Set 1e-6 (5e-7 "
        "to 2e-6).",
        set={"learning_rate": 1e-6},
    )


@rule(
    "learning-rate-extreme",
    severity="warning",
    what="A learning rate that no policy survives.",
    why="At 1e-3 and more one AdamW step moves every weight by a good part of its size; the policy collapses in a "
    "few steps, with adapters too.",
    bad=Example({"learning_rate": 0.01}),
    good=Example({"learning_rate": 1e-5}),
    sources=("huggingface/trl:docs/source/lora_without_regret.md",),
    fix_safety="Changes the training.",
)
def learning_rate_extreme(config: ConfigView, facts: Facts) -> Outcome:
    rate = config.number("learning_rate")
    if rate is None or rate < ANY_RATE_LIMIT:
        return PASS
    return fail(
        "learning_rate",
        value=rate,
        message=f"learning_rate={rate:g} is far above anything used for GRPO: 1e-6 for full fine-tuning, 1e-5 for "
        "LoRA.",
        set={"learning_rate": 1e-5 if facts.peft else 1e-6},
    )


@rule(
    "optimizer-needs-bitsandbytes",
    severity="error",
    what="An 8-bit or paged optimizer without bitsandbytes.",
    why="It fails only when train() builds the optimizer, after model, vLLM and dataset have been loaded.",
    bad=Example({"optim": "adamw_8bit"}, {"versions": {"bitsandbytes": None}}),
    good=Example({"optim": "adamw_8bit"}, {"versions": {"bitsandbytes": "0.48.0"}}),
    sources=("huggingface/transformers:src/transformers/trainer.py",),
    fix_safety="Optimizer states take four times the memory.",
)
def optimizer_needs_bitsandbytes(config: ConfigView, versions: Versions) -> Outcome:
    name = config.text("optim")
    if name is None or not _BNB_OPTIMIZERS.search(name):
        return PASS
    if "bitsandbytes" not in versions.stated:
        return not_applicable("versions.bitsandbytes is not stated")
    stated = versions.stated["bitsandbytes"]
    if stated and str(stated).lower() not in _NOT_INSTALLED:
        return PASS
    return fail(
        "optim",
        "versions.bitsandbytes",
        value=name,
        message=f"optim={name!r} needs bitsandbytes, which is not installed. Install it, or set "
        "optim='adamw_torch_fused'.",
        set={"optim": "adamw_torch_fused"},
    )


RULES = (
    fp16_and_bf16,
    full_eval_fp16_and_bf16,
    float32_weights_do_not_fit,
    weights_loaded_in_float32,
    bfloat16_weights_lose_updates,
    float16_weights_under_fp16,
    bf16_without_native_support,
    tf32_without_ampere,
    full_tuning_rate_high,
    learning_rate_extreme,
    optimizer_needs_bitsandbytes,
)
