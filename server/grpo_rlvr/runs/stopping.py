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
# A step that does not end may not outlive its supervisor for ever: nobody would stop it.
ORPHAN_S = 600.0


class StopFlag:
    """Why this process should stop at its next step: a request on disk, a signal, or a lost supervisor."""

    def __init__(self, folder: Path, attempt: int) -> None:
        self.folder, self.attempt = folder, attempt
        self.reason, self.halting = "", False
        self.supervisor = read_record(folder / "attempts" / str(attempt) / "process.json")
        signal.signal(signal.SIGTERM, lambda number, frame: self._set("stopped: the process got SIGTERM"))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        threading.Thread(target=self._watch, daemon=True, name="grpo-rlvr-stop").start()

    def check(self) -> str:
        """Return the reason to stop, empty when there is none."""
        request = read_record(self.folder / "stop.json")
        if request and request.get("attempt") == self.attempt:
            self.halting = bool(request.get("halt"))
            self._set(str(request.get("reason") or "stopped on request"))
        self._check_supervisor()
        return self.reason

    def _check_supervisor(self) -> None:
        if self.supervisor and not is_alive(self.supervisor):
            self._set("stopped: the supervising process of the run was killed")

    def _set(self, reason: str) -> None:
        self.reason = self.reason or reason

    def _watch(self) -> None:
        lost: float | None = None
        while True:
            time.sleep(WATCH_S)
            if not self.folder.exists():
                # Nothing can be saved any more, and nobody could find the process later.
                os._exit(1)
            self._check_supervisor()
            if self.supervisor and not is_alive(self.supervisor):
                lost = lost or time.monotonic()
                if time.monotonic() - lost > ORPHAN_S:
                    os._exit(1)
