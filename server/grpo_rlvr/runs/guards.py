"""What halts a run: numbers that can no longer teach anything. Standard library only."""

from __future__ import annotations

import math
from typing import Any

WATCHED = ("loss", "grad_norm", "reward", "kl", "entropy")


class Guards:
    """Looks at each log and says why to halt, if so.

    Args:
        settings: `nan` (bool), `constant_reward_logs` and `truncated_logs` (logs in a row, or None for never).
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.nan = bool(settings.get("nan", True))
        self.constant_limit = settings.get("constant_reward_logs")
        self.truncated_limit = settings.get("truncated_logs")
        self.constant, self.truncated = 0, 0
        self.reward: float | None = None

    def look(self, logs: dict[str, Any]) -> str:
        """Return why to halt after this log, empty when there is no reason."""
        return self._look_nan(logs) or self._look_constant(logs) or self._look_truncated(logs)

    def _look_nan(self, logs: dict[str, Any]) -> str:
        if not self.nan:
            return ""
        for name in WATCHED:
            value = _number(logs.get(name))
            if value is not None and not math.isfinite(value):
                return f"{name} is {value}; look at the learning rate, the precision and the rewards"
        return ""

    def _look_constant(self, logs: dict[str, Any]) -> str:
        reward, spread = _number(logs.get("reward")), _number(logs.get("frac_reward_zero_std"))
        if reward is None or spread is None:
            return ""
        same = spread == 1.0 and (self.reward is None or reward == self.reward)
        self.constant = self.constant + 1 if same else int(spread == 1.0)
        self.reward = reward
        if self.constant_limit and self.constant >= self.constant_limit:
            return (
                f"every completion got the reward {reward:g} in {self.constant} logs in a row, so there was no "
                "gradient; look at the reward on sampled completions"
            )
        return ""

    def _look_truncated(self, logs: dict[str, Any]) -> str:
        clipped = _number(logs.get("completions/clipped_ratio"))
        if clipped is None:
            return ""
        self.truncated = self.truncated + 1 if clipped == 1.0 else 0
        if self.truncated_limit and self.truncated >= self.truncated_limit:
            return (
                f"every completion was cut off in {self.truncated} logs in a row; raise max_completion_length, or "
                "teach the model to end first"
            )
        return ""


def _number(value: Any) -> float | None:
    if hasattr(value, "item"):
        value = value.item()
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
