"""The built wheel and sdist: what they hold, and that a clean environment can use them."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built from the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True, timeout=300)
    return folder


def test_the_wheel_holds_every_module_and_data_file_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    expected = {
        name.partition("/")[2] for name in tracked if name.startswith(("server/grpo_rlvr/", "rewards/rlvr_rewards/"))
    }
    expected |= {f"grpo_rlvr/skill/{name}" for name in tracked if name == "SKILL.md" or name.startswith("references/")}
    assert names == expected


def test_the_sdist_has_what_a_build_needs(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "SKILL.md",
        "LICENSE",
        "server/grpo_rlvr/app.py",
        "scripts/lib/hatch_build.py",
    } <= names


def test_a_bare_environment_imports_the_rewards_and_says_what_the_server_needs(built: Path, tmp_path: Path) -> None:
    environment = tmp_path / "bare"
    venv.create(environment, with_pip=True)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(next(built.glob("*.whl")))]
    subprocess.run(install, check=True, timeout=300)
    code = "import rlvr_rewards as r; print(r.Exact()(completions=['<answer>4</answer>'], gold=['4']))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[1.0]"
    missing = subprocess.run(
        [python, "-m", "grpo_rlvr", "doctor"], capture_output=True, text=True, check=False, timeout=60
    )
    assert missing.returncode == 2 and "[server]" in missing.stderr
    bundled = "from grpo_rlvr.skillfiles import skill_files; print(len(skill_files()))"
    pages = subprocess.run([python, "-c", bundled], capture_output=True, text=True, check=True, timeout=60)
    assert int(pages.stdout) > 10
