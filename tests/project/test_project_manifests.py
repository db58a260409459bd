"""The manifests of the clients: valid JSON that agrees on name, version and command."""

import functools
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import grpo_rlvr
import rlvr_rewards

ROOT = Path(__file__).parents[2]
MANIFESTS = (
    "plugin.json",
    "mcp.json",
    ".mcp.json",
    "server.json",
    ".claude-plugin/plugin.json",
    ".claude-plugin/marketplace.json",
    "gemini-extension.json",
)
NAME = "grpo-rlvr-training"


def read(name: str) -> dict[str, Any]:
    """A manifest as an object."""
    return dict(json.loads((ROOT / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "name", ["plugin.json", ".claude-plugin/plugin.json", ".claude-plugin/marketplace.json", "gemini-extension.json"]
)
def test_the_plugin_has_one_name(name: str) -> None:
    assert read(name)["name"] == NAME
    assert re.search(rf"^name: {NAME}$", (ROOT / "SKILL.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_version_is_the_packages() -> None:
    versions = [
        read("plugin.json")["version"],
        read(".claude-plugin/plugin.json")["version"],
        read("server.json")["version"],
        read("gemini-extension.json")["version"],
    ]
    versions += [package["version"] for package in read("server.json")["packages"]]
    assert set(versions) == {grpo_rlvr.__version__} == {rlvr_rewards.__version__}


def test_descriptions_agree_and_fit_their_limits() -> None:
    entry = read(".claude-plugin/marketplace.json")["plugins"][0]
    assert (
        read("plugin.json")["description"]
        == read(".claude-plugin/plugin.json")["description"]
        == read("gemini-extension.json")["description"]
        == entry["description"]
    )
    assert len(read("server.json")["description"]) <= 100


def test_the_server_files_start_the_same_command() -> None:
    commands = []
    places = {
        ".mcp.json": "${CLAUDE_PLUGIN_ROOT}", "mcp.json": "${PLUGIN_ROOT}", "gemini-extension.json": "${extensionPath}"
    }  # fmt: skip
    for name, variable in places.items():
        server = read(name)["mcpServers"]["grpo-rlvr"]
        assert server.get("type", "stdio") == "stdio"
        assert sum(variable in part for part in server["args"]) == 1
        commands.append([server["command"], *(part.replace(variable, "ROOT") for part in server["args"])])
    assert commands[0] == commands[1] == commands[2]
    # Each flag keeps the user's own project and settings out of the start: see CONTRIBUTING.md.
    assert {"--no-project", "--no-config"} <= set(commands[0])
    assert commands[0][-2:] == ["ROOT/scripts/lib/start.py", "serve"]
    assert (ROOT / "scripts/lib/start.py").is_file()


def test_the_agent_plugin_schemas_have_one_version() -> None:
    schemas = [read(name)["$schema"] for name in ("plugin.json", "mcp.json")]
    assert len({re.search(r"/schemas/([\d.]+)/", schema).group(1) for schema in schemas}) == 1  # type: ignore[union-attr]


def test_every_extra_that_a_manifest_names_exists() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in (*MANIFESTS, "scripts/lib/start.py"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for extras in re.findall(r"(?:\[|^EXTRAS = \")([a-z,]+)(?:\]==|\]\"|\"$)", text, re.MULTILINE):
            for extra in extras.split(","):
                assert re.search(rf"^{extra} = \[", project, re.MULTILINE), f"{name} names the extra {extra}"


def test_the_readme_claims_the_name_that_the_registry_manifest_has() -> None:
    name = read("server.json")["name"]
    assert f"mcp-name: {name} " in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built bundle."""
    out = tmp_path_factory.mktemp("bundle")
    subprocess.run([sys.executable, str(ROOT / "scripts/lib/bundle.py"), str(out)], check=True, timeout=120)
    return out


def test_the_bundled_plugin_holds_the_skill_the_server_and_one_manifest_a_client(bundle: Path) -> None:
    plugin = bundle / "plugins" / NAME
    assert (plugin / "skills" / NAME / "SKILL.md").read_bytes() == (ROOT / "SKILL.md").read_bytes()
    assert len(list((plugin / "skills" / NAME / "references").rglob("*.md"))) > 10
    for name in (
        "plugin.json",
        ".claude-plugin/plugin.json",
        ".cursor-plugin/plugin.json",
        ".codex-plugin/plugin.json",
    ):
        manifest = json.loads((plugin / name).read_text(encoding="utf-8"))
        assert (manifest["name"], manifest["version"]) == (NAME, grpo_rlvr.__version__)
    assert not list(plugin.rglob("__pycache__")) and not (plugin / "tests").exists()
    for market in (".agents/plugins/marketplace.json", ".cursor-plugin/marketplace.json"):
        source = json.loads((bundle / market).read_text(encoding="utf-8"))["plugins"][0]["source"]
        assert (bundle / (source["path"] if isinstance(source, dict) else source)).resolve() == plugin.resolve()


def test_a_server_inside_the_plugin_finds_its_skill_and_refuses_to_work_there(bundle: Path) -> None:
    plugin = bundle / "plugins" / NAME
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(plugin / part) for part in ("server", "rewards"))}
    code = "from grpo_rlvr.skillfiles import skill_files; print(len(skill_files()))"
    run = functools.partial(
        subprocess.run, cwd=plugin, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert int(run([sys.executable, "-c", code]).stdout) > 10
    served = run([sys.executable, "-m", "grpo_rlvr", "serve"], stdin=subprocess.DEVNULL)
    assert served.returncode == 2 and "--root" in served.stderr


def test_the_desktop_file_holds_no_dates_and_one_order_of_files(bundle: Path) -> None:
    with zipfile.ZipFile(bundle / f"{NAME}.mcpb") as packed:
        entries = packed.infolist()
    assert len({entry.date_time for entry in entries}) == 1
    names = [entry.filename for entry in entries]
    assert names == sorted(names) and {"manifest.json", "pyproject.toml", "SKILL.md"} <= set(names)
