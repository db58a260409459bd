"""Cost of a warm memory estimate, as a multiple of what reading its own answer from JSON takes on the same machine.

Run: python benchmarks/bench_memory.py. Prints one JSON object; exit code 1 when a limit is broken.
"""

import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from grpo_rlvr.memory import estimate, solve
from grpo_rlvr.models.memory import MemoryEstimate
from grpo_rlvr.models.setup import Setup, parse_setup

CALLS = 300
# Milliseconds of a warm call at the median, and how many times the reading of one answer that may be: the second holds
# on a busy machine too.
LIMIT_MS, LIMIT_RATIO = 5.0, 120.0
HEAVY = ("torch", "transformers", "trl", "numpy", "scipy", "matplotlib", "pandas")
RUNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lora, colocate": (
        {"use_vllm": True, "vllm_mode": "colocate", "gradient_accumulation_steps": 4},
        {"model": {"name": "Qwen/Qwen3-8B", "peft": True}, "hardware": {"gpu": "H100"}},
    ),
    "full, zero-3": (
        {"beta": 0.04, "use_vllm": True, "vllm_mode": "server"},
        {"model": {"name": "Qwen/Qwen2.5-32B"}, "hardware": {"gpu": "H100", "gpus": 8}, "launch": {"zero_stage": 3}},
    ),
    "size only": ({}, {"model": {"params_b": 3}}),
}


def timed_ms(work: Callable[[], object], calls: int = CALLS) -> float:
    """Return the median milliseconds of a call, in the process's own time: other load does not count."""
    times = []
    for _ in range(calls):
        start = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - start) / 1e6)
    return median(times)


def measure(config: dict[str, Any], setup: Setup) -> dict[str, float]:
    """Return the costs of one run's estimate."""
    start = time.perf_counter()
    answer = estimate(config, setup)
    cold = (time.perf_counter() - start) * 1e3
    text = answer.model_dump_json()
    reading = timed_ms(lambda: MemoryEstimate.model_validate_json(text))
    warm = timed_ms(lambda: estimate(config, setup))
    return {
        "first_ms": round(cold, 2),
        "warm_p50_ms": round(warm, 3),
        "times_reading_the_answer": round(warm / reading, 1),
        "solve_ms": round(timed_ms(lambda: solve(config, setup), 10), 1),
    }


def main() -> int:
    """Print the measurements and return the exit code."""
    results = {name: measure(config, parse_setup(setup)) for name, (config, setup) in RUNS.items()}
    heavy = sorted(set(HEAVY) & set(sys.modules))
    ratio = max(result["times_reading_the_answer"] for result in results.values())
    slowest = max(result["warm_p50_ms"] for result in results.values())
    ok = not heavy and ratio <= LIMIT_RATIO and slowest <= LIMIT_MS
    print(
        json.dumps(
            {"ok": ok, "limit_ms": LIMIT_MS, "limit_ratio": LIMIT_RATIO, "heavy": heavy, "runs": results}, indent=1
        )
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
