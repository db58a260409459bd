"""Workers live as long as they are needed and no longer, in threads, forks, event loops and other processes."""

import asyncio
import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlvr_rewards import Composite
from rlvr_rewards.sandbox import _launch, _pool, _probe
from rlvr_rewards.sandbox._jobs import Job, Limits
from rlvr_rewards.sandbox._pool import Pool
from rlvr_rewards.unit_test import UnitTest

ROW = {"tests": "assert f(1) == 2\nassert f(5) == 6"}
RIGHT, WRONG = "def f(x): return x + 1", "def f(x): return x"


def script(code: str, wall_s: float = 10.0) -> Any:
    """A grading that runs one program and returns its result."""

    def grading() -> Any:
        result = yield Job("stdio", ({"code": code, "stdin": "", "name": "__main__"},), Limits(wall_s=wall_s))
        return result

    return grading()


def children(pid: int) -> list[int]:
    """Return the direct children of a process, none when it has gone."""
    with contextlib.suppress(OSError):
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]
    return []


def worker_pid(worker: Any) -> int:
    """Return the process that forks the programs: bubblewrap's own process is only its parent."""
    pid: int = worker.process.pid
    under_bwrap = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "bwrap"
    return children(pid)[0] if under_bwrap else pid


def end_worker(worker: Any) -> None:
    """Kill a worker, and with it what it runs."""
    with contextlib.suppress(OSError, IndexError):  # it may be gone already
        os.kill(worker_pid(worker), signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.kill(worker.process.pid, signal.SIGKILL)


def wait_until(condition: Any, seconds: float = 20.0) -> bool:
    """Poll until the condition holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        threading.Event().wait(0.02)
    return False


@pytest.fixture(params=_launch.LEVELS)
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool of one worker, at every level that works here."""
    if _probe.protection(request.param).level is None:
        pytest.fail(f"{request.param} does not work here: {_probe.protection(request.param).tried}")
    made = Pool(request.param, 1)
    yield made
    made.close()


def test_a_worker_outlives_the_thread_that_started_it(pool: Pool) -> None:
    thread = threading.Thread(target=lambda: pool.run([script("print(1)")]))
    thread.start()
    thread.join()
    first = pool.workers[0].process
    assert first.poll() is None
    assert pool.run([script("print(2)")])[0].data == b"2\n"
    assert pool.workers[0].process is first


def test_a_killed_worker_is_replaced_and_its_job_done_again(pool: Pool) -> None:
    pool.run([script("print(1)")])
    end_worker(pool.workers[0])
    pool.workers[0].process.wait()
    assert pool.run([script("print(2)")])[0].data == b"2\n"


def test_a_worker_killed_at_work_costs_one_more_try(pool: Pool) -> None:
    pool.run([script("print(1)")])
    first = pool.workers[0]

    def kill_at_work() -> None:
        if wait_until(lambda: children(worker_pid(first)), 60.0):
            end_worker(first)

    killer = threading.Thread(target=kill_at_work)
    killer.start()
    results = pool.run([script("import time\ntime.sleep(2)\nprint(3)", wall_s=60.0), script("print(4)")])
    killer.join()
    assert [result.data for result in results] == [b"3\n", b"4\n"]
    assert pool.lost == 1


def test_a_job_that_loses_two_workers_counts_against_the_program(pool: Pool) -> None:
    pool.run([script("print(1)")])
    stop = threading.Event()

    def kill() -> None:
        while not stop.wait(0.2):
            for worker in list(pool.workers):
                if worker.deadline > time.monotonic() + _pool.START_S:  # at work on the long job, no longer starting
                    end_worker(worker)

    thread = threading.Thread(target=kill)
    thread.start()
    (result,) = pool.run([script("import time\ntime.sleep(200)", wall_s=900)])
    stop.set()
    thread.join()
    assert result.status == "lost"
    assert pool.lost == 2


def test_a_client_held_up_past_the_deadline_loses_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pool, "GRACE_S", 0.5)
    pool = Pool("landlock+seccomp", 1)

    def slow_to_judge() -> Any:
        yield from script("print(1)")
        threading.Event().wait(2.5)  # the next job is at work meanwhile, and its answer is longer than a pipe holds

    results = pool.run([slow_to_judge(), script("print('x' * 400_000)", wall_s=1.0)])
    lost = pool.lost
    pool.close()
    assert results[1].data == b"x" * 400_000 + b"\n"
    assert lost == 0


def test_the_time_of_a_long_request_does_not_run_while_another_answer_is_judged() -> None:
    pool = Pool("landlock+seccomp", 1)

    def slow_to_judge() -> Any:
        yield from script("print(1)")
        threading.Event().wait(1.5)

    code = f"text = {'x' * 1_000_000!r}\nprint(len(text))"
    results = pool.run([slow_to_judge(), script(code, wall_s=1.0)])
    lost = pool.lost
    pool.close()
    assert (results[1].data, lost) == (b"1000000\n", 0)


def _descriptors() -> int:
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_no_process_and_no_descriptor_is_left_after_closing(pool: Pool) -> None:
    pool.run([script("print(1)")])
    pool.close()
    before = _descriptors()
    pool.run([script("import time; time.sleep(9)", wall_s=0.2), script("print(1)")])
    pid = pool.workers[0].process.pid
    pool.close()
    assert _descriptors() == before
    assert wait_until(lambda: not _alive(pid))


def test_no_program_runs_without_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker is made to end between a fork and the child's wish to end with it."""
    sources = _pool.worker_sources
    forked, sealed = "        if pid:\n            return pid\n", "        self.seal.narrow()\n"
    waits = f"        while os.getppid() == self.facts['pid']:\n            pass\n{sealed}"
    ends = "        if pid:\n            self.await_receipt(9.0)\n            os._exit(0)\n"
    assert all(sum(text.count(part) for _, text in sources("program")) == 1 for part in (forked, sealed))
    monkeypatch.setattr(_pool, "worker_sources", lambda kind: [
        [name, text.replace(forked, ends).replace(sealed, waits)] for name, text in sources(kind)])  # fmt: skip
    sessions, close = set[int](), _pool.Worker.close
    monkeypatch.setattr(_pool.Worker, "close", lambda self: (sessions.add(self.process.pid), close(self)))
    pool = Pool("landlock+seccomp", 1)
    assert pool.run([script("import time\ntime.sleep(60)")])[0].status == "lost"
    pool.close()
    assert len(sessions) == 3
    assert wait_until(lambda: not _lives_in(sessions), 5.0)


def _lives_in(sessions: set[int]) -> bool:
    """Return whether any process is left of those that the sessions' leaders started."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text(encoding="utf-8").rpartition(")")[2].split()[:4]
            if int(session) in sessions and state != "Z":
                return True
    return False


CLIENT = """
import sys
sys.path.insert(0, sys.argv[1])
from rlvr_rewards.sandbox._jobs import Job, Limits
from rlvr_rewards.sandbox._pool import Pool
def grading(code):
    yield Job("stdio", ({"code": code, "stdin": "", "name": "__main__"},), Limits(wall_s=30.0))
pool = Pool(sys.argv[2], 1)
pool.run([grading("print(1)")])
print(pool.workers[0].process.pid, flush=True)
if sys.argv[3] == "busy":
    pool.run([grading("while 1: pass")])
sys.stdin.read()
"""


@pytest.mark.parametrize("state", ["idle", "busy"])
def test_a_worker_ends_when_its_client_is_killed(level: str, state: str) -> None:
    library = str(Path(_pool.__file__).parents[2])
    command = [sys.executable, "-c", CLIENT, library, level, state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as client:
        assert client.stdout
        pid = int(client.stdout.readline())
        threading.Event().wait(0.2)
        assert _alive(pid)
        client.kill()
    assert wait_until(lambda: not _alive(pid), 5.0)


def _alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def test_a_reward_is_pickled_without_its_workers() -> None:
    reward = UnitTest(limit_s=3)
    assert reward([RIGHT, WRONG], tests=[ROW["tests"]] * 2) == [1.0, 0.0]
    twin = pickle.loads(pickle.dumps(reward))
    assert twin.__name__ == reward.__name__
    assert twin([WRONG, RIGHT], tests=[ROW["tests"]] * 2) == [0.0, 1.0]


def test_threads_share_the_pool_without_mixing_answers() -> None:
    reward, found = UnitTest(), {}

    def grade(number: int) -> None:
        tests = [f"assert f() == {number}"] * 4
        found[number] = reward([f"def f(): return {number}", WRONG, f"def f(): return {number + 1}", "x"], tests=tests)

    threads = [threading.Thread(target=grade, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [1.0, 0.0, 0.0, 0.0] for number in range(8)}


def test_it_works_in_an_event_loop() -> None:
    reward = UnitTest()

    async def grade() -> list[list[float | None]]:
        calls = (asyncio.to_thread(reward, [RIGHT, WRONG], tests=[ROW["tests"]] * 2) for _ in range(3))
        return list(await asyncio.gather(*calls))

    assert asyncio.run(grade()) == [[1.0, 0.0]] * 3
    assert reward([RIGHT], tests=[ROW["tests"]]) == [1.0]


def test_a_forked_process_gets_workers_of_its_own() -> None:
    reward = UnitTest()
    assert reward([RIGHT], tests=[ROW["tests"]]) == [1.0]
    mine = {worker.process.pid for pool in _pool._pools.values() for worker in pool.workers}
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            scores = reward([RIGHT, WRONG], tests=[ROW["tests"]] * 2)
            own = {worker.process.pid for pool in _pool._pools.values() for worker in pool.workers}
            os.write(writer, b"fine" if scores == [1.0, 0.0] and not own & mine else b"bad")
            _pool.close_all()
        finally:
            os._exit(0)
    os.close(writer)
    assert os.read(reader, 10) == b"fine"
    os.close(reader)
    os.waitpid(child, 0)
    assert all(_alive(pid) for pid in mine)
    assert reward([RIGHT, WRONG], tests=[ROW["tests"]] * 2) == [1.0, 0.0]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_it_works_in_a_data_loader_worker(method: str) -> None:
    torch_data = pytest.importorskip("torch.utils.data", reason="training packages are part of the test environment")

    loader = torch_data.DataLoader(Graded(), batch_size=2, num_workers=1, multiprocessing_context=method)
    assert [batch.tolist() for batch in loader] == [[1.0, 0.0], [1.0, 0.0]]


class Graded:
    """A data set whose items are scored when they are loaded."""

    def __init__(self) -> None:
        self.reward = Composite(UnitTest())
        self.reward([RIGHT], tests=[ROW["tests"]])

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        (score,) = self.reward([RIGHT if index % 2 == 0 else WRONG], tests=[ROW["tests"]])
        assert score is not None
        return score


@pytest.mark.slow
def test_memory_is_steady_over_a_thousand_gradings() -> None:
    reward = UnitTest()
    completions, tests = [RIGHT, WRONG] * 100, [ROW["tests"]] * 200

    def resident_kb() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4

    reward(completions, tests=tests)
    workers = [worker.process.pid for pool in _pool._pools.values() for worker in pool.workers]
    before, of_workers = resident_kb(), [_resident_of(pid) for pid in workers]
    for _ in range(5):
        reward(completions, tests=tests)
    assert resident_kb() - before < 4_096
    grown = [_resident_of(pid) - size for pid, size in zip(workers, of_workers, strict=True)]
    assert all(size < 1_024 for size in grown), grown


def _resident_of(pid: int) -> int:
    own = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()  # under bubblewrap, the worker
    return max(int(Path(f"/proc/{each}/statm").read_text(encoding="utf-8").split()[1]) * 4 for each in (pid, *own))
