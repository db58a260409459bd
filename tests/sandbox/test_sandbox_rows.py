"""Rows of several styles and shapes, and what the verdict's detail says of a program that did not answer."""

import json

import pytest

from rlvr_rewards import RewardRowError, RewardSpecError
from rlvr_rewards.unit_test import UnitTest

ADD = "def add(a, b):\n    return a + b"


def test_each_row_can_have_a_style_and_the_tests_a_column_of_their_own() -> None:
    reward = UnitTest(style_column="kind", tests_column="test")
    script = "import sys\nif __name__ == '__main__':\n    print(int(sys.stdin.read()) + 1)"
    tests = [
        "assert add(1, 1) == 2",
        "from candidate import add\ndef test():\n    assert add(1, 1) == 3",
        '[{"stdin": "1", "stdout": "2"}]',
    ]
    columns = {"test": tests, "kind": ["assert", "pytest", "io"]}
    assert reward([ADD, ADD, script], **columns, style=["ignored"] * 3) == [1.0, 0.0, 1.0]
    (problem,) = reward.check_rows([{"test": "assert f(1)", "kind": "asserts"}])
    assert "'asserts'; it can be 'assert', 'pytest', 'io'" in problem.problem
    with pytest.raises(RewardRowError, match="kind"):
        reward([ADD], test=tests[:1])
    with pytest.raises(RewardSpecError, match="tests_column"):
        UnitTest(tests_column="")


def test_runs_can_come_as_inputs_and_outputs() -> None:
    reward, program = UnitTest(style="io"), "print(int(input()) + 1)"
    paired = {"inputs": ["1\n", "5\n"], "outputs": ["2\n", "6\n"]}
    assert reward([program, "print(2)"], tests=[paired, json.dumps(paired)]) == [1.0, 0.0]
    problems = reward.check_rows([{"tests": {"inputs": ["1"], "outputs": []}}, {"tests": {**paired, "fn_name": "f"}}])
    assert ["same length" in problems[0].problem, "fn_name" in problems[1].problem] == [True, True]


SQUARE = "n = int(input())\nprint(n * n)"


@pytest.mark.parametrize(
    "tests",
    [
        [{"input": "2\n", "output": "4\n"}],
        json.dumps([{"input": "2\n", "output": "4\n", "testtype": "stdin"}]),
        [{"type": "stdin_stdout", "input": "2", "output": "4", "fn_name": None}],
        {"input": ["2", "3"], "output": ["4", "9"]},
        {"stdin": ["2"], "stdout": ["4"]},
        {"inputs": [["2", "ignored"]], "outputs": [["4", ""]]},
    ],
)
def test_runs_are_read_under_the_names_that_data_sets_give_them(tests: object) -> None:
    assert UnitTest(style="io")([SQUARE, "print(5)"], tests=[tests] * 2) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        ([{"input": "[2]", "output": "4", "testtype": "functional"}], "'testtype' is 'functional'"),
        ([{"type": "function_call", "input": "2", "output": "4"}], "'type' is 'function_call'"),
        ([{"input": 2, "output": "4"}], "needs text"),
        ([{"input": "2"}], "needs text"),
        ({"input": "2", "output": "4"}, "same length"),
        ("eJxrYJk=", "no JSON list"),
        ("[" * 100_000, "no JSON list"),
    ],
)
def test_runs_that_cannot_be_graded_are_named(tests: object, words: str) -> None:
    (problem,) = UnitTest(style="io").check_rows([{"tests": tests}])
    assert words in problem.problem


@pytest.mark.parametrize("tests", ['["assert add(1, 1) == 2", "assert add(2, 2) == 4"]', "['assert add(1, 1) == 2']"])
def test_statements_can_come_as_the_text_of_a_list(tests: str) -> None:
    assert UnitTest()([ADD, "def add(a, b):\n    return 3"], tests=[tests] * 2) == [1.0, 0.0]


def test_a_check_is_called_with_the_method_that_the_entry_point_names() -> None:
    tests = "def check(candidate):\n    assert candidate(nums=[3, 3], k=2) == [6, 6]"
    right = "class Solution:\n    def scale(self, nums, k):\n        return [n * k for n in nums]"
    columns = {"tests": [tests] * 2, "entry_point": ["Solution().scale"] * 2}
    assert UnitTest()([right, right.replace("n * k", "n + k")], **columns) == [1.0, 0.0]
    (problem,) = UnitTest().check_rows([{"tests": tests, "entry_point": "Solution().scale + 1"}])
    assert "never call" in problem.problem


@pytest.mark.parametrize(
    "tests",
    [
        "from solution import add\n\n\ndef test_add():\n    assert add(1, 1) == 2",
        "import solution  # the program\n\n\ndef test_add():\n    assert solution.add(1, 1) == 2",
        "def test_add():\n    from solution import add as plus\n    assert plus(1, 1) == 2",
    ],
)
def test_tests_can_import_the_program_under_another_name(tests: str) -> None:
    reward = UnitTest(style="pytest", module="solution")
    assert reward([ADD, "def add(a, b):\n    return 3"], tests=[tests] * 2) == [1.0, 0.0]
    (problem,) = UnitTest(style="pytest").check_rows([{"tests": tests}])
    assert "module='solution'" in problem.problem
    with pytest.raises(RewardSpecError, match="module"):
        UnitTest(module="my solution")


@pytest.mark.parametrize(
    ("tests", "cheat"),
    [
        ("def ok(n):\n    return f(n) == n * n\nassert ok(3)", "def f(n): return 0\ndef ok(n): return True"),
        ("def want(n):\n    return n * n\nassert f(3) == want(3)", "def f(n): return 0\ndef want(n): return 0"),
        ("def g(n):\n    return f(n)\ndef check(h):\n    assert h(3) == 9\ncheck(g)", "def g(n): return 9"),
        (
            "def check(h):\n    assert h(3) == 9\n    assert want(2) == 4\ndef want(n):\n    return n * n\ncheck(f)",
            "def f(n): return 8\ndef want(n): return n * n",
        ),
        ("def abs(x):\n    return x\nassert abs(f(3)) == 9", "def f(n): return -n * n"),
    ],
)
def test_functions_of_the_tests_are_never_those_of_the_program(tests: str, cheat: str) -> None:
    assert UnitTest()(["def f(n): return n * n", cheat], tests=[tests] * 2) == [1.0, 0.0]


@pytest.mark.parametrize("first", ["", "from __future__ import annotations\n", '"""Doubles."""\n'])
def test_a_prelude_stands_before_every_program(first: str) -> None:
    program = f"{first}def double(xs: List[int]) -> List[int]:\n    return [2 * x for x in xs] + list(map(sqrt, []))"
    tests = ["assert double([1, 2]) == [2, 4]"]
    assert UnitTest(prelude="from typing import List\nfrom math import sqrt")([program], tests=[tests]) == [1.0]
    assert UnitTest()([program], tests=[tests]) == [0.0]
    with pytest.raises(RewardSpecError, match="prelude"):
        UnitTest(prelude="from typing import")


@pytest.mark.parametrize(
    ("program", "reason", "words"),
    [
        ("import os\nos._exit(0)", "tests_failed", "exit status 0"),
        ("import os\ndef solve(n): os._exit(3)", "tests_failed", "exit status 3"),
        ("import ctypes\ndef solve(n): ctypes.string_at(0)", "died", "SIGSEGV"),
        ("import os\ndef solve(n): os.kill(os.getpid(), 9)", "died", "SIGKILL"),
        ("x = 1", "tests_failed", "'solve'"),
        ("import pytest\ndef solve(n): return n", "tests_failed", "No module named 'pytest'"),
        ("def solve(n):\n    open('x', 'w')", "tests_failed", "OSError"),
    ],
)
@pytest.mark.parametrize("style", ["assert", "pytest"])
def test_the_detail_says_how_a_program_ended(style: str, program: str, reason: str, words: str) -> None:
    tests = {
        "assert": "assert solve(1) == 1",
        "pytest": "from candidate import solve\ndef test():\n    assert solve(1) == 1",
    }
    verdict = UnitTest(style=style).grade(program, {"tests": tests[style]})
    assert (verdict.score, verdict.reason) == (0.0, reason)
    assert words in verdict.detail["failures"][0]


def test_the_detail_says_how_a_script_ended_and_that_the_time_was_over() -> None:
    rows = {"tests": [{"stdin": "", "stdout": "1"}]}
    ended = {code: UnitTest(style="io").grade(code, rows) for code in ("import os\nos.abort()", "1 / 0")}
    assert [(v.reason, v.detail["failures"][0].rpartition(" ")[2]) for v in ended.values()] == [
        ("died", "SIGABRT"), ("tests_failed", "1"),
    ]  # fmt: skip
    for style, tests in (
        ("assert", "assert f() == 1"),
        ("pytest", "from candidate import f\ndef test():\n    f()\n    assert 1"),
    ):
        verdict = UnitTest(style=style, limit_s=0.4).grade("def f():\n    while True: pass", {"tests": tests})
        assert verdict.reason == "timeout"
        assert "the time was over" in verdict.detail["failures"][0]


def test_packages_make_a_program_that_imports_pytest_run() -> None:
    program = "import pytest\ndef solve(n): return n"
    assert UnitTest(packages=("pytest",)).grade(program, {"tests": "assert solve(1) == 1"}).score == 1.0
