"""A check's answer for other tools: SARIF and GitHub annotations."""

import json
import re
from typing import Any

import pytest

from grpo_rlvr.config import check, load_config, to_github, to_sarif
from grpo_rlvr.models.check import CheckResult
from grpo_rlvr.models.setup import parse_setup

SCRIPT = """\
c = GRPOConfig(
    num_generations=3,
    warmup_ratio=0.1,
)
"""


@pytest.fixture
def result() -> CheckResult:
    """Return the check of a script with an error, and a message with line breaks, commas and colons."""
    loaded = load_config(SCRIPT, "runs/50%, a:b.py")
    checked = check(loaded.config, parse_setup({"hardware": {"num_processes": 1}}), loaded=loaded)
    checked.findings[0].message += "\nsecond line"
    return checked


def test_sarif_has_a_rule_for_every_result_and_points_at_the_line(result: CheckResult) -> None:
    log: dict[str, Any] = json.loads(to_sarif(result))
    run = log["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert log["version"] == "2.1.0" and len(run["results"]) == len(result.findings)
    for entry, finding in zip(run["results"], result.findings, strict=True):
        assert rules[entry["ruleIndex"]]["id"] == entry["ruleId"] == finding.rule
        assert entry["level"] == {"error": "error", "warning": "warning", "info": "note"}[finding.severity]
        place = entry["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "runs/50%25%2C%20a:b.py"
        if finding.line:
            assert place["region"]["startLine"] == finding.line


def test_an_inline_config_has_logical_locations() -> None:
    log = json.loads(to_sarif(check({"num_generations": 3}, parse_setup({}))))
    assert all("logicalLocations" in entry["locations"][0] for entry in log["runs"][0]["results"])


def test_annotations_are_one_escaped_command_a_finding(result: CheckResult) -> None:
    lines = to_github(result).splitlines()
    assert len(lines) == len(result.findings)
    for line, finding in zip(lines, result.findings, strict=True):
        command = {"error": "error", "warning": "warning", "info": "notice"}[finding.severity]
        assert re.match(rf"::{command} file=runs/50%25%2C a%3Ab\.py,", line)
    assert "%0Asecond line" in lines[0]
