"""The skill over MCP (extension io.modelcontextprotocol/skills, SEP-2640), and its files as plain resources.

Clients of the handshake era never see extensions; for them SKILL.md and the references are ordinary resources.
"""

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Extension, MethodBinding, ResourceBinding
from mcp.server.mcpserver.resources import FileResource
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, RequestParams

from grpo_rlvr.skillfiles import NAME, skill_files

SCHEME = f"skill://{NAME}/"
# The files change only with an upgrade, but a checkout may be edited: ask again after a minute.
CACHE = {"ttlMs": 60_000, "cacheScope": "public"}


class GetSkill(RequestParams):
    """Parameters of skills/get."""

    uri: str


class Skills(Extension):
    """Serves the one skill of this package."""

    identifier = "io.modelcontextprotocol/skills"

    def methods(self) -> Sequence[MethodBinding]:
        """Answer skills/list and skills/get."""
        return (
            MethodBinding("skills/list", RequestParams, self._list),
            MethodBinding("skills/get", GetSkill, self._get),
        )

    def resources(self) -> Sequence[ResourceBinding]:
        """List SKILL.md and the references; the pages of single rule families are read through a template."""
        return [ResourceBinding(_resource(name, path)) for name, path in skill_files().items() if name.count("/") < 2]

    async def _list(self, context: ServerRequestContext[Any, Any], params: RequestParams) -> dict[str, Any]:
        entry = skill_entry()
        return {"skills": [entry] if entry else [], **CACHE}

    async def _get(self, context: ServerRequestContext[Any, Any], params: GetSkill) -> dict[str, Any]:
        entry = skill_entry()
        if entry is None or params.uri != entry["uri"]:
            raise MCPError(code=INVALID_PARAMS, message=f"no skill '{params.uri}'; skills/list names what there is")
        return {"skill": entry, **CACHE}


def skill_entry() -> dict[str, Any] | None:
    """Return the skill's entry: its address, its frontmatter, and every file with digest and size."""
    files = skill_files()
    if not files:
        return None
    frontmatter = _frontmatter(files["SKILL.md"])
    resources = []
    for name, path in files.items():
        data = path.read_bytes()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        resources.append({"uri": f"{SCHEME}{name}", "digest": digest, "size": len(data)})
    return {"uri": f"{SCHEME}SKILL.md", "frontmatter": frontmatter, "resources": resources}


def _resource(name: str, path: Path) -> FileResource:
    """One file of the skill; SKILL.md bears the skill's own name and description."""
    shown, about = name, _when_to_read(path)
    if name == "SKILL.md":
        skill = _frontmatter(path)
        shown, about = skill["name"], skill["description"]
    return FileResource(
        uri=f"{SCHEME}{name}", name=shown, title=_title(name), description=about, path=path,
        mime_type="text/markdown", encoding="utf-8",
    )  # fmt: skip


def _frontmatter(path: Path) -> dict[str, Any]:
    import yaml

    read: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8").split("---\n")[1])
    return read


def _title(name: str) -> str:
    return name.removeprefix("references/").removesuffix(".md").replace("-", " ").replace("/", ": ")


def _when_to_read(path: Path) -> str | None:
    """The sentence of a reference that says when to read it."""
    with path.open(encoding="utf-8") as file:
        return next((line.strip() for line in itertools.islice(file, 12) if line.startswith("Read this")), None)
