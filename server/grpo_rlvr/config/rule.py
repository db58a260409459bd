"""What a rule is: one decorated function that answers pass, fail or not applicable."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from packaging.specifiers import SpecifierSet

from grpo_rlvr.config.versions import release
from grpo_rlvr.models.common import Severity

# What a rule may ask for by parameter name; the engine passes only those.
INPUTS = ("config", "setup", "facts", "versions", "batch", "table")


@dataclass(frozen=True, slots=True)
class Pass:
    """The pattern is not there."""


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The rule cannot judge; the reason says what is missing or why it does not concern this config."""

    reason: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The pattern is there.

    `set` and `unset` are the fix as data (top-level kwargs only); `safe` holds for that fix.
    """

    fields: tuple[str, ...]
    message: str
    value: Any = None
    set: Mapping[str, Any] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    safe: bool = False


Outcome = Pass | NotApplicable | Fail | Sequence[Fail]
PASS = Pass()


def fail(
    *fields: str,
    message: str,
    value: Any = None,
    set: Mapping[str, Any] | None = None,
    unset: Sequence[str] = (),
    safe: bool = False,
) -> Fail:
    """Return a failure that names `fields` (kwargs or dotted setup paths), the main one first."""
    return Fail(tuple(fields), message, value, dict(set or {}), tuple(unset), safe)


def not_applicable(reason: str) -> NotApplicable:
    """Return the third answer, with its reason."""
    return NotApplicable(reason)


@dataclass(frozen=True)
class Example:
    """A config with its setup, as data; the documentation and a test are made from it."""

    config: Mapping[str, Any] = field(default_factory=dict)
    setup: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Rule:
    """A check with everything that its page says.

    `trl` is a version range such as `>=0.18,<1.10`; releases are compared, so that 0.18.0.dev0 counts as 0.18.
    `requires` names rules that must not have failed: one cause makes one finding.
    """

    id: str
    severity: Severity
    trl: str
    what: str
    why: str
    bad: Example
    good: Example
    sources: tuple[str, ...]
    requires: tuple[str, ...]
    run: Callable[..., Outcome]
    asks: tuple[str, ...]
    family: str
    fix_safety: str

    def holds_for(self, version: str) -> bool:
        """Return whether the rule speaks about this TRL version."""
        return not self.trl or SpecifierSet(self.trl).contains(release(version))

    @property
    def doc(self) -> str:
        """Page and anchor, relative to the project root."""
        return f"references/rules/{self.family}.md#{self.id}"


def rule(
    id: str,
    *,
    severity: Severity,
    what: str,
    why: str,
    bad: Example,
    good: Example,
    sources: Sequence[str],
    trl: str = "",
    requires: Sequence[str] = (),
    fix_safety: str = "",
) -> Callable[[Callable[..., Outcome]], Rule]:
    """Turn a function into a rule of the family its module is named after.

    Raises:
        TypeError: the function asks for something that the engine does not have.
    """

    def decorate(function: Callable[..., Outcome]) -> Rule:
        asks = tuple(inspect.signature(function).parameters)
        if unknown := set(asks) - set(INPUTS):
            raise TypeError(f"rule {id} asks for {sorted(unknown)}, known inputs are {INPUTS}")
        family = function.__module__.rpartition(".")[2].replace("_", "-")
        return Rule(
            id, severity, trl, what, why, bad, good, tuple(sources), tuple(requires), function, asks, family, fix_safety
        )

    return decorate
