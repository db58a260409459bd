"""The parsed config as rules read it: given values, defaults of the version, nested values, nothing guessed."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from grpo_rlvr.config.tables import Table

# Since transformers 5.24 the right-hand name is the one that counts where both are set; rules read the older one.
NEWER_NAMES = {
    "gradient_checkpointing": "activation_checkpointing",
    "gradient_checkpointing_kwargs": "activation_checkpointing_kwargs",
}


Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Unknown(Exception):
    """A rule read a value that is not known; the engine turns this into `not applicable` with the reason."""


def judge_each(items: Iterable[Item], judge: Callable[[Item], Answer | None]) -> list[Answer]:
    """Return what `judge` finds, item by item, so that one unknown value does not hide what holds of the others.

    Raises:
        Unknown: nothing was found, and some item could not be judged.
    """
    found, unknown = [], None
    for item in items:
        try:
            answer = judge(item)
        except Unknown as reason:
            unknown = unknown or reason
            continue
        if answer is not None:
            found.append(answer)
    if unknown and not found:
        raise unknown
    return found


class ConfigView:
    """A config with the defaults of its TRL version behind it.

    Reading a value that could not be read statically, or one of the wrong type (reported by a rule of its own), raises
    `Unknown`, so that no rule guesses and one cause makes one finding.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        table: Table,
        *,
        unread: frozenset[str] = frozenset(),
        broken: frozenset[str] = frozenset(),
    ) -> None:
        self.given, self.table, self.unread, self.broken = given, table, unread, broken
        # `**name` in a script: a dict whose keys are unknown may set any option that is not set beside it.
        self.unpacked = next((name for name in sorted(unread) if name.startswith("**")), None)

    def names(self) -> list[str]:
        """Return every kwarg that the config states, also those whose value could not be read."""
        unread = sorted(name for name in self.unread if not name.startswith("**") and "." not in name)
        return [*self.given, *(name for name in unread if name not in self.given)]

    def has(self, name: str) -> bool:
        """Return whether the config states this kwarg itself (also when its value could not be read)."""
        head, _, rest = name.partition(".")
        if head in self.unread or name in self.unread:
            return True
        return head in self.given and (not rest or self._nested(name) is not None)

    def exists(self, name: str) -> bool:
        """Return whether this TRL version has the kwarg."""
        return name in self.table

    def spelled(self, name: str) -> str:
        """Return the name that this config uses for an option that has two."""
        newer = NEWER_NAMES.get(name, name)
        return newer if newer in self.unread or self.given.get(newer) is not None else name

    def effective(self, name: str) -> Any:
        """Return the value in force: given, else the version's default, else None.

        A dotted name such as `model_init_kwargs.dtype` looks inside a dict (or the JSON text of one).

        Raises:
            Unknown: the value could not be read, or has the wrong type.
        """
        head = self.spelled(name.partition(".")[0])
        name = ".".join((head, *name.split(".")[1:]))
        if head in self.unread or name in self.unread:
            raise Unknown(f"the value of {name} could not be read")
        if self.unpacked and head not in self.given:
            raise Unknown(f"{self.unpacked} may set {head}")
        if head in self.broken:
            raise Unknown(f"{head} has a value that is reported on its own")
        if "." in name:
            return self._nested(name)
        value = self.given[name] if name in self.given else self.table.default(name)
        # A switch may be written 0 or 1; rules see false or true.
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return bool(value) if is_number and self.table.is_switch(name) else value

    def number(self, name: str) -> float | None:
        """Return a numeric value in force, None when unset or no number."""
        value = self.effective(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def integer(self, name: str) -> int | None:
        """Return a whole-number value in force, None when unset or no whole number."""
        value = self.effective(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def flag(self, name: str) -> bool:
        """Return whether a switch is on."""
        return bool(self.effective(name))

    def text(self, name: str) -> str | None:
        """Return a text value in force, None when unset or no text."""
        value = self.effective(name)
        return value if isinstance(value, str) else None

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return a dict value in force (JSON text is read), empty when unset."""
        return as_mapping(self.effective(name))

    def _nested(self, name: str) -> Any:
        head, *rest = name.split(".")
        value: Any = as_mapping(self.given.get(head, self.table.default(head)))
        for part in rest:
            if not isinstance(value, Mapping):
                return None
            value = value.get(part)
        return value


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a dict, or the dict in a JSON text as TRL accepts it; empty for anything else."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return {}
        return parsed if isinstance(parsed, dict) else {}
    return {}
