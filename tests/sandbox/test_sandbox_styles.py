"""Every common way to write tests is graded as pytest and plain execution would grade it."""

from typing import Any

import pytest

from rlvr_rewards.unit_test import UnitTest


def _row(case: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    options = dict(case.options)
    row = {name: options.pop(name) for name in ("files", "entry_point") if name in options}
    return {"tests": case.tests, **row}, options


@pytest.mark.parametrize("partial", [False, True], ids=["whole", "partial"])
def test_right_programs_are_paid_and_wrong_ones_are_not(style_case: Any, partial: bool) -> None:
    row, options = _row(style_case)
    reward = UnitTest(style=style_case.style, partial=partial, limit_s=8, **options)
    assert reward.check_rows([row]) == []
    right, wrong = reward.grade_batch([style_case.right, style_case.wrong], [row, row])
    assert (right.score, right.reason) == (1.0, "correct"), right.detail
    assert wrong.score is not None and wrong.score < 1.0, wrong.detail


def test_a_stub_is_paid_by_no_style(style_cases: tuple[Any, ...]) -> None:
    for case in style_cases:
        row, options = _row(case)
        verdict = UnitTest(style=case.style, limit_s=8, **options).grade("pass", row)
        assert verdict.score == 0.0, case.name


PARTLY = "def f(x):\n    return x if x < 3 else -1\n"


@pytest.mark.parametrize(
    ("style", "tests", "share"),
    [
        ("assert", "assert f(1) == 1\nassert f(2) == 2\nassert f(5) == 5\nassert f(6) == 6", 0.5),
        ("assert", "import math\nassert math.floor(f(1)) == 1\nassert f(5) == 5\nassert f(2) == 2", 2 / 3),
        ("assert", "def check(f):\n    assert f(1) == 1\n    assert f(9) == 9\ncheck(f)", 0.5),
        (
            "pytest",
            "from candidate import f\ndef test_a():\n    assert f(1) == 1\ndef test_b():\n    assert f(5) == 5",
            0.5,
        ),
        (
            "pytest",
            "import pytest\nfrom candidate import f\n@pytest.mark.parametrize('x', [1, 2, 3, 4])\n"
            "def test_a(x):\n    assert f(x) == x",
            0.5,
        ),
    ],
)
def test_partial_scores_are_the_share_of_passed_tests(style: str, tests: str, share: float) -> None:
    verdict = UnitTest(style=style, partial=True).grade(PARTLY, {"tests": tests})
    assert verdict.score == pytest.approx(share)
    assert verdict.reason == "partial"
    assert UnitTest(style=style).grade(PARTLY, {"tests": tests}).score == 0.0


def test_partial_scores_count_what_passed_before_a_hang() -> None:
    program = "def f(x):\n    while x > 2: pass\n    return x\n"
    tests = "\n".join(f"assert f({x}) == {x}" for x in range(4))
    verdict = UnitTest(partial=True, limit_s=1).grade(program, {"tests": tests})
    assert (verdict.score, verdict.reason) == (0.75, "timeout")


@pytest.mark.parametrize(
    "tests",
    [
        "for x in f(0):\n    assert x > 0",
        "from candidate import f\ndef test_f():\n    for x in f(0):\n        assert x > 0",
        "import unittest\nimport candidate\nclass T(unittest.TestCase):\n    def test_f(self):\n"
        "        for x in candidate.f(0):\n            self.assertTrue(x)",
        "def check(f):\n    for x in f(0):\n        assert x > 0\ncheck(f)",
    ],
)
def test_tests_whose_assertions_were_all_passed_over_prove_nothing(tests: str) -> None:
    reward = UnitTest(style="assert" if "candidate" not in tests else "pytest")
    assert reward.grade("def f(n): return []", {"tests": tests}).score == 0.0
    assert reward.grade("def f(n): return [1]", {"tests": tests}).score == 1.0


@pytest.mark.parametrize(
    "end",
    ["pytest.skip('no')", "pytest.xfail('no')", "raise unittest.SkipTest", "pytest.exit('no')", "pytest.fail('no')",
     "pytest.importorskip('no_such_module')"],
)  # fmt: skip
def test_an_outcome_that_a_running_test_declares_is_no_pass(end: str) -> None:
    tests = "import unittest, pytest\nfrom candidate import f\ndef test_f():\n"
    tests += f"    if f(1) != 1:\n        {end}\n    assert f(1)"
    reward = UnitTest(style="pytest")
    assert reward.grade("def f(x): return 2", {"tests": tests}).score == 0.0
    assert reward.grade("def f(x): return 1", {"tests": tests}).score == 1.0


def test_a_skip_that_looks_at_the_program_does_not_remove_the_test() -> None:
    tests = (
        "import candidate, pytest\n@pytest.mark.skipif(not hasattr(candidate, 'g'), reason='old')\n"
        "def test_g():\n    assert candidate.g() == 1\ndef test_f():\n    assert candidate.f() == 1"
    )
    assert UnitTest(style="pytest").grade("def f(): return 1", {"tests": tests}).score == 0.0


def test_results_do_not_depend_on_the_run() -> None:
    program = "import random\ndef f():\n    return (list({'a', 'b', 'c', 'd'}), random.random(), hash('x'))\n"
    program += "print(f())\n"
    outputs = {_output(program) for _ in range(6)}
    assert len(outputs) == 1


def _output(program: str) -> bytes:
    from rlvr_rewards.sandbox._jobs import Job, Limits
    from rlvr_rewards.sandbox._pool import shared_pool
    from rlvr_rewards.sandbox._probe import required

    def grading() -> Any:
        result = yield Job("stdio", ({"code": program, "stdin": "", "name": "__main__"},), Limits())
        return result.data

    (data,) = shared_pool(required(), 2, ()).run([grading()])
    return bytes(data)
