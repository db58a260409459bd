"""Distributed: launcher and processes, DeepSpeed, FSDP, sequence parallelism."""

import re

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView, as_mapping

_LAUNCHER = re.compile(r"\b(accelerate|torchrun|deepspeed|torch\.distributed|srun|mpirun)\b")
_PLAIN = re.compile(r"(^|[\s/])(python[\d.]*|uv run|ipython|jupyter\w*|trl\s+grpo)\b")
_TWO_GPUS = {"num_processes": 1, "device": "cuda", "gpus": 4, "cuda_visible_devices": [0, 1, 2, 3]}


def visible_gpus(facts: Facts) -> int | None:
    """Return how many GPUs each process sees, None when neither the devices nor a plain launch are stated."""
    if facts.text("hardware.device") not in (None, "cuda", "gpu"):
        return None
    if facts.visible_devices is not None:
        return len(facts.visible_devices)
    command = facts.text("launch.command")
    # Without a list of visible devices only a stated launch makes it sure that the process sees all GPUs.
    return facts.gpus if command is not None and facts.gpus is not None else None


def _single_process(facts: Facts) -> str | None:
    """Return what makes it a single process, None when several are launched."""
    command = facts.text("launch.command") or ""
    stated = facts.number("hardware.num_processes")
    if (stated is not None and stated > 1) or (facts.number("hardware.num_machines") or 1) > 1:
        return None
    if _LAUNCHER.search(command):
        one = re.search(r"--(num[_-]processes|nproc[_-]per[_-]node|num[_-]gpus)[ =]1\b", command)
        return f"{command!r} starts one process" if one or stated == 1 else None
    if _PLAIN.search(command):
        return f"{command!r} starts one process"
    return "hardware.num_processes is 1" if stated == 1 else None


def _parallel_replicas(facts: Facts) -> Outcome:
    count, single = visible_gpus(facts), _single_process(facts)
    if count is None:
        return not_applicable("neither hardware.cuda_visible_devices nor launch.command is stated")
    if count <= 1 or single is None or facts.zero_stage or facts.fsdp_version:
        return PASS
    effect = (
        "which GRPO refuses"
        if facts.trl_is(">=1.15")
        else f"which runs {count} replicas in one process and multiplies the batch by {count}"
    )
    return fail(
        "launch.command",
        "hardware.cuda_visible_devices",
        "hardware.num_processes",
        "hardware.gpus",
        value=facts.text("launch.command"),
        message=f"{single} and {count} GPUs are visible, so Trainer wraps the model in DataParallel, {effect}. Launch "
        f"with accelerate launch --num_processes {count}, or set CUDA_VISIBLE_DEVICES to one GPU.",
    )


@rule(
    "one-process-many-gpus",
    severity="error",
    trl=">=1.15",
    what="One process that sees several GPUs.",
    why="Trainer then uses DataParallel, and the trainer raises ValueError after the model has been loaded.",
    bad=Example({}, {"hardware": _TWO_GPUS, "launch": {"command": "python train.py"}}),
    good=Example(
        {}, {"hardware": {**_TWO_GPUS, "num_processes": 4}, "launch": {"command": "accelerate launch train.py"}}
    ),
    sources=("huggingface/trl#2842", "huggingface/trl#3181"),
)
def one_process_many_gpus(facts: Facts) -> Outcome:
    return _parallel_replicas(facts)


@rule(
    "batch-multiplied-by-replicas",
    severity="warning",
    trl="<1.15",
    what="One process that sees several GPUs, in a TRL version that lets it run.",
    why="DataParallel multiplies the batch by the number of GPUs without counting it as processes, so the arithmetic "
    "of groups and updates is not the one that the config states.",
    bad=Example({}, {"hardware": _TWO_GPUS, "launch": {"command": "python train.py"}, "versions": {"trl": "0.15.2"}}),
    good=Example({}, {"hardware": {**_TWO_GPUS, "cuda_visible_devices": [0]}, "versions": {"trl": "0.15.2"}}),
    sources=("huggingface/trl#2842", "huggingface/trl#3181"),
)
def batch_multiplied_by_replicas(facts: Facts) -> Outcome:
    return _parallel_replicas(facts)


@rule(
    "more-processes-than-gpus",
    severity="error",
    what="More training processes than GPUs.",
    why="Each process takes a GPU of its own: those without one fail with an invalid device before anything is loaded, "
    "or two end up on one card.",
    bad=Example({}, {"hardware": {"num_processes": 8, "gpus": 2, "device": "cuda"}}),
    good=Example({}, {"hardware": {"num_processes": 2, "gpus": 2, "device": "cuda"}}),
    sources=("huggingface/trl#2851",),
)
def more_processes_than_gpus(facts: Facts) -> Outcome:
    if facts.gpus is None or not facts.processes_known:
        return not_applicable("hardware.gpus or hardware.num_processes is not stated")
    on_gpus = (facts.text("hardware.device") or "cuda") == "cuda" and not facts.config.flag("use_cpu")
    # Some state the GPUs of one machine, some those of the whole job.
    most = facts.gpus * int(facts.number("hardware.num_machines") or 1)
    if not on_gpus or facts.gpus < 1 or facts.processes <= most:
        return PASS
    return fail(
        "hardware.num_processes",
        "hardware.gpus",
        "launch.command",
        value=facts.processes,
        message=f"{facts.processes} training processes on {most} GPU(s): start with --num_processes {most}.",
    )


@rule(
    "lora-zero3-non-reentrant-checkpointing",
    severity="error",
    trl="<1.9",
    what="LoRA under ZeRO-3 with non-reentrant gradient checkpointing.",
    why="The recomputed forward pass finds gathered parameters of another shape and raises CheckpointError at the "
    "first backward pass. TRL forces the reentrant kind since 1.9.",
    bad=Example(
        {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}},
        {"model": {"peft": True}, "hardware": {"deepspeed_stage": 3}, "versions": {"trl": "1.8.0"}},
    ),
    good=Example(
        {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}},
        {"model": {"peft": True}, "hardware": {"deepspeed_stage": 3}, "versions": {"trl": "1.8.0"}},
    ),
    sources=("huggingface/transformers#47254", "huggingface/trl#6356"),
    fix_safety="Checkpointing recomputes the same values; only how differs.",
)
def lora_zero3_non_reentrant_checkpointing(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.peft or facts.zero_stage != 3 or not config.flag("gradient_checkpointing"):
        return PASS
    kwargs = as_mapping(config.effective("gradient_checkpointing_kwargs"))
    stated = kwargs.get("use_reentrant")
    # TRL set False itself from 0.28 on where transformers is older than 5, which is non-reentrant by default.
    implied = stated is None and facts.trl_is(">=0.28")
    if stated is not False and not implied:
        return PASS
    return fail(
        "gradient_checkpointing_kwargs.use_reentrant",
        "gradient_checkpointing_kwargs",
        "gradient_checkpointing",
        "hardware.deepspeed_stage",
        "model.peft",
        value=stated,
        message=f"LoRA under ZeRO-3 with non-reentrant checkpointing{' (the default here)' if implied else ''} fails "
        "at the first backward pass. Set gradient_checkpointing_kwargs={'use_reentrant': True}, or use trl>=1.9.",
        set={"gradient_checkpointing_kwargs": {**kwargs, "use_reentrant": True}},
        safe=True,
    )


@rule(
    "reentrant-forced-under-zero3",
    severity="info",
    trl=">=1.9",
    what="Non-reentrant gradient checkpointing is asked for with LoRA under ZeRO-3.",
    why="TRL sets the reentrant kind instead and logs it, since the other one fails there.",
    bad=Example(
        {"gradient_checkpointing_kwargs": {"use_reentrant": False}},
        {"model": {"peft": True}, "hardware": {"deepspeed_stage": 3}},
    ),
    good=Example({}, {"model": {"peft": True}, "hardware": {"deepspeed_stage": 3}}),
    sources=("huggingface/trl#6356",),
)
def reentrant_forced_under_zero3(config: ConfigView, facts: Facts) -> Outcome:
    kwargs = as_mapping(config.effective("gradient_checkpointing_kwargs"))
    if not facts.peft or facts.zero_stage != 3 or kwargs.get("use_reentrant") is not False:
        return PASS
    return fail(
        "gradient_checkpointing_kwargs.use_reentrant",
        "gradient_checkpointing_kwargs",
        value=False,
        message="use_reentrant=False is overridden with True for LoRA under ZeRO-3.",
    )


@rule(
    "zero3-gather-off-with-vllm",
    severity="warning",
    what="ds3_gather_for_generation is off while vLLM generates.",
    why="It is documented as incompatible with vLLM, which needs the gathered weights; the vLLM path ignores it, so "
    "it saves nothing.",
    bad=Example({"use_vllm": True, "vllm_mode": "colocate", "ds3_gather_for_generation": False}),
    good=Example({"use_vllm": True, "vllm_mode": "colocate"}),
    sources=("huggingface/trl:trl/trainer/grpo_config.py",),
    fix_safety="The vLLM path does not read it.",
)
def zero3_gather_off_with_vllm(config: ConfigView, facts: Facts) -> Outcome:
    name = "ds3_gather_for_generation"
    if not config.exists(name) or config.flag(name) or not facts.use_vllm:
        return PASS
    return fail(
        name,
        value=False,
        message="ds3_gather_for_generation=False does not go with use_vllm=True. Remove it (the default is True).",
        unset=[name],
        safe=True,
    )


@rule(
    "fsdp-not-supported-yet",
    severity="error",
    trl="<0.18",
    what="FSDP in a version whose trainer does not know it.",
    why="Nothing gathers the shards for generation or for vLLM: the first rollout fails on storage that is not "
    "allocated.",
    bad=Example({}, {"hardware": {"fsdp_version": 1}, "versions": {"trl": "0.17.0"}}),
    good=Example({}, {"hardware": {"deepspeed_stage": 3}, "versions": {"trl": "0.17.0"}}),
    sources=("huggingface/trl#2796", "huggingface/trl#3259", "trl wheels 0.17 and 0.18"),
)
def fsdp_not_supported_yet(config: ConfigView, facts: Facts) -> Outcome:
    own = config.effective("fsdp")
    if facts.fsdp_version is None and own in (None, "", []):
        return PASS
    return fail(
        "fsdp" if own else "hardware.fsdp_version",
        value=own or facts.fsdp_version,
        message=f"GRPO under FSDP arrived in TRL 0.18, and this is {facts.versions.trl}. Use ZeRO, or trl>=0.18.",
    )


@rule(
    "fsdp2-without-weight-sync",
    severity="error",
    trl="<0.20",
    requires=("fsdp-not-supported-yet",),
    what="FSDP2 with vLLM in a version that does not send its weights.",
    why="The shards never reach vLLM, so every rollout comes from the starting model.",
    bad=Example({"use_vllm": True}, {"hardware": {"fsdp_version": 2}, "versions": {"trl": "0.19.1"}}),
    good=Example({"use_vllm": True}, {"hardware": {"fsdp_version": 1}, "versions": {"trl": "0.19.1"}}),
    sources=("huggingface/trl#3670",),
)
def fsdp2_without_weight_sync(facts: Facts) -> Outcome:
    if facts.fsdp_version != 2 or not facts.use_vllm:
        return PASS
    return fail(
        "hardware.fsdp_version",
        "fsdp_config",
        value=2,
        message=f"TRL {facts.versions.trl} does not send FSDP2 weights to vLLM. Use FSDP1, or trl>=0.20.",
    )


@rule(
    "fsdp2-lora-server-sync",
    severity="error",
    trl=">=0.20,<0.26",
    what="LoRA under FSDP2 with a vLLM server.",
    why="The weight transfer to the server fails, or sends weights without the adapter, in these releases.",
    bad=Example(
        {"use_vllm": True, "vllm_mode": "server"},
        {"model": {"peft": True}, "hardware": {"fsdp_version": 2}, "versions": {"trl": "0.25.1"}},
    ),
    good=Example(
        {"use_vllm": True, "vllm_mode": "server"},
        {"model": {"peft": True}, "hardware": {"fsdp_version": 1}, "versions": {"trl": "0.25.1"}},
    ),
    sources=("huggingface/trl#4589",),
)
def fsdp2_lora_server_sync(facts: Facts) -> Outcome:
    if facts.fsdp_version != 2 or not facts.server or not facts.peft:
        return PASS
    return fail(
        "hardware.fsdp_version",
        "fsdp_config",
        "model.peft",
        "vllm_mode",
        value=2,
        message=f"LoRA weights under FSDP2 do not reach a vLLM server in TRL {facts.versions.trl}. Use FSDP1 or ZeRO, "
        "or trl>=0.26.",
    )


@rule(
    "fsdp2-lora-generate",
    severity="error",
    trl=">=0.18",
    what="LoRA under FSDP2 with model.generate and a transformers before 5.0.",
    why="generate() of an adapter's model goes round the hooks that gather the shards: RuntimeError (got mixed "
    "torch.Tensor and DTensor) at the first rollout. transformers 5.0 registers generate with FSDP2.",
    bad=Example({}, {"model": {"peft": True}, "hardware": {"fsdp_version": 2}, "versions": {"trl": "0.25.1"}}),
    good=Example({}, {"model": {"peft": True}, "hardware": {"fsdp_version": 2}, "versions": {"trl": "1.16.0"}}),
    sources=("huggingface/trl#4550", "huggingface/transformers#42436", "transformers wheels 4.57 and 5.0"),
)
def fsdp2_lora_generate(facts: Facts) -> Outcome:
    if facts.fsdp_version != 2 or facts.use_vllm or not facts.peft or not facts.transformers_is("<5"):
        return PASS
    return fail(
        "hardware.fsdp_version",
        "fsdp_config",
        "model.peft",
        "versions.transformers",
        "use_vllm",
        value=2,
        message="model.generate fails with LoRA under FSDP2 before transformers 5.0: upgrade it, use FSDP1 or ZeRO, or "
        "let vLLM generate.",
    )


@rule(
    "sequence-parallelism",
    severity="error",
    what="Context or sequence parallelism.",
    why="GRPO builds its inputs after generation, so they cannot be split along the sequence; TRL refuses it since "
    "1.4 and computes wrong losses before.",
    bad=Example({}, {"hardware": {"cp_size": 2}}),
    good=Example({}, {"hardware": {"cp_size": 1}}),
    sources=("huggingface/trl:trl/trainer/grpo_config.py",),
)
def sequence_parallelism(config: ConfigView, facts: Facts) -> Outcome:
    stated = as_mapping(config.given.get("parallelism_config"))
    for name in ("cp_size", "sp_size"):
        inside = stated.get(name)
        size = facts.number(f"hardware.{name}") or (inside if isinstance(inside, int) else None)
        if size is not None and size > 1:
            return fail(
                f"hardware.{name}",
                "parallelism_config",
                f"parallelism_config.{name}",
                value=size,
                message=f"{name}={size:g} splits sequences across GPUs, which GRPO cannot do. Set it to 1 and use "
                "ZeRO-3 or FSDP.",
            )
    return PASS


@rule(
    "device-map-in-distributed-run",
    severity="error",
    trl="<0.26",
    what="model_init_kwargs spreads the model with a device_map in a run of several processes.",
    why="Every process would take all GPUs; accelerate (or DeepSpeed) refuses such a model in a distributed run. From "
    "0.26 on TRL resets device_map there.",
    bad=Example(
        {"model_init_kwargs": {"device_map": "auto"}},
        {"hardware": {"num_processes": 4}, "versions": {"trl": "0.22.2"}},
    ),
    good=Example(
        {"model_init_kwargs": {"device_map": "auto"}},
        {"hardware": {"num_processes": 1}, "versions": {"trl": "0.22.2"}},
    ),
    sources=("huggingface/accelerate:src/accelerate/accelerator.py", "trl wheels 0.25 and 0.26"),
    fix_safety="Safe: with the option the run cannot start.",
)
def device_map_in_distributed_run(config: ConfigView, facts: Facts) -> Outcome:
    kwargs = config.mapping("model_init_kwargs")
    if facts.processes < 2 or not isinstance(kwargs.get("device_map"), str) or facts.instance:
        return PASS
    if kwargs["device_map"] not in ("auto", "balanced", "balanced_low_0", "sequential"):
        return PASS
    rest = {name: value for name, value in kwargs.items() if name != "device_map"}
    return fail(
        "model_init_kwargs.device_map",
        "model_init_kwargs",
        "hardware.num_processes",
        value=kwargs["device_map"],
        message=f"device_map={kwargs['device_map']!r} with {facts.processes} processes: leave it out, each process "
        "takes its own GPU.",
        set={"model_init_kwargs": rest} if rest else {},
        unset=() if rest else ("model_init_kwargs",),
        safe=True,
    )


RULES = (
    one_process_many_gpus,
    batch_multiplied_by_replicas,
    more_processes_than_gpus,
    lora_zero3_non_reentrant_checkpointing,
    reentrant_forced_under_zero3,
    zero3_gather_off_with_vllm,
    fsdp_not_supported_yet,
    fsdp2_without_weight_sync,
    fsdp2_lora_server_sync,
    fsdp2_lora_generate,
    sequence_parallelism,
    device_map_in_distributed_run,
)
