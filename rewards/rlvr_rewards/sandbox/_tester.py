"""The tester: runs a row's tests in a process of their own and reports test by test on a pipe the program never sees.

Reports are frames: `{"load": [name, text]}` when the program does not load, else `{"unit": [name, passed, why]}` for
each test and `{"done": passed}` at the end. Without that last frame nothing has passed.
"""

import builtins
import importlib
import marshal
import os
import signal
import struct
import sys
import time
import types
from typing import Any, NamedTuple

from rlvr_rewards.sandbox import _codec, _files, _pytest_face, _wire
from rlvr_rewards.sandbox._collect import Collector
from rlvr_rewards.sandbox._link import Closed
from rlvr_rewards.sandbox._session import Session

TESTS = "test_candidate"
MAX_WHY = 300


class CandidateModule(types.ModuleType):
    """What the tests import as `candidate`: every attribute is fetched from the program when it is used."""

    def __init__(self, session: Session, number: int, called: set[str]) -> None:
        super().__init__("candidate")
        self.__dict__.update(_session=session, _number=number, _called=called, __file__="/candidate.py")

    def public_names(self) -> list[str]:
        """Return the names that the program offers without being asked by name; builtins are never among them.

        A program that defines `sorted` must not decide what its tests compare with.
        """
        found = [name for name in self.__dict__["_session"].ask("public") if type(name) is str]
        return [name for name in found if not hasattr(builtins, name)]

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self.public_names()
        if name in ("__path__", "__spec__", "__wrapped__"):
            raise AttributeError(name)
        if name in sys.stdlib_module_names and name not in self.__dict__["_called"]:
            return importlib.import_module(name)  # `math` is the library's, and no class whose `isclose` is always true
        return self.__dict__["_session"].ask("get", self.__dict__["_number"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        session = self.__dict__["_session"]
        session.ask("set", self.__dict__["_number"], name, session.encode(value))

    def __delattr__(self, name: str) -> None:
        self.__dict__["_session"].ask("del", self.__dict__["_number"], name)

    def __dir__(self) -> list[str]:
        return self.public_names()


class Report:
    """Writes the frames.

    Args:
        descriptor: The result pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self.units, self.failed = descriptor, 0, 0

    def unit(self, name: str, passed: bool, why: str = "") -> None:
        """Report one test."""
        self.units += 1
        self.failed += not passed
        self.send({"unit": [name[:100], passed, why[:MAX_WHY]]})

    def send(self, message: dict[str, Any]) -> None:
        """Write one frame."""
        data = _codec.dumps(message)
        os.write(self._descriptor, struct.pack("<I", len(data)) + data)


def describe(error: BaseException) -> str:
    """Return name and text of an exception."""
    try:
        return f"{type(error).__name__}: {error}"[:MAX_WHY]
    except BaseException:
        return type(error).__name__


class Group(NamedTuple):
    """One statement of the tests' top level; see `_source.Group`. A text in place of code says why it is none."""

    line: int
    code: types.CodeType | str
    asserts: list[int]
    defines: bool
    in_tests: bool
    checks: bool


class Tester:
    """Runs one row.

    Args:
        payload: `tests` (see `_source.packed`), `style`, `files`, `in_place`, `code` (for tests that read it as text).
        link: The socket to the program.
        results: The result pipe.
        candidate_pid: The program's process, for its processor time.
    """

    def __init__(self, payload: dict[str, Any], link: int, results: int, candidate_pid: int) -> None:
        self.payload, self.report = payload, Report(results)
        self.tests: dict[str, Any] = marshal.loads(payload["tests"])
        self.mentioned: set[str] = self.tests["mentioned"]
        self.session = Session(link, self.mentioned, payload["in_place"])
        self.session.test_modules = {TESTS, *map(_files.module_name, payload["files"])}
        self.runs: dict[int, list[int]] = {}  # assertion: times run, times failed
        # One failing assertion must not hide the later ones where each of them is worth something.
        self.soft: bool = self.tests["soft"]
        _measure_candidate(candidate_pid)

    def run(self) -> None:
        """Run everything and report."""
        try:
            loaded = self.session.link.receive()
        except Closed as error:
            self.report.send({"load": ["died", str(error)]})
            return
        if type(loaded.get("v")) is not int:
            self.report.send({"load": ["error", self._load_error(loaded)]})
            return
        module = self._prepare(CandidateModule(self.session, loaded["v"], self.tests["called"]))
        completed = self._run_statements(module)
        if completed or self.soft:
            self._run_items(module)
        self.report.send({"done": completed and self.report.units > 0 and not self.report.failed})

    def _load_error(self, loaded: dict[str, Any]) -> str:
        node = loaded.get("x")
        return describe(self.session.error_of(node)) if type(node) is dict else "the program does not load"

    def _prepare(self, candidate: CandidateModule) -> types.ModuleType:
        files = self.payload["files"]
        sys.modules["candidate"] = candidate
        sys.modules["pytest"] = _pytest_face.module()
        sys.meta_path.insert(0, _files.Finder(files))
        _files.serve({**files, "candidate.py": self.payload["code"]})
        _files.give_source(self.payload["code"])
        if "unittest" in sys.modules:
            from rlvr_rewards.sandbox import _cases

            _cases.prepare()
        module = types.ModuleType(TESTS)
        module.__file__ = f"/{TESTS}.py"
        module.__dict__["__builtins__"] = builtins
        sys.modules[TESTS] = module
        if self.payload["style"] == "assert":
            for name in candidate.public_names():
                if name in self.mentioned:
                    module.__dict__[name] = getattr(candidate, name)
        return module

    # -- the top level -------------------------------------------------------------------------------------------------

    def _run_statements(self, module: types.ModuleType) -> bool:
        """Run the tests' top level, statement by statement; return whether all of it ran and held."""
        groups = [Group(*group) for group in self.tests["groups"]]
        self.runs = {number: [0, 0] for group in groups for number in group.asserts}
        module.__dict__[_wire.CHECK], module.__dict__[_wire.FAILED] = self._check, self._failed
        completed = True
        for group in groups:
            why = self._run_group(group, module)
            if not group.defines:
                completed = self._report_group(group, why) and completed
            if not completed and not self.soft:
                return False
        if self.payload["style"] == "assert":
            for group in groups:
                if group.defines and not group.in_tests:
                    completed = self._report_group(group, None) and completed
        return completed

    def _run_group(self, group: Group, module: types.ModuleType) -> str | None:
        if isinstance(group.code, str):
            return group.code
        try:
            exec(group.code, module.__dict__)
        except BaseException as error:
            return describe(error)
        return None

    def _report_group(self, group: Group, why: str | None) -> bool:
        """Report the assertions of one statement; return whether all is well with it."""
        ran = [number for number in group.asserts if self.runs[number][0] or self.runs[number][1]]
        fine = True
        for number in group.asserts:
            times, failures = self.runs[number]
            passed = times > 0 and not failures
            if number in ran or not ran or why is not None:  # of branches, only those taken count
                self.report.unit(f"assert {number}", passed, "" if passed else (why or "did not run"))
                fine = fine and passed
        if not group.asserts and group.checks and not group.defines:
            self.report.unit(f"line {group.line}", why is None, why or "")
        elif why is not None and fine:
            self.report.unit(f"line {group.line}", False, why)
        return fine and why is None

    def _check(self, number: int, value: Any) -> Any:
        """Note that an assertion runs; it is passed on, to be asserted in place."""
        _pytest_face.count_check()
        run = self.runs[number]
        run[0] += 1
        holds = bool(value)
        run[1] += not holds
        return holds

    def _failed(self, number: int) -> None:
        run = self.runs[number]
        run[1] = max(1, run[1])

    # -- test functions and classes ------------------------------------------------------------------------------------

    def _run_items(self, module: types.ModuleType) -> None:
        conftest = self.payload["files"].get("conftest.py")
        spaces = []
        if conftest is not None:
            space: dict[str, Any] = {"__name__": "conftest"}
            exec(compile(conftest, "conftest.py", "exec"), space)
            spaces.append(space)
        for name, why in Collector(module, spaces, self.tests["checking"]).run():
            self.report.unit(name, why is None, why or "")


def _measure_candidate(pid: int) -> None:
    """Let the clocks of processor time show the program's time: the tests' own process spends next to none."""
    clock = (~pid << 3) | 2  # the kernel's number for the processor clock of a process

    def nanoseconds() -> int:
        return time.clock_gettime_ns(clock) + time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID)

    for name in ("process_time", "thread_time"):
        setattr(time, f"{name}_ns", nanoseconds)
        setattr(time, name, lambda: nanoseconds() / 1e9)


def run(payload: dict[str, Any], link: int, results: int, candidate_pid: int) -> None:
    """Run a row's tests; the reports go to `results`."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # the program may end at any moment
    Tester(payload, link, results, candidate_pid).run()


def warm_up() -> None:
    """Do once what every tester does, on tests that ask no program; see `_candidate.warm_up`."""
    null = os.open("/dev/null", os.O_WRONLY)
    module = types.ModuleType(TESTS)
    exec("def test_f(): assert [1] == [1]", module.__dict__)
    for _ in range(10):
        report = Report(null)
        for name, why in Collector(module, [], {1}).run():
            report.unit(name, why is None, why or "")
        session = Session(null, set(), False)
        session.decode(session.encode([(1, "a"), {"b": None}]))
    os.close(null)
