"""Whole numbers of a config.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory.checks import integer

MAX_SIZE = 10_000_000


@dataclass(frozen=True)
class Sizes:
    """Whole numbers of a config, each under the first of its names that is given."""

    config: Mapping[str, Any]
    where: str

    def __call__(self, *keys: str, default: int | None = None, minimum: int = 1) -> int:
        """Return a size.

        Raises:
            InputError: it is missing and has no default, or is no whole number.
        """
        for key in keys:
            if self.config.get(key) is not None:
                return integer(self.config[key], f"{self.where}: {key}", minimum=minimum, maximum=MAX_SIZE)
        if default is None:
            raise InputError(
                f"'{keys[0]}' is missing", where=self.where, remedy="Give the whole config.json of the model."
            )
        return default
