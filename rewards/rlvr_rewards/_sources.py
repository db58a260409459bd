"""Which files a user's reward is made of, found without running them."""

import ast
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent


def local_files(file: Path) -> list[Path]:
    """Return `file` and every module of its folder that it imports, directly or through others, sorted.

    Imports are read from the syntax tree, wherever they stand in the file; `import_module` and `__import__` count when
    their argument is a literal. Standard library names count only if the folder holds a file of that name.

    Raises:
        SyntaxError: A file does not parse.
        OSError: A file cannot be read.
    """
    folder = file.resolve().parent
    found: dict[Path, None] = {}
    waiting = [file.resolve()]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = None
        tree = ast.parse(path.read_bytes(), filename=str(path))
        for dotted in imported_names(tree, package_of(path, folder)):
            waiting.extend(module_files(folder, dotted))
    return sorted(found)


def package_of(path: Path, folder: Path) -> tuple[str, ...]:
    """Return the dotted package, as parts, that a relative import in `path` starts from."""
    return path.relative_to(folder).parent.parts


def imported_names(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield every dotted name, as parts, that the tree may import; `from a import b` gives `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module.split(".") if node.module else ()))
            yield module
            for alias in node.names:
                yield (*module, alias.name)
        elif isinstance(node, ast.Call) and (name := _literal_import(node)):
            yield tuple(name.split("."))


def _literal_import(node: ast.Call) -> str | None:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called not in ("import_module", "__import__") or not node.args:
        return None
    first = node.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def module_files(folder: Path, dotted: tuple[str, ...]) -> list[Path]:
    """Return the files of `folder` that importing the dotted name runs: parent packages and the module itself."""
    files: list[Path] = []
    place = folder
    for part in dotted:
        if part == "*" or not part:
            break
        module, package = place / f"{part}.py", place / part
        if module.is_file():
            files.append(module.resolve())
            break
        if not package.is_dir():
            break
        if (package / "__init__.py").is_file():
            files.append((package / "__init__.py").resolve())
        place = package
    return [path for path in files if path.is_relative_to(folder)]


def module_name(path: Path, folder: Path) -> str:
    """Return the name under which `path` is imported when `folder` is on the path."""
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_standard(name: str) -> bool:
    """Return whether the first part of a dotted name belongs to the standard library."""
    return name.partition(".")[0] in sys.stdlib_module_names


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def library_hash() -> str:
    """Return one SHA-256 in hex over every Python file of this package, by relative path and content."""
    whole = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        whole.update(f"{path.relative_to(PACKAGE).as_posix()}\0{file_hash(path)}\n".encode())
    return whole.hexdigest()
