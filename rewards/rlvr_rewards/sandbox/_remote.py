"""What stands in the tests' process for objects, classes and exceptions of the program.

What decides a test never comes from the program: plain values arrive as exact builtins, and an object of the program
never equals plain data. Only two objects of the program are compared by asking it, and only a class that the tests name
takes part in arithmetic with plain values.
"""

import builtins
import functools
import importlib
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from rlvr_rewards.sandbox import _decode
from rlvr_rewards.sandbox._objects import BINARY, OPERATIONS, REFLECTED, UNARY

# The connection that everything here asks through; a `_session.Session`, which imports this module.
Session = Any

# Conversions to a number: refused for a result that already knows the plain value it was combined with, since
# `abs(x - expected) < tolerance` would otherwise ask the program whether it is right.
_NUMERIC = frozenset(
    {"__abs__", "__int__", "__float__", "__complex__", "__index__", "__bool__", "__len__", "__round__"}
)
_COMPARING = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})
_ARITHMETIC = frozenset({*BINARY, *REFLECTED}) - _COMPARING - {
    "__eq__", "__ne__", "__contains__", "__getitem__", "__delitem__", "__format__", "__round__"}  # fmt: skip


class CandidateError(Exception):
    """What the program raised, where no builtin exception says it; also its death and its unsupported values."""


PLAIN_TYPES = frozenset({bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range})


class RemoteMeta(type):
    """The type of classes that stand for classes of the program: calling one makes an object over there."""

    _rlvr_session: Session
    _rlvr_number: int

    def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> Any:
        if bases:
            raise TypeError("a test cannot derive a class from a class of the program: it is in another process")
        return super().__new__(cls, name, bases, space)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls._rlvr_session.call(cls._rlvr_number, args, kwargs)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_rlvr"):
            raise AttributeError(name)
        return cls._rlvr_session.ask("get", cls._rlvr_number, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        cls._rlvr_session.ask("set", cls._rlvr_number, name, cls._rlvr_session.encode(value))

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(type(instance), RemoteMeta):
            return False
        if cls is Remote:
            return True
        number = object.__getattribute__(instance, "_rlvr_number")
        return cls._rlvr_session.ask("isinstance", number, cls._rlvr_number) is True

    def __subclasscheck__(cls, other: Any) -> bool:
        if cls is Remote or not isinstance(other, RemoteMeta):
            return isinstance(other, RemoteMeta)
        return cls._rlvr_session.ask("issubclass", other._rlvr_number, cls._rlvr_number) is True

    def __iter__(cls) -> Any:
        return iter(cls._rlvr_session.ask("op", cls._rlvr_number, "__iter__", []))

    def __len__(cls) -> int:
        return int(cls._rlvr_session.ask("op", cls._rlvr_number, "__len__", []))

    def __bool__(cls) -> bool:
        return True

    def __getitem__(cls, key: Any) -> Any:
        return cls._rlvr_session.ask("op", cls._rlvr_number, "__getitem__", [cls._rlvr_session.encode(key)])


class Remote(metaclass=RemoteMeta):
    """An object of the program. Subclasses carry exactly the special methods that the program's class has."""

    _rlvr_methods: frozenset[str] = frozenset()
    _rlvr_declared: bool = False
    _rlvr_plain: bool
    _rlvr_tainted: bool

    def __getattr__(self, name: str) -> Any:
        session, number = _whereabouts(self)
        if name in type(self)._rlvr_methods:
            return functools.partial(_call_method, session, number, name)
        return session.ask("get", number, name)

    def __setattr__(self, name: str, value: Any) -> None:
        session, number = _whereabouts(self)
        session.ask("set", number, name, session.encode(value))

    def __delattr__(self, name: str) -> None:
        session, number = _whereabouts(self)
        session.ask("del", number, name)

    def __eq__(self, other: object) -> Any:
        return _equal(self, other, "__eq__")

    def __ne__(self, other: object) -> Any:
        return _equal(self, other, "__ne__")

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __str__(self) -> str:
        return str(_operate(self, "__str__", ()))

    def __repr__(self) -> str:
        return str(_operate(self, "__repr__", ()))


def new_remote(kind: type, session: Session, number: int) -> Any:
    made: Any = object.__new__(kind)
    for name, value in (("_rlvr_number", number), ("_rlvr_plain", False), ("_rlvr_tainted", False)):
        object.__setattr__(made, name, value)
    return made


def _whereabouts(remote: Any) -> tuple[Session, int]:
    return type(remote)._rlvr_session, object.__getattribute__(remote, "_rlvr_number")


def _call_method(session: Session, number: int, name: str, /, *args: Any, **kwargs: Any) -> Any:
    return session.call(number, args, kwargs, method=name)


def _is_remote(value: Any) -> bool:
    return isinstance(type(value), RemoteMeta)


def _equal(remote: Any, other: Any, operation: str) -> bool:
    if _is_remote(other):
        session, number = _whereabouts(remote)
        return bool(session.ask("op", number, operation, [session.encode(other)]))
    session, number = _whereabouts(remote)
    same = object.__getattribute__(remote, "_rlvr_plain") and bool(session.ask("base", number) == other)
    return same if operation == "__eq__" else not same


def _operate(remote: Any, operation: str, args: tuple[Any, ...]) -> Any:
    """Run a special method of an object of the program, under the rules of this module's first lines."""
    session, number = _whereabouts(remote)
    kind, tainted = type(remote), object.__getattribute__(remote, "_rlvr_tainted")
    if tainted and operation in _NUMERIC:
        raise TypeError(f"{operation} of a result that was combined with a plain value")
    with_plain = any(not _is_remote(arg) for arg in args)
    if operation == "__contains__" and not kind._rlvr_declared:
        return any(item is args[0] or item == args[0] for item in remote)
    if operation in _COMPARING and with_plain:
        raise TypeError("an object of the program has no order with plain values")
    if operation in _ARITHMETIC and with_plain and not kind._rlvr_declared:
        raise TypeError(f"arithmetic of plain values with a {kind.__name__}, which the tests do not name")
    nodes = [session.encode(arg) for arg in args]
    result = session.ask("op", number, operation, nodes, iterating=operation == "__next__")
    if operation in _ARITHMETIC and with_plain:
        if not _is_remote(result):
            raise TypeError("arithmetic of a plain value with an object of the program gave a plain value")
        object.__setattr__(result, "_rlvr_tainted", True)
    return result


def _special_method(operation: str) -> Callable[..., Any]:
    if operation == "__call__":
        return lambda self, *args, **kwargs: type(self)._rlvr_session.call(_whereabouts(self)[1], args, kwargs)
    if operation == "__hash__":
        return lambda self: hash(_operate(self, "__hash__", ()))
    if operation == "__await__":
        return _await_remote
    if operation == "__exit__":
        return lambda self, *_: _operate(self, "__exit__", (None, None, None))
    if operation in UNARY or operation in ("__enter__",):
        return lambda self: _operate(self, operation, ())
    return lambda self, *args: _operate(self, operation, args)


def _await_remote(self: Any) -> Any:
    return _operate(self, "__await__", ())
    yield  # makes it the iterator that `await` wants


def remote_class(
    session: Session, number: int, name: str, module: str, operations: list[str], methods: list[str]
) -> type:
    own = {*operations} - {"__eq__", "__ne__", "__str__", "__repr__", "__dir__"}
    space: dict[str, Any] = {operation: _special_method(operation) for operation in own}
    space.update(
        _rlvr_session=session, _rlvr_number=number, _rlvr_methods=frozenset(map(str, methods)),
        _rlvr_declared=name in session.mentioned, __module__=module, __qualname__=name,
    )  # fmt: skip
    space["__doc__"] = property(lambda self: session.ask("get", _whereabouts(self)[1], "__doc__"))
    if (module, name) == ("builtins", "generator"):
        space["__class__"] = property(lambda self: types.GeneratorType)
    return type.__new__(RemoteMeta, name, (Remote,), space)


def new_exception(kind: type, args: list[Any]) -> Any:
    try:
        return kind(*args)
    except TypeError:  # its constructor wants more than it keeps
        return kind.__new__(kind, *args)


class RemoteError(Exception):
    """Mixin of exceptions that the program defines: their text and attributes are the program's."""

    def __str__(self) -> str:
        return str(self.__dict__.get("_rlvr_text", Exception.__str__(self)))

    def __getattr__(self, name: str) -> Any:
        session = self.__dict__.get("_rlvr_session")
        if session is None or name.startswith("__"):
            raise AttributeError(name)
        return session.ask("get", self.__dict__["_rlvr_number"], name)


def exception_class(name: str, module: str, builtin_base: str, bases: list[type]) -> type:
    """Return a real exception class; what is no Exception of a known kind becomes CandidateError."""
    base = getattr(builtins, builtin_base, None)
    if not isinstance(base, type) or not (issubclass(base, Exception) or base is SystemExit):
        return CandidateError
    if module == "builtins":
        return base if name == builtin_base else CandidateError
    library = sys.modules.get(module) if _is_library(module) else None
    if library is not None:
        found = getattr(library, name, None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    own = [kind for kind in bases if issubclass(kind, BaseException)] or [base]
    try:
        return type(
            name, tuple(own) if issubclass(own[0], RemoteError) else (RemoteError, *own), {"__module__": module}
        )
    except TypeError:
        return CandidateError


def _is_library(module: str) -> bool:
    """Return whether exceptions of that module may be raised in the tester: the library, but no test outcomes."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names and top not in ("unittest", "bdb", "concurrent", "doctest")


def async_function(session: Session, number: int, name: str) -> Any:
    async def function(*args: Any, **kwargs: Any) -> Any:
        return session.call(number, args, kwargs)

    function.__name__ = name
    function._rlvr_async = number  # type: ignore[attr-defined]
    return function


class _NamedTuple(tuple[Any, ...]):
    """A named tuple of the program: a plain tuple whose items also have names."""

    _fields: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name in self._fields:
            return self[self._fields.index(name)]
        raise AttributeError(name)

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=False))


def named_tuple(name: Any, names: Any, values: Any) -> Any:
    if type(values) is not tuple or type(names) is not list:
        raise _decode.Malformed("a named tuple")
    fields = tuple(str(field) for field in names)
    return type(str(name)[:100], (_NamedTuple,), {"_fields": fields})(values)


_OWN = frozenset((__name__.partition(".")[0], "candidate", "conftest", "pytest"))


def trusted_module(name: Any) -> Any:
    """Return a module of the standard library, or of a package that was asked for, by its own name.

    The program's other modules stay with it.
    """
    top = name.partition(".")[0] if type(name) is str else ""
    if top in sys.stdlib_module_names and name not in ("antigravity", "this"):
        return importlib.import_module(name)
    # Such packages are loaded before the tests; by these names there are the grader's own modules and the tests'.
    if name in sys.modules and top not in _OWN and not top.startswith(("test", "_")):
        return sys.modules[name]
    raise _decode.Malformed("a module")


def library_name(value: Any) -> list[str] | None:
    """Return where the standard library keeps a builtin function or class, so that the program uses its own copy."""
    if not isinstance(value, type | types.BuiltinFunctionType | types.MethodDescriptorType):
        return None
    if isinstance(value, types.MethodDescriptorType):
        return ["builtins", f"{value.__objclass__.__name__}.{value.__name__}"]
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if isinstance(getattr(value, "__self__", None), types.ModuleType | type(None)) or isinstance(value, type):
        top = str(module).partition(".")[0].lstrip("_")
        if module is not None and (top in sys.stdlib_module_names or module in sys.stdlib_module_names):
            return [module, name]
    return None


@functools.lru_cache(maxsize=256)
def special_methods(kind: Any) -> frozenset[str]:
    """Return the special methods that a class of the tests has beyond `object`."""
    return frozenset(
        name for name in OPERATIONS
        if inspect.getattr_static(kind, name, None) not in (None, inspect.getattr_static(object, name, None))
    )  # fmt: skip


def overwrite(target: Any, value: Any) -> None:
    """Give a list, dict, set or bytearray of the test the content that the program left in its copy."""
    if type(value) is not type(target) and not isinstance(target, type(value)):
        return
    if isinstance(target, list | bytearray):
        target[:] = value
    else:
        target.clear()
        target.update(value)
