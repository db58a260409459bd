"""Write every generated page from the code, or with --check name the stale ones and exit 1."""

import importlib
import sys
from pathlib import Path

# Each has render_docs() -> {path relative to the project root: text}.
SOURCES = (
    "grpo_rlvr.config",
    "grpo_rlvr.memory",
    "grpo_rlvr.metrics",
    "grpo_rlvr.cli.docs",
    "grpo_rlvr.inspection.docs",
)
# Folders in which every file of this suffix is generated: what no source names any more is removed.
OWNED = {"references/rules": ".md"}


def rendered() -> dict[str, str]:
    """Return the text of every generated page."""
    pages: dict[str, str] = {}
    for name in SOURCES:
        pages |= {str(path): text for path, text in importlib.import_module(name).render_docs().items()}
    return pages


def stale(root: Path) -> list[str]:
    """Return the pages whose file differs from what the code says, and generated files that nothing makes."""
    pages = rendered()
    found = [name for name, text in pages.items() if _read(root / name) != text]
    for folder, suffix in OWNED.items():
        found += [
            str(path.relative_to(root))
            for path in (root / folder).glob(f"*{suffix}")
            if f"{folder}/{path.name}" not in pages
        ]
    return sorted(found)


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main() -> int:
    """Write or check. Returns 1 when --check finds stale pages."""
    root = Path(__file__).resolve().parents[2]
    names = stale(root)
    if "--check" in sys.argv[1:]:
        print("\n".join(names) or "all generated pages are fresh")
        return 1 if names else 0
    pages = rendered()
    for name in names:
        path = root / name
        if name not in pages:
            path.unlink()
            print(f"removed {name}")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[name], encoding="utf-8")
        print(f"wrote {name}")
    print(f"{len(pages)} pages, {len(names)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
