"""KL and reference: which model the penalty is measured against, and whether it is there at all."""

import re

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, rule
from grpo_rlvr.config.view import ConfigView, as_mapping

# How people say that the object in memory is no longer what the folder or hub name holds.
_CHANGED = re.compile(
    r"merge|unload|resiz|modif|patch|not saved|in memory|in-memory|unsaved|added tokens|pruned|surgery|edited",
    re.IGNORECASE,
)
_SAVED = re.compile(r"saved to|and saved|reloaded from|from_pretrained\([^)]*\)\s*$", re.IGNORECASE)
_OFFLOADED = {
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    "optimizer": {"type": "AdamW"},
}
SFT = {"model": {"peft": True, "instance": "PeftModel", "adapter": {"is_trainable": True, "from_sft": True}}}


@rule(
    "negative-kl-coefficient",
    severity="error",
    what="beta is negative.",
    why="The policy is paid for moving away from the reference; GRPOConfig accepts it.",
    bad=Example({"beta": -0.01}),
    good=Example({"beta": 0.01}),
    sources=("trl/trainer/grpo_trainer.py",),
)
def negative_kl_coefficient(config: ConfigView, facts: Facts) -> Outcome:
    if facts.beta >= 0:
        return PASS
    return fail(
        "beta", value=facts.beta, message=f"beta={facts.beta:g} rewards divergence: it must be 0 (no KL) or above."
    )


@rule(
    "reference-reloaded-without-changes",
    severity="error",
    requires=("negative-kl-coefficient",),
    what="A model that was changed in memory, with a KL term and no adapter.",
    why="The reference is loaded again from the name in the model's config: KL is measured against the unchanged "
    "model.",
    bad=Example({"beta": 0.04}, {"model": {"peft": False, "instance": "merge_and_unload() of an SFT adapter"}}),
    good=Example({"beta": 0.0}, {"model": {"peft": False, "instance": "merge_and_unload() of an SFT adapter"}}),
    sources=("trl/trainer/grpo_trainer.py",),
)
def reference_reloaded_without_changes(facts: Facts) -> Outcome:
    instance = facts.instance or ""
    if not facts.beta or facts.peft or not _CHANGED.search(instance):
        return PASS
    if _SAVED.search(instance) and "not saved" not in instance.lower():
        return PASS
    return fail(
        "beta",
        "model.instance",
        value=facts.beta,
        message=f"beta={facts.beta:g} with a model changed in memory ({instance[:80]}): save it to a folder and pass "
        "that path, or "
        "set beta=0.0.",
    )


@rule(
    "reference-with-optimizer-block",
    severity="error",
    trl="<1.9.1",
    what="A KL term without an adapter, and a DeepSpeed config with an optimizer block of its own that is offloaded.",
    why="The reference is set up with the same config and no optimizer: below ZeRO-3 DeepSpeed builds the offloaded "
    "one on a model that stays on the GPU and fails (CPUAdam param is on cuda:0 and must be 'cpu').",
    bad=Example({"beta": 0.04, "deepspeed": _OFFLOADED}, {"model": {"peft": False}, "versions": {"trl": "1.8.0"}}),
    good=Example({"beta": 0.0, "deepspeed": _OFFLOADED}, {"model": {"peft": False}, "versions": {"trl": "1.8.0"}}),
    sources=("huggingface/trl#5916", "trl wheels 1.9.0 and 1.9.1"),
)
def reference_with_optimizer_block(config: ConfigView, facts: Facts) -> Outcome:
    given = config.mapping("deepspeed")
    zero = as_mapping(given.get("zero_optimization"))
    device = as_mapping(zero.get("offload_optimizer")).get("device")
    if not facts.beta or facts.peft or zero.get("stage") == 3 or "optimizer" not in given or device != "cpu":
        return PASS
    return fail(
        "deepspeed",
        "deepspeed.optimizer",
        "beta",
        "versions.trl",
        value="optimizer",
        message=f"beta={facts.beta:g} needs a reference model, and TRL {facts.versions.trl} fails to set it up with "
        "the optimizer block of this DeepSpeed config. Take the block out (the trainer has its own optimizer), or use "
        "trl>=1.9.1.",
    )


@rule(
    "reference-is-bare-base-model",
    severity="error",
    trl="<0.27",
    what="An SFT adapter as the policy, with a KL term, in a TRL whose reference is the base model without it.",
    why="The reference is taken by disabling the adapter: KL pulls the policy back to before SFT.",
    bad=Example({"beta": 0.04}, {**SFT, "versions": {"trl": "0.25.1"}}),
    good=Example({"beta": 0.04}, {**SFT, "versions": {"trl": "0.27.2"}}),
    sources=("huggingface/trl#3194",),
)
def reference_is_bare_base_model(facts: Facts) -> Outcome:
    loaded = "peft" in (facts.instance or "").lower() or bool(facts.adapter)
    fresh = facts.adapter.get("from_sft") is False
    if not facts.beta or not loaded or fresh or facts.peft is False or facts.adapter.get("is_trainable") is False:
        return PASS
    return fail(
        "beta",
        "model.adapter",
        "model.adapter.from_sft",
        "model.instance",
        "model.peft",
        "versions.trl",
        value=facts.beta,
        message=f"beta={facts.beta:g}: TRL {facts.versions.trl} measures KL against the base model without your "
        "adapter. Merge and "
        "save the adapter and train a new one, upgrade to trl>=0.27, or set beta=0.0.",
    )


def _syncs(config: ConfigView) -> bool:
    return config.exists("sync_ref_model") and config.flag("sync_ref_model")


@rule(
    "reference-sync-without-reference",
    severity="error",
    trl=">=0.28",
    what="sync_ref_model without a reference model of its own (beta=0, or an adapter).",
    why="The trainer raises at init: there is nothing to synchronise.",
    bad=Example({"sync_ref_model": True}),
    good=Example({"sync_ref_model": True, "beta": 0.01}, {"model": {"peft": False}}),
    sources=("trl/trainer/grpo_trainer.py",),
    fix_safety="Safe: with the option the run cannot start.",
)
def reference_sync_without_reference(config: ConfigView, facts: Facts) -> Outcome:
    if not _syncs(config) or (facts.beta and not facts.peft):
        return PASS
    reason = (
        "beta=0 loads no reference model" if not facts.beta else "with an adapter there is no separate reference model"
    )
    return fail(
        "sync_ref_model",
        "beta" if not facts.beta else "model.peft",
        *(("peft_config", "beta") if facts.beta else ()),
        value=True,
        message=f"sync_ref_model=True, but {reason}: set sync_ref_model=False"
        + (", or a beta above 0." if not facts.beta else ", or train all weights."),
        set={"sync_ref_model": False},
        safe=True,
    )


@rule(
    "reference-sync-ignored",
    severity="warning",
    trl=">=0.15,<0.28",
    what="sync_ref_model without a reference model of its own (beta=0, or an adapter).",
    why="Nothing is synchronised and nothing says so (or the callback fails): the reference stays what it was.",
    bad=Example({"sync_ref_model": True, "beta": 0.0}, {"versions": {"trl": "0.25.1"}}),
    good=Example({"sync_ref_model": True, "beta": 0.01}, {"versions": {"trl": "0.25.1"}, "model": {"peft": False}}),
    sources=("trl/trainer/grpo_trainer.py",),
    fix_safety="Safe: the option has no effect.",
)
def reference_sync_ignored(config: ConfigView, facts: Facts) -> Outcome:
    if not _syncs(config) or (facts.beta and not facts.peft):
        return PASS
    return fail(
        "sync_ref_model",
        "beta",
        "model.peft",
        value=True,
        message="sync_ref_model=True has no reference model to follow: set it to False.",
        set={"sync_ref_model": False},
        safe=True,
    )


@rule(
    "reference-options-unused",
    severity="info",
    what="Options of the KL term or of the reference while there is none.",
    why="They change nothing.",
    bad=Example({"use_bias_correction_kl": True}),
    good=Example({"use_bias_correction_kl": True, "beta": 0.01}),
    sources=("trl/trainer/grpo_config.py",),
    fix_safety="Safe: nothing reads them.",
)
def reference_options_unused(config: ConfigView, facts: Facts) -> Outcome:
    idle = []
    if not facts.beta and config.has("use_bias_correction_kl") and config.exists("use_bias_correction_kl"):
        idle.append("use_bias_correction_kl")
    if not _syncs(config):
        idle += [n for n in ("ref_model_mixup_alpha", "ref_model_sync_steps") if config.has(n) and config.exists(n)]
    if not idle:
        return PASS
    return fail(
        *idle,
        "beta",
        "sync_ref_model",
        value=config.effective(idle[0]),
        message=f"{', '.join(idle)} do nothing: beta={facts.beta:g}, sync_ref_model={_syncs(config)}.",
        unset=idle,
        safe=True,
    )


@rule(
    "reference-loaded-by-default",
    severity="info",
    trl="<0.19",
    what="beta is left to its default, which is 0.04 up to TRL 0.18.",
    why="A second full copy of the model is loaded as reference (none with an adapter), and KL is part of the loss.",
    bad=Example({}, {"versions": {"trl": "0.17.0"}}),
    good=Example({"beta": 0.0}, {"versions": {"trl": "0.17.0"}}),
    sources=("huggingface/trl#2806",),
    fix_safety="States the default.",
)
def reference_loaded_by_default(config: ConfigView, facts: Facts) -> Outcome:
    if config.has("beta") or not facts.beta:
        return PASS
    return fail(
        "beta",
        value=facts.beta,
        message=f"beta defaults to {facts.beta:g} in TRL {facts.versions.trl}: set beta=0.0 if KL is not wanted.",
    )


RULES = (
    negative_kl_coefficient,
    reference_reloaded_without_changes,
    reference_with_optimizer_block,
    reference_is_bare_base_model,
    reference_sync_without_reference,
    reference_sync_ignored,
    reference_options_unused,
    reference_loaded_by_default,
)
