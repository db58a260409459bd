"""Finding a model's config.json: stated in the setup, in a folder, in the hub cache, or on the hub."""

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory import known
from grpo_rlvr.workspace import Workspace

CONFIG_FILE = "config.json"
# Published config files have 1 to 30 kB.
MAX_CONFIG_BYTES = 2_000_000
HUB_TIMEOUT_S = 4.0
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*")


@dataclass(frozen=True)
class FoundConfig:
    """A parsed config.json and where it came from."""

    config: Mapping[str, Any]
    source: str
    label: str


def find_config(model: Mapping[str, Any], name: str, workspace: Workspace | None) -> FoundConfig | None:
    """Return the model's config.json, None when no source has it.

    Raises:
        InputError: a stated config or path that cannot be used. NotFoundError: a stated path that does not exist.
    """
    stated = model.get("config")
    if isinstance(stated, Mapping):
        return FoundConfig(stated, "model.config of the setup", name or "stated config")
    where = workspace or Workspace(Path.cwd(), confined=True)
    for key in ("config", "path"):
        value = model.get(key)
        if value is not None:
            if not isinstance(value, str):
                raise InputError(f"must be a path, got {type(value).__name__}", where=f"setup.model.{key}")
            return _read_stated(value, f"setup.model.{key}", where)
    if not name:
        return None
    return _local(name, where) or _cached(name) or _hub(name)


def find_local_config(name: str, workspace: Workspace | None = None) -> Mapping[str, Any] | None:
    """Return the config.json of a model folder or of the hub cache, None when neither has it; asks no network.

    Raises:
        InputError: a config.json that is no JSON object.
    """
    found = _local(name, workspace or Workspace(Path.cwd(), confined=True)) or _cached(name)
    return found.config if found else None


def _read_stated(value: str, argument: str, workspace: Workspace) -> FoundConfig:
    path = workspace.resolve(value, argument)
    path = workspace.folder(value, argument) / CONFIG_FILE if path.is_dir() else workspace.file(value, argument)
    if not path.is_file():
        raise InputError(f"'{value}' has no {CONFIG_FILE}", where=argument, remedy="Name a model folder or its config.")
    return FoundConfig(
        _parse(workspace.read_text(path, argument, max_bytes=MAX_CONFIG_BYTES), argument), str(path), path.parent.name
    )


def _local(name: str, workspace: Workspace) -> FoundConfig | None:
    try:
        folder = workspace.resolve(name, "setup.model.name")
    except InputError:
        return None
    path = folder / CONFIG_FILE
    if not path.is_file():
        return None
    text = workspace.read_text(path, "setup.model.name", max_bytes=MAX_CONFIG_BYTES)
    return FoundConfig(_parse(text, str(path)), str(path), folder.name)


def _cached(name: str) -> FoundConfig | None:
    if not _HUB_NAME.fullmatch(name):
        return None
    root = os.environ.get("HF_HUB_CACHE")
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    cache = Path(root) if root else Path(home).expanduser() / "hub"
    snapshots = cache / f"models--{name.replace('/', '--')}" / "snapshots"
    try:
        files = sorted(snapshots.glob(f"*/{CONFIG_FILE}"), key=lambda path: path.stat().st_mtime)
    except OSError:
        return None
    if not files or files[-1].stat().st_size > MAX_CONFIG_BYTES:
        return None
    return FoundConfig(_parse(files[-1].read_text(encoding="utf-8"), str(files[-1])), f"hub cache, {files[-1]}", name)


def _hub(name: str) -> FoundConfig | None:
    # A model in the table needs no network, and offline mode is respected.
    offline = any(
        os.environ.get(key, "").lower() in ("1", "true", "yes", "on")
        for key in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )
    if offline or known.find(name) is not None or not _HUB_NAME.fullmatch(name):
        return None
    text = _fetch(name)
    return FoundConfig(_parse(text, f"config.json of {name} on the hub"), "the hub", name) if text else None


def _fetch(name: str) -> str:
    # A failure is not remembered: the network may come back.
    try:
        return _download(name)
    except (urllib.error.URLError, OSError, ValueError):
        return ""


@lru_cache(maxsize=64)
def _download(name: str) -> str:
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    if not endpoint.startswith(("https://", "http://")):
        raise ValueError(f"no web address: {endpoint}")
    request = urllib.request.Request(f"{endpoint}/{name}/resolve/main/{CONFIG_FILE}")
    token = os.environ.get("HF_TOKEN")
    if token and endpoint.startswith("https://"):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=HUB_TIMEOUT_S) as answer:
        return str(answer.read(MAX_CONFIG_BYTES).decode("utf-8"))


def _parse(text: str, where: str) -> Mapping[str, Any]:
    try:
        config = json.loads(text)
    except ValueError as error:
        raise InputError(f"not JSON ({error})", where=where, remedy="Give the model's config.json.") from None
    if not isinstance(config, dict):
        raise InputError(f"must be an object, got {type(config).__name__}", where=where)
    return config
