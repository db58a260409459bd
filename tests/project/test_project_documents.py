"""The documents: links lead somewhere, the skill is valid, versions agree, generated pages are fresh."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import grpo_rlvr
from grpo_rlvr.config import check, known_versions
from grpo_rlvr.models.setup import parse_setup
from grpo_rlvr.tools import TOOLS

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MARKDOWN = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("references/**/*.md"), *ROOT.glob("examples/**/*.md")]
    if ".venv" not in path.parts
)
SKILL = (ROOT / "SKILL.md").read_text(encoding="utf-8")


def anchors(path: Path) -> set[str]:
    """The anchors of a Markdown page, as the usual renderers make them from its headings."""
    text = path.read_text(encoding="utf-8")
    found = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        page = (path.parent / file).resolve() if file else path
        assert page.exists(), f"{path.name} links to {target}"
        if anchor and page.suffix == ".md":
            assert anchor in anchors(page), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_named_file_of_the_project_exists(path: Path) -> None:
    for name in re.findall(
        r"`((?:references|scripts|examples|benchmarks|tests|server|rewards)/[\w./-]+)`",
        path.read_text(encoding="utf-8"),
    ):
        assert (ROOT / name).exists(), f"{path.name} names {name}"


def test_the_skill_is_valid_and_small(tmp_path: Path) -> None:
    assert len(SKILL.encode()) <= 8000
    description = re.search(r"^description: (.+)$", SKILL, re.MULTILINE)
    assert description and len(description.group(1)) <= 300
    folder = tmp_path / "grpo-rlvr-training"
    folder.mkdir()
    (folder / "SKILL.md").write_text(SKILL, encoding="utf-8")
    tool = Path(sys.executable).parent / "agentskills"
    done = subprocess.run([tool, "validate", str(folder)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_skill_names_only_tools_that_exist() -> None:
    names = {tool.name for tool in TOOLS}
    for name in re.findall(
        r"`((?:check|estimate|sample|score|start|reading|launch|run|stop|list|recommend|write)_\w+)`", SKILL
    ):
        if name not in names:
            assert name in {"run_status"} or name.startswith("sampling"), f"SKILL.md names a tool {name}"


def recipe() -> dict[str, object]:
    """The recipe of SKILL.md."""
    block = re.search(r"```json\n(.+?)```", SKILL, re.DOTALL)
    assert block
    return dict(json.loads(block.group(1)))


def test_the_recipe_passes_its_own_check() -> None:
    setup = {
        "model": {"class": "dense", "params_b": 1.5, "peft": False, "name": "Qwen2.5-1.5B-Instruct"},
        "hardware": {"device": "cuda", "gpus": 1, "gpu_mem_gb": 80, "num_processes": 1},
        "dataset": {"columns": ["prompt", "gold"], "format": "conversational", "rows": 5000, "max_prompt_tokens": 256},
    }
    result = check(recipe(), parse_setup(setup), trl_version=known_versions()[-1])
    assert result.verdict == "ok", [(f.rule, f.message) for f in result.findings if f.severity != "info"]


def test_the_version_stands_in_one_place_and_the_manifests_agree() -> None:
    version = grpo_rlvr.__version__
    assert f"version: {version}" in SKILL
    assert f"[{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["dynamic"] == ["version"] and "version" not in project


def test_generated_pages_are_fresh() -> None:
    spec = importlib.util.spec_from_file_location("render_docs", ROOT / "scripts" / "lib" / "render_docs.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stale = module.stale(ROOT)
    assert stale == [], "run scripts/docs and commit the changes"


def test_no_page_mentions_a_machine_or_a_registry() -> None:
    for path in MARKDOWN:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(root|home|work|tmp)/", text), path.name
        assert not re.search(r"https?://(files|registry|deb|index|simple)\.", text), path.name
