"""The protocol's own conformance suites and inspector, from the npm registry, on the server as clients start it."""

import importlib.util
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow
# conftest.py leaves these tests out, with a note, where one of them is missing.
NEEDS = ("node", "npm")
HERE = Path(__file__).parent
EXPECTED = HERE.parent / "data" / "conformance"
SUITES = {
    "2026-07-28": ("0.2.0-alpha.12", ["--suite", "all", "--spec-version", "2026-07-28"]),
    "legacy": ("0.1.16", ["--suite", "all"]),
}
# Not part of a revision's own suite, but what this server offers.
EXTENSIONS = ("sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory")
# Scenarios that any server must pass: if they are not even run, the suite has changed under us.
BASICS = {
    "2026-07-28": {
        "tools-list", "resources-list", "prompts-list", "completion-complete", "caching", "http-header-validation",
        "sep-2164-resource-not-found", "dns-rebinding-protection", "server-sse-multiple-streams",
    },
    "legacy": {
        "server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "completion-complete",
        "dns-rebinding-protection", "server-sse-multiple-streams",
    },
}  # fmt: skip
INSPECTOR = "2.12.0"
_spec = importlib.util.spec_from_file_location("npm_tools", HERE / "npm_tools.py")
assert _spec and _spec.loader
npm_tools = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(npm_tools)


@pytest.fixture(scope="module")
def node() -> str:
    """A Node that is new enough."""
    return str(npm_tools.node())


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server over loopback HTTP."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [*npm_tools.server_command(tmp_path_factory.mktemp("workspace")), "--http", "--port", str(port)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait(timeout=90)


def conformance(node: str, version: str, *arguments: str) -> str:
    """Run the suite. Returns what it printed, without colours."""
    package = "@modelcontextprotocol/conformance"
    script = npm_tools.installed(package, version) / package / "dist" / "index.js"
    done = subprocess.run(
        [node, str(script), "server", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    return re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr)


@pytest.mark.parametrize("era", sorted(SUITES))
def test_the_server_passes_every_scenario_that_is_not_listed_with_a_reason(node: str, address: str, era: str) -> None:
    version, options = SUITES[era]
    said = conformance(node, version, "--url", address, *options)
    marks = {name: mark for mark, name in re.findall(r"^([✓✗]) ([\w-]+): \d+ passed", said, re.MULTILINE)}
    expected = set(yaml.safe_load((EXPECTED / f"{era}.yml").read_text(encoding="utf-8"))["server"])
    failed = {name for name, mark in marks.items() if mark == "✗"}
    assert failed - expected == set(), said[-6000:]
    assert expected - failed == set(), "these pass now: take them off the list"
    assert BASICS[era] <= marks.keys() - failed


@pytest.mark.parametrize("scenario", EXTENSIONS)
def test_the_skills_extension_conforms_without_a_warning(node: str, address: str, scenario: str) -> None:
    said = conformance(node, SUITES["2026-07-28"][0], "--url", address, "--scenario", scenario)
    result = re.search(r"Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings", said)
    assert result and result.group(1) == result.group(2) != "0", said[-3000:]
    assert result.group(3) == result.group(4) == "0", said[-3000:]


def inspect(node: str, root: Path, era: str, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Ask the inspector about the server on stdio. Returns exit code, answer, standard error."""
    package = "@modelcontextprotocol/inspector"
    folder = npm_tools.installed(package, INSPECTOR) / package
    script = folder / json.loads((folder / "package.json").read_text(encoding="utf-8"))["bin"]["mcp-inspector"]
    command = [node, str(script), "--cli", "--protocol-era", era, "--format", "json", *npm_tools.server_command(root)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, json.loads(lines[-1]) if lines else {}, done.stderr


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_finds_every_tool_schema_portable(node: str, tmp_path: Path, era: str) -> None:
    code, answer, complaints = inspect(node, tmp_path, era, "--method", "tools/list", "--strict")
    assert code == 0, complaints
    assert len(answer["result"]["tools"]) >= 14
    assert not re.search(r"(?i)\b(error|warning)\b", complaints), complaints


def test_the_inspector_verifies_the_skill_and_its_files(node: str, tmp_path: Path) -> None:
    code, answer, complaints = inspect(node, tmp_path, "modern", "--method", "skills/list", "--verify")
    assert code == 0, complaints
    assert {file["status"] for file in answer["files"]} == {"verified"} and len(answer["files"]) > 10
