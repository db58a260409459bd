"""One config in several TRL releases: where it passes, and what is found where it does not."""

from collections.abc import Mapping, Sequence
from typing import Any

from packaging.version import Version

from grpo_rlvr.config.engine import apply_safe_fixes, build_inputs, run_rules, worst
from grpo_rlvr.config.tables import known_versions, patched
from grpo_rlvr.models.check import Finding, ReleaseOutcome
from grpo_rlvr.models.setup import Setup

# Stands for every release that has a table.
ALL = "all"


def compare_releases(
    config: Mapping[str, Any], setup: Setup, versions: Sequence[str], unread: frozenset[str] = frozenset()
) -> list[ReleaseOutcome]:
    """Judge a config for several TRL releases; neighbours of which the same is said share one entry.

    Args:
        config: Keyword arguments of `GRPOConfig`.
        setup: What surrounds it. Versions of other packages hold for every release.
        versions: TRL versions in any order; `all` stands for each release that has a table.
        unread: Kwargs whose value could not be read.

    Raises:
        InputError: a version that is none.
    """
    named: dict[Version, str] = {}
    for version in versions:
        for text in known_versions() if version == ALL else [version]:
            release = patched(text)
            named.setdefault(Version(release), release)
    outcomes: list[ReleaseOutcome] = []
    for _, version in sorted(named.items()):
        outcome = _outcome(config, setup, version, unread)
        if outcomes and _said(outcomes[-1]) == _said(outcome):
            outcomes[-1].trl_versions.append(version)
        else:
            outcomes.append(outcome)
    return outcomes


def _outcome(config: Mapping[str, Any], setup: Setup, version: str, unread: frozenset[str]) -> ReleaseOutcome:
    findings = run_rules(build_inputs(config, setup, version, unread)).findings
    fixed = apply_safe_fixes(config, findings, setup, version, unread)
    left = findings if fixed == config else run_rules(build_inputs(fixed, setup, version, unread)).findings
    return ReleaseOutcome(
        trl_versions=[version],
        verdict=worst(findings),
        verdict_after_safe_fixes=worst(left),
        errors=_named(findings, "error"),
        warnings=_named(findings, "warning"),
    )


def _named(findings: Sequence[Finding], severity: str) -> list[str]:
    return [f"{item.rule}: {item.fields[0]}" for item in findings if item.severity == severity]


def _said(outcome: ReleaseOutcome) -> dict[str, Any]:
    return outcome.model_dump(exclude={"trl_versions"})
