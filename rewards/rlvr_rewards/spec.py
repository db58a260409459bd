"""Rewards as data: build one from a spec, and bind a reading to what it was built from. Standard library only.

A spec is `{"reward": "math", "args": {"rel_tol": 1e-4}, "weight": 1.0}` for a reward of this package, or
`{"reward": "my_rewards.py:my_function"}` for a user's own. A bare string stands for a spec without arguments.
"""

import hashlib
import importlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import rlvr_rewards
from rlvr_rewards import _sources, _user
from rlvr_rewards._core import Reward, RewardSpecError, nearest

REGISTRY: Mapping[str, tuple[str, str]] = {
    "format": ("_format", "Format"),
    "exact": ("_exact", "Exact"),
    "math": ("_math", "Math"),
    "schema": ("_schema", "Schema"),
    "tool_call": ("_tool_call", "ToolCall"),
    "unit_test": ("unit_test", "UnitTest"),
    "length_penalty": ("_length", "LengthPenalty"),
    "soft_overlong": ("_length", "SoftOverlong"),
    "judge": ("_judge", "Judge"),
    "composite": ("_composite", "Composite"),
}
# The arguments that are rewards themselves, given as specs.
NESTED: Mapping[str, tuple[str, ...]] = {"length_penalty": ("reward",), "composite": ("answer", "format")}
# Further names that people write; the canonical one stands in records and digests.
ALIASES: Mapping[str, str] = {"unit_tests": "unit_test"}
KEYS = ("reward", "args", "weight")

Spec = Mapping[str, Any]
RewardFunction = Callable[..., Any]


def build(spec: Spec | str, root: Path | str = ".") -> RewardFunction:
    """Return the reward that a spec describes.

    Args:
        spec: The spec; a string stands for one without arguments, or holds the spec as a JSON object.
        root: The folder that user files are relative to.

    Returns:
        A `Reward`, or for a user's function a picklable callable with the function's name.

    Raises:
        RewardSpecError: Unknown reward, key or argument (with the nearest known name), a value that does not fit, or a
            user file that is missing or does not load.
    """
    whole = canonical(spec)
    name, args = whole["reward"], whole["args"]
    if _is_user(name):
        return _user.load(name, args, root)
    return _construct(name, _reward_class(name), args, root)


def canonical(spec: Spec | str) -> dict[str, Any]:
    """Return the spec with every key present, nested specs included, so that equal rewards have equal text.

    Raises:
        RewardSpecError: The spec is malformed or names an unknown reward.
    """
    whole = _mapping(spec)
    unknown = next((key for key in whole if key not in KEYS), None)
    if unknown is not None:
        raise RewardSpecError(
            f"a reward spec has no key {unknown!r}{nearest(str(unknown), KEYS)}; keys: {', '.join(KEYS)}"
        )
    name, args = _name(whole.get("reward")), whole.get("args")
    if args is None:
        args = {}
    if not isinstance(args, Mapping) or not all(isinstance(key, str) for key in args):
        raise RewardSpecError(f"args of reward {name!r} must be an object of named arguments, not {args!r:.80}")
    nested = NESTED.get(name, ())
    shaped = {key: canonical(value) if key in nested and _is_spec(value) else value for key, value in args.items()}
    return {"reward": name, "args": dict(sorted(shaped.items())), "weight": _weight(whole.get("weight", 1.0), name)}


def source_files(spec: Spec | str, root: Path | str = ".") -> list[Path]:
    """Return the user's file and everything it imports from its own folder, transitively; empty for our own rewards.

    Raises:
        RewardSpecError: The file is missing or does not parse.
    """
    whole = canonical(spec)
    if _is_user(whole["reward"]):
        return _user.files(whole["reward"], root)
    inner = (whole["args"].get(key) for key in NESTED.get(whole["reward"], ()))
    found = {path for entry in inner if _is_spec(entry) for path in source_files(entry, root)}
    return sorted(found)


def digest(specs: Sequence[Spec | str], root: Path | str = ".") -> dict[str, Any]:
    """Return what a set of rewards is made of, and one digest over it.

    Args:
        specs: The rewards, in order.
        root: The folder that user files are relative to; the digest does not depend on where it lies.

    Returns:
        `digest` ("sha256:..."), `files` (path relative to `root`: SHA-256), `specs` (canonical), and `library` (version
        and SHA-256 over this package). The digest changes with any byte of a reward file or of an imported helper, any
        argument, any weight, and any byte of this package.

    Raises:
        RewardSpecError: A spec is malformed, or a file is missing or does not parse.
    """
    whole = [canonical(spec) for spec in specs]
    base = Path(root).resolve()
    paths = {path for spec in whole for path in source_files(spec, root)}
    files = {Path(os.path.relpath(path, base)).as_posix(): _sources.file_hash(path) for path in sorted(paths)}
    library = {"version": rlvr_rewards.__version__, "sha256": _sources.library_hash()}
    parts = {"files": files, "specs": whole, "library": library}
    try:
        text = json.dumps(parts, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RewardSpecError(f"the arguments of a reward spec must be plain finite JSON values: {error}") from None
    return {"digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", **parts}


def reward_names() -> tuple[str, ...]:
    """Return the names of the rewards of this package."""
    return tuple(REGISTRY)


def _mapping(spec: Any) -> Mapping[Any, Any]:
    if isinstance(spec, str):
        if not spec.lstrip().startswith("{"):
            return {"reward": spec}
        try:
            spec = json.loads(spec)
        except ValueError as error:
            raise RewardSpecError(f"the reward spec is not valid JSON: {error}") from None
    if not isinstance(spec, Mapping):
        raise RewardSpecError(f"a reward spec is an object or a name, not {type(spec).__name__}")
    return spec


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        raise RewardSpecError(f"a reward spec needs 'reward': a name or 'file.py:function'; got {name!r}")
    known = ALIASES.get(name, name)
    if _is_user(known) or known in REGISTRY:
        return str(known)
    if name.endswith(".py"):
        raise RewardSpecError(f"reward {name!r} names a file; say which function of it, as '{name}:function'")
    raise RewardSpecError(
        f"unknown reward {name!r}{nearest(name, REGISTRY)}; rewards: {', '.join(REGISTRY)}, or 'file.py:function'"
    )


def _weight(weight: Any, name: str) -> float:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
        raise RewardSpecError(f"weight of reward {name!r} must be a finite number, not {weight!r}")
    return float(weight)


def _is_user(name: str) -> bool:
    return ".py:" in name


def _is_spec(value: Any) -> bool:
    return isinstance(value, Mapping | str)


def _reward_class(name: str) -> type[Reward]:
    module, attribute = REGISTRY[name]
    found: type[Reward] = getattr(importlib.import_module(f"rlvr_rewards.{module}"), attribute)
    return found


def _construct(name: str, kind: type[Reward], args: Mapping[str, Any], root: Path | str) -> Reward:
    known = [entry.name for entry in fields(kind) if entry.init]
    for key in args:
        if key not in known:
            raise RewardSpecError(
                f"reward {name!r} has no argument {key!r}{nearest(key, known)}; arguments: {', '.join(known)}"
            )
    nested = NESTED.get(name, ())
    values: dict[str, Any] = {
        key: build(value, root) if key in nested and _is_spec(value) else value for key, value in args.items()
    }
    try:
        return kind(**values)
    except TypeError as error:
        raise RewardSpecError(f"reward {name!r}: {error}") from error
