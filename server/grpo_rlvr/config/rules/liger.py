"""The fused loss of the Liger kernels (0.17 to 1.13): what it refuses and what it leaves out silently."""

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.rules.importance_sampling import corrects
from grpo_rlvr.config.view import ConfigView

OLD = {"versions": {"trl": "0.29.1"}}
PROMPT_LEARNING = ("PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "PREFIX_TUNING", "P_TUNING", "CPT")


def fused_by(config: ConfigView, facts: Facts) -> str | None:
    """Return the kwarg that switches the fused loss on, None when it is off or does not exist in this TRL."""
    if not facts.trl_is(">=0.17,<1.14"):
        return None
    if config.exists("use_liger_loss") and config.flag("use_liger_loss"):
        return "use_liger_loss"
    # Up to 0.24 use_liger_kernel patches the model's layers only; from 0.25 on it brings the fused loss as well.
    return "use_liger_kernel" if facts.trl_is(">=0.25") and config.flag("use_liger_kernel") else None


def _refused(config: ConfigView, facts: Facts) -> list[str]:
    """Return the options in force that the fused loss of this TRL refuses."""
    quantile, delta = config.number("top_entropy_quantile"), config.number("delta")
    bonus = config.exists("entropy_coef") and (config.number("entropy_coef") or config.flag("use_adaptive_entropy"))
    found = {
        "importance_sampling_level": facts.trl_is(">=0.20,<1.0") and facts.sequence_level,
        "top_entropy_quantile": quantile is not None and quantile < 1,
        "delta": facts.trl_is(">=0.18,<1.4") and delta is not None,
        "off_policy_mask_threshold": config.number("off_policy_mask_threshold") is not None,
        "entropy_coef": bool(bonus),
    }
    return [name for name, refused in found.items() if refused]


@rule(
    "liger-loss-refuses-option",
    severity="error",
    trl=">=0.17,<1.14",
    what="An option that the fused Liger loss of this TRL does not support.",
    why="The trainer (or GRPOConfig, for delta) raises: sequence level up to 0.29, delta up to 1.3, entropy filters "
    "up to 1.13.",
    bad=Example({"use_liger_kernel": True, "importance_sampling_level": "sequence", "loss_type": "grpo"}, OLD),
    good=Example({"use_liger_kernel": False, "importance_sampling_level": "sequence", "loss_type": "grpo"}, OLD),
    sources=("huggingface/trl#5190", "trl/trainer/grpo_trainer.py"),
    fix_safety="Safe: the fused loss computes the same as the plain one, with less memory.",
)
def liger_loss_refuses_option(config: ConfigView, facts: Facts) -> Outcome:
    switch = fused_by(config, facts)
    refused = _refused(config, facts) if switch else []
    if switch is None or not refused:
        return PASS
    return fail(
        switch,
        *refused,
        value=True,
        message=f"{switch}=True does not support {', '.join(refused)} in TRL {facts.versions.trl}: set {switch}=False.",
        set={switch: False},
        safe=True,
    )


@rule(
    "liger-loss-skips-vllm-ratio",
    severity="error",
    trl=">=0.23,<0.29",
    what="The fused Liger loss with vLLM's importance-sampling correction.",
    why="The fused loss never reads the ratio, so the mismatch goes uncorrected: grad_norm is inflated about a "
    "hundredfold.",
    bad=Example({"use_liger_kernel": True, "use_vllm": True, "vllm_mode": "colocate"}, {"versions": {"trl": "0.27.2"}}),
    good=Example({"use_liger_kernel": True, "use_vllm": True, "vllm_mode": "colocate"}, OLD),
    sources=("linkedin/Liger-Kernel#1082",),
    fix_safety="Safe: the plain loss computes what was asked for, with more memory.",
)
def liger_loss_skips_vllm_ratio(config: ConfigView, facts: Facts) -> Outcome:
    switch = fused_by(config, facts)
    if switch is None or not corrects(config, facts):
        return PASS
    return fail(
        switch,
        "use_vllm",
        "vllm_importance_sampling_correction",
        value=True,
        message=f"{switch}=True ignores vllm_importance_sampling_correction in TRL {facts.versions.trl}: set "
        f"{switch}=False.",
        set={switch: False},
        safe=True,
    )


@rule(
    "liger-loss-of-other-type",
    severity="error",
    trl=">=0.22,<1.14",
    what="The fused Liger loss with a loss_type that it does not compute.",
    why="Depending on the Liger release it raises, or computes another loss than the one that is named.",
    bad=Example({"use_liger_kernel": True, "loss_type": "sapo"}, OLD),
    good=Example({"use_liger_kernel": True, "loss_type": "dapo"}, OLD),
    sources=("linkedin/Liger-Kernel#1057", "huggingface/trl#4172", "liger-kernel wheels 0.6.2 to 0.6.4"),
    fix_safety="Safe: the plain loss computes what was asked for, with more memory.",
)
def liger_loss_of_other_type(config: ConfigView, facts: Facts) -> Outcome:
    switch = fused_by(config, facts)
    # dapo, TRL's default since 0.22, came to Liger in 0.6.4.
    early = facts.loss_type == "dapo" and facts.versions.within("liger_kernel", "<0.6.4")
    if switch is None or (facts.loss_type not in ("cispo", "sapo", "vespo", "luspo") and not early):
        return PASS
    return fail(
        switch,
        "loss_type",
        "versions.liger_kernel",
        value=facts.loss_type,
        message=f"{switch}=True does not compute loss_type={facts.loss_type}: set {switch}=False"
        + (", or install liger-kernel>=0.6.4." if early else "."),
        set={switch: False},
        safe=True,
    )


@rule(
    "liger-not-installed",
    severity="error",
    what="A Liger option without the liger-kernel package.",
    why="The trainer raises ImportError.",
    bad=Example({"use_liger_kernel": True}, {"versions": {"liger_kernel": None}}),
    good=Example({"use_liger_kernel": True}, {"versions": {"liger_kernel": "0.6.4"}}),
    sources=("trl/trainer/grpo_trainer.py",),
)
def liger_not_installed(config: ConfigView, facts: Facts) -> Outcome:
    stated = facts.setup.section("versions")
    switch = fused_by(config, facts) or ("use_liger_kernel" if config.flag("use_liger_kernel") else None)
    if switch is None:
        return PASS
    if "liger_kernel" not in stated:
        return not_applicable("versions.liger_kernel is not stated")
    if stated["liger_kernel"] not in (None, False, ""):
        return PASS
    return fail(
        switch, "versions.liger_kernel", value=True, message=f"{switch}=True: pip install liger-kernel, or drop it."
    )


@rule(
    "liger-loss-of-first-release",
    severity="error",
    trl=">=0.17,<0.18",
    what="The first Liger loss, with PEFT or with another loss_type than bnpo.",
    why="The trainer of 0.17 raises TypeError for a PEFT model, and ValueError for another loss_type.",
    bad=Example({"use_liger_loss": True}, {"model": {"peft": True}, "versions": {"trl": "0.17.0"}}),
    good=Example({"use_liger_loss": True}, {"model": {"peft": False}, "versions": {"trl": "0.17.0"}}),
    sources=("trl wheel 0.17",),
    requires=("liger-loss-refuses-option",),
    fix_safety="Safe: the fused loss computes the same as the plain one, with less memory.",
)
def liger_loss_of_first_release(config: ConfigView, facts: Facts) -> Outcome:
    switch = fused_by(config, facts)
    other = facts.loss_type != "bnpo"
    if switch is None or not (facts.peft or other):
        return PASS
    return fail(
        switch,
        *(("loss_type",) if other else ("model.peft", "peft_config")),
        value=facts.loss_type if other else True,
        message=f"{switch}=True supports {'loss_type=bnpo alone' if other else 'no PEFT model'} in TRL "
        f"{facts.versions.trl}: set {switch}=False.",
        set={switch: False},
        safe=True,
    )


@rule(
    "liger-loss-with-prompt-learning",
    severity="error",
    trl=">=0.17,<1.15",
    what="The fused Liger loss with an adapter of virtual tokens.",
    why="The fused loss calls the backbone directly, which never prepends the virtual tokens: the loss is that of "
    "another sequence, silently before 1.7, with a ValueError from 1.7 on.",
    bad=Example({"use_liger_kernel": True}, {"peft_config": {"peft_type": "PROMPT_TUNING"}, **OLD}),
    good=Example({"use_liger_kernel": True}, {"peft_config": {"peft_type": "LORA", "r": 8}, **OLD}),
    sources=("trl/trainer/grpo_trainer.py",),
    requires=("liger-loss-of-first-release",),
    fix_safety="Safe: the plain loss computes what was asked for, with more memory.",
)
def liger_loss_with_prompt_learning(config: ConfigView, facts: Facts) -> Outcome:
    switch = fused_by(config, facts)
    if facts.trl_is(">=1.14") and config.flag("use_liger_kernel"):
        switch = "use_liger_kernel"
    kind = str(facts.peft_config.get("peft_type") or facts.adapter.get("peft_type")).rpartition(".")[2].upper()
    if switch is None or kind not in PROMPT_LEARNING:
        return PASS
    return fail(
        switch,
        "peft_config.peft_type",
        "peft_config",
        value=kind,
        message=f"{switch}=True passes by the virtual tokens of {kind}: set {switch}=False, or use LoRA.",
        set={switch: False},
        safe=True,
    )


@rule(
    "liger-head-over-fused-head",
    severity="error",
    trl=">=1.15",
    what="Liger's own fused output layer, where TRL has one built in.",
    why="Both replace the model's forward; the trainer raises ValueError.",
    bad=Example({"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": True}}),
    good=Example({"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": False}}),
    sources=("trl/trainer/grpo_trainer.py",),
    fix_safety="Safe: with it the run cannot start.",
)
def liger_head_over_fused_head(config: ConfigView) -> Outcome:
    kernels = config.mapping("liger_kernel_config")
    if not config.flag("use_liger_kernel") or not kernels.get("fused_linear_cross_entropy"):
        return PASS
    return fail(
        "liger_kernel_config.fused_linear_cross_entropy",
        "liger_kernel_config",
        value=True,
        message="liger_kernel_config: fused_linear_cross_entropy=True is refused since TRL 1.15. Set it to False.",
        set={"liger_kernel_config": {**kernels, "fused_linear_cross_entropy": False}},
        safe=True,
    )


RULES = (
    liger_loss_refuses_option,
    liger_loss_skips_vllm_ratio,
    liger_loss_of_other_type,
    liger_not_installed,
    liger_loss_of_first_release,
    liger_loss_with_prompt_learning,
    liger_head_over_fused_head,
)
