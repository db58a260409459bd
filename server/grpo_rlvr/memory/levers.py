"""Levers: config changes ranked by what they save for this config, each computed by estimating the changed config."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory import serving
from grpo_rlvr.memory import terms as t
from grpo_rlvr.memory.families import NO_SDPA
from grpo_rlvr.memory.phases import Computed, share_for
from grpo_rlvr.memory.plan import Plan
from grpo_rlvr.models.memory import Alternative, Lever
from grpo_rlvr.models.setup import Setup

# Below this a lever is not worth a line.
MIN_SAVING_GB = 0.05
# From best to worst.
VERDICTS = ("fits", "tight", "does_not_fit")
Again = Callable[..., Computed]
# TRL versions in which a vLLM that wakes up reloads the checkpoint that the run started from (huggingface/trl#5312):
# from the first to before the second in every run, from the third on where an update has several rollouts.
SLEEP_RELOADS = ((0, 29), (1, 10), (0, 26))


@dataclass(frozen=True)
class Change:
    """A candidate: config fields to set and drop, what it costs, whether the objective stays the same."""

    text: str
    cost: str
    set: Mapping[str, Any] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    safe: bool = True

    def apply(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changed config."""
        kept = {key: value for key, value in config.items() if key not in self.unset}
        return kept | dict(self.set)


SERVER = Change(
    "vLLM in server mode on another GPU", "Takes at least one more GPU, which idles while the others train.",
    {"vllm_mode": "server"},
    (
        "vllm_gpu_memory_utilization", "vllm_enable_sleep_mode", "vllm_tensor_parallel_size", "vllm_max_model_length",
        "vllm_max_model_len",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Outside:
    """A candidate outside the config: setup keys as dotted paths, the TRL version, config fields that go with it."""

    text: str
    cost: str
    setup: Mapping[str, Any]
    version: str | None = None
    change: Change | None = None


def find_levers(now: Computed, config: Mapping[str, Any], again: Again) -> list[Lever]:
    """Return the config changes that lower the peak, safe ones first, then by what they save."""
    levers = []
    for change in _candidates(now, config):
        after = again(change.apply(config))
        saved = now.peak_gb - after.peak_gb
        if (saved < MIN_SAVING_GB and not _better(after, now)) or (_whole(now.plan) and not _whole(after.plan)):
            continue
        levers.append(
            Lever(
                change=change.text,
                set=dict(change.set),
                unset=[name for name in change.unset if name in config],
                saves_gb=round(max(saved, 0.0), 3),
                peak_gb=round(after.peak_gb, 3),
                verdict=after.verdict,
                cost=change.cost,
                safe=change.safe,
            )
        )
    return sorted(levers, key=lambda lever: (not lever.safe, -lever.saves_gb))


def _whole(plan: Plan) -> bool:
    """Whether a rollout holds whole groups, which TRL demands."""
    completions = plan.batch * plan.generation_steps * plan.devices.training
    return plan.version < (0, 15) or completions % plan.generations == 0


def _better(after: Computed, now: Computed) -> bool:
    if "unknown" in (after.verdict, now.verdict):
        return False
    return VERDICTS.index(after.verdict) < VERDICTS.index(now.verdict)


def _candidates(now: Computed, config: Mapping[str, Any]) -> Iterator[Change]:
    from grpo_rlvr.config import table

    known = table(now.plan.trl_version)
    for change in (*_batch(now.plan, config), *_training(now.plan, config), *_engine(now, config), *_data(now.plan)):
        if all(name in known or name in config for name in change.set):
            yield change


def _batch(plan: Plan, config: Mapping[str, Any]) -> Iterator[Change]:
    seen = set()
    for batch in (plan.batch // 2, 1):
        if batch < 1 or plan.batch % batch or batch in seen or batch == plan.batch:
            continue
        seen.add(batch)
        factor = plan.batch // batch
        changes: dict[str, Any] = {
            "per_device_train_batch_size": batch, "gradient_accumulation_steps": plan.accumulation * factor,
        }  # fmt: skip
        if config.get("steps_per_generation") is not None:
            changes["steps_per_generation"] = plan.generation_steps * factor
        yield Change(
            f"per_device_train_batch_size {plan.batch} -> {batch}, with {factor} x the accumulation",
            "Same batch for the optimizer; more, smaller forward and backward passes, so slower.",
            changes,
        )


def _training(plan: Plan, config: Mapping[str, Any]) -> Iterator[Change]:
    if not plan.checkpointing:
        # The newer name wins where it is stated.
        name = "activation_checkpointing" if "activation_checkpointing" in config else "gradient_checkpointing"
        yield Change(
            "gradient checkpointing on", "Every layer's forward runs twice: about a third more time a step.",
            {name: True},
        )  # fmt: skip
    if plan.attention == "eager" and plan.facts.model_type not in NO_SDPA:
        yield Change(
            "sdpa instead of eager attention", "None; it is also faster.",
            {"model_init_kwargs": {**_init_kwargs(config), "attn_implementation": "sdpa"}},
        )  # fmt: skip
    if plan.attention == "eager" and plan.facts.model_type == "gemma2" and not plan.on_cpu:
        yield Change(
            "flash instead of eager attention", "Needs the flash-attn package; it is also faster.",
            {"model_init_kwargs": {**_init_kwargs(config), "attn_implementation": "flash_attention_2"}},
        )  # fmt: skip
    master = plan.sharding.engine == "deepspeed" and plan.sharding.stage > 0
    if t.WIDTH[plan.dtype] == 4 and (not plan.full or master) and plan.autocast != "float16" and not plan.on_cpu:
        kwargs = {key: value for key, value in _init_kwargs(config).items() if key != "torch_dtype"}
        yield Change(
            "load the frozen weights in bfloat16", "None for LoRA: the adapters stay in float32.",
            {"model_init_kwargs": {**kwargs, "dtype": "bfloat16"}},
        )  # fmt: skip
    if "8bit" not in plan.optim and "optimizer" not in plan.sharding.offload and not (master or plan.on_cpu):
        yield Change(
            f"8-bit AdamW instead of {plan.optim}", "Needs bitsandbytes; states are rounded to 8 bits in blocks.",
            {"optim": "adamw_8bit"},
        )  # fmt: skip
    if not t.is_paged(plan) and "optimizer" not in plan.sharding.offload and not (master or plan.on_cpu):
        yield Change(
            "paged 8-bit AdamW, whose states give way to host memory",
            "Needs bitsandbytes; when the card is full every step moves the states over the bus.",
            {"optim": "paged_adamw_8bit"},
        )  # fmt: skip


def _init_kwargs(config: Mapping[str, Any]) -> Mapping[str, Any]:
    value = config.get("model_init_kwargs")
    return value if isinstance(value, Mapping) else {}


def _engine(now: Computed, config: Mapping[str, Any]) -> Iterator[Change]:
    plan = now.plan
    if plan.engine.mode != "colocate":
        return
    if not plan.engine.sleep and not _wakes_with_old_weights(plan):
        yield Change(
            "vLLM sleeps while training", "A few seconds a step to wake up and load the weights again.",
            {"vllm_enable_sleep_mode": True},
        )  # fmt: skip
    yield from _pool_size(now)
    if _server_gpus(plan) == 1 < plan.devices.total or not plan.devices.total:
        yield SERVER


def _server_gpus(plan: Plan) -> int:
    """The fewest of the stated GPUs for a server that leave trainers with whole groups, 0 where none do."""
    total, each = plan.devices.total, plan.batch * plan.generation_steps
    return next((n for n in range(1, total) if (total - n) * each % plan.generations == 0), 0)


def _wakes_with_old_weights(plan: Plan) -> bool:
    first, mended, several = SLEEP_RELOADS
    rollouts = plan.generation_steps < plan.accumulation
    return first <= plan.version < mended or (rollouts and several <= plan.version < first)


def _pool_size(now: Computed) -> Iterator[Change]:
    plan = now.plan
    if not plan.devices.memory_gb:
        return
    more = serving.generated_sequence(plan) * (now.wanted_sequences - 1)
    safe = now.pool_needs / c.FITS_SHARE
    seen = set()
    for size, text, cost in (
        (max(now.pool_needs + more, safe), "room for all sequences at once", "None in speed."),
        (now.pool_needs, "room for one sequence at a time", "Generation is queued, so slower."),
    ):
        utilization = share_for(plan, size)
        # Rounded up, the least share of a small model holds all its sequences already.
        roomy = utilization * plan.devices.memory_gb * c.GB >= now.pool_needs + more
        if utilization in seen or (size == now.pool_needs and roomy):
            continue
        seen.add(utilization)
        short = now.pool_too_small or now.pool_tight
        if utilization < plan.engine.utilization or (short and utilization < 0.95):
            yield Change(
                f"vLLM's share {plan.engine.utilization:g} -> {utilization:g} ({text})", cost,
                {"vllm_gpu_memory_utilization": utilization},
            )  # fmt: skip
    needed = plan.prompt + plan.completion
    if plan.engine.max_length > needed:
        yield Change(
            f"vllm_max_model_length {needed}", "Prompts beyond the stated length are refused.",
            {"vllm_max_model_length": needed},
        )  # fmt: skip


def _data(plan: Plan) -> Iterator[Change]:
    if plan.completion >= 128:
        yield Change(
            f"max_completion_length {plan.completion} -> {plan.completion // 2}",
            "Longer answers are cut off, and a cut answer usually earns no reward.",
            {"max_completion_length": plan.completion // 2}, safe=False,
        )  # fmt: skip
    if plan.full and plan.beta > 0:
        yield Change(
            "beta 0: no reference policy", "No KL penalty keeps the policy near the start.", {"beta": 0.0}, safe=False
        )
    if serving.generation_gather(plan) > 0:
        yield Change(
            "generate from sharded weights", "Layers are gathered for every token: generation is many times slower.",
            {"ds3_gather_for_generation": False},
        )  # fmt: skip
    if plan.engine.mode == "none" and plan.generation_steps > 1:
        yield Change(
            "generate one micro-batch at a time", "Fewer sequences share a decoding step, so generation is slower.",
            {"steps_per_generation": 1}, ("generation_batch_size",), safe=False,
        )  # fmt: skip


def find_alternatives(now: Computed, config: Mapping[str, Any], setup: Setup, again: Again) -> list[Alternative]:
    """Return the changes outside the config that lower the peak, by what they save."""
    found = []
    for item in _outside(now):
        inner = item.change
        after = again(inner.apply(config) if inner else config, _changed(setup, item.setup), item.version)
        saved = now.peak_gb - after.peak_gb
        if saved < MIN_SAVING_GB:
            continue
        found.append(
            Alternative(
                change=item.text,
                setup=dict(item.setup),
                set=dict(inner.set) if inner else {},
                unset=[name for name in inner.unset if name in config] if inner else [],
                saves_gb=round(saved, 3),
                peak_gb=round(after.peak_gb, 3),
                verdict=after.verdict,
                cost=item.cost,
            )
        )
    return sorted(found, key=lambda item: -item.saves_gb)


def _outside(now: Computed) -> Iterator[Outside]:
    plan = now.plan
    if plan.full:
        yield Outside(
            "LoRA, rank 16, on all linears", "Trains 1 % of the parameters; wants a 10 x higher learning rate.",
            {"model.peft": True, "model.lora_r": 16, "model.lora_targets": "all-linear", "model.dtype": "bfloat16"},
        )  # fmt: skip
    if not plan.quantized and not plan.on_cpu and plan.sharding.stage < 3:
        yield Outside(
            "QLoRA: 4-bit base with LoRA", "Slower steps; with vLLM each sync loses precision.",
            {"model.peft": True, "model.quantized": "nf4", "model.lora_r": plan.lora.rank if plan.lora else 16,
             "model.lora_targets": "all-linear", "model.dtype": "bfloat16"},
        )  # fmt: skip
    yield from _more_gpus(plan)
    if plan.version < (1, 15) and not plan.streamed_sync:  # ms-swift runs with older ones alone
        yield Outside(
            "TRL 1.15 or newer", "An upgrade; check the config against the new version.", {"versions.trl": "1.16.0"},
            version="1.16.0",
        )  # fmt: skip


def _more_gpus(plan: Plan) -> Iterator[Outside]:
    sharded = {"launch.zero_stage": 3, "launch.engine": "deepspeed"}
    if plan.devices.training > 1 and plan.sharding.stage < 3 and not plan.quantized:
        cost = "Weights are gathered layer by layer, so slower steps."
        yield Outside("ZeRO-3 over the same GPUs", cost, sharded)
    if plan.devices.training == 1 and not plan.quantized and not plan.on_cpu and plan.full:
        yield Outside("ZeRO-3 over 8 such GPUs", "Takes 8 GPUs.", {**sharded, "hardware.gpus": 8})
    if plan.engine.mode != "colocate":
        return
    if plan.devices.total == 1:
        cost = "Takes a second GPU, which idles while the first trains."
        yield Outside("vLLM in server mode on a second GPU", cost, {"hardware.gpus": 2}, change=SERVER)
    if (server := _server_gpus(plan)) > 1:
        text = f"vLLM in server mode on {server} of the GPUs, so that groups stay whole"
        yield Outside(text, SERVER.cost, {"hardware.num_processes": plan.devices.total - server}, change=SERVER)


def _changed(setup: Setup, changes: Mapping[str, Any]) -> Setup:
    sections = {key: dict(value) if isinstance(value, Mapping) else value for key, value in setup.sections.items()}
    for dotted, value in changes.items():
        section, key = dotted.split(".")
        if not isinstance(sections.get(section), dict):
            sections[section] = {}
        sections[section][key] = value
    return Setup(sections, setup.unused)
