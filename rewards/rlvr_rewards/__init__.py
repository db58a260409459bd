"""Verifiers for reinforcement learning from verifiable rewards. Imports with nothing else installed."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "Composite",
    "Exact",
    "Format",
    "Judge",
    "LengthPenalty",
    "Math",
    "MissingExtraError",
    "NotCalibratedError",
    "Reward",
    "RewardError",
    "RewardHarnessError",
    "RewardRowError",
    "RewardSpecError",
    "RewardWiringError",
    "RowProblem",
    "Schema",
    "SoftOverlong",
    "ToolCall",
    "UnitTest",
    "Verdict",
    "build",
    "digest",
    "grade_all",
    "new_reward",
    "reward_names",
    "source_files",
]

_HOME = {
    "Composite": "_composite",
    "Exact": "_exact",
    "Format": "_format",
    "Judge": "_judge",
    "LengthPenalty": "_length",
    "Math": "_math",
    "Schema": "_schema",
    "SoftOverlong": "_length",
    "ToolCall": "_tool_call",
    "UnitTest": "unit_test",
    "build": "spec",
    "digest": "spec",
    "new_reward": "_scaffold",
    "reward_names": "spec",
    "source_files": "spec",
}

if TYPE_CHECKING:
    from rlvr_rewards._core import (
        MissingExtraError,
        NotCalibratedError,
        Reward,
        RewardError,
        RewardHarnessError,
        RewardRowError,
        RewardSpecError,
        RewardWiringError,
        RowProblem,
        Verdict,
        grade_all,
    )
    from rlvr_rewards.spec import build, digest, reward_names, source_files


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME.get(name, '_core')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
