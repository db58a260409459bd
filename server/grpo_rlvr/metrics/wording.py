"""Changes and conditions in the names of the trainer that the log is from."""

from typing import Any

from grpo_rlvr.metrics.aliases import ALIASES
from grpo_rlvr.metrics.context import Context
from grpo_rlvr.metrics.dialects import stated, translate
from grpo_rlvr.metrics.remedies import REMEDIES, SOFT_PENALTY
from grpo_rlvr.metrics.variants import Change, Recipe, change_for
from grpo_rlvr.models.recommend import Label, Remedy

_TRLS = "arguments are in TRL's names, while the log is another framework's"


def whose(c: Context) -> str:
    """The trainer in whose names arguments are given: TRL's where no others are known."""
    return c.dialect.trainer if c.dialect else "trl"


def told(c: Context, **arguments: Any) -> str:
    """TRL's arguments as text in the names of the trainer in use, empty when it has none of them."""
    options = translate(c.dialect, arguments)[0] if c.dialect else arguments
    return ", ".join(f"{name}={value!r}" for name, value in options.items())


def option_name(argument: str, c: Context) -> str:
    """The name of one of TRL's arguments in the trainer in use, TRL's own where no other is known."""
    return c.dialect.names.get(argument, argument) if c.dialect else argument


def column_name(quantity: str, trls: str, c: Context) -> str:
    """The column of a quantity in the trainer in use; TRL's name for it, said to be that, where none is known."""
    if c.is_trl or " " in trls:
        return trls
    own = [alias.name for alias in ALIASES if alias.framework == c.trainer and alias.quantity == quantity]
    return own[0] if own else f"{trls} (TRL's name)"


def reuse(c: Context) -> str:
    """What to set so that a batch is used for more than one update."""
    if not c.dialect:
        return "set num_iterations=2 or steps_per_generation = 4 x gradient_accumulation_steps"
    return f"set {c.dialect.reuse}" if c.dialect.reuse else "let a batch be used for several updates"


def changes(recipe: Recipe, c: Context) -> Change:
    """What a recipe changes for this run; against TRL's defaults only where it is TRL that runs."""
    if not c.dialect:
        return change_for(recipe, dict(c.given) if c.is_trl else {}, c.trl)
    options, lost = translate(c.dialect, recipe.kwargs)
    already = {name: value for name, value in options.items() if stated(c.named, name) == value}
    to_set = {name: value for name, value in options.items() if name not in already}
    return Change(to_set, already, tuple(lost))


def conditions_of(recipe: Recipe, c: Context) -> list[str]:
    """What has to hold for a recipe to act, and what it costs, as far as it is true of the trainer in use."""
    if not c.dialect:
        return [*recipe.effective_if, *recipe.costs, *recipe.lacks, *([] if c.is_trl else [_TRLS])]
    dialect = c.dialect
    conditions = [f"names are those of {dialect.read_in}: look whether your version has them"]
    if recipe.name in ("dapo", "gspo"):
        conditions.append(f"it acts only off-policy: {reuse(c).removeprefix('set ')}")
    if recipe.name == "dapo":
        penalty = f": {dialect.overlong}" if dialect.overlong else ""
        sampling = f": {dialect.sampling}" if dialect.sampling else ""
        conditions.append(f"a reward for length near the cap belongs to it{penalty}")
        conditions.append(f"dynamic sampling is the largest step of the paper{sampling}")
        return conditions
    lacks = [] if recipe.name == "gspo" else recipe.lacks  # what TRL lacks, another trainer may have
    return [*conditions, *recipe.effective_if[1:], *recipe.costs, *lacks]


def remedies_for(label: Label, c: Context) -> list[Remedy]:
    """What to do about a label in the trainer in use: `check_config` knows TRL's configs alone."""
    if c.is_trl:
        return list(REMEDIES[label])
    return [_elsewhere(remedy, c) for remedy in REMEDIES[label]]


def _elsewhere(remedy: Remedy, c: Context) -> Remedy:
    tool = "" if remedy.tool == "check_config" else remedy.tool
    if not c.dialect:
        return remedy.model_copy(update={"tool": tool})
    action = remedy.action
    if action == SOFT_PENALTY:
        action = "Add a soft penalty near the cap" + (f": {c.dialect.overlong}." if c.dialect.overlong else ".")
    options, lost = translate(c.dialect, remedy.kwargs)
    if lost:
        action += f" (No option of {c.trainer} is known here for {', '.join(lost)}.)"
    return Remedy(action=action, tool=tool, kwargs=options)
