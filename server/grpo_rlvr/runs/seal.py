"""What binds a run folder to its launch: a keyed digest over the files that decide what is trained.

The key lies outside the workspace, in the user's own configuration folder. The seal tells an edited or copied run
folder from the one that was launched. It cannot stop a program with the user's own rights, which can read the key.
Standard library only: the training process checks the same seal before its first step.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path
from typing import Any

HOME_VARIABLE = "GRPO_RLVR_HOME"
# Written before the seal and never again.
SEALED = ("run.json", "spec.json", "gate.json", "phases.json", "accelerate.json")
CODE = "code"
# On another machine there is no key: the command of that machine carries the digest of the files instead.
MANIFEST_VARIABLE = "GRPO_RLVR_MANIFEST"


def key_folder() -> Path:
    """Return the folder of the user's keys: `GRPO_RLVR_HOME`, else under XDG_CONFIG_HOME or ~/.config."""
    stated = os.environ.get(HOME_VARIABLE)
    if stated:
        return Path(stated).expanduser()
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "grpo-rlvr"


def run_key() -> bytes:
    """Return the key of the seals, made on first use, readable by the user alone."""
    path = key_folder() / "run.key"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_hex(32).encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        pass
    return path.read_bytes()


def folder_manifest(folder: Path) -> str:
    """Return one SHA-256 over every file that decides what is trained, by path inside the run folder."""
    files = [folder / name for name in SEALED if (folder / name).is_file()]
    files += [path for path in sorted((folder / CODE).rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    hashes = {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return hashlib.sha256(json.dumps(hashes, sort_keys=True).encode("utf-8")).hexdigest()


def seal_folder(folder: Path) -> str:
    """Return the seal of a run folder as it is now."""
    return hmac.new(run_key(), folder_manifest(folder).encode("ascii"), hashlib.sha256).hexdigest()


def write_seal(folder: Path) -> None:
    """Seal a run folder; done once, when it is made."""
    (folder / "seal").write_text(seal_folder(folder) + "\n", encoding="ascii")


def is_sealed(folder: Path) -> bool:
    """Whether a run folder is still as it was sealed, by a server of this user."""
    try:
        stated = (folder / "seal").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return hmac.compare_digest(stated, seal_folder(folder))


def verify_folder(folder: Path, spec: dict[str, Any]) -> None:
    """Check the seal and the digest of the reward code, in the training process, before the first step.

    Raises:
        RuntimeError: The folder was edited, moved from elsewhere, or holds other reward code than was read.
    """
    stated = os.environ.get(MANIFEST_VARIABLE)
    if not (folder_manifest(folder) == stated if stated else is_sealed(folder)):
        raise RuntimeError(
            "the files of this run are not those that were launched (spec, code or gate record changed, or the folder "
            "comes from elsewhere); start a run through launch"
        )
    expected = spec.get("reward_digest")
    if expected:
        from rlvr_rewards import spec as reward_spec

        found = reward_spec.digest(spec["rewards"], folder / CODE / "user")["digest"]
        if found != expected:
            raise RuntimeError(f"the reward code has digest {found}, the launch was allowed for {expected}")
