"""pyright finds nothing; it is a Node program."""

import subprocess
import sys
from pathlib import Path

import pytest

NEEDS = ("node",)
pytestmark = pytest.mark.slow


def test_pyright_finds_nothing() -> None:
    # Named, since pyright otherwise judges with the packages of whichever python comes first on PATH.
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
