"""Put SKILL.md and the references into the wheel, where the server finds them when there is no checkout.

An editable install gets none: it has the checkout itself, and a copy would go stale.
"""

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUNDLED = {"SKILL.md": "grpo_rlvr/skill/SKILL.md", "references": "grpo_rlvr/skill/references"}


class SkillFiles(BuildHookInterface[Any]):
    """Adds the files to an ordinary wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before a build; `version` is `standard` or `editable`."""
        if self.target_name == "wheel" and version == "standard":
            build_data["force_include"].update(BUNDLED)
