"""Arguments that several tools take, and how they are turned into what the engines want."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from grpo_rlvr.errors import InputError
from grpo_rlvr.models.setup import KNOWN, Setup, parse_setup
from grpo_rlvr.workspace import Workspace

if TYPE_CHECKING:
    from grpo_rlvr.config import LoadedConfig

ConfigArgument = Annotated[
    dict[str, Any] | None, Field(description="Keyword arguments of trl.GRPOConfig, as an object.")
]
SetupArgument = Annotated[
    dict[str, Any] | None,
    Field(description=f"What surrounds the config; any of: {', '.join(KNOWN)}. Leave out what is not known."),
]
TrlVersionArgument = Annotated[
    str | None,
    Field(description="TRL version to judge for, such as '1.16.0'; else setup.versions.trl, else the newest."),
]
# The size that a text given inline may have; larger logs are given as a file.
MAX_CONFIG_BYTES = 5_000_000


def load_setup(raw: Any, hints: Mapping[str, Any] | None = None) -> Setup:
    """Parse a setup; what it states wins over `hints`, which were read from a file, section by section."""
    stated = parse_setup(raw)
    if not hints:
        return stated
    merged = dict(hints)
    for key, value in stated.sections.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = {**merged[key], **value} if both else value
    return parse_setup(merged)


def load_config_argument(
    workspace: Workspace, config: dict[str, Any] | None, path: str | None, *, required: bool = True
) -> "tuple[dict[str, Any], LoadedConfig | None]":
    """Return the config given inline or as a file, and what was read beside it from the file.

    Values given inline beside a file win over it: they are what a script gets from its command line.

    Raises:
        InputError: neither given, or a file that holds no config.
    """
    if path is not None:
        from grpo_rlvr.config import load_config

        text = workspace.read_text(path, "path", max_bytes=MAX_CONFIG_BYTES)
        loaded = load_config(text, str(path), path=workspace.file(path, "path"))
        told = config or {}
        return {**loaded.config, **told}, loaded.told(told)
    if config is None and required:
        raise InputError(
            "no config given", where="arguments", remedy="Give 'config' as an object, or 'path' of a file."
        )
    return dict(config or {}), None


def with_accelerate_file(setup: Setup, workspace: Workspace) -> Setup:
    """Read accelerate's settings where `launch.accelerate` names their file.

    Raises:
        InputError: no such file, or one that holds no settings.
    """
    launch = setup.section("launch")
    path = launch.get("accelerate")
    if not isinstance(path, str):
        return setup
    read = load_json_file(workspace, path, "launch.accelerate")
    if not isinstance(read, Mapping):
        raise InputError(
            f"'{path}' holds no settings", where="setup.launch.accelerate", remedy="Name accelerate's file."
        )
    return replace(setup, sections={**setup.sections, "launch": {**launch, "accelerate": dict(read)}})


def load_json_file(workspace: Workspace, path: str, argument: str) -> Any:
    """Return the value of a JSON or YAML file, by its ending.

    Raises:
        InputError: not JSON or YAML; the line is named.
    """
    text = workspace.read_text(path, argument, max_bytes=MAX_CONFIG_BYTES)
    where = f"argument '{argument}'"
    if path.lower().endswith((".yaml", ".yml")):
        import yaml

        try:
            return yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError) as error:
            raise InputError(f"'{path}' is not YAML: {error}", where=where, remedy="Mend the file.") from None
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"'{path}' is not JSON: {error}", where=where, remedy="Mend the file.") from None
