"""Packages beside TRL: versions outside what the TRL release asks for."""

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Fail, Outcome, fail, rule
from grpo_rlvr.config.tables import Table
from grpo_rlvr.config.versions import Versions
from grpo_rlvr.config.view import ConfigView, judge_each

# vLLM has rules of its own: it is an optional extra whose window TRL checks at run time.
CHECKED = ("transformers", "accelerate", "datasets", "python")

# What is used, and the transformers it needs.
NEEDS = (
    ("environment_factory", "5.2.0"),
    ("trainer.tools", "5.0.0"),
    ("use_transformers_continuous_batching", "5.8.0"),
    ("use_transformers_paged", "5.8.0"),
)


@rule(
    "transformers-without-processing-class",
    severity="error",
    what="A transformers older than 4.46.",
    why="Its Trainer does not know processing_class, which GRPOTrainer passes in every release: TypeError when the "
    "trainer is built, or an import error before.",
    bad=Example({}, {"versions": {"trl": "0.14.0", "transformers": "4.45.2"}}),
    good=Example({}, {"versions": {"trl": "0.14.0", "transformers": "4.46.3"}}),
    sources=("shibing624/MedicalGPT#444", "metadata of the TRL wheels"),
)
def transformers_without_processing_class(versions: Versions) -> Outcome:
    if versions.within("transformers", "<4.46") is not True:
        return PASS
    return fail(
        "versions.transformers",
        "versions.trl",
        value=versions.get("transformers"),
        message=f"GRPOTrainer cannot be built on transformers {versions.get('transformers')}: install what TRL "
        f"{versions.trl} requires.",
    )


@rule(
    "transformers-without-warnings-issued",
    severity="error",
    trl="<0.27.2",
    what="A transformers from 5.1 on with a TRL that still writes to model.warnings_issued.",
    why="Models lost that attribute in transformers 5.1, so GRPOTrainer raises AttributeError when it is built. pip "
    "installs the two together, since these releases name no upper limit.",
    bad=Example({}, {"versions": {"trl": "0.24.0", "transformers": "5.1.0"}}),
    good=Example({}, {"versions": {"trl": "0.24.0", "transformers": "5.0.0"}}),
    sources=("unslothai/unsloth#7854", "trl wheels 0.14 to 0.27.2", "transformers wheels 5.0 and 5.1"),
)
def transformers_without_warnings_issued(facts: Facts, versions: Versions) -> Outcome:
    # unsloth gives the models the attribute back.
    if facts.unsloth or versions.within("transformers", ">=5.1") is not True:
        return PASS
    return fail(
        "versions.transformers",
        "versions.trl",
        value=versions.get("transformers"),
        message=f"GRPOTrainer of TRL {versions.trl} cannot be built on transformers {versions.get('transformers')} "
        "('...' object has no attribute 'warnings_issued'): install transformers<5.1, or use trl>=0.27.2.",
    )


@rule(
    "feature-of-newer-transformers",
    severity="error",
    trl=">=0.26",
    what="Tools, an environment factory or continuous batching with a transformers that is too old for it.",
    why="TRL raises ImportError when the trainer is built: tools need transformers 5.0, environments 5.2, continuous "
    "batching 5.8 (from TRL 1.7 on).",
    bad=Example({}, {"environment_factory": {"name": "Env"}, "versions": {"trl": "1.0.0", "transformers": "4.57.6"}}),
    good=Example({}, {"environment_factory": {"name": "Env"}, "versions": {"trl": "1.0.0", "transformers": "5.3.0"}}),
    sources=("huggingface/trl#5093", "huggingface/trl#5765", "trl/trainer/grpo_trainer.py"),
)
def feature_of_newer_transformers(config: ConfigView, facts: Facts, versions: Versions) -> Outcome:
    def used(name: str) -> bool:
        if name == "environment_factory":
            return versions.trl_is(">=0.29") and bool(facts.setup.get(name))
        if name == "trainer.tools":
            return bool(facts.setup.get(name))
        return versions.trl_is(">=1.7") and config.exists(name) and config.flag(name)

    def judge(need: tuple[str, str]) -> Fail | None:
        name, needed = need
        if not versions.within("transformers", f"<{needed}") or not used(name):
            return None
        installed = versions.get("transformers")
        message = f"{name.rpartition('.')[2]} needs transformers>={needed}, and {installed} is installed."
        return fail(name, "versions.transformers", value=installed, message=message)

    return judge_each(NEEDS, judge) or PASS


@rule(
    "data-workers-with-newer-transformers",
    severity="error",
    trl=">=0.17,<0.18.2",
    what="Data loader workers with a transformers from 4.52 on, in a release that seeds them the old way.",
    why="seed_worker needs the number of workers and the rank since then: every worker raises TypeError at the first "
    "batch. TRL passes them from 0.18.2 on.",
    bad=Example({"dataloader_num_workers": 4}, {"versions": {"trl": "0.17.0", "transformers": "4.56.1"}}),
    good=Example({"dataloader_num_workers": 0}, {"versions": {"trl": "0.17.0", "transformers": "4.56.1"}}),
    sources=("2U1/Qwen-VL-Series-Finetune#197", "huggingface/trl#3544", "trl wheels 0.17 to 0.18.2"),
    fix_safety="The same rows in the same order, read by the training process itself.",
)
def data_workers_with_newer_transformers(config: ConfigView, versions: Versions) -> Outcome:
    if not versions.within("transformers", ">=4.52") or (config.integer("dataloader_num_workers") or 0) < 1:
        return PASS
    return fail(
        "dataloader_num_workers",
        "versions.transformers",
        value=config.integer("dataloader_num_workers"),
        message=f"Data loader workers fail in TRL {versions.trl} with transformers {versions.get('transformers')}: set "
        "dataloader_num_workers=0, or use trl>=0.18.2 or transformers<4.52.",
        set={"dataloader_num_workers": 0},
        safe=True,
    )


@rule(
    "package-outside-required-range",
    severity="warning",
    what="A package version lies outside the range that this TRL release requires.",
    why="pip would not have installed the two together: imports or renamed arguments may fail.",
    bad=Example({}, {"versions": {"trl": "1.16.0", "transformers": "4.50.3"}}),
    good=Example({}, {"versions": {"trl": "1.16.0", "transformers": "5.24.0"}}),
    sources=("metadata of the TRL wheels",),
    requires=("transformers-without-processing-class",),
)
def package_outside_required_range(versions: Versions, table: Table) -> Outcome:
    wrong = [
        name for name in CHECKED if name in table.requires and versions.within(name, table.requires[name]) is False
    ]
    if not wrong:
        return PASS
    said = ", ".join(f"{name} {versions.get(name)} (needs {table.requires[name]})" for name in wrong)
    fields = [f"versions.{name}" for name in wrong]
    return fail(*fields, "versions.trl", value=versions.get(wrong[0]), message=f"TRL {versions.trl} with {said}.")


RULES = (
    transformers_without_processing_class,
    transformers_without_warnings_issued,
    feature_of_newer_transformers,
    data_workers_with_newer_transformers,
    package_outside_required_range,
)
