"""The ratio between the trainer's and vLLM's log-probs: when it is biased, explodes, or is refused."""

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, rule
from grpo_rlvr.config.rules.generation import narrowed
from grpo_rlvr.config.view import ConfigView

COLOCATE = {"use_vllm": True, "vllm_mode": "colocate"}
_SERVER = {"use_vllm": True, "vllm_mode": "server"}
# exp() of a sum over more small differences than this leaves the clip range for most sequences. Up to it the default
# mode is what TRL's maintainers recommend (trl#5814); the collapse was measured at 8k to 10k tokens (NeMo-RL#2269).
LONG_COMPLETION = 4096
TOKEN_MODES = ("token_truncate", "token_mask")


def corrects(config: ConfigView, facts: Facts) -> bool:
    """Return whether the mismatch between trainer and vLLM is corrected by an importance ratio."""
    name = "vllm_importance_sampling_correction"
    return facts.use_vllm and config.exists(name) and config.flag(name)


@rule(
    "vllm-ratio-ignores-temperature",
    severity="error",
    trl=">=0.23,<0.24",
    what="vLLM with a temperature other than 1 in TRL 0.23.",
    why="vLLM returns raw log-probs there and the trainer scales by temperature: the importance ratio is wrong "
    "everywhere.",
    bad=Example({**COLOCATE, "temperature": 0.7}, {"versions": {"trl": "0.23.1"}}),
    good=Example({**COLOCATE, "temperature": 1.0}, {"versions": {"trl": "0.23.1"}}),
    sources=("huggingface/trl#4159",),
)
def vllm_ratio_ignores_temperature(config: ConfigView, facts: Facts) -> Outcome:
    temperature = config.number("temperature")
    if not corrects(config, facts) or temperature is None or temperature == 1:
        return PASS
    return fail(
        "temperature",
        "vllm_importance_sampling_correction",
        "use_vllm",
        "versions.trl",
        value=temperature,
        message=f"temperature={temperature:g} with vLLM in TRL {facts.versions.trl}: set temperature=1.0 or "
        "vllm_importance_sampling_correction=False, or upgrade to 0.24 (with a vLLM server to 0.27.1).",
        set={"temperature": 1.0},
    )


@rule(
    "vllm-server-ratio-ignores-temperature",
    severity="warning",
    trl=">=0.24,<0.27.1",
    what="A temperature other than 1 with a vLLM server, in a release whose server returns raw log-probs.",
    why="0.24 scales the log-probs of colocated vLLM alone; `trl vllm-serve` does so from 0.27.1 on. Until then the "
    "trainer scales its own by the temperature, so every importance ratio is biased.",
    bad=Example({**_SERVER, "temperature": 0.7}, {"versions": {"trl": "0.26.2"}}),
    good=Example({**_SERVER, "temperature": 0.7}, {"versions": {"trl": "0.27.2"}}),
    sources=("huggingface/trl#4159", "trl wheels 0.24 to 0.27.1 (trl/scripts/vllm_serve.py)"),
)
def vllm_server_ratio_ignores_temperature(config: ConfigView, facts: Facts) -> Outcome:
    temperature = config.number("temperature")
    if not facts.server or not corrects(config, facts) or temperature is None or temperature == 1:
        return PASS
    return fail(
        "temperature",
        "vllm_importance_sampling_correction",
        "vllm_mode",
        "versions.trl",
        value=temperature,
        message=f"temperature={temperature:g} with the vLLM server of TRL {facts.versions.trl}: set temperature=1.0 or "
        "vllm_importance_sampling_correction=False, or upgrade to 0.27.1.",
        set={"temperature": 1.0},
    )


@rule(
    "vllm-ratio-of-narrowed-sampling",
    severity="warning",
    trl=">=0.24",
    what="vLLM samples from a part of the distribution and the ratio is corrected against all of it.",
    why="Processed log-probs are renormalised over the kept tokens, the trainer's are not: every ratio is biased.",
    bad=Example({**COLOCATE, "top_p": 0.95, "top_k": 20}),
    good=Example({**COLOCATE, "top_p": 1.0}),
    sources=("modelscope/ms-swift#8442", "huggingface/trl#6945"),
    fix_safety="Changes the sampled distribution.",
)
def vllm_ratio_of_narrowed_sampling(config: ConfigView, facts: Facts) -> Outcome:
    cut = narrowed(config)
    if not corrects(config, facts) or not cut:
        return PASS
    said = ", ".join(f"{name}={config.effective(name)!r}" for name in cut)
    off = {"top_k": 0 if facts.trl_is(">=0.27") else None, "top_p": 1.0, "min_p": None, "repetition_penalty": 1.0}
    return fail(
        *cut,
        "vllm_importance_sampling_correction",
        value=config.effective(cut[0]),
        message=f"{said} with vLLM: sample from the full distribution (top_k=0, top_p=1.0), or set "
        "vllm_importance_sampling_correction=False.",
        set={name: off[name] for name in cut},
    )


@rule(
    "sequence-ratio-on-long-completions",
    severity="warning",
    trl=">=0.26",
    requires=("vespo-without-token-ratio",),
    what="A sequence-level importance ratio (the default mode) with long completions.",
    why="It exponentiates a sum over all tokens: tiny mismatches add up, and whole sequences are masked or capped.",
    bad=Example({**COLOCATE, "max_completion_length": 16384}),
    good=Example({**COLOCATE, "max_completion_length": 16384, "vllm_importance_sampling_mode": "token_truncate"}),
    sources=("huggingface/trl#4772", "huggingface/trl#5814", "NVIDIA-NeMo/RL#2269"),
    fix_safety="Changes how sequences are weighted.",
)
def sequence_ratio_on_long_completions(config: ConfigView, facts: Facts) -> Outcome:
    mode, cap = config.text("vllm_importance_sampling_mode"), config.integer("max_completion_length")
    if not corrects(config, facts) or mode in TOKEN_MODES or cap is None or cap <= LONG_COMPLETION:
        return PASS
    return fail(
        "vllm_importance_sampling_mode",
        "max_completion_length",
        "vllm_importance_sampling_correction",
        value=mode,
        message=f"vllm_importance_sampling_mode={mode} with max_completion_length={cap}: set token_truncate and watch "
        "sampling/importance_sampling_ratio/mean.",
        set={"vllm_importance_sampling_mode": "token_truncate"},
    )


@rule(
    "vespo-without-token-ratio",
    severity="error",
    trl=">=1.0",
    what="The vespo loss with vLLM and a sequence-level ratio (the default mode).",
    why="The trainer raises ValueError: vespo computes sequence weights itself.",
    bad=Example({**COLOCATE, "loss_type": "vespo"}),
    good=Example({**COLOCATE, "loss_type": "vespo", "vllm_importance_sampling_mode": "token_truncate"}),
    sources=("trl/trainer/grpo_trainer.py",),
    fix_safety="Safe: with another mode the run cannot start.",
)
def vespo_without_token_ratio(config: ConfigView, facts: Facts) -> Outcome:
    mode = config.text("vllm_importance_sampling_mode")
    if facts.loss_type != "vespo" or not corrects(config, facts) or mode in TOKEN_MODES:
        return PASS
    return fail(
        "vllm_importance_sampling_mode",
        "loss_type",
        value=mode,
        message=f"loss_type=vespo with vllm_importance_sampling_mode={mode}: allowed are token_truncate and "
        "token_mask.",
        set={"vllm_importance_sampling_mode": "token_truncate"},
        safe=True,
    )


def _bounds(config: ConfigView) -> tuple[float | None, float | None]:
    cap = config.number("vllm_importance_sampling_cap")
    high = cap if cap is not None else config.number("vllm_importance_sampling_clip_max")
    return config.number("vllm_importance_sampling_clip_min"), high


@rule(
    "ratio-bounds-crossed",
    severity="error",
    trl=">=1.6",
    what="The lower bound of the importance ratio is not below the upper one.",
    why="GRPOConfig raises ValueError.",
    bad=Example({"use_vllm": True, "vllm_importance_sampling_clip_min": 3.5}),
    good=Example({"use_vllm": True, "vllm_importance_sampling_clip_min": 0.5}),
    sources=("trl/trainer/grpo_config.py",),
)
def ratio_bounds_crossed(config: ConfigView) -> Outcome:
    low, high = _bounds(config)
    if low is None or high is None or low < high:
        return PASS
    return fail(
        "vllm_importance_sampling_clip_min",
        "vllm_importance_sampling_clip_max",
        "vllm_importance_sampling_cap",
        value=low,
        message=f"vllm_importance_sampling_clip_min={low:g} is not below the upper bound of {high:g} (default 3.0); "
        "around 1 is "
        "what is meant, e.g. 0.5 and 3.0.",
    )


@rule(
    "truncation-without-bound",
    severity="error",
    trl=">=1.6",
    what="A truncate mode with neither bound.",
    why="GRPOConfig raises ValueError: nothing would be truncated.",
    bad=Example({"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": None}),
    good=Example({"vllm_importance_sampling_mode": "token_truncate", "vllm_importance_sampling_clip_max": 2.0}),
    sources=("trl/trainer/grpo_config.py",),
)
def truncation_without_bound(config: ConfigView) -> Outcome:
    mode = config.text("vllm_importance_sampling_mode") or ""
    if (
        not config.flag("vllm_importance_sampling_correction")
        or not mode.endswith("_truncate")
        or _bounds(config) != (None, None)
    ):
        return PASS
    return fail(
        "vllm_importance_sampling_clip_max",
        "vllm_importance_sampling_clip_min",
        "vllm_importance_sampling_mode",
        value=None,
        message=f"vllm_importance_sampling_mode={mode} needs a bound: set vllm_importance_sampling_clip_max=2.0.",
        set={"vllm_importance_sampling_clip_max": 2.0},
    )


@rule(
    "vllm-mismatch-uncorrected",
    severity="info",
    trl=">=0.23",
    what="vllm_importance_sampling_correction is switched off.",
    why="vLLM's and the trainer's log-probs differ a little; uncorrected, the run is slightly off-policy.",
    bad=Example({**COLOCATE, "vllm_importance_sampling_correction": False}),
    good=Example(COLOCATE),
    sources=("huggingface/trl#4159",),
)
def vllm_mismatch_uncorrected(config: ConfigView, facts: Facts) -> Outcome:
    name = "vllm_importance_sampling_correction"
    if not facts.use_vllm or not config.has(name) or config.flag(name):
        return PASS
    return fail(name, value=False, message=f"{name}=False: watch sampling/sampling_logp_difference/mean in the log.")


RULES = (
    vllm_ratio_ignores_temperature,
    vllm_server_ratio_ignores_temperature,
    vllm_ratio_of_narrowed_sampling,
    vespo_without_token_ratio,
    sequence_ratio_on_long_completions,
    ratio_bounds_crossed,
    truncation_without_bound,
    vllm_mismatch_uncorrected,
)
