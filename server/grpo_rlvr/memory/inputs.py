"""Reading a plan from a config and a setup: what is stated is checked, what is not is assumed and listed."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory.adapter import read_lora
from grpo_rlvr.memory.checks import flag, integer
from grpo_rlvr.memory.facts import Resolved, resolve_facts
from grpo_rlvr.memory.families import NO_SDPA
from grpo_rlvr.memory.hardware import read_devices
from grpo_rlvr.memory.mixers import LinearAttention
from grpo_rlvr.memory.plan import Checkpoints, Engine, Plan, Sharding
from grpo_rlvr.memory.quantization import read_quantization
from grpo_rlvr.memory.reader import MAX_BATCH, Reader
from grpo_rlvr.memory.shape import ModelFacts
from grpo_rlvr.models.setup import Setup
from grpo_rlvr.workspace import Workspace

# Longer than any published context, so that a slipped digit is noticed.
MAX_LENGTH = 100_000_000
DEFAULT_PROMPT = 512
# The newest TRL that ms-swift is known to run with (its pull request 8404): one that holds full logits.
SWIFT_TRL = "0.29.0"
# transformers' spellings and the usual short ones.
DTYPES = {
    "float32": "float32", "fp32": "float32", "float": "float32", "bfloat16": "bfloat16", "bf16": "bfloat16",
    "float16": "float16", "fp16": "float16", "half": "float16", "auto": "auto",
}  # fmt: skip


def read_plan(
    config: Mapping[str, Any],
    setup: Setup,
    trl_version: str | None,
    workspace: Workspace | None = None,
    resolved: Resolved | None = None,
) -> Plan:
    """Return the plan of a config and its setup; `resolved` spares looking the model up again.

    Raises:
        InputError: a value that cannot be right, an unknown model, or facts that contradict each other.
    """
    if not isinstance(config, Mapping):
        raise InputError(f"a config must be an object, got {type(config).__name__}", where="argument 'config'")
    stated_version = trl_version or setup.get("versions.trl")
    reader, version_text = _reader(config, setup, stated_version)
    version = _minor(version_text)
    resolved = resolved or resolve_facts(setup, workspace)
    reader.assumed += resolved.assumed
    sharding = _sharding(reader)
    engine = _engine(reader)
    devices = read_devices(reader, engine, sharding, resolved.facts)
    if devices.training > 1 and sharding.engine == "single":
        sharding = Sharding("ddp", 0, sharding.offload)
    batch = reader.integer("per_device_train_batch_size", 8)
    accumulation = reader.integer("gradient_accumulation_steps", 1)
    prompt, completion = _lengths(reader)
    engine = _with_length(reader, engine, prompt + completion, resolved.facts.context)
    quantized, dtype = read_quantization(reader, resolved.facts), _dtype(reader, version)
    lora = read_lora(reader, quantized)
    return Plan(
        facts=resolved.facts, version=version, trl_version=version_text, batch=batch, accumulation=accumulation,
        generation_steps=_generation_steps(reader, batch, accumulation, devices.training, version),
        prompt=prompt, completion=completion, generations=reader.integer("num_generations", 8),
        dtype=dtype, autocast=_autocast(reader, version, dtype), quantized=quantized, lora=lora,
        optim=_optim(reader), checkpoints=_checkpoints(reader),
        attention=_attention(reader, resolved.facts), liger=_liger(reader), liger_frees_head=_liger_frees_head(setup),
        delta_kernels=_delta_kernels(reader, resolved.facts),
        beta=reader.number("beta", 0.0),
        logprob_pass=_logprob_pass(reader, engine, accumulation),
        gather_for_generation=reader.flag("ds3_gather_for_generation", True),
        head_fp32=reader.flag("cast_lm_head_to_fp32", False),
        engine=engine, devices=devices, sharding=sharding,
        learning_rate=reader.number("learning_rate", 1e-6),
        experts_are_linears=_experts_are_linears(setup), version_stated=stated_version is not None,
        streamed_sync=_is_swift(setup), sync_groups=_sync_groups(reader), assumed=tuple(reader.assumed),
    )  # fmt: skip


def _reader(config: Mapping[str, Any], setup: Setup, stated_version: Any) -> tuple[Reader, str]:
    from grpo_rlvr.config import newest_version, table

    version = str(stated_version or (SWIFT_TRL if _is_swift(setup) else newest_version()))
    reader = Reader(config, setup, table(version))
    if stated_version is None:
        reader.assume("versions.trl", version, "`grpo-rlvr doctor`, or the TRL version of the training interpreter")
    if _minor(version) > _minor(newest_version()):
        reader.assume("TRL's defaults", f"those of {newest_version()}", f"a release that knows TRL {version}")
    return reader, version


@lru_cache(maxsize=64)
def _release(version: str) -> tuple[int, ...]:
    from packaging.version import Version

    return Version(version).release


def _minor(version: str) -> tuple[int, int]:
    release = _release(version)
    return release[0], release[1] if len(release) > 1 else 0


def _lengths(reader: Reader) -> tuple[int, int]:
    completion = reader.integer("max_completion_length", 512, maximum=MAX_LENGTH)
    stated = reader.stated("max_prompt_length")
    limit = None if stated is None else integer(stated, "config.max_prompt_length", minimum=0, maximum=MAX_LENGTH)
    longest = reader.setup.get("dataset.max_prompt_tokens")
    if longest is not None:
        # A limit that nobody stated (512 up to TRL 0.24) does not shorten a prompt that somebody measured.
        prompt = integer(longest, "setup.dataset.max_prompt_tokens", minimum=0, maximum=MAX_LENGTH)
        return (min(prompt, limit) if limit else prompt), completion
    prompt = limit or reader.default("max_prompt_length", DEFAULT_PROMPT)
    reader.assume("dataset.max_prompt_tokens", prompt, "the longest prompt of the dataset in tokens, template included")
    return prompt, completion


def _generation_steps(reader: Reader, batch: int, accumulation: int, processes: int, version: tuple[int, int]) -> int:
    # Until 0.17 every micro-batch was generated by itself (no steps_per_generation field).
    if "steps_per_generation" not in reader.defaults and version < (0, 18):
        return 1
    total = reader.stated("generation_batch_size")
    if total is not None:
        size = integer(total, "config.generation_batch_size", minimum=1, maximum=MAX_BATCH)
        return max(size // (batch * processes), 1)
    steps = reader.stated("steps_per_generation")
    if steps is None:
        return accumulation
    return integer(steps, "config.steps_per_generation", minimum=1, maximum=MAX_BATCH)


def _dtype(reader: Reader, version: tuple[int, int]) -> str:
    kwargs = reader.init_kwargs()
    # From 0.27 on TRL fills in float32 where dtype is missing, which transformers prefers over torch_dtype.
    unread = version >= (0, 27) and not _is_swift(reader.setup)
    stated = kwargs.get("dtype", None if unread else kwargs.get("torch_dtype"))
    where = "config.model_init_kwargs.dtype"
    if stated is None and reader.setup.get("model.dtype") is not None:
        stated, where = reader.setup.get("model.dtype"), "setup.model.dtype"
    if stated is None:
        ignored = " (it does not read torch_dtype since 0.27)" if "torch_dtype" in kwargs else ""
        reader.assume("model_init_kwargs.dtype", "float32", f"TRL loads a model given by name in float32{ignored}; "
                      "state the dtype if the model is loaded elsewhere")  # fmt: skip
        return "float32"
    name = str(stated).removeprefix("torch.").lower()
    if name not in DTYPES:
        raise InputError(f"unknown dtype {stated!r:.60}", where=where, remedy="Use bfloat16, float16, float32 or auto.")
    # Checkpoints of this decade are stored in bfloat16, which is what auto loads.
    return "bfloat16" if DTYPES[name] == "auto" else DTYPES[name]


def _autocast(reader: Reader, version: tuple[int, int], dtype: str) -> str:
    if reader.stated("fp16") is not None and flag(reader.stated("fp16"), "config.fp16"):
        return "float16"
    stated = reader.stated("bf16")
    if stated is None:
        # GRPOConfig.bf16 is True unless fp16 is set since 0.19; before, TrainingArguments' False. ms-swift sets bf16
        # and fp16 from the weights' dtype (its torch_dtype).
        if version < (0, 19):
            return dtype if _is_swift(reader.setup) and dtype != "float32" else ""
        return "bfloat16"
    return "bfloat16" if flag(stated, "config.bf16") else ""


def _optim(reader: Reader) -> str:
    value = reader.stated("optim")
    value = reader.default("optim", "adamw_torch") if value is None else value
    if not isinstance(value, str):
        raise InputError(f"must be a string, got {type(value).__name__}", where="config.optim")
    return value.rsplit(".", 1)[-1].lower()


def _checkpoints(reader: Reader) -> Checkpoints:
    """transformers 5.24 calls it activation_checkpointing: stated, it wins over the old name."""
    stated = reader.stated("activation_checkpointing")
    if stated is None:
        on = reader.flag("gradient_checkpointing", False)
    else:
        on = flag(stated, "config.activation_checkpointing")
    sharded = reader.stated("fsdp_config")
    if isinstance(sharded, Mapping) and str(sharded.get("activation_checkpointing")).lower() in ("true", "1"):
        on = True
    kwargs = reader.stated("activation_checkpointing_kwargs") or reader.stated("gradient_checkpointing_kwargs") or {}
    if not isinstance(kwargs, Mapping):
        raise InputError(
            f"must be an object, got {type(kwargs).__name__}", where="config.activation_checkpointing_kwargs"
        )
    where = "config.activation_checkpointing_kwargs"
    every = integer(kwargs.get("every_n_layers", 1), f"{where}.every_n_layers", minimum=1, maximum=MAX_BATCH)
    return Checkpoints(on, every, offload=flag(kwargs.get("offload", False), f"{where}.offload"))


def _attention(reader: Reader, facts: ModelFacts) -> str:
    kwargs, model = reader.init_kwargs(), reader.setup.section("model")
    value = kwargs.get("attn_implementation") or model.get("attn") or model.get("attn_implementation")
    return str(value or ("eager" if facts.model_type in NO_SDPA else "sdpa")).lower()


def _liger(reader: Reader) -> bool:
    return any(
        reader.stated(name) is not None and flag(reader.stated(name), f"config.{name}")
        for name in ("use_liger_kernel", "use_liger_loss")
    )


def _delta_kernels(reader: Reader, facts: ModelFacts) -> bool:
    """Whether flash-linear-attention computes a gated delta rule; without it transformers does, at far more memory."""
    if not isinstance(facts.linear, LinearAttention):
        return False
    installed = reader.setup.get("versions.flash_linear_attention")
    if installed is None:
        reader.assume("versions.flash_linear_attention", False, "its version, or false where it is not installed")
    return bool(installed)


def _liger_frees_head(setup: Setup) -> bool:
    """Whether Liger's GRPO loss spares a frozen head its gradient (since liger-kernel 0.8.4); so when nothing says."""
    stated = setup.get("versions.liger_kernel")
    return not isinstance(stated, str) or _release(stated) >= (0, 8, 4)


def _logprob_pass(reader: Reader, engine: Engine, accumulation: int) -> bool:
    if engine.mode != "none" and reader.flag("vllm_importance_sampling_correction", False):
        return True
    if reader.number("beta", 0.0):
        return True  # of the reference policy
    iterations = reader.integer("num_iterations", 1)
    steps = reader.stated("steps_per_generation")
    misaligned = steps is not None and integer(steps, "config.steps_per_generation", minimum=1) != accumulation
    return iterations > 1 or misaligned


def _engine(reader: Reader) -> Engine:
    if not reader.flag("use_vllm", False):
        return Engine()
    mode = reader.stated("vllm_mode") or reader.default("vllm_mode", "colocate")
    if mode not in ("colocate", "server"):
        raise InputError(f"must be colocate or server, got {mode!r:.60}", where="config.vllm_mode")
    utilization = reader.number("vllm_gpu_memory_utilization", 0.9, maximum=1.0)
    length = reader.stated("vllm_max_model_length") or reader.stated("vllm_max_model_len")
    return Engine(
        mode=mode,
        utilization=utilization,
        tensor_parallel=reader.integer("vllm_tensor_parallel_size", 1, maximum=1024),
        max_length=integer(length, "config.vllm_max_model_length", minimum=1, maximum=MAX_LENGTH) if length else 0,
        sleep=mode == "colocate" and reader.flag("vllm_enable_sleep_mode", False),
    )


def _with_length(reader: Reader, engine: Engine, needed: int, context: int) -> Engine:
    """An unset vllm_max_model_length is the model's context; TRL without that option gave prompt and completion."""
    if engine.mode == "none" or engine.max_length:
        return engine
    if engine.mode == "colocate" and "vllm_max_model_length" in reader.defaults:
        stated = reader.setup.get("model.max_position_embeddings")
        if stated is not None:
            context = integer(stated, "setup.model.max_position_embeddings", minimum=1, maximum=MAX_LENGTH)
        if context:
            return replace(engine, max_length=context)
        reader.assume("vllm_max_model_length", needed, "set it: unset, vLLM takes the model's whole context, of which "
                      "its share must hold one sequence, or state model.max_position_embeddings")  # fmt: skip
    return replace(engine, max_length=needed)


def _sharding(reader: Reader) -> Sharding:
    launch, hardware = reader.setup.section("launch"), reader.setup.section("hardware")
    engine = launch.get("engine")
    stage = launch.get("zero_stage", hardware.get("deepspeed_stage"))
    offload = _offload(launch.get("offload"))
    if hardware.get("fsdp_version") is not None or engine == "fsdp" or reader.stated("fsdp"):
        return Sharding("fsdp", 3, offload)
    stated = reader.stated("deepspeed")
    if stage is None and isinstance(stated, Mapping):
        zero = stated.get("zero_optimization")
        stage = zero.get("stage") if isinstance(zero, Mapping) else None
    if stage is None and isinstance(stated, str):
        stage = next((number for number in (3, 2, 1) if f"zero{number}" in stated.lower().replace("_", "")), None)
        if stage is None:
            stage = 3
            reader.assume("launch.zero_stage", 3, "zero_optimization.stage of the DeepSpeed config")
    if stage is None:
        return Sharding("ddp" if engine == "ddp" else "single", 0, offload)
    level = integer(stage, "setup.launch.zero_stage", minimum=0, maximum=3)
    return Sharding("deepspeed" if level or engine == "deepspeed" else "single", level, offload)


def _offload(value: Any) -> frozenset[str]:
    if value is None or value is False:
        return frozenset()
    parts = [value] if isinstance(value, str) else value
    if value is True:
        parts = ["param", "optimizer"]
    if not isinstance(parts, list | tuple) or not all(part in ("param", "optimizer") for part in parts):
        raise InputError("must be a list of 'param' and 'optimizer'", where="setup.launch.offload")
    return frozenset(parts)


def _experts_are_linears(setup: Setup) -> bool:
    # transformers 5 keeps a layer's experts as one parameter, which bitsandbytes and LoRA's all-linear pass over.
    stated = setup.get("versions.transformers")
    return isinstance(stated, str) and stated.split(".")[0] == "4"


def _sync_groups(reader: Reader) -> int:
    """The groups in which ms-swift gathers a sharded model to send it to vLLM; 0 when nothing says."""
    stated = reader.setup.get("launch.move_model_batches")
    stated = reader.stated("move_model_batches") if stated is None else stated
    return 0 if stated is None else integer(stated, "setup.launch.move_model_batches", minimum=1)


def _is_swift(setup: Setup) -> bool:
    # ms-swift's trainer is built on TRL's; among others it can send weights group by group (move_model_batches).
    return "swift" in str(setup.get("launch.framework") or "").lower()
