"""The bundle as real clients take it: their own command lines install it and start the server. No account is needed."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
# conftest.py leaves these tests out, with a note, where one of them is missing.
NEEDS = ("node", "npm", "uv")
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAME = "grpo-rlvr-training"
# The command of the manifests, up to the script.
ONCE = ("run", "--no-project", "--no-config", "--python", ">=3.11")
CLAUDE = ("@anthropic-ai/claude-code", "2.1.197")
CODEX = ("@openai/codex", "0.171.0")
GEMINI = ("@google/gemini-cli", "0.61.0")
MCPB = ("@anthropic-ai/mcpb", "2.1.2")


def load(path: Path) -> Any:
    """A module from a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


npm_tools = load(HERE / "npm_tools.py")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built bundle, in a path with a space."""
    out = tmp_path_factory.mktemp("bundle") / "my bundle"
    subprocess.run([sys.executable, ROOT / "scripts/lib/bundle.py", str(out)], check=True, timeout=120)
    return out


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files under version control: what a clone holds. Clients copy whole folders, virtual environments too."""
    out = tmp_path_factory.mktemp("checkout") / NAME
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, out / name)
    return out


@pytest.fixture
def home() -> Any:
    """A home folder of its own; some clients refuse one under the temporary folder."""
    folder = npm_tools.cache() / f"home-{os.getpid()}"
    (folder / "project").mkdir(parents=True)
    (folder / ".codex").mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def client(package: tuple[str, str], binary: str, home: Path) -> Any:
    """A function that runs a client's command line in that home and returns what it printed."""
    command = npm_tools.installed(*package) / ".bin" / binary
    uv = load(HERE / "conftest.py").program("uv")
    # uv keeps its downloads where the user's uv keeps them, so that a second run is quick.
    cache = subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    environment = {
        **os.environ, "HOME": str(home), "PATH": f"{Path(uv).parent}{os.pathsep}{os.environ['PATH']}",
        "UV_CACHE_DIR": cache, "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }  # fmt: skip
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        environment.pop(name, None)

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [command, *arguments], cwd=home / "project", env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        said = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)
        assert done.returncode == 0, said[-3000:]
        return said

    return run


def test_claude_code_installs_the_plugin_from_a_checkout_and_connects(home: Path, checkout: Path) -> None:
    run = client(CLAUDE, "claude", home)
    assert "Validation passed" in run("plugin", "validate", str(checkout))
    run("plugin", "marketplace", "add", str(checkout))
    run("plugin", "install", f"{NAME}@{NAME}")
    assert "enabled" in run("plugin", "list")
    details = run("plugin", "details", NAME)
    assert "Skills (1)" in details and "MCP servers (1)" in details
    assert re.search(r"plugin:grpo-rlvr-training:grpo-rlvr: .*Connected", run("mcp", "list"))


def test_codex_installs_the_plugin_from_the_bundle(home: Path, bundle: Path) -> None:
    run = client(CODEX, "codex", home)
    run("plugin", "marketplace", "add", str(bundle))
    run("plugin", "add", f"{NAME}@{NAME}")
    assert [plugin["enabled"] for plugin in json.loads(_json(run("plugin", "list", "--json")))["installed"]] == [True]
    run("mcp", "add", "grpo-rlvr", "--", "grpo-rlvr", "serve")
    # The user's own entry wins over the plugin's, which Codex would start in the plugin's folder.
    listed = json.loads(_json(run("mcp", "list", "--json")))
    assert [server["transport"]["args"] for server in listed if server["name"] == "grpo-rlvr"] == [["serve"]]


def _json(said: str) -> str:
    return said[min(said.find(mark) for mark in "[{" if mark in said) :]


def test_gemini_installs_the_extension_and_connects(home: Path, checkout: Path) -> None:
    run = client(GEMINI, "gemini", home)
    (home / ".gemini").mkdir()
    trusted = {str(folder): "TRUST_FOLDER" for folder in (checkout, home / "project")}
    (home / ".gemini/trustedFolders.json").write_text(json.dumps(trusted), encoding="utf-8")
    assert "installed successfully and enabled" in run("extensions", "install", str(checkout), "--consent")
    # Gemini waits a few seconds for a server and keeps the settings of a proxy's certificates from it, so the first
    # start is made by hand here, as the README says.
    start = home / ".gemini/extensions" / NAME / "scripts/lib/start.py"
    caches = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    assert opened([*ONCE, str(start), "serve"], home / "project", **caches) == "grpo-rlvr"
    assert re.search(r"grpo-rlvr \(from grpo-rlvr-training\).*Connected", run("mcp", "list"))


def test_a_plugin_starts_without_a_network_after_its_first_start(bundle: Path, tmp_path: Path) -> None:
    start = bundle / "plugins" / NAME / "scripts/lib/start.py"
    caches = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    environments = tmp_path / "cache/grpo-rlvr/environments"
    for days in (20, 40):
        (environments / f"unused for {days} days").mkdir(parents=True)
        ready = environments / f"unused for {days} days" / "ready"
        ready.touch()
        os.utime(ready, (time.time() - days * 86_400,) * 2)
    assert opened([*ONCE, str(start), "serve"], tmp_path, **caches) == "grpo-rlvr"
    assert sorted(folder.name for folder in environments.glob("unused*")) == ["unused for 20 days"]
    nowhere = {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "empty")}
    assert opened([*ONCE, str(start), "serve"], tmp_path, **caches, **nowhere) == "grpo-rlvr"


def test_the_desktop_file_is_valid_and_its_command_starts_the_server(bundle: Path, home: Path, tmp_path: Path) -> None:
    stage = tmp_path / "installed here"
    with zipfile.ZipFile(bundle / f"{NAME}.mcpb") as packed:
        packed.extractall(stage)
    run = client(MCPB, "mcpb", home)
    assert "validation passes" in run("validate", str(stage / "manifest.json"))
    server = json.loads((stage / "manifest.json").read_text(encoding="utf-8"))["server"]["mcp_config"]
    values = {"${__dirname}": str(stage), "${user_config.workspace}": str(tmp_path)}
    arguments = [_filled(part, values) for part in server["args"]]
    assert server["command"] == "uv" and opened(arguments, tmp_path) == "grpo-rlvr"


def test_the_built_wheel_starts_in_a_clean_environment_without_torch(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)], cwd=ROOT, check=True, timeout=300)
    wheel = next(tmp_path.glob("*.whl"))
    once = ["tool", "run", "--isolated", "--no-config", "--from", f"{wheel}[server]"]
    assert opened([*once, "grpo-rlvr", "serve", "--root", str(tmp_path)], tmp_path) == "grpo-rlvr"
    code = "import importlib.util as u; print([n for n in ('torch', 'trl', 'transformers') if u.find_spec(n)])"
    uv = load(HERE / "conftest.py").program("uv")
    done = subprocess.run([uv, *once, "python", "-c", code], capture_output=True, text=True, timeout=180, check=False)
    assert done.stdout.strip() == "[]", done.stderr[-2000:]


def opened(arguments: list[str], folder: Path, **environment: str) -> str:
    """Start a server by uv, introduce a client, and return the name that the server gives."""
    uv = load(HERE / "conftest.py").program("uv")
    opening = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    done = subprocess.run(
        [uv, *arguments], input=json.dumps(opening) + "\n", cwd=folder,
        env={**os.environ, "GRPO_RLVR_PYTHON": "", **environment},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr[-2000:]
    return str(json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"])


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text
