"""Solving for what still fits: batch, completion length, model, card, number of GPUs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory import known, serving
from grpo_rlvr.memory.answer import estimate
from grpo_rlvr.memory.facts import facts_of_known
from grpo_rlvr.memory.inputs import read_plan
from grpo_rlvr.memory.phases import compute
from grpo_rlvr.memory.plan import Plan
from grpo_rlvr.models.memory import MemoryEstimate, Solved
from grpo_rlvr.models.setup import Setup
from grpo_rlvr.workspace import Workspace

MAX_BATCH = 4096
MAX_COMPLETION = 1_048_576
MAX_GPUS = 64
CANDIDATE_MODELS = (
    "qwen3-0.6b", "qwen2.5-1.5b", "qwen2.5-3b", "qwen3-4b", "qwen2.5-7b", "qwen3-8b", "qwen2.5-14b", "qwen2.5-32b",
    "llama-3.1-70b", "qwen2.5-72b",
)  # fmt: skip


def solve(
    config: Mapping[str, Any], setup: Setup, *, trl_version: str | None = None, workspace: Workspace | None = None
) -> MemoryEstimate:
    """Estimate, and find the largest batch, completion and model and the smallest card and count that fit.

    Each value is sought alone, everything else as given; "fits" is at most 90 % of the card. vLLM's share is held as
    it is, so how full it is does not count.

    Raises:
        InputError: as `estimate`.
    """
    answer = estimate(config, setup, trl_version=trl_version, workspace=workspace)
    plan = read_plan(config, setup, trl_version, workspace)
    return answer.model_copy(update={"solved": solve_plan(plan)})


def solve_plan(plan: Plan) -> Solved:
    """Return the largest or smallest values of a plan that still fit."""
    notes = []
    if not plan.devices.memory_gb:
        notes.append("Without a card's memory only the card itself can be sought.")
    known_card = bool(plan.devices.memory_gb)
    batch = _largest(lambda n: fits(replace(plan, batch=n)), MAX_BATCH) if known_card else None
    completion = _largest(lambda n: fits(with_completion(plan, n)), MAX_COMPLETION) if known_card else None
    whole = _whole_groups(plan, batch) if batch else None
    if batch and whole != batch:
        least = "none up to it does" if whole is None else f"{whole} is the largest that does"
        notes.append(
            f"A per-device batch of {batch} fits but cuts groups of num_generations={plan.generations}: {least}."
        )
    if plan.engine.mode == "colocate" and known_card:
        notes.append(f"vLLM's share of the card is held at {plan.engine.utilization:g}; the levers say what it needs.")
    gpus, why = _fewest_gpus(plan) if known_card else (None, "")
    notes += [why] if why else []
    if known_card and batch is None:
        notes.append("Not even a per-device batch of 1 fits: the weights and states alone are too large.")
    return Solved(
        max_batch=whole,
        max_completion=completion,
        largest_model=_largest_model(plan) if known_card else None,
        smallest_card=_smallest_card(plan),
        min_gpus=gpus,
        notes=notes,
    )


def _whole_groups(plan: Plan, batch: int) -> int | None:
    """Return the largest batch up to one with which a rollout holds whole groups, as TRL wants it; None without any."""
    if plan.version < (0, 15):
        return batch  # there a batch counts prompts
    step = plan.generations // math.gcd(plan.generations, plan.devices.training * plan.generation_steps)
    return batch // step * step or None


def fits(plan: Plan) -> bool:
    """Return whether a plan fits its cards."""
    return compute(plan).card_verdict == "fits"


def with_completion(plan: Plan, tokens: int) -> Plan:
    """Return the plan with another completion length; a vLLM length that followed it follows again."""
    engine = plan.engine
    if engine.max_length == plan.prompt + plan.completion:
        engine = replace(engine, max_length=plan.prompt + tokens)
    return replace(plan, completion=tokens, engine=engine)


def _largest(works: Callable[[int], bool], limit: int) -> int | None:
    """Return the largest n in 1..limit for which a test, true up to some n and false beyond, holds."""
    if not works(1):
        return None
    low, high = 1, 2
    while high <= limit and works(high):
        low, high = high, high * 2
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low


def _largest_model(plan: Plan) -> str | None:
    rows = sorted(CANDIDATE_MODELS, key=lambda name: known.KNOWN[name].params)
    return next((name for name in reversed(rows) if fits(replace(plan, facts=facts_of_known(name)))), None)


def _smallest_card(plan: Plan) -> str | None:
    if plan.on_cpu:
        return None
    for card in sorted(c.CARDS.values(), key=lambda card: card.memory_gb):
        if fits(replace(plan, devices=replace(plan.devices, memory_gb=card.memory_gb, context_gb=card.context_gb))):
            return card.label
    return None


def _fewest_gpus(plan: Plan) -> tuple[int | None, str]:
    if plan.on_cpu:
        return None, ""
    tensor_parallel = plan.engine.tensor_parallel if plan.engine.mode == "colocate" else 1
    for count in range(1, MAX_GPUS + 1):
        if count % tensor_parallel == 0 and fits(_on(plan, count)):
            return count, ""
    if plan.quantized:
        return None, f"More GPUs, up to {MAX_GPUS}, do not help as the run is spread now."
    sharded = replace(plan.sharding, engine="deepspeed", stage=3)
    for count in range(2, MAX_GPUS + 1):
        if fits(replace(_on(plan, count), sharding=sharded)):
            return None, f"More GPUs do not help as the run is spread now; with ZeRO-3 it fits from {count} GPUs on."
    why = f"Does not fit on up to {MAX_GPUS} such GPUs, also not with ZeRO-3"
    if serving.generation_gather(replace(_on(plan, 2), sharding=sharded)) > 0:
        why += ", which gathers all weights on each GPU to generate without vLLM"
    return None, f"{why}."


def _on(plan: Plan, count: int) -> Plan:
    links = plan.devices.nccl_gb or (c.NCCL_GB if count > 1 else 0.0)
    devices = replace(plan.devices, training=count, nccl_gb=links if count > 1 else 0.0)
    engine = plan.sharding.engine
    if plan.sharding.stage == 0:
        engine = "ddp" if count > 1 else "single"
    return replace(plan, devices=devices, sharding=replace(plan.sharding, engine=engine))
