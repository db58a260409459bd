"""Reward functions as a script shows them: name, signature, what they read and return, as far as the source says."""

import ast
from pathlib import Path
from typing import Any

from grpo_rlvr.config.load_evaluate import source
from grpo_rlvr.config.load_marks import looks_for
from grpo_rlvr.config.load_names import Binding, FunctionNode
from grpo_rlvr.config.load_python import Source, origin, parse_python
from grpo_rlvr.errors import InputError

MAX_MODULE_BYTES = 1_000_000

# The rewards that TRL ships, with the columns they need.
TRL_REWARDS = {
    "accuracy_reward": "def accuracy_reward(completions, solution, log_extra=None, **kwargs)",
    "reasoning_accuracy_reward": "def reasoning_accuracy_reward(completions, solution, **kwargs)",
    "think_format_reward": "def think_format_reward(completions, **kwargs)",
    "get_soft_overlong_punishment": "def soft_overlong_punishment_reward(completion_ids, **kwargs)",
}


_TEXT_METHODS = frozenset(
    ["startswith", "endswith", "strip", "lstrip", "rstrip", "split", "lower", "upper", "find", "replace", "splitlines"]
)
_PATTERN_METHODS = frozenset(["search", "match", "fullmatch", "findall", "finditer"])


def known_signature(name: str) -> str | None:
    """Return the signature of a reward that TRL ships, by plain or dotted name."""
    plain = name.rpartition(".")[2]
    return TRL_REWARDS.get(plain) if name in (plain, f"trl.rewards.{plain}") else None


def read_rewards(script: Source, node: ast.expr) -> tuple[list[dict[str, Any]], list[int]] | None:
    """Return the rewards of a `reward_funcs` argument with the line that defines each, None when it is not a list."""
    if isinstance(node, ast.Name):
        binding = _single(script, node)
        if (
            binding is not None
            and isinstance(binding.value, ast.List | ast.Tuple)
            and node.id not in (script.names.mutated)
        ):
            node = binding.value
        elif binding is None or (binding.value is not None and not isinstance(binding.value, ast.Call | ast.Lambda)):
            return None
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    if any(isinstance(item, ast.Starred) for item in items) or isinstance(node, ast.ListComp):
        return None
    read = [_reward(script, item) for item in items]
    return [entry for entry, _ in read], [line for _, line in read]


def _single(script: Source, node: ast.Name) -> Binding | None:
    scope = script.names.scope_of.get(node)
    found = scope.lookup(node.id) if scope is not None else None
    return found[1][0] if found and len(found[1]) == 1 else None


def _reward(script: Source, node: ast.expr) -> tuple[dict[str, Any], int]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {"name": node.value}, node.lineno
    if isinstance(node, ast.Lambda):
        return {"name": "<lambda>", "signature": f"lambda {source(node.args, 200)}"}, node.lineno
    if isinstance(node, ast.Call):
        return _called(script, node), node.lineno
    if isinstance(node, ast.Name):
        binding = _single(script, node)
        if binding is not None:
            if isinstance(binding.definition, ast.FunctionDef | ast.AsyncFunctionDef):
                return _function(script, binding.definition), binding.line
            if isinstance(binding.value, ast.Call | ast.Lambda):
                entry, line = _reward(script, binding.value)
                return entry, line
            if binding.module is not None:
                return _imported(script, binding.module), node.lineno
    dotted = origin(script, node)
    return (_imported(script, dotted) if dotted else {"name": source(node)}), node.lineno


def _imported(script: Source, dotted: str) -> dict[str, Any]:
    plain = dotted.rpartition(".")[2]
    if dotted.startswith("trl.") and plain in TRL_REWARDS:
        return {"name": f"trl.rewards.{plain}", "signature": TRL_REWARDS[plain]}
    neighbour = _neighbour(script, dotted)
    return _function(*neighbour) if neighbour is not None else {"name": plain}


def _neighbour(script: Source, dotted: str) -> tuple[Source, FunctionNode] | None:
    """Return the module beside the script that defines a function of a dotted name, with it; None without one."""
    module, _, name = dotted.lstrip(".").rpartition(".")
    if script.folder is None or not module or not all(part.isidentifier() for part in module.split(".")):
        return None
    path = (script.folder / Path(*module.split("."))).with_suffix(".py").resolve()
    try:
        if not path.is_relative_to(script.folder) or not path.is_file() or path.stat().st_size > MAX_MODULE_BYTES:
            return None
        beside = parse_python(path.read_text(encoding="utf-8"), path.name)
    except (OSError, UnicodeDecodeError, InputError):
        return None
    found = [node for node in beside.tree.body if isinstance(node, FunctionNode) and node.name == name]
    return (beside, found[-1]) if found else None


def _called(script: Source, node: ast.Call) -> dict[str, Any]:
    called = origin(script, node.func)
    if called in ("functools.partial", "partial"):
        return {"name": source(node.args[0]) if node.args else "partial", "signature": source(node, 200)}
    if called.startswith("trl.") and called.rpartition(".")[2] in TRL_REWARDS:
        plain = called.rpartition(".")[2]
        return {"name": f"trl.rewards.{plain}", "signature": TRL_REWARDS[plain]}
    definition = _definition(script, node.func)
    if isinstance(definition, ast.ClassDef):
        return _instance(script, definition)
    if isinstance(definition, ast.FunctionDef):
        return _closure(script, definition, node)
    return {"name": source(node), "signature": f"object made by {source(node.func)}(...)"}


def _definition(script: Source, node: ast.expr) -> ast.stmt | None:
    binding = _single(script, node) if isinstance(node, ast.Name) else None
    return binding.definition if binding is not None else None


def _instance(script: Source, definition: ast.ClassDef) -> dict[str, Any]:
    call = next(
        (item for item in definition.body if isinstance(item, ast.FunctionDef) and item.name == "__call__"), None
    )
    if call is None:
        return {"name": definition.name}
    entry = _function(script, call)
    # A callable object has the metric name that its `__name__` says; without one TRL before 1.9 cannot name it.
    named = any("__name__" in ast.dump(item) for item in definition.body)
    return {
        **entry,
        "name": definition.name,
        "signature": f"class {definition.name}: {entry['signature']}" + (" with __name__" if named else ""),
    }


def _closure(script: Source, factory: ast.FunctionDef, call: ast.Call) -> dict[str, Any]:
    inner = {item.name: item for item in factory.body if isinstance(item, ast.FunctionDef)}
    returned = [
        item.value.id
        for item in factory.body
        if isinstance(item, ast.Return) and isinstance(item.value, ast.Name) and item.value.id in inner
    ]
    renamed = "__name__" in ast.dump(factory) or "wraps" in ast.dump(factory)
    if len(returned) != 1:
        return {"name": source(call), "signature": f"closure from {source(call)}"}
    entry = _function(script, inner[returned[0]])
    if renamed:
        return {**entry, "name": source(call)}
    return {**entry, "signature": f"closure from {source(call)}: {entry['signature']}"}


def _function(script: Source, definition: FunctionNode) -> dict[str, Any]:
    keyword = "async def" if isinstance(definition, ast.AsyncFunctionDef) else "def"
    entry: dict[str, Any] = {
        "name": definition.name,
        "signature": f"{keyword} {definition.name}({source(_bare(definition), 400)})",
    }
    reads, returns = _reads(definition), _returns(definition)
    if reads:
        entry["reads"] = reads
    if returns:
        entry["returns"] = returns
    if marks := looks_for(script, definition):
        entry["looks_for"] = marks
    return entry


def _bare(definition: FunctionNode) -> ast.arguments:
    """Return the parameters without annotations: they say nothing that a rule reads, and they hide the names."""
    arguments = definition.args
    strip = [ast.arg(arg=item.arg) for item in arguments.args]
    return ast.arguments(
        posonlyargs=[ast.arg(arg=item.arg) for item in arguments.posonlyargs],
        args=strip,
        vararg=ast.arg(arg=arguments.vararg.arg) if arguments.vararg else None,
        kwonlyargs=[ast.arg(arg=item.arg) for item in arguments.kwonlyargs],
        kw_defaults=arguments.kw_defaults,
        kwarg=ast.arg(arg=arguments.kwarg.arg) if arguments.kwarg else None,
        defaults=arguments.defaults,
    )


def _reads(definition: FunctionNode) -> str:
    """Return how the body reads completions and extra columns; an item of completions is called `completion`."""
    extra = definition.args.kwarg.arg if definition.args.kwarg else None
    items = _items(definition)
    found: list[str] = []
    for node in ast.walk(definition):
        if _reads_column(node, extra):
            found.append(source(node))
        text = _reads_as_text(node, items)
        if text:
            found.append(text)
    return "; ".join(dict.fromkeys(found))[:400]


def _items(definition: FunctionNode) -> set[str]:
    """Return the names that stand for one completion in loops over `completions`, alone, zipped or enumerated."""
    names: set[str] = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            names |= _loop_items(node.target, node.iter)
    return names


def _loop_items(target: ast.expr, iterated: ast.expr) -> set[str]:
    if _named(iterated, "completions") and isinstance(target, ast.Name):
        return {target.id}
    if not isinstance(iterated, ast.Call) or not isinstance(target, ast.Tuple):
        return set()
    called = source(iterated.func)
    if called == "enumerate" and len(target.elts) == 2 and iterated.args:
        return _loop_items(target.elts[1], iterated.args[0])
    if called == "zip" and len(target.elts) == len(iterated.args):
        pairs = zip(target.elts, iterated.args, strict=True)
        return {item.id for item, over in pairs if _named(over, "completions") and isinstance(item, ast.Name)}
    return set()


def _reads_as_text(node: ast.AST, items: set[str]) -> str:
    """Return how a node treats a whole completion as text, or asks for its type; empty when it does neither."""
    if isinstance(node, ast.Compare):
        inside = any(isinstance(operator, ast.In | ast.NotIn) for operator in node.ops)
        whole = any(isinstance(side, ast.Name) and side.id in items for side in node.comparators)
        looked_for = source(node.left).strip("'\"")
        return f"'{looked_for}' in completion" if inside and whole else ""
    if not isinstance(node, ast.Call):
        return ""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    if isinstance(owner, ast.Name) and owner.id in items and isinstance(node.func, ast.Attribute):
        return f"completion.{node.func.attr}()" if node.func.attr in _TEXT_METHODS else ""
    whole = any(isinstance(argument, ast.Name) and argument.id in items for argument in node.args)
    called = source(node.func)
    if whole and called == "isinstance":
        return "isinstance(completion, ...)"
    if whole and (called.startswith("re.") or called.rpartition(".")[2] in _PATTERN_METHODS):
        return f"re.{called.rpartition('.')[2]}(pattern, completion)"
    return ""


def _reads_column(node: ast.AST, extra: str | None) -> bool:
    if isinstance(node, ast.Subscript):
        return _is_content(node) or _named(node.value, extra)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "get" and _named(node.func.value, extra)
    return False


def _named(node: ast.expr, name: str | None) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_content(node: ast.Subscript) -> bool:
    return isinstance(node.slice, ast.Constant) and node.slice.value == "content"


def _returns(definition: FunctionNode) -> str:
    """Return the returned expression where every return statement of the function itself is a plain literal."""
    own: list[ast.expr | None] = []
    stack: list[ast.AST] = list(definition.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Return):
            own.append(node.value)
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return "a generator"
        stack.extend(ast.iter_child_nodes(node))
    if not own:
        return "None (no return statement)"
    if all(isinstance(value, ast.Constant | ast.Dict | ast.DictComp) for value in own):
        return "; ".join(dict.fromkeys(source(value) for value in own if value is not None))
    single = own[0]
    return source(single) if len(own) == 1 and single is not None and _is_plain_list(single) else ""


def _is_plain_list(node: ast.expr) -> bool:
    """Return whether an expression is a list of one item, or one that repeats a constant."""
    if isinstance(node, ast.ListComp):
        return isinstance(node.elt, ast.Constant)
    repeated = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else node
    return isinstance(repeated, ast.List) and len(repeated.elts) == 1
