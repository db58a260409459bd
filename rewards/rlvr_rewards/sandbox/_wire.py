"""The frames between a client and its worker. Their heads are of fixed form: the worker touches little memory for them.

Request: `REQUEST`, then the payloads, one a child. Answer: `ANSWER`, then the bytes of the result pipe. The very first
answer says that the worker is ready, and carries its facts as JSON.
"""

import struct
from typing import Literal

MODES = ("values", "split", "stdio")
STATUSES: tuple[Literal["ok", "timeout", "output", "ready"], ...] = ("ok", "timeout", "output", "ready")
OK, TIMEOUT, OUTPUT, READY = range(4)

# Mode, wall seconds, processor seconds, address space in MB, output in KB, bytes of the first and second payload.
REQUEST = struct.Struct("<BdIIIII")
# Status, exit status (negative: a signal), that of the program where it ran beside its tests, wall and processor
# seconds, peak memory in KB, bytes that follow.
ANSWER = struct.Struct("<BiiddII")
NO_HELPER = -(1 << 31)

# What instrumented assertions of tests call, in the tester's process.
CHECK, FAILED = "__rlvr_check__", "__rlvr_failed__"
