"""Which names a Python module binds, where, and which of them it changes afterwards; nothing is executed."""

import ast
from dataclasses import dataclass, field

_MUTATORS = frozenset(
    [
        "update",
        "setdefault",
        "pop",
        "popitem",
        "clear",
        "append",
        "extend",
        "insert",
        "remove",
        "sort",
        "reverse",
        "__setitem__",
        "add",
        "discard",
    ]
)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode = ast.Module | FunctionNode | ast.ClassDef | ast.Lambda


@dataclass
class Binding:
    """One assignment of a name."""

    line: int
    value: ast.expr | None
    index: int | None = None
    conditional: bool = False
    definition: ast.stmt | None = None
    module: str | None = None


@dataclass
class Scope:
    """Names bound in one module, function or class body."""

    node: ScopeNode
    parent: "Scope | None" = None
    names: dict[str, list[Binding]] = field(default_factory=dict)

    def lookup(self, name: str) -> tuple["Scope", list[Binding]] | None:
        """Return the bindings of a name in the nearest scope that has any."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and (scope is self or not isinstance(scope.node, ast.ClassDef)):
                return scope, scope.names[name]
            scope = scope.parent
        return None


class Names(ast.NodeVisitor):
    """Collects the bindings of every scope of a module.

    `scopes` maps a module, function or class to its scope, `scope_of` every expression to the scope it stands in.
    `mutated` holds each name that is changed in place anywhere, whatever its scope: rather too many than too few.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.scopes: dict[ast.AST, Scope] = {}
        self.scope_of: dict[ast.AST, Scope] = {}
        self.mutated: set[str] = set()
        self._scope = Scope(tree)
        self._conditional = 0
        self.module = self._scope
        self.scopes[tree] = self._scope
        for statement in tree.body:
            self.visit(statement)

    def visit(self, node: ast.AST) -> None:
        """Visit a node, remembering the scope it stands in."""
        self.scope_of[node] = self._scope
        super().visit(node)

    def _bind(self, name: str, binding: Binding) -> None:
        binding.conditional = self._conditional > 0
        self._scope.names.setdefault(name, []).append(binding)

    def _target(self, target: ast.expr, value: ast.expr | None, line: int) -> None:
        if isinstance(target, ast.Name):
            self._bind(target.id, Binding(line, value))
        elif isinstance(target, ast.Tuple | ast.List):
            for index, item in enumerate(target.elts):
                if isinstance(item, ast.Name):
                    same = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
                    part = value.elts[index] if same and isinstance(value, ast.Tuple) else value
                    self._bind(item.id, Binding(line, part, None if same else index))
        elif isinstance(target, ast.Subscript | ast.Attribute):
            self._mutate(target.value)

    def _mutate(self, node: ast.expr) -> None:
        while isinstance(node, ast.Subscript | ast.Attribute):
            node = node.value
        if isinstance(node, ast.Name):
            self.mutated.add(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Bind every target."""
        for target in node.targets:
            self._target(target, node.value, node.lineno)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Bind an annotated name that has a value."""
        if node.value is not None:
            self._target(node.target, node.value, node.lineno)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Bind the walrus target."""
        self._target(node.target, node.value, node.lineno)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Count as a second, unreadable assignment."""
        self._target(node.target, None, node.lineno)
        self._mutate(node.target)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        """Count as a change in place."""
        for target in node.targets:
            self._mutate(target)

    def visit_Call(self, node: ast.Call) -> None:
        """Note methods that change their object in place."""
        if isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
            self._mutate(node.func.value)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        """A function that may rebind an outer name makes that name unreadable."""
        for name in node.names:
            self.module.names.setdefault(name, []).append(Binding(node.lineno, None))

    visit_Nonlocal = visit_Global

    def visit_Import(self, node: ast.Import) -> None:
        """Bind imported modules."""
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._bind(name, Binding(node.lineno, None, module=alias.name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Bind imported names to their dotted origin."""
        for alias in node.names:
            origin = f"{'.' * node.level}{node.module or ''}.{alias.name}"
            self._bind(alias.asname or alias.name, Binding(node.lineno, None, module=origin))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        self._target(node.target, None, getattr(node, "lineno", node.iter.lineno))
        if isinstance(node, ast.comprehension):
            self.generic_visit(node)
        else:
            self._branch(node)

    visit_For = visit_AsyncFor = visit_comprehension = _loop

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        """Bind `as` names as unreadable."""
        for item in node.items:
            if item.optional_vars is not None:
                self._target(item.optional_vars, None, node.lineno)
        self.generic_visit(node)

    visit_AsyncWith = visit_With

    def visit_If(self, node: ast.If) -> None:
        """Visit both branches as conditional, except for the `__main__` guard, which a script always passes."""
        if is_main_guard(node):
            self.generic_visit(node)
        else:
            self._branch(node)

    def _branch(self, node: ast.AST) -> None:
        self._conditional += 1
        self.generic_visit(node)
        self._conditional -= 1

    visit_While = visit_Try = visit_TryStar = visit_Match = _branch

    def _function(self, node: FunctionNode | ast.Lambda) -> None:
        if not isinstance(node, ast.Lambda):
            self._bind(node.name, Binding(node.lineno, None, definition=node))
        outer, conditional = self._scope, self._conditional
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._scope, self._conditional = Scope(node, outer), 0
        self.scopes[node] = self._scope
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            self._bind(argument.arg, Binding(node.lineno, None))
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                self._bind(extra.arg, Binding(node.lineno, None))
        for child in node.body if isinstance(node.body, list) else [node.body]:
            self.visit(child)
        self._scope, self._conditional = outer, conditional

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Open a class scope."""
        self._bind(node.name, Binding(node.lineno, None, definition=node))
        outer, self._scope = self._scope, Scope(node, self._scope)
        self.scopes[node] = self._scope
        self.generic_visit(node)
        self._scope = outer


def is_main_guard(node: ast.If) -> bool:
    """Whether an `if` is the `__name__ == "__main__"` guard."""
    test = node.test
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
