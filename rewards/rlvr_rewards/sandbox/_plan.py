"""What a row's tests are, read once: whether they can be graded at all, and in which of the three modes."""

import ast
import functools
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlvr_rewards.sandbox import _source, _values
from rlvr_rewards.sandbox._runs import BadTests as BadTests
from rlvr_rewards.sandbox._runs import Case, runs

Style = Literal["assert", "pytest", "io"]
STYLES: tuple[Style, ...] = ("assert", "pytest", "io")

# The module that the program is for its tests.
PROGRAM = "candidate"
MAX_TESTS = 1 << 20  # characters
# A function, or a method of an object that is made without arguments.
_ENTRY_POINT = re.compile(r"[A-Za-z_]\w*(?:\(\))?(?:\.[A-Za-z_]\w*)*")
# The text of a list of texts, as JSON or as Python shows it.
_LIST_OF_TEXTS = re.compile(r"\s*\[\s*([\"']).*\1\s*,?\s*\]\s*", re.DOTALL)
# What tests use that the sandbox has not, and why.
UNAVAILABLE = {
    "subprocess": "starts processes",
    "multiprocessing": "starts processes",
    "getrusage": "measures its own process, which is not the program's",
    "tmp_path": "writes files",
    "tmpdir": "writes files",
    "tmp_path_factory": "writes files",
    "testdir": "runs pytest itself",
    "pytester": "runs pytest itself",
    "caplog": "records the log of its own process, which is not the program's",
}


@dataclass(frozen=True)
class Plan:
    """How a row is graded.

    Attributes:
        style: As declared.
        source: The tests, for the tester.
        files: What belongs to the tests, by relative path.
        checks: The asserts, where every one of them can be split; else None.
        calls: The calls of all of them, as the program's process reads them.
        cases: The runs of a script, for style io.
        count: How many tests there are, as far as the text tells.
    """

    style: Style
    source: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[_values.Check, ...] | None = None
    calls: bytes = b""
    cases: tuple[Case, ...] = ()
    count: int = 0


def plan(
    style: Style,
    tests: Any,
    files: Any = None,
    entry_point: Any = None,
    in_place: bool = False,
    packages: tuple[str, ...] = (),
    module: str = PROGRAM,
) -> Plan:
    """Read a row.

    Args:
        style: `assert`, `pytest` or `io`.
        tests: Source text, for `assert` also a list of statements, itself or as text; for `io` the runs, as
            `_runs.runs` takes them.
        files: Text by relative path, or None.
        entry_point: The function, or the method as in `Solution().twoSum`, that a `check(candidate)` in the tests is
            called with, when they do not call it.
        in_place: Whether changes of arguments are part of the tests.
        packages: What tests and programs may import beside the standard library.
        module: The name under which the tests and their files import the program.

    Raises:
        BadTests: The row cannot be graded.
    """
    if style == "io":
        cases = runs(tests)
        return Plan(style, cases=cases, count=len(cases))
    if style == "assert":
        tests = _joined(tests)
    if not isinstance(tests, str) or not tests.strip():
        raise BadTests("the tests are missing")
    if len(tests) > MAX_TESTS:
        raise BadTests(f"the tests are longer than {MAX_TESTS} characters")
    texts = {path: _with_program(text, module) for path, text in _files(files).items()}
    tests = _with_program(tests, module)
    entry = entry_point if isinstance(entry_point, str) and _ENTRY_POINT.fullmatch(entry_point) else None
    return _planned(style, tests, tuple(sorted(texts.items())), entry, in_place, packages)


def _with_program(text: str, module: str) -> str:
    """Return tests that import the program under the one name that it has in the sandbox."""
    if module == PROGRAM or module not in text:
        return text
    froms = re.compile(rf"^([ \t]*from[ \t]+){module}(?=[ \t]+import\b)", re.MULTILINE)
    imports = re.compile(rf"^([ \t]*import[ \t]+){module}(?=[ \t]*(?:#.*)?$)", re.MULTILINE)
    return imports.sub(rf"\g<1>{PROGRAM} as {module}", froms.sub(rf"\g<1>{PROGRAM}", text))


def _joined(tests: Any) -> Any:
    """Return a list of statements as one source text, and other tests as they are."""
    if isinstance(tests, str) and _LIST_OF_TEXTS.fullmatch(tests):
        for reader in (json.loads, ast.literal_eval):
            try:
                tests = reader(tests)
                break
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
    if isinstance(tests, list | tuple) and all(isinstance(line, str) for line in tests):
        return "\n".join(tests)  # data sets of the MBPP kind keep one statement an entry
    return tests


@functools.lru_cache(maxsize=4096)
def _planned(
    style: Style,
    tests: str,
    files: tuple[tuple[str, str], ...],
    entry_point: str | None,
    in_place: bool,
    packages: tuple[str, ...],
) -> Plan:
    tree = _parsed(tests, "the tests")
    if entry_point is not None and (name := _uncalled_check(tree)) is not None:
        tests = f"{tests}\n{name}({entry_point})\n"
        tree = _parsed(tests, "the tests")
    for path, text in files:
        if path.endswith(".py"):
            _parsed(text, f"file {path!r}")
    problem = _ungradable(tree, style) or _missing_import(tree, {path for path, _ in files}, packages)
    if problem is not None:
        raise BadTests(problem)
    if style == "pytest" and not any("candidate" in text for text in (tests, *dict(files).values())):
        raise BadTests("the tests never import from `candidate`, the module that the program is")
    checks = None
    if style == "assert" and not files and not in_place:
        try:
            checks = tuple(_values.split(tree))
        except _values.NotPlain:
            checks = None
    calls = _values.pack(checks) if checks else b""
    return Plan(style, tests, dict(files), checks, calls, count=len(checks) if checks else _count(tree))


def _parsed(text: str, what: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTests(f"{what} do not parse: {error}") from None


def _files(files: Any) -> dict[str, str]:
    if files is None:
        return {}
    if not isinstance(files, Mapping) or not all(
        isinstance(path, str) and isinstance(text, str | None) for path, text in files.items()
    ):
        raise BadTests("the files must be a mapping of relative path to text")
    # A column of several such mappings holds every path of every row, with None where a row lacks it.
    return {path.removeprefix("./"): text for path, text in files.items() if text is not None}


def _ungradable(tree: ast.Module, style: Style) -> str | None:
    if style == "pytest" and not _source.has_tests(tree) and not any(map(_checks_now, tree.body)):
        return "the tests define no test function or class"
    if not _source.has_checks(tree) and not _source.has_tests(tree):
        return "the tests assert nothing"
    if style == "assert" and not _source.has_tests(tree) and (name := _uncalled_check(tree)) is not None:
        return f"the tests define {name}() with all their assertions and never call it"
    return _uses_unavailable(tree) or _derives_from_program(tree)


def _checks_now(node: ast.stmt) -> bool:
    return not isinstance(node, _source.Definition) and _source.has_checks(node)


def _uncalled_check(tree: ast.Module) -> str | None:
    """Return the function that holds assertions and is named nowhere, when nothing else asserts."""
    if any(_checks_now(node) for node in tree.body):
        return None
    holding = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _source.has_checks(node)]
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    unused = [name for name in holding if name not in used and not name.startswith("test")]
    return unused[0] if unused and len(unused) == len(holding) else None


def _uses_unavailable(tree: ast.Module) -> str | None:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names = [part.partition(".")[0] for part in (*module, *(alias.name for alias in node.names))]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.arg):
            names = [node.arg]
        for name in names:
            if name in UNAVAILABLE:
                return f"the tests use {name!r}, which {UNAVAILABLE[name]}; that is not possible in the sandbox"
    return None


def _missing_import(tree: ast.Module, files: set[str], packages: tuple[str, ...]) -> str | None:
    """Return what is wrong when the tests import something that no program's sandbox has."""
    own = {part.removesuffix(".py") for path in files for part in path.split("/")[:1]}
    there = {"candidate", "pytest", *own, *(name.partition(".")[0] for name in packages)} | sys.stdlib_module_names
    guarded = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Try) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in guarded or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or "candidate"]
        for name in names:
            if name.partition(".")[0] not in there:
                return (
                    f"the tests import {name!r}, which the sandbox has not; give it with packages=[{name!r}], or, if "
                    f"that is what they call the program, module={name!r}"
                )
    return None


def _derives_from_program(tree: ast.Module) -> str | None:
    imported = {alias.asname or alias.name for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and node.module == "candidate" for alias in node.names}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                if isinstance(base, ast.Name) and base.id in imported:
                    return (
                        f"the tests derive class {node.name!r} from a class of the program, which is in another process"
                    )
    return None


def _count(tree: ast.Module) -> int:
    tests = sum(_source.is_test_function(node) for node in ast.walk(tree))
    asserts = sum(isinstance(node, ast.Assert) and not _source.is_constant_assert(node)
                  for top in tree.body if not (_source.is_test_function(top) or _source.is_test_class(top))
                  for node in ast.walk(top))  # fmt: skip
    return max(1, tests + asserts)
