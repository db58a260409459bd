"""A child process that evaluates what may hang, and that can be killed. Standard library only.

One worker serves a process, from any thread. It lives until the process ends or a call overruns, holds no more memory
than stated, and ends by itself when its parent is gone.
"""

import atexit
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any, Literal

# Starting imports sympy, which takes a second or two, more on a busy machine.
START_SECONDS = 60.0
# Wall time allowed for each second of processor time, which the worker itself limits: the machine may be busy.
WALL_FACTOR = 6.0

State = Literal["done", "failed", "timeout", "died", "unavailable"]


class Worker:
    """The killable child process. Calls from several threads take turns."""

    def __init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        """Forget everything: after a fork, the parent's lock may be held for ever and its pipes are not ours."""
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._owner = os.getpid()

    def call(self, task: str, payload: Any, seconds: float) -> tuple[State, Any]:
        """Run a task of `_worker_main` and return how it ended and its result.

        Args:
            task: Name of the task.
            payload: Plain JSON data for it.
            seconds: Processor time after which the worker ends; it is killed after six times that in wall time. A gold
                has processor time of its own on top.

        Returns:
            "done" and the result; "failed" and the error's text; "timeout" or "died" when this call ended the worker;
            "unavailable" and the reason when it cannot be started.
        """
        with self._lock:
            problem = self._ensure()
            if problem:
                return "unavailable", problem
            assert self._process is not None and self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps([task, payload, seconds]) + "\n")
                self._process.stdin.flush()
            except (OSError, ValueError):
                self._kill()
                return "died", "the worker was gone"
            return self._answer(seconds)

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            self._kill()

    @property
    def pid(self) -> int | None:
        """The worker's process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def _answer(self, seconds: float) -> tuple[State, Any]:
        try:
            line = self._lines.get(timeout=seconds * WALL_FACTOR)
        except queue.Empty:
            self._kill()
            return "timeout", None
        if line is None:
            return self._ending(), None
        state, result = json.loads(line)
        return ("done" if state == "done" else "failed"), result

    def _ending(self) -> State:
        """Return how the worker ended: by its limit of processor time, or otherwise."""
        process = self._process
        self._kill()
        limited = process is not None and hasattr(signal, "SIGPROF") and process.returncode == -signal.SIGPROF
        return "timeout" if limited else "died"

    def _ensure(self) -> str | None:
        """Start the worker if this process has none; return why it cannot be started."""
        if self._process is not None and self._process.poll() is None:
            return None
        self._kill()
        paths = [entry for entry in sys.path if entry]
        package_root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, package_root]), "PYTHONHASHSEED": "0"}
        environment.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONUTF8="1")
        try:
            self._process = self._started(environment)
        except OSError as error:
            return f"the worker process cannot be started: {error}"
        self._lines = queue.Queue()
        threading.Thread(target=_pump, args=(self._process, self._lines), daemon=True).start()
        try:
            ready = self._lines.get(timeout=START_SECONDS)
        except queue.Empty:
            ready = None
        if ready is None:
            self._kill()
            return "the worker process did not start"
        return None

    def _started(self, environment: Mapping[str, str]) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-P", "-c", "from rlvr_rewards._worker_main import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=environment,
            start_new_session=True,
        )

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    # The unsent rest of a request to a worker that is gone.
                    continue


def _pump(process: "subprocess.Popen[str]", lines: "queue.Queue[str | None]") -> None:
    """Move the worker's lines into a queue, which can be waited for on every platform and in every thread."""
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.put(line)
    except ValueError:
        # The pipe was closed under the reader when the worker was killed.
        lines.put(None)
        return
    lines.put(None)


SHARED = Worker()
atexit.register(SHARED.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED.start_over)
