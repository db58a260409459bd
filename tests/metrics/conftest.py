"""Simulated runs: metrics of a healthy run with realistic noise, to which a test adds its own trouble."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Rows = dict[str, Any]


def ar1(rng: np.random.Generator, rows: int, phi: float) -> np.ndarray:
    """Noise of standard deviation 1 whose neighbours correlate by `phi`."""
    shocks = rng.normal(size=rows) * np.sqrt(1 - phi**2)
    values = np.empty(rows)
    values[0] = rng.normal()
    for index in range(1, rows):
        values[index] = phi * values[index - 1] + shocks[index]
    return values


def healthy_run(seed: int, rows: int = 40, drift: float = 0.65, reward_drift: float = 0.0, rise: float = 0.0) -> Rows:
    """TRL columns of a run in which nothing is wrong; `rise` is what the reward gains."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 1, rows)
    return {
        "reward": 0.5 + rise * time + 0.08 * ar1(rng, rows, reward_drift),
        "completions/mean_length": 250 * (1 + 0.12 * ar1(rng, rows, drift)),
        "entropy": np.maximum(0.4 * (1 - 0.4 * time) * (1 + 0.15 * ar1(rng, rows, drift)), 0.02),
        "kl": np.abs(0.03 * time + 0.008 * ar1(rng, rows, 0.5)),
        "grad_norm": 0.3 * np.exp(0.5 * rng.normal(size=rows)),
        "sampling/sampling_logp_difference/mean": 0.007 * np.exp(0.3 * ar1(rng, rows, 0.56)),
        "completions/clipped_ratio": np.clip(0.06 + 0.04 * ar1(rng, rows, drift), 0, 1),
        "frac_reward_zero_std": np.clip(0.4 + 0.1 * rng.normal(size=rows), 0, 1),
        "step": np.arange(1, rows + 1),
    }


def as_rows(columns: Rows) -> list[dict[str, float]]:
    """Columns as the dictionaries that a trainer logs."""
    return [dict(zip(columns, map(float, values), strict=True)) for values in zip(*columns.values(), strict=True)]


def as_console(columns: Rows) -> str:
    """Columns as TRL prints them."""
    return "\n".join(map(str, as_rows(columns)))


@pytest.fixture
def simulate() -> Callable[..., Rows]:
    return healthy_run


@pytest.fixture
def console() -> Callable[[Rows], str]:
    return as_console


@pytest.fixture
def rows_of() -> Callable[[Rows], list[dict[str, float]]]:
    return as_rows


@pytest.fixture
def noise() -> Callable[..., np.ndarray]:
    return ar1
