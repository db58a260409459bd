"""Judge config cases: a finding of the expected severity must name an expected field, and `ok` must stay silent.

A case of severity error or warning is right when some finding of that same severity names one of `expect.fields`; info
is right when no error is raised; ok when neither an error nor a warning is.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_rlvr.models.check import Finding
from grpo_rlvr.tools.check import check_config
from grpo_rlvr.workspace import Workspace


def judge(path: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield id, right, and what was found, for every case of a file or folder."""
    for case in cases(path):
        yield case["id"], *judge_case(case)


def cases(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the config cases of a file, or of every JSON Lines file in a folder (other lines are passed over)."""
    for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
        for line in file.read_text(encoding="utf-8").splitlines():
            case = json.loads(line) if line.strip() else {}
            if {"config", "context", "expect"} <= set(case):
                yield case


def judge_case(case: dict[str, Any]) -> tuple[bool, str]:
    """Return whether the answer to one case is right, and what was found."""
    context = case["context"]
    try:
        result = check_config(
            Workspace.open("."), config=case["config"], setup=context, trl_version=context["versions"]["trl"]
        )
    except Exception as error:
        return False, f"raised {type(error).__name__}: {error}"
    expected = case["expect"]
    return is_right(expected, result.findings), describe(expected, result.findings)


def is_right(expected: dict[str, Any], findings: list[Finding]) -> bool:
    """Return whether the findings answer what is expected."""
    severities = {finding.severity for finding in findings}
    if expected["severity"] == "ok":
        return not severities & {"error", "warning"}
    if expected["severity"] == "info":
        return "error" not in severities
    return any(
        finding.severity == expected["severity"] and set(finding.fields) & set(expected["fields"])
        for finding in findings
    )


def describe(expected: dict[str, Any], findings: list[Finding]) -> str:
    """Return the expected severity, the rules that fired, and those on other fields (to be read by eye)."""
    wanted = {*expected["fields"]}
    for other in expected.get("also", []):
        wanted |= {name.strip() for name in other["about"].split(",")}
    fired = ", ".join(f"{finding.severity}:{finding.rule}" for finding in findings if finding.severity != "info")
    extra = [f.rule for f in findings if f.severity != "info" and not wanted & set(f.fields)]
    return f"expects {expected['severity']}; {fired or 'nothing'}" + (f"; also {', '.join(extra)}" if extra else "")
