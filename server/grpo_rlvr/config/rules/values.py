"""Values: types, allowed words, ranges."""

from dataclasses import dataclass
from typing import Any

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Fail, Outcome, fail, rule
from grpo_rlvr.config.tables import Table
from grpo_rlvr.config.typecheck import as_typed, types_of, wrongly_typed
from grpo_rlvr.config.view import ConfigView, Unknown
from grpo_rlvr.errors import nearest

# Words that people write for what is a combination of options here: (field, value) -> (settings, what it is).
MEANT: dict[tuple[str, str], tuple[dict[str, Any], str]] = {
    ("loss_type", "gspo"): (
        {"importance_sampling_level": "sequence", "loss_type": "grpo", "epsilon": 3e-4, "epsilon_high": 4e-4},
        "GSPO is importance_sampling_level='sequence' with loss_type='grpo', epsilon=3e-4 and epsilon_high=4e-4",
    ),
    ("loss_type", "drgrpo"): ({"loss_type": "dr_grpo"}, "it is spelled dr_grpo"),
    ("loss_type", "dr-grpo"): ({"loss_type": "dr_grpo"}, "it is spelled dr_grpo"),
    ("loss_type", "gdpo"): (
        {"multi_objective_aggregation": "normalize_then_sum"},
        "GDPO is multi_objective_aggregation='normalize_then_sum'",
    ),
    ("scale_rewards", "gdpo"): (
        {"multi_objective_aggregation": "normalize_then_sum"},
        "GDPO is multi_objective_aggregation='normalize_then_sum', with scale_rewards left at its default",
    ),
    ("importance_sampling_level", "sequence_level"): ({"importance_sampling_level": "sequence"}, "it is spelled "
        "sequence"),
    ("importance_sampling_level", "token_level"): ({"importance_sampling_level": "token"}, "it is spelled token"),
    ("importance_sampling_level", "sequence_token"): (
        {"importance_sampling_level": "sequence"}, "that word belongs to trl.experimental.gspo_token"),
    ("importance_sampling_level", "seq"): ({"importance_sampling_level": "sequence"}, "it is spelled sequence"),
    ("vllm_mode", "colocated"): ({"vllm_mode": "colocate"}, "it is spelled colocate"),
    ("vllm_mode", "co-locate"): ({"vllm_mode": "colocate"}, "it is spelled colocate"),
    ("vllm_importance_sampling_mode", "truncate"): (
        {"vllm_importance_sampling_mode": "token_truncate"}, "say at which level: token_truncate or sequence_truncate"),
    ("vllm_importance_sampling_mode", "mask"): (
        {"vllm_importance_sampling_mode": "token_mask"}, "say at which level: token_mask or sequence_mask"),
}  # fmt: skip
# Spelled differently, but the same choice: applying it changes nothing that was meant.
SPELLING = {key for key, (_, note) in MEANT.items() if note.startswith("it is spelled")}


# Options whose words only their help names.
WORDS: dict[str, list[Any]] = {
    "ddp_backend": [
        "nccl",
        "gloo",
        "mpi",
        "ccl",
        "xccl",
        "hccl",
        "cncl",
        "mccl",
        "hpu",
        "neuron",
        "cpu:gloo,cuda:nccl",
        None,
    ],
    "cache_implementation": [
        "static",
        "dynamic",
        "quantized",
        "offloaded",
        "offloaded_static",
        "paged",
        "dynamic_full",
        "sliding_window",
        "hybrid",
        "hybrid_chunked",
        "offloaded_hybrid",
        "offloaded_hybrid_chunked",
        "mamba",
        None,
    ],
    "torch_compile_mode": ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", None],
}


@dataclass(frozen=True)
class Range:
    """Bounds of a number; an open bound is not allowed itself."""

    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False

    def holds(self, value: float) -> bool:
        """Return whether a value lies in the range; NaN never does."""
        above = self.low is None or (value > self.low if self.low_open else value >= self.low)
        below = self.high is None or (value < self.high if self.high_open else value <= self.high)
        return above and below and value == value

    def __str__(self) -> str:
        parts = []
        if self.low is not None:
            parts.append(f"{'above' if self.low_open else 'at least'} {self.low:g}")
        if self.high is not None:
            parts.append(f"{'below' if self.high_open else 'at most'} {self.high:g}")
        return " and ".join(parts)


COUNT, POSITIVE, NOT_NEGATIVE, SHARE = Range(1), Range(0, low_open=True), Range(0), Range(0, 1)
PORT = Range(1, 65535)
# Options with a rule of their own (temperature, beta, num_generations, the vLLM share) are not here.
RANGES: dict[str, Range] = {
    **dict.fromkeys(
        (
            "per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps",
            "steps_per_generation", "generation_batch_size", "num_iterations", "max_completion_length",
            "max_prompt_length", "vllm_tensor_parallel_size", "vllm_max_model_length", "vllm_max_model_len",
            "ref_model_sync_steps", "num_generations_eval", "torch_empty_cache_steps",
            "pad_to_multiple_of",
        ),
        COUNT,
    ),
    **dict.fromkeys(
        (
            "learning_rate", "repetition_penalty", "delta", "vllm_importance_sampling_cap",
            "vllm_importance_sampling_clip_max", "sapo_temperature_neg", "sapo_temperature_pos", "vllm_server_timeout",
            "num_train_epochs",
        ),
        POSITIVE,
    ),
    **dict.fromkeys(
        (
            "epsilon", "epsilon_high", "warmup_steps", "weight_decay", "adam_epsilon", "neftune_noise_alpha",
            "router_aux_loss_coef", "top_entropy_quantile", "vllm_importance_sampling_clip_min",
            "max_tool_calling_iterations",
            "dataloader_num_workers",
            "vespo_k_pos", "vespo_k_neg", "vespo_lambda_pos", "vespo_lambda_neg",
        ),
        NOT_NEGATIVE,
    ),
    **dict.fromkeys(("min_p", "top_p", "ref_model_mixup_alpha", "warmup_ratio"), SHARE),
    **dict.fromkeys(("adam_beta1", "adam_beta2"), Range(0, 1, high_open=True)),
    **dict.fromkeys(("vllm_server_port", "vllm_group_port"), PORT),
    "top_k": Range(-1),
    "max_steps": Range(-1),
    "seed": Range(0, 2**32 - 1),
}  # fmt: skip


@rule(
    "value-of-wrong-type",
    severity="error",
    what="A value has a type that the option cannot take.",
    why="GRPOConfig does not convert types: it fails at once, or later in the optimizer, the sampler or the data "
    "loader.",
    bad=Example({"learning_rate": "1e-6", "num_generations": 8.5}),
    good=Example({"learning_rate": 1e-6, "num_generations": 8}),
    sources=("trl/trainer/grpo_config.py", "transformers/training_args.py"),
    fix_safety="Safe when the text or number says the same value in the right type.",
)
def value_of_wrong_type(config: ConfigView, facts: Facts, table: Table) -> Outcome:
    found = []
    for name, wanted in wrongly_typed(config.given, table).items():
        value = config.given[name]
        if value is None and _may_be_unread(name, config, facts):
            continue
        kind = {"str": "text", "dict": "object", "NoneType": "null"}.get(type(value).__name__, type(value).__name__)
        converted = as_typed(value, types_of(table.fields[name]))
        if name == "scale_rewards" and isinstance(value, str):
            # Up to 0.21 the same choice was a switch; scaling by the batch did not exist.
            converted = {"group": True, "none": False}.get(value.lower(), converted)
        if value is False:
            # A bare `no` of a YAML file.
            converted = {"report_to": "none"}.get(name, "no" if "no" in table.fields[name].get("enum", ()) else None)
        if name == "warmup_steps" and isinstance(value, float) and _is_ratio(value, config):
            message = f"{name} takes {wanted} here, got {value:g}: a share of the steps is warmup_ratio={value:g}."
            found.append(
                fail(name, value=value, message=message, set={"warmup_ratio": value}, unset=(name,), safe=True)
            )
            continue
        bare = " (what YAML makes of an unquoted no)" if value is False and converted is not None else ""
        advice = f"{bare}. Write {converted!r}." if converted is not None else "."
        message = f"{name} takes {wanted}, got {kind} {_short(value)}{advice}"
        fixed = {name: converted} if converted is not None else {}
        found.append(fail(name, value=value, message=message, set=fixed, safe=bool(fixed)))
    return found or PASS


def _is_ratio(value: float, config: ConfigView) -> bool:
    return 0 < value < 1 and config.exists("warmup_ratio") and not config.has("warmup_ratio")


def _may_be_unread(name: str, config: ConfigView, facts: Facts) -> bool:
    # Where the switch beside it is unknown itself, nothing is said of this option; the other ones are judged.
    try:
        return _left_unread(name, config, facts)
    except Unknown:
        return True


def _left_unread(name: str, config: ConfigView, facts: Facts) -> bool:
    """Return whether nothing reads an option in this config, so that null in its place does no harm (measured)."""
    if name.startswith("vllm_") or name in ("top_p", "repetition_penalty"):
        # model.generate takes null for "off"; vLLM compares it with a number.
        return not facts.use_vllm
    if name.startswith("entropy_") and name != "entropy_coef":
        return not config.flag("use_adaptive_entropy")
    if name.startswith("ref_model_"):
        return not config.flag("sync_ref_model")
    if name == "per_device_eval_batch_size":
        return not facts.evaluates_at_all
    if name == "save_steps":
        return config.effective("save_strategy") in ("no", "epoch")
    loss = name.partition("_")[0]
    return loss in ("sapo", "vespo") and facts.loss_type != loss


@rule(
    "value-not-allowed",
    severity="error",
    what="An option with a fixed set of words has another one.",
    why="GRPOConfig accepts any text for TRL's own options; the trainer raises only after the first full rollout.",
    bad=Example({"loss_type": "gspo"}),
    good=Example({"loss_type": "grpo", "importance_sampling_level": "sequence"}),
    sources=("trl/trainer/grpo_trainer.py", "modelscope/ms-swift#8123", "transformers/trainer_utils.py"),
    fix_safety="Safe for another spelling of the same choice; a guess or a variant's recipe changes the run.",
)
def value_not_allowed(config: ConfigView, facts: Facts, table: Table) -> Outcome:
    found = []
    for name, value in config.given.items():
        allowed = table.fields.get(name, {}).get("enum") or (WORDS.get(name) if config.exists(name) else None)
        if allowed is None or name in config.broken or _among(value, allowed):
            continue
        if value == "sequence_token" and "gspo_token" in str(facts.setup.get("trainer")):
            continue  # the word of that experimental trainer
        found.append(_not_allowed(config, name, value, allowed))
    return found or PASS


def _not_allowed(config: ConfigView, name: str, value: Any, allowed: list[Any]) -> Fail:
    words = ", ".join(str(word) for word in allowed if word is not None)
    message = f"{name}={_short(value)} is none of: {words}"
    if value is False and "no" in allowed:
        return fail(name, value=value, message=f"{message}. Quote the word 'no'.", set={name: "no"}, safe=True)
    key = (name, str(value).lower())
    settings, note = MEANT.get(key, ({}, ""))
    if settings and all(config.exists(field) for field in settings):
        unset = () if name in settings else (name,)
        text = f"{message}; {note}."
        return fail(name, value=value, message=text, set=settings, unset=unset, safe=key in SPELLING)
    lowered = str(value).lower()
    if lowered in allowed:
        return fail(name, value=value, message=f"{message}; write '{lowered}'.", set={name: lowered}, safe=True)
    guess = nearest(str(value), [word for word in allowed if isinstance(word, str)])
    return fail(name, value=value, message=f"{message}{guess}" + ("" if guess else "."))


def _among(value: Any, allowed: list[Any]) -> bool:
    return any(type(value) is type(word) and value == word for word in allowed)


@rule(
    "value-out-of-range",
    severity="error",
    what="A number lies outside what the option can mean.",
    why="TRL checks almost no range: the run fails later, takes no step, or trains on something else.",
    bad=Example({"num_iterations": 0, "top_p": 1.5}),
    good=Example({"num_iterations": 1, "top_p": 1.0}),
    sources=("trl/trainer/grpo_config.py", "transformers/training_args.py"),
)
def value_out_of_range(config: ConfigView, facts: Facts) -> Outcome:
    found = []
    for name, value in config.given.items():
        bounds = RANGES.get(name)
        if bounds is None or name in config.broken or not config.exists(name):
            continue
        if _may_be_idle(name, config, facts):
            continue
        if isinstance(value, int | float) and not isinstance(value, bool) and not bounds.holds(value):
            message = f"{name}={value!r} is out of range: it must be {bounds}.{_special(name, value)}"
            found.append(fail(name, value=value, message=message))
    return found or PASS


def _may_be_idle(name: str, config: ConfigView, facts: Facts) -> bool:
    try:
        if name == "num_train_epochs":
            # max_steps alone decides, and -1 is a usual way to say so.
            return (config.integer("max_steps") or 0) > 0
        return name in ("per_device_eval_batch_size", "num_generations_eval") and not facts.evaluates_at_all
    except Unknown:
        return True


def _special(name: str, value: float) -> str:
    if name == "num_iterations":
        return " 0 passes over a rollout are no training step at all."
    if name == "learning_rate":
        return " At 0 nothing is learned." if value == 0 else ""
    return ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


@rule(
    "tool-limit-of-zero-ignored",
    severity="error",
    trl=">=0.27,<1.9",
    what="max_tool_calling_iterations=0 in a release that reads it as no limit.",
    why="0 counts as unset there, so the model may call tools without end, the opposite of what was asked.",
    bad=Example({"max_tool_calling_iterations": 0}, {"versions": {"trl": "1.0.0"}}),
    good=Example({"max_tool_calling_iterations": 0}, {"versions": {"trl": "1.9.2"}}),
    sources=("huggingface/trl#6423", "trl wheels 1.8 and 1.9"),
)
def tool_limit_of_zero_ignored(config: ConfigView, facts: Facts) -> Outcome:
    name = "max_tool_calling_iterations"
    if config.effective(name) != 0:
        return PASS
    return fail(
        name,
        value=0,
        message=f"{name}=0 means no limit in TRL {facts.versions.trl}: set 1 or more, leave out the tools, or use "
        "trl>=1.9.",
    )


RULES = (value_of_wrong_type, value_not_allowed, value_out_of_range, tool_limit_of_zero_ignored)
