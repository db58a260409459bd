"""Build what clients install that do not read this folder as it is: a plugin tree, its marketplaces, and an MCPB file.

    python scripts/lib/bundle.py [OUT]        # default: dist/bundle

OUT/plugins/grpo-rlvr-training   an Agent Plugin (Cursor, VS Code, Codex, Kiro, ...) with the skill under skills/
OUT/.agents/plugins/marketplace.json, OUT/.cursor-plugin/marketplace.json   marketplaces that name that folder
OUT/grpo-rlvr-training.mcpb      the server for desktop hosts; they ask for the workspace folder

Standard library only. Everything is derived from plugin.json, mcp.json and the files under version control.
"""

import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAME = "grpo-rlvr-training"
# What the server needs to be installed from, and nothing else.
SOURCES = (
    "server", "rewards", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "scripts/lib/hatch_build.py",
    "scripts/lib/start.py",
)  # fmt: skip
SKILL = ("SKILL.md", "references")
SKIPPED = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc", ".*")
TITLE = "GRPO / RLVR training"
CATEGORY = "Developer Tools"
# A zip with one date is the same file whenever it is built.
DATE = (2026, 1, 1, 0, 0, 0)


def read(name: str) -> dict[str, Any]:
    """A manifest of this folder."""
    return dict(json.loads((ROOT / name).read_text(encoding="utf-8")))


def write(path: Path, value: dict[str, Any]) -> None:
    """Write one manifest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def copy(names: tuple[str, ...], target: Path) -> None:
    """Copy files and folders of this folder."""
    for name in names:
        source, place = ROOT / name, target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=SKIPPED)
        else:
            shutil.copyfile(source, place)


def plugin(target: Path) -> None:
    """Write the plugin folder: one tree that every client with plugins reads."""
    copy(SOURCES, target)
    copy(SKILL, target / "skills" / NAME)
    about = read("plugin.json")
    write(target / "plugin.json", about)
    write(target / "mcp.json", read("mcp.json"))
    write(target / ".mcp.json", read(".mcp.json"))
    write(target / ".claude-plugin/plugin.json", {k: v for k, v in about.items() if k != "$schema"})
    write(target / ".cursor-plugin/plugin.json", {k: v for k, v in about.items() if k != "$schema"})
    interface = {"displayName": TITLE, "shortDescription": about["description"], "category": CATEGORY}
    codex = {k: v for k, v in about.items() if k != "$schema"}
    codex |= {"skills": "./skills/", "interface": interface}
    write(target / ".codex-plugin/plugin.json", codex)


def marketplaces(out: Path) -> None:
    """Write the lists that name the plugin folder, for clients that install from a marketplace."""
    about, folder = read("plugin.json"), f"./plugins/{NAME}"
    entry = {"name": NAME, "description": about["description"]}
    owner = read(".claude-plugin/marketplace.json")["owner"]
    write(
        out / ".agents/plugins/marketplace.json",
        {
            "name": NAME,
            "interface": {"displayName": TITLE},
            "plugins": [
                {
                    "name": NAME,
                    "source": {"source": "local", "path": folder},
                    "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
                    "category": CATEGORY,
                }
            ],
        },
    )
    write(
        out / ".cursor-plugin/marketplace.json",
        {"name": NAME, "owner": owner, "plugins": [{**entry, "source": folder}]},
    )


def desktop_manifest() -> dict[str, Any]:
    """The manifest of the MCPB file. Desktop hosts start servers anywhere, so the workspace is asked for."""
    about, server = read("plugin.json"), read("mcp.json")["mcpServers"]["grpo-rlvr"]
    arguments = [part.replace("${PLUGIN_ROOT}", "${__dirname}") for part in server["args"]]
    return {
        "manifest_version": "0.4",
        "name": NAME,
        "display_name": TITLE,
        "version": about["version"],
        "description": about["description"],
        "author": about["author"],
        "license": about["license"],
        "keywords": about["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "server/grpo_rlvr/__main__.py",
            "mcp_config": {
                "command": server["command"],
                "args": [*arguments, "--root", "${user_config.workspace}"],
                "env": {"GRPO_RLVR_PYTHON": "${user_config.training_python}"},
            },
        },
        "user_config": {
            "workspace": {
                "type": "directory",
                "title": "Workspace",
                "description": "The one folder that the server reads and writes.",
                "required": True,
            },
            "training_python": {
                "type": "string",
                "title": "Python that has TRL",
                "description": "Path of the interpreter that trains; may stay empty.",
                "required": False,
                "default": "",
            },
        },
        "tools_generated": True,
        "prompts_generated": True,
    }


def desktop_file(out: Path) -> Path:
    """Zip the server with its manifest. Returns the file."""
    stage = out / "desktop"
    copy(SOURCES, stage)
    copy(SKILL, stage)
    write(stage / "manifest.json", desktop_manifest())
    packed = out / f"{NAME}.mcpb"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
        for path in sorted(stage.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(stage).as_posix(), DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                bundle.writestr(entry, path.read_bytes())
    shutil.rmtree(stage)
    return packed


def main() -> int:
    """Build everything into a fresh folder."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist" / "bundle"
    for old in (out / "plugins", out / ".agents", out / ".cursor-plugin", out / "desktop"):
        shutil.rmtree(old, ignore_errors=True)
    plugin(out / "plugins" / NAME)
    marketplaces(out)
    packed = desktop_file(out)
    print(f"plugin and marketplaces: {out}\ndesktop file: {packed} ({packed.stat().st_size // 1024} kB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
