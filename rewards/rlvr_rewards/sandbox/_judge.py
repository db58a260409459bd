"""Forms the verdict, in the trainer's process, from bytes that an untrusted process wrote."""

import signal
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rlvr_rewards.sandbox import _codec, _decode, _source
from rlvr_rewards.sandbox._jobs import Grading, Job, Limits, Result
from rlvr_rewards.sandbox._plan import Plan
from rlvr_rewards.sandbox._runs import Case
from rlvr_rewards.sandbox._values import Check

How = Literal["passed", "failed", "timeout", "limit", "died"]
MAX_FAILURES_SHOWN = 5
ENDED = "the other process has ended"  # what the tests' process says of the program's: see `_link`
SPARE_OUTPUT_KB = 64
MAX_MIXED = 16_384  # bytes; comparing a Decimal with an integer takes quadratic time


@dataclass
class Outcome:
    """What the tests said.

    Attributes:
        passed: How many tests passed.
        total: How many there are.
        how: Passed, or what kept it from passing.
        failures: The first failures, as text.
        mode: The mode that decided.
        seconds: Wall time in the sandbox.
    """

    passed: int
    total: int
    how: How
    failures: list[str] = field(default_factory=list)
    mode: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Options:
    """What changes how a program is run or compared; see `UnitTest`."""

    limits: Limits
    partial: bool = False
    in_place: bool = False
    as_main: bool = False
    exit_zero: bool = True
    trailing_whitespace: str = "ignore"
    atol: float = 0.0


def grade(code: str, plan: Plan, options: Options) -> Grading[Outcome]:
    """Grade one program; to be driven by a pool."""
    if plan.style == "io":
        return (yield from _grade_script(code, plan, options))
    spent = 0.0
    if plan.checks is not None:
        payload = {"code": code, "name": _name(options), "calls": plan.calls}
        result = yield Job("values", (payload,), options.limits)
        spent = result.facts.get("wall_s", 0.0)
        outcome = _judge_values(result, plan.checks)
        if outcome is not None:
            return outcome
    left = _shortened(options.limits, spent)
    texts = tuple(plan.files.values())
    packed = _source.packed(plan.source, texts, plan.style, options.partial)
    tests = {"code": code, "tests": packed, "style": plan.style, "files": dict(plan.files),
             "in_place": options.in_place}  # fmt: skip
    rich = _source.is_rich(code, plan.source, *texts)
    result = yield Job("split", ({"code": code, "main": options.as_main}, tests), left, rich)
    outcome = _judge_reports(result, plan)
    outcome.seconds += spent
    return outcome


def _name(options: Options) -> str:
    return "__main__" if options.as_main else "candidate"


def _shortened(limits: Limits, spent: float) -> Limits:
    return Limits(max(0.05, limits.wall_s - spent), limits.cpu_s, limits.memory_mb, limits.output_kb)


def _ending(status: str, exit_code: int | None) -> str:
    """Return how a program ended that did not answer all it was asked."""
    if status == "timeout":
        return "the time was over"
    if status != "ok" or exit_code is None:
        return "too much output" if status == "output" else "its process was lost"
    if exit_code < 0:
        names = {number.value: number.name for number in signal.Signals}
        return f"the program was ended by {names.get(-exit_code, f'signal {-exit_code}')}"
    return f"the program ended with exit status {exit_code}"


def _how(result: Result, finished: bool) -> How:
    """Return what an unfinished or failed run is put down to."""
    if result.status == "timeout":
        return "timeout"
    if result.status == "output":
        return "limit"
    if result.status == "lost" or (not finished and result.exit < 0):
        return "died"
    return "failed"


def frames(data: bytes) -> Iterator[bytes]:
    """Yield the whole length-prefixed frames; what follows a broken one is not looked at."""
    place = 0
    while place + 4 <= len(data):
        (size,) = struct.unpack_from("<I", data, place)
        place += 4
        if size > _codec.MAX_BYTES or place + size > len(data):
            return
        yield data[place : place + size]
        place += size


# -- values ------------------------------------------------------------------------------------------------------------


class _Unclear(Exception):
    """A value that only a tester's process can judge."""


def _judge_values(result: Result, checks: tuple[Check, ...]) -> Outcome | None:
    """Judge the values that came back, or return None when a tester is needed."""
    answers = list(frames(result.data))
    failures: list[str] = []
    passed, place = 0, 1  # the first frame reports the load
    loaded = bool(answers) and _read(answers[0]).get("v", ...) is None
    ending = _ending(result.status, result.exit)
    for number, check in enumerate(checks):
        mine = answers[place : place + len(check.calls)] if loaded else []
        place += len(check.calls)
        try:
            why = _why_not(mine, check, ending)
        except _Unclear:
            return None
        if why is None:
            passed += 1
        elif len(failures) < MAX_FAILURES_SHOWN:
            failures.append(f"assert {number}: {why if loaded else _load_failure(answers, ending)}")
    finished = len(answers) >= place
    fine = passed == len(checks) and result.status == "ok" and result.exit == 0
    return Outcome(passed, len(checks), "passed" if fine else _how(result, finished), failures, "values",
                   result.facts.get("wall_s", 0.0))  # fmt: skip


def _read(frame: bytes) -> dict[str, Any]:
    try:
        message = _decode.loads(frame)
    except _decode.Malformed:
        return {}
    return message if type(message) is dict else {}


def _why_not(answers: list[bytes], check: Check, ending: str) -> str | None:
    """Return why the assert does not hold, None when it does."""
    values, nodes = list[Any](), list[Any]()
    for answer in answers:
        message = _read(answer)
        if "u" in message:
            raise _Unclear
        if "x" in message:
            return _exception_text(message["x"])
        if "v" not in message:
            return "a malformed answer"
        try:
            values.append(_decode.decode(message["v"]))
            nodes.append(message["v"])
        except _decode.Malformed as error:
            return f"a malformed value ({error})"
    if len(values) < len(check.calls):
        return f"no answer: {ending}"
    if any(map(_is_long, values)) or (sum(map(len, answers)) > MAX_MIXED and any(map(_has_decimal, nodes))):
        raise _Unclear  # what can hold up a process must not hold up this one
    try:
        # Comparing values of the program can raise (and recurse, and overflow): all of that is the program's failure.
        return None if check.holds(values) else "does not hold"
    except Exception as error:
        return type(error).__name__


def _is_long(value: Any) -> bool:
    """Return whether the value is a range of more items than a list could cross with."""
    return type(value) is range and bool(value[_decode.MAX_ITEMS :])


def _has_decimal(node: Any) -> bool:
    if type(node) is dict:
        return "D" in node or any(map(_has_decimal, node.values()))
    return type(node) is list and any(map(_has_decimal, node))


def _exception_text(content: Any) -> str:
    if type(content) is list and all(type(part) is str for part in content):
        return ": ".join(content)[:300]
    return "an exception"


def _load_failure(answers: list[bytes], ending: str) -> str:
    return _exception_text(_read(answers[0]).get("x")) if answers else f"the program did not load: {ending}"


# -- split -------------------------------------------------------------------------------------------------------------


def _judge_reports(result: Result, plan: Plan) -> Outcome:
    """Judge the tester's reports. The tester is ours, yet without its last word nothing has passed."""
    failures: list[str] = []
    passed = total = 0
    done = False
    for frame in frames(result.data):
        message = _read(frame)
        if "unit" in message:
            name, fine, why = message["unit"]
            total, passed = total + 1, passed + (fine is True)
            if fine is not True and len(failures) < MAX_FAILURES_SHOWN:
                failures.append(f"{name}: {why}")
        elif "load" in message:
            failures.append(f"the program did not load: {message['load'][1]}")
        elif "done" in message:
            done = message["done"] is True
            break
    else:
        total = max(total + 1, plan.count)  # it ended early: at least one test is missing
    fine = done and passed == total > 0 and result.status == "ok" and result.exit == 0
    if not fine and passed == total:
        total = max(total + 1, plan.count)
    how = "passed" if fine else _how(result, finished=False)
    left = any(text.endswith(ENDED) for text in failures)
    program_exit = result.facts.get("helper_exit")
    if left:
        failures = [text.replace(ENDED, _ending("ok", program_exit)) for text in failures]
    # A program that is still there at the end is put away by SIGKILL, which says nothing about it.
    signalled = program_exit is not None and program_exit < 0 and (left or program_exit != -signal.SIGKILL)
    if how == "failed" and not done and signalled:
        how = "died"
    if how == "timeout" and not failures:
        failures = [_ending("timeout", None)]
    return Outcome(passed, total, how, failures, "split", result.facts.get("wall_s", 0.0))


# -- stdio -------------------------------------------------------------------------------------------------------------


def _grade_script(code: str, plan: Plan, options: Options) -> Grading[Outcome]:
    passed, failures, seconds = 0, list[str](), 0.0
    first: How | None = None
    started = time.monotonic()
    for number, case in enumerate(plan.cases):
        left = options.limits.wall_s - seconds
        if left <= 0.01 and number:
            first = first or "timeout"
            break
        room = SPARE_OUTPUT_KB + 2 * len(case.stdout.encode()) // 1024
        limits = Limits(left, options.limits.cpu_s, options.limits.memory_mb, room)
        result = yield Job("stdio", ({"code": code, "stdin": case.stdin, "name": _name(options)},), limits)
        seconds += result.facts.get("wall_s", 0.0)
        why, how = _judge_case(result, case, options)
        if how == "passed":
            passed += 1
            continue
        first = first or how
        if len(failures) < MAX_FAILURES_SHOWN:
            failures.append(f"case {number}: {why}")
        if not options.partial:
            break
    seconds = seconds or time.monotonic() - started
    return Outcome(passed, len(plan.cases), first or "passed", failures, "stdio", seconds)


def _judge_case(result: Result, case: Case, options: Options) -> tuple[str, How]:
    if result.status != "ok":
        return _ending(result.status, result.exit), _how(result, finished=False)
    if options.exit_zero and result.exit != 0:
        return _ending("ok", result.exit), "died" if result.exit < 0 else "failed"
    text = result.data.decode("utf-8", "replace")
    if same_output(text, case.stdout, options):
        return "", "passed"
    return "the output differs", "failed"


def same_output(actual: str, expected: str, options: Options) -> bool:
    """Return whether two outputs agree: all lines, and numbers within `atol` where that is set."""
    first, second = _lines(actual, options), _lines(expected, options)
    if first == second:
        return True
    if not options.atol or len(first) != len(second):
        return False
    return all(_close_line(left, right, options.atol) for left, right in zip(first, second, strict=True))


def _lines(text: str, options: Options) -> list[str]:
    text = text.replace("\r\n", "\n")
    if options.trailing_whitespace != "ignore":
        return text.split("\n")
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _close_line(left: str, right: str, atol: float) -> bool:
    mine, wanted = left.split(), right.split()
    return len(mine) == len(wanted) and all(_close(*pair, atol) for pair in zip(mine, wanted, strict=True))


def _close(left: str, right: str, atol: float) -> bool:
    if left == right:
        return True
    try:
        return abs(float(left) - float(right)) <= atol
    except (ValueError, OverflowError):
        return False


def facts(outcome: Outcome) -> Mapping[str, Any]:
    """Return the outcome as plain JSON data for a verdict's detail, which every log can write."""
    failures = [text.encode("utf-8", "backslashreplace").decode() for text in outcome.failures]
    return {"passed": outcome.passed, "total": outcome.total, "mode": outcome.mode, "failures": failures}
