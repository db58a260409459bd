"""The judged cases, and what fixing them leaves."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.config import RULES, check
from grpo_rlvr.models.setup import parse_setup

TESTS = Path(__file__).resolve().parent.parent
_spec = importlib.util.spec_from_file_location("judge_config", TESTS / "judge_config.py")
assert _spec and _spec.loader
judge_config = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(judge_config)
CASES: list[dict[str, Any]] = list(judge_config.cases(TESTS / "data" / "config"))
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])


def answer(case: dict[str, Any], config: dict[str, Any]) -> Any:
    return check(config, parse_setup(case["context"]), trl_version=case["context"]["versions"]["trl"])


def test_the_cases_are_many_and_name_their_sources() -> None:
    assert len(CASES) >= 100 and all(case["source"] for case in CASES)


@each_case
def test_the_case_is_judged_right(case: dict[str, Any]) -> None:
    right, text = judge_config.judge_case(case)
    assert right, text


@each_case
def test_a_working_or_surprising_config_gets_no_error(case: dict[str, Any]) -> None:
    if case["expect"]["severity"] in ("ok", "info", "warning"):
        errors = [finding.rule for finding in answer(case, case["config"]).findings if finding.severity == "error"]
        stated = [other for other in case["expect"].get("also", []) if other["severity"] == "error"]
        assert not errors or stated, errors


@each_case
def test_applying_the_safe_fixes_leaves_none_of_the_fixed_findings(case: dict[str, Any]) -> None:
    before = answer(case, case["config"])
    after = answer(case, before.fixed_config)
    fixed = {(finding.rule, finding.fields[0]) for finding in before.findings if finding.fix and finding.fix.safe}
    assert not fixed & {(finding.rule, finding.fields[0]) for finding in after.findings}
    assert not [finding.rule for finding in after.findings if finding.fix and finding.fix.safe]
    # A rule that waited for a failed one may speak now; nothing else may be new.
    known = {finding.rule for finding in before.findings}
    waited = {rule.id for rule in RULES if known.intersection(rule.requires)}
    assert not {finding.rule for finding in after.findings if finding.severity == "error"} - known - waited
    assert after.fixed_config == before.fixed_config
