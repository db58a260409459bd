"""Batch arithmetic: whole groups, exclusive options, enough prompts for a rollout."""

import math

from grpo_rlvr.config.batch import Batch
from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView

GROUP_FIELDS = (
    "num_generations",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "generation_batch_size",
    "hardware.num_processes",
)
ONE = {"hardware": {"num_processes": 1}}


@rule(
    "group-smaller-than-two",
    severity="error",
    what="A group of fewer than two completions.",
    why="The advantage is a completion's reward relative to its group; alone, it is always zero.",
    bad=Example({"per_device_train_batch_size": 1, "num_generations": 1}),
    good=Example({"per_device_train_batch_size": 8, "num_generations": 8}),
    sources=("modelscope/ms-swift#3980", "trl/trainer/grpo_config.py"),
)
def group_smaller_than_two(config: ConfigView) -> Outcome:
    group = config.effective("num_generations")
    if isinstance(group, int) and group >= 2:
        return PASS
    return fail(
        "num_generations",
        value=group,
        message=f"num_generations={group}: a group needs at least 2 completions (8 is the default).",
    )


@rule(
    "both-rollout-sizes-set",
    severity="error",
    trl=">=0.18",
    what="generation_batch_size and steps_per_generation are both set.",
    why="They set the same quantity; TRL raises ValueError.",
    bad=Example({"generation_batch_size": 32, "steps_per_generation": 4}, ONE),
    good=Example({"steps_per_generation": 4}, ONE),
    sources=("trl/trainer/grpo_config.py",),
    fix_safety="Safe when both say the same size.",
)
def both_rollout_sizes_set(config: ConfigView, batch: Batch) -> Outcome:
    size, steps = config.effective("generation_batch_size"), config.effective("steps_per_generation")
    if size is None or steps is None:
        return PASS
    return fail(
        "generation_batch_size",
        "steps_per_generation",
        value=size,
        message=f"generation_batch_size={size} and steps_per_generation={steps} exclude each other: keep one.",
        unset=("generation_batch_size",),
        safe=size == batch.micro * steps,
    )


@rule(
    "rollout-not-whole-micro-batches",
    severity="error",
    trl=">=0.18",
    requires=("both-rollout-sizes-set", "value-out-of-range"),
    what="generation_batch_size is no multiple of processes x per_device_train_batch_size.",
    why="A rollout is cut into micro-batches; TRL raises ValueError when they do not come out whole.",
    bad=Example({"per_device_train_batch_size": 8, "num_generations": 4, "generation_batch_size": 20}, ONE),
    good=Example({"per_device_train_batch_size": 8, "num_generations": 4, "generation_batch_size": 24}, ONE),
    sources=("trl/trainer/grpo_config.py",),
)
def rollout_not_whole_micro_batches(config: ConfigView, batch: Batch) -> Outcome:
    size = config.integer("generation_batch_size")
    if size is None or size % batch.micro == 0:
        return PASS
    step = math.lcm(batch.micro, batch.group)
    near = sorted({max(step, size // step * step), math.ceil(size / step) * step})
    return fail(
        "generation_batch_size",
        "per_device_train_batch_size",
        "hardware.num_processes",
        value=size,
        message=f"generation_batch_size={size} is no multiple of {_count(batch.processes)} x {batch.per_device} = "
        f"{batch.micro}; allowed near it, in whole groups of {batch.group}: {', '.join(map(str, near))}.",
        set={"generation_batch_size": near[0]},
    )


def _count(processes: int) -> str:
    return f"{processes} process{'' if processes == 1 else 'es'}"


def _group_message(batch: Batch, parts: str) -> str:
    fitting = [size for size in range(2, min(batch.completions, 64) + 1) if batch.completions % size == 0]
    sizes = f" num_generations that fit: {', '.join(map(str, fitting))}." if fitting else ""
    count = f"{batch.processes} {'is' if batch.processes == 1 else 'are'}"
    assumed = "" if batch.facts.processes_known else f" (the number of processes is not stated, {count} assumed)"
    server = " GPUs of a vLLM server do not count." if batch.facts.server else ""
    return (
        f"{parts} = {batch.completions} completions a rollout{assumed}, no multiple of num_generations={batch.group}."
        f"{sizes}{server}"
    )


@rule(
    "batch-not-divisible-by-group",
    severity="error",
    trl=">=0.17",
    requires=("group-smaller-than-two", "both-rollout-sizes-set", "rollout-not-whole-micro-batches"),
    what="A rollout does not divide into whole groups.",
    why="GRPO compares the completions of one prompt; TRL refuses a rollout that would cut a group.",
    bad=Example({"per_device_train_batch_size": 1, "num_generations": 8}, ONE),
    good=Example({"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8, "num_generations": 8}, ONE),
    sources=(
        "huggingface/trl#2876",
        "huggingface/open-r1#249",
        "huggingface/open-r1#236",
        "trl/trainer/grpo_config.py",
    ),
    fix_safety="Changes the batch, and with it what an update averages over.",
)
def batch_not_divisible_by_group(config: ConfigView, batch: Batch, facts: Facts) -> Outcome:
    if facts.unsloth:
        return not_applicable("unsloth fits the batch to the group itself")
    if batch.whole_groups:
        return PASS
    steps = batch.group // math.gcd(batch.micro, batch.group)
    own = config.exists("generation_batch_size") and config.effective("generation_batch_size") is not None
    stepped = config.exists("steps_per_generation") and config.effective("steps_per_generation") is not None
    name, value, step, completions = (
        ("generation_batch_size", batch.completions, batch.micro * steps, 1)
        if own
        else ("steps_per_generation", batch.steps, steps, batch.micro)
        if stepped
        else ("gradient_accumulation_steps", batch.accumulation, steps, batch.micro)
    )
    near = _neighbours(value, step)
    kept = ""
    if name == "gradient_accumulation_steps" and config.exists("steps_per_generation"):
        rollout = math.lcm(steps, batch.accumulation)
        kept = (
            f" steps_per_generation={rollout} keeps {batch.completions} completions an update: a rollout of "
            f"{batch.micro * rollout} then feeds {rollout // batch.accumulation} updates."
        )
    parts = f"{_count(batch.processes)} x {batch.per_device} x {batch.steps} micro-steps"
    return fail(
        *GROUP_FIELDS,
        value=batch.completions,
        message=f"{_group_message(batch, parts)} Or set {_or(name, near, completions)}.{kept}",
        set={name: near[-1]},
    )


def _neighbours(value: int, step: int) -> list[int]:
    """Return the multiples of `step` next to `value`, the smaller first, leaving out zero."""
    return [near for near in (value // step * step, (value // step + 1) * step) if near]


def _or(name: str, values: list[int], completions: int) -> str:
    """Return the choices in words, with the completions of a rollout that each makes."""
    first, *more = [f"{value} ({value * completions} completions)" for value in values]
    return " or ".join([f"{name}={first}", *more])


@rule(
    "micro-batch-not-divisible-by-group",
    severity="error",
    trl=">=0.15,<0.17",
    requires=("group-smaller-than-two",),
    what="processes x per_device_train_batch_size is no multiple of num_generations, in a TRL where accumulation "
    "does not count.",
    why="Up to 0.16 a group must lie inside one micro-step over all processes; the trainer raises ValueError.",
    bad=Example(
        {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8, "num_generations": 8},
        {"versions": {"trl": "0.15.2"}, **ONE},
    ),
    good=Example({"per_device_train_batch_size": 8, "num_generations": 8}, {"versions": {"trl": "0.15.2"}, **ONE}),
    sources=("huggingface/trl#2858",),
    fix_safety="Changes the batch, and with it what an update averages over.",
)
def micro_batch_not_divisible_by_group(batch: Batch, facts: Facts) -> Outcome:
    if facts.unsloth:
        return not_applicable("unsloth fits the batch to the group itself")
    if batch.whole_groups:
        return PASS
    near = _neighbours(batch.per_device, batch.group // math.gcd(batch.processes, batch.group))
    choices = _or("per_device_train_batch_size", near, batch.processes)
    return fail(
        "num_generations",
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "hardware.num_processes",
        value=batch.completions,
        message=f"{_group_message(batch, f'{_count(batch.processes)} x {batch.per_device}')} Accumulation does not "
        f"count before 0.17: set {choices}, or upgrade.",
        set={"per_device_train_batch_size": near[-1]},
    )


@rule(
    "device-batch-counts-prompts",
    severity="info",
    trl="<0.15",
    what="In TRL 0.14 per_device_train_batch_size counts prompts, not completions.",
    why="The same numbers mean a batch num_generations times as large as in any later version.",
    bad=Example({"per_device_train_batch_size": 8, "num_generations": 8}, {"versions": {"trl": "0.14.0"}}),
    good=Example({"per_device_train_batch_size": 1, "num_generations": 8}, {"versions": {"trl": "0.14.0"}}),
    sources=("huggingface/trl#2776", "huggingface/trl#2876"),
)
def device_batch_counts_prompts(batch: Batch) -> Outcome:
    if batch.per_device == 1:
        return PASS
    return fail(
        "per_device_train_batch_size",
        "num_generations",
        value=batch.per_device,
        message=f"{batch.per_device} prompts a device and micro-step make {batch.per_device * batch.group} "
        "completions in TRL "
        "0.14; from 0.15 on the same number counts completions.",
    )


@rule(
    "batch-size-search",
    severity="error",
    what="auto_find_batch_size is on.",
    why="Halving the batch after an out-of-memory error breaks the groups: a refusal since 1.9, a random crash before.",
    bad=Example({"auto_find_batch_size": True}),
    good=Example({"per_device_train_batch_size": 4, "num_generations": 4}),
    sources=("huggingface/trl#3842", "huggingface/trl#6411"),
    fix_safety="Safe: with the option on the run cannot work.",
)
def batch_size_search(config: ConfigView) -> Outcome:
    if not config.flag("auto_find_batch_size"):
        return PASS
    return fail(
        "auto_find_batch_size",
        value=True,
        message="auto_find_batch_size cannot keep groups whole: drop it and lower per_device_train_batch_size "
        "yourself.",
        unset=("auto_find_batch_size",),
        safe=True,
    )


@rule(
    "rollout-larger-than-dataset",
    severity="error",
    requires=("batch-not-divisible-by-group", "micro-batch-not-divisible-by-group"),
    what="One rollout needs more unique prompts than the dataset has rows.",
    why="The sampler drops incomplete rollouts, so none is made: training ends after 0 steps with a log line only.",
    bad=Example({"per_device_train_batch_size": 16, "num_generations": 4}, {"dataset": {"rows": 3}, **ONE}),
    good=Example({"per_device_train_batch_size": 4, "num_generations": 4}, {"dataset": {"rows": 3}, **ONE}),
    sources=("huggingface/trl#4271",),
)
def rollout_larger_than_dataset(facts: Facts, batch: Batch) -> Outcome:
    rows = facts.dataset_rows
    if rows is None or facts.setup.get("dataset.streaming") is True:
        return not_applicable("dataset.rows is not stated, or the dataset is streamed")
    if batch.prompts <= rows:
        return PASS
    return fail(
        "dataset.rows",
        "per_device_train_batch_size",
        "generation_batch_size",
        "steps_per_generation",
        "gradient_accumulation_steps",
        "num_generations",
        "hardware.num_processes",
        value=rows,
        message=f"A rollout takes {batch.completions} completions / {batch.group} = {batch.prompts} prompts, and the "
        "dataset has "
        f"{rows} rows: no rollout is ever complete. Lower the batch to at most {rows} prompts, or add rows.",
    )


@rule(
    "dataset-tail-dropped",
    severity="info",
    requires=("rollout-larger-than-dataset", "batch-not-divisible-by-group", "micro-batch-not-divisible-by-group"),
    what="The dataset is no multiple of the prompts of a rollout.",
    why="The rows of the last, incomplete rollout are left out of every epoch (shuffling changes which).",
    bad=Example({"per_device_train_batch_size": 16, "num_generations": 4}, {"dataset": {"rows": 7}, **ONE}),
    good=Example({"per_device_train_batch_size": 16, "num_generations": 4}, {"dataset": {"rows": 8}, **ONE}),
    sources=("huggingface/trl#3477",),
)
def dataset_tail_dropped(facts: Facts, batch: Batch) -> Outcome:
    rows = facts.dataset_rows
    if rows is None or not batch.prompts:
        return not_applicable("dataset.rows is not stated")
    tail = rows % batch.prompts
    if not tail:
        return PASS
    return fail(
        "dataset.rows",
        "per_device_train_batch_size",
        value=rows,
        message=f"{rows} rows make {rows // batch.prompts} rollouts of {batch.prompts} prompts; {tail} are dropped "
        "each epoch.",
    )


RULES = (
    group_smaller_than_two,
    both_rollout_sizes_set,
    rollout_not_whole_micro_batches,
    batch_not_divisible_by_group,
    micro_batch_not_divisible_by_group,
    device_batch_counts_prompts,
    batch_size_search,
    rollout_larger_than_dataset,
    dataset_tail_dropped,
)
