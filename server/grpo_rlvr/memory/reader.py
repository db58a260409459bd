"""Reads values of a config that may be missing: what is stated is checked, what is not takes this TRL's default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory.checks import flag, integer, number
from grpo_rlvr.models.setup import Setup

MAX_BATCH = 1_000_000


@dataclass
class Reader:
    """Reads stated values and remembers the assumed ones."""

    config: Mapping[str, Any]
    setup: Setup
    defaults: Any
    assumed: list[tuple[str, Any, str]] = field(default_factory=list)

    def stated(self, name: str) -> Any:
        """Return a config value, None when it is not stated."""
        return self.config.get(name)

    def default(self, name: str, fallback: Any) -> Any:
        """Return this TRL version's default of a field, `fallback` where it has none."""
        value = self.defaults.default(name)
        return fallback if value is None else value

    def integer(self, name: str, fallback: int, *, minimum: int = 1, maximum: int = MAX_BATCH) -> int:
        """Return a whole number of the config, or its default."""
        value = self.stated(name)
        value = self.default(name, fallback) if value is None else value
        return integer(value, f"config.{name}", minimum=minimum, maximum=maximum)

    def number(self, name: str, fallback: float, *, minimum: float = 0.0, maximum: float | None = None) -> float:
        """Return a number of the config, or its default."""
        value = self.stated(name)
        value = self.default(name, fallback) if value is None else value
        return number(value, f"config.{name}", minimum=minimum, maximum=maximum)

    def flag(self, name: str, fallback: bool) -> bool:
        """Return a boolean of the config, or its default."""
        value = self.stated(name)
        value = self.default(name, fallback) if value is None else value
        return flag(value, f"config.{name}")

    def init_kwargs(self) -> Mapping[str, Any]:
        """Return model_init_kwargs.

        Raises:
            InputError: it is no object.
        """
        value = self.stated("model_init_kwargs") or {}
        if not isinstance(value, Mapping):
            raise InputError(f"must be an object, got {type(value).__name__}", where="config.model_init_kwargs")
        return value

    def assume(self, name: str, value: Any, to_know: str) -> None:
        """Note an input that was not stated."""
        self.assumed.append((name, value, to_know))
