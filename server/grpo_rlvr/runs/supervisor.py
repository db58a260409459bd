"""The parent of everything that a run starts: runs its phases in order, watches, escalates a stop, leaves no orphan.

Standard library only. It detaches itself, so that it outlives the server that started it, and it adopts what its
children leave behind, so that a killed launcher cannot leave a training process without a parent.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from grpo_rlvr.runs.card import write_card
from grpo_rlvr.runs.process import MARK, adopt_orphans, end_all, end_descendants, identity, marked, signal_name
from grpo_rlvr.runs.records import append_rows, read_record, write_record

POLL_S = 0.1
MIN_GRACE_S = 60.0
STEPS_OF_GRACE = 4
# A full disk must not also take away the place for saying so: this file is made first and freed then.
RESERVE_BYTES = 65_536
# How accelerate and torch's launcher report a child that died of signal 9 or 11 (not of a SIGTERM that we sent).
KILLED = re.compile(r"<Signals\.SIG(?:KILL|SEGV|BUS): (\d+)>|exitcode\s*: -(9|11|7)\b")


class Ended(Exception):
    """The run ends now, in a state and with a message."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state, self.message = state, message


class Supervisor:
    """One attempt of one run."""

    def __init__(self, folder: Path, attempt: int) -> None:
        self.folder = folder
        self.attempt = folder / "attempts" / str(attempt)
        plan = read_record(self.attempt / "plan.json")
        if plan is None:
            raise SystemExit(f"no readable plan in {self.attempt}")
        self.plan: dict[str, Any] = plan
        self.run_id: str = plan["run_id"]
        self.children: list[subprocess.Popen[bytes]] = []
        self.services: list[subprocess.Popen[bytes]] = []
        self.terminated = False

    def run(self) -> None:
        """Run all phases and write the outcome; nothing of the run is alive afterwards."""
        signal.signal(signal.SIGTERM, self._on_terminate)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        adopt_orphans()
        self._reserve()
        try:
            for phase in self.plan["phases"]:
                self._phase(phase)
            write_card(self.folder)
            result = read_record(self.attempt / "result.json") or {}
            state, message = result.get("state", "finished"), result.get("message", "finished")
        except Ended as end:
            state, message = end.state, end.message
        except OSError as error:
            state, message = "failed", f"the supervisor could not go on: {error}"
        end_all(self.run_id, grace_s=float(self.plan.get("grace_s", 10)))
        end_descendants(os.getpid())
        self._reap()
        self._write_outcome(state, message)

    def _phase(self, phase: dict[str, Any]) -> None:
        self._check_stop(before=phase["name"])
        environment = {**os.environ, **phase["environment"], MARK: self.run_id}
        for name in self.plan.get("unset", []):
            environment.pop(name, None)
        self._say(f"phase '{phase['name']}': {json.dumps(phase['argv'])}")
        write_record(self.attempt / "phase.json", {"name": phase["name"], "since": time.time()})
        try:
            child = subprocess.Popen(
                phase["argv"], env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            raise Ended("failed", f"cannot start '{phase['argv'][0]}': {error.strerror}") from None
        self.children.append(child)
        if phase.get("background"):
            return
        if phase.get("health"):
            self.services.append(child)
            self._await_health(phase, child)
            return
        code = self._wait(child)
        if code != 0 or (self.attempt / "error.json").exists():
            raise self._failure(phase["name"], code)
        if (result := read_record(self.attempt / "result.json")) and result.get("state") != "finished":
            raise Ended(result["state"], result.get("message", ""))
        # Kept over all attempts: a resumed run does not measure or train again what was done.
        append_rows(self.folder / "phases_done.jsonl", [{"name": phase["name"], "attempt": int(self.attempt.name)}])

    def _wait(self, child: subprocess.Popen[bytes]) -> int:
        asked: float | None = None
        while (code := child.poll()) is None:
            self._reap()
            for service in self.services:
                if service.poll() is not None:
                    raise Ended("failed", f"the vLLM server ended with {signal_name(service.returncode)}")
            request = self._stop_request()
            if request is not None:
                asked = asked or time.monotonic()
                if time.monotonic() - asked > self._grace(request):
                    raise Ended("stopped", "stopped by force: it did not reach its next checkpoint within the grace")
            if not self.folder.exists():
                raise Ended("failed", "the run's folder was deleted")
            time.sleep(POLL_S)
        return code

    def _await_health(self, phase: dict[str, Any], child: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + float(phase.get("timeout_s", 900))
        while time.monotonic() < deadline:
            if child.poll() is not None:
                raise Ended("failed", f"'{phase['name']}' ended with {signal_name(child.returncode)} before it was up")
            self._check_stop(before="training")
            if _is_healthy(phase["health"]):
                self._say(f"'{phase['name']}' is healthy")
                return
            time.sleep(0.5)
        raise Ended("failed", f"'{phase['name']}' was not healthy after {phase.get('timeout_s')} s")

    def _failure(self, phase: str, code: int) -> Ended:
        # A result that says stopped or halted was written after the checkpoint: the exit code of a launcher that was
        # told to end says nothing more.
        result = read_record(self.attempt / "result.json")
        if result and result.get("state") in ("stopped", "halted"):
            return Ended(result["state"], result.get("message", ""))
        killed = self._killed()
        error = read_record(self.attempt / "error.json")
        # When one rank is killed the others fail because of it: the kill is the news, not their broken connections.
        if killed:
            return Ended("failed", f"{phase}: a process was killed by {killed}: by hand, or for lack of memory")
        if error:
            return Ended("failed", f"{phase}: {error.get('message', 'failed')}")
        if self._stop_request() is not None:
            return Ended("stopped", f"stopped during {phase}")
        return Ended("failed", f"{phase} ended with {signal_name(code)}; the log's tail says more")

    def _killed(self) -> str:
        """Return the signal that accelerate says a training process died of, empty when it says none."""
        with contextlib.suppress(OSError), (self.folder / "log.txt").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 20_000))
            tail = file.read().decode("utf-8", errors="replace")
            start = tail.rfind("phase '")
            found = KILLED.search(tail[max(0, start) :])
            return signal_name(-int(next(group for group in found.groups() if group))) if found else ""
        return ""

    def _check_stop(self, *, before: str) -> None:
        if self._stop_request() is not None:
            raise Ended("stopped", f"stopped before {before}")

    def _stop_request(self) -> dict[str, Any] | None:
        if self.terminated:
            return {"grace_s": self.plan.get("grace_s", 10)}
        request = read_record(self.folder / "stop.json")
        return request if request and request.get("attempt") == int(self.attempt.name) else None

    def _grace(self, request: dict[str, Any]) -> float:
        stated = request.get("grace_s")
        if stated is not None:
            return float(stated)
        # A stop waits for the end of a step, and a step of a large model takes minutes.
        metrics = (read_record(self.folder / "progress.json") or {}).get("metrics") or {}
        step = metrics.get("step_time")
        return max(MIN_GRACE_S, STEPS_OF_GRACE * float(step) if isinstance(step, (int, float)) else 0.0)

    def _on_terminate(self, number: int, frame: Any) -> None:
        self.terminated = True
        with contextlib.suppress(OSError):
            write_record(self.folder / "stop.json", {"attempt": int(self.attempt.name), "by": "SIGTERM", "grace_s": 30})

    def _reap(self) -> None:
        # Adopted orphans would stay corpses; our own children are left to their Popen objects.
        known = {child.pid: child for child in self.children}
        with contextlib.suppress(ChildProcessError):
            while (info := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if info.si_pid in known:
                    known[info.si_pid].poll()
                    return
                os.waitpid(info.si_pid, os.WNOHANG)

    def _reserve(self) -> None:
        with contextlib.suppress(OSError):
            (self.attempt / "reserve").write_bytes(b"\0" * RESERVE_BYTES)

    def _write_outcome(self, state: str, message: str) -> None:
        outcome = {"state": state, "message": message, "ended": time.time(), "left_over": marked(self.run_id)}
        with contextlib.suppress(OSError):
            (self.attempt / "reserve").unlink(missing_ok=True)
        try:
            write_record(self.attempt / "outcome.json", outcome)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                _make_room(self.folder)
                with contextlib.suppress(OSError):
                    write_record(self.attempt / "outcome.json", outcome)
        with contextlib.suppress(OSError):
            self._say(f"{state}: {message}")

    def _say(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with contextlib.suppress(OSError):
            print(f"[grpo-rlvr {stamp}] {text}", flush=True)


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def _make_room(folder: Path) -> None:
    # Half-written files of the write that failed are the only thing that may go: nothing reads them.
    for leftover in folder.rglob(".*.tmp"):
        with contextlib.suppress(OSError):
            leftover.unlink()


def detach(folder: Path, attempt: int) -> None:
    """Fork twice into a session of its own; the first parent returns only when the identity is on disk."""
    ready_read, ready_write = os.pipe()
    if os.fork():
        os.close(ready_write)
        answer = os.read(ready_read, 200).decode("utf-8", errors="replace")
        os.wait()
        sys.exit(0 if answer == "ready" else answer or "the supervisor ended at once")
    os.setsid()
    if os.fork():
        os._exit(0)
    os.close(ready_read)
    # Held open until the process ends: it is what keeps a second supervisor off the run.
    lock = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.write(ready_write, b"another supervisor already runs this run")
        os._exit(1)
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(folder / "log.txt", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    write_record(folder / "attempts" / str(attempt) / "process.json", identity())
    os.write(ready_write, b"ready")
    os.close(ready_write)


def main() -> None:
    """Entry point: `python -m grpo_rlvr.runs.supervisor RUN_FOLDER ATTEMPT`."""
    folder, attempt = Path(sys.argv[1]), int(sys.argv[2])
    supervisor = Supervisor(folder, attempt)
    detach(folder, attempt)
    supervisor.run()


if __name__ == "__main__":
    main()
