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

        A list with a size for each layer is one size when they are all the same.

        Raises:
            InputError: it is missing and has no default, is no whole number, or differs from layer to layer.
        """
        for key in keys:
            if self.config.get(key) is not None:
                value = self._of_all_layers(key)
                return integer(value, f"{self.where}: {key}", minimum=minimum, maximum=MAX_SIZE)
        if default is None:
            raise InputError(
                f"'{keys[0]}' is missing", where=self.where, remedy="Give the whole config.json of the model."
            )
        return default

    def _of_all_layers(self, key: str) -> Any:
        value = self.config[key]
        if not isinstance(value, list) or not value:
            return value
        if any(other != value[0] for other in value):
            raise InputError(
                f"'{key}' differs from layer to layer, which is not modelled",
                where=self.where,
                remedy="Leave the config out and state model.params_b: a shape of that size is borrowed.",
            )
        return value[0]
