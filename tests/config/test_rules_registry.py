"""Every rule keeps the promises of the registry."""

import re
from typing import Any

import pytest

from grpo_rlvr.config import RULES, explain, known_versions, render_docs
from grpo_rlvr.config.engine import build_inputs, run_rules
from grpo_rlvr.config.rule import Example, Rule
from grpo_rlvr.errors import NotFoundError
from grpo_rlvr.models.check import Finding
from grpo_rlvr.models.setup import parse_setup

BY_ID = {rule.id: rule for rule in RULES}
PAGES = render_docs()
all_rules = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


def findings_of(rule: Rule, example: Example) -> list[Finding]:
    """Return what the example sets off, at its own TRL version or the newest that the rule speaks about."""
    stated: Any = example.setup.get("versions", {})
    version = stated.get("trl") or [known for known in known_versions() if rule.holds_for(known)][-1]
    return run_rules(build_inputs(dict(example.config), parse_setup(dict(example.setup)), version)).findings


def test_ids_are_unique_and_name_the_wrong_pattern() -> None:
    assert len(BY_ID) == len(RULES)
    for name in BY_ID:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name), name
        assert not re.match(r"(use|avoid|prefer|set|do|check|never|always)-", name), f"{name} names a cure"


def test_there_is_a_rule_for_every_part_of_the_field() -> None:
    families = {rule.family for rule in RULES}
    assert len(families) >= 15 and len(RULES) >= 150


@all_rules
def test_the_bad_example_sets_the_rule_off(rule: Rule) -> None:
    found = [finding for finding in findings_of(rule, rule.bad) if finding.rule == rule.id]
    assert found and all(finding.fields and finding.message and finding.severity == rule.severity for finding in found)


@all_rules
def test_the_good_example_does_not(rule: Rule) -> None:
    assert rule.id not in {finding.rule for finding in findings_of(rule, rule.good)}


@all_rules
def test_a_rule_comes_after_what_it_requires(rule: Rule) -> None:
    order = [known.id for known in RULES]
    assert all(required in BY_ID for required in rule.requires)
    assert all(order.index(required) < order.index(rule.id) for required in rule.requires)


@all_rules
def test_a_rule_says_what_why_and_where_from(rule: Rule) -> None:
    assert rule.what.endswith(".") and rule.why.endswith(".") and rule.sources
    stated: Any = rule.bad.setup.get("versions", {})
    assert any(rule.holds_for(version) for version in (stated.get("trl", "0.14"), *known_versions()))


@all_rules
def test_a_fix_sets_kwargs_that_exist_and_cures_what_it_was_for(rule: Rule) -> None:
    stated: Any = rule.bad.setup.get("versions", {})
    version = stated.get("trl") or [known for known in known_versions() if rule.holds_for(known)][-1]
    setup = parse_setup(dict(rule.bad.setup))
    for finding in findings_of(rule, rule.bad):
        if finding.rule != rule.id or finding.fix is None:
            continue
        inputs = build_inputs(dict(rule.bad.config), setup, version)
        assert all(name in inputs.table for name in finding.fix.set), finding.fix
        assert all("." not in name for name in (*finding.fix.set, *finding.fix.unset))
        kept = {name: value for name, value in rule.bad.config.items() if name not in finding.fix.unset}
        after = run_rules(build_inputs({**kept, **finding.fix.set}, setup, version)).findings
        left = [(other.rule, other.fields[0]) for other in after]
        assert (finding.rule, finding.fields[0]) not in left, f"{finding.fix} leaves {rule.id}"


@all_rules
def test_its_page_has_its_anchor(rule: Rule) -> None:
    page, _, anchor = rule.doc.partition("#")
    assert f"\n## {anchor}\n" in PAGES[page]
    assert rule.why in explain(rule.id)


def test_explaining_an_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(NotFoundError, match="batch-not-divisible-by-group"):
        explain("batch-not-divisible-by-groups")
