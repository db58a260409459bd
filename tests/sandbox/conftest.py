"""Readers of the case files, and rewards of every protection level that this machine can have."""

import contextlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data" / "sandbox"


@dataclass(frozen=True)
class StyleCase:
    """One way to write tests, with a program that must be paid and one that must not."""

    name: str
    style: str
    tests: str
    right: str
    wrong: str
    options: dict[str, Any] = field(default_factory=dict)


def read_style_cases(path: Path) -> Iterator[StyleCase]:
    """Parse a file of cases: `=== name | style | key=value`, then `--- right`, `--- tests`, `--- wrong`."""
    for block in path.read_text(encoding="utf-8").split("\n=== ")[1:]:
        head, _, rest = block.partition("\n")
        name, style, *options = [part.strip() for part in head.split(" | ")]
        parts = {}
        for section in ("\n" + rest).split("\n--- ")[1:]:
            label, _, text = section.partition("\n")
            parts[label.strip()] = text.strip("\n") + "\n"
        found = dict(option.split("=", 1) for option in options)
        values = {key: json.loads(value) if value[0] in "{[tf0123456789" and key != "entry_point" else value
                  for key, value in found.items()}  # fmt: skip
        yield StyleCase(name, style, parts["tests"], parts["right"], parts["wrong"], values)


STYLE_CASES = tuple(read_style_cases(DATA / "styles.txt"))


@pytest.fixture
def style_cases() -> tuple[StyleCase, ...]:
    """All ways to write tests."""
    return STYLE_CASES


def read_programs(path: Path) -> dict[str, str]:
    """Parse a file of programs: `=== name`, then the text."""
    blocks = path.read_text(encoding="utf-8").split("\n=== ")[1:]
    return {name.strip(): text for name, _, text in (block.partition("\n") for block in blocks)}


ORDINARY_UID = 64_999


@dataclass(frozen=True)
class User:
    """Who runs the workers: an interpreter, and what `subprocess` needs to become that user."""

    name: str
    interpreter: str
    identity: dict[str, Any] = field(default_factory=dict)


OTHER = {"user": ORDINARY_UID, "group": ORDINARY_UID, "extra_groups": []}


def _runs_as_other(interpreter: str) -> bool:
    command = [interpreter, "-c", "import sys; raise SystemExit(sys.version_info < (3, 11))"]
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False, cwd="/", **OTHER).returncode == 0
    return False


def users() -> list[User]:
    """Return the users that the attacks are run as: this one, and for root an ordinary one too."""
    if os.geteuid() != 0:
        return [User("ordinary", sys.executable)]
    found = [User("root", sys.executable)]
    for name in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
        if len(found) == 1 and _runs_as_other(name):
            found.append(User("ordinary", name, OTHER))
    return found


@pytest.fixture(scope="session")
def library() -> Iterator[Path]:
    """A copy of the reward library that every user can read."""
    source = Path(importlib.import_module("rlvr_rewards").__file__ or "").parent
    folder = Path(tempfile.mkdtemp(prefix="rlvr-library-"))
    folder.chmod(0o755)
    shutil.copytree(source, folder / "rlvr_rewards", ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.copy(Path(__file__).with_name("attack_driver.py"), folder / "attack_driver.py")
    (folder / "attack_driver.py").chmod(0o644)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def drive(library: Path) -> Any:
    """Runs programs as a user in a level, through a process of their own."""

    def run(user: User, level: str, programs: dict[str, str], **order: Any) -> dict[str, Any]:
        text = json.dumps({"library": str(library), "level": level, "programs": list(programs.items()), "walls": {},
                           **order})  # fmt: skip
        done = subprocess.run([user.interpreter, "-B", str(library / "attack_driver.py")], input=text, cwd="/",
                              capture_output=True, encoding="utf-8", timeout=110, check=False, **user.identity,
                              env={"PATH": os.environ["PATH"]})  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return run


LEVELS_HERE = ("bwrap+landlock+seccomp", "bwrap+seccomp", "landlock+seccomp")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test for every user and every level that can be had here."""
    if "user" in metafunc.fixturenames:
        metafunc.parametrize("user", users(), ids=lambda user: user.name)
    if "level" in metafunc.fixturenames:
        with_bwrap = shutil.which("bwrap") is not None
        found = [level for level in LEVELS_HERE if with_bwrap or not level.startswith("bwrap")]
        metafunc.parametrize("level", found)
    if "style_case" in metafunc.fixturenames:
        metafunc.parametrize("style_case", STYLE_CASES, ids=lambda case: case.name)


@pytest.fixture(scope="session")
def attackers() -> tuple[str, ...]:
    """The users that the attacks were run as."""
    return tuple(user.name for user in users())
