"""Cost of diagnosing a long console log, as a multiple of what `json.loads` takes on the same rows.

Run: python benchmarks/bench_metrics.py [ROWS]. Prints one JSON object; exit code 1 when a limit is broken.
"""

import json
import math
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# 100,000 rows of TRL's 34 columns are about 100 MB.
ROWS = 100_000
LIMIT_TIME, LIMIT_MEMORY_MB = 3.0, 250.0


def row(step: int, rng: random.Random) -> dict[str, float]:
    """One row as TRL 1.16 prints it with vLLM and a reference model."""
    length = 300 + 40 * math.sin(step / 500) + rng.gauss(0, 12)
    reward = min(0.95, 0.3 + 0.5 * step / ROWS) + rng.gauss(0, 0.05)
    values = {
        "loss": rng.gauss(0, 0.01), "grad_norm": rng.lognormvariate(-1, 0.4),
        "learning_rate": 1e-6 * (1 - step / ROWS),
        "num_tokens": float(step * 4096), "completions/mean_length": length,
        "completions/min_length": length * 0.4,
        "completions/max_length": length * 1.8,
        "completions/clipped_ratio": rng.random() * 0.05,
        "completions/mean_terminated_length": length * 0.98,
        "completions/min_terminated_length": length * 0.4,
        "completions/max_terminated_length": length * 1.7, "rewards/accuracy_reward/mean": reward,
        "rewards/accuracy_reward/std": 0.3 + rng.gauss(0, 0.02), "reward": reward,
        "reward_std": 0.3 + rng.gauss(0, 0.02),
        "frac_reward_zero_std": rng.random() * 0.5,
        "sampling/sampling_logp_difference/mean": 0.007 + rng.random() * 0.001,
        "sampling/sampling_logp_difference/max": 0.3 + rng.random() * 0.1,
        "sampling/importance_sampling_ratio/min": 0.5 + rng.random() * 0.1,
        "sampling/importance_sampling_ratio/mean": 1 + rng.gauss(0, 0.01),
        "sampling/importance_sampling_ratio/max": 1.5 + rng.random() * 0.1, "kl": rng.random() * 0.01,
        "entropy": 0.4 + rng.gauss(0, 0.02), "clip_ratio/low_mean": 0.0, "clip_ratio/low_min": 0.0,
        "clip_ratio/high_mean": 0.0, "clip_ratio/high_max": 0.0, "clip_ratio/region_mean": 0.0,
        "step_time": 2 + rng.random(), "epoch": round(step / 1000, 2),
    }  # fmt: skip
    return values


def write_log(path: Path, rows: int) -> list[str]:
    """Write a console log of Python dicts with progress bars between, and return the rows as JSON lines."""
    rng, lines = random.Random(0), []
    with path.open("w", encoding="utf-8") as file:
        for step in range(1, rows + 1):
            values = row(step, rng)
            lines.append(json.dumps(values))
            bar = f"\r  1%|▏         | {step}/{rows} [00:10<03:10,  2.10it/s]" if step % 10 == 0 else ""
            file.write(f"{bar}{values}\n")
    return lines


def measure(path: Path) -> tuple[float, float]:
    """Seconds of a whole diagnosis in a fresh process after its imports, and its peak memory beyond them in MB."""
    # VmHWM belongs to the new process alone; ru_maxrss would carry over what the parent held.
    code = (
        "import json, re, sys, time\n"
        "from pathlib import Path\n"
        "from grpo_rlvr.metrics import recommend\n"
        "recommend('\\n'.join(str({'reward': i % 7, 'step': i}) for i in range(40)))\n"
        "def peak(name='VmHWM'):\n"
        "    return int(re.search(name + r':\\s+(\\d+)', Path('/proc/self/status').read_text()).group(1))\n"
        "base = peak('VmRSS')\n"
        "begun = time.perf_counter()\n"
        "answer = recommend(Path(sys.argv[1]))\n"
        "took = time.perf_counter() - begun\n"
        "print(json.dumps([took, (peak() - base) / 1024, answer.parsed.rows, answer.labels[0].label]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True, encoding="utf-8"
    )
    took, memory, rows, label = json.loads(done.stdout)
    if label != "healthy":
        raise SystemExit(f"the log of a healthy run is called {label} after {rows} rows")
    return float(took), float(memory)


def main(rows: int) -> int:
    """Measure and print; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run with spaces.log"
        lines = write_log(path, rows)
        begun = time.perf_counter()
        for line in lines:
            json.loads(line)
        plain = time.perf_counter() - begun
        took, memory = min(measure(path) for _ in range(3))
        result = {
            "rows": rows, "megabytes": round(path.stat().st_size / 1e6, 1), "json_loads_s": round(plain, 2),
            "diagnosis_s": round(took, 2), "ratio": round(took / plain, 2), "limit": LIMIT_TIME,
            "peak_memory_mb": round(memory, 1), "memory_limit_mb": LIMIT_MEMORY_MB,
        }  # fmt: skip
    print(json.dumps(result))
    return 1 if took / plain > LIMIT_TIME or memory > LIMIT_MEMORY_MB else 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS))
