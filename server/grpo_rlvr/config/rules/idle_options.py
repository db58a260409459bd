"""Options that nothing reads beside the switch that they belong to."""

from collections.abc import Callable
from dataclasses import dataclass

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Fail, Outcome, fail, rule
from grpo_rlvr.config.view import ConfigView, judge_each

ADAPTIVE = ("entropy_target", "entropy_coef_min", "entropy_coef_max", "entropy_coef_delta")
SERVER = ("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "vllm_server_timeout", "vllm_group_port")
GENERATE = (
    "cache_implementation", "use_transformers_paged", "use_transformers_continuous_batching",
    "transformers_continuous_batching_config",
)  # fmt: skip


@dataclass(frozen=True)
class Idle:
    """Options, whether nothing reads them, and the switch with the words for it."""

    options: tuple[str, ...]
    holds: Callable[[ConfigView, Facts], bool]
    switch: str
    said: str


def _batches_continuously(config: ConfigView) -> bool:
    switches = ("use_transformers_continuous_batching", "use_transformers_paged")
    return any(config.exists(name) and config.flag(name) for name in switches)


TABLE = (
    Idle(
        ("num_completions_to_print", "log_unique_prompts", "wandb_log_unique_prompts"),
        lambda config, facts: not config.flag("log_completions"),
        "log_completions",
        "no completions are logged",
    ),
    Idle(GENERATE, lambda config, facts: facts.use_vllm, "use_vllm", "vLLM generates, and model.generate reads them"),
    Idle(
        ("transformers_continuous_batching_config",),
        lambda config, facts: not facts.use_vllm and not _batches_continuously(config),
        "use_transformers_continuous_batching",
        "continuous batching is off",
    ),
    Idle(SERVER, lambda config, facts: facts.colocate, "vllm_mode", "vLLM runs in the training processes"),
    Idle(
        ("scale_rewards",),
        lambda config, facts: config.effective("multi_objective_aggregation") == "normalize_then_sum",
        "multi_objective_aggregation",
        "normalize_then_sum scales by itself, each reward in its group and the sum in the batch",
    ),
    Idle(
        ("warmup_steps", "warmup_ratio"),
        lambda config, facts: config.effective("lr_scheduler_type") == "constant",
        "lr_scheduler_type",
        "that schedule has no warm-up, constant_with_warmup has one",
    ),
    Idle(
        ("eval_steps",),
        lambda config, facts: (
            config.effective("eval_strategy") in (None, "no", "epoch") and not config.has("evaluation_strategy")
        ),
        "eval_strategy",
        "evaluation does not go by steps",
    ),
)


def _stated(names: tuple[str, ...], config: ConfigView) -> list[str]:
    """Return the options that the config sets to something else than their default."""
    given = [name for name in names if name in config.given and config.exists(name) and name not in config.broken]
    return [name for name in given if config.given[name] not in (None, False, config.table.default(name))]


@rule(
    "option-without-its-switch",
    severity="info",
    what="An option of something that is switched off.",
    why="Nothing reads it, so the run is not the one that the option suggests.",
    bad=Example({"num_completions_to_print": 4}),
    good=Example({"num_completions_to_print": 4, "log_completions": True}),
    sources=("trl/trainer/grpo_trainer.py", "transformers/trainer.py"),
    fix_safety="Nothing reads it as the config stands; where the switch was meant, set that instead.",
)
def option_without_its_switch(config: ConfigView, facts: Facts) -> Outcome:
    def judge(idle: Idle) -> Fail | None:
        names = _stated(idle.options, config)
        # An option of the server beside a mode that is left to its default has a rule of its own.
        if not names or not idle.holds(config, facts) or (idle.options == SERVER and not config.has("vllm_mode")):
            return None
        verb = "does" if len(names) == 1 else "do"
        return fail(
            *names,
            idle.switch,
            value={name: config.given[name] for name in names},
            message=f"{', '.join(names)} {verb} nothing: {idle.said} ({idle.switch}="
            f"{config.effective(idle.switch)!r}).",
            unset=names,
        )

    return judge_each(TABLE, judge) or PASS


@rule(
    "entropy-options-without-adaptation",
    severity="warning",
    trl=">=1.8",
    what="Options of the adaptive entropy bonus while use_adaptive_entropy is off.",
    why="Only the adaptive controller reads them: entropy_coef stays as it is, and at its default of 0 there is no "
    "entropy bonus at all.",
    bad=Example({"entropy_target": 0.5}),
    good=Example({"entropy_target": 0.5, "use_adaptive_entropy": True}),
    sources=("trl/trainer/grpo_trainer.py",),
    fix_safety="Switches on what the options are for, which changes the loss.",
)
def entropy_options_without_adaptation(config: ConfigView) -> Outcome:
    names = _stated(ADAPTIVE, config)
    if not names or config.flag("use_adaptive_entropy"):
        return PASS
    coefficient = config.number("entropy_coef") or 0.0
    effect = f"the bonus stays at entropy_coef={coefficient:g}" if coefficient else "there is no entropy bonus"
    return fail(
        *names,
        "use_adaptive_entropy",
        value={name: config.given[name] for name in names},
        message=f"{', '.join(names)} without use_adaptive_entropy=True: {effect}. Switch it on, or leave them out.",
        set={"use_adaptive_entropy": True},
    )


RULES = (option_without_its_switch, entropy_options_without_adaptation)
