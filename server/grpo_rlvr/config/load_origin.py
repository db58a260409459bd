"""Whose GRPOConfig a script calls: TRL's, one made from it, or a class of that name of another trainer."""

import ast

from grpo_rlvr.config.load_evaluate import source
from grpo_rlvr.config.load_python import Source, origin
from grpo_rlvr.errors import InputError

# Packages whose GRPOConfig is TRL's or made from it, and trainers that have a class of that name of their own.
PASSING_ON = frozenset({"trl", "unsloth", "open_r1"})
OTHER_TRAINERS = frozenset(
    ["tunix", "verl", "nemo_rl", "openrlhf", "areal", "skyrl_train", "torchtune", "prime_rl", "rlinf", "slime", "roll"]
)


def refuse_repeated(script: Source, call: ast.Call) -> None:
    """Refuse a call that gives a keyword twice: Python does so when it compiles the file, `ast` does not.

    Raises:
        InputError: a keyword is repeated.
    """
    seen: set[str] = set()
    for keyword in call.keywords:
        if keyword.arg in seen:
            raise InputError(
                f"not valid Python: keyword argument {keyword.arg} is repeated at line {keyword.value.lineno}",
                where=script.name,
                remedy="Keep one of them.",
            )
        seen.add(keyword.arg or "")


def notes_on_origin(script: Source, call: ast.Call) -> list[str]:
    """Return a note where GRPOConfig comes from a module that is not known to pass on TRL's own class.

    Raises:
        InputError: it is a class of its own, of this file or of another trainer.
    """
    if isinstance(call.func, ast.Name):
        found = script.names.module.lookup(call.func.id)
        definition = found[1][-1].definition if found else None
        if isinstance(definition, ast.ClassDef) and not any("Config" in source(base) for base in definition.bases):
            raise InputError(
                f"{call.func.id} at line {definition.lineno} is a class of this file, not TRL's GRPOConfig",
                where=script.name,
                remedy="This checks TRL configs only.",
            )
    module = origin(script, call.func).rpartition(".")[0]
    root = module.partition(".")[0].lower()
    if root.startswith("mlx") or root in OTHER_TRAINERS:
        raise InputError(
            f"GRPOConfig at line {call.lineno} comes from {module}, not from TRL",
            where=script.name,
            remedy="This checks TRL configs only.",
        )
    if root and root not in PASSING_ON and root != "grpoconfig":
        return [f"GRPOConfig comes from {module} and is judged as TRL's: options of its own are called unknown."]
    return []
