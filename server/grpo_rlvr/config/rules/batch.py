"""Batch arithmetic: whole groups, exclusive options, enough prompts for a rollout."""

from grpo_rlvr.config.batch import Batch
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, rule

GROUP_FIELDS = (
    "num_generations",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "generation_batch_size",
    "hardware.num_processes",
)


@rule(
    "batch-not-divisible-by-group",
    severity="error",
    trl=">=0.18",
    what="A rollout does not divide into whole groups.",
    why="GRPO compares the completions of one prompt; TRL refuses a rollout that would cut a group.",
    bad=Example({"per_device_train_batch_size": 1, "num_generations": 8}),
    good=Example({"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8, "num_generations": 8}),
    sources=("huggingface/trl#2876", "huggingface/open-r1#249", "huggingface/open-r1#236"),
)
def batch_not_divisible_by_group(batch: Batch) -> Outcome:
    if batch.group < 2 or batch.whole_groups:
        return PASS
    return fail(
        *GROUP_FIELDS,
        value=batch.completions,
        message=f"{batch.processes} processes x {batch.per_device} x {batch.steps} micro-steps make {batch.completions} "
        f"completions, no multiple of num_generations={batch.group}.",
    )
