"""Lint, format and types hold: what scripts/check runs, as tests. And no folder of tests is left out of a run."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def run(*arguments: str) -> str:
    """Run a module on the checkout; returns what it printed when it found something, else nothing."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-4000:]


def test_ruff_finds_nothing() -> None:
    assert run("ruff", "check", ".") == ""


def test_every_file_is_formatted() -> None:
    assert run("ruff", "format", "--check", ".") == ""


def test_mypy_strict_finds_nothing() -> None:
    assert run("mypy") == ""


def test_every_folder_of_tests_is_run() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = settings["tool"]["pytest"]["ini_options"]["testpaths"]
    assert sorted(listed) == sorted({str(file.parent.relative_to(ROOT)) for file in ROOT.glob("tests/**/test_*.py")})
