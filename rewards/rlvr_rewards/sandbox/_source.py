"""Reads tests as text: which names they use, where they assert, what they define. Executes nothing."""

import ast
import functools
import marshal
import re
import warnings
from dataclasses import dataclass, field
from types import CodeType

from rlvr_rewards.sandbox._wire import CHECK, FAILED

# A `skipif` that looks only at these cannot be steered by the program: a true one removes the test, and fails nothing.
ENVIRONMENT_NAMES = frozenset({"sys", "os", "platform", "pytest", "unittest", "shutil", "importlib"})

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def names_in(tree: ast.AST) -> set[str]:
    """Return all identifiers of the source: names, attributes and imported names."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.update(node.name.split("."))
    return found


def names_in_text(text: str) -> set[str]:
    """Return all identifiers of a source text, none when it does not parse."""
    try:
        return names_in(ast.parse(text))
    except (SyntaxError, ValueError):
        return set()


def called_names(tree: ast.AST) -> set[str]:
    """Return the names that the source calls as functions or methods."""
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {function.id for function in called if isinstance(function, ast.Name)} | {
        function.attr for function in called if isinstance(function, ast.Attribute)
    }


def is_test_function(node: ast.AST) -> bool:
    """Return whether pytest would collect the function."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def is_test_class(node: ast.AST) -> bool:
    """Return whether pytest or unittest would collect tests from the class."""
    if not isinstance(node, ast.ClassDef) or not any(is_test_function(part) for part in node.body):
        return False
    bases = {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases}
    return node.name.startswith("Test") or any(base.endswith("TestCase") for base in bases) or bool(bases)


def has_tests(tree: ast.Module) -> bool:
    """Return whether the tests define test functions or classes."""
    return any(is_test_function(node) or is_test_class(node) for node in tree.body)


def is_constant_assert(node: ast.Assert) -> bool:
    """Return whether it is `assert False` or the like: a place that must not be reached, not a check."""
    return isinstance(node.test, ast.Constant)


def is_check_call(node: ast.AST) -> bool:
    """Return whether the node is a call such as `pytest.raises(...)` or `self.assertEqual(...)`."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in ("raises", "warns", "fail") or name.startswith(("assert", "fail"))


def has_checks(node: ast.AST) -> bool:
    """Return whether the code asserts anything."""
    return any(isinstance(part, ast.Assert) or is_check_call(part) for part in ast.walk(node))


def must_check(node: ast.AST) -> bool:
    """Return whether a run of the code that executes no check at all would prove nothing."""
    return any((isinstance(part, ast.Assert) and not is_constant_assert(part)) or (
        is_check_call(part) and not _is_call_of(part, "fail")) for part in ast.walk(node))  # fmt: skip


def _is_call_of(node: ast.AST, name: str) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", "")) == name


@dataclass
class Group:
    """One statement of the tests' top level.

    Attributes:
        line: Where it begins, from 1.
        code: It alone, instrumented.
        asserts: The numbers of the assertions in it that are checks.
        defines: It is a function or class, whose assertions run later, when it is called.
        in_tests: It is collected as a test, and counts as such.
        checks: It holds any check at all.
    """

    line: int
    code: ast.Module
    asserts: list[int] = field(default_factory=list)
    defines: bool = False
    in_tests: bool = False
    checks: bool = False


class _Instrument(ast.NodeTransformer):
    """Numbers every assertion and reports that it ran; in soft mode a failing one does not end its statement."""

    def __init__(self, soft: bool) -> None:
        self.soft, self.count, self.numbers, self._guarded = soft, 0, [], 0  # type: ignore[var-annotated]

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        number = self.count
        self.count += 1
        if is_constant_assert(node):
            return node
        self.numbers.append(number)
        check = ast.Call(ast.Name(CHECK, ast.Load()), [ast.Constant(number), node.test], [])
        checked = ast.copy_location(ast.Assert(check, node.msg), node)
        if not self.soft or self._guarded:
            return checked
        note = ast.Expr(ast.Call(ast.Name(FAILED, ast.Load()), [ast.Constant(number)], []))
        handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [note])
        return ast.copy_location(ast.Try([checked], [handler], [], []), node)

    def _guard(self, node: ast.AST) -> ast.AST:
        self._guarded += 1
        self.generic_visit(node)
        self._guarded -= 1
        return node

    visit_Try = visit_With = visit_AsyncWith = _guard

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "skipif" and node.args:
            used = {part.id for part in ast.walk(node.args[0]) if isinstance(part, ast.Name)}
            if used <= ENVIRONMENT_NAMES:
                node.func.attr = "_skipif_environment"
        return node


def instrument(tree: ast.Module, soft: bool) -> list[Group]:
    """Return the top-level statements, each ready to be compiled alone.

    Args:
        tree: The tests; changed by this.
        soft: Whether a failing assertion is noted and passed over, so that the later ones still count.
    """
    transformer, groups = _Instrument(soft), []
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    for node in tree.body:
        checks, in_tests = has_checks(node), is_test_function(node) or is_test_class(node)
        transformer.numbers = []
        line = node.lineno
        changed = transformer.visit(node)
        body = [*future, changed] if node not in future else [node]
        code = ast.fix_missing_locations(ast.Module(body, []))
        defines = isinstance(node, Definition)
        groups.append(Group(line, code, transformer.numbers, defines, in_tests, checks))
    return groups


def checking_lines(tree: ast.Module) -> set[int]:
    """Return the first lines, decorators included, of functions that must execute a check."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and must_check(node):
            found.add(min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]))
    return found


# What is loaded only in workers for rich tests.
_RICH = re.compile(r"\b(?:unittest|mock|asyncio|async|await|statistics|decimal|fractions)\b")


def is_rich(*texts: str) -> bool:
    """Return whether tests or programs name large packages that should not be imported anew for each of them."""
    return any(_RICH.search(text) for text in texts)


@functools.lru_cache(maxsize=1024)
def packed(tests: str, files: tuple[str, ...], style: str, partial: bool) -> bytes:
    """Return all that a tester needs of the tests, read and compiled once for all programs that face them.

    Args:
        tests: Their source, which parses.
        files: The texts that belong to them.
        style: `assert` or `pytest`.
        partial: Each passed assertion is worth something, so one that fails must not hide the later ones.
    """
    tree = ast.parse(tests)
    soft = partial and style == "assert" and not has_tests(tree)
    checking, called, mentioned = checking_lines(tree), called_names(tree), names_in(tree)
    for text in files:
        mentioned |= names_in_text(text)
    groups = [(group.line, _compiled(group.code), group.asserts, group.defines, group.in_tests, group.checks)
              for group in instrument(tree, soft)]  # fmt: skip
    return marshal.dumps(
        {"groups": groups, "soft": soft, "checking": checking, "called": called, "mentioned": mentioned}
    )


def _compiled(code: ast.Module) -> CodeType | str:
    """Return a statement as code, or why it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # Never as `python -O` would: that leaves the assertions out.
            return compile(code, "test_candidate.py", "exec", dont_inherit=True, optimize=0)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return f"{type(error).__name__}: {error}"
