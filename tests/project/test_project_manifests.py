"""The manifests of the clients: valid JSON that agrees on name, version and command."""

import json
import re
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
)
NAME = "grpo-rlvr-training"


def read(name: str) -> dict[str, Any]:
    """A manifest as an object."""
    return dict(json.loads((ROOT / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ["plugin.json", ".claude-plugin/plugin.json", ".claude-plugin/marketplace.json"])
def test_the_plugin_has_one_name(name: str) -> None:
    assert read(name)["name"] == NAME
    assert re.search(rf"^name: {NAME}$", (ROOT / "SKILL.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_version_is_the_packages() -> None:
    versions = [
        read("plugin.json")["version"],
        read(".claude-plugin/plugin.json")["version"],
        read("server.json")["version"],
    ]
    versions += [package["version"] for package in read("server.json")["packages"]]
    assert set(versions) == {grpo_rlvr.__version__} == {rlvr_rewards.__version__}


def test_descriptions_agree_and_fit_their_limits() -> None:
    entry = read(".claude-plugin/marketplace.json")["plugins"][0]
    assert (
        read("plugin.json")["description"] == read(".claude-plugin/plugin.json")["description"] == entry["description"]
    )
    assert len(read("server.json")["description"]) <= 100


def test_the_two_server_files_start_the_same_command() -> None:
    commands = []
    for name, variable in ((".mcp.json", "${CLAUDE_PLUGIN_ROOT}"), ("mcp.json", "${PLUGIN_ROOT}")):
        server = read(name)["mcpServers"]["grpo-rlvr"]
        assert server["type"] == "stdio"
        assert sum(variable in part for part in server["args"]) == 1
        commands.append([server["command"], *(part.replace(variable, "ROOT") for part in server["args"])])
    assert commands[0] == commands[1]
    # Each flag keeps the user's own environment and settings out of the server: see CONTRIBUTING.md.
    assert {"--isolated", "--no-project", "--no-config"} <= set(commands[0])
    assert commands[0][-2:] == ["grpo-rlvr", "serve"]


def test_the_agent_plugin_schemas_have_one_version() -> None:
    schemas = [read(name)["$schema"] for name in ("plugin.json", "mcp.json")]
    assert len({re.search(r"/schemas/([\d.]+)/", schema).group(1) for schema in schemas}) == 1  # type: ignore[union-attr]


def test_every_extra_that_a_manifest_names_exists() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in MANIFESTS:
        for extras in re.findall(r"\[([a-z,]+)\](?:==|\")", (ROOT / name).read_text(encoding="utf-8")):
            for extra in extras.split(","):
                assert re.search(rf"^{extra} = \[", project, re.MULTILINE), f"{name} names the extra {extra}"
