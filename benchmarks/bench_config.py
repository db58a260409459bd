"""Cost of a warm `check_config` call, against constructing the real GRPOConfig warm and in a fresh process.

Run: python benchmarks/bench_config.py [FOLDER OF CASES]. Prints one JSON object; exit code 1 when the limit is broken.
The training libraries run in child processes; without TRL only our own numbers are printed.
"""

import json
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from grpo_rlvr.config import check
from grpo_rlvr.models.setup import parse_setup

CASES = Path(__file__).resolve().parent.parent / "tests" / "data" / "config"
LIMIT_MS = 5.0
ROUNDS = 20
REAL = (
    "import time, statistics, warnings; warnings.simplefilter('ignore')\n"
    "import transformers.training_args as t; t.is_torch_bf16_gpu_available = lambda: True\n"
    "from trl import GRPOConfig\n"
    "def once():\n"
    "    start = time.perf_counter(); GRPOConfig(output_dir='.'); return time.perf_counter() - start\n"
    "once(); print(statistics.median(once() for _ in range(200)) * 1e3)\n"
)


def cases(folder: Path) -> list[dict[str, Any]]:
    """Return the cases of every JSON Lines file in a folder."""
    lines = [line for file in sorted(folder.rglob("*.jsonl")) for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines if line.strip()]


def warm_calls_ms(judged: list[dict[str, Any]]) -> list[float]:
    """Return the milliseconds of every warm call over all cases, the first round left out."""
    times: list[float] = []
    for number in range(ROUNDS + 1):
        for case in judged:
            start = time.perf_counter()
            check(case["config"], parse_setup(case["context"]))
            if number:
                times.append((time.perf_counter() - start) * 1e3)
    return times


def main() -> int:
    """Measure and print. Returns 1 when the median of a warm call is over the limit."""
    judged = cases(Path(sys.argv[1]) if len(sys.argv) > 1 else CASES)
    times = sorted(warm_calls_ms(judged))
    median = statistics.median(times)
    answer: dict[str, Any] = {
        "cases": len(judged),
        "check_p50_ms": round(median, 3),
        "check_p95_ms": round(times[int(0.95 * len(times))], 3),
        "limit_p50_ms": LIMIT_MS,
    }
    if find_spec("trl"):
        warm = float(subprocess.run([sys.executable, "-c", REAL], capture_output=True, text=True, check=True).stdout)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "from trl import GRPOConfig"], capture_output=True, check=True)
        cold = (time.perf_counter() - start) * 1e3
        answer |= {
            "times_a_warm_grpoconfig": round(median / warm, 2),
            "cold_trl_import_ms": round(cold),
            "cold_import_costs_that_many_checks": round(cold / median),
        }
    print(json.dumps(answer, indent=1))
    return 1 if median > LIMIT_MS else 0


if __name__ == "__main__":
    sys.exit(main())
