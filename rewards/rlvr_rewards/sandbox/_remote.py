"""The tester's side: the program's functions, classes and objects as seen by tests, all of them in another process.

What decides a test never comes from the program: plain values arrive as exact builtins, and an object of the program
never equals plain data. Only two objects of the program are compared by asking it, and only a class that the tests name
takes part in arithmetic with plain values.
"""

import builtins
import copy
import functools
import importlib
import inspect
import io
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from rlvr_rewards.sandbox import _codec
from rlvr_rewards.sandbox._objects import BINARY, OPERATIONS, REFLECTED, UNARY
from rlvr_rewards.sandbox._link import Closed, Link, Message

MAX_CLASSES = 2_000
# Names that a test may use without importing them because the program did: never the program's own version of them.
TRUSTED_NAMES: dict[str, tuple[str, ...]] = {
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"),
    "datetime": ("date", "datetime", "time", "timedelta"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "typing": ("Any", "Callable", "Dict", "Iterable", "List", "Optional", "Set", "Tuple", "Union"),
}
# Replaced by tests through `mock.patch` or `monkeypatch`; the replacement must act in the program's process.
FORWARDED = (
    ("builtins", "input"), ("builtins", "print"), ("builtins", "open"), ("time", "sleep"), ("time", "time"),
    ("random", "random"), ("random", "randint"), ("random", "choice"), ("random", "shuffle"),
)  # fmt: skip
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


class Session:
    """The connection of one tester to one program.

    Args:
        descriptor: The socket.
        mentioned: All names in the tests' source; a class among them is one that the tests are about.
        in_place: Whether changes of arguments come back.
    """

    def __init__(self, descriptor: int, mentioned: set[str], in_place: bool) -> None:
        self.link = Link(descriptor, self.serve)
        self.mentioned, self.in_place = mentioned, in_place
        self.test_modules: set[str] = set()
        self.classes: dict[int, type] = {}
        self.handles: dict[int, Any] = {}
        self.exports: list[Any] = []
        self.export_numbers: dict[int, int] = {}
        self.copies: dict[int, tuple[Any, Any]] = {}  # id of a copy: the copy, its original
        self.changed = False
        self.raised: list[BaseException] = []
        self._stdin: Any = sys.stdin
        self._originals = {key: getattr(importlib.import_module(key[0]), key[1]) for key in FORWARDED}
        self._sent = dict(self._originals)

    # -- asking the program --------------------------------------------------------------------------------------------

    def ask(self, *request: Any, iterating: bool = False) -> Any:
        """Send a request and return the value it gives, or raise what the program raised."""
        return self._value(self._exchange(list(request), iterating))

    def call(self, target: int, args: tuple[Any, ...], kwargs: dict[str, Any], method: str | None = None) -> Any:
        """Call an object of the program, or a method of it."""
        self._forward_patches()
        self.copies.clear()
        self.changed = False
        head = ["call", target] if method is None else ["method", target, method]
        nodes = [self.encode(arg) for arg in args]
        named = {name: self.encode(value) for name, value in kwargs.items()}
        message = self._exchange([*head, nodes, named, self.in_place], False)
        if self.in_place:
            self._take_changes(args, message.get("m"))
        return self._value(message)

    def _exchange(self, request: list[Any], iterating: bool) -> Message:
        try:
            message = self.link.ask(request)
        except Closed as error:
            raise CandidateError(str(error)) from None
        for key, stream in (("o", sys.stdout), ("e", sys.stderr)):
            text = message.get(key)
            if type(text) is str and text:
                stream.write(text)
        if "x" in message:
            raise self.error_of(message["x"], iterating)
        if "v" not in message:
            raise CandidateError(f"unsupported: {message.get('u')!s:.200}")
        return message

    def _value(self, message: Message) -> Any:
        return self.decode(message["v"])

    def _take_changes(self, args: tuple[Any, ...], nodes: Any) -> None:
        if type(nodes) is not list or len(nodes) != len(args):
            return
        for arg, node in zip(args, nodes, strict=True):
            if isinstance(arg, list | dict | set | bytearray) and node is not None:
                _overwrite(arg, self.decode(node))

    def _forward_patches(self) -> None:
        for key, sent in self._sent.items():
            current = getattr(sys.modules[key[0]], key[1])
            if current is not sent:
                self._sent[key] = current
                node = {"std": list(key)} if current is self._originals[key] else self.encode(current)
                if key != ("builtins", "open") or isinstance(current, mock.Mock):
                    self.ask("patch", *key, node)
        if sys.stdin is not self._stdin:
            self._stdin = sys.stdin
            text = sys.stdin.read() if isinstance(sys.stdin, io.StringIO) else ""
            self.ask("stdin", text, None)
            self._sent["builtins", "input"] = self._originals["builtins", "input"]

    # -- values --------------------------------------------------------------------------------------------------------

    def encode(self, value: Any) -> Any:
        try:
            return _codec.encode(value, self._export)
        except _codec.Unsupported as error:
            raise TypeError(f"the program cannot be given {error}") from None

    def decode(self, node: Any) -> Any:
        try:
            return _codec.decode(node, self._restore)
        except _codec.Malformed as error:
            raise CandidateError(f"malformed: {error}") from None

    def _restore(self, tag: str, content: Any) -> Any:
        if tag == "h":
            return self._handle(*content)
        if tag == "K":
            return self.class_of(content)
        if tag == "R":
            if type(content) is not int or not 0 <= content < len(self.exports):
                raise _codec.Malformed("an unknown object")
            return self._original(self.exports[content])
        if tag == "M":
            return _trusted_module(content)
        if tag == "N":
            return _named_tuple(content[0], content[1], self.decode(content[2]))
        raise _codec.Malformed("an unknown tag")

    def _handle(self, number: int, kind_node: Any, base: Any, extra: dict[str, Any]) -> Any:
        name = extra["f"]
        if type(name) is str and name in TRUSTED_NAMES.get(str(extra["d"]), ()):
            return getattr(importlib.import_module(extra["d"]), name)
        kind = self.class_of(kind_node)
        if base is not None and kind.__name__ not in self.mentioned:
            return self.decode(base[0])
        if type(number) is not int:
            raise _codec.Malformed("a handle")
        if number not in self.handles:
            self.handles[number] = self._new_handle(kind, number, base, extra)
        found = self.handles[number]
        if base is not None and isinstance(found, Remote):
            object.__setattr__(found, "_rlvr_plain", True)
        return found

    def _new_handle(self, kind: type, number: int, base: Any, extra: dict[str, Any]) -> Any:
        if extra["a"] is True:
            return _async_function(self, number, str(extra["f"]))
        if not issubclass(kind, Remote):
            return CandidateError("an exception object of the program")
        return _new_remote(kind, self, number)

    def class_of(self, node: Any) -> type:
        """Return the class that stands for a class of the program, made from its description the first time."""
        number, description = node
        if number not in self.classes:
            if type(number) is not int or type(description) is not dict or len(self.classes) > MAX_CLASSES:
                raise _codec.Malformed("a class")
            self.classes[number] = self._new_class(number, description)
        return self.classes[number]

    def _new_class(self, number: int, description: dict[str, Any]) -> type:
        name, module = str(description["name"])[:100], str(description["module"])[:100]
        if module in self.test_modules:
            module = "candidate"  # nothing of the program may pass for a class of the tests
        if description["error"] is not None:
            bases = [self.class_of(base) for base in description["bases"]]
            return _exception_class(name, module, str(description["error"]), bases)
        if name in TRUSTED_NAMES.get(module, ()):
            trusted: type = getattr(importlib.import_module(module), name)
            return trusted
        if module == "builtins" and isinstance(getattr(builtins, name, None), type):
            found: type = getattr(builtins, name)
            if found in _PLAIN_TYPES:
                return found
        operations = [operation for operation in description["ops"] if operation in OPERATIONS]
        return _remote_class(self, number, name, module, operations, description["methods"])

    # -- exceptions ----------------------------------------------------------------------------------------------------

    def error_of(self, node: Any, iterating: bool = False) -> BaseException:
        """Return the exception that stands for one of the program."""
        try:
            token = node["token"]
            if type(token) is int and 0 <= token < len(self.raised):
                return self.raised[token]
            kind, text = self.class_of(node["class"]), str(node["text"])
            if kind is StopIteration and not iterating:
                return CandidateError("StopIteration")  # else it would end a loop of the test early, unnoticed
            args = self.decode(node["args"]) if node["args"] is not None else [text]
            error = _instance(kind, args if type(args) is list else [text])
        except (CandidateError, KeyError, TypeError, ValueError):
            return CandidateError("an exception that does not cross")
        if not isinstance(error, BaseException):
            return CandidateError("an exception that does not cross")
        if isinstance(error, _RemoteError):
            error.__dict__.update(_rlvr_session=self, _rlvr_number=node["self"], _rlvr_text=text)
        return error

    # -- serving the program -------------------------------------------------------------------------------------------

    def serve(self, request: list[Any]) -> Message:
        """Answer the program: run a callback, or give an attribute of an object that it was handed."""
        try:
            if type(request[1]) is not int or request[1] < 0:
                raise TypeError("an unknown object")
            subject = self.exports[request[1]]
            return {"v": self.encode(self._serve(request[0], subject, request[2:]))}
        except Closed:
            raise
        except Exception as error:
            self.raised.append(error)
            builtin = next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
            return {"x": [builtin.__name__, str(error)[:500], len(self.raised) - 1]}

    def _serve(self, operation: str, subject: Any, rest: list[Any]) -> Any:
        if operation == "call" and callable(subject):
            args = [self.decode(node) for node in rest[0]]
            return subject(*args, **{name: self.decode(node) for name, node in rest[1].items()})
        if operation == "op":
            return self._operate(subject, rest[0], [self.decode(node) for node in rest[1]])
        if not self._is_of_tests(subject) or type(rest[0]) is not str or rest[0].startswith("_"):
            raise AttributeError(f"{rest[0]!s:.50}")
        if operation == "get":
            return getattr(subject, rest[0])
        if operation == "set":
            self.changed = True
            setattr(subject, rest[0], self.decode(rest[1]))
            return None
        raise TypeError("an unknown operation")

    def _operate(self, subject: Any, name: str, args: list[Any]) -> Any:
        if name == "__next__" and isinstance(subject, Iterator):
            return next(subject)
        if name == "__iter__" and isinstance(subject, Iterator):
            return subject
        if name == "__name__":
            return getattr(subject, "__name__", "")
        if name == "__eq__":
            return subject is args[0] or (self._is_of_tests(subject) and bool(subject == args[0]))
        if not self._is_of_tests(subject) or name not in OPERATIONS or name == "__dir__":
            raise TypeError(f"{name!s:.50}")
        return getattr(type(subject), name)(subject, *args)

    def _is_of_tests(self, subject: Any) -> bool:
        """Return whether the program may look into the object: instances of the tests' own classes, and mocks."""
        if isinstance(subject, type | types.FunctionType | types.MethodType | types.ModuleType):
            return False
        return type(subject).__module__ in self.test_modules or isinstance(subject, mock.NonCallableMock)

    def _export(self, value: Any, depth: int) -> Any:
        if isinstance(value, Remote) or isinstance(type(value), RemoteMeta):
            return {"h": object.__getattribute__(value, "_rlvr_number")}
        if isinstance(value, RemoteMeta):
            return {"h": type.__getattribute__(value, "_rlvr_number")}
        if isinstance(value, types.FunctionType) and "_rlvr_async" in value.__dict__:
            return {"h": value.__dict__["_rlvr_async"]}
        if isinstance(value, io.StringIO):
            return {"S": [value.getvalue(), value.tell()]}
        if isinstance(value, BaseException):
            builtin = next(kind for kind in type(value).__mro__ if kind.__module__ == "builtins")
            return {"X": [builtin.__name__, str(value)[:500]]}
        if (known := _library_name(value)) is not None:
            return {"std": known}
        if not (callable(value) or isinstance(value, Iterator) or self._is_of_tests(value)):
            base = _codec.base_value(value)
            if base is value:
                raise _codec.Unsupported(f"a value of type {type(value).__name__}")
            return _codec.encode(base, self._export, depth)
        if self._is_of_tests(value) and not self.in_place and not isinstance(value, mock.NonCallableMock):
            value = self._copy(value)
        operations = [name for name in OPERATIONS if name in _defined(type(value))]
        return {"e": [self._export_number(value), operations, callable(value)]}

    def _export_number(self, value: Any) -> int:
        found = self.export_numbers.get(id(value))
        if found is None:
            found = self.export_numbers[id(value)] = len(self.exports)
            self.exports.append(value)  # kept alive, so that the id stays its own
        return found

    def _copy(self, value: Any) -> Any:
        if id(value) in self.copies:
            return value
        for made, original in self.copies.values():
            if original is value:
                return made
        memo: dict[int, Any] = {}
        made = copy.deepcopy(value, memo)
        for number, part in list(memo.items()):
            if self._is_of_tests(part):
                original = next((kept for kept in memo.get(id(memo), []) if id(kept) == number), None)
                self.copies[id(part)] = (part, original)
        return made

    def _original(self, value: Any) -> Any:
        """Return the object itself for an unchanged copy that comes back, so that identity holds."""
        entry = self.copies.get(id(value))
        return entry[1] if entry is not None and entry[1] is not None and not self.changed else value


# -- what stands for objects, classes and exceptions of the program -------------------------------------------------------

_PLAIN_TYPES = frozenset({bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range})


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


def _new_remote(kind: type, session: Session, number: int) -> Any:
    made = object.__new__(kind)
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


def _remote_class(
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


def _instance(kind: type, args: list[Any]) -> Any:
    try:
        return kind(*args)
    except TypeError:  # its constructor wants more than it keeps
        return kind.__new__(kind, *args)


class _RemoteError(Exception):
    """Mixin of exceptions that the program defines: their text and attributes are the program's."""

    def __str__(self) -> str:
        return str(self.__dict__.get("_rlvr_text", Exception.__str__(self)))

    def __getattr__(self, name: str) -> Any:
        session = self.__dict__.get("_rlvr_session")
        if session is None or name.startswith("__"):
            raise AttributeError(name)
        return session.ask("get", self.__dict__["_rlvr_number"], name)


def _exception_class(name: str, module: str, builtin_base: str, bases: list[type]) -> type:
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
            name, tuple(own) if issubclass(own[0], _RemoteError) else (_RemoteError, *own), {"__module__": module}
        )
    except TypeError:
        return CandidateError


def _is_library(module: str) -> bool:
    """Return whether exceptions of that module may be raised in the tester: the library, but no test outcomes."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names and top not in ("unittest", "bdb", "concurrent", "doctest")


def _async_function(session: Session, number: int, name: str) -> Any:
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


def _named_tuple(name: Any, names: Any, values: Any) -> Any:
    if type(values) is not tuple or type(names) is not list:
        raise _codec.Malformed("a named tuple")
    fields = tuple(str(field) for field in names)
    return type(str(name)[:100], (_NamedTuple,), {"_fields": fields})(values)


def _trusted_module(name: Any) -> Any:
    """Return a module of the standard library by its own name; the program's other modules stay with it."""
    if type(name) is str and name.partition(".")[0] in sys.stdlib_module_names and name not in ("antigravity", "this"):
        return importlib.import_module(name)
    raise _codec.Malformed("a module")


def _library_name(value: Any) -> list[str] | None:
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
def _defined(kind: type) -> frozenset[str]:
    """Return the special methods that a class of the tests has beyond `object`."""
    return frozenset(
        name for name in OPERATIONS
        if inspect.getattr_static(kind, name, None) not in (None, inspect.getattr_static(object, name, None))
    )  # fmt: skip


def _overwrite(target: Any, value: Any) -> None:
    """Give a list, dict, set or bytearray of the test the content that the program left in its copy."""
    if type(value) is not type(target) and not isinstance(target, type(value)):
        return
    if isinstance(target, list | bytearray):
        target[:] = value
    else:
        target.clear()
        target.update(value)
