"""A user's own reward, loaded from its file."""

import functools
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from rlvr_rewards import _sources
from rlvr_rewards._core import RewardError, RewardSpecError, display_name, nearest

# What TRL hands to every reward function; fixing one of these as an argument would hide the real one.
GIVEN_BY_TRL = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments")


class _Helpers:
    """Finds, last of all, helper modules of loaded reward files, so that an import inside a function works later."""

    def __init__(self) -> None:
        self.files: dict[str, Path] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return where a helper lies, or None for every other module."""
        file = self.files.get(name)
        if file is None or not file.is_file():
            return None
        package = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, file, submodule_search_locations=package)


_helpers = _Helpers()


class UserReward:
    """A user's function or object under its own name; it pickles as the spec that it was loaded from."""

    def __init__(self, name: str, args: Mapping[str, Any], root: str, target: Any) -> None:
        self.spec_name, self.spec_args, self.root, self.target = name, dict(args), root, target
        self.__name__ = _function_name(target)
        self.__doc__ = inspect.getdoc(target)

    def __call__(self, *args: Any, **columns: Any) -> Any:
        """Call the user's reward as TRL would."""
        return self.target(*args, **columns)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "target":
            raise AttributeError(name)
        return getattr(self.target, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return load, (self.spec_name, self.spec_args, self.root)


class AsyncUserReward(UserReward):
    """The same for a coroutine function, which TRL awaits."""

    async def __call__(self, *args: Any, **columns: Any) -> Any:
        """Await the user's reward as TRL would."""
        return await self.target(*args, **columns)


def load(name: str, args: Mapping[str, Any], root: Path | str) -> UserReward:
    """Load `file.py:attribute`, bind its arguments, and return it as a picklable callable.

    A function keeps `args` as fixed keyword arguments; a class is constructed with them.

    Raises:
        RewardSpecError: The file or the attribute is missing, the file does not load, or the arguments do not fit.
    """
    path, attribute = locate(name, root)
    module = load_module(path)
    public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
    if not hasattr(module, attribute):
        raise RewardSpecError(
            f"{path.name} has no {attribute!r}{nearest(attribute, public)}; it has: {', '.join(public)}"
        )
    target = _bind(f"{path.name}:{attribute}", getattr(module, attribute), args)
    kind = AsyncUserReward if _is_async(target) else UserReward
    return kind(name, args, str(root), target)


def files(name: str, root: Path | str) -> list[Path]:
    """Return the files that `file.py:attribute` is made of.

    Raises:
        RewardSpecError: The file is missing, or one of them does not parse or cannot be read.
    """
    path, _ = locate(name, root)
    try:
        return _sources.local_files(path)
    except SyntaxError as error:
        raise RewardSpecError(f"{error.filename} line {error.lineno} does not parse: {error.msg}") from None
    except (OSError, ValueError) as error:
        raise RewardSpecError(f"the files of reward {name!r} cannot be read: {error}") from None


def locate(name: str, root: Path | str) -> tuple[Path, str]:
    """Split `file.py:attribute` and return the resolved file and the attribute.

    Raises:
        RewardSpecError: There is no such file, or no attribute is named.
    """
    text, _, attribute = name.rpartition(":")
    path = (Path(root) / text).resolve()
    if not attribute.isidentifier():
        raise RewardSpecError(f"reward {name!r} must name a function or class after the colon, as 'file.py:function'")
    if not path.is_file():
        raise RewardSpecError(f"reward {name!r}: there is no file {text!r} in {Path(root).resolve()}")
    return path, attribute


def load_module(path: Path) -> ModuleType:
    """Run a user's file under a private module name and return it, always from its present source.

    Raises:
        RewardSpecError: It does not parse, or running it raised.
    """
    folder = path.parent
    name = f"_rlvr_user_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise RewardSpecError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        helpers = {_sources.module_name(file, folder): file for file in _sources.local_files(path) if file != path}
        with _importable(folder, helpers):
            # Compiled here, since the loader would take a cached file when an edit keeps size and second.
            exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except RewardError:
        raise
    except Exception as error:
        sys.modules.pop(name, None)
        raise RewardSpecError(f"{path}: loading it raised {type(error).__name__}: {error}") from error
    return module


@contextmanager
def _importable(folder: Path, helpers: Mapping[str, Path]) -> Iterator[None]:
    """Make the folder's modules importable and fresh; modules of that name from elsewhere come back afterwards."""
    names = [name for name in helpers if not _sources.is_standard(name)]
    aside = {name: module for name in names if (module := sys.modules.pop(name, None)) is not None}
    foreign = {name: module for name, module in aside.items() if not _lies_in(module, folder)}
    _helpers.files.update((name, helpers[name]) for name in names)
    if _helpers not in sys.meta_path:
        sys.meta_path.append(_helpers)
    writing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.dont_write_bytecode = writing
        sys.path.remove(str(folder))
        sys.modules.update(foreign)


def _lies_in(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(folder)


def _bind(label: str, target: Any, args: Mapping[str, Any]) -> Any:
    if not callable(target):
        raise RewardSpecError(f"{label} is {type(target).__name__}, not a function or a class")
    if args:
        _check_arguments(label, target, args)
    if inspect.isclass(target):
        try:
            made = target(**args)
        except Exception as error:
            raise RewardSpecError(f"{label}: constructing it raised {type(error).__name__}: {error}") from error
        if not callable(made):
            raise RewardSpecError(f"{label}: its objects cannot be called; a reward class needs __call__")
        return made
    return functools.partial(target, **args) if args else target


def _check_arguments(label: str, target: Any, args: Mapping[str, Any]) -> None:
    if not (inspect.isfunction(target) or inspect.isclass(target)):
        raise RewardSpecError(f"{label} is an object made in the file; it takes no args")
    parameters = inspect.signature(target).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters) and inspect.isclass(target):
        return
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    known = known if inspect.isclass(target) else [name for name in known if name not in GIVEN_BY_TRL]
    for key in args:
        if key not in known:
            raise RewardSpecError(
                f"{label} has no argument {key!r}{nearest(key, known)}; arguments: {', '.join(known) or 'none'}"
            )


def _is_async(target: Any) -> bool:
    while isinstance(target, functools.partial):
        target = target.func
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004


def _function_name(target: Any) -> str:
    while isinstance(target, functools.partial):
        target = target.func
    return display_name(target)
