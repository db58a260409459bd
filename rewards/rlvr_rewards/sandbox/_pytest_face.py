"""What tests use of pytest, for the tester's process: raises, approx, marks, fixtures and outcomes.

The real pytest is neither needed nor wanted here: it would import files and plugins and take 200 ms a program.
"""

import builtins
import contextlib
import importlib
import io
import math
import os
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

RELATIVE, ABSOLUTE = 1e-6, 1e-12  # pytest's own defaults


class Outcome(BaseException):
    """An end of a test that is no exception of the program: skip, xfail, fail, exit. None of them is a pass."""


class Checks:
    """Counts the checks that really ran, so that a test whose checks were all passed over does not count as passed."""

    executed = 0


def count_check() -> None:
    """Note that one check ran."""
    Checks.executed += 1


class ExceptionInfo:
    """What `raises` gives: the exception once it was raised."""

    value: BaseException
    type: builtins.type[BaseException]
    tb: Any = None

    def match(self, pattern: str) -> bool:
        """Check that the pattern is found in the exception's text."""
        assert re.search(pattern, str(self.value)), f"{pattern!r} not in {str(self.value)!r}"
        return True

    @property
    def typename(self) -> str:
        """The name of the exception's class."""
        return self.type.__name__


class Raises:
    """The context manager of `raises`."""

    def __init__(self, expected: Any, match: str | None = None, check: Any = None) -> None:
        self.expected, self.pattern, self.check, self.info = expected, match, check, ExceptionInfo()

    def __enter__(self) -> ExceptionInfo:
        return self.info

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        count_check()
        if kind is None:
            raise AssertionError(f"did not raise {self.expected}")
        if not issubclass(kind, self.expected):
            return False
        self.info.value, self.info.type, self.info.tb = value, kind, trace
        if self.pattern is not None:
            self.info.match(self.pattern)
        if self.check is not None:
            assert self.check(value)
        return True


def raises(expected: Any, *args: Any, match: str | None = None, check: Any = None, **kwargs: Any) -> Any:
    """Expect an exception, as context manager or by calling a function."""
    context = Raises(expected, match, check)
    if not args:
        return context
    with context as info:
        args[0](*args[1:], **kwargs)
    return info


class Approx:
    """Equal within a tolerance: numbers, and sequences and mappings of them."""

    def __init__(self, expected: Any, rel: float | None = None, abs: float | None = None, nan_ok: bool = False) -> None:
        self.expected, self.rel, self.abs, self.nan_ok = expected, rel, abs, nan_ok

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, actual: object) -> bool:
        return self._close(self.expected, actual)

    def __repr__(self) -> str:
        return f"approx({self.expected!r})"

    def _close(self, expected: Any, actual: Any) -> bool:
        if isinstance(expected, Mapping):
            return isinstance(actual, Mapping) and expected.keys() == actual.keys() and all(
                self._close(expected[key], actual[key]) for key in expected)  # fmt: skip
        if isinstance(expected, Sequence) and not isinstance(expected, str | bytes):
            return isinstance(actual, Sequence) and not isinstance(actual, str | bytes) and (
                len(expected) == len(actual) and all(map(self._close, expected, actual)))  # fmt: skip
        if not _is_number(expected) or not _is_number(actual):
            return bool(type(expected) is type(actual) and expected == actual)
        return self._near(expected, actual)

    def _near(self, expected: Any, actual: Any) -> bool:
        if expected == actual:
            return True
        if expected != expected or actual != actual:
            return bool(self.nan_ok and expected != expected and actual != actual)
        if math.isinf(abs(expected)) or math.isinf(abs(actual)):
            return False
        absolute = self.abs if self.abs is not None else ABSOLUTE
        relative = self.rel if self.rel is not None else (RELATIVE if self.abs is None else 0.0)
        return bool(abs(expected - actual) <= max(absolute, relative * abs(expected)))


def _is_number(value: Any) -> bool:
    import numbers

    return isinstance(value, numbers.Number) and not isinstance(value, bool)


class Mark:
    """A decorator that notes itself on a function or class."""

    def __init__(self, name: str, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> None:
        self.name, self.args, self.kwargs = name, args, kwargs or {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        configured = bool(self.args or self.kwargs)
        alone = len(args) == 1 and not kwargs and (isinstance(args[0], type) or hasattr(args[0], "__code__"))
        if not configured and not alone:
            return Mark(self.name, args, kwargs)
        args[0].pytestmark = [*args[0].__dict__.get("pytestmark", []), self]
        return args[0]


class Marks:
    """`pytest.mark`: every name is a mark."""

    def __getattr__(self, name: str) -> Mark:
        if name.startswith("_") and name != "_skipif_environment":
            raise AttributeError(name)
        return Mark(name)


class Param:
    """One set of values of `parametrize`."""

    def __init__(self, *values: Any, marks: Any = (), id: Any = None) -> None:
        self.values = values
        self.marks = tuple(marks) if isinstance(marks, list | tuple) else (marks,)


class Fixture:
    """A function that prepares something for tests."""

    def __init__(self, function: Callable[..., Any], scope: str, params: Any, autouse: bool, name: str | None) -> None:
        self.function, self.scope, self.autouse = function, scope, autouse
        self.params = list(params) if params is not None else None
        self.name = name or function.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"fixture {self.name!r} was called directly")


def fixture(function: Any = None, *, scope: Any = "function", params: Any = None, autouse: bool = False,
            ids: Any = None, name: str | None = None) -> Any:  # fmt: skip
    """Declare a fixture."""

    def declare(target: Callable[..., Any]) -> Fixture:
        return Fixture(target, scope if isinstance(scope, str) else "function", params, autouse, name)

    return declare(function) if function is not None else declare


def _end(name: str) -> Callable[..., Any]:
    def end(reason: str = "", *_: Any, **__: Any) -> Any:
        raise Outcome(f"{name}: {reason}")

    end.__name__ = name
    end.Exception = Outcome  # type: ignore[attr-defined]
    return end


def importorskip(name: str, *_: Any, **__: Any) -> Any:
    """Import a module; one that is missing fails the test."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Outcome(f"skip: {error}") from None


@contextlib.contextmanager
def warns(expected: Any = Warning, match: str | None = None) -> Iterator[list[Any]]:
    """Expect a warning of the tests' own process."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
    count_check()
    fitting = [entry for entry in caught if issubclass(entry.category, expected)]
    assert any(match is None or re.search(match, str(entry.message)) for entry in fitting), "no such warning"


class MonkeyPatch:
    """Changes attributes, items and the environment, and takes every change back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []

    def setattr(self, target: Any, name: Any, value: Any = ..., raising: bool = True) -> None:
        """Set an attribute, given as object and name or as one dotted name."""
        if value is ...:
            (target, name), value = _dotted(target), name
        missing = object()
        old = getattr(target, name, missing)
        if old is missing:
            assert not raising, f"no attribute {name!r}"
            self._undo.append(lambda: delattr(target, name))
        else:
            self._undo.append(lambda: setattr(target, name, old))
        setattr(target, name, value)

    def delattr(self, target: Any, name: str, raising: bool = True) -> None:
        """Delete an attribute."""
        old = getattr(target, name)
        self._undo.append(lambda: setattr(target, name, old))
        delattr(target, name)

    def setitem(self, target: Any, key: Any, value: Any) -> None:
        """Set an item of a mapping."""
        if key in target:
            old = target[key]
            self._undo.append(lambda: target.__setitem__(key, old))
        else:
            self._undo.append(lambda: target.pop(key, None))
        target[key] = value

    def delitem(self, target: Any, key: Any, raising: bool = True) -> None:
        """Delete an item of a mapping."""
        old = target.pop(key)
        self._undo.append(lambda: target.__setitem__(key, old))

    def setenv(self, name: str, value: str) -> None:
        """Set a variable of the tests' own environment."""
        self.setitem(os.environ, name, value)

    def delenv(self, name: str, raising: bool = True) -> None:
        """Delete a variable of the tests' own environment."""
        if name in os.environ:
            self.delitem(os.environ, name)

    def undo(self) -> None:
        """Take all changes back, the latest first."""
        while self._undo:
            self._undo.pop()()

    @contextlib.contextmanager
    def context(self) -> Iterator["MonkeyPatch"]:
        """Give a patcher of its own for a block."""
        inner = MonkeyPatch()
        try:
            yield inner
        finally:
            inner.undo()


def _dotted(path: str) -> tuple[Any, str]:
    owner, _, name = path.rpartition(".")
    try:
        return importlib.import_module(owner), name
    except ImportError:
        parent, last = _dotted(owner)
        return getattr(parent, last), name


class Capture:
    """`capsys`: what was written to standard output and error since the last look."""

    def __init__(self) -> None:
        self._streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = io.StringIO(), io.StringIO()

    def readouterr(self) -> Any:
        """Return and forget what was written."""
        return CaptureResult(_drain(sys.stdout), _drain(sys.stderr))

    @contextlib.contextmanager
    def disabled(self) -> Iterator[None]:
        """Write through for a block."""
        yield

    def close(self) -> None:
        """Give the streams back."""
        sys.stdout, sys.stderr = self._streams


class CaptureResult(tuple[str, str]):
    """The two texts, by position or name."""

    def __new__(cls, out: str, err: str) -> "CaptureResult":
        return super().__new__(cls, (out, err))

    out = property(lambda self: self[0])
    err = property(lambda self: self[1])


def _drain(stream: Any) -> str:
    text = str(stream.getvalue())
    stream.seek(0)
    stream.truncate()
    return text


def module() -> types.ModuleType:
    """Return a module that tests can import as `pytest`."""
    made = types.ModuleType("pytest")
    made.__dict__.update(
        raises=raises, approx=Approx, mark=Marks(), param=Param, fixture=fixture, skip=_end("skip"), fail=_end("fail"),
        xfail=_end("xfail"), exit=_end("exit"), importorskip=importorskip, warns=warns, MonkeyPatch=MonkeyPatch,
        deprecated_call=lambda: warns((DeprecationWarning, PendingDeprecationWarning)), main=lambda *_, **__: 0,
        Item=object, Config=object, FixtureRequest=object, CaptureFixture=Capture, ExceptionInfo=ExceptionInfo,
    )  # fmt: skip
    return made
