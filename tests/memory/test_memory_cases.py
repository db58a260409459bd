"""The published runs: numbers within their bounds, no verdict wrong."""

import statistics
from pathlib import Path

import pytest

import judge_memory as judging

DATA = Path(__file__).resolve().parents[1] / "data" / "memory"
JUDGED = [
    case
    for name in ("cases.jsonl", "collected.jsonl")
    for case in judging.read_cases(DATA / name)
    if not judging.is_other_engine(case)
]


def errors(stated: bool) -> list[float]:
    """Return the absolute errors of the cases whose setup is, or is not, fully stated."""
    found = [
        judging.relative_error(judging.run_case(case), case["observed"])
        for case in JUDGED
        if judging.is_fully_stated(case) is stated
    ]
    return [abs(error) for error in found if error is not None]


@pytest.mark.parametrize("case", JUDGED, ids=lambda case: case["id"])
def test_a_published_run_is_judged_right(case: dict[str, object]) -> None:
    _, right, detail = judging.judge_case(case)
    assert right, detail


def test_fully_stated_runs_are_within_five_per_cent_in_the_median_and_fifteen_at_most() -> None:
    found = errors(stated=True)
    assert len(found) >= 4
    assert statistics.median(found) <= 0.05 and max(found) <= 0.15


def test_runs_with_assumed_inputs_are_within_twenty_per_cent_in_the_median() -> None:
    found = errors(stated=False)
    assert len(found) >= 5
    assert statistics.median(found) <= 0.20


def test_a_wrong_verdict_and_a_wrong_number_are_judged_wrong() -> None:
    case = next(case for case in JUDGED if case["id"] == "qlora-probe-01")
    turned = {**case, "observed": {**case["observed"], "fits": False}}
    assert judging.judge_case(turned)[1] is False
    doubled = {**case, "observed": {**case["observed"], "peak_gb_per_gpu": 6.0}}
    assert judging.judge_case(doubled)[1] is False


def test_a_case_that_raises_is_judged_wrong() -> None:
    case = next(case for case in JUDGED if case["id"] == "qlora-probe-01")
    assert judging.judge_case({**case, "model": {**case["model"], "heads": 7}})[1] is False
