"""The program's side where tests hold its objects: answers calls, attributes and operators by number.

Nothing here is trusted: it runs beside the program, in the same process.
"""

import builtins
import inspect
import io
import operator
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from rlvr_rewards.sandbox import _codec, _decode
from rlvr_rewards.sandbox._candidate import WARM_UP, WARM_UPS, load, plain, text_of
from rlvr_rewards.sandbox._link import Closed, Link, Message

MAX_OUTPUT = 65536
MAX_HANDLES = 200_000
NUMERIC_KINDS = ("b", "i", "u", "f", "c")
# The special methods that a test can use on an object of the program.
UNARY: dict[str, Callable[..., Any]] = {
    "__len__": len, "__iter__": iter, "__next__": next, "__bool__": bool, "__str__": str, "__repr__": repr,
    "__hash__": hash, "__int__": int, "__float__": float, "__complex__": complex, "__index__": operator.index,
    "__abs__": abs, "__neg__": operator.neg, "__pos__": operator.pos, "__invert__": operator.invert,
    "__reversed__": reversed, "__bytes__": bytes, "__dir__": dir,
}  # fmt: skip
BINARY: dict[str, Callable[..., Any]] = {
    "__eq__": operator.eq, "__ne__": operator.ne, "__lt__": operator.lt, "__le__": operator.le,
    "__gt__": operator.gt, "__ge__": operator.ge, "__add__": operator.add, "__sub__": operator.sub,
    "__mul__": operator.mul, "__truediv__": operator.truediv, "__floordiv__": operator.floordiv,
    "__mod__": operator.mod, "__matmul__": operator.matmul, "__and__": operator.and_, "__or__": operator.or_,
    "__xor__": operator.xor, "__lshift__": operator.lshift, "__rshift__": operator.rshift, "__divmod__": divmod,
    "__iadd__": operator.iadd, "__isub__": operator.isub, "__imul__": operator.imul, "__ior__": operator.ior,
    "__iand__": operator.iand, "__pow__": operator.pow, "__contains__": operator.contains,
    "__getitem__": operator.getitem, "__delitem__": operator.delitem, "__format__": format,
    "__round__": round,
}  # fmt: skip
REFLECTED = {f"__r{name[2:]}": name for name in (
    "__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__matmul__", "__and__", "__or__",
    "__xor__", "__lshift__", "__rshift__", "__divmod__", "__pow__",
)}  # fmt: skip
OTHER = ("__setitem__", "__call__", "__enter__", "__exit__", "__await__")
OPERATIONS = frozenset({*UNARY, *BINARY, *REFLECTED, *OTHER})


class _Output(io.TextIOWrapper):
    """Text that is handed over with each answer; the tester writes it to its own stream, where tests look for it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="replace", write_through=True, newline="")

    def write(self, text: str) -> int:
        """Keep the text, up to a limit: a program that prints without end must not fill its memory with it."""
        if self.tell() < MAX_OUTPUT:
            super().write(text[:MAX_OUTPUT])
        return len(text)

    def take(self) -> str:
        raw = self.buffer
        assert isinstance(raw, io.BytesIO)
        text = raw.getvalue()[:MAX_OUTPUT].decode("utf-8", "replace")
        raw.seek(0)
        raw.truncate()
        return text


class Foreign:
    """An object, function or iterator of the test, used by the program from afar."""

    def __init__(self, server: "ObjectServer", number: int) -> None:
        self.__dict__.update(_server=server, _number=number)

    def _do(self, operation: str, *args: Any) -> Any:
        server = self.__dict__["_server"]
        return server.ask(["op", self.__dict__["_number"], operation, [server.encode(arg) for arg in args]])

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["_server"].ask(["get", self.__dict__["_number"], name])

    def __setattr__(self, name: str, value: Any) -> None:
        server = self.__dict__["_server"]
        server.ask(["set", self.__dict__["_number"], name, server.encode(value)])

    def __hash__(self) -> int:
        return int(self.__dict__["_number"])

    def __eq__(self, other: object) -> Any:
        return self is other or self._do("__eq__", other)


class ForeignFunction(Foreign):
    """A function of the test."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        server = self.__dict__["_server"]
        return server.ask(["call", self.__dict__["_number"], [server.encode(arg) for arg in args],
                           {name: server.encode(value) for name, value in kwargs.items()}])  # fmt: skip

    __hash__ = Foreign.__hash__

    @property
    def __name__(self) -> str:
        return str(self._do("__name__"))


def _forward(operation: str) -> Callable[..., Any]:
    def method(self: Foreign, *args: Any) -> Any:
        return self._do(operation, *args)

    return method


def foreign_class(operations: list[str], callable_: bool) -> Any:
    """Return a class with the special methods that the test's object has."""
    base = ForeignFunction if callable_ else Foreign
    allowed = [name for name in operations if name in OPERATIONS - {"__call__", "__eq__", "__hash__", "__dir__"}]
    made: Any = type("Foreign", (base,), {name: _forward(name) for name in allowed})
    return made


class ObjectServer:
    """Answers the tester: calls, attributes and operators on objects it knows by number."""

    def __init__(self, descriptor: int) -> None:
        self.link = Link(descriptor, self.serve)
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.described: set[int] = set()
        self.foreign: dict[int, Foreign] = {}
        self.streams = {"o": _Output(), "e": _Output()}

    # -- values that cross

    def number(self, value: Any) -> int:
        found = self.numbers.get(id(value))
        if found is None:
            if len(self.objects) >= MAX_HANDLES:
                raise _codec.Unsupported("too many objects")
            found = self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)  # kept alive, so that the id stays its own
        return found

    def encode(self, value: Any, depth: int = 0) -> Any:
        return _codec.encode(value, self._export, depth)

    def _export(self, value: Any, depth: int) -> Any:
        if isinstance(value, Foreign):
            return {"R": value.__dict__["_number"]}
        if isinstance(value, type):
            return {"K": self._class(value)}
        if isinstance(value, types.ModuleType):
            return {"M": value.__name__}
        fields = getattr(value, "_fields", None) if isinstance(value, tuple) else None
        if fields is not None:
            names = [str(name) for name in fields]
            return {"N": [type(value).__name__, names, self.encode(_codec.base_value(value), depth + 1)]}
        base = _codec.base_value(value)
        if base is value and type(value).__module__ == "numpy":
            return array_node(value, depth)
        node = None if base is value else [self.encode(base, depth + 1)]
        name = getattr(value, "__name__", None) if callable(value) else None
        return {"h": [self.number(value), self._class(type(value)), node,
                      {"f": str(name) if name else None, "a": inspect.iscoroutinefunction(value),
                       "d": getattr(value, "__module__", None) if name else None}]}  # fmt: skip

    def _class(self, kind: type) -> list[Any]:
        """Return number and, the first time, description of a class."""
        number = self.number(kind)
        if number in self.described:
            return [number, None]
        self.described.add(number)
        operations = [name for name in OPERATIONS if _has(kind, name)]
        is_error = issubclass(kind, BaseException)
        error = next(base.__name__ for base in kind.__mro__ if base.__module__ == "builtins") if is_error else None
        bases = [self._class(base) for base in kind.__bases__ if error and base.__module__ != "builtins"]
        names = () if kind.__module__ == "builtins" else dir(kind)
        methods = [name for name in names if not name.startswith("_") and _is_method(kind, name)]
        return [number, {"name": kind.__name__, "module": kind.__module__, "ops": sorted(operations),
                         "methods": methods, "error": error, "bases": bases}]  # fmt: skip

    def decode(self, node: Any) -> Any:
        return _decode.decode(node, self._restore)

    def _restore(self, tag: str, content: Any) -> Any:
        if tag == "h":
            return self.objects[content]
        if tag == "std":
            return resolve(*content)
        if tag == "S":
            stream = io.StringIO(content[0])
            stream.seek(content[1])
            return stream
        if tag == "A":
            return array(*content)
        if tag == "X":
            return getattr(builtins, content[0])(content[1])
        number, operations, callable_ = content
        if number not in self.foreign:
            self.foreign[number] = foreign_class(operations, callable_)(self, number)
        return self.foreign[number]

    # -- requests to the tester

    def ask(self, request: list[Any]) -> Any:
        message = self.link.ask(request)
        if "v" in message:
            return self.decode(message["v"])
        if "x" not in message:
            raise TypeError(str(message.get("u", "the test cannot pass this on")))
        name, text, token = message["x"]
        kind = getattr(builtins, name, RuntimeError)
        error = (kind if isinstance(kind, type) and issubclass(kind, BaseException) else RuntimeError)(text)
        error.__dict__["_rlvr_token"] = token
        raise error

    # -- requests of the tester

    def serve(self, request: list[Any]) -> Message:
        try:
            answer: Message = getattr(self, f"do_{request[0]}")(*request[1:])
        except _codec.Unsupported as error:
            answer = {"u": str(error)}
        except Closed:
            os._exit(1)
        except BaseException as error:
            answer = {"x": self._error(error)}
        for key, stream in self.streams.items():
            if text := stream.take():
                answer[key] = text
        return answer

    def _error(self, error: BaseException) -> dict[str, Any]:
        try:
            args = self.encode(list(error.args))
        except BaseException:
            args = None
        return {"class": self._class(type(error)), "text": text_of(error), "args": args, "self": self.number(error),
                "token": getattr(error, "_rlvr_token", None)}  # fmt: skip

    def _or_none(self, value: Any) -> Any:
        try:
            return self.encode(value)
        except _codec.Unsupported:
            return None

    def do_public(self) -> Message:
        space = sys.modules["candidate"].__dict__
        names = space.get("__all__") or [name for name in space if not name.startswith("_")]
        return {"v": [str(name) for name in names]}

    def do_call(self, target: int, args: list[Any], kwargs: dict[str, Any], in_place: bool) -> Message:
        return self._call(self.objects[target], args, kwargs, in_place)

    def _call(self, function: Any, args: list[Any], kwargs: dict[str, Any], in_place: bool) -> Message:
        values = [self.decode(arg) for arg in args]
        named = {name: self.decode(value) for name, value in kwargs.items()}
        result = function(*values, **named)
        if inspect.iscoroutine(result) and inspect.iscoroutinefunction(function):
            result = _run(result)
        answer: Message = {"v": self.encode(result)}
        if in_place:
            answer["m"] = [self._or_none(value) for value in values]
        return answer

    def do_method(self, target: int, name: str, args: list[Any], kwargs: dict[str, Any], in_place: bool) -> Message:
        return self._call(getattr(self.objects[target], name), args, kwargs, in_place)

    def do_get(self, target: int, name: str) -> Message:
        return {"v": self.encode(getattr(self.objects[target], name))}

    def do_set(self, target: int, name: str, value: Any) -> Message:
        setattr(self.objects[target], name, self.decode(value))
        return {"v": None}

    def do_del(self, target: int, name: str) -> Message:
        delattr(self.objects[target], name)
        return {"v": None}

    def do_op(self, target: int, name: str, args: list[Any]) -> Message:
        subject, values = self.objects[target], [self.decode(arg) for arg in args]
        if name in UNARY:
            result = UNARY[name](subject)
        elif name == "__round__":
            result = round(subject, *values)
        elif name in BINARY:
            result = BINARY[name](subject, *values)
        elif name in REFLECTED:
            result = BINARY[REFLECTED[name]](values[0], subject)
        elif name == "__setitem__":
            subject[values[0]] = values[1]
            result = None
        elif name == "__await__":
            result = _run(_awaited(subject))
        else:
            result = getattr(subject, name)(*values)
        return {"v": self.encode(result)}

    def do_base(self, target: int) -> Message:
        return {"v": plain(self.objects[target])}

    def do_isinstance(self, target: int, kind: int) -> Message:
        return {"v": isinstance(self.objects[target], self.objects[kind])}

    def do_issubclass(self, target: int, kind: int) -> Message:
        return {"v": issubclass(self.objects[target], self.objects[kind])}

    def do_stdin(self, text: str, ask: Any) -> Message:
        """Give the program what the test put in place of standard input and of `input`."""
        sys.stdin = io.StringIO(text)
        builtins.input = self.decode(ask) if ask is not None else _INPUT
        return {"v": None}

    def do_patch(self, module: str, name: str, value: Any) -> Message:
        setattr(sys.modules[module], name, self.decode(value))
        return {"v": None}

    def do_code(self, code: str, main: bool) -> Message:
        return {"v": self.number(load(code, "__main__" if main else "candidate"))}


_INPUT = builtins.input


def array_node(value: Any, depth: int = 0) -> Any:
    """Return the JSON form of a numpy array of numbers or of a numpy scalar."""
    if not hasattr(value, "dtype") or value.dtype.kind not in NUMERIC_KINDS:
        raise _codec.Unsupported(f"a value of type {type(value).__name__}")
    if not value.shape:
        return _codec.encode(value.item(), _codec.refuse_object, depth)
    return {"A": [value.dtype.str, list(value.shape), _codec.encode(value.ravel().tolist())]}


def array(kind: Any, shape: Any, items: Any) -> Any:
    """Return the numpy array of a JSON form; only where numpy was asked for, and only of numbers."""
    numpy, values = sys.modules.get("numpy"), _decode.decode(items)
    if numpy is None or type(kind) is not str or kind[1:2] not in NUMERIC_KINDS or len(kind) > 4:
        raise _decode.Malformed("an array")
    return numpy.array(values, dtype=kind).reshape([int(size) for size in shape])


def _run(coroutine: Any) -> Any:
    import asyncio  # a large package, and few programs need it

    return asyncio.run(coroutine)


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _has(kind: type, name: str) -> bool:
    """Return whether the class itself defines a special method, beyond what every object has."""
    found = getattr(kind, name, None)
    return found is not None and found is not getattr(object, name, None)


def _is_method(kind: type, name: str) -> bool:
    found = inspect.getattr_static(kind, name, None)
    return inspect.isfunction(found) and not inspect.iscoroutinefunction(found)


def resolve(module: str, path: str) -> Any:
    """Return a function or class of the standard library by module and dotted name."""
    found: Any = __import__(module, fromlist=["_"])
    for part in path.split("."):
        found = getattr(found, part)
    return found


def serve_objects(payload: dict[str, Any], descriptor: int) -> None:
    """Load the program and answer the tester until it hangs up."""
    server = ObjectServer(descriptor)
    sys.argv = ["candidate.py"]
    sys.stdout, sys.stderr = server.streams["o"], server.streams["e"]
    answer = server.serve(["code", payload["code"], payload["main"]])
    try:
        server.link.send(answer)
        while True:
            server.link.answer(server.link.receive())
    except Closed:
        return


def warm_up() -> None:
    """Do once what the program's process does for every test, on a program that is known; see `_candidate.warm_up`."""
    for _ in range(WARM_UPS):
        server = ObjectServer(-1)
        server.serve(["code", WARM_UP, False])
        (space,) = [value for value in server.objects if type(value) is types.ModuleType]
        number = server.number(space)
        call = ["call", server.number(space.f), [{"t": [1, "a"]}], {}, False]
        for request in (["public"], ["get", number, "f"], call):
            _codec.dumps(server.serve(request))
        del sys.modules["candidate"]
