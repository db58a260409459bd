"""Where the skill's own files lie: in the checkout, or inside the installed package."""

from pathlib import Path

NAME = "grpo-rlvr-training"
PACKAGE = Path(__file__).parent
CHECKOUT = PACKAGE.parents[1]
# A wheel carries copies there; a checkout never does, so that no stale copy can be served.
BUNDLED = PACKAGE / "skill"
# Plugins keep every skill in a folder of its own.
PLUGIN = CHECKOUT / "skills" / NAME


def skill_root() -> Path | None:
    """Return the folder with SKILL.md and references/, or None when this installation has neither."""
    for folder in (CHECKOUT, PLUGIN, BUNDLED):
        if (folder / "SKILL.md").is_file() and (folder / "references").is_dir():
            return folder
    return None


def skill_files() -> dict[str, Path]:
    """Return the skill's files by their path inside the skill, SKILL.md first; empty when there are none."""
    root = skill_root()
    if root is None:
        return {}
    pages = sorted(path for path in (root / "references").rglob("*.md"))
    return {"SKILL.md": root / "SKILL.md"} | {path.relative_to(root).as_posix(): path for path in pages}
