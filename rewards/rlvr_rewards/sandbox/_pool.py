"""The client's side: starts workers, hands them programs, and brings back what came out. Each process has its own.

A grading is a generator that yields `Job`s and returns its verdict; `Pool.run` drives many of them over the workers. A
worker that dies is replaced; its job is tried once more, and then counts against the program.
"""

import atexit
import contextlib
import json
import os
import select
import selectors
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rlvr_rewards.sandbox import _wire
from rlvr_rewards.sandbox._errors import SandboxUnavailable
from rlvr_rewards.sandbox._jobs import Grading, Job, Result, T
from rlvr_rewards.sandbox._launch import ENVIRONMENT, Kind, Level, command, start_message, worker_sources

KINDS: tuple[Kind, ...] = ("program", "tests", "rich tests")
TAKES_MS = 200  # a worker at rest takes the next part of a request sooner
START_S = 60.0  # a worker that takes longer to start does not work
GRACE_S = 5.0  # beyond a job's own wall limit, before the worker itself counts as stuck


class Worker:
    """One worker process, driven without ever blocking on it."""

    def __init__(self, level: Level, kind: Kind, index: int, preload: tuple[str, ...]) -> None:
        launch = command(level, kind, index, preload)
        self.kind: Kind = kind
        self.process = subprocess.Popen(
            launch.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT,
            close_fds=True, bufsize=0, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self.stdin, False)
        os.set_blocking(self.stdout, False)
        self.outgoing, self.incoming = bytearray(start_message(worker_sources(kind), launch.config)), bytearray()
        self.deadline = time.monotonic() + START_S

    def submit(self, job: Job) -> None:
        """Send a request; queue what of it the worker does not take soon.

        A program's time runs from when its worker reads of it: what this process does next, such as judging another
        program's answer, must not be taken for the time of one whose request is longer than the pipe.
        """
        self.outgoing += job.frames()
        self.deadline = time.monotonic() + job.limits.wall_s + GRACE_S
        with contextlib.suppress(BrokenPipeError):  # a dead worker is noticed where answers are read
            self.write()
            while self.outgoing and self._takes_more():
                self.write()

    def _takes_more(self) -> bool:
        poller = select.poll()
        poller.register(self.stdin, select.POLLOUT)
        return bool(poller.poll(TAKES_MS))

    def write(self) -> None:
        """Send as much as the worker takes now."""
        with contextlib.suppress(BlockingIOError):
            sent = os.write(self.stdin, self.outgoing[:65536])
            del self.outgoing[:sent]

    def read(self) -> bool:
        """Take what the worker has sent; return False when it has ended."""
        try:
            chunk = os.read(self.stdout, 1 << 20)
        except BlockingIOError:
            return True
        self.incoming += chunk
        return bool(chunk)

    def answer(self) -> Result | None:
        """Return a whole answer once it is there."""
        incoming, start = self.incoming, _wire.ANSWER.size
        if len(incoming) < start:
            return None
        status, code, helper, wall_s, cpu_s, peak_kb, size = _wire.ANSWER.unpack_from(incoming)
        if len(incoming) < start + size:
            return None
        data = bytes(incoming[start : start + size])
        del incoming[: start + size]
        facts = {"wall_s": round(wall_s, 5), "cpu_s": round(cpu_s, 5), "peak_kb": peak_kb}
        if helper != _wire.NO_HELPER:
            facts["helper_exit"] = helper
        return Result(_wire.STATUSES[status], code, data, facts)

    def wait_ready(self) -> dict[str, Any]:
        """Wait until the worker serves, and return its facts.

        Raises:
            SandboxUnavailable: It ended or took too long; the message holds what it said.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self.stdout, selectors.EVENT_READ)
            selector.register(self.stdin, selectors.EVENT_WRITE)
            while (found := self.answer()) is None:
                alive = time.monotonic() < self.deadline
                for key, _ in selector.select(max(0.0, self.deadline - time.monotonic())):
                    try:
                        alive = self._move(key.fd) and alive
                    except OSError:
                        alive = False
                    if not self.outgoing and self.stdin in selector.get_map():
                        selector.unregister(self.stdin)
                    if not alive:
                        break
                if not alive:
                    raise SandboxUnavailable(f"a sandbox worker did not start: {self.last_words()}")
        facts: dict[str, Any] = json.loads(found.data)
        return facts

    def _move(self, descriptor: int) -> bool:
        if descriptor == self.stdout:
            return self.read()
        self.write()
        return True

    def last_words(self) -> str:
        """End the worker and return the end of what it wrote to standard error."""
        self.process.kill()
        self.process.wait()
        assert self.process.stderr
        os.set_blocking(self.process.stderr.fileno(), False)
        text = (self.process.stderr.read() or b"").decode("utf-8", "replace").strip()
        self.close()
        return text[-800:] or "it said nothing"

    def close(self) -> None:
        """End the worker and everything it runs."""
        self.process.kill()
        self.process.wait()
        self.release()

    def release(self) -> None:
        """Close this process's ends of the pipes."""
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            with contextlib.suppress(OSError):
                stream.close()


@dataclass
class _Task:
    """A grading on its way."""

    place: int
    grading: Grading[Any]
    job: Job
    tries: int = 0


class Pool:
    """Workers of one protection level.

    Args:
        level: The level, already probed.
        workers: How many programs run at once.
        preload: Packages that programs may import.
    """

    def __init__(self, level: Level, workers: int, preload: tuple[str, ...] = ()) -> None:
        self.level: Level = level
        self.count, self.preload = workers, preload
        self.workers: list[Worker] = []
        self.lost = 0  # workers that died in use
        self.worker_facts: dict[str, Any] = {}
        self._lock = threading.RLock()  # several threads may grade; they take turns

    def run(self, gradings: Iterable[Grading[T]]) -> list[T]:
        """Drive all gradings to their end; return their results in order.

        Raises:
            SandboxUnavailable: Workers can no longer be started.
        """
        with self._lock:
            results: list[Any] = []
            waiting = deque[_Task]()
            for place, grading in enumerate(gradings):
                results.append(None)
                try:
                    waiting.append(_Task(place, grading, next(grading)))
                except StopIteration as end:
                    results[place] = end.value
            try:
                self._drive(waiting, results)
            except BaseException:
                self.close()  # the streams of interrupted jobs are in an unknown state
                raise
            return results

    def _drive(self, waiting: "deque[_Task]", results: list[Any]) -> None:
        self._start(waiting)
        idle, busy = list(self.workers), dict[Worker, _Task]()
        with selectors.DefaultSelector() as selector:
            while waiting or busy:
                while waiting and len(busy) < self.count:
                    task = waiting.popleft()
                    self._assign(task, self._take(idle, task), busy, selector)
                ended: list[tuple[_Task, Result]] = []
                for worker, result in self._wait(busy, selector):
                    task = busy.pop(worker)
                    if result is None:
                        _forget(selector, worker)
                        worker, result = self._replace(worker), self._lost(task, waiting)
                    if result is not None:
                        ended.append((task, result))
                    if waiting and waiting[0].job.kind == worker.kind:  # keep it busy while the answer is judged
                        self._assign(waiting.popleft(), worker, busy, selector)
                    else:
                        idle.append(worker)
                for task, result in reversed(ended):
                    if self._advance(task, result, results):
                        waiting.appendleft(task)

    @staticmethod
    def _lost(task: "_Task", waiting: "deque[_Task]") -> Result | None:
        """Return what is made of a job whose worker died: nothing yet, while it can be tried again."""
        task.tries += 1
        if task.tries > 1:
            return Result("lost")
        waiting.appendleft(task)
        return None

    def _take(self, idle: list[Worker], task: "_Task") -> Worker:
        """Return an idle worker of the kind that the task needs; one is started when there is none."""
        for worker in reversed(idle):
            if worker.kind == task.job.kind:
                idle.remove(worker)
                return worker
        fresh = Worker(self.level, task.job.kind, len(self.workers), self.preload)
        self.workers.append(fresh)
        self.worker_facts = fresh.wait_ready()
        return fresh

    @staticmethod
    def _advance(task: _Task, result: Result, results: list[Any]) -> bool:
        """Run a grading up to its next job; return False, and keep its result, when it is through."""
        try:
            task.job, task.tries = task.grading.send(result), 0
            return True
        except StopIteration as end:
            results[task.place] = end.value
            return False

    def _assign(self, task: _Task, worker: Worker, busy: dict[Worker, _Task], selector: selectors.BaseSelector) -> None:
        worker.submit(task.job)
        busy[worker] = task
        watched = selector.get_map()
        if worker.stdout not in watched:
            selector.register(worker.stdout, selectors.EVENT_READ, worker)
        if worker.outgoing:
            selector.register(worker.stdin, selectors.EVENT_WRITE, worker)

    def _wait(self, busy: dict[Worker, _Task], selector: selectors.BaseSelector) -> list[tuple[Worker, Result | None]]:
        """Wait for something to happen; return the workers that are through, with None for those that are lost."""
        nearest = min(worker.deadline for worker in busy)
        through: dict[Worker, Result | None] = {}
        for key, _ in selector.select(max(0.0, nearest - time.monotonic())):
            worker: Worker = key.data
            if worker not in busy:  # it died at rest, and is replaced when it is needed
                _forget(selector, worker)
                continue
            try:
                if key.fd == worker.stdin:
                    worker.write()
                    if not worker.outgoing:
                        selector.unregister(worker.stdin)
                elif worker.read():
                    # It answers, if late: perhaps this process was held up.
                    worker.deadline = max(worker.deadline, time.monotonic() + GRACE_S)
                else:
                    through[worker] = None
            except OSError:
                through[worker] = None
            found = worker.answer()
            if found is not None:
                through[worker] = found
        now = time.monotonic()
        through.update({worker: None for worker in busy if worker not in through and now > worker.deadline})
        return list(through.items())

    def _start(self, waiting: "deque[_Task]") -> None:
        """Bring up the workers that the waiting tasks need first; they start side by side."""
        for worker in [worker for worker in self.workers if worker.process.poll() is not None]:
            self.workers.remove(worker)
            worker.close()
        fresh: list[Worker] = []
        try:
            for kind in KINDS:
                wanted = min(self.count, sum(task.job.kind == kind for task in waiting))
                running = sum(worker.kind == kind for worker in self.workers)
                for _ in range(wanted - running):
                    fresh.append(Worker(self.level, kind, len(self.workers) + len(fresh), self.preload))
            for worker in fresh:
                self.worker_facts = worker.wait_ready()
        except BaseException:
            for worker in fresh:
                worker.close()
            raise
        self.workers += fresh

    def _replace(self, worker: Worker) -> Worker:
        self.lost += 1
        place = self.workers.index(worker)
        worker.close()
        fresh = Worker(self.level, worker.kind, place, self.preload)
        self.workers[place] = fresh
        fresh.wait_ready()
        return fresh

    def close(self) -> None:
        """End all workers."""
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.close()

    def forget(self) -> None:
        """In a forked child: let go of the parent's workers without ending them."""
        workers, self.workers = self.workers, []
        self._lock = threading.RLock()
        for worker in workers:
            worker.process.returncode = 0  # not this process's child: its Popen must neither wait nor warn
            worker.release()


def _forget(selector: selectors.BaseSelector, worker: Worker) -> None:
    for descriptor in (worker.stdin, worker.stdout):
        with contextlib.suppress(KeyError, ValueError):
            selector.unregister(descriptor)


_pools: dict[tuple[Level, int, tuple[str, ...]], Pool] = {}
_pools_lock = threading.Lock()


def shared_pool(level: Level, workers: int, preload: tuple[str, ...]) -> Pool:
    """Return this process's pool of that kind."""
    with _pools_lock:
        return _pools.setdefault((level, workers, preload), Pool(level, workers, preload))


def close_all() -> None:
    """End all workers of this process."""
    for pool in list(_pools.values()):
        pool.close()


def _after_fork() -> None:
    global _pools_lock
    _pools_lock = threading.Lock()
    for pool in _pools.values():
        pool.forget()
    _pools.clear()


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
