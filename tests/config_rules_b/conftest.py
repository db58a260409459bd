"""Helpers of the rule tests: one line a check."""

from collections.abc import Callable
from typing import Any

import pytest

from grpo_rlvr.config import check
from grpo_rlvr.models.check import Finding
from grpo_rlvr.models.setup import parse_setup

Findings = Callable[..., list[Finding]]


@pytest.fixture
def findings() -> Findings:
    """Return a function that gives the findings for a config and a setup."""

    def run(config: dict[str, Any], setup: dict[str, Any], trl: str = "1.16.0") -> list[Finding]:
        return check({"per_device_train_batch_size": 8, **config}, parse_setup(setup), trl_version=trl).findings

    return run
