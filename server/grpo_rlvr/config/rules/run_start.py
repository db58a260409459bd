"""Options inherited from transformers that pass GRPOConfig and fail when training is built or starts."""

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, rule
from grpo_rlvr.config.rules.dataset import streams
from grpo_rlvr.config.view import ConfigView, as_mapping, judge_each

# What torch.utils.checkpoint.checkpoint takes beside the function and its arguments.
CHECKPOINT_KEYS = ("use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop")
# What transformers 5.24 takes out of the same dict for itself.
CHECKPOINT_LAYERS = ("every_n_layers", "offload")
_DDP = {"hardware": {"num_processes": 4, "device": "cuda", "gpus": 4}, "versions": {"trl": "0.24.0"}}
_REENTRANT = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}}


@rule(
    "persistent-workers-without-workers",
    severity="error",
    what="dataloader_persistent_workers without data loader workers.",
    why="The data loader raises ValueError before the first step: there are no workers to keep.",
    bad=Example({"dataloader_persistent_workers": True}),
    good=Example({"dataloader_persistent_workers": True, "dataloader_num_workers": 2}),
    sources=("measured on trl 1.16.0", "torch/utils/data/dataloader.py"),
    fix_safety="Safe: with the option the run cannot start.",
)
def persistent_workers_without_workers(config: ConfigView) -> Outcome:
    if not config.flag("dataloader_persistent_workers") or config.integer("dataloader_num_workers") != 0:
        return PASS
    return fail(
        "dataloader_persistent_workers",
        "dataloader_num_workers",
        value=True,
        message="dataloader_persistent_workers=True needs dataloader_num_workers of 1 or more: drop it.",
        set={"dataloader_persistent_workers": False},
        safe=True,
    )


@rule(
    "worker-start-without-workers",
    severity="error",
    what="dataloader_multiprocessing_context without data loader workers.",
    why="The data loader raises ValueError before the first step: there are no workers to start.",
    bad=Example({"dataloader_multiprocessing_context": "spawn"}, {"versions": {"transformers": "5.24.0"}}),
    good=Example(
        {"dataloader_multiprocessing_context": "spawn", "dataloader_num_workers": 2},
        {"versions": {"transformers": "5.24.0"}},
    ),
    sources=("measured on trl 1.16.0", "torch/utils/data/dataloader.py"),
    fix_safety="Safe: with the option the run cannot start.",
)
def worker_start_without_workers(config: ConfigView) -> Outcome:
    value = config.given.get("dataloader_multiprocessing_context")
    if not value or config.integer("dataloader_num_workers") != 0:
        return PASS
    return fail(
        "dataloader_multiprocessing_context",
        "dataloader_num_workers",
        value=str(value),
        message="dataloader_multiprocessing_context needs dataloader_num_workers of 1 or more: drop it.",
        unset=("dataloader_multiprocessing_context",),
        safe=True,
    )


@rule(
    "optimizer-options-malformed",
    severity="error",
    what="optim_args is no list of key=value pairs.",
    why="The trainer splits it at commas and at the first equals sign; it raises ValueError when it builds the "
    "optimizer.",
    bad=Example({"optim_args": "amsgrad"}),
    good=Example({"optim_args": "rank=64,scale=0.1"}),
    sources=("measured on trl 1.16.0", "transformers/trainer.py"),
)
def optimizer_options_malformed(config: ConfigView) -> Outcome:
    value = config.text("optim_args")
    if not value or all(part.count("=") == 1 for part in value.replace(" ", "").split(",")):
        return PASS
    return fail(
        "optim_args", value=value, message=f"optim_args={value!r} is no list of pairs such as 'rank=64,scale=0.1'."
    )


@rule(
    "adam-betas-of-two-types",
    severity="error",
    what="adam_beta1 or adam_beta2 is a whole number.",
    why="torch's AdamW takes two floats or two tensors and raises ValueError for a mixture.",
    bad=Example({"adam_beta1": 0}),
    good=Example({"adam_beta1": 0.0}),
    sources=("measured on trl 1.16.0", "torch/optim/adamw.py"),
    fix_safety="Safe: it is the same number.",
)
def adam_betas_of_two_types(config: ConfigView, facts: Facts) -> Outcome:
    def whole(name: str) -> tuple[str, int] | None:
        value = config.integer(name)
        return None if value is None else (name, value)

    wrong = dict(judge_each(("adam_beta1", "adam_beta2"), whole))
    # torch has refused the mixture since 2.5, which came after TRL 0.14's own window opened.
    if not wrong or facts.versions.within("torch", "<2.5"):
        return PASS
    said = ", ".join(f"{name}={value}" for name, value in wrong.items())
    return fail(
        *wrong,
        value=wrong,
        message=f"{said}: write a float ({float(next(iter(wrong.values())))}).",
        set={name: float(value) for name, value in wrong.items()},
        safe=True,
    )


@rule(
    "deepspeed-with-fsdp",
    severity="error",
    what="deepspeed and fsdp are both set.",
    why="Both shard the training state; the trainer raises ValueError when it is built.",
    bad=Example({"deepspeed": "zero3.json", "fsdp": "full_shard"}),
    good=Example({"deepspeed": "zero3.json"}),
    sources=("transformers/trainer.py",),
)
def deepspeed_with_fsdp(config: ConfigView) -> Outcome:
    if not config.given.get("deepspeed") or not config.given.get("fsdp"):
        return PASS
    return fail(
        "fsdp", "deepspeed", value=str(config.given["fsdp"]), message="deepspeed and fsdp are both set: keep one."
    )


@rule(
    "low-rank-optimizer-without-targets",
    severity="error",
    what="A GaLore or APOLLO optimizer without optim_target_modules.",
    why="The optimizer does not know which layers to project; it raises ValueError when train() builds it.",
    bad=Example({"optim": "galore_adamw"}),
    good=Example({"optim": "galore_adamw", "optim_target_modules": ["attn", "mlp"]}),
    sources=("transformers/trainer.py",),
)
def low_rank_optimizer_without_targets(config: ConfigView) -> Outcome:
    name = config.text("optim") or ""
    if not name.startswith(("galore_", "apollo_")) or config.effective("optim_target_modules"):
        return PASS
    return fail(
        "optim_target_modules",
        "optim",
        value=None,
        message=f"optim={name!r} needs optim_target_modules, e.g. ['attn', 'mlp'].",
    )


@rule(
    "checkpointing-option-unknown",
    severity="error",
    what="gradient_checkpointing_kwargs holds a name that torch does not know.",
    why="The first forward pass with gradients raises ValueError (unexpected keyword arguments), after a rollout.",
    bad=Example({"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"reentrant": False}}),
    good=Example({"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}}),
    sources=("measured on trl 1.16.0", "torch/utils/checkpoint.py"),
    fix_safety="Safe for reentrant, which means use_reentrant; another name is dropped.",
)
def checkpointing_option_unknown(config: ConfigView, facts: Facts) -> Outcome:
    kwargs = as_mapping(config.effective("gradient_checkpointing_kwargs"))
    newer = config.spelled("gradient_checkpointing_kwargs") != "gradient_checkpointing_kwargs"
    known = (*CHECKPOINT_KEYS, *CHECKPOINT_LAYERS) if newer or facts.transformers_is(">=5.24") else CHECKPOINT_KEYS
    wrong = [name for name in kwargs if name not in known]
    # With use_reentrant=False what is left over goes on to the layer, which mostly passes over it.
    if not config.flag("gradient_checkpointing") or not wrong or kwargs.get("use_reentrant") is False:
        return PASS
    rest = {name: value for name, value in kwargs.items() if name not in wrong}
    if "reentrant" in wrong:
        rest["use_reentrant"] = kwargs["reentrant"]
    return fail(
        *(f"gradient_checkpointing_kwargs.{name}" for name in wrong),
        "gradient_checkpointing_kwargs",
        value={name: kwargs[name] for name in wrong},
        message=f"gradient_checkpointing_kwargs has no {', '.join(map(str, wrong))}"
        + (": it is called use_reentrant." if "reentrant" in wrong else f"; it takes {', '.join(known)}."),
        set={"gradient_checkpointing_kwargs": rest or None},
        safe=wrong == ["reentrant"],
    )


@rule(
    "batches-dispatched",
    severity="error",
    what="accelerator_config.dispatch_batches=True.",
    why="The main process then slices every batch by its tensors, and a GRPO batch is a list of rows of text: "
    "TypeError before the first step, on one process too.",
    bad=Example({"accelerator_config": {"dispatch_batches": True}}),
    good=Example({"accelerator_config": {"dispatch_batches": False}}),
    sources=("measured on trl 1.16.0", "accelerate/data_loader.py"),
    fix_safety="Safe: with it the run cannot start.",
)
def batches_dispatched(config: ConfigView, facts: Facts) -> Outcome:
    options = config.mapping("accelerator_config")
    # From 1.9 on the trainer refuses it for a stream itself, which is a rule of its own.
    if options.get("dispatch_batches") is not True or (streams(facts) and facts.trl_is(">=1.9")):
        return PASS
    return fail(
        "accelerator_config.dispatch_batches",
        "accelerator_config",
        value=True,
        message="accelerator_config: dispatch_batches=True cannot split rows of text. Remove it.",
        set={"accelerator_config": {**options, "dispatch_batches": False}},
        safe=True,
    )


@rule(
    "token-count-of-raw-rows",
    severity="error",
    what="include_tokens_per_second in GRPO, whose batches are rows and not tensors.",
    why="Before training the trainer counts batch['input_ids'] of every batch; a GRPO batch is a list: TypeError.",
    bad=Example({"include_tokens_per_second": True}, {"versions": {"trl": "0.24.0"}}),
    good=Example({"include_num_input_tokens_seen": True}, {"versions": {"trl": "0.24.0"}}),
    sources=("huggingface/trl#3081", "transformers/trainer.py"),
    fix_safety="Safe: with the option the run cannot start; TRL logs num_tokens itself.",
)
def token_count_of_raw_rows(config: ConfigView) -> Outcome:
    if not config.exists("include_tokens_per_second") or not config.flag("include_tokens_per_second"):
        return PASS
    return fail(
        "include_tokens_per_second",
        value=True,
        message="include_tokens_per_second=True fails before the first step of GRPO. Set it to False.",
        set={"include_tokens_per_second": False},
        safe=True,
    )


@rule(
    "unused-parameters-with-reentrant-checkpointing",
    severity="error",
    what="ddp_find_unused_parameters=True with reentrant gradient checkpointing on several processes.",
    why="The recomputed backward pass marks a parameter ready twice, and DDP raises RuntimeError at the first step. "
    "Checkpointing is reentrant by default before transformers 5 (TRL itself changes that from 0.28 on).",
    bad=Example({**_REENTRANT, "ddp_find_unused_parameters": True}, _DDP),
    good=Example({**_REENTRANT, "ddp_find_unused_parameters": False}, _DDP),
    sources=("huggingface/transformers#4659", "torch/nn/parallel/distributed.py"),
    fix_safety="False is what the trainer chooses by itself under checkpointing; a model with unused weights needs "
    "use_reentrant=False instead.",
)
def unused_parameters_with_reentrant_checkpointing(config: ConfigView, facts: Facts) -> Outcome:
    if not config.flag("ddp_find_unused_parameters") or not config.flag("gradient_checkpointing"):
        return PASS
    if facts.processes < 2 or facts.sharded or facts.unsloth:
        return PASS
    stated = as_mapping(config.effective("gradient_checkpointing_kwargs")).get("use_reentrant")
    if not (stated is True or (stated is None and facts.trl_is("<0.28") and facts.transformers_is("<5"))):
        return PASS
    return fail(
        "ddp_find_unused_parameters",
        "gradient_checkpointing_kwargs.use_reentrant",
        "gradient_checkpointing_kwargs",
        "gradient_checkpointing",
        value=True,
        message="ddp_find_unused_parameters=True fails with reentrant checkpointing. Set it to False, or set "
        "gradient_checkpointing_kwargs={'use_reentrant': False}.",
        set={"ddp_find_unused_parameters": False},
    )


RULES = (
    persistent_workers_without_workers,
    worker_start_without_workers,
    optimizer_options_malformed,
    adam_betas_of_two_types,
    deepspeed_with_fsdp,
    low_rank_optimizer_without_targets,
    checkpointing_option_unknown,
    batches_dispatched,
    token_count_of_raw_rows,
    unused_parameters_with_reentrant_checkpointing,
)
