"""Environments: who gives the prompts, and which of several environments a row is for."""

import re

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView

_NONE = re.compile(r"none(type)?\Z|null\Z", re.I)
_ENV = {"environment_factory": {"name": "Env"}, "versions": {"trl": "1.16.0"}}
_TWO = {"names": ["coding", "game"]}


def _names(facts: Facts) -> list[str]:
    stated = facts.setup.get("environment_factory.names")
    return [str(name) for name in stated] if isinstance(stated, list | tuple) else []


@rule(
    "train-dataset-missing",
    severity="error",
    trl=">=0.29",
    what="GRPOTrainer without a train_dataset.",
    why="It raises ValueError when it is built. From 1.9 on an environment may give the prompts instead, and then "
    "max_steps says how long to train; one of several environments is chosen by a column of a dataset.",
    bad=Example({"max_steps": -1}, {**_ENV, "dataset": {"type": "None"}}),
    good=Example({"max_steps": 200}, {**_ENV, "dataset": {"type": "None"}}),
    sources=("huggingface/trl#6349", "trl wheels 0.28 to 1.16"),
)
def train_dataset_missing(config: ConfigView, facts: Facts) -> Outcome:
    kind = facts.text("dataset.type")
    if kind is None:
        return not_applicable("dataset.type is not stated")
    if not _NONE.match(kind.strip()):
        return PASS
    environment = facts.setup.get("environment_factory")
    owns = bool(environment) and facts.trl_is(">=1.9") and not _names(facts)
    if owns and (config.number("max_steps") or 0) > 0:
        return PASS
    if owns:
        return fail(
            "max_steps",
            "dataset.type",
            "environment_factory",
            value=config.effective("max_steps"),
            message="The environment gives the prompts and there is no dataset to count: set max_steps above 0.",
            set={"max_steps": 500},
        )
    more = ", or use trl>=1.9, where the environment may give the prompts" if environment else ""
    return fail(
        "dataset.type",
        "train_dataset",
        "environment_factory",
        value=kind,
        message=f"GRPOTrainer of TRL {facts.versions.trl} gets no train_dataset: pass one{more}.",
    )


@rule(
    "environment-column-missing",
    severity="error",
    trl=">=1.8",
    what="Several environments, and no column that says which one a row is for.",
    why="Each row must name its environment in the column environment: ValueError at the first rollout.",
    bad=Example({}, {"environment_factory": _TWO, "dataset": {"columns": ["prompt"]}}),
    good=Example({}, {"environment_factory": _TWO, "dataset": {"columns": ["prompt", "environment"]}}),
    sources=("huggingface/trl#6002", "trl/trainer/grpo_trainer.py"),
)
def environment_column_missing(facts: Facts) -> Outcome:
    names = _names(facts)
    if not names or facts.columns is None or "environment" in facts.columns:
        return PASS
    return fail(
        "dataset.columns",
        "environment_factory",
        value=list(facts.columns),
        message=f"environment_factory holds {', '.join(names)}, and the dataset has no column environment "
        "that chooses one of them for each row: add it.",
    )


@rule(
    "several-environments-refused",
    severity="error",
    trl=">=0.29,<1.8",
    what="A dict of environments in a release that takes one.",
    why="The trainer calls it to make an environment: TypeError ('dict' object is not callable).",
    bad=Example({}, {"environment_factory": _TWO, "versions": {"trl": "1.7.1", "transformers": "5.8.0"}}),
    good=Example({}, {"environment_factory": {"name": "Env"}, "versions": {"trl": "1.7.1", "transformers": "5.8.0"}}),
    sources=("huggingface/trl#6002", "trl wheels 1.7 and 1.8"),
)
def several_environments_refused(facts: Facts) -> Outcome:
    names = _names(facts)
    if not names:
        return PASS
    return fail(
        "environment_factory",
        "versions.trl",
        value=names,
        message=f"TRL {facts.versions.trl} takes one environment_factory, not a dict of them: use trl>=1.8.",
    )


RULES = (train_dataset_missing, environment_column_missing, several_environments_refused)
