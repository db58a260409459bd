"""Evaluation: whole groups in the evaluation batch, a dataset to evaluate on, checkpoints chosen by a metric."""

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView, Unknown

_EVAL = {"eval_strategy": "steps", "eval_steps": 50}
_BEST = {"save_strategy": "best", **_EVAL, "metric_for_best_model": "eval_reward"}
# What transformers' evaluate() returns by itself; the rewards are only in the log before TRL 1.5.
RETURNED = ("loss", "runtime", "samples_per_second", "steps_per_second", "epoch", "model_preparation_time")


def eval_group(config: ConfigView) -> int | None:
    """Return the completions per evaluation prompt, None when it is no number."""
    own = config.integer("num_generations_eval") if config.exists("num_generations_eval") else None
    return own or config.integer("num_generations")


@rule(
    "eval-batch-not-divisible-by-group",
    severity="error",
    trl=">=0.15",
    what="The global evaluation batch does not hold whole groups.",
    why="Evaluation generates groups as training does; TRL refuses the config when it is built. The default "
    "evaluation batch is 8 a device, whatever the training batch is.",
    bad=Example({**_EVAL, "num_generations": 16, "per_device_train_batch_size": 16}),
    good=Example({**_EVAL, "num_generations": 8, "per_device_train_batch_size": 8, "per_device_eval_batch_size": 8}),
    sources=("huggingface/trl#3566", "huggingface/trl#3889"),
    requires=("group-smaller-than-two",),
    fix_safety="Evaluation sees other groups or batches; training is not touched.",
)
def eval_batch_not_divisible_by_group(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.evaluates_at_all:
        return PASS
    device, group = config.integer("per_device_eval_batch_size"), eval_group(config)
    # 0.26.0 knows num_generations_eval and checks the batch against num_generations all the same.
    if facts.trl_is("==0.26.0") and device and (device * facts.processes) % (config.integer("num_generations") or 1):
        group = config.integer("num_generations")
    if not device or not group or (device * facts.processes) % group == 0:
        return PASS
    own = config.exists("num_generations_eval") and config.integer("num_generations_eval")
    default = "" if config.has("per_device_eval_batch_size") else " (the default)"
    other = ", or num_generations_eval to a divisor" if config.exists("num_generations_eval") else ""
    return fail(
        "per_device_eval_batch_size",
        "num_generations_eval" if own else "num_generations",
        "num_generations" if own else "num_generations_eval",
        "hardware.num_processes",
        value=device,
        message=f"{facts.processes} process(es) x per_device_eval_batch_size={device}{default} is no multiple of the "
        f"evaluation group of {group}. Set per_device_eval_batch_size={group}{other}.",
        set={"per_device_eval_batch_size": group},
    )


def evaluates(config: ConfigView, facts: Facts) -> bool:
    """Return whether the trainer evaluates during training.

    transformers sets do_eval itself wherever the strategy is not `no`, so the strategy alone decides.
    """
    return facts.evaluates


@rule(
    "eval-group-of-one",
    severity="info",
    trl=">=0.26",
    what="Evaluation generates one completion a prompt.",
    why="That saves time, but eval_frac_reward_zero_std then always reads 1.0 and eval_reward_std says nothing.",
    bad=Example({**_EVAL, "num_generations_eval": 1}),
    good=Example({**_EVAL, "num_generations_eval": 4}),
    sources=("huggingface/trl#4458",),
)
def eval_group_of_one(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.evaluates_at_all or config.integer("num_generations_eval") != 1:
        return PASS
    return fail(
        "num_generations_eval",
        value=1,
        message="num_generations_eval=1: fine for the mean reward, but eval_frac_reward_zero_std will always be 1.0.",
    )


@rule(
    "eval-without-dataset",
    severity="error",
    what="Evaluation is switched on and there is no evaluation dataset.",
    why="The trainer raises ValueError when it is built, or for eval_on_start before the first step.",
    bad=Example(_EVAL, {"dataset": {"eval": None}}),
    good=Example(_EVAL, {"dataset": {"eval": {"rows": 64}}}),
    sources=("huggingface/transformers:src/transformers/trainer.py",),
    fix_safety="Training is not touched; nothing is evaluated.",
)
def eval_without_dataset(config: ConfigView, facts: Facts) -> Outcome:
    at_start = config.exists("eval_on_start") and config.flag("eval_on_start")
    if not facts.evaluates_at_all:
        return PASS
    section = facts.setup.section("dataset")
    if "eval" not in section:
        return not_applicable("dataset.eval is not stated")
    stated = section["eval"]
    empty = stated in (None, False, 0, "", "none") or (isinstance(stated, dict) and stated.get("rows") == 0)
    if not empty:
        return PASS
    off: dict[str, object] = {} if _strategy(config, "eval_strategy") == "no" else {"eval_strategy": "no"}
    off |= {"eval_on_start": False} if at_start else {}
    said = " and ".join(f"{name}={config.effective(name)!r}" for name in off)
    return fail(
        *off,
        "dataset.eval",
        value=config.effective(next(iter(off))),
        message=f"{said}, and no eval_dataset is given. Pass one, or set "
        f"{' and '.join(f'{name}={value!r}' for name, value in off.items())}.",
        set=off,
    )


@rule(
    "best-model-without-matching-eval",
    severity="error",
    what="load_best_model_at_end with evaluation and saving on different schedules.",
    why="transformers raises ValueError when the config is built: a best checkpoint needs an evaluation at every save.",
    bad=Example({"load_best_model_at_end": True}),
    good=Example(
        {
            "load_best_model_at_end": True,
            "eval_strategy": "steps",
            "save_strategy": "steps",
            "eval_steps": 50,
            "save_steps": 100,
        }
    ),
    sources=("huggingface/transformers:src/transformers/training_args.py",),
    fix_safety="The last model is kept instead of the best one; evaluation and saving stay as they are.",
)
def best_model_without_matching_eval(config: ConfigView) -> Outcome:
    if not config.flag("load_best_model_at_end"):
        return PASS
    evaluation, saving = _strategy(config, "eval_strategy"), _strategy(config, "save_strategy")
    if saving == "best" or evaluation == saving == "no":
        # With neither there is nothing to load, and transformers passes over it.
        return PASS
    eval_steps = config.number("eval_steps") or config.number("logging_steps")
    save_steps = config.number("save_steps")
    off = (
        evaluation == saving == "steps"
        and eval_steps is not None
        and save_steps is not None
        and eval_steps >= 1
        and save_steps >= 1
        and save_steps % eval_steps != 0
    )
    mixed = evaluation == saving == "steps" and eval_steps and save_steps and (eval_steps < 1) != (save_steps < 1)
    if evaluation == saving and not off and not mixed:
        return PASS
    detail = (
        f"save_steps={save_steps:g} is no multiple of eval_steps={eval_steps:g}"
        if off
        else (f"eval_strategy={evaluation!r} and save_strategy={saving!r} must be the same, and not 'no'")
    )
    return fail(
        "load_best_model_at_end",
        "eval_strategy",
        "save_strategy",
        "eval_steps",
        "save_steps",
        value=True,
        message=f"load_best_model_at_end=True needs an evaluation at every save: {detail}. Match them, or set it to "
        "False.",
        set={"load_best_model_at_end": False},
    )


def _strategy(config: ConfigView, name: str) -> str:
    value = config.effective(name)
    if value is not None and not isinstance(value, str):
        raise Unknown(f"{name} is no word")
    return str(value or "no").lower()


@rule(
    "best-model-by-loss",
    severity="info",
    what="The best checkpoint is chosen by the loss.",
    why="GRPO's loss hovers around 0 on-policy and does not fall as the policy improves, so the choice is close to "
    "random.",
    bad=Example({"load_best_model_at_end": True, "eval_strategy": "epoch", "save_strategy": "epoch"}),
    good=Example(
        {
            "load_best_model_at_end": True,
            "eval_strategy": "epoch",
            "save_strategy": "epoch",
            "metric_for_best_model": "eval_reward",
            "greater_is_better": True,
        }
    ),
    sources=("huggingface/transformers:src/transformers/training_args.py",),
    requires=("best-model-without-matching-eval",),
    fix_safety="Another checkpoint may be kept as the best one.",
)
def best_model_by_loss(config: ConfigView, facts: Facts) -> Outcome:
    metric = config.text("metric_for_best_model")
    if not config.flag("load_best_model_at_end") or (metric is not None and "loss" not in metric):
        return PASS
    if facts.trl_is("<1.5"):
        return fail(
            "metric_for_best_model",
            "load_best_model_at_end",
            value=metric,
            message="The best checkpoint is chosen by the loss, which says little in GRPO, and this release returns no "
            "reward from evaluation. Keep several checkpoints and choose by the logged eval_reward.",
        )
    return fail(
        "metric_for_best_model",
        "load_best_model_at_end",
        value=metric,
        message="The best checkpoint is chosen by the loss, which says little in GRPO. Set "
        "metric_for_best_model='eval_reward' and greater_is_better=True.",
        set={"metric_for_best_model": "eval_reward", "greater_is_better": True},
    )


@rule(
    "best-metric-not-returned",
    severity="error",
    trl="<1.5",
    what="metric_for_best_model names a GRPO metric in a release that does not return it from evaluation.",
    why="Rewards, KL and lengths are added to the log only, so transformers looks the metric up in vain and raises "
    "KeyError at the first evaluation. Since 1.5 they are among the returned metrics.",
    bad=Example(
        {**_EVAL, "metric_for_best_model": "eval_reward", "save_steps": 50, "load_best_model_at_end": True},
        {"versions": {"trl": "0.24.0"}},
    ),
    good=Example(
        {**_EVAL, "metric_for_best_model": "eval_loss", "save_steps": 50, "load_best_model_at_end": True},
        {"versions": {"trl": "0.24.0"}},
    ),
    sources=("huggingface/trl#3384", "huggingface/trl#5811", "trl wheels 1.4 and 1.5"),
    fix_safety="The last model is kept instead of the best one; training is not touched.",
)
def best_metric_not_returned(config: ConfigView, facts: Facts) -> Outcome:
    metric = config.text("metric_for_best_model")
    if metric is None or not evaluates(config, facts) or metric.removeprefix("eval_") in RETURNED:
        return PASS
    saves_best = _strategy(config, "save_strategy") == "best"
    loads = {"load_best_model_at_end": False} if config.flag("load_best_model_at_end") else {}
    return fail(
        "metric_for_best_model",
        "load_best_model_at_end",
        "save_strategy",
        value=metric,
        message=f"TRL {facts.versions.trl} does not return {metric} from evaluation: KeyError at the first one. Keep "
        "several checkpoints and choose by the logged eval_reward, or use trl>=1.5.",
        set={**loads, **({"save_strategy": "steps"} if saves_best else {})},
        unset=("metric_for_best_model",),
    )


@rule(
    "best-checkpoint-without-metric",
    severity="error",
    what="save_strategy='best' without metric_for_best_model.",
    why="Trainer raises ValueError when it is built: it would not know which checkpoint is the best.",
    bad=Example({"save_strategy": "best", **_EVAL}),
    good=Example(_BEST),
    sources=("huggingface/transformers:src/transformers/trainer.py",),
    fix_safety="Checkpoints are written by the step instead.",
)
def best_checkpoint_without_metric(config: ConfigView) -> Outcome:
    saving = _strategy(config, "save_strategy")
    if saving != "best" or config.effective("metric_for_best_model") or config.flag("load_best_model_at_end"):
        return PASS
    return fail(
        "metric_for_best_model",
        "save_strategy",
        value=None,
        message="save_strategy='best' needs metric_for_best_model, e.g. 'eval_reward' (trl>=1.5), or "
        "save_strategy='steps'.",
        set={"save_strategy": "steps"},
    )


@rule(
    "best-checkpoint-never-evaluated",
    severity="warning",
    what="save_strategy='best' without evaluation.",
    why="A checkpoint is written where an evaluation improves on the best one; without evaluation there is never any.",
    bad=Example({"save_strategy": "best", "metric_for_best_model": "eval_reward"}),
    good=Example(_BEST),
    sources=("huggingface/transformers:src/transformers/trainer.py",),
    requires=("best-checkpoint-without-metric",),
    fix_safety="Checkpoints are written by the step instead.",
)
def best_checkpoint_never_evaluated(config: ConfigView, facts: Facts) -> Outcome:
    if _strategy(config, "save_strategy") != "best" or evaluates(config, facts):
        return PASS
    return fail(
        "save_strategy",
        "eval_strategy",
        value="best",
        message="save_strategy='best' and no evaluation: no checkpoint will ever be written. Switch evaluation on, or "
        "set save_strategy='steps'.",
        set={"save_strategy": "steps"},
    )


@rule(
    "evaluation-before-first-step",
    severity="error",
    trl=">=0.22,<0.27.1",
    what="eval_on_start with a loss that divides by the accumulation steps of the step under way.",
    why="Before the first step there are none: AttributeError (current_gradient_accumulation_steps). The dapo and "
    "cispo losses divide by the number of items instead and run.",
    bad=Example({**_EVAL, "eval_on_start": True, "loss_type": "grpo"}, {"versions": {"trl": "0.25.1"}}),
    good=Example({**_EVAL, "eval_on_start": True, "loss_type": "dapo"}, {"versions": {"trl": "0.25.1"}}),
    sources=("huggingface/trl#4669", "huggingface/trl#4850", "trl wheels 0.26 to 0.27.1"),
    fix_safety="The evaluation before training is left out; training is not touched.",
)
def evaluation_before_first_step(config: ConfigView, facts: Facts) -> Outcome:
    fused = next((name for name in ("use_liger_loss", "use_liger_kernel") if _fuses(config, facts, name)), None)
    if not config.flag("eval_on_start") or (facts.loss_type in ("dapo", "cispo") and fused is None):
        return PASS
    return fail(
        "eval_on_start",
        *((fused,) if fused else ()),
        "loss_type",
        value=True,
        message=f"Evaluating before the first step raises AttributeError in TRL {facts.versions.trl} with "
        f"{fused + '=True' if fused else 'loss_type=' + facts.loss_type}. Set eval_on_start=False, or use trl>=0.27.1.",
        set={"eval_on_start": False},
    )


def _fuses(config: ConfigView, facts: Facts, name: str) -> bool:
    # Up to 0.24 use_liger_kernel patches layers only; the loss has a switch of its own.
    if not config.exists(name) or (name == "use_liger_kernel" and facts.trl_is("<0.25")):
        return False
    return config.flag(name)


@rule(
    "evaluation-without-step-of-its-own",
    severity="error",
    trl="<0.15",
    what="Evaluation in the first release of the trainer.",
    why="It has no evaluation step of its own, and the one of transformers expects a dict of tensors: AttributeError "
    "('list' object has no attribute 'get') at the first evaluation.",
    bad=Example(_EVAL, {"versions": {"trl": "0.14.0"}}),
    good=Example({}, {"versions": {"trl": "0.14.0"}}),
    sources=("huggingface/open-r1#216", "trl wheels 0.14 and 0.15"),
    fix_safety="No evaluation during training; training is not touched.",
)
def evaluation_without_step_of_its_own(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.evaluates_at_all:
        return PASS
    return fail(
        "eval_strategy",
        "do_eval",
        "versions.trl",
        value=config.effective("eval_strategy"),
        message=f"TRL {facts.versions.trl} cannot evaluate: set eval_strategy='no', or use trl>=0.15.",
        set={"eval_strategy": "no"},
    )


RULES = (
    evaluation_without_step_of_its_own,
    eval_batch_not_divisible_by_group,
    eval_group_of_one,
    eval_without_dataset,
    best_model_without_matching_eval,
    best_metric_not_returned,
    best_model_by_loss,
    best_checkpoint_without_metric,
    best_checkpoint_never_evaluated,
    evaluation_before_first_step,
)
