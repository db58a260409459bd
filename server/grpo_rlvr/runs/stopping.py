"""Why a process of a run should stop at its next step. Standard library only."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from grpo_rlvr.runs.process import is_alive
from grpo_rlvr.runs.records import read_record

WATCH_S = 1.0


class StopFlag:
    """Why this process should stop at its next step: a request on disk, a signal, or a lost supervisor."""

    def __init__(self, folder: Path, attempt: int) -> None:
        self.folder, self.attempt = folder, attempt
        self.reason = ""
        self.supervisor = read_record(folder / "attempts" / str(attempt) / "process.json")
        signal.signal(signal.SIGTERM, lambda number, frame: self._set("stopped: the process got SIGTERM"))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        threading.Thread(target=self._watch, daemon=True, name="grpo-rlvr-stop").start()

    def check(self) -> str:
        """Return the reason to stop, empty when there is none."""
        request = read_record(self.folder / "stop.json")
        if request and request.get("attempt") == self.attempt:
            self._set(str(request.get("reason") or "stopped on request"))
        return self.reason

    def _set(self, reason: str) -> None:
        self.reason = self.reason or reason

    def _watch(self) -> None:
        while not self.reason:
            time.sleep(WATCH_S)
            if not self.folder.exists():
                # Nothing can be saved any more, and nobody could find the process later.
                os._exit(1)
            if self.supervisor and not is_alive(self.supervisor):
                self._set("stopped: the supervising process of the run was killed")
