"""Imports point one way, and nothing heavy is imported before it is needed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "server" / "grpo_rlvr"
ENGINES = ("config", "memory", "inspection", "metrics", "runs", "report")
# What every part may use.
GROUND = ("errors", "workspace", "files", "plain", "models", "interpreter", "codefolder", "__init__")
PROTOCOL = ("app.py", "protocol/", "demo/client.py", "demo/loop.py")
HEAVY = {
    "torch", "trl", "transformers", "datasets", "peft", "accelerate", "scipy", "numpy", "matplotlib", "pandas", "vllm",
    "tokenizers",
}  # fmt: skip
# Run in the training interpreter, from a code folder that holds neither pydantic nor mcp.
WORKER_MARK = "worker"


def modules() -> list[Path]:
    """Every module of the server package."""
    return sorted(path for path in SERVER.rglob("*.py"))


def imported(path: Path, *, top_only: bool = False) -> set[str]:
    """Dotted names that a module imports; with `top_only`, only those that importing it executes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if typing_only or (top_only and lazy):
            skipped.update(ast.walk(node))
    names: set[str] = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
    return names


def part_of(path: Path) -> str:
    """The engine or top-level module that a file belongs to."""
    relative = path.relative_to(SERVER)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SERVER)))
def test_imports_point_from_tools_to_engines_to_models(path: Path) -> None:
    part, relative = part_of(path), path.relative_to(SERVER).as_posix()
    for name in imported(path):
        if name.split(".")[0] == "mcp" or name.startswith("mcp_types"):
            assert relative.startswith(PROTOCOL), f"{relative} imports {name}"
        if not name.startswith("grpo_rlvr."):
            continue
        target = name.split(".")[1]
        if part in ENGINES:
            allowed = {part, *ENGINES, *GROUND, "doctor"}
            assert target in allowed, f"{relative} imports {name}"
            if target in ENGINES and target != part:
                assert name.count(".") == 1, f"{relative} imports the insides of another engine: {name}"
        if part in GROUND:
            assert target in GROUND, f"{relative} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SERVER)))
def test_importing_a_module_imports_nothing_heavy(path: Path) -> None:
    heavy = {name for name in imported(path, top_only=True) if name.split(".")[0] in HEAVY}
    if WORKER_MARK in path.stem or path.stem in {"callbacks", "policy"} or "sample_" in path.stem:
        return  # runs in the training interpreter
    assert not heavy, f"{path.relative_to(SERVER)} imports {heavy} at the top"


def test_the_reward_library_imports_nothing_of_the_server() -> None:
    for path in sorted((ROOT / "rewards").rglob("*.py")):
        assert not {name for name in imported(path) if name.split(".")[0] == "grpo_rlvr"}, path


def test_workers_import_neither_pydantic_nor_mcp() -> None:
    workers = [path for path in modules() if WORKER_MARK in path.stem]
    assert workers
    for path in workers:
        seen: set[Path] = set()
        waiting = [path]
        while waiting:
            current = waiting.pop()
            seen.add(current)
            for name in imported(current):
                assert name.split(".")[0] not in {"pydantic", "mcp", "mcp_types"}, (
                    f"{path.name} -> {current.name}: {name}"
                )
                if name.startswith("grpo_rlvr."):
                    file = SERVER.parent / Path(*name.split(".")).with_suffix(".py")
                    if file.is_file() and file not in seen:
                        waiting.append(file)


def test_the_reward_library_imports_without_any_package() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import rlvr_rewards; print(sorted(rlvr_rewards.__all__)[0])"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT / "rewards")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
