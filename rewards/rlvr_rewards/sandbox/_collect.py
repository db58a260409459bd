"""Finds and runs tests the way pytest and unittest do: functions, classes, parameters, fixtures, in source order.

A skip, an expected failure that a running test declares, and a test whose checks were all passed over are failures.
What the author of the tests switched off for everyone (`@pytest.mark.skip`, `@unittest.skip`) is left out.
"""

import contextlib
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rlvr_rewards.sandbox._pytest_face import Capture, Checks, Fixture, Mark, MonkeyPatch, Outcome, Param

MAX_ITEMS = 10_000


@dataclass
class Item:
    """One test to run.

    Attributes:
        name: As reported.
        function: The function, unbound.
        owner: The class it belongs to, or None.
        values: Arguments from `parametrize`.
        indirect: Those of them that go to fixtures.
    """

    name: str
    function: Callable[..., Any]
    owner: type | None = None
    values: dict[str, Any] = field(default_factory=dict)
    indirect: dict[str, Any] = field(default_factory=dict)
    uses: tuple[str, ...] = ()


class Collector:
    """Collects and runs the tests of one module.

    Args:
        module: The module, executed.
        extra: Further namespaces with fixtures (`conftest.py`).
        checking: First lines of functions that must execute a check.
    """

    def __init__(self, module: types.ModuleType, extra: list[dict[str, Any]], checking: set[int]) -> None:
        self.module, self.checking = module, checking
        spaces = [*extra, module.__dict__]
        found = [value for space in spaces for value in space.values() if isinstance(value, Fixture)]
        self.fixtures = {entry.name: entry for entry in found}
        self.shared: dict[Any, Any] = {}  # values of fixtures that outlive one test
        self.closing = contextlib.ExitStack()

    def run(self) -> Iterator[tuple[str, str | None]]:
        """Run every test; yield its name and why it failed, None for a pass."""
        module, case = self.module.__dict__, getattr(sys.modules.get("unittest"), "TestCase", ())
        try:
            _call_if_there(module, "setup_module", self.module)
            _call_if_there(module, "setUpModule")
            for value in list(module.values()):
                if isinstance(value, type) and issubclass(value, case):
                    yield from self._run_case(value)
                else:
                    for item in self._items_of(value):
                        yield item.name, self._run_item(item)
            self.closing.close()
            _call_if_there(module, "teardown_module", self.module)
            _call_if_there(module, "tearDownModule")
        except BaseException as error:
            yield "module", reason_of(error)

    # -- collecting ----------------------------------------------------------------------------------------------------

    def _items_of(self, value: Any) -> Iterator[Item]:
        if not isinstance(value, types.FunctionType | type) or value.__module__ != self.module.__name__:
            return  # looking closer at an object of the program would ask it
        if isinstance(value, types.FunctionType) and value.__name__.startswith("test"):
            yield from self._expand(value, None)
        elif isinstance(value, type) and value.__name__.startswith("Test"):
            if "__init__" in value.__dict__:
                return
            for attribute in in_order(value):
                function = inspect.getattr_static(value, attribute)
                function = getattr(function, "__func__", function)
                if attribute.startswith("test") and isinstance(function, types.FunctionType):
                    yield from self._expand(function, value)
                elif isinstance(function, type) and attribute.startswith("Test"):
                    yield from self._items_of(function)

    def _expand(self, function: Callable[..., Any], owner: type | None) -> Iterator[Item]:
        marks = [*getattr(function, "pytestmark", []), *_class_marks(owner), *_module_marks(self.module)]
        if any(_left_out(mark) for mark in marks):
            return
        uses = tuple(str(name) for mark in marks if mark.name == "usefixtures" for name in mark.args)
        sets = [list(_parameter_sets(mark)) for mark in marks if mark.name == "parametrize"]
        label = f"{owner.__name__}.{function.__name__}" if owner else function.__name__
        for number, choice in enumerate(itertools.islice(itertools.product(*reversed(sets)), MAX_ITEMS)):
            values: dict[str, Any] = {}
            indirect: dict[str, Any] = {}
            for direct, through in choice:
                values.update(direct)
                indirect.update(through)
            name = f"{label}[{number}]" if sets else label
            item = Item(name, function, owner, values, indirect, uses)
            yield from self._with_fixture_parameters(item)

    def _with_fixture_parameters(self, item: Item) -> Iterator[Item]:
        """Repeat a test for every parameter of the fixtures it uses."""
        with_parameters = [name for name in self._closure(item)
                           if self.fixtures[name].params is not None and name not in item.indirect]  # fmt: skip
        choices = [self.fixtures[name].params or [] for name in with_parameters]
        for number, chosen in enumerate(itertools.product(*choices)):
            plain = [value.values[0] if isinstance(value, Param) else value for value in chosen]
            indirect = {**item.indirect, **dict(zip(with_parameters, plain, strict=True))}
            name = f"{item.name}[{number}]" if with_parameters else item.name
            yield Item(name, item.function, item.owner, item.values, indirect, item.uses)

    def _closure(self, item: Item) -> list[str]:
        """Return the names of all declared fixtures that a test uses, in order of need."""
        pending = [*self._autouse(item), *item.uses, *_arguments(item.function)]
        seen: list[str] = []
        while pending:
            name = pending.pop(0)
            entry = self._fixture(name, item)
            if entry is not None and name not in seen and name not in item.values:
                seen.append(name)
                self.fixtures.setdefault(name, entry)
                pending.extend(_arguments(entry.function))
        return seen

    def _autouse(self, item: Item) -> list[str]:
        own = [value for name in in_order(item.owner) if isinstance(value := getattr(item.owner, name, None), Fixture)
               ] if item.owner else []  # fmt: skip
        return [entry.name for entry in [*self.fixtures.values(), *own] if entry.autouse]

    def _fixture(self, name: str, item: Item) -> Fixture | None:
        if item.owner is not None:
            for attribute in in_order(item.owner):
                found = inspect.getattr_static(item.owner, attribute, None)
                if isinstance(found, Fixture) and found.name == name:
                    return found
        return self.fixtures.get(name)

    # -- running -------------------------------------------------------------------------------------------------------

    def _run_item(self, item: Item) -> str | None:
        before = Checks.executed
        try:
            with contextlib.ExitStack() as stack:
                instance = item.owner() if item.owner else None
                self._set_up(item, instance, stack)
                resolver = _Resolver(self, item, instance, stack)
                for name in [*self._autouse(item), *item.uses]:
                    resolver.value(name)
                names = [name for name in _arguments(item.function) if not (instance and name in ("self", "cls"))]
                values = {name: item.values[name] if name in item.values else resolver.value(name) for name in names}
                function = item.function.__get__(instance) if instance is not None else item.function
                if isinstance(inspect.getattr_static(item.owner, item.function.__name__, None), staticmethod):
                    function = item.function
                _finish(function(**values))
        except BaseException as error:
            return reason_of(error)
        if Checks.executed == before and first_line(item.function) in self.checking:
            return "no assertion ran"
        return None

    def _set_up(self, item: Item, instance: Any, stack: contextlib.ExitStack) -> None:
        module = self.module.__dict__
        if instance is None:
            _call_if_there(module, "setup_function", item.function)
            stack.callback(_call_if_there, module, "teardown_function", item.function)
            return
        if item.owner not in self.shared:
            self.shared[item.owner] = True
            _call_method(item.owner, "setup_class")
            self.closing.callback(_call_method, item.owner, "teardown_class")
        for before, after in (("setup_method", "teardown_method"), ("setup", "teardown")):
            _call_method(instance, before, item.function)
            stack.callback(_call_method, instance, after, item.function)

    def _run_case(self, case: type) -> Iterator[tuple[str, str | None]]:
        from rlvr_rewards.sandbox import _cases  # only where `unittest` is loaded

        if case.__module__ == self.module.__name__:
            yield from _cases.run(case, self.checking)


class _Resolver:
    """Gives fixture values for one test, and ends them after it."""

    def __init__(self, collector: Collector, item: Item, instance: Any, stack: contextlib.ExitStack) -> None:
        self.collector, self.item, self.instance, self.stack = collector, item, instance, stack
        self.values: dict[str, Any] = {}

    def value(self, name: str) -> Any:
        entry = self.collector._fixture(name, self.item)
        if entry is None:
            if name not in self.values:
                self.values[name] = self._built_in(name)
            return self.values[name]
        shared = entry.scope != "function"
        key: Any = (name, repr(self.item.indirect.get(name)), self.item.owner if entry.scope == "class" else None)
        store, stack = (self.collector.shared, self.collector.closing) if shared else (self.values, self.stack)
        key = key if shared else name
        if key not in store:
            store[key] = self._make(entry, stack)
        return store[key]

    def _make(self, entry: Fixture, stack: contextlib.ExitStack) -> Any:
        names = [name for name in _arguments(entry.function) if name != "self"]
        values = {name: self._request(entry, stack) if name == "request" else self.value(name) for name in names}
        arguments = (self.instance,) if "self" in _arguments(entry.function) else ()
        made = entry.function(*arguments, **values)
        if inspect.isgenerator(made):
            value = next(made)
            stack.callback(next, made, None)
            return value
        return _finish(made)

    def _request(self, entry: Fixture, stack: contextlib.ExitStack) -> Any:
        return types.SimpleNamespace(
            param=self.item.indirect.get(entry.name), addfinalizer=stack.callback, function=self.item.function,
            getfixturevalue=self.value, cls=self.item.owner, instance=self.instance, module=self.collector.module,
            node=types.SimpleNamespace(name=self.item.name), fixturename=entry.name,
        )  # fmt: skip

    def _built_in(self, name: str) -> Any:
        if name == "monkeypatch":
            patcher = MonkeyPatch()
            self.stack.callback(patcher.undo)
            return patcher
        if name in ("capsys", "capfd"):
            capture = Capture()
            self.stack.callback(capture.close)
            return capture
        if name == "request":
            return self._request(Fixture(lambda: None, "function", None, False, "request"), self.stack)
        if name == "subtests":
            return types.SimpleNamespace(test=lambda *_, **__: contextlib.nullcontext())
        raise Outcome(f"no fixture {name!r}")


# -- small helpers --------------------------------------------------------------------------------------------------


def reason_of(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:300]
    except BaseException:
        return type(error).__name__


def _finish(result: Any) -> Any:
    if not inspect.iscoroutine(result):
        return result
    import asyncio  # a large package, and few tests need it

    return asyncio.run(result)


def _arguments(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments without a default that the function itself, not a patch around it, wants."""
    patched = sum(len(getattr(layer, "patchings", ())) for layer in _layers(function))
    parameters = inspect.signature(inspect.unwrap(function)).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.default is parameter.empty
             and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)]  # fmt: skip
    first = 1 if names[:1] == ["self"] else 0
    return names[:first] + names[first + patched :]


def _layers(function: Any) -> Iterator[Any]:
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def first_line(function: Any) -> int:
    return int(inspect.unwrap(function).__code__.co_firstlineno)


def in_order(owner: type | None) -> list[str]:
    """Return the attributes of a class, those of its bases first, in the order of the source."""
    seen: dict[str, None] = {}
    for kind in reversed(owner.__mro__ if owner else ()):
        seen.update(dict.fromkeys(vars(kind)))
    return list(seen)


def _class_marks(owner: type | None) -> list[Mark]:
    return [mark for kind in (owner.__mro__ if owner else ()) for mark in _as_list(vars(kind).get("pytestmark", []))]


def _module_marks(module: types.ModuleType) -> list[Mark]:
    return _as_list(module.__dict__.get("pytestmark", []))


def _as_list(marks: Any) -> list[Mark]:
    return [mark for mark in (marks if isinstance(marks, list | tuple) else [marks]) if isinstance(mark, Mark)]


def _left_out(mark: Mark) -> bool:
    """Return whether the author of the tests switched the test off for every program.

    Raises nothing for a `skipif` that could look at the program: its test runs.
    """
    if mark.name in ("skip", "xfail"):
        return True
    return mark.name == "_skipif_environment" and bool(mark.args and mark.args[0])


def _parameter_sets(mark: Mark) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    names, rows = mark.args[0], mark.args[1] if len(mark.args) > 1 else mark.kwargs["argvalues"]
    alone = isinstance(names, str) and "," not in names  # then each value is the argument itself, not a tuple of them
    names = [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else list(names)
    indirect = mark.kwargs.get("indirect", False)
    for row in rows:
        if isinstance(row, Param):
            if any(_left_out(entry) for entry in row.marks if isinstance(entry, Mark)):
                continue
            row = row.values[0] if alone else row.values
        values = {names[0]: row} if alone else dict(zip(names, row, strict=True))
        through = {name: value for name, value in values.items()
                   if indirect is True or (isinstance(indirect, list | tuple) and name in indirect)}  # fmt: skip
        yield {name: value for name, value in values.items() if name not in through}, through


def _call_if_there(space: dict[str, Any], name: str, *args: Any) -> None:
    function = space.get(name)
    if isinstance(function, types.FunctionType):
        function(*args[: function.__code__.co_argcount])


def _call_method(owner: Any, name: str, *args: Any) -> None:
    method = getattr(owner, name, None)
    if method is not None and not isinstance(method, Fixture):
        method(*args[: max(0, method.__code__.co_argcount - 1)])
