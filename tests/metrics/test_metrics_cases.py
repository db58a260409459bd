"""Judged logs: public ones with their sources, and real runs of TRL with planted faults."""

import json
from pathlib import Path

import pytest

from judge_logs import judge_case

DATA = Path(__file__).parent.parent / "data" / "logs"
CASES = [
    (folder, json.loads(line))
    for folder in (DATA / "public", DATA / "collected", DATA / "tiny_runs")
    for line in (folder / "index.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize(("folder", "case"), CASES, ids=[case["id"] for _, case in CASES])
def test_a_log_gets_a_verdict_that_can_be_defended(folder, case):
    right, text = judge_case(case, folder)
    assert right, text


def test_the_cases_hold_five_planted_faults_and_three_healthy_seeds():
    tiny = [case for folder, case in CASES if folder.name == "tiny_runs"]
    assert sum(case["must_not_alarm"] for case in tiny) == 3
    assert sum(not case["must_not_alarm"] for case in tiny) == 5


def test_a_wrong_label_is_judged_wrong():
    folder, case = CASES[0]
    assert not judge_case({**case, "acceptable_first_labels": ["kl_blowup"]}, folder)[0]
    assert not judge_case({**case, "acceptable_variants": ["gspo"]}, folder)[0]
