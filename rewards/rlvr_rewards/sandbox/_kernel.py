"""What a child gives up before it runs a program: privileges, files, system calls. Only ctypes, only Linux.

This module runs inside the worker. Every function raises OSError when the kernel refuses; the worker then ends instead
of running anything with less protection.
"""

import ctypes
import errno
import os
import signal
import stat
import struct
from typing import Any, NoReturn

from rlvr_rewards.sandbox import _syscalls

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_quick = ctypes.PyDLL(None)  # keeps the interpreter's lock, and does not note errors: for what every child does

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
SECCOMP_MODE_FILTER = 2

# -- small calls ---------------------------------------------------------------------------------------------------


def prctl(option: int, value: int = 0) -> None:
    """Call prctl with one argument."""
    zero = ctypes.c_ulong(0)
    if _libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero) < 0:
        raise _failure(f"prctl {option}")


def drop_bounding_set() -> None:
    """Let nothing that is run from here on gain a capability; what this process holds, it keeps."""
    zero = ctypes.c_ulong(0)
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), zero, zero, zero) < 0:
            return  # past the last capability, or not allowed to: then there is none to keep from a child either


def _failure(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


# -- Landlock: which files can be opened ---------------------------------------------------------------------------

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
# All file rights that a given ABI knows, so that everything not granted is refused.
_HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_RULE_PATH_BENEATH, _VERSION_FLAG = 1, 1


def landlock_abi() -> int:
    """Return the Landlock version of this kernel, 0 when there is none; asks the kernel, not a file."""
    found = _libc.syscall(_syscalls.LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION_FLAG))
    return max(0, int(found))


def landlock_ruleset(read_only: list[str], devices: list[str], abi: int) -> int:
    """Return a ruleset that grants reading below `read_only` and reading and writing `devices`, as a descriptor."""
    handled = _HANDLED[min(abi, 5)]
    network = 3 if abi >= 4 else 0  # bind and connect over TCP
    scoped = 3 if abi >= 6 else 0  # abstract sockets and signals
    size = 8 if abi < 4 else (16 if abi < 6 else 24)
    attributes = struct.pack("<QQQ", handled, network, scoped)[:size]
    ruleset = _libc.syscall(
        _syscalls.LANDLOCK_CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(size), ctypes.c_uint(0)
    )
    if ruleset < 0:
        raise _failure("landlock_create_ruleset")
    for path in read_only:
        _grant(int(ruleset), path, (_READ_FILE | _READ_DIR) & handled)
    for path in devices:
        _grant(int(ruleset), path, (_READ_FILE | _WRITE_FILE) & handled)
    return int(ruleset)


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # nothing there to grant
    try:
        if not stat.S_ISDIR(os.fstat(target).st_mode):
            rights &= _FILE_RIGHTS
        rule = struct.pack("<Qi", rights, target)
        if _libc.syscall(
            _syscalls.LANDLOCK_ADD_RULE,
            ctypes.c_int(ruleset),
            ctypes.c_int(_RULE_PATH_BENEATH),
            ctypes.c_char_p(rule),
            ctypes.c_uint(0),
        ):
            raise _failure(f"landlock_add_rule {path}")
    finally:
        os.close(target)


# -- seccomp: which system calls exist at all ----------------------------------------------------------------------

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_OFFSET_NUMBER, _OFFSET_ARCH = 0, 4
_X32_BIT = 0x40000000
_CLONE_THREAD = 0x00010000
_CLONE_NAMESPACES = 0x7E020000 | 0x00000080
# Patched with the child's own pid just before the filter is loaded: signals reach nobody else.
_PID_MARK = 0x5AA5C33C

_PRCTL_ALLOWED = (15, 16, 3, 0x53564D41)  # set and get the thread name, dumpable, name a memory area
_IOCTL_ALLOWED = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451, 0x5413)  # terminal?, bytes waiting, blocking, cloexec, size

# Copies, flags, locks, the size of a pipe. Neither owners nor leases: with them the kernel sends signals for a program.
_FCNTL_ALLOWED = (*range(8), 1030, 1032)

_Instruction = tuple[int, int, int, int]


def _error(number: int) -> int:
    return 0x00050000 | number


def _argument(index: int, high: bool = False) -> int:
    return 16 + 8 * index + (4 if high else 0)


def _one_of(argument: int, values: tuple[int, ...], refusal: int) -> list[_Instruction]:
    """Allow when the argument's low word is one of the values, else answer with the error."""
    body: list[_Instruction] = [(_LOAD, 0, 0, _argument(argument))]
    for position, value in enumerate(values):
        body.append((_EQUAL, len(values) - position, 0, value))
    return [*body, (_RETURN, 0, 0, _error(refusal)), (_RETURN, 0, 0, _ALLOW)]


def _clone_rules(threads: bool) -> list[_Instruction]:
    refuse = (_RETURN, 0, 0, _error(errno.EPERM))
    if not threads:
        return [refuse]
    return [
        (_LOAD, 0, 0, _argument(0)),
        (_ANY_BIT, 0, 3, _CLONE_THREAD),
        (_ANY_BIT, 0, 1, _CLONE_NAMESPACES),
        refuse,
        (_RETURN, 0, 0, _ALLOW),
        refuse,
    ]


def _conditional(threads: bool) -> dict[str, list[_Instruction]]:
    return {
        "clone": _clone_rules(threads),
        "clone3": [(_RETURN, 0, 0, _error(errno.ENOSYS))],  # its flags lie in memory; libc falls back to clone
        "kill": _one_of(0, (_PID_MARK,), errno.EPERM),
        "tgkill": _one_of(0, (_PID_MARK,), errno.EPERM),
        "tkill": _one_of(0, (_PID_MARK,), errno.EPERM),
        "prctl": _one_of(0, _PRCTL_ALLOWED, errno.EPERM),
        "fcntl": _one_of(1, _FCNTL_ALLOWED, errno.EPERM),
        "ioctl": _one_of(1, _IOCTL_ALLOWED, errno.ENOTTY),
        "socketpair": _one_of(0, (1,), errno.EACCES),  # AF_UNIX, for event loops
        "prlimit64": _one_of(0, (0, _PID_MARK), errno.EPERM),  # its own limits; the hard ones stay
    }


def _program(machine: str, threads: bool) -> list[_Instruction]:
    head: list[_Instruction] = [
        (_LOAD, 0, 0, _OFFSET_ARCH),
        (_EQUAL, 1, 0, _syscalls.AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
    ]
    if machine == "x86_64":
        head += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _error(errno.ENOSYS))]
    return head + _search(_intervals(machine, threads))


_Interval = tuple[int, list[_Instruction]]


def _intervals(machine: str, threads: bool) -> list[_Interval]:
    """Return where, in the order of call numbers, the answer changes, and what it is from there on."""
    column, conditional = (0 if machine == "x86_64" else 1), _conditional(threads)
    refuse: list[_Instruction] = [(_RETURN, 0, 0, _error(errno.EPERM))]
    allow: list[_Instruction] = [(_RETURN, 0, 0, _ALLOW)]
    rules = {
        number: conditional.get(name, allow)
        for name, entry in _syscalls.NUMBERS.items()
        if (number := entry[column]) is not None
    }
    found: list[_Interval] = [(0, rules.get(0, refuse))]
    for number in sorted({*rules, *(number + 1 for number in rules)} - {0}):
        rule = rules.get(number, refuse)
        if rule is not found[-1][1]:
            found.append((number, rule))
    return found


def _search(intervals: list[_Interval]) -> list[_Instruction]:
    """Return a binary search: the kernel walks the filter for every call number when a child loads it."""
    if len(intervals) == 1:
        return intervals[0][1]
    middle = len(intervals) // 2
    below, above = _search(intervals[:middle]), _search(intervals[middle:])
    if len(below) <= 255:
        return [(_AT_LEAST, len(below), 0, intervals[middle][0]), *below, *above]
    raise ValueError("half of the filter is longer than a jump")


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Filter:
    """An allowlist of system calls, built once a worker and loaded in every child.

    Args:
        threads: Whether the child can start threads; off where nothing bounds their number.
    """

    def __init__(self, threads: bool) -> None:
        program = _program(os.uname().machine, threads)
        code = b"".join(struct.pack("<HBBI", *instruction) for instruction in program)
        self._buffer = ctypes.create_string_buffer(code, len(code))
        self.header = _FilterProgram(len(program), ctypes.addressof(self._buffer))
        mark, self._marks = struct.pack("<I", _PID_MARK), []
        position = code.find(mark)
        while position >= 0:
            self._marks.append(position)
            position = code.find(mark, position + 1)

    def name(self, pid: int) -> None:
        """Put in the process that signals may reach: the one that loads the filter."""
        for position in self._marks:
            _WORD.pack_into(self._buffer, position, pid)


_WORD = struct.Struct("<I")


# -- all of it, as a child does it ---------------------------------------------------------------------------------


class Seal:
    """The calls with which a child gives up what is left, made ready once a worker.

    Args:
        ruleset: The Landlock ruleset's descriptor, or -1.
        threads: See `Filter`.
    """

    def __init__(self, ruleset: int, threads: bool) -> None:
        zero, ulong = ctypes.c_ulong(0), ctypes.c_ulong
        self._filter = Filter(threads)
        calls: list[tuple[str, tuple[Any, ...]]] = [
            ("prctl", (ctypes.c_int(PR_SET_PDEATHSIG), ulong(signal.SIGKILL), zero, zero, zero)),
        ]
        if ruleset >= 0:
            restrict = (ulong(_syscalls.LANDLOCK_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint(0))
            calls.append(("syscall", restrict))
        # The capability sets of version 3: a head that names this thread, and six empty words.
        nothing = (ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0), 8), ctypes.create_string_buffer(24))
        calls += [
            ("capset", nothing),
            ("prctl", (ctypes.c_int(PR_SET_DUMPABLE), zero, zero, zero, zero)),
        ]
        self._narrow = tuple((getattr(_quick, name), args, name) for name, args in calls)
        program = ctypes.byref(self._filter.header)
        self._load = (ctypes.c_int(PR_SET_SECCOMP), ulong(SECCOMP_MODE_FILTER), program, zero, zero)

    def narrow(self) -> None:
        """Give up files, privileges and the inspection by others, for this thread and its descendants."""
        for function, args, name in self._narrow:
            if function(*args):
                _refused(name, args, name)

    def close(self) -> None:
        """Bind this thread and its descendants to the filter, for good."""
        self._filter.name(os.getpid())
        if _quick.prctl(*self._load):
            _refused("prctl", self._load, "seccomp")


def _refused(function: str, args: tuple[Any, ...], what: str) -> NoReturn:
    """Repeat a call that failed, to learn why, and raise."""
    getattr(_libc, function)(*args)
    raise _failure(what)
