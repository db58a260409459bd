"""The tester's connection to the program: values, calls, exceptions and callbacks that cross between the two."""

import builtins
import copy
import importlib
import io
import sys
import types
from collections.abc import Iterator
from typing import Any

from rlvr_rewards.sandbox import _codec, _decode
from rlvr_rewards.sandbox._link import Closed, Link, Message
from rlvr_rewards.sandbox._objects import OPERATIONS, array, array_node
from rlvr_rewards.sandbox._remote import (
    PLAIN_TYPES,
    CandidateError,
    Remote,
    RemoteError,
    RemoteMeta,
    async_function,
    exception_class,
    library_name,
    named_tuple,
    new_exception,
    new_remote,
    overwrite,
    remote_class,
    special_methods,
    trusted_module,
)

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
_ORIGINALS = {key: getattr(importlib.import_module(key[0]), key[1]) for key in FORWARDED}


def is_mock(value: Any) -> bool:
    """Return whether it is one of `unittest.mock`'s; there is none before that is imported."""
    mock = sys.modules.get("unittest.mock")
    return mock is not None and isinstance(value, mock.NonCallableMock)


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
        self._sent = dict(_ORIGINALS)

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
                overwrite(arg, self.decode(node))

    def _forward_patches(self) -> None:
        for key, sent in self._sent.items():
            current = getattr(sys.modules[key[0]], key[1])
            if current is sent:
                continue
            self._sent[key] = current
            if key == ("builtins", "open") and not is_mock(current):
                continue  # the tester's own, which knows the files of the tests
            node = {"std": list(key)} if current is _ORIGINALS[key] else self.encode(current)
            self.ask("patch", *key, node)
        if sys.stdin is not self._stdin:
            self._stdin = sys.stdin
            text = sys.stdin.read() if isinstance(sys.stdin, io.StringIO) else ""
            self.ask("stdin", text, None)
            self._sent["builtins", "input"] = _ORIGINALS["builtins", "input"]

    # -- values --------------------------------------------------------------------------------------------------------

    def encode(self, value: Any) -> Any:
        try:
            return _codec.encode(value, self._export)
        except _codec.Unsupported as error:
            raise TypeError(f"the program cannot be given {error}") from None

    def decode(self, node: Any) -> Any:
        try:
            return _decode.decode(node, self._restore)
        except _decode.Malformed as error:
            raise CandidateError(f"malformed: {error}") from None

    def _restore(self, tag: str, content: Any) -> Any:
        if tag == "h":
            return self._handle(*content)
        if tag == "K":
            return self.class_of(content)
        if tag == "R":
            if type(content) is not int or not 0 <= content < len(self.exports):
                raise _decode.Malformed("an unknown object")
            return self._original(self.exports[content])
        if tag == "M":
            return trusted_module(content)
        if tag == "A":
            return array(*content)
        if tag == "N":
            return named_tuple(content[0], content[1], self.decode(content[2]))
        raise _decode.Malformed("an unknown tag")

    def _handle(self, number: int, kind_node: Any, base: Any, extra: dict[str, Any]) -> Any:
        name = extra["f"]
        if type(name) is str and name in TRUSTED_NAMES.get(str(extra["d"]), ()):
            return getattr(importlib.import_module(extra["d"]), name)
        kind = self.class_of(kind_node)
        if base is not None and kind.__name__ not in self.mentioned:
            return self.decode(base[0])
        if type(number) is not int:
            raise _decode.Malformed("a handle")
        if number not in self.handles:
            self.handles[number] = self._new_handle(kind, number, base, extra)
        found = self.handles[number]
        if base is not None and isinstance(found, Remote):
            object.__setattr__(found, "_rlvr_plain", True)
        return found

    def _new_handle(self, kind: type, number: int, base: Any, extra: dict[str, Any]) -> Any:
        if extra["a"] is True:
            return async_function(self, number, str(extra["f"]))
        if not issubclass(kind, Remote):
            return CandidateError("an exception object of the program")
        return new_remote(kind, self, number)

    def class_of(self, node: Any) -> type:
        """Return the class that stands for a class of the program, made from its description the first time."""
        number, description = node
        if number not in self.classes:
            if type(number) is not int or type(description) is not dict or len(self.classes) > MAX_CLASSES:
                raise _decode.Malformed("a class")
            self.classes[number] = self._new_class(number, description)
        return self.classes[number]

    def _new_class(self, number: int, description: dict[str, Any]) -> type:
        name, module = str(description["name"])[:100], str(description["module"])[:100]
        if module in self.test_modules:
            module = "candidate"  # nothing of the program may pass for a class of the tests
        if description["error"] is not None:
            bases = [self.class_of(base) for base in description["bases"]]
            return exception_class(name, module, str(description["error"]), bases)
        if name in TRUSTED_NAMES.get(module, ()):
            trusted: type = getattr(importlib.import_module(module), name)
            return trusted
        if module == "builtins" and isinstance(getattr(builtins, name, None), type):
            found: type = getattr(builtins, name)
            if found in PLAIN_TYPES:
                return found
        operations = [operation for operation in description["ops"] if operation in OPERATIONS]
        return remote_class(self, number, name, module, operations, description["methods"])

    # -- exceptions ----------------------------------------------------------------------------------------------------

    def error_of(self, node: Any, iterating: bool = False) -> BaseException:
        """Return the exception that stands for one of the program."""
        try:
            token = node["token"]
            if type(token) is int and 0 <= token < len(self.raised):
                again = self.raised[token]
                return CandidateError("StopIteration") if isinstance(again, StopIteration) and not iterating else again
            kind, text = self.class_of(node["class"]), str(node["text"])
            if kind is StopIteration and not iterating:
                return CandidateError("StopIteration")  # else it would end a loop of the test early, unnoticed
            args = self.decode(node["args"]) if node["args"] is not None else [text]
            error = new_exception(kind, args if type(args) is list else [text])
        except (CandidateError, KeyError, TypeError, ValueError):
            return CandidateError("an exception that does not cross")
        if not isinstance(error, BaseException):
            return CandidateError("an exception that does not cross")
        if isinstance(error, RemoteError):
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
        return type(subject).__module__ in self.test_modules or is_mock(subject)

    def _export(self, value: Any, depth: int) -> Any:
        if isinstance(value, Remote) or isinstance(type(value), RemoteMeta):
            return {"h": object.__getattribute__(value, "_rlvr_number")}
        if isinstance(value, RemoteMeta):
            return {"h": type.__getattribute__(value, "_rlvr_number")}
        if isinstance(value, types.FunctionType) and "_rlvr_async" in value.__dict__:
            return {"h": value.__dict__["_rlvr_async"]}
        if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
            return array_node(value, depth)
        if isinstance(value, io.StringIO):
            return {"S": [value.getvalue(), value.tell()]}
        if isinstance(value, BaseException):
            builtin = next(kind for kind in type(value).__mro__ if kind.__module__ == "builtins")
            return {"X": [builtin.__name__, str(value)[:500]]}
        if (known := library_name(value)) is not None:
            return {"std": known}
        if not (callable(value) or isinstance(value, Iterator) or self._is_of_tests(value)):
            base = _codec.base_value(value)
            if base is value:
                raise _codec.Unsupported(f"a value of type {type(value).__name__}")
            return _codec.encode(base, self._export, depth)
        if self._is_of_tests(value) and not self.in_place and not is_mock(value):
            value = self._copy(value)
        kind: Any = type(value)
        operations = [name for name in OPERATIONS if name in special_methods(kind)]
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
