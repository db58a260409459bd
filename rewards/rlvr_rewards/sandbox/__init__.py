"""Runs model-written programs behind a boundary and grades them from outside. Linux only; standard library only.

    from rlvr_rewards.sandbox import doctor
    print(doctor())

The boundary is a child process that has given up everything before the program starts (limits, capabilities, files,
system calls), inside bubblewrap where that works. Verdicts are formed in other processes: what a test expects never
enters the one that runs the program. Where no boundary works, nothing is run and `SandboxUnavailable` says what to do.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rlvr_rewards.sandbox._errors import SandboxUnavailable

if TYPE_CHECKING:
    from rlvr_rewards.sandbox._launch import LEVELS
    from rlvr_rewards.sandbox._pool import close_all
    from rlvr_rewards.sandbox._probe import required

__all__ = ["LEVELS", "SandboxUnavailable", "close_all", "doctor", "required"]

_HOME = {"LEVELS": "_launch", "close_all": "_pool", "required": "_probe"}


def doctor() -> dict[str, Any]:
    """Return what protection this machine offers: `level` (or None), `facts`, `tried`, `advice`."""
    from rlvr_rewards.sandbox import _probe

    return _probe.protection().as_dict()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
