"""The worker: reads requests, forks one child a program, and answers with what came out. Runs inside the boundary.

It never holds a sample: it reads a small head, forks, and the child reads its own payload from the request stream. What
comes out of a child passes through one buffer that no child inherits: else a program could search its memory for what
an earlier, correct program answered.
What it needs arrives over stdin as source text, so nothing of the grader lies in a file a program could read.

A sample costs little more than the pages that worker and child write after the fork, since each is copied then. Hence
the fixed frames, the objects made once, and the work done before the first fork that every child would repeat.
"""

import builtins
import gc
import json
import mmap
import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

from rlvr_rewards.sandbox import _candidate, _child, _seeded, _wire

QUIET_MS = 5
MAX_READ = 65536
START_S = 5.0  # until a program's process has read its payload


class Worker:
    """One worker process.

    Args:
        config: `read_only` (paths), `landlock` (bool), `uid` (int or None), `user_namespace` (bool), `packages`
            (folders with installed packages), `preload` (modules to import once), `kind`.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.start, self.for_tests = _child.Start(config), config["kind"] != "program"
        self.requests, self.answers = self.start.requests, self.start.answers
        self.poller = select.poll()
        self.buffer = mmap.mmap(-1, MAX_READ)

    def serve(self) -> NoReturn:
        """Answer requests until the other end is closed."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)  # as in a fresh program; the children inherit it
        self.start.bind_worker()
        _candidate.warm_up()
        if self.for_tests:
            from rlvr_rewards.sandbox import _objects, _tester  # only the workers for tests have them

            _objects.warm_up()
            _tester.warm_up()
        gc.collect()
        gc.freeze()
        ready = json.dumps(self.start.facts).encode()
        self._answer((_wire.READY, 0, _wire.NO_HELPER, 0.0, 0.0, 0, len(ready)), memoryview(ready))
        read, unpack, size = self.start.read, _wire.REQUEST.unpack, _wire.REQUEST.size
        while True:
            self._run(*unpack(read(size)))

    # -- one request -------------------------------------------------------------------------------------------------

    def _run(
        self, mode: int, wall_s: float, cpu_s: int, memory_mb: int, output_kb: int, first: int, second: int
    ) -> None:
        started = time.monotonic()
        room = (output_kb << 10) + 1
        if len(self.buffer) != room:
            self.buffer = _unshared(room)
        limits = (cpu_s, memory_mb)
        results, to_results = os.pipe()
        helper = 0
        if mode == _wire.MODES.index("values"):
            main = self.start.child(_candidate.run_calls, first, limits, (to_results,))
        elif mode == _wire.MODES.index("stdio"):
            main = self.start.child(_candidate.run_program, first, limits, (), output=to_results)
        else:
            helper, main = self._split(first, second, limits, to_results)
        os.close(to_results)
        status, filled = self._collect(main, results, started + wall_s)
        os.close(results)
        self._finish(main, helper, status, filled, started, cpu_s)

    def _split(self, first: int, second: int, limits: tuple[int, int], to_results: int) -> tuple[int, int]:
        """Start the program and its tests, each in a process of its own."""
        import socket

        from rlvr_rewards.sandbox import _objects, _tester  # only the workers for tests have them

        ours, theirs = socket.socketpair()
        helper = self.start.child(_objects.serve_objects, first, limits, (theirs.fileno(),))
        theirs.close()
        self.start.await_receipt(START_S)
        main = self.start.child(_tester.run, second, limits, (ours.fileno(), to_results), extra=(helper,))
        ours.close()
        return helper, main

    def _collect(self, main: int, results: int, end: float) -> tuple[int, int]:
        """Read the result pipe into the buffer until the child has ended, up to the wall and output limits."""
        watched, poller = os.pidfd_open(main), self.poller
        poller.register(watched, select.POLLIN)
        try:
            if poller.poll(QUIET_MS):  # most programs end at once: let them, instead of waking up for every line
                return self._rest(results, 0)
            poller.register(results, select.POLLIN)
            poller.register(self.requests, 0)  # only hang-up: the client has gone
            return self._follow(main, watched, results, end)
        finally:
            poller.unregister(watched)
            os.close(watched)

    def _follow(self, main: int, watched: int, results: int, end: float) -> tuple[int, int]:
        """Read what a longer run writes while it writes it."""
        poller, filled, closed = self.poller, 0, False
        try:
            while (wait := end - time.monotonic()) > 0:
                ready = dict(poller.poll(wait * 1000))
                if self.requests in ready:
                    self._abandon(main)
                if watched in ready:
                    return self._rest(results, filled)
                if results in ready:
                    taken = os.readv(results, [memoryview(self.buffer)[filled : filled + MAX_READ]])
                    filled += taken
                    if filled == len(self.buffer):
                        return _wire.OUTPUT, filled
                    if not taken:  # it closed its end, and runs on
                        closed = True
                        poller.unregister(results)
            return _wire.TIMEOUT, filled
        finally:
            poller.unregister(self.requests)
            if not closed:
                poller.unregister(results)

    def _rest(self, results: int, filled: int) -> tuple[int, int]:
        """Read what an ended child left in its pipe, which is all there; never wait for the end of it.

        The other end may be open still: in a program beside it that starts, or under way in a socket the child left.
        """
        left = select.poll()
        left.register(results, select.POLLIN)
        while left.poll(0) and (taken := os.readv(results, [memoryview(self.buffer)[filled:]])):
            filled += taken
            if filled == len(self.buffer):
                return _wire.OUTPUT, filled
        return _wire.OK, filled

    def _finish(self, main: int, helper: int, status: int, filled: int, started: float, cpu_s: int) -> None:
        """Put away what still runs, and answer."""
        for pid in (main, helper):
            if pid:
                os.kill(pid, signal.SIGKILL)  # at least a zombie until it is waited for
        _, code, usage = os.wait4(main, 0)
        cpu, peak, helper_exit = usage.ru_utime + usage.ru_stime, usage.ru_maxrss, _wire.NO_HELPER
        if helper:
            _, helper_code, usage = os.wait4(helper, 0)
            helper_exit = os.waitstatus_to_exitcode(helper_code)
            cpu, peak = cpu + usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss)
        self.start.await_receipt()
        exit_code = os.waitstatus_to_exitcode(code)
        if status == _wire.OK and exit_code < 0 and cpu >= cpu_s:
            status = _wire.TIMEOUT
        wall = time.monotonic() - started
        self._answer((status, exit_code, helper_exit, wall, cpu, peak, filled), memoryview(self.buffer)[:filled])

    def _abandon(self, main: int) -> NoReturn:
        os.kill(main, signal.SIGKILL)
        os._exit(0)  # the children's parent-death signal, or the end of the pid namespace, takes the rest

    def _answer(self, head: tuple[Any, ...], data: memoryview) -> None:
        """Write head and data, without a copy of the data in memory that the next child would inherit."""
        first = memoryview(_wire.ANSWER.pack(*head))
        while first or data:
            sent = os.writev(self.answers, [first, data])
            first, data = first[sent:], data[max(0, sent - len(first)) :]


def _unshared(size: int) -> mmap.mmap:
    """Return memory that no child inherits."""
    made = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    made.madvise(mmap.MADV_DONTFORK)
    return made


def main(config: dict[str, Any]) -> NoReturn:
    """Import what programs commonly use, then serve."""
    import _sitebuiltins  # the interpreter runs without `site`, which would otherwise add these

    for name in ("quit", "exit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    sys.path.extend(config["packages"])
    for name in (*COMMON_MODULES, *MODULES_FOR_TESTS[config["kind"]], *config["preload"]):
        __import__(name)
    _seeded.seed()
    Worker(config).serve()


# Imported once a worker instead of once a program. Few: the cost of every fork grows with the size of the worker.
COMMON_MODULES = (
    "bisect", "collections", "copy", "datetime", "functools", "heapq", "itertools", "json", "math", "operator",
    "random", "re", "string", "typing",
)  # fmt: skip
_TESTERS_OWN = ("contextlib", "dataclasses", "enum", "inspect", "io", "socket", "textwrap", "traceback")
MODULES_FOR_TESTS = {
    "program": (),
    "tests": _TESTERS_OWN,
    "rich tests": (
        *_TESTERS_OWN, "asyncio", "decimal", "fractions", "numbers", "statistics", "unittest", "unittest.mock"
    ),
}  # fmt: skip
