"""Combinations that GRPOConfig itself refuses when it is built, beyond batch arithmetic."""

from collections.abc import Mapping

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Fail, Outcome, fail, rule
from grpo_rlvr.config.view import ConfigView, judge_each

# Counted in steps when above 1, a share of all steps below: (count, strategy that makes it count).
STEP_COUNTS = (
    ("logging_steps", "logging_strategy"),
    ("eval_steps", "eval_strategy"),
    ("save_steps", "save_strategy"),
)
DEBUG_WORDS = ("underflow_overflow", "tpu_metrics_debug")
ACCELERATOR_KEYS = (
    "split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler", "non_blocking",
    "gradient_accumulation_kwargs", "use_configured_state",
)  # fmt: skip


def _by_steps(config: ConfigView, strategy: str) -> bool:
    return config.exists(strategy) and config.effective(strategy) == "steps"


@rule(
    "step-count-not-whole",
    severity="error",
    what="logging_steps, eval_steps or save_steps is above 1 and not whole.",
    why="Above 1 it is a number of steps, below 1 a share of all steps; GRPOConfig raises ValueError.",
    bad=Example({"logging_steps": 2.5}),
    good=Example({"logging_steps": 3}),
    sources=("transformers/training_args.py",),
)
def step_count_not_whole(config: ConfigView) -> Outcome:
    def judge(option: tuple[str, str]) -> Fail | None:
        name, strategy = option
        value = config.number(name)
        if value is None or value <= 1 or value.is_integer() or not _by_steps(config, strategy):
            return None
        message = f"{name}={value:g}: above 1 it must be whole."
        return fail(name, value=value, message=message, set={name: round(value)})

    return judge_each(STEP_COUNTS, judge) or PASS


@rule(
    "no-logging-interval",
    severity="error",
    what="logging_steps is 0 while logging goes by steps (or evaluation by steps leans on it).",
    why="GRPOConfig raises ValueError.",
    bad=Example({"logging_steps": 0}),
    good=Example({"logging_steps": 1}),
    sources=("transformers/training_args.py",),
)
def no_logging_interval(config: ConfigView) -> Outcome:
    steps = config.number("logging_steps")
    if steps is None:
        return PASS
    leans = _by_steps(config, "eval_strategy") and not config.number("eval_steps") and steps <= 0
    if not leans and not (_by_steps(config, "logging_strategy") and steps == 0):
        return PASS
    return fail(
        "logging_steps",
        "logging_strategy",
        *(("eval_steps", "eval_strategy") if leans else ()),
        value=steps,
        message=f"logging_steps={steps:g}: set it to 1 or more, or logging_strategy='no' (and name eval_steps).",
    )


@rule(
    "scheduler-needs-evaluation",
    severity="error",
    what="A learning-rate schedule that follows evaluation results, without evaluation.",
    why="GRPOConfig raises ValueError.",
    bad=Example({"lr_scheduler_type": "reduce_lr_on_plateau"}),
    good=Example({"lr_scheduler_type": "cosine"}),
    sources=("transformers/training_args.py",),
)
def scheduler_needs_evaluation(config: ConfigView, facts: Facts) -> Outcome:
    schedule = config.effective("lr_scheduler_type")
    if schedule not in ("reduce_lr_on_plateau", "greedy") or facts.evaluates:
        return PASS
    return fail(
        "lr_scheduler_type",
        "eval_strategy",
        value=schedule,
        message=f"lr_scheduler_type={schedule} needs eval_strategy='steps' or 'epoch'; linear and cosine do not.",
    )


@rule(
    "prefetch-without-workers",
    severity="error",
    what="dataloader_prefetch_factor without data loader workers.",
    why="GRPOConfig raises ValueError: only workers prefetch.",
    bad=Example({"dataloader_prefetch_factor": 2}),
    good=Example({"dataloader_prefetch_factor": 2, "dataloader_num_workers": 2}),
    sources=("transformers/training_args.py",),
    fix_safety="Safe: with the option the config cannot be built.",
)
def prefetch_without_workers(config: ConfigView) -> Outcome:
    factor = config.effective("dataloader_prefetch_factor")
    if factor is None or config.integer("dataloader_num_workers") != 0:
        return PASS
    return fail(
        "dataloader_prefetch_factor",
        "dataloader_num_workers",
        value=factor,
        message=f"dataloader_prefetch_factor={factor} needs dataloader_num_workers of 1 or more: drop it.",
        unset=("dataloader_prefetch_factor",),
        safe=True,
    )


@rule(
    "completions-repo-without-logging",
    severity="error",
    trl=">=0.28",
    what="log_completions_hub_repo without log_completions.",
    why="GRPOConfig raises ValueError: there would be nothing to upload.",
    bad=Example({"log_completions_hub_repo": "me/completions"}),
    good=Example({"log_completions_hub_repo": "me/completions", "log_completions": True}),
    sources=("trl/trainer/grpo_config.py",),
    fix_safety="Safe: it switches on what the other option is for.",
)
def completions_repo_without_logging(config: ConfigView) -> Outcome:
    repo = config.effective("log_completions_hub_repo")
    if repo is None or config.flag("log_completions"):
        return PASS
    return fail(
        "log_completions_hub_repo",
        "log_completions",
        value=repo,
        message=f"log_completions_hub_repo={repo!r} needs log_completions=True.",
        set={"log_completions": True},
        safe=True,
    )


@rule(
    "padding-multiple-not-a-number",
    severity="error",
    trl=">=1.0",
    what="pad_to_multiple_of is a text that is neither 'auto' nor a number.",
    why="GRPOConfig raises ValueError.",
    bad=Example({"pad_to_multiple_of": "eight"}),
    good=Example({"pad_to_multiple_of": 8}),
    sources=("trl/trainer/grpo_config.py",),
)
def padding_multiple_not_a_number(config: ConfigView) -> Outcome:
    value = config.text("pad_to_multiple_of")
    if value is None or value == "auto" or value.lower() in {"none", "null"}:
        return PASS
    try:
        int(value)
    except ValueError:
        return fail(
            "pad_to_multiple_of", value=value, message=f"pad_to_multiple_of={value!r}: a whole number, null or 'auto'."
        )
    return PASS


@rule(
    "unknown-debug-option",
    severity="error",
    what="debug names an option that transformers does not have.",
    why="GRPOConfig raises ValueError.",
    bad=Example({"debug": "verbose"}),
    good=Example({"debug": "underflow_overflow"}),
    sources=("transformers/debug_utils.py",),
)
def unknown_debug_option(config: ConfigView) -> Outcome:
    words = (config.text("debug") or "").split()
    wrong = [word for word in words if word not in DEBUG_WORDS]
    if not wrong:
        return PASS
    return fail(
        "debug", value=config.text("debug"), message=f"debug={' '.join(wrong)}: allowed are {', '.join(DEBUG_WORDS)}."
    )


@rule(
    "unknown-accelerator-option",
    severity="error",
    what="accelerator_config holds a key that it does not have.",
    why="GRPOConfig raises TypeError.",
    bad=Example({"accelerator_config": {"splitbatches": True}}),
    good=Example({"accelerator_config": {"split_batches": True}}),
    sources=("transformers/trainer_pt_utils.py",),
)
def unknown_accelerator_option(config: ConfigView) -> Outcome:
    wrong = [name for name in config.mapping("accelerator_config") if name not in ACCELERATOR_KEYS]
    if not wrong:
        return PASS
    return fail(
        "accelerator_config",
        value=wrong,
        message=f"accelerator_config has no {', '.join(wrong[:5])}; its keys are {', '.join(ACCELERATOR_KEYS)}.",
    )


@rule(
    "parallelism-config-as-data",
    severity="error",
    what="parallelism_config is plain data.",
    why="GRPOConfig reads attributes of accelerate's ParallelismConfig object and raises AttributeError for a dict "
    "or text.",
    bad=Example({"parallelism_config": {"dp_replicate_size": 2}}),
    good=Example({"parallelism_config": None}),
    sources=("trl/trainer/grpo_config.py", "transformers/training_args.py"),
)
def parallelism_config_as_data(config: ConfigView) -> Outcome:
    value = config.effective("parallelism_config")
    if value is None or (isinstance(value, Mapping) and "__call__" in value):
        return PASS
    return fail(
        "parallelism_config",
        value=value,
        message="parallelism_config takes accelerate's ParallelismConfig object: build it in the script, or set it "
        "in the "
        "accelerate config file.",
    )


@rule(
    "bf16-without-gpu",
    severity="error",
    what="bf16 is on (TRL's default since 0.19) on a machine without a GPU, and use_cpu is not.",
    why="GRPOConfig raises ValueError: bf16 without use_cpu asks for a GPU that has it.",
    bad=Example({"bf16": True}, {"hardware": {"device": "cpu"}}),
    good=Example({"use_cpu": True}, {"hardware": {"device": "cpu"}}),
    sources=("transformers/training_args.py",),
    fix_safety="Trains on the CPU, which is meant only where the run is a proof.",
)
def bf16_without_gpu(config: ConfigView, facts: Facts) -> Outcome:
    if (
        facts.text("hardware.device") != "cpu"
        or not (facts.bf16 or config.flag("bf16_full_eval"))
        or not config.exists("use_cpu")
        or config.flag("use_cpu")
    ):
        return PASS
    default = "" if config.has("bf16") else " by default"
    what = f"bf16 is on{default}" if facts.bf16 else "bf16_full_eval is on"
    return fail(
        "bf16",
        "use_cpu",
        "hardware.device",
        value=True,
        message=f"{what}, and this machine has no GPU: launch where the GPU is, or set use_cpu=True for a proof on the "
        "CPU.",
        set={"use_cpu": True},
    )


RULES = (
    step_count_not_whole,
    no_logging_interval,
    scheduler_needs_evaluation,
    prefetch_without_workers,
    completions_repo_without_logging,
    padding_multiple_not_a_number,
    unknown_debug_option,
    unknown_accelerator_option,
    parallelism_config_as_data,
    bf16_without_gpu,
)
