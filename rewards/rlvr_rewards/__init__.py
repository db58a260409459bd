"""Verifiers for reinforcement learning from verifiable rewards. Imports with nothing else installed."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "Completion",
    "Composite",
    "Exact",
    "Format",
    "Judge",
    "JudgeClient",
    "LengthPenalty",
    "Math",
    "MissingExtraError",
    "NotCalibratedError",
    "Reason",
    "Reward",
    "RewardError",
    "RewardHarnessError",
    "RewardRowError",
    "RewardSpecError",
    "RewardWiringError",
    "Row",
    "RowProblem",
    "Schema",
    "SoftOverlong",
    "ToolCall",
    "UnitTest",
    "Verdict",
    "after_thinking",
    "build",
    "calibrate",
    "digest",
    "grade_all",
    "new_reward",
    "reward_names",
    "source_files",
    "text_of",
]

_HOME = {
    "Composite": "_composite",
    "Exact": "_exact",
    "Format": "_format",
    "Judge": "_judge",
    "JudgeClient": "_judge",
    "LengthPenalty": "_length",
    "Math": "_math",
    "Schema": "_schema",
    "SoftOverlong": "_length",
    "ToolCall": "_tool_call",
    "UnitTest": "unit_test",
    "after_thinking": "_text",
    "build": "spec",
    "calibrate": "_judge.calibration",
    "digest": "spec",
    "grade_all": "_batch",
    "new_reward": "_scaffold",
    "reward_names": "spec",
    "source_files": "spec",
    "text_of": "_text",
}

if TYPE_CHECKING:
    from rlvr_rewards._batch import grade_all
    from rlvr_rewards._composite import Composite
    from rlvr_rewards._core import (
        Completion,
        MissingExtraError,
        NotCalibratedError,
        Reason,
        Reward,
        RewardError,
        RewardHarnessError,
        RewardRowError,
        RewardSpecError,
        RewardWiringError,
        Row,
        RowProblem,
        Verdict,
    )
    from rlvr_rewards._exact import Exact
    from rlvr_rewards._format import Format
    from rlvr_rewards._judge import Judge, JudgeClient
    from rlvr_rewards._judge.calibration import calibrate
    from rlvr_rewards._length import LengthPenalty, SoftOverlong
    from rlvr_rewards._math import Math
    from rlvr_rewards._scaffold import new_reward
    from rlvr_rewards._schema import Schema
    from rlvr_rewards._text import after_thinking, text_of
    from rlvr_rewards._tool_call import ToolCall
    from rlvr_rewards.spec import build, digest, reward_names, source_files
    from rlvr_rewards.unit_test import UnitTest


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME.get(name, '_core')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
