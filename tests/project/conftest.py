"""Tests that need programs which a machine may lack are left out there, with a note of what is missing."""

import shutil
import sys
import warnings
from pathlib import Path

import pytest


def program(name: str) -> str | None:
    """Return the path of a program, on the PATH or beside this Python."""
    beside = Path(sys.executable).parent / name
    return shutil.which(name) or (str(beside) if beside.is_file() else None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of modules whose NEEDS are not all there."""
    left_out: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        needs = getattr(getattr(item, "module", None), "NEEDS", ())
        missing = " and ".join(name for name in needs if program(name) is None)
        if missing:
            left_out.setdefault((item.path.name, missing), []).append(item)
    gone = [item for group in left_out.values() for item in group]
    if not gone:
        return
    config.hook.pytest_deselected(items=gone)
    items[:] = [item for item in items if item not in gone]
    for (module, missing), group in left_out.items():
        warnings.warn(
            pytest.PytestWarning(f"{module}: {len(group)} tests NOT RUN, this machine has no {missing}"), stacklevel=1
        )
