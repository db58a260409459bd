"""Files that belong to the tests, served from memory in the tester's process: nothing of them lies on any disk."""

import ast
import builtins
import importlib.machinery
import inspect
import io
import os
import types
from collections.abc import Mapping, Sequence
from typing import Any


def module_name(path: str) -> str:
    """Return the name under which a file is imported."""
    parts = path.removesuffix(".py").strip("/").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Finder:
    """Imports the Python files among them. It derives from nothing: `importlib.abc` would import all of `tempfile`.

    Args:
        files: Text by relative path.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        self._sources = {module_name(path): text for path, text in files.items() if path.endswith(".py")}
        self._packages = {name.rpartition(".")[0] for name in self._sources}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a module that is among the files."""
        if fullname not in self._sources and fullname not in self._packages:
            return None
        loader: Any = self
        return importlib.machinery.ModuleSpec(fullname, loader, is_package=fullname in self._packages)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Leave the making of the module to the import system."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module."""
        module.__file__ = f"/{module.__name__.replace('.', '/')}.py"
        exec(compile(self._sources.get(module.__name__, ""), module.__file__, "exec"), module.__dict__)


def serve(files: Mapping[str, str]) -> None:
    """Let `open`, `pathlib` and `os.path.exists` find the files by their path or, from the working folder, by name."""
    original, exists = io.open, os.path.exists

    def find(path: Any) -> str | None:
        if not isinstance(path, str | os.PathLike):
            return None
        text = os.path.normpath(os.fspath(path)).lstrip("/")
        return text if text in files else None

    def opened(path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        name = find(path)
        if name is None or set(mode) & set("wax+"):
            return original(path, mode, *args, **kwargs)
        return io.BytesIO(files[name].encode()) if "b" in mode else io.StringIO(files[name])

    def there(path: Any) -> bool:
        return find(path) is not None or exists(path)

    for owner, names, replacement in ((builtins, ("open",), opened), (io, ("open",), opened),
                                      (os.path, ("exists", "isfile"), there)):  # fmt: skip
        for name in names:
            setattr(owner, name, replacement)


def give_source(code: str) -> None:
    """Let `inspect.getsource` find the text of the program's functions and classes."""
    original = inspect.getsource

    def getsource(subject: Any) -> str:
        if isinstance(subject, types.ModuleType) and subject.__name__ == "candidate":
            return code
        name = getattr(subject, "__name__", None)
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
                return (ast.get_source_segment(code, node) or "") + "\n"
        return original(subject)

    inspect.getsource = getsource  # type: ignore[assignment]
