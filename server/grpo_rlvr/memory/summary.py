"""What a model's folder, hub cache or name says about it, for tools that need it in passing. No network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from grpo_rlvr.errors import UserError
from grpo_rlvr.memory import known
from grpo_rlvr.memory.configfile import from_config
from grpo_rlvr.memory.facts import resolve_facts
from grpo_rlvr.memory.modelfile import find_local_config
from grpo_rlvr.memory.names import VISION_NAME
from grpo_rlvr.models.setup import Setup
from grpo_rlvr.workspace import Workspace

VISION_KEYS = ("vision_config", "vision_tower", "image_token_id", "image_token_index")


@dataclass(frozen=True)
class ModelSummary:
    """Size and kind of a model.

    Attributes:
        params_b: Billions of parameters, None when nothing says.
        kind: dense, moe or vlm; None when nothing says.
        why: What the kind was told by, for people.
    """

    params_b: float | None = None
    kind: Literal["dense", "moe", "vlm"] | None = None
    why: str = ""


def describe(model: Mapping[str, Any], workspace: Workspace | None = None) -> ModelSummary:
    """Return what is known of the model that a setup's or a launch's `model` section names.

    A config.json in its folder or in the hub cache decides; without one the table of known models and the name do.
    """
    name = next((str(model[key]) for key in ("path", "name") if isinstance(model.get(key), str)), "")
    if not name:
        return ModelSummary()
    try:
        config = find_local_config(name, workspace)
    except UserError:
        config = None
    if config is None:
        return _by_name(name)
    vision = next((key for key in VISION_KEYS if key in config), None)
    try:
        facts = from_config(config, name, "config.json")
    except UserError:
        return ModelSummary(None, "vlm" if vision else None, f"{vision} in its config.json" if vision else "")
    kind: Literal["dense", "moe", "vlm"] = "vlm" if vision else "moe" if facts.experts else "dense"
    return ModelSummary(facts.params / 1e9, kind, f"{vision} in its config.json" if vision else "its config.json")


def _by_name(name: str) -> ModelSummary:
    vision = VISION_NAME.search(name)
    if vision:
        word = vision.group().strip("-_/.")
        return ModelSummary(None, "vlm", f"{word!r} in its name; its config.json is not at hand")
    if known.find(name) is None:
        return ModelSummary()
    facts = resolve_facts(Setup({"model": {"name": name}})).facts
    kind: Literal["dense", "moe", "vlm"] = "vlm" if facts.tower else "moe" if facts.experts else "dense"
    return ModelSummary(facts.params / 1e9, kind, "the table of known models")
