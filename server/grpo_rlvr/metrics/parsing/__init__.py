"""Reading training logs of any framework into named series."""

from pathlib import Path

from grpo_rlvr.metrics.parsing.assemble import ParsedLog, Series
from grpo_rlvr.metrics.parsing.sources import parse

__all__ = ["ParsedLog", "Path", "Series", "parse"]
