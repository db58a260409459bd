"""Runs the tests of `unittest` classes; only in workers that have the package loaded, since it is a large one."""

import inspect
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from rlvr_rewards.sandbox._collect import first_line, in_order, reason_of
from rlvr_rewards.sandbox._pytest_face import Checks, count_check


def run(case: type, checking: set[int]) -> Iterator[tuple[str, str | None]]:
    """Run every test of a class; yield its name and why it failed, None for a pass."""
    if getattr(case, "__unittest_skip__", False):
        return
    names = [name for name in in_order(case) if name.startswith("test") and callable(getattr(case, name))]
    tests = [case(name) for name in names if not getattr(getattr(case, name), "__unittest_skip__", False)]
    result = _CaseResult(checking)
    unittest.TestSuite(tests).run(result)
    for test in tests:
        yield f"{case.__name__}.{test._testMethodName}", result.outcome(test)


def prepare() -> None:
    """Let every `self.assertX(...)` count as a check, and `unittest.main()` do nothing."""

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def check(*args: Any, **kwargs: Any) -> Any:
            count_check()
            return method(*args, **kwargs)

        return check

    for name in dir(unittest.TestCase):
        if name.startswith("assert"):
            setattr(unittest.TestCase, name, counted(getattr(unittest.TestCase, name)))
    unittest.main = lambda *_, **__: None  # type: ignore[assignment]


class _CaseResult(unittest.TestResult):
    """Notes for each unittest test whether it passed."""

    def __init__(self, checking: set[int]) -> None:
        super().__init__()
        self.checking, self.notes, self._before, self.module_error = checking, {}, 0, ""  # type: ignore[var-annotated]

    def startTest(self, test: Any) -> None:
        self._before = Checks.executed

    def addSuccess(self, test: Any) -> None:
        function = inspect.unwrap(getattr(type(test), test._testMethodName))
        vacuous = Checks.executed == self._before and first_line(function) in self.checking
        self.notes.setdefault(id(test), "no assertion ran" if vacuous else None)

    def _note(self, test: Any, error: Any) -> None:
        why = reason_of(error[1])
        if isinstance(test, unittest.TestCase):
            self.notes[id(test)] = why
        else:
            self.module_error = why  # setUpClass or setUpModule failed

    def addError(self, test: Any, err: Any) -> None:
        self._note(test, err)

    def addFailure(self, test: Any, err: Any) -> None:
        self._note(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._note(test, err)

    def addSkip(self, test: Any, reason: str) -> None:
        self.notes[id(test)] = f"skipped: {reason}"

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.notes[id(test)] = None

    def addUnexpectedSuccess(self, test: Any) -> None:
        self.notes[id(test)] = "passed against expectation"

    def outcome(self, test: Any) -> str | None:
        """Return why the test failed, None for a pass."""
        found: str | None = self.notes.get(id(test), self.module_error or "did not run")
        return found
