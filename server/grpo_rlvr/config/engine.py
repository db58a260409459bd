"""Run the rules over a config and its setup, and gather what they say into one answer."""

import copy
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from grpo_rlvr.config.admitted import breaks_elsewhere
from grpo_rlvr.config.batch import Batch
from grpo_rlvr.config.changes import changed_defaults
from grpo_rlvr.config.effective import describe
from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.lifetimes import lifetime
from grpo_rlvr.config.load_limits import checked_mapping
from grpo_rlvr.config.rule import Fail, NotApplicable, Outcome, Rule
from grpo_rlvr.config.rules import RULES
from grpo_rlvr.config.tables import Table, is_newer_than_tables, newest_version, patched, table
from grpo_rlvr.config.tidy import tidied
from grpo_rlvr.config.typecheck import wrongly_typed
from grpo_rlvr.config.versions import Versions, release
from grpo_rlvr.config.view import ConfigView, Unknown
from grpo_rlvr.models.check import ChangedDefault, CheckResult, Effective, Finding, Fix
from grpo_rlvr.models.setup import Setup

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_rlvr.config.load import LoadedConfig
    from grpo_rlvr.interpreter import Interpreter

ORDER = {"error": 0, "warning": 1, "info": 2}
# A safe fix may uncover one more finding with a safe fix (a renamed option with a value out of range); chains are
# short.
MAX_FIX_ROUNDS = 5
# A dotted path of the setup in a rule's reason; the list of rewards is one fact, whatever of it is asked for.
FACT = re.compile(r"\b(?:(?:model|hardware|dataset|versions|vllm_server|launch)\.\w+(?:\.\w+)*|rewards(?:\[\]\.\w+)?)")

# Paths that state a fact too.
SAME_FACT = {
    "hardware.gpu_mem_gb": ("hardware.gb_each",), "model.name": ("model.path",), "model.class": ("model.moe",),
    "model.kv_heads": ("model.num_key_value_heads",), "model.num_attention_heads": ("model.heads",),
    "model.head_dim": ("model.hidden",),
}  # fmt: skip


@dataclass(frozen=True)
class Inputs:
    """Everything that a rule may ask for by name."""

    config: ConfigView
    setup: Setup
    facts: Facts
    versions: Versions
    batch: Batch
    table: Table


@dataclass(frozen=True)
class Verdicts:
    """Findings in the order of the rules, and why rules could not judge."""

    findings: list[Finding]
    not_applicable: dict[str, str]


def check(
    config: Mapping[str, Any],
    setup: Setup,
    *,
    trl_version: str | None = None,
    from_version: str | None = None,
    compare_versions: Sequence[str] = (),
    loaded: "LoadedConfig | None" = None,
    deep: "Interpreter | None" = None,
    root: "Path | None" = None,
) -> CheckResult:
    """Check a config in its setup.

    Args:
        config: Keyword arguments of `GRPOConfig`.
        setup: What surrounds it.
        trl_version: Version to check against; else the setup's, else the newest known.
        from_version: A second TRL version; defaults that differ between the two are listed.
        compare_versions: Further TRL versions, or `all`; what is found in each is listed.
        loaded: The file that the config came from: gives lines, unread values and a diff.
        deep: A training interpreter; the real classes are then constructed in a child process.
        root: Where the deep check finds reward files and datasets; the current folder by default.

    Raises:
        InputError: a config that is no plain object within the limits, or a version that is none.
    """
    given = checked_mapping(config, "argument 'config'")
    version, source = resolve_version(setup, trl_version)
    unread = frozenset(loaded.unread) if loaded else frozenset()
    inputs = build_inputs(given, setup, version, unread, from_version)
    verdicts = run_rules(inputs)
    findings = [_located(finding, loaded) for finding in verdicts.findings]
    fixed = apply_safe_fixes(given, findings, setup, version, unread)
    transformers, transformers_source = resolve_transformers(inputs)
    result = CheckResult(
        verdict=worst(findings),
        trl_version=version,
        trl_version_source=source,
        transformers_version=transformers,
        transformers_version_source=transformers_source,
        findings=sorted(findings, key=lambda finding: ORDER[finding.severity]),
        effective=_effective(inputs),
        fixed_config=fixed,
        diff=_diff(loaded, given, fixed),
        defaults_changed=_changed_since(from_version, inputs) if from_version else [],
        unused_setup=[*setup.unused, *inputs.facts.unusable()],
        unread=sorted(unread),
        notes=[*(loaded.notes if loaded else []), *(_age(findings, inputs) if from_version is None else [])],
        not_applicable=verdicts.not_applicable,
        missing_facts=missing_facts(verdicts.not_applicable, inputs),
    )
    if compare_versions:
        from grpo_rlvr.config.releases import compare_releases

        result.releases = compare_releases(given, setup, [version, *compare_versions], unread)
        result.notes += [
            f"TRL {compared} is newer than the newest table ({newest_version()}), whose rules are applied to it."
            for outcome in result.releases
            for compared in outcome.trl_versions
            if compared != version and is_newer_than_tables(compared)
        ]
    if deep is not None:
        from grpo_rlvr.config.deep import deep_check

        result.deep = deep_check(result, given, setup, deep, root=root)
    return result


def _age(findings: Sequence[Finding], inputs: Inputs) -> list[str]:
    """What kwargs that are gone tell: for which release the config was written, whose defaults differ too."""
    gone = [lifetime(name, inputs.table) for item in findings if item.rule == "removed-kwarg" for name in item.fields]
    last = [life.last for life in gone if life.last and (life.removed or "").startswith("TRL")]
    if not last:
        return []
    oldest = min(last, key=release)
    return [
        f"Written for TRL {oldest} or older, by the kwargs that are gone: name that release as from_version "
        "(--from-version), and the defaults that changed since are listed."
    ]


def resolve_version(setup: Setup, argument: str | None) -> tuple[str, str]:
    """Return the TRL version to check against and where it comes from.

    Raises:
        InputError: the stated version is none.
    """
    stated = setup.get("versions.trl")
    for value, source in ((argument, "argument trl_version"), (stated, "setup versions.trl")):
        if value is not None:
            version = patched(str(value))
            if version != str(value):
                return version, f"{source}: {value} is read as its newest patch"
            newer = (
                f"; newer than the newest table ({newest_version()}), whose rules are applied: run the deep check too"
            )
            return version, source + (newer if is_newer_than_tables(version) else "")
    return newest_version(), "newest version that has a table; the setup states none"


def resolve_transformers(inputs: Inputs) -> tuple[str, str]:
    """Return the transformers version whose options are inherited, and where it comes from."""
    stated = inputs.versions.get("transformers")
    if stated is not None:
        return stated, "setup versions.transformers"
    admits = inputs.table.requires.get("transformers", "any")
    return inputs.table.transformers, (
        f"assumed: the newest when TRL {inputs.table.trl} came out, which admits {admits}; state versions.transformers"
    )


def missing_facts(reasons: Mapping[str, str], inputs: Inputs) -> dict[str, int]:
    """Return the setup facts that are not stated, with the number of rules that wait for each, the most first."""
    waiting = Counter(fact for reason in reasons.values() for fact in {*FACT.findall(reason)})
    missing = {fact: count for fact, count in waiting.items() if not _is_stated(fact, inputs)}
    return dict(sorted(missing.items(), key=lambda entry: (-entry[1], entry[0])))


def _is_stated(fact: str, inputs: Inputs) -> bool:
    """Return whether a fact is stated, under its own path or in another of the usual ways."""
    facts, setup = inputs.facts, inputs.setup
    if setup.get(fact) is not None:
        return True
    if fact == "model.peft":
        return facts.peft is not None
    if fact == "hardware.num_processes":
        return facts.processes_known
    if fact == "hardware.cuda_visible_devices":
        return facts.visible_devices is not None
    return any(setup.get(other) is not None for other in SAME_FACT.get(fact, ()))


def _changed_since(from_version: str, inputs: Inputs) -> list[ChangedDefault]:
    def may_be_on(switch: str) -> bool:
        try:
            return inputs.config.flag(switch)
        except Unknown:
            return True

    return changed_defaults(
        inputs.config.names(),
        table(from_version),
        inputs.table,
        uses_vllm=may_be_on("use_vllm"),
        syncs_reference=may_be_on("sync_ref_model"),
    )


def build_inputs(
    given: Mapping[str, Any],
    setup: Setup,
    version: str,
    unread: frozenset[str] = frozenset(),
    from_version: str | None = None,
) -> Inputs:
    """Return what the rules of one check share."""
    setup = tidied(setup)
    stated = setup.get("versions.transformers")
    fields = table(version, str(stated) if stated is not None else None)
    versions = Versions(version, setup.section("versions"), from_version)
    broken = frozenset(wrongly_typed(given, fields))
    view = ConfigView(given, fields, unread=unread, broken=broken)
    facts = Facts(view, setup, versions)
    return Inputs(view, setup, facts, versions, Batch(view, facts), fields)


@lru_cache(maxsize=64)
def rules_for(version: str) -> tuple[Rule, ...]:
    """Return the rules that speak about a TRL version, in their fixed order."""
    return tuple(rule for rule in RULES if rule.holds_for(version))


def run_rules(inputs: Inputs, rules: Iterable[Rule] | None = None) -> Verdicts:
    """Run rules in order; a rule whose prerequisite failed is left out, so that one cause makes one finding."""
    failed: set[str] = set()
    verdicts = Verdicts([], {})
    for rule in rules_for(inputs.versions.trl) if rules is None else rules:
        if failed.intersection(rule.requires):
            continue
        outcome = run_rule(rule, inputs)
        if isinstance(outcome, NotApplicable):
            verdicts.not_applicable[rule.id] = outcome.reason
        elif isinstance(outcome, Fail | list | tuple):
            failures = [outcome] if isinstance(outcome, Fail) else outcome
            verdicts.findings.extend(finding_of(rule, failure, inputs) for failure in failures)
            if failures:
                failed.add(rule.id)
    return verdicts


def run_rule(rule: Rule, inputs: Inputs) -> Outcome:
    """Return what one rule answers; reading an unknown value makes it not applicable."""
    try:
        return rule.run(**{name: getattr(inputs, name) for name in rule.asks})
    except Unknown as unknown:
        return NotApplicable(str(unknown))


def finding_of(rule: Rule, failure: Fail, inputs: Inputs) -> Finding:
    """Return a failure with what its rule knows; its fix uses the names that the config uses.

    A fix is safe only when it is right for every transformers release that may be installed.
    """
    fix, config, elsewhere = None, inputs.config, ""
    if failure.safe and failure.set and inputs.versions.get("transformers") is None:
        elsewhere = breaks_elsewhere(failure.set, inputs.table)
    if failure.set or failure.unset:
        changed = {config.spelled(name): copy.deepcopy(value) for name, value in failure.set.items()}
        fix = Fix(set=changed, unset=list(failure.unset), safe=failure.safe and not elsewhere)
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        fields=list(failure.fields),
        value=failure.value,
        message=f"{failure.message} But {elsewhere}: state versions.transformers." if elsewhere else failure.message,
        why=rule.why,
        fix=fix,
        sources=list(rule.sources),
        doc=rule.doc,
    )


def apply_safe_fixes(
    given: Mapping[str, Any],
    findings: Sequence[Finding],
    setup: Setup,
    version: str,
    unread: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Return the config with every safe fix applied, checked again until no safe fix is left."""
    fixed = copy.deepcopy(dict(given))
    for _ in range(MAX_FIX_ROUNDS):
        if not any(finding.fix and finding.fix.safe for finding in findings):
            break
        for finding in findings:
            if finding.fix and finding.fix.safe:
                fixed = apply_fix(fixed, finding.fix)
        findings = run_rules(build_inputs(fixed, setup, version, unread)).findings
    return fixed


def apply_fix(config: Mapping[str, Any], fix: Fix) -> dict[str, Any]:
    """Return a config with one fix applied."""
    kept = {name: value for name, value in config.items() if name not in fix.unset}
    return {**kept, **copy.deepcopy(fix.set)}


def _effective(inputs: Inputs) -> Effective | None:
    try:
        return describe(inputs.config, inputs.facts, inputs.batch)
    except Unknown:
        return None


def _diff(loaded: "LoadedConfig | None", given: Mapping[str, Any], fixed: Mapping[str, Any]) -> str | None:
    if loaded is None:
        return None
    # What the caller told beside the file stands on its command line and is not written into it.
    own = loaded.config
    told = {name for name, value in given.items() if name not in own or own[name] != value}
    kept = {
        name: own[name] if name in told else value for name, value in fixed.items() if name in own or name not in told
    }
    # Only a file can be edited: a config given as data needs none of the readers.
    from grpo_rlvr.config.load_edit import unified_diff

    return unified_diff(loaded, kept)


def worst(findings: Sequence[Finding]) -> Any:
    """Return the verdict on findings: the worst severity, `ok` where there is none but information."""
    severity = min((finding.severity for finding in findings), key=ORDER.__getitem__, default="info")
    return "ok" if severity == "info" else severity


def _located(finding: Finding, loaded: "LoadedConfig | None") -> Finding:
    if loaded is None:
        return finding
    lines = (loaded.line_of(name) for name in finding.fields)
    finding.file, finding.line = loaded.file, next((line for line in lines if line), None)
    return finding
