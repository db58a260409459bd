"""Resume: how a checkpoint is taken up again."""

import re

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView

_STEP = re.compile(r"checkpoint-(\d+)")
_CLI = re.compile(r"\btrl\s+grpo\b|trl/scripts/grpo\.py|trl\.scripts\.grpo")


def resumes(config: ConfigView, facts: Facts) -> bool:
    """Return whether the call of train() takes up a checkpoint."""
    call = facts.text("launch.train_call") or ""
    match = re.search(r"resume_from_checkpoint\s*=\s*([^,)]+)", call)
    return match is not None and match.group(1).strip() not in ("None", "False")


@rule(
    "resume-not-passed-to-train",
    severity="error",
    what="resume_from_checkpoint is set in the config only.",
    why="The trainer never reads it there, not even to see whether the path exists: training silently starts over. "
    "Only an argument of train() resumes.",
    bad=Example({"resume_from_checkpoint": "out/checkpoint-50"}, {"launch": {"train_call": "trainer.train()"}}),
    good=Example(
        {"resume_from_checkpoint": "out/checkpoint-50"},
        {"launch": {"train_call": "trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)"}},
    ),
    sources=("huggingface/trl#3179",),
)
def resume_not_passed_to_train(config: ConfigView, facts: Facts) -> Outcome:
    wanted = config.effective("resume_from_checkpoint")
    if wanted in (None, False, "", "None", "False"):
        return PASS
    call = facts.text("launch.train_call")
    if call is None and _CLI.search(facts.text("launch.command") or "") and facts.trl_is(">=1.14"):
        return PASS
    if call is not None and ("resume_from_checkpoint" in call or re.search(r"train\(\s*[^\s)]", call)):
        return PASS
    said = f"the call is {call}" if call is not None else "no call of train() that passes it is stated"
    return fail(
        "resume_from_checkpoint",
        "launch.train_call",
        value=wanted,
        message=f"resume_from_checkpoint={wanted!r} in GRPOConfig does nothing by itself, and {said}. Call "
        "trainer.train(resume_from_checkpoint=...).",
    )


@rule(
    "resume-into-empty-buffer",
    severity="error",
    trl=">=0.16,<0.17",
    what="Resuming between two rollouts of a run that reuses them.",
    why="TRL 0.16 makes a rollout only where the step is a multiple of num_iterations; resumed elsewhere it finds an "
    "empty buffer and passes None to the loss.",
    bad=Example(
        {"num_iterations": 4},
        {
            "launch": {"train_call": "trainer.train(resume_from_checkpoint='out/checkpoint-50')"},
            "versions": {"trl": "0.16.0"},
        },
    ),
    good=Example(
        {"num_iterations": 4},
        {
            "launch": {"train_call": "trainer.train(resume_from_checkpoint='out/checkpoint-48')"},
            "versions": {"trl": "0.16.0"},
        },
    ),
    sources=("huggingface/trl#3148",),
)
def resume_into_empty_buffer(config: ConfigView, facts: Facts) -> Outcome:
    iterations = config.integer("num_iterations") or 1
    if iterations <= 1 or not resumes(config, facts):
        return PASS
    step = _STEP.search(facts.text("launch.train_call") or "")
    if step is None:
        return not_applicable("launch.train_call states no step of the checkpoint")
    if int(step.group(1)) % iterations == 0:
        return PASS
    return fail(
        "num_iterations",
        "launch.train_call",
        "resume_from_checkpoint",
        value=iterations,
        message=f"Step {step.group(1)} is no multiple of num_iterations={iterations}, and TRL 0.16 resumes into an "
        "empty buffer there. Resume from a multiple, set num_iterations=1, or use trl>=0.17.",
    )


@rule(
    "resume-without-engine-state",
    severity="error",
    what="Resuming under DeepSpeed from checkpoints that are saved without the optimizer.",
    why="save_only_model leaves out DeepSpeed's own state (global_step folders), and DeepSpeed then finds no valid "
    "checkpoint: ValueError before the first step.",
    bad=Example(
        {"save_only_model": True},
        {
            "launch": {"train_call": "trainer.train(resume_from_checkpoint=True)"},
            "hardware": {"deepspeed_stage": 3},
        },
    ),
    good=Example(
        {"save_only_model": False},
        {
            "launch": {"train_call": "trainer.train(resume_from_checkpoint=True)"},
            "hardware": {"deepspeed_stage": 3},
        },
    ),
    sources=("huggingface/open-r1#553", "huggingface/transformers:src/transformers/integrations/deepspeed.py"),
)
def resume_without_engine_state(config: ConfigView, facts: Facts) -> Outcome:
    engine = facts.zero_stage or config.effective("deepspeed")
    if not config.flag("save_only_model") or not engine or not resumes(config, facts):
        return PASS
    return fail(
        "save_only_model",
        "launch.train_call",
        "hardware.deepspeed_stage",
        value=True,
        message="DeepSpeed cannot resume from a checkpoint that save_only_model=True wrote. Set it to False in the run "
        "that saves, or start a new run from the saved model.",
    )


@rule(
    "resume-without-optimizer-state",
    severity="warning",
    what="Resuming from checkpoints that are saved without the optimizer.",
    why="save_only_model leaves out optimizer, scheduler and random state, so a resumed run starts its schedule anew.",
    bad=Example({"save_only_model": True}, {"launch": {"train_call": "trainer.train(resume_from_checkpoint=True)"}}),
    good=Example({}, {"launch": {"train_call": "trainer.train(resume_from_checkpoint=True)"}}),
    sources=("huggingface/transformers:src/transformers/training_args.py",),
    requires=("resume-without-engine-state",),
)
def resume_without_optimizer_state(config: ConfigView, facts: Facts) -> Outcome:
    if not config.flag("save_only_model") or not resumes(config, facts):
        return PASS
    return fail(
        "save_only_model",
        "launch.train_call",
        value=True,
        message="save_only_model=True stores no optimizer state, and the run resumes from a checkpoint. Set it to "
        "False in the run that saves.",
    )


RULES = (
    resume_not_passed_to_train,
    resume_into_empty_buffer,
    resume_without_engine_state,
    resume_without_optimizer_state,
)
