"""The child that calls reward functions as TRL does. Standard library only: it runs in the training interpreter.

    python -m grpo_rlvr.inspection.scoring_worker REQUEST_FD REPLY_FD MEMORY_BYTES

The first process only waits: a reward that kills its parent kills this one, never the server; and once the server is
gone, it ends a reward that would go on for ever. The second reads one JSON request a line and answers with one JSON
line each. Standard output and error are the rewards' own.
"""

import asyncio
import contextlib
import inspect
import json
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

MAX_MESSAGE = 600
WAIT_SECONDS = 0.1
Reply = dict[str, Any]


class Broken(Exception):
    """What a reward did wrong, as data."""

    def __init__(self, kind: str, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.kind, self.message, self.detail = kind, message, detail


def main(argv: list[str]) -> int:
    """Fork the caller of the rewards and wait for it. Returns its exit status."""
    requests, replies, memory = (int(value) for value in argv)
    server = os.getppid()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _limit_memory(memory)
            Caller(replies).serve(requests)
            status = 0
        finally:
            # No interpreter shutdown: a reward's exit handlers and threads are not ours to wait for.
            os._exit(status)
    os.close(requests)
    os.close(replies)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) & 0xFF
        if os.getppid() != server:
            os.killpg(0, signal.SIGKILL)  # the session that the server started: this process, the caller and its own
        time.sleep(WAIT_SECONDS)


def _limit_memory(limit: int) -> None:
    # Private writable memory, not address space: CUDA and torch reserve far more address space than they use.
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Caller:
    """Holds the built rewards and the batches, and answers requests."""

    def __init__(self, replies: int) -> None:
        self.replies, self.pid, self.parent = replies, os.getpid(), os.getppid()
        self.rewards: dict[int, Callable[..., Any]] = {}
        # As text: each call parses its own copy, so that no reward sees what another one changed.
        self.batches: dict[str, str] = {}
        self.state: dict[str, Any] = {}
        self.forks = 0
        os.register_at_fork(after_in_parent=self._count_fork)

    def _count_fork(self) -> None:
        self.forks += 1

    def serve(self, requests: int) -> None:
        """Answer requests until their pipe is closed."""
        self.reply({"pid": self.pid})
        with os.fdopen(requests, "r", encoding="utf-8") as lines:
            for line in lines:
                self.reply(self.answer(json.loads(line)))

    def reply(self, message: Reply) -> None:
        """Write one line. A forked copy of this process says so and ends: two processes must not both go on."""
        if os.getpid() != self.pid:
            with contextlib.suppress(OSError):
                os.write(self.replies, b'{"forked": true}\n')
            os._exit(0)
        data = memoryview(json.dumps(message, allow_nan=False).encode("utf-8") + b"\n")
        while data:
            data = data[os.write(self.replies, data) :]

    def answer(self, request: dict[str, Any]) -> Reply:
        """Return what a request asks for, or the error as data."""
        try:
            match request["op"]:
                case "load":
                    return self.load(request)
                case "batch":
                    self.batches[request["name"]] = json.dumps(request["batch"])
                    return {}
                case _:
                    return self.call(request)
        except Broken as error:
            return {"error": {"kind": error.kind, "message": error.message, "detail": error.detail}}
        except MemoryError:
            return {"error": {"kind": "memory", "message": "ran out of the memory it may use", "detail": ""}}

    def load(self, request: dict[str, Any]) -> Reply:
        """Build one reward and return its name."""
        os.chdir(request["root"])
        self.state = request["state"]
        with _reporting("load"):
            from rlvr_rewards import spec

            reward = spec.build(request["spec"], request["root"])
        name = getattr(reward, "__name__", None)
        if not callable(reward) or not isinstance(name, str):
            raise Broken("load", "the reward has no __name__, which TRL needs; a partial has none: write a function")
        self.rewards[request["reward"]] = reward
        return {"name": name}

    def call(self, request: dict[str, Any]) -> Reply:
        """Call one reward on a batch, or on one row of it."""
        given = json.loads(self.batches[request["batch"]])
        if request.get("rows") is not None:
            given = _picked(given, request["rows"])
        before, count = json.dumps(given), len(given["prompts"])
        logged: dict[str, Any] = {}
        extra: dict[str, list[Any]] = {}
        arguments = dict(given["columns"])
        arguments["trainer_state"] = SimpleNamespace(**self.state)
        arguments["log_extra"] = lambda column, values: extra.setdefault(str(column), []).extend(values)
        arguments["log_metric"] = lambda name, value: logged.update({str(name): float(value)})
        self.forks = 0
        started = time.perf_counter()
        reward = self.rewards[request["reward"]]
        with _reporting("raised"):
            answer = _await(reward, given, arguments)
        seconds = time.perf_counter() - started
        if _gone(self.parent):
            raise Broken("died", "killed its parent process")
        scores = _as_scores(answer, count)
        _check_extra(extra, count)
        changed = json.dumps(given, default=repr) != before
        finite = {name: value for name, value in logged.items() if math.isfinite(value)}
        return {
            "scores": scores,
            "seconds": seconds,
            "logged": finite,
            # A reward of the library says of each completion why it got its score.
            "reasons": [str(reason) for reason in extra.get(f"{reward.__name__}_reason", [])],
            "mutated": changed,
            "forks": self.forks,
        }


def _gone(parent: int) -> bool:
    """Say whether our parent is dead or dying: a SIGKILL that it has not yet acted on shows as pending."""
    if os.getppid() != parent:
        return True
    try:
        with Path(f"/proc/{parent}/status").open(encoding="utf-8") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
    except OSError:
        return False
    return fields["State"].split()[0] in "ZX" or bool((int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)) & 1 << 8)


def _picked(batch: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    picked: dict[str, Any] = {
        key: [batch[key][row] for row in rows] for key in ("prompts", "completions", "completion_ids")
    }
    picked["columns"] = {name: [values[row] for row in rows] for name, values in batch["columns"].items()}
    return picked


def _await(reward: Callable[..., Any], batch: dict[str, Any], arguments: dict[str, Any]) -> Any:
    # TRL sends these three and every column by keyword; nothing is filtered by the reward's signature.
    answer = reward(
        prompts=batch["prompts"],
        completions=batch["completions"],
        completion_ids=batch["completion_ids"],
        **arguments,
    )
    if inspect.isawaitable(answer):

        async def wait() -> Any:
            return await answer

        return asyncio.run(wait())
    return answer


def _as_scores(answer: Any, expected: int) -> list[Any]:
    if isinstance(answer, str | bytes | dict) or not isinstance(answer, Iterable):
        raise Broken("not_a_list", f"returned {_show(answer)} instead of a list with one score a completion")
    try:
        values = list(answer)
    except TypeError:  # a zero-dimensional array or tensor
        raise Broken("not_a_list", f"returned {_show(answer)} instead of a list with one score a completion") from None
    if len(values) != expected:
        raise Broken("wrong_length", f"returned {len(values)} scores for {expected} completions")
    return [_as_score(value) for value in values]


def _check_extra(extra: dict[str, list[Any]], expected: int) -> None:
    """Refuse columns that would not fit into TRL's table of completions: logging it would end the run."""
    for column, values in extra.items():
        if len(values) != expected:
            raise Broken(
                "wrong_length", f"logged {len(values)} values of {column!r} by log_extra for {expected} completions"
            )


def _as_score(value: Any) -> Any:
    if value is None:
        return None
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return {"bad": "not_a_number", "value": _show(value)}
    if math.isnan(number):
        return {"bad": "nan", "value": "nan"}
    return number if math.isfinite(number) else {"bad": "infinite", "value": str(number)}


def _show(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text[:80]}"


@contextlib.contextmanager
def _reporting(kind: str) -> Any:
    """Turn whatever the reward raises into data: SystemExit and KeyboardInterrupt too."""
    try:
        yield
    except MemoryError:
        raise
    except SystemExit as error:
        raise Broken("exit", f"called sys.exit({error.code!r})", _where(error)) from None
    except BaseException as error:
        # A spec error is a sentence for the user already.
        named = "" if type(error).__name__ == "RewardSpecError" else f"{type(error).__name__}: "
        raise Broken(kind, f"{named}{error}"[:MAX_MESSAGE], _where(error) if named else "") from None


def _where(error: BaseException) -> str:
    ours = ("scoring_worker.py", "_user.py", "spec.py")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.endswith(ours)]
    return "; ".join(f"{Path(f.filename).name} line {f.lineno} in {f.name}" for f in frames[-3:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
