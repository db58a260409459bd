"""The keyed digest of records, and the key outside the workspace.

What it protects against: a record edited by hand, by a tool, or by an agent that has no access to the key; verdicts
removed or reordered; a record carried over from another machine. What it does not protect against: a process that runs
as the same user and reads the key file, or one that answers the reading page in the person's place.
"""

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError

HOME_VARIABLE = "GRPO_RLVR_HOME"
KEY_FILE = "record.key"
KEY_BYTES = 32
MAC = "mac"


def home() -> Path:
    """Return the folder of what belongs to the user and to no workspace."""
    stated = os.environ.get(HOME_VARIABLE)
    if stated:
        return Path(stated).expanduser()
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "grpo-rlvr"


def key() -> bytes:
    """Return this user's key, made on first use with access for the user alone.

    Raises:
        InputError: the key cannot be written or read, or is damaged.
    """
    path = home() / KEY_FILE
    remedy = f"Make {path.parent} writable, or set {HOME_VARIABLE} to a folder outside every workspace."
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _make(path)
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot use the key of the records: {error}", where=str(path), remedy=remedy) from None
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != KEY_BYTES:
        raise InputError(
            "the key of the records is damaged", where=str(path), remedy="Remove it: earlier readings become void."
        )
    return value


def _make(path: Path) -> None:
    # Written whole under another name and linked: of two processes that come first at once, one wins for both.
    temporary = path.with_name(f".{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)


def key_id() -> str:
    """Return a name of the key that does not give it away."""
    return hashlib.sha256(b"grpo-rlvr key id" + key()).hexdigest()[:12]


def mac(value: Mapping[str, Any]) -> str:
    """Return the keyed digest of an object, leaving out its own `mac`."""
    plain = {name: entry for name, entry in value.items() if name != MAC}
    text = json.dumps(plain, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hmac.new(key(), text.encode("utf-8"), hashlib.sha256).hexdigest()


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with its keyed digest."""
    return {**value, MAC: mac(value)}


def intact(value: Mapping[str, Any]) -> bool:
    """Say whether an object still has the keyed digest of its content."""
    stated = value.get(MAC)
    return isinstance(stated, str) and hmac.compare_digest(stated, mac(value))
