"""Small tasks are graded as plain execution grades them: reference solutions, broken ones, and stubs."""

import ast
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvr_rewards.unit_test import UnitTest

TASKS = Path(__file__).parents[1] / "data" / "sandbox" / "tasks.txt"


def tasks() -> list[tuple[str, str]]:
    """Return solution and tests of every task."""
    blocks = TASKS.read_text(encoding="utf-8").split("\n=== \n")[1:]
    return [(solution + "\n", tests) for solution, _, tests in (block.partition("\n---\n") for block in blocks)]


def plainly(program: str, tests: str) -> bool:
    """Run program and tests in one namespace, as the usual harnesses do. Only for programs of this project."""
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    try:
        exec(compile(f"{program}\n{tests}", "plain", "exec"), module.__dict__)
    except Exception:
        return False
    finally:
        del sys.modules["candidate"]
    return True


class _Break(ast.NodeTransformer):
    """Replaces every returned or yielded value by one that is not it."""

    def visit_Return(self, node: ast.Return) -> ast.AST:
        return ast.copy_location(ast.Return(ast.Constant("not it")), node)

    def visit_Yield(self, node: ast.Yield) -> ast.AST:
        return ast.copy_location(ast.Yield(ast.Constant("not it")), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return ast.copy_location(ast.Lambda(node.args, ast.Constant("not it")), node)


def broken(solutions: list[str]) -> Iterator[str]:
    """Yield a broken form of every solution."""
    for solution in solutions:
        yield ast.unparse(ast.fix_missing_locations(_Break().visit(ast.parse(solution))))


def test_there_are_enough_tasks() -> None:
    assert len(tasks()) >= 150
    assert UnitTest().check_rows({"tests": tests} for _, tests in tasks()) == []


@pytest.mark.parametrize("style", ["assert", "pytest"])
def test_reference_solutions_are_paid(style: str) -> None:
    found = tasks()
    if style == "pytest":
        found = [(solution, _as_test_function(tests)) for solution, tests in found]
    verdicts = UnitTest(style=style).grade_batch([solution for solution, _ in found], [{"tests": t} for _, t in found])
    unpaid = [(program, verdict) for (program, _), verdict in zip(found, verdicts, strict=True) if verdict.score != 1.0]
    assert unpaid == []


def _as_test_function(tests: str) -> str:
    body = "\n".join(f"    {line}" for line in tests.splitlines())
    names = "from candidate import *\n"
    return f"{names}def test_all():\n{body}\n"


def test_broken_solutions_and_stubs_are_graded_as_plain_execution_does() -> None:
    found = tasks()
    programs = list(broken([solution for solution, _ in found]))
    rows = [{"tests": tests} for _, tests in found]
    scores = [verdict.score for verdict in UnitTest().grade_batch(programs, rows)]
    plain = [float(plainly(program, tests)) for program, (_, tests) in zip(programs, found, strict=True)]
    # A broken `__eq__` that is always true pays itself in plain execution; here a value is never asked what it equals.
    stricter = {program for program, score, paid in zip(programs, scores, plain, strict=True) if score != paid}
    assert all("def __eq__" in program for program in stricter) and len(stricter) <= 1
    assert sum(plain) < 0.1 * len(plain)
    assert {verdict.score for verdict in UnitTest().grade_batch(["x = 1"] * len(rows), rows)} == {0.0}


def test_reference_solutions_pass_plainly() -> None:
    assert [program for program, tests in tasks() if not plainly(program, tests)] == []
