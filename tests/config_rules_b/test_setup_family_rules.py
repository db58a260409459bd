"""Registry-wide: the rules of the setup families, each held to what it says about itself."""

import re

import pytest

from grpo_rlvr.config.engine import build_inputs, run_rule
from grpo_rlvr.config.rule import Example, Fail, Outcome, Rule
from grpo_rlvr.config.rules import (
    RULES,
    dataset,
    distributed,
    evaluation,
    peft,
    precision,
    recipe,
    resume,
    reward_columns,
    reward_signal,
    reward_text,
    rewards,
    vision,
)
from grpo_rlvr.config.tables import known_versions
from grpo_rlvr.models.setup import parse_setup

FAMILIES = (
    dataset,
    distributed,
    evaluation,
    peft,
    precision,
    recipe,
    resume,
    reward_columns,
    reward_signal,
    reward_text,
    rewards,
    vision,
)
OWN = [rule for family in FAMILIES for rule in family.RULES]


def version_of(rule: Rule, example: Example) -> str:
    """Return the version that an example is about: its own, else the newest that the rule speaks about."""
    stated = (example.setup.get("versions") or {}).get("trl")
    return str(stated or next(version for version in reversed(known_versions()) if rule.holds_for(version)))


def outcome(rule: Rule, example: Example, version: str) -> Outcome:
    """Return what a rule says about one of its examples."""
    setup = parse_setup(dict(example.setup))
    assert not setup.unused, f"{rule.id}: its example states what nothing reads: {setup.unused}"
    return run_rule(rule, build_inputs(dict(example.config), setup, version))


def failures(result: Outcome) -> list[Fail]:
    """Return the failures in an outcome."""
    return [result] if isinstance(result, Fail) else list(result) if isinstance(result, list) else []


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.id)
def test_a_rule_fires_on_its_bad_example_and_not_on_its_good_one(rule: Rule) -> None:
    assert failures(outcome(rule, rule.bad, version_of(rule, rule.bad)))
    assert not failures(outcome(rule, rule.good, version_of(rule, rule.good)))


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.id)
def test_an_example_speaks_about_a_version_that_the_rule_holds_for(rule: Rule) -> None:
    assert rule.holds_for(version_of(rule, rule.bad))


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.id)
def test_a_finding_names_its_fields_and_says_what_to_do(rule: Rule) -> None:
    for failure in failures(outcome(rule, rule.bad, version_of(rule, rule.bad))):
        assert failure.fields and all(re.fullmatch(r"[\w.\[\]]+", field) for field in failure.fields)
        assert failure.message.endswith(".") and len(failure.message) > 30
        if isinstance(failure.value, int | float) and not isinstance(failure.value, bool):
            assert f"{failure.value:g}" in failure.message, "the value found is not named"


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.id)
def test_a_rule_states_why_and_where_it_is_known_from(rule: Rule) -> None:
    assert rule.what.endswith(".") and rule.why.endswith(".") and rule.sources


@pytest.mark.parametrize("rule", OWN, ids=lambda rule: rule.id)
def test_applying_a_fix_removes_the_finding(rule: Rule) -> None:
    version = version_of(rule, rule.bad)
    for failure in failures(outcome(rule, rule.bad, version)):
        if failure.set or failure.unset:
            kept = {name: value for name, value in rule.bad.config.items() if name not in failure.unset}
            mended = Example({**kept, **failure.set}, rule.bad.setup)
            assert not failures(outcome(rule, mended, version))


def test_all_rules_of_the_families_are_registered_once() -> None:
    registered = [rule.id for rule in RULES]
    assert all(registered.count(rule.id) == 1 for rule in OWN)


def test_ids_name_the_pattern_and_never_the_cure() -> None:
    for rule in OWN:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.id)
        assert not re.match(r"(use|avoid|prefer|set|no)-", rule.id)


def test_a_required_rule_runs_before_the_one_that_requires_it() -> None:
    order = [rule.id for rule in RULES]
    for rule in OWN:
        for needed in rule.requires:
            assert order.index(needed) < order.index(rule.id)
