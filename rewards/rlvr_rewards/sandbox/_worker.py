"""The worker: reads requests, forks one child a program, and answers with what came out. Runs inside the boundary.

It never holds a sample: it reads a small header, forks, and the child reads its own payload from the request stream.
What comes out of a child passes through one buffer that is wiped before the next fork: else a program could search the
memory it inherits for what an earlier, correct program answered.
What it needs arrives over stdin as source text, so nothing of the grader lies in a file a program could read.

Frames. Request: u32 length, header `{"mode", "limits", "sizes"}`, then the payloads, one a child.
Answer: u32 and u32 lengths, header `{"status", "exit", "cpu_s", "peak_kb", ...}`, then the bytes of the result pipe.
"""

import builtins
import contextlib
import ctypes
import gc
import json
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from rlvr_rewards.sandbox import _candidate, _kernel

DEVICES = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"]
MAX_OPEN_FILES = 64
MAX_FILE_MB = 4
MAX_PROCESSES = 64
STRAY_WRITER_S = 0.05
QUIET_MS = 5
# The ruleset is kept here while the other descriptors of a child are closed.
_RULESET_FD, _SCRATCH_FD = 100, 200


class Worker:
    """One worker process.

    Args:
        config: `read_only` (paths), `landlock` (bool), `uid` (int or None), `user_namespace` (bool), `packages`
            (folders with installed packages), `preload` (modules to import once).
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.requests, self.answers = os.dup(0), os.dup(1)
        self.null = os.open("/dev/null", os.O_RDWR)
        os.dup2(self.null, 0)
        os.dup2(self.null, 1)
        self.uid = config["uid"] if _can_run_as(config["uid"]) else None
        # Where neither a uid of its own nor a user namespace bounds the count, threads would be counted per user.
        self.bounded = self.uid is not None or config["user_namespace"]
        self.ruleset = -1
        abi = _kernel.landlock_abi()
        if config["landlock"]:
            if not abi:
                raise OSError("Landlock is not available")
            self.ruleset = _kernel.landlock_ruleset(config["read_only"], DEVICES, abi)
        self.buffer = bytearray()
        self.filter = _kernel.Filter(threads=self.bounded)
        self.facts = {"landlock_abi": abi, "uid": self.uid, "threads": self.bounded, "pid": os.getpid()}

    def serve(self) -> NoReturn:
        """Answer requests until the other end is closed."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)  # as in a fresh program; the children inherit it
        _kernel.prctl(_kernel.PR_SET_DUMPABLE, 0)  # no ptrace and no /proc/PID/mem by processes of the same uid
        _kernel.prctl(_kernel.PR_SET_CHILD_SUBREAPER, 1)
        _kernel.drop_bounding_set()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        gc.collect()
        gc.freeze()
        self._answer({"status": "ready", **self.facts}, memoryview(b""))
        while True:
            (size,) = struct.unpack("<I", self._read(4))
            header = json.loads(self._read(size))
            answer, filled = self._run(header)
            self._answer(answer, memoryview(self.buffer)[:filled])
            ctypes.memset((ctypes.c_char * filled).from_buffer(self.buffer), 0, filled)

    # -- one request -------------------------------------------------------------------------------------------------

    def _run(self, header: dict[str, Any]) -> tuple[dict[str, Any], int]:
        limits, sizes, started = header["limits"], header["sizes"], time.monotonic()
        results, to_results = os.pipe()
        helpers: list[int] = []
        if header["mode"] == "values":
            main = self._spawn(_candidate.run_calls, sizes[0], limits, [to_results])
        elif header["mode"] == "stdio":
            main = self._spawn(_candidate.run_program, sizes[0], limits, [], output=to_results)
        else:
            from rlvr_rewards.sandbox import _objects, _tester  # only the workers for tests have them

            ours, theirs = socket.socketpair()
            helpers.append(self._spawn(_objects.serve_objects, sizes[0], limits, [theirs.fileno()]))
            theirs.close()
            main = self._spawn(_tester.run, sizes[1], limits, [ours.fileno(), to_results], extra=(helpers[0],))
            ours.close()
        os.close(to_results)
        status, filled = self._collect(main, results, started, limits)
        os.close(results)
        return self._finish(main, helpers, status, started, limits), filled

    def _collect(self, main: int, results: int, started: float, limits: dict[str, Any]) -> tuple[str, int]:
        """Read the result pipe into the buffer until the child has ended, up to the wall and output limits."""
        watched = os.pidfd_open(main)
        poller = select.poll()
        poller.register(watched, select.POLLIN)
        if not poller.poll(QUIET_MS):  # most programs end at once: let them, instead of waking up for every line
            poller.register(results, select.POLLIN)
        poller.register(self.requests, 0)  # only hang-up: the client has gone
        view, filled = memoryview(self._room(limits["output_kb"] << 10)), 0
        end, open_ends = started + limits["wall_s"], {results, watched}
        try:
            while open_ends:
                wait = end - time.monotonic()
                if wait <= 0:
                    return ("timeout" if watched in open_ends else "ok"), filled
                for ready, _ in poller.poll(wait * 1000):
                    if ready == self.requests:
                        self._abandon(main)
                    elif ready == results and (taken := os.readv(results, [view[filled : filled + 65536]])):
                        filled += taken
                        if filled == len(view):
                            return "output", filled
                    else:
                        poller.unregister(ready)
                        open_ends.discard(ready)
                        if ready == watched:
                            end = min(end, time.monotonic() + STRAY_WRITER_S)
                            poller.register(results, select.POLLIN)
            return "ok", filled
        finally:
            os.close(watched)

    def _room(self, size: int) -> bytearray:
        """Return the buffer, all zero, with at least that many bytes."""
        if len(self.buffer) != size + 1:
            self.buffer = bytearray(size + 1)
        return self.buffer

    def _finish(
        self, main: int, helpers: list[int], status: str, started: float, limits: dict[str, Any]
    ) -> dict[str, Any]:
        for pid in (main, *helpers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _, code, usage = os.wait4(main, 0)
        cpu, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss
        helper_exit = None
        for pid in helpers:
            _, helper_code, usage = os.wait4(pid, 0)
            helper_exit = os.waitstatus_to_exitcode(helper_code)
            cpu, peak = cpu + usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss)
        exit_code = os.waitstatus_to_exitcode(code)
        if status == "ok" and exit_code < 0 and cpu >= limits["cpu_s"]:
            status = "timeout"
        wall = time.monotonic() - started
        return {"status": status, "exit": exit_code, "helper_exit": helper_exit, "wall_s": round(wall, 5),
                "cpu_s": round(cpu, 5), "peak_kb": peak}  # fmt: skip

    def _abandon(self, main: int) -> NoReturn:
        with contextlib.suppress(ProcessLookupError):
            os.kill(main, signal.SIGKILL)
        os._exit(0)  # the children's parent-death signal, or the end of the pid namespace, takes the rest

    # -- one child -----------------------------------------------------------------------------------------------------

    def _spawn(
        self,
        run: Callable[..., None],
        size: int,
        limits: dict[str, Any],
        keep: list[int],
        output: int | None = None,
        extra: tuple[int, ...] = (),
    ) -> int:
        """Fork a child that reads its payload of `size` bytes, gives up everything and then runs."""
        receipt, to_receipt = os.pipe()
        pid = os.fork()
        if pid:
            os.close(to_receipt)
            received = os.read(receipt, 1)
            os.close(receipt)
            if received != b"k":
                os._exit(3)  # the position in the stream is unknown: end, and be started anew
            return pid
        code = 1
        try:
            payload = json.loads(self._read(size))
            os.write(to_receipt, b"k")
            stdin = _memory_file(payload.pop("stdin").encode()) if "stdin" in payload else self.null
            descriptors = self._keep_only(keep, stdin, self.null if output is None else output)
            os.chdir("/")
            random.seed(0)
            self._harden(limits)
            run(payload, *descriptors, *extra)
            code = 0
        except SystemExit as leaving:
            code = _candidate.exit_status(leaving)
        except BaseException:
            code = 1
        finally:
            os._exit(code)

    def _keep_only(self, keep: list[int], stdin: int, output: int) -> list[int]:
        """Leave 0, 1, 2 and the kept descriptors from 3 on; close every other one."""
        os.dup2(stdin, 0)
        os.dup2(output, 1)
        os.dup2(self.null, 2)
        moved = [os.dup2(descriptor, _SCRATCH_FD + place) for place, descriptor in enumerate(keep)]
        first_free = _RULESET_FD
        if self.ruleset >= 0:
            os.dup2(self.ruleset, _RULESET_FD)
            first_free += 1
        for place, descriptor in enumerate(moved):
            os.dup2(descriptor, 3 + place)
        os.closerange(3 + len(moved), _RULESET_FD)
        os.closerange(first_free, os.sysconf("SC_OPEN_MAX"))
        return [3 + place for place in range(len(moved))]

    def _harden(self, limits: dict[str, Any]) -> None:
        for kind, value in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_AS, limits["memory_mb"] << 20),
            (resource.RLIMIT_CPU, limits["cpu_s"]),
            (resource.RLIMIT_FSIZE, MAX_FILE_MB << 20),
            (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
        ):
            hard = resource.getrlimit(kind)[1]
            bound = value if hard < 0 else min(value, hard)
            resource.setrlimit(kind, (bound, bound))
        if self.bounded:
            resource.setrlimit(resource.RLIMIT_NPROC, (MAX_PROCESSES, MAX_PROCESSES))
        if self.uid is not None:
            _become(self.uid)
        _kernel.prctl(_kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        _kernel.prctl(_kernel.PR_SET_NO_NEW_PRIVS, 1)
        if self.ruleset >= 0:
            _kernel.landlock_restrict(_RULESET_FD)
            os.close(_RULESET_FD)
        _kernel.drop_capabilities()
        _kernel.prctl(_kernel.PR_SET_DUMPABLE, 0)
        self.filter.load()

    # -- the streams ---------------------------------------------------------------------------------------------------

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = os.read(self.requests, size - len(data))
            if not chunk:
                os._exit(0)
            data += chunk
        return data

    def _answer(self, header: dict[str, Any], data: memoryview) -> None:
        head = json.dumps(header).encode()
        for view in (memoryview(struct.pack("<II", len(head), len(data)) + head), data):
            while view:
                view = view[os.write(self.answers, view) :]


def _memory_file(content: bytes) -> int:
    descriptor = os.memfd_create("stdin")
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _can_run_as(uid: int | None) -> bool:
    """Return whether the standard library is still readable under that uid; a prefix below root's home is not."""
    if uid is None:
        return False
    pid = os.fork()
    if not pid:
        readable = False
        with contextlib.suppress(BaseException):
            _become(uid)
            with open(os.__file__, "rb") as module:  # noqa: PTH123 - pathlib would be imported for this alone
                readable = bool(module.read(1))
        os._exit(0 if readable else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def main(config: dict[str, Any]) -> NoReturn:
    """Import what programs commonly use, then serve."""
    import _sitebuiltins  # the interpreter runs without `site`, which would otherwise add these

    for name in ("quit", "exit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    sys.path.extend(config["packages"])
    for name in (*COMMON_MODULES, *(MODULES_FOR_TESTS if config["tests"] else ()), *config["preload"]):
        __import__(name)
    Worker(config).serve()


# Imported once a worker instead of once a program. Few: the cost of every fork grows with the size of the worker.
COMMON_MODULES = (
    "bisect", "collections", "copy", "datetime", "functools", "heapq", "itertools", "json", "math", "operator",
    "random", "re", "string", "typing",
)  # fmt: skip
MODULES_FOR_TESTS = (
    "abc", "ast", "asyncio", "dataclasses", "decimal", "enum", "fractions", "inspect", "io", "numbers", "statistics",
    "textwrap", "traceback", "unittest", "unittest.mock",
)  # fmt: skip
