"""Runs programs in one protection level and prints what came out; started by tests, also as another user.

Reads `{"library", "level", "programs": [[name, text], ...], "walls", "grade"}` as JSON on standard input. Needs nothing
but the standard library and the reward library at the given path.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

PREAMBLE = """
import ctypes, os, signal, socket, sys
target = {target!r}
libc = ctypes.CDLL(None, use_errno=True)
def sc(*args):
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return libc.syscall(*args), ctypes.get_errno()
def T(action):
    try: result = action()
    except SystemExit: raise
    except BaseException as error: print("held", type(error).__name__, getattr(error, "errno", ""))
    else: print("BREACH", str(result)[:60])
def S(breach, info=""): print("BREACH" if breach else "held", info)
"""


def targets(stack):
    """Make the things that programs must not reach; they live as long as the stack."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rlvr-target-"))
    Path(folder).chmod(0o755)
    canary = Path(folder, "canary")
    canary.write_text("CANARY", encoding="utf-8")
    canary.chmod(0o666)
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(50)
    path = stack.enter_context(socket.socket(socket.AF_UNIX))
    path.bind(str(Path(folder, "socket")))
    path.listen(5)
    abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
    abstract.bind(f"\0rlvr{os.getpid()}")
    abstract.listen(5)
    process = subprocess.Popen(["sleep", "600"])
    stack.callback(process.wait)
    stack.callback(process.kill)
    os.environ["HF_TOKEN"] = "hf_SECRET"
    return {"file": str(canary), "folder": folder, "port": listener.getsockname()[1],
            "socket": str(Path(folder, "socket")), "abstract": f"rlvr{os.getpid()}", "pid": process.pid}  # fmt: skip


def main():
    """Run what was asked for."""
    order = json.load(sys.stdin)
    sys.path.insert(0, order["library"])
    from rlvr_rewards.sandbox._jobs import Job, Limits
    from rlvr_rewards.sandbox._pool import Pool

    def grading(name, text):
        limits = Limits(wall_s=order["walls"].get(name, 10.0), cpu_s=20, output_kb=256)
        result = yield Job("stdio", ({"code": text, "stdin": "", "name": "__main__"},), limits)
        return [result.status, result.exit, result.data[-4000:].decode("utf-8", "replace")]

    def graded():
        from rlvr_rewards.unit_test import UnitTest

        reward = UnitTest(level=order["level"], **order["grade"]["args"])
        rows = [{"tests": order["grade"]["tests"]}] * len(order["programs"])
        verdicts = reward.grade_batch([text for _, text in order["programs"]], rows)
        return [[verdict.score, verdict.reason, verdict.detail] for verdict in verdicts]

    with contextlib.ExitStack() as stack:
        if order.get("grade"):
            answers = graded()
        else:
            head = PREAMBLE.replace("{target!r}", repr(targets(stack))) if order.get("targets") else ""
            pool = Pool(order["level"], 1)
            stack.callback(pool.close)
            answers = pool.run(grading(name, head + text) for name, text in order["programs"])
        names = [name for name, _ in order["programs"]]
        print(json.dumps({"user": os.geteuid(), "threads": threading.active_count(),
                          "answers": dict(zip(names, answers, strict=True))}))  # fmt: skip


if __name__ == "__main__":
    main()
