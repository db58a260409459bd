"""A training script or notebook read with `ast`: the GRPOConfig call and what stands around it. Nothing is executed."""

import ast
import json
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_rlvr.config.load_evaluate import Evaluator, Unreadable, source
from grpo_rlvr.config.load_names import Names
from grpo_rlvr.config.load_unpack import entries_of, filled_dict, unconditional
from grpo_rlvr.errors import InputError

_OTHER_CONFIGS = frozenset(
    [
        "SFTConfig", "DPOConfig", "PPOConfig", "RLOOConfig", "KTOConfig", "RewardConfig", "ORPOConfig", "CPOConfig",
        "BCOConfig", "GKDConfig", "OnlineDPOConfig", "NashMDConfig", "XPOConfig", "PRMConfig", "DistillationConfig",
        "AsyncGRPOConfig",
    ]
)  # fmt: skip
_PARSERS = frozenset({"TrlParser", "HfArgumentParser"})
_MAGIC = re.compile(r"\s*(%|!|\?)|.*\?\s*\Z")


@dataclass
class Source:
    """A parsed script: its tree, its names, the calls in it, and the folder whose modules it may import."""

    tree: ast.Module
    names: Names
    evaluator: Evaluator
    name: str
    calls: list[ast.Call] = field(default_factory=list)
    folder: Path | None = None

    def called(self, wanted: frozenset[str]) -> list[ast.Call]:
        """Return the calls of any of the wanted names, import aliases and local subclasses included, in order."""
        return [call for call in self.calls if self.callee(call) in wanted or self._base(call.func) & wanted]

    def callee(self, call: ast.Call) -> str:
        """Return the last part of the called name, import aliases resolved."""
        return origin(self, call.func).rpartition(".")[2]

    def _base(self, func: ast.expr) -> set[str]:
        if not isinstance(func, ast.Name):
            return set()
        found = self.names.module.lookup(func.id)
        definition = found[1][-1].definition if found else None
        if not isinstance(definition, ast.ClassDef):
            return set()
        return {source(base).rpartition(".")[2] for base in definition.bases}


@dataclass
class PythonConfig:
    """What the GRPOConfig call of a script says."""

    source: Source
    call: ast.Call
    config: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)


def origin(script: Source, node: ast.expr) -> str:
    """Return the dotted name of an expression with its import alias resolved, `` when it is no plain name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        # Classes kept in a dict under their own names, as in deps["GRPOConfig"].
        return ".".join([node.slice.value, *reversed(parts)])
    if not isinstance(node, ast.Name):
        return parts[0] if len(parts) == 1 else ".".join(reversed(parts))
    found = script.names.module.lookup(node.id)
    scope = script.names.scope_of.get(node)
    found = (scope.lookup(node.id) if scope is not None else None) or found
    module = found[1][-1].module if found else None
    return ".".join([module if module and not module.startswith(".") else node.id, *reversed(parts)])


def parse_python(text: str, name: str) -> Source:
    """Parse a script.

    Raises:
        InputError: a syntax error, with its line; or nested too deep for the parser.
    """
    try:
        with warnings.catch_warnings():
            # A suspicious escape in somebody's script is no matter of ours.
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        names = Names(tree)
    except SyntaxError as error:
        detail = f": {error.text.strip()[:60]}" if error.text else ""
        raise InputError(
            f"not valid Python: {error.msg} at line {error.lineno}{detail}",
            where=name,
            remedy="Mend it there; the file is read, never run.",
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(
            f"Python that cannot be parsed ({type(error).__name__}: nested too deep, or a null byte)", where=name
        ) from None
    script = Source(tree, names, Evaluator(names), name)
    script.calls = sorted(
        (node for node in names.scope_of if isinstance(node, ast.Call)), key=lambda call: (call.lineno, call.col_offset)
    )
    return script


def read_config(script: Source) -> PythonConfig:
    """Read the one GRPOConfig call of a script.

    Raises:
        InputError: there is none, or several and nothing says which one trains.
    """
    call = _choose(script)
    result = PythonConfig(script, call)
    if len(call.args) > 1:
        result.unread["**positional"] = "GRPOConfig gets more than one positional argument"
    named = [(name, default) for name, default in subclass_fields(script, call).items() if default is not None]
    named += [("output_dir", call.args[0])] if call.args else []
    for keyword in call.keywords:
        if keyword.arg is not None:
            named.append((keyword.arg, keyword.value))
        else:
            _unpack(script, keyword.value, result)
    for field_name, value in named:
        _read_field(script, field_name, value, result)
    _later_changes(script, call, result)
    return result


def subclass_fields(script: Source, call: ast.Call) -> dict[str, ast.expr | None]:
    """Return the fields that a dataclass of this file, called as the config, adds or gives another default."""
    found = script.names.module.lookup(call.func.id) if isinstance(call.func, ast.Name) else None
    definition = found[1][-1].definition if found else None
    if not isinstance(definition, ast.ClassDef):
        return {}
    # Without the decorator the class keeps the __init__ of TRL's, which does not look at them.
    if not any("dataclass" in source(decorator) for decorator in definition.decorator_list):
        return {}
    fields: dict[str, ast.expr | None] = {}
    for item in definition.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            fields[item.target.id] = _default(item.value)
    return fields


def _default(value: ast.expr | None) -> ast.expr | None:
    if isinstance(value, ast.Call) and source(value.func).rpartition(".")[2] == "field":
        return next((keyword.value for keyword in value.keywords if keyword.arg == "default"), value)
    return value


def _choose(script: Source) -> ast.Call:
    calls = script.called(frozenset({"GRPOConfig"}))
    if len(calls) > 1:
        used = [call for call in (_config_of(script, trainer) for trainer in trainers(script)) if call is not None]
        calls = used if used else calls
    unique = list({id(call): call for call in calls}.values())
    if not unique:
        raise _absent(script)
    if len(unique) > 1:
        places = ", ".join(str(call.lineno) for call in unique[:6])
        raise InputError(
            f"{len(unique)} GRPOConfig calls at lines {places}, and nothing says which one is meant",
            where=script.name,
            remedy="Give a file with one, or the wanted arguments as JSON.",
        )
    return unique[0]


def _absent(script: Source) -> InputError:
    parsers = script.called(_PARSERS)
    if parsers:
        return InputError(
            f"no GRPOConfig(...) call: line {parsers[0].lineno} reads the arguments from a command line or YAML file",
            where=script.name,
            remedy="Give that YAML file, or the arguments as JSON.",
        )
    others = script.called(_OTHER_CONFIGS)
    if others:
        return InputError(
            f"no GRPOConfig(...) call, but {script.callee(others[0])} at line {others[0].lineno}",
            where=script.name,
            remedy="This checks GRPO configs only.",
        )
    return InputError(
        "no GRPOConfig(...) call found",
        where=script.name,
        remedy="Give the file that makes the config, or its arguments as JSON.",
    )


def trainers(script: Source) -> list[ast.Call]:
    """Return the GRPOTrainer calls of a script."""
    return script.called(frozenset({"GRPOTrainer"}))


TRAINER_PARAMETERS = (
    "model", "reward_funcs", "args", "train_dataset", "eval_dataset", "processing_class", "reward_processing_classes",
    "callbacks", "optimizers", "peft_config",
)  # fmt: skip


def argument(call: ast.Call, name: str) -> ast.expr | None:
    """Return an argument of a GRPOTrainer call, given by keyword or by position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    position = TRAINER_PARAMETERS.index(name) if name in TRAINER_PARAMETERS else len(call.args)
    return call.args[position] if position < len(call.args) else None


def _config_of(script: Source, trainer: ast.Call) -> ast.Call | None:
    node = argument(trainer, "args")
    configs = script.called(frozenset({"GRPOConfig"}))
    if isinstance(node, ast.Name):
        scope = script.names.scope_of.get(node)
        found = scope.lookup(node.id) if scope is not None else None
        values = [binding.value for binding in found[1] if binding.line <= trainer.lineno] if found else []
        node = values[-1] if values else None
    return node if isinstance(node, ast.Call) and any(node is call for call in configs) else None


def _unpack(script: Source, value: ast.expr, result: PythonConfig) -> None:
    if isinstance(value, ast.Name) and value.id in script.names.mutated:
        filled = filled_dict(script.names, value, value.lineno)
        for entry in filled or []:
            _read_field(script, entry.key, entry.value, result)
            if not entry.certain:
                result.config.pop(entry.key, None)
                result.unread[entry.key] = f"line {entry.value.lineno} may set it to {source(entry.value)}"
        if filled is not None:
            return
    literal = value
    if isinstance(value, ast.Name):
        scope = script.names.scope_of.get(value)
        found = scope.lookup(value.id) if scope is not None else None
        if found and len(found[1]) == 1 and found[1][0].value is not None and value.id not in script.names.mutated:
            literal = found[1][0].value
    pairs = entries_of(literal)
    if pairs:
        for name, item in pairs:
            _read_field(script, name, item, result)
        return
    try:
        unpacked = script.evaluator.value(value)
    except Unreadable as error:
        result.unread[f"**{source(value)}"] = str(error)
        return
    if not isinstance(unpacked, dict):
        result.unread[f"**{source(value)}"] = "it is no dict"
        return
    for name, item in unpacked.items():
        result.config[name] = item
        result.lines[name] = value.lineno


def _read_field(script: Source, name: str, value: ast.expr, result: PythonConfig) -> None:
    result.lines[name] = value.lineno
    result.config.pop(name, None)
    result.unread.pop(name, None)
    try:
        result.config[name] = script.evaluator.value(value)
    except Unreadable as error:
        result.unread[name] = str(error)
        if isinstance(value, ast.Dict) or (isinstance(value, ast.Call) and source(value.func) == "dict"):
            _read_partly(script, name, value, result)


def _read_partly(script: Source, name: str, value: ast.expr, result: PythonConfig) -> None:
    # A dict such as model_init_kwargs with one unreadable entry: what can be read is kept, the entry is named.
    entries: list[tuple[str | None, ast.expr]] = []
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            known = isinstance(key, ast.Constant) and isinstance(key.value, str)
            entries.append((str(key.value) if known and isinstance(key, ast.Constant) else None, item))
    elif isinstance(value, ast.Call):
        entries = [(keyword.arg, keyword.value) for keyword in value.keywords]
    if any(key is None for key, _ in entries):
        return
    kept: dict[str, Any] = {}
    del result.unread[name]
    for entry, item in entries:
        try:
            kept[str(entry)] = script.evaluator.value(item)
        except Unreadable as error:
            result.unread[f"{name}.{entry}"] = str(error)
    result.config[name] = kept


def _later_changes(script: Source, call: ast.Call, result: PythonConfig) -> None:
    """Apply `args.field = value` statements on the config's variable; those in a branch make the field unreadable."""
    holder = next(
        (
            (name, scope)
            for scope in script.names.scopes.values()
            for name, bindings in scope.names.items()
            if any(binding.value is call for binding in bindings)
        ),
        None,
    )
    if holder is None:
        return
    name, scope = holder
    straight = {id(statement) for statement in unconditional(getattr(scope.node, "body", []))}
    for statement in ast.walk(scope.node):
        if not isinstance(statement, ast.Assign | ast.AugAssign) or statement.lineno <= call.lineno:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == name:
                if isinstance(statement, ast.Assign) and id(statement) in straight:
                    _read_field(script, target.attr, statement.value, result)
                else:
                    result.config.pop(target.attr, None)
                    result.lines[target.attr] = statement.lineno
                    result.unread[target.attr] = f"line {statement.lineno} may set it to {source(statement.value)}"


@dataclass
class Notebook:
    """The code cells of a notebook as one text; `starts` holds the first line of each code cell in it."""

    text: str
    starts: tuple[tuple[int, int], ...]


def notebook_text(text: str, name: str) -> Notebook:
    """Join the code cells of a notebook, with shell and magic lines blanked.

    Raises:
        InputError: not a notebook, or one without code cells.
    """
    try:
        value = json.loads(text)
        cells = value["cells"] if "cells" in value else value["worksheets"][0]["cells"]
        codes = [
            (number, cell.get("source", cell.get("input", "")))
            for number, cell in enumerate(cells, start=1)
            if cell.get("cell_type") == "code"
        ]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise InputError(
            f"not a notebook ({type(error).__name__}: {str(error)[:80]})",
            where=name,
            remedy="Give a valid .ipynb file.",
        ) from None
    if not codes:
        raise InputError("a notebook without code cells", where=name, remedy="Give the one that makes the config.")
    lines: list[str] = []
    starts: list[tuple[int, int]] = []
    for number, code in codes:
        joined = "".join(map(str, code)) if isinstance(code, list) else str(code)
        starts.append((len(lines) + 1, number))
        cell_magic = joined.lstrip().startswith("%%") and not joined.lstrip().startswith(("%%time", "%%capture"))
        lines += ["" if cell_magic or _MAGIC.match(line) else line for line in joined.split("\n")]
    return Notebook("\n".join(_unbroken(lines)), tuple(starts))


def _unbroken(lines: list[str]) -> list[str]:
    # A blanked `!pip` line may have been the only body of a block; `pass` keeps the block valid.
    result = list(lines)
    for index, line in enumerate(lines):
        if line.rstrip().endswith(":") and index + 1 < len(lines) and lines[index + 1] == "":
            following = next((item for item in lines[index + 1 :] if item.strip()), "")
            indent = len(line) - len(line.lstrip())
            if len(following) - len(following.lstrip()) <= indent:
                result[index + 1] = " " * (indent + 4) + "pass"
    return result
