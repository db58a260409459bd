"""One config judged for several TRL releases."""

import json

import pytest

from grpo_rlvr.config import check, known_versions
from grpo_rlvr.errors import InputError
from grpo_rlvr.models.check import CheckResult
from grpo_rlvr.models.setup import parse_setup

MOVED = {"per_device_train_batch_size": 8, "num_generations": 8, "loss_type": "dapo", "max_prompt_length": 512}


def compared(config: dict[str, object], *versions: str, main: str = "0.24.0") -> CheckResult:
    return check(config, parse_setup({}), trl_version=main, compare_versions=versions)


def test_releases_of_which_the_same_is_said_share_one_row_and_stand_in_order() -> None:
    rows = compared(MOVED, "1.16.0", "0.17.0", "0.26.2", "1.9.2").releases
    assert [row.trl_versions for row in rows] == [["0.17.0"], ["0.24.0", "0.26.2"], ["1.9.2", "1.16.0"]]
    assert [row.verdict for row in rows] == ["error", "ok", "error"]
    assert rows[0].errors == ["value-not-allowed: loss_type"]
    assert rows[2].errors == ["removed-kwarg: max_prompt_length"]


def test_a_row_says_what_safe_fixes_would_leave() -> None:
    rows = compared({**MOVED, "per_device_train_batch_size": 6}, "1.16.0").releases
    assert [(row.verdict, row.verdict_after_safe_fixes) for row in rows] == [("error", "error"), ("error", "error")]
    assert [(row.verdict, row.verdict_after_safe_fixes) for row in compared(MOVED, "1.16.0").releases] == [
        ("ok", "ok"),
        ("error", "ok"),
    ]


def test_each_row_says_what_a_check_of_that_release_says() -> None:
    for row in compared(MOVED, "all").releases:
        for version in row.trl_versions:
            alone = check(MOVED, parse_setup({}), trl_version=version)
            assert row.verdict == alone.verdict
            assert row.errors == [f"{f.rule}: {f.fields[0]}" for f in alone.findings if f.severity == "error"]
            assert row.warnings == [f"{f.rule}: {f.fields[0]}" for f in alone.findings if f.severity == "warning"]


def test_all_names_every_release_that_has_a_table_and_stays_small() -> None:
    result = compared(MOVED, "all", "0.24")
    assert [version for row in result.releases for version in row.trl_versions] == list(known_versions())
    assert len(json.dumps([row.model_dump() for row in result.releases])) < 3_000


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="latest"):
        compared(MOVED, "latest")


def test_without_further_versions_nothing_is_compared() -> None:
    assert compared(MOVED).releases == []
