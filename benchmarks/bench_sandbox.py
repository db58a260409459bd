"""Speed of the unit_test reward, as ratios in one run: against pytest a sample, a bare forkserver, and a GRPO step.

Run: python benchmarks/bench_sandbox.py [--gradings N]. Prints one JSON object; exit code 1 when a limit is broken. With
`--gradings 100000` it also states how memory grows over that many gradings.

What it is compared with, all on the same program and the same three asserts:

- pytest a sample: `python -m pytest -q FILE` in a process of its own, once with the plugins that are installed here and
  once with none. The limit applies to the faster of the two.
- a bare forkserver: the smallest server that does the same duty without protection. One process with the same modules
  loaded reads a program and its asserts from a pipe, forks a child that runs both, waits for its verdict on a pipe for
  at most ten seconds, kills and reaps it, and answers on a pipe. The program sees its asserts there and could forge the
  verdict; the limit applies to it all the same.
- the same worker without hardening: the reward's own worker with everything that protects taken out.
"""

import argparse
import ast
import gc
import itertools
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlvr_rewards.sandbox import _advice, _jobs, _judge, _launch, _plan, _pool
from rlvr_rewards.unit_test import UnitTest

PROGRAM = "def common(a, b):\n    return tuple(sorted(set(a) & set(b)))\n"
ASSERTS = [
    "assert common((3, 4, 5, 6), (5, 7, 4, 10)) == (4, 5)",
    "assert common((1, 2, 3, 4), (5, 4, 3, 7)) == (3, 4)",
    "assert common((11, 12, 14, 13), (13, 15, 14, 12)) == (12, 13, 14)",
]
TESTS = "\n".join(ASSERTS)
PYTEST = "from candidate import common\n\ndef test_common():\n" + "".join(f"    {line}\n" for line in ASSERTS)
SCRIPT = "a, b = map(int, input().split())\nprint(a + b)\n"
BATCH, STEP_S = 512, 20.0
ROUNDS, SLICE_S = 12, 0.3  # short slices, so that a busy moment of the machine meets all ways
LIMIT_PYTEST, LIMIT_FORKSERVER = 60.0, 0.6


def pytest_once(folder: Path, plugins: bool) -> int:
    """Grade one sample as the common reward does: a file of tests, pytest in a process of its own."""
    (folder / "candidate.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "test_candidate.py").write_text(PYTEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "test_candidate.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    if not plugins:
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    subprocess.run(command, capture_output=True, check=True, cwd=folder, env=environment)
    return 1


FORKSERVER = """
import base64, ctypes, gc, json, os, resource, select, signal, struct, sys, time
for name in sys.argv[1].split(","): __import__(name)
def read(n):
    data = b""
    while len(data) < n:
        chunk = os.read(0, n - len(data))
        if not chunk: os._exit(0)
        data += chunk
    return data
gc.collect()
gc.freeze()
while True:
    body = read(struct.unpack("<I", read(4))[0])
    results, to_results = os.pipe()
    pid = os.fork()
    if not pid:
        request = json.loads(body)
        try:
            space = {}
            exec(request["code"], space)
            exec(request["tests"], space)
            os.write(to_results, b"1")
        except BaseException:
            os.write(to_results, b"0")
        os._exit(0)
    os.close(to_results)
    verdict = os.read(results, 1) if select.select([results], [], [], 10)[0] else b"0"
    os.close(results)
    os.kill(pid, signal.SIGKILL)
    os.wait4(pid, 0)
    os.write(1, verdict or b"0")
"""


def bare_pool() -> _pool.Pool:
    """Return a pool of the reward's own workers with everything that protects taken out, for honest programs only.

    Its workers are the forkserver that the reward would be without hardening: no bubblewrap, children that keep all.
    """
    pool = _pool.Pool(_launch.LEVELS[-1], 1)
    command, sources = _pool.command, _pool.worker_sources

    def bare_sources(kind: _launch.Kind) -> list[list[str]]:
        return [[name, text.replace("self._give_up(limits, 3 + len(keep))", "pass")] for name, text in sources(kind)]

    def bare_command(*arguments: Any) -> _launch.Command:
        made = command(*arguments)
        made.config.update(landlock=False, uid=None)
        return made

    _pool.command, _pool.worker_sources = bare_command, bare_sources
    try:
        pool.run([one_grading()])
    finally:
        _pool.command, _pool.worker_sources = command, sources
    return pool


def one_grading() -> Any:
    """Return what a pool drives for one sample."""
    plan = _plan.plan("assert", TESTS)
    return _judge.grade(PROGRAM, plan, _judge.Options(_jobs.Limits()))


def with_pool(pool: _pool.Pool, size: int = 16) -> int:
    """Grade a batch on a pool."""
    assert all(outcome.how == "passed" for outcome in pool.run(one_grading() for _ in range(size)))
    return size


def modules_loaded_once() -> tuple[str, ...]:
    """Return what a worker for programs imports before it forks, read from its source."""
    source = Path(_pool.__file__).with_name("_worker.py").read_text(encoding="utf-8")
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "COMMON_MODULES":
            found: tuple[str, ...] = ast.literal_eval(node.value)
            return found
    raise LookupError("COMMON_MODULES")


class Forkserver:
    """The bare forkserver, one process."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", "-c", FORKSERVER, ",".join(modules_loaded_once())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def grade(self) -> bool:
        """Grade one sample."""
        assert self.process.stdin and self.process.stdout
        body = json.dumps({"code": PROGRAM, "tests": TESTS}).encode()
        self.process.stdin.write(struct.pack("<I", len(body)) + body)
        return self.process.stdout.read(1) == b"1"


def rate(action: Callable[[], int], seconds: float = SLICE_S) -> float:
    """Return how many samples a second an action grades; it says how many it graded."""
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        done += action()
    return done / (time.perf_counter() - start)


def with_reward(reward: UnitTest, program: str, tests: Any, size: int = 16) -> int:
    """Grade a batch and make sure that all of it was right."""
    assert reward([program] * size, tests=[tests] * size) == [1.0] * size
    return size


def rates() -> dict[str, float]:
    """Return samples a second of every way, one worker each, interleaved: the upper quartile of all slices."""
    one = UnitTest(workers=1)
    tester, script = UnitTest(workers=1, style="pytest"), UnitTest(workers=1, style="io")
    server, bare, cases = Forkserver(), bare_pool(), [{"stdin": "1 2\n", "stdout": "3\n"}]
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, Callable[[], int]] = {
            "pytest a sample, plugins as installed": lambda: pytest_once(Path(folder), plugins=True),
            "pytest a sample, no plugins": lambda: pytest_once(Path(folder), plugins=False),
            "bare forkserver": lambda: int(server.grade()),
            "same worker without hardening": lambda: with_pool(bare),
            "asserts (values)": lambda: with_reward(one, PROGRAM, TESTS),
            "pytest tests (split)": lambda: with_reward(tester, PROGRAM, PYTEST),
            "scripts (stdio)": lambda: with_reward(script, SCRIPT, cases),
        }
        for action in ways.values():
            action()
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, action in ways.items():
                found[name].append(rate(action))
    bare.close()
    server.process.kill()
    server.process.wait()
    return {name: statistics.quantiles(values, n=4)[2] for name, values in found.items()}


def batch_seconds() -> dict[str, float]:
    """Return the seconds of a whole batch over all processors, for each style."""
    answer = {}
    for style, program, tests in (
        ("assert", PROGRAM, TESTS),
        ("pytest", PROGRAM, PYTEST),
        ("io", SCRIPT, [{"stdin": "1 2\n", "stdout": "3\n"}]),
    ):
        reward = UnitTest(style=style)
        with_reward(reward, program, tests)
        start = time.perf_counter()
        with_reward(reward, program, tests, BATCH)
        answer[style] = time.perf_counter() - start
    return answer


def memory_growth_kb(gradings: int) -> dict[str, Any]:
    """Return by how much this process and the largest worker grow over many gradings, and over each fifth of them."""
    reward, rounds = UnitTest(), max(5, gradings // BATCH)
    with_reward(reward, PROGRAM, TESTS, BATCH)
    start = time.perf_counter()
    sizes = [(resident_kb(os.getpid()), worker_kb())]
    for number in range(1, rounds + 1):
        with_reward(reward, PROGRAM, TESTS, BATCH)
        if number % (rounds // 5) == 0 and len(sizes) < 6:
            gc.collect()
            sizes.append((resident_kb(os.getpid()), worker_kb()))
    seconds = time.perf_counter() - start
    trainer, worker = zip(*sizes, strict=True)
    return {
        "gradings": rounds * BATCH, "per_s": round(rounds * BATCH / seconds, 1), "trainer": trainer[-1] - trainer[0],
        "worker": worker[-1] - worker[0], "trainer_by_fifths": _steps(trainer), "worker_by_fifths": _steps(worker),
    }  # fmt: skip


def _steps(sizes: Sequence[int]) -> list[int]:
    return [after - before for before, after in itertools.pairwise(sizes)]


def resident_kb(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def worker_kb() -> int:
    """Return the resident memory of the largest worker of this process."""
    pids = [worker.process.pid for pool in _pool._pools.values() for worker in pool.workers]
    return max(resident_kb(child) for pid in pids for child in (pid, *children(pid)))


def children(pid: int) -> list[int]:
    """Return the direct children of a process: under bubblewrap the worker is one."""
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]


def main() -> int:
    """Measure and print. Returns 1 when a ratio is under its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gradings", type=int, default=2_000)
    asked = parser.parse_args()
    found, batch = rates(), batch_seconds()
    level = UnitTest().grade(PROGRAM, {"tests": TESTS}).detail["level"]
    pytest = max(found[name] for name in found if name.startswith("pytest a sample"))
    values, split = found["asserts (values)"], found["pytest tests (split)"]
    against_pytest, against_forkserver = values / pytest, values / found["bare forkserver"]
    answer = {
        "level": level,
        "processors": _advice.cores(),
        "load": round(os.getloadavg()[0], 2),
        "samples_per_s_one_worker": {name: round(value, 1) for name, value in found.items()},
        "times_pytest_a_sample": round(against_pytest, 1),
        "times_pytest_a_sample_split": round(split / pytest, 1),
        "share_of_bare_forkserver": round(against_forkserver, 2),
        "share_of_same_worker_without_hardening": round(values / found["same worker without hardening"], 2),
        "limits": {"times_pytest_a_sample": LIMIT_PYTEST, "share_of_bare_forkserver": LIMIT_FORKSERVER},
        f"seconds_for_{BATCH}": {name: round(value, 2) for name, value in batch.items()},
        f"share_of_a_{STEP_S:.0f}_s_step": {name: round(value / STEP_S, 3) for name, value in batch.items()},
        "memory_growth_kb": memory_growth_kb(asked.gradings),
    }
    print(json.dumps(answer, indent=2))
    return int(against_pytest < LIMIT_PYTEST or against_forkserver < LIMIT_FORKSERVER)


if __name__ == "__main__":
    raise SystemExit(main())
