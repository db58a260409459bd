"""The learning-rate schedule: arguments that its function needs, and arguments that it does not take."""

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, rule
from grpo_rlvr.config.view import ConfigView

WITH_FLOOR = ("cosine_with_min_lr", "cosine_warmup_with_min_lr")
# What each schedule takes through lr_scheduler_kwargs in any transformers since 4.46. Those that take everything
# (reduce_lr_on_plateau, greedy) or read nothing (constant, constant_with_warmup, inverse_sqrt) are not here.
TAKES: dict[str, frozenset[str]] = {
    "linear": frozenset({"last_epoch"}),
    "cosine": frozenset({"num_cycles", "last_epoch"}),
    "cosine_with_restarts": frozenset({"num_cycles", "last_epoch"}),
    "polynomial": frozenset({"lr_end", "power", "last_epoch"}),
    "cosine_with_min_lr": frozenset({"num_cycles", "min_lr", "min_lr_rate", "last_epoch"}),
    "cosine_warmup_with_min_lr": frozenset({"num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate", "last_epoch"}),
    "warmup_stable_decay": frozenset(
        {
            "num_decay_steps",
            "num_stable_steps",
            "warmup_type",
            "decay_type",
            "min_lr_ratio",
            "num_cycles",
            "last_epoch",
        }
    ),
}
POLYNOMIAL_END = 1e-7


@rule(
    "scheduler-argument-missing",
    severity="error",
    what="A learning-rate schedule without the lr_scheduler_kwargs that it needs.",
    why="Nothing checks it when the config is built; the schedule raises when training starts, after the model has "
    "been loaded.",
    bad=Example({"lr_scheduler_type": "cosine_with_min_lr"}),
    good=Example({"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr_rate": 0.1}}),
    sources=("huggingface/transformers:src/transformers/optimization.py",),
)
def scheduler_argument_missing(config: ConfigView, facts: Facts) -> Outcome:
    schedule = config.text("lr_scheduler_type")
    given = {name for name, value in config.mapping("lr_scheduler_kwargs").items() if value is not None}
    floors = given & {"min_lr", "min_lr_rate"}
    wanted = ""
    if schedule in WITH_FLOOR and len(floors) != 1:
        wanted = "one of min_lr and min_lr_rate" if not floors else "min_lr or min_lr_rate, not both"
    if schedule == "warmup_stable_decay":
        early = ("num_stable_steps", "num_decay_steps") if facts.transformers_is("<4.49") else ("num_decay_steps",)
        wanted = " and ".join(name for name in early if name not in given)
    if not wanted:
        return PASS
    return fail(
        "lr_scheduler_kwargs",
        "lr_scheduler_type",
        value=schedule,
        message=f"lr_scheduler_type={schedule} needs {wanted} in lr_scheduler_kwargs.",
    )


@rule(
    "scheduler-argument-unknown",
    severity="error",
    what="lr_scheduler_kwargs holds an argument that the schedule does not take.",
    why="The schedule's function raises TypeError when training starts, after the model has been loaded.",
    bad=Example({"lr_scheduler_type": "cosine", "lr_scheduler_kwargs": {"min_lr_rate": 0.1}}),
    good=Example({"lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs": {"min_lr_rate": 0.1}}),
    sources=("huggingface/transformers:src/transformers/optimization.py",),
    fix_safety="Another schedule, or none of what was asked for.",
)
def scheduler_argument_unknown(config: ConfigView) -> Outcome:
    schedule = config.text("lr_scheduler_type") or ""
    kwargs = config.mapping("lr_scheduler_kwargs")
    known = TAKES.get(schedule)
    wrong = [name for name in kwargs if known is not None and name not in known]
    if not wrong:
        return PASS
    floor = schedule == "cosine" and {"min_lr", "min_lr_rate"} & set(wrong)
    other = " lr_scheduler_type='cosine_with_min_lr' takes it." if floor else ""
    return fail(
        *(f"lr_scheduler_kwargs.{name}" for name in wrong),
        "lr_scheduler_kwargs",
        "lr_scheduler_type",
        value={name: kwargs[name] for name in wrong},
        message=f"lr_scheduler_type={schedule} takes no {', '.join(wrong)}.{other}",
        set={"lr_scheduler_type": "cosine_with_min_lr"} if floor else {},
    )


@rule(
    "scheduler-end-above-rate",
    severity="error",
    what="A polynomial schedule that would end above the learning rate.",
    why="It ends at lr_end, 1e-7 unless told otherwise, and raises ValueError when that is not below learning_rate.",
    bad=Example({"lr_scheduler_type": "polynomial", "learning_rate": 5e-8}),
    good=Example({"lr_scheduler_type": "polynomial", "learning_rate": 5e-7}),
    sources=("huggingface/transformers:src/transformers/optimization.py",),
)
def scheduler_end_above_rate(config: ConfigView) -> Outcome:
    rate, end = config.number("learning_rate"), config.mapping("lr_scheduler_kwargs").get("lr_end", POLYNOMIAL_END)
    if config.text("lr_scheduler_type") != "polynomial" or rate is None or not isinstance(end, int | float):
        return PASS
    if rate > end:
        return PASS
    return fail(
        "lr_scheduler_kwargs",
        "lr_scheduler_type",
        "learning_rate",
        value=end,
        message=f"lr_scheduler_type=polynomial ends at lr_end={end:g}, which is not below learning_rate={rate:g}.",
    )


@rule(
    "warm-up-outlasts-run",
    severity="info",
    what="As many steps of warm-up as max_steps allows, or more.",
    why="The rate still rises when the run ends, so nothing is ever trained at the learning rate that is stated.",
    bad=Example({"warmup_steps": 100, "max_steps": 100}),
    good=Example({"warmup_steps": 10, "max_steps": 100}),
    sources=("huggingface/transformers:src/transformers/optimization.py",),
)
def warm_up_outlasts_run(config: ConfigView) -> Outcome:
    warm_up, steps = config.number("warmup_steps") or 0, config.number("max_steps") or 0
    # Below 1 it is a share of the run; a constant rate has no warm-up.
    if warm_up < 1 or steps < 1 or warm_up < steps or config.effective("lr_scheduler_type") == "constant":
        return PASS
    return fail(
        "warmup_steps",
        "max_steps",
        value=warm_up,
        message=f"warmup_steps={warm_up:g} in a run of max_steps={steps:g}: the rate gets to {steps / warm_up:.0%} of "
        f"learning_rate. A tenth of the run is usual, here {max(1, round(steps / 10))}.",
    )


RULES = (scheduler_argument_missing, scheduler_argument_unknown, scheduler_end_above_rate, warm_up_outlasts_run)
