"""A check's answer in the forms that other tools read: SARIF and GitHub annotations."""

import json
from typing import Any

from grpo_rlvr import __version__
from grpo_rlvr.models.check import CheckResult, Finding

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# GitHub cuts longer annotation messages by itself, in the middle of a word.
MAX_ANNOTATION = 4_000


def to_sarif(result: CheckResult) -> str:
    """Return the answer as the JSON text of a SARIF 2.1.0 log, as code scanning reads it."""
    rules = {finding.rule: finding for finding in reversed(result.findings)}
    order = sorted(rules)
    driver = {
        "name": "grpo-rlvr",
        "version": __version__,
        "rules": [_sarif_rule(rules[name]) for name in order],
    }
    log = {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "results": [_sarif_result(finding, order.index(finding.rule)) for finding in result.findings],
                "properties": {"trl_version": result.trl_version, "verdict": result.verdict},
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False)


def _sarif_rule(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.rule,
        "shortDescription": {"text": finding.rule.replace("-", " ")},
        "fullDescription": {"text": finding.why},
        "help": {"text": f"{finding.why} See {finding.doc}."},
        "defaultConfiguration": {"level": _LEVELS[finding.severity]},
    }


def _sarif_result(finding: Finding, index: int) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message} {finding.why}"},
        "partialFingerprints": {"ruleAndFields/v1": f"{finding.rule}:{','.join(finding.fields)}"},
        "properties": {"fields": finding.fields, "fix": finding.fix.model_dump() if finding.fix else None},
    }
    if finding.file is not None:
        physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.file)}}
        if finding.line:
            physical["region"] = {"startLine": finding.line}
        entry["locations"] = [{"physicalLocation": physical}]
    else:
        entry["locations"] = [{"logicalLocations": [{"name": name, "kind": "member"} for name in finding.fields[:1]]}]
    return entry


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path.replace("\\", "/"), safe="/:")


def to_github(result: CheckResult) -> str:
    """Return one GitHub workflow command a finding, so that CI shows them on the file's lines."""
    return "".join(f"{_annotation(finding)}\n" for finding in result.findings)


def _annotation(finding: Finding) -> str:
    properties = [f"title={_property(finding.rule)}"]
    if finding.file is not None:
        properties.insert(0, f"file={_property(finding.file)}")
        if finding.line:
            properties.insert(1, f"line={finding.line}")
    text = f"{', '.join(finding.fields)}: {finding.message} {finding.why}"
    return f"::{_COMMANDS[finding.severity]} {','.join(properties)}::{_data(text[:MAX_ANNOTATION])}"


def _data(text: str) -> str:
    # The escapes of workflow commands: without them a line break would end the command.
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
