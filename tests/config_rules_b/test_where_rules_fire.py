"""Every rule fires where its table says so and stays silent where it says that."""

from typing import Any

import pytest

from config_rules_b import (
    cases_idle_options,
    cases_loading_and_backend,
    cases_patch_releases,
    cases_setup,
    cases_start_and_trainer,
)

TABLES = (cases_idle_options, cases_loading_and_backend, cases_patch_releases, cases_setup, cases_start_and_trainer)
FIRES = [case for table in TABLES for case in table.FIRES]
SILENT = [case for table in TABLES for case in table.SILENT]


def rule_id(value: Any) -> str:
    """Show the rule and the release of a case; its config and setup are long."""
    return value if isinstance(value, str) else ""


@pytest.mark.parametrize(("rule", "config", "setup", "trl"), FIRES, ids=rule_id)
def test_the_rule_fires(findings: Any, rule: str, config: dict[str, Any], setup: dict[str, Any], trl: str) -> None:
    assert rule in {finding.rule for finding in findings(config, setup, trl=trl)}


@pytest.mark.parametrize(("rule", "config", "setup", "trl"), SILENT, ids=rule_id)
def test_the_rule_stays_silent(
    findings: Any, rule: str, config: dict[str, Any], setup: dict[str, Any], trl: str
) -> None:
    assert rule not in {finding.rule for finding in findings(config, setup, trl=trl)}
