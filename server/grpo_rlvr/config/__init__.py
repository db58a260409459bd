"""Check a GRPO config against everything that is known to go wrong, for every TRL version."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo_rlvr.config.docs import explain, render_docs
    from grpo_rlvr.config.engine import apply_fix, check, rules_for
    from grpo_rlvr.config.load import LoadedConfig, load_config
    from grpo_rlvr.config.load_edit import apply_diff
    from grpo_rlvr.config.output import to_github, to_sarif
    from grpo_rlvr.config.rules import RULES
    from grpo_rlvr.config.tables import known_versions, newest_version, table

# Importing the package must cost nothing: the server starts without the rules and loads them at the first check.
_HOMES = {
    "RULES": "rules",
    "LoadedConfig": "load",
    "apply_diff": "load_edit",
    "apply_fix": "engine",
    "check": "engine",
    "explain": "docs",
    "known_versions": "tables",
    "load_config": "load",
    "newest_version": "tables",
    "render_docs": "docs",
    "rules_for": "engine",
    "table": "tables",
    "to_github": "output",
    "to_sarif": "output",
}

__all__ = [
    "RULES",
    "LoadedConfig",
    "apply_diff",
    "apply_fix",
    "check",
    "explain",
    "known_versions",
    "load_config",
    "newest_version",
    "render_docs",
    "rules_for",
    "table",
    "to_github",
    "to_sarif",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
