"""Names: kwargs that this TRL version does not have, and kwargs on their way out."""

from collections.abc import Callable
from typing import Any

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.lifetimes import BEFORE, Lifetime, lifetime
from grpo_rlvr.config.names import ELSEWHERE, FOREIGN, MODEL_INIT, RENAMED, UNSLOTH, Replacement, framework_of
from grpo_rlvr.config.rule import PASS, Example, Fail, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.tables import Table, is_newer_than_tables
from grpo_rlvr.config.typecheck import wrongly_typed
from grpo_rlvr.config.versions import Versions
from grpo_rlvr.config.view import ConfigView, as_mapping
from grpo_rlvr.errors import nearest

# A config of hundreds of unknown names is no GRPOConfig at all: the first ones are named one by one.
MAX_NAMES = 25
# Releases whose deprecated kwargs still do what they always did: their removal concerns an upgrade only.
STILL_WORKING = ">=0.26,<0.28"
OLD = {"versions": {"trl": "1.16.0", "transformers": "5.24.0"}}


def _unknown(config: ConfigView, belongs: Callable[[str, Lifetime], bool]) -> list[str]:
    names = [name for name in config.names() if not config.exists(name)]
    return [name for name in names if belongs(name, lifetime(name, config.table))]


def _replaced(config: ConfigView, name: str, note: str, replacement: Replacement) -> Fail:
    target = next((to for to in replacement.to if config.exists(to)), None)
    value = config.given.get(name)
    if target is None or config.has(target) or name not in config.given:
        also = (
            "" if not target else f" {target} is set already." if config.has(target) else f" Its name here is {target}."
        )
        text = f"{note} {replacement.note}{also}".strip()
        return fail(
            name, value=value, message=f"{text} Remove {name}.", unset=(name,), safe=_drop_is_safe(config, name)
        )
    changed = replacement.convert(value)
    text = f"{note} Write {target}={changed!r} instead. {replacement.note}".strip()
    return fail(name, value=value, message=text, set={target: changed}, unset=(name,), safe=replacement.safe)


def _drop_is_safe(config: ConfigView, name: str) -> bool:
    # Without the option the run can do nothing else; only a name that no version ever had may hide what was meant.
    return name in RENAMED


@rule(
    "removed-kwarg",
    severity="error",
    what="The kwarg existed in an older TRL or transformers and is gone.",
    why="GRPOConfig is a dataclass: an unknown keyword raises TypeError before anything runs.",
    bad=Example({"max_prompt_length": 512, "warmup_ratio": 0.1}, OLD),
    good=Example({"warmup_steps": 0.1}, OLD),
    sources=("trl wheels 0.14 to 1.16", "vllm-project/semantic-router#3925", "huggingface/trl#3008"),
    fix_safety="Safe where the new name asks for the same, or where this version can do nothing else.",
)
def removed_kwarg(config: ConfigView, versions: Versions, table: Table) -> Outcome:
    names = _unknown(config, lambda name, life: life.removed is not None)
    found = []
    for name in names:
        life = lifetime(name, config.table)
        assumed = ""
        if str(life.removed).startswith("transformers") and versions.get("transformers") is None:
            assumed = f" ({table.transformers} is assumed: versions.transformers is not stated)"
        note = f"{name} is gone since {life.removed}{assumed}; it existed up to {life.last}."
        found.append(_replaced(config, name, note, RENAMED.get(name) or FOREIGN.get(name) or Replacement()))
    return found or PASS


@rule(
    "not-yet-existing-kwarg",
    severity="error",
    what="The kwarg arrived in a later TRL or transformers than the one in use.",
    why="GRPOConfig is a dataclass: an unknown keyword raises TypeError before anything runs.",
    bad=Example({"chat_template_kwargs": {"enable_thinking": False}}, {"versions": {"trl": "0.19.1"}}),
    good=Example({"num_generations": 8}, {"versions": {"trl": "0.19.1"}}),
    sources=("trl wheels 0.14 to 1.16", "huggingface/trl#3592", "unslothai/unsloth#9326"),
    fix_safety="Safe only where the older release has the same option under another name.",
)
def not_yet_existing_kwarg(config: ConfigView, versions: Versions) -> Outcome:
    names = _unknown(config, lambda name, life: life.arrives is not None and not _may_be_there(life, versions))
    found = []
    for name in names:
        life = lifetime(name, config.table)
        note = f"{name} exists from {life.arrives} on; this is TRL {versions.trl}."
        replacement = RENAMED.get(name, Replacement())
        if name in config.given and config.given[name] in BEFORE.get(name, ()):
            same = f"{note} What it asks for is what this release does anyway: leave it out."
            found.append(fail(name, value=config.given[name], message=same, unset=(name,), safe=True))
        elif any(config.exists(to) for to in replacement.to):
            found.append(_replaced(config, name, note, replacement))
        else:
            advice = f"{note} Upgrade to {life.arrives} or later, or leave it out."
            found.append(fail(name, value=config.given.get(name), message=advice, unset=(name,)))
    return found or PASS


def _may_be_there(life: Lifetime, versions: Versions) -> bool:
    # Inherited, and the setup does not say which transformers is installed: pip takes the newest that TRL admits.
    return (life.arrives or "").startswith("transformers") and versions.get("transformers") is None


@rule(
    "kwarg-of-newer-transformers",
    severity="info",
    what="The kwarg is inherited from a transformers newer than the one that this TRL was released with.",
    why="With the older transformers GRPOConfig raises TypeError; the setup does not say which one is installed.",
    bad=Example({"trackio_space_id": "me/runs"}, {"versions": {"trl": "0.26.2"}}),
    good=Example({"trackio_space_id": "me/runs"}, {"versions": {"trl": "0.26.2", "transformers": "4.57.6"}}),
    sources=("transformers wheels 4.46 to 5.24",),
)
def kwarg_of_newer_transformers(config: ConfigView, versions: Versions) -> Outcome:
    names = _unknown(config, lambda name, life: _may_be_there(life, versions))
    return [
        fail(
            name,
            "versions.transformers",
            value=config.given.get(name),
            message=f"{name} exists from {lifetime(name, config.table).arrives} on. State versions.transformers.",
        )
        for name in names
    ] or PASS


@rule(
    "config-of-another-trainer",
    severity="error",
    what="The names are those of another trainer's config (ms-swift, verl, axolotl, OpenRLHF, NeMo RL, MLX, ...).",
    why="GRPOConfig is a dataclass of TRL: it raises TypeError for every one of them, and what the other trainer does "
    "with its config is not judged here.",
    bad=Example({"rlhf_type": "grpo", "tuner_type": "lora", "num_generations": 8}),
    good=Example({"num_generations": 8}),
    sources=("modelscope/ms-swift#5571", "verl-project/verl:verl/trainer/config", "axolotl-ai-cloud/axolotl#2752"),
)
def config_of_another_trainer(config: ConfigView, facts: Facts, versions: Versions) -> Outcome:
    if is_newer_than_tables(versions.trl) or facts.unsloth:
        return PASS
    names = _unknown(config, lambda name, life: not life.known)
    told = framework_of(names)
    if told is None:
        return PASS
    framework, marks = told
    rest = [name for name in names if name not in marks][:MAX_NAMES]
    said = ", ".join(marks[:6])
    return fail(
        *marks,
        *rest,
        value=framework.name,
        message=f"This looks like a config of {framework.name} ({said}), not of TRL's GRPOConfig, which has no such "
        f"names. {framework.advice or 'Translate it, or check what you pass to GRPOConfig.'}",
    )


@rule(
    "argument-of-something-else",
    severity="error",
    what="The name belongs to GRPOTrainer, to model_init_kwargs, or to the command line, not to GRPOConfig.",
    why="GRPOConfig raises TypeError for it.",
    bad=Example({"dtype": "bfloat16"}),
    good=Example({"model_init_kwargs": {"dtype": "bfloat16"}}),
    sources=("huggingface/trl#6774", "trl/trainer/grpo_trainer.py"),
    requires=("config-of-another-trainer",),
    fix_safety="Safe where the value moves into model_init_kwargs unchanged.",
)
def argument_of_something_else(config: ConfigView) -> Outcome:
    found = []
    for name in _unknown(config, lambda name, life: not life.known and name in ELSEWHERE):
        value = config.given.get(name)
        if name in MODEL_INIT and name in config.given:
            target = "dtype" if name == "torch_dtype" and config.exists("num_generations_eval") else name
            merged = {**as_mapping(config.given.get("model_init_kwargs")), target: value}
            message = f"GRPOConfig has no {name}: write model_init_kwargs={{'{target}': {value!r}}}."
            found.append(
                fail(name, value=value, message=message, set={"model_init_kwargs": merged}, unset=(name,), safe=True)
            )
        else:
            message = f"{name} is {ELSEWHERE[name]}, not of GRPOConfig: pass it there."
            found.append(fail(name, value=value, message=message, unset=(name,)))
    return found or PASS


@rule(
    "unknown-kwarg",
    severity="error",
    what="No TRL version has a kwarg of this name.",
    why="GRPOConfig is a dataclass: an unknown keyword raises TypeError before anything runs.",
    bad=Example({"num_generation": 8}),
    good=Example({"num_generations": 8}),
    sources=("trl wheels 0.14 to 1.16",),
    requires=("config-of-another-trainer",),
    fix_safety="A guess at what was meant, except for names that other libraries use for the same option.",
)
def unknown_kwarg(config: ConfigView, versions: Versions, facts: Facts) -> Outcome:
    if is_newer_than_tables(versions.trl):
        return not_applicable(f"TRL {versions.trl} is newer than the tables and may have kwargs that they lack")
    found = []
    names = _unknown(config, lambda name, life: not life.known and name not in ELSEWHERE)
    if facts.unsloth:
        names = [name for name in names if not name.startswith("unsloth_") and name not in UNSLOTH]
    for name in names[:MAX_NAMES]:
        note = f"GRPOConfig has no {name}."
        inside = _options_inside(config, name)
        if inside:
            message = (
                f"{note} It holds options of GRPOConfig ({', '.join(inside[:5])}) one level down: give its content."
            )
            found.append(fail(name, value=config.given.get(name), message=message))
            continue
        if name in FOREIGN and _fits(config, name, FOREIGN[name].to):
            found.append(_replaced(config, name, note, FOREIGN[name]))
            continue
        guess = nearest(name, config.table.fields)
        target = guess.partition("'")[2].partition("'")[0]
        if not _fits(config, name, (target,)):
            guess = target = ""
        message = f"{note.rstrip('.')}{guess or ': remove it'}"
        keeps = bool(target) and not config.has(target) and name in config.given
        renamed = {target: config.given[name]} if keeps else {}
        found.append(fail(name, value=config.given.get(name), message=message, set=renamed, unset=(name,)))
    if rest := names[MAX_NAMES:]:
        message = f"{len(rest)} more names that GRPOConfig does not have; this is hardly a GRPOConfig."
        found.append(fail(*rest[:MAX_NAMES], message=message, unset=rest))
    return found or PASS


def _fits(config: ConfigView, name: str, targets: tuple[str, ...]) -> bool:
    """Return whether the value could be meant for the first of the options that exists (or nothing is known of it)."""
    target = next((to for to in targets if to and config.exists(to)), None)
    return target is None or name not in config.given or not wrongly_typed({target: config.given[name]}, config.table)


def _options_inside(config: ConfigView, name: str) -> list[str]:
    value = config.given.get(name)
    own = [key for key in value if isinstance(key, str) and config.exists(key)] if isinstance(value, dict) else []
    return own if len(own) >= 2 else []


def _is_on(value: Any, default: Any) -> bool:
    return value is not None and value is not False and value != default


def _deprecated(config: ConfigView, table: Table, *, own: bool) -> list[str]:
    """Return the given kwargs that are on and announced to go: TRL's own ones, or the inherited ones."""
    specs = {name: table.fields.get(name, {}) for name in config.given}
    return [
        name
        for name, spec in specs.items()
        if spec.get("deprecated")
        and (spec.get("x-from") == "trl") == own
        and _is_on(config.given[name], spec.get("default"))
    ]


@rule(
    "deprecated-kwarg",
    severity="warning",
    what="TRL has announced that the kwarg will go, and warns about it.",
    why="It does nothing any more (vllm_* in 0.16 and 0.17), has lost its purpose (use_liger_kernel), or goes in TRL "
    "2.0.",
    bad=Example({"use_liger_kernel": True}),
    good=Example({"model_init_kwargs": {"use_kernels": True}}),
    sources=("trl/trainer/base_config.py", "trl/trainer/grpo_config.py"),
    fix_safety="Safe: the replacement computes the same.",
)
def deprecated_kwarg(config: ConfigView, versions: Versions, table: Table) -> Outcome:
    found = []
    for name in [] if versions.trl_is(STILL_WORKING) else _deprecated(config, table, own=True):
        if name == "use_liger_kernel":
            message = (
                "use_liger_kernel is deprecated and goes in TRL 2.0; since 1.15 it no longer provides the fused loss, "
                "which is built in. Remove it; for layer kernels use model_init_kwargs={'use_kernels': True}."
            )
            found.append(fail(name, value=config.given[name], message=message, unset=(name,), safe=True))
            continue
        found.append(_replaced(config, name, f"{name} is deprecated.", RENAMED.get(name, Replacement())))
    return found or PASS


@rule(
    "kwarg-gone-in-next-release",
    severity="info",
    trl=STILL_WORKING,
    what="The kwarg exists in this TRL and is gone in 0.28 (wandb_log_unique_prompts in 0.27).",
    why="Nothing fails here, though max_prompt_length has no effect any more; after an upgrade GRPOConfig raises "
    "TypeError for it.",
    bad=Example({"max_prompt_length": 512}, {"versions": {"trl": "0.27.2"}}),
    good=Example({"max_completion_length": 512}, {"versions": {"trl": "0.27.2"}}),
    sources=("trl wheels 0.26 and 0.27",),
    fix_safety="Safe where the new name is there already; dropping a limit on prompts is not.",
)
def kwarg_gone_in_next_release(config: ConfigView, table: Table) -> Outcome:
    found = []
    for name in _deprecated(config, table, own=True):
        replacement = RENAMED.get(name, Replacement())
        if any(config.exists(to) for to in replacement.to):
            found.append(_replaced(config, name, f"{name} is deprecated.", replacement))
        else:
            state = "is not read any more" if name == "max_prompt_length" else "works here"
            message = f"{name} {state} and is gone from 0.28 on. {replacement.note}".strip()
            found.append(fail(name, value=config.given[name], message=message))
    return found or PASS


@rule(
    "deprecated-inherited-kwarg",
    severity="info",
    what="transformers has announced that this inherited kwarg will go.",
    why="It works for now; a later transformers raises TypeError for it.",
    bad=Example({"warmup_ratio": 0.1}, {"versions": {"trl": "1.10.0", "transformers": "5.14.0"}}),
    good=Example({"warmup_steps": 0.1}, {"versions": {"trl": "1.10.0", "transformers": "5.14.0"}}),
    sources=("transformers wheels 4.46 to 5.24",),
    fix_safety="Safe: the replacement computes the same.",
)
def deprecated_inherited_kwarg(config: ConfigView, table: Table) -> Outcome:
    found = []
    for name in _deprecated(config, table, own=False):
        replacement, note = (
            RENAMED.get(name, Replacement()),
            f"{name} is deprecated in transformers {table.transformers}.",
        )
        if any(config.exists(to) for to in replacement.to):
            found.append(_replaced(config, name, note, replacement))
        else:
            message = f"{note} {replacement.note}".strip()
            found.append(fail(name, value=config.given[name], message=message))
    return found or PASS


RULES = (
    removed_kwarg,
    not_yet_existing_kwarg,
    kwarg_of_newer_transformers,
    config_of_another_trainer,
    argument_of_something_else,
    unknown_kwarg,
    deprecated_kwarg,
    kwarg_gone_in_next_release,
    deprecated_inherited_kwarg,
)
