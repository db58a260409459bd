"""Starts children: each reads its own payload, gives up everything, and only then runs what it is for."""

import contextlib
import marshal
import os
import resource
import select
from collections.abc import Callable
from typing import Any

from rlvr_rewards.sandbox import _candidate, _kernel

DEVICES = ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"]
MAX_OPEN_FILES = 64
MAX_FILE_MB = 4
MAX_PROCESSES = 64
# The worker's own descriptors start here; below are those of one sample.
_FIRST_OWN, _SCRATCH = 32, 48

Limits = tuple[int, int]  # processor seconds, address space in MB


class Start:
    """What a worker holds to start children with.

    Args:
        config: See `_worker.Worker`.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        null = os.open("/dev/null", os.O_RDWR)
        abi = _kernel.landlock_abi()
        ruleset = -1
        if config["landlock"]:
            if not abi:
                raise OSError("Landlock is not available")
            ruleset = _kernel.landlock_ruleset(config["read_only"], DEVICES, abi)
        receipt, to_receipt = os.pipe()
        os.set_blocking(receipt, False)
        own = iter(range(_FIRST_OWN, _SCRATCH))
        self.requests, self.answers = (_move(descriptor, next(own)) for descriptor in (0, 1))
        self.receipt, self.to_receipt = _move(receipt, next(own)), _move(to_receipt, next(own))
        self.ruleset = _move(ruleset, next(own)) if ruleset >= 0 else -1
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        self.uid = config["uid"] if _can_run_as(config["uid"]) else None
        # Where neither a uid of its own nor a user namespace bounds the count, threads would be counted per user.
        self.bounded = self.uid is not None or config["user_namespace"]
        self.seal = _kernel.Seal(self.ruleset, threads=self.bounded)
        self.facts = {"landlock_abi": abi, "uid": self.uid, "threads": self.bounded, "pid": os.getpid()}

    def bind_worker(self) -> None:
        """Give up in the worker what it needs no more itself; its children never have it."""
        os.chdir("/")
        _kernel.prctl(_kernel.PR_SET_DUMPABLE, 0)  # no ptrace and no /proc/PID/mem by processes of the same uid
        _kernel.prctl(_kernel.PR_SET_CHILD_SUBREAPER, 1)
        _kernel.prctl(_kernel.PR_SET_NO_NEW_PRIVS, 1)
        _kernel.drop_bounding_set()
        for kind, most in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
        ):
            resource.setrlimit(kind, _at_most(kind, most))
        self._file_size = _at_most(resource.RLIMIT_FSIZE, MAX_FILE_MB << 20)

    # -- in the worker -------------------------------------------------------------------------------------------------

    def read(self, size: int) -> bytes:
        """Read that many bytes of the request stream; end when the client has gone."""
        data = os.read(self.requests, size)
        while len(data) < size:
            chunk = os.read(self.requests, size - len(data))
            if not chunk:
                os._exit(0)
            data += chunk
        return data

    def await_receipt(self, seconds: float = 0.0) -> None:
        """Make sure that the latest child has read its payload."""
        if seconds:
            waiting = select.poll()
            waiting.register(self.receipt, select.POLLIN)
            waiting.poll(seconds * 1000)
        try:
            received = os.read(self.receipt, 1)
        except BlockingIOError:
            received = b""
        if received != b"k":
            os._exit(3)  # the position in the stream is unknown: end, and be started anew

    def child(
        self,
        run: Callable[..., None],
        size: int,
        limits: Limits,
        keep: tuple[int, ...],
        output: int | None = None,
        extra: tuple[int, ...] = (),
    ) -> int:
        """Fork a child that reads its payload of `size` bytes, gives up everything and then runs.

        Args:
            run: Called with the payload, the numbers of the kept descriptors, and `extra`.
            size: Bytes of the payload.
            limits: What bounds it.
            keep: Descriptors that it keeps, as 3, 4, ...
            output: Its standard output, if it has one.
            extra: Further arguments.

        Returns:
            The child's process number.
        """
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            payload = marshal.loads(self.read(size))
            os.write(self.to_receipt, b"k")
            self._keep_only(keep, payload.pop("stdin", None), output)
            self._give_up(limits, 3 + len(keep))
            run(payload, *range(3, 3 + len(keep)), *extra)
            code = 0
        except SystemExit as leaving:
            code = _candidate.exit_status(leaving)
        except BaseException:
            code = 1
        finally:
            os._exit(code)

    # -- in the child --------------------------------------------------------------------------------------------------

    def _keep_only(self, keep: tuple[int, ...], stdin: str | None, output: int | None) -> None:
        """Put what is kept at 0, 1, 2 and from 3 on, and nothing of the worker's own: flags, locks and owners of a
        descriptor that two samples share would pass from one to the other.
        """
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null if stdin is None else _memory_file(stdin.encode()), 0)
        os.dup2(null if output is None else output, 1)
        os.dup2(null, 2)
        for place, descriptor in enumerate(keep):
            os.dup2(descriptor, _SCRATCH + place)
        for place in range(len(keep)):
            os.dup2(_SCRATCH + place, 3 + place)

    def _give_up(self, limits: Limits, first_free: int) -> None:
        cpu_s, memory_mb = limits
        resource.setrlimit(resource.RLIMIT_AS, _at_most(resource.RLIMIT_AS, memory_mb << 20))
        resource.setrlimit(resource.RLIMIT_CPU, _at_most(resource.RLIMIT_CPU, cpu_s))
        resource.setrlimit(resource.RLIMIT_FSIZE, self._file_size)
        if self.bounded:
            resource.setrlimit(resource.RLIMIT_NPROC, (MAX_PROCESSES, MAX_PROCESSES))
        if self.uid is not None:
            _become(self.uid)
        self.seal.narrow()
        if os.getppid() != self.facts["pid"]:
            os._exit(1)  # the worker ended before its end could end this process too
        os.closerange(first_free, MAX_OPEN_FILES)
        self.seal.close()


def _at_most(kind: int, most: int) -> tuple[int, int]:
    """Return a limit as it can be set, soft and hard: no higher than the hard limit already is."""
    hard = resource.getrlimit(kind)[1]
    bound = most if hard < 0 else min(most, hard)
    return bound, bound


def _move(descriptor: int, number: int) -> int:
    """Give a descriptor another number."""
    os.dup2(descriptor, number, inheritable=False)
    os.close(descriptor)
    return number


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
