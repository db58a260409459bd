"""Step 2: check the recipe and estimate its memory."""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from grpo_rlvr.interpreter import training_interpreter
from grpo_rlvr.models.check import CheckResult
from grpo_rlvr.models.memory import MemoryEstimate
from grpo_rlvr.models.setup import Setup
from grpo_rlvr.tools.datafile import with_dataset_facts
from grpo_rlvr.tools.inputs import (
    ConfigArgument,
    SetupArgument,
    TrlVersionArgument,
    load_config_argument,
    load_setup,
    with_accelerate_file,
)
from grpo_rlvr.workspace import Workspace


def check_config(
    workspace: Workspace,
    config: ConfigArgument = None,
    path: Annotated[
        str | None,
        Field(
            description="File with the config: JSON, YAML, a training script (.py) or notebook. Values in `config` win "
            "over it, such as those that a script gets from its command line."
        ),
    ] = None,
    setup: SetupArgument = None,
    trl_version: TrlVersionArgument = None,
    from_version: Annotated[
        str | None, Field(description="TRL version this config comes from: lists the defaults that changed since.")
    ] = None,
    compare_versions: Annotated[
        list[str] | None,
        Field(
            max_length=40,
            description="Further TRL versions, or ['all']: says in which releases the config passes, and what differs.",
        ),
    ] = None,
    deep: Annotated[
        bool, Field(description="Also construct the real trainer on a tiny model, in the training interpreter.")
    ] = False,
) -> CheckResult:
    """Check a TRL GRPOConfig and its setup against 250+ rules for its TRL version; does not train or download."""
    from grpo_rlvr.config import check

    kwargs, loaded = load_config_argument(workspace, config, path)
    # Only a path that the caller states: a script may map the rows of a file that it names.
    stated = with_dataset_facts(with_accelerate_file(load_setup(setup), workspace), workspace) if setup else None
    known = load_setup(stated.sections if stated else None, loaded.setup if loaded else None)
    return check(
        kwargs,
        _with_card(_with_model_facts(known, workspace)),
        trl_version=trl_version,
        from_version=from_version,
        compare_versions=compare_versions or (),
        loaded=loaded,
        deep=training_interpreter(workspace) if deep else None,
        root=workspace.root,
    )


def _with_model_facts(setup: Setup, workspace: Workspace) -> Setup:
    """Add the model's size and kind where its config.json or name tells them and the setup does not."""
    from grpo_rlvr.memory import describe

    model = setup.section("model")
    summary = describe(model, workspace)
    known = {"params_b": summary.params_b, "class": summary.kind}
    added = {key: value for key, value in known.items() if value is not None and model.get(key) is None}
    if not added:
        return setup
    return replace(setup, sections={**setup.sections, "model": {**model, **added}})


def _with_card(setup: Setup) -> Setup:
    """Add the memory of a GPU that is known by its name, where the setup states no memory."""
    from grpo_rlvr.memory import card_memory_gb

    hardware = setup.section("hardware")
    size = card_memory_gb(hardware)
    if size is None or any(hardware.get(key) is not None for key in ("gpu_mem_gb", "gb_each")):
        return setup
    return replace(setup, sections={**setup.sections, "hardware": {**hardware, "gpu_mem_gb": size}})


def estimate_memory(
    workspace: Workspace,
    config: ConfigArgument = None,
    setup: SetupArgument = None,
    trl_version: TrlVersionArgument = None,
) -> MemoryEstimate:
    """Estimate the GPU memory of a GRPO run per phase and rank what would lower it; does not run anything."""
    from grpo_rlvr.memory import estimate

    return estimate(config or {}, load_setup(setup), trl_version=trl_version, workspace=workspace)


def picture_of_memory(workspace: Workspace, result: MemoryEstimate, arguments: dict[str, Any]) -> bytes:
    """Draw the phases as stacked bars against the card's size, as a PNG.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    from grpo_rlvr.memory import picture_png

    return picture_png(result)
