"""The `unit_test` reward: a program against tests, run behind the sandbox and judged outside it."""

import keyword
import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rlvr_rewards._core import Completion, Reason, Reward, RewardSpecError, Row, Verdict, one_of, paired
from rlvr_rewards._program import extract, parses, with_prelude
from rlvr_rewards._text import text_of
from rlvr_rewards.sandbox import _advice, _judge, _plan, _probe
from rlvr_rewards.sandbox._jobs import Limits
from rlvr_rewards.sandbox._launch import LEVELS, Level
from rlvr_rewards.sandbox._plan import Style
from rlvr_rewards.sandbox._pool import Pool, shared_pool

MAX_PROGRAM = 256 * 1024  # characters; a longer answer is no program anyone wants
_REASONS: Mapping[_judge.How, Reason] = {
    "passed": "correct", "failed": "tests_failed", "timeout": "timeout", "limit": "limit", "died": "died"
}  # fmt: skip


@dataclass(eq=False, kw_only=True, repr=False)
class UnitTest(Reward):
    """Runs the program in a completion against the tests of its row.

    Formula: 1.0 when every test passes, else 0.0; with `partial` the share of tests that pass. A skipped test, a test
    whose assertions were all passed over, a timeout, a crash and a flood of output are failures.
    Range: {0.0, 1.0}, or [0, 1] with `partial`.
    How it is gamed: by programs that know only the tests' inputs, so keep some tests out of the prompt; never by what a
    program does to its own process, since what a test expects is in another one.
    None: the tests of the row cannot be graded (`check_rows` says why).

        >>> reward = UnitTest(style="assert")
        >>> reward(["def add(a, b):\\n    return a + b"], tests=["assert add(2, 3) == 5"])
        [1.0]

    Columns: `tests`; optionally `files` (path: text, belonging to the tests) and `entry_point`.

    Args:
        style: `assert` (statements that see the program's public names and may import `candidate`), `pytest` (test
            functions or unittest classes that import from `candidate`) or `io` (`tests` lists `{"stdin", "stdout"}` or
            `{"input", "output"}`, or holds `{"inputs": [..], "outputs": [..]}`, and the program is a script).
        style_column: The column that holds each row's style, for data sets of several; "" gives all rows `style`.
        tests_column: The column that holds the tests.
        limit_s: Wall seconds for all tests of a row.
        partial: Score the share of passed tests.
        in_place: Tests see what the program does to its arguments; by default it gets copies.
        as_main: The program's main guard runs; by default only in rows of style `io`.
        pick: Which fence of several holds the program: `last` or `first`.
        module: The name under which the tests import the program, such as `solution`.
        prelude: Source that stands before every program, such as the imports that a data set's prompt begins with and
            its solutions rely on: `"from typing import List"`.
        languages: Fence labels that hold the program.
        fence: Accept a fenced program; without a fence the whole text is the program.
        exit_zero: Style `io`: a nonzero exit status fails.
        trailing_whitespace: Style `io`: `ignore` it at line ends and at the end of the output, or be `strict`.
        atol: Style `io`: numbers in the output may differ by this much.
        memory_mb: Address space of one program.
        packages: Installed packages that programs may import, such as `("numpy",)`.
        workers: How many programs run at once; by default one a processor, fewer where their memory would not fit.
        level: Use only this stack of protection; by default the strongest that works here.
    """

    style: Style = "assert"
    limit_s: float = 10.0
    partial: bool = False
    in_place: bool = False
    as_main: bool | None = None
    pick: Literal["last", "first"] = "last"
    languages: Sequence[str] = ("python", "py", "")
    fence: bool = True
    exit_zero: bool = True
    trailing_whitespace: Literal["ignore", "strict"] = "ignore"
    atol: float = 0.0
    memory_mb: int = 512
    packages: Sequence[str] = ()
    workers: int | None = None
    level: Level | None = None
    style_column: str = ""
    tests_column: str = "tests"
    prelude: str = ""
    module: str = _plan.PROGRAM

    reward_name: ClassVar[str] = "unit_test"
    reads: ClassVar[tuple[str, ...]] = ("tests",)
    may_read: ClassVar[tuple[str, ...]] = ("files", "entry_point")
    reasons: ClassVar[tuple[Reason, ...]] = (
        "correct", "tests_failed", "no_answer", "timeout", "limit", "died", "bad_row"
    )  # fmt: skip

    def __post_init__(self) -> None:
        one_of("style", self.style, _plan.STYLES)
        one_of("pick", self.pick, ("last", "first"))
        one_of("trailing_whitespace", self.trailing_whitespace, ("ignore", "strict"))
        if self.level is not None:
            one_of("level", self.level, LEVELS)
        for name in ("partial", "in_place", "fence", "exit_zero"):
            one_of(name, getattr(self, name), (True, False))
        if self.as_main is not None:
            one_of("as_main", self.as_main, (True, False))
        self.languages, self.packages = _texts("languages", self.languages), _texts("packages", self.packages)
        if not self.tests_column or not all(isinstance(name, str) for name in (self.tests_column, self.style_column)):
            raise RewardSpecError("arguments 'tests_column' and 'style_column' must be names of columns")
        if not isinstance(self.prelude, str) or not parses(self.prelude):
            raise RewardSpecError(f"argument 'prelude' is {self.prelude!r:.80}; it must be Python source that parses")
        if not isinstance(self.module, str) or not self.module.isidentifier() or keyword.iskeyword(self.module):
            raise RewardSpecError(f"argument 'module' is {self.module!r}; it must be a name that can be imported")
        _bound("limit_s", self.limit_s, 0.1, 3600)
        _bound("memory_mb", self.memory_mb, 64, 65536)
        _bound("atol", self.atol, 0, math.inf)
        if self.workers is not None:
            _bound("workers", self.workers, 1, 1024)
        if self.partial:
            self.reasons = (*type(self).reasons, "partial")  # type: ignore[misc]
        super().__post_init__()

    # -- the reward's faces --------------------------------------------------------------------------------------------

    def columns(self) -> tuple[str, ...]:
        """Return the column of the tests, and the one of their styles if there is one."""
        return (self.tests_column, self.style_column) if self.style_column else (self.tests_column,)

    def columns_among(self, given: Mapping[str, Any], count: int) -> tuple[str, ...]:
        """Return the columns to read out of those given: the tests, and the optional ones that are there."""
        return (*self.columns(), *(name for name in self.may_read if isinstance(given.get(name), Sequence)))

    def judge_row(self, row: Row) -> str | None:
        """Return why the row cannot be graded: tests that do not parse, assert nothing, or need what is not there."""
        try:
            self._plan(row)
        except _plan.BadTests as problem:
            return str(problem)
        return None

    def judge_output(self, completion: Completion, row: Row) -> Verdict:
        """Run and judge one completion."""
        return self.grade_batch([completion], [row])[0]

    def grade_batch(self, completions: Sequence[Completion], rows: Sequence[Row]) -> list[Verdict]:
        """Run and judge several completions side by side; the verdicts come in order.

        Raises:
            SandboxUnavailable: No protection works on this machine, so nothing was run.
        """
        pairs = paired(completions, rows)
        verdicts = [self._without_running(completion, row) for completion, row in pairs]
        places = [place for place, verdict in enumerate(verdicts) if verdict is None]
        if places:
            pool = self._pool()
            outcomes = pool.run(self._grading(*pairs[place]) for place in places)
            for place, (program, outcome) in zip(places, outcomes, strict=True):
                verdicts[place] = self._verdict(program, outcome, pool.level)
        return [verdict for verdict in verdicts if verdict is not None]

    # -- inside --------------------------------------------------------------------------------------------------------

    def _without_running(self, completion: Completion, row: Row) -> Verdict | None:
        """Return the verdict where no program has to be run for it."""
        problem = self._row_problem(row)
        if problem is not None:
            return Verdict(None, "bad_row", None, {"problem": problem})
        program = self._program(completion)
        if program is None:
            return Verdict(0.0, "no_answer", None, {"problem": "no program in the completion"})
        if len(program) > MAX_PROGRAM:
            return Verdict(0.0, "limit", program[:200], {"problem": f"longer than {MAX_PROGRAM} characters"})
        return None

    def _program(self, completion: Completion) -> str | None:
        return extract(text_of(completion), self.languages, self.pick, self.fence)

    def _grading(self, completion: Completion, row: Row) -> Generator[Any, Any, tuple[str, _judge.Outcome]]:
        program = self._program(completion) or ""
        plan = self._plan(row)
        whole = with_prelude(program, self.prelude)
        outcome = yield from _judge.grade(whole, plan, self._options(plan.style))
        return program, outcome

    def _verdict(self, program: str, outcome: _judge.Outcome, level: str) -> Verdict:
        score, reason = (1.0 if outcome.how == "passed" else 0.0), _REASONS[outcome.how]
        if self.partial and outcome.how != "passed" and outcome.passed:
            score = min(outcome.passed / outcome.total, 1.0)
            reason = "partial" if reason == "tests_failed" else reason
        return Verdict(score, reason, program, {**_judge.facts(outcome), "level": level}, outcome.seconds)

    def _plan(self, row: Row) -> _plan.Plan:
        given = row.get(self.style_column) if self.style_column else self.style
        style: Style | None = next((style for style in _plan.STYLES if style == given), None)
        if style is None:
            raise _plan.BadTests(f"the style is {given!r}; it can be {', '.join(map(repr, _plan.STYLES))}")
        tests, files, entry_point = (row.get(name) for name in (self.tests_column, *self.may_read))
        packages = tuple(self.packages)
        return _plan.plan(style, tests, files, entry_point, self.in_place, packages, self.module)

    def _options(self, style: Style) -> _judge.Options:
        limits = Limits(wall_s=self.limit_s, cpu_s=math.ceil(self.limit_s) + 1, memory_mb=self.memory_mb)
        as_main = style == "io" if self.as_main is None else self.as_main
        return _judge.Options(limits, self.partial, self.in_place, as_main, self.exit_zero, self.trailing_whitespace,
                              self.atol)  # fmt: skip

    def _pool(self) -> Pool:
        level = _probe.required(self.level)
        return shared_pool(level, self.workers or _advice.workers_that_fit(int(self.memory_mb)), tuple(self.packages))


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not all(isinstance(text, str) for text in values):
        raise RewardSpecError(f"argument {name!r} is {values!r}; it must be a list of strings")
    return tuple(values)


def _bound(name: str, value: Any, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise RewardSpecError(f"argument {name!r} is {value!r}; it must be a number from {low} to {high}")
