"""The killable worker: limits, life cycle, threads, forks; and what the math reward makes of its ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import rlvr_rewards
from rlvr_rewards import Math, _worker

TOWER = "10^{(5^{5^{5^{5^{5}}} \\cdot \\log_{10}(5)} - 4)}"
SUM = {"gold": "\\frac{n(n+1)}{2}", "answer": "\\sum_{k=1}^{n} k"}


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Return whether a process ends within some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        threading.Event().wait(0.02)
    return False


def test_it_compares_what_the_reader_does_not_know(fresh_worker: _worker.Worker) -> None:
    assert fresh_worker.call("same", SUM, 5) == ("done", True)
    assert fresh_worker.call("same", {**SUM, "gold": "n^2"}, 5) == ("done", False)
    assert fresh_worker.call("same", {"gold": "\\frac{1}{2004!}", "answer": "\\frac{1}{2006!}"}, 5) == ("done", False)


def test_processor_time_ends_a_busy_worker(fresh_worker: _worker.Worker) -> None:
    fresh_worker.call("read", {"gold": "x"}, 5)
    pid = fresh_worker.pid
    state, _ = fresh_worker.call(
        "same", {"gold": "\\sum_{k=1}^{10^7} \\sin(k)", "answer": "\\sum_{k=1}^{10^7} \\cos(k)"}, 0.05
    )
    assert state == "timeout"
    assert pid is not None and gone(pid)
    assert fresh_worker.call("same", SUM, 5) == ("done", True)


def test_a_killed_worker_is_replaced(fresh_worker: _worker.Worker) -> None:
    fresh_worker.call("read", {"gold": "x"}, 5)
    pid = fresh_worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    assert fresh_worker.call("same", SUM, 5) == ("done", True)
    assert fresh_worker.pid != pid


def test_it_outlives_the_thread_that_started_it(fresh_worker: _worker.Worker) -> None:
    thread = threading.Thread(target=fresh_worker.call, args=("read", {"gold": "x"}, 5))
    thread.start()
    thread.join()
    pid = fresh_worker.pid
    assert pid is not None
    assert fresh_worker.call("same", SUM, 5) == ("done", True)
    assert fresh_worker.pid == pid


def test_it_ends_with_its_parent() -> None:
    code = (
        "import os, sys; from rlvr_rewards import _worker; _worker.SHARED.call('read', {'gold': 'x'}, 5); "
        "print(_worker.SHARED.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    assert gone(pid)


def test_a_forked_child_gets_a_worker_of_its_own(fresh_worker: _worker.Worker) -> None:
    _worker.SHARED.call("read", {"gold": "x"}, 5)
    before = _worker.SHARED.pid
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        state, result = _worker.SHARED.call("same", SUM, 5)
        os.write(writer, f"{state} {result} {_worker.SHARED.pid != before}".encode())
        _worker.SHARED.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"done True True"
    assert _worker.SHARED.pid == before


def test_the_time_for_reading_a_gold_is_not_the_answers(fresh_worker: _worker.Worker) -> None:
    # The first formula of this shape takes the parser more than a second, an answer of the same shape a tenth.
    recurrence = "G_n = \\sum_{k=0}^{n-1} G_k G_{n-k-1}"
    answer = "G_n = \\sum_{k=0}^{n-1} G_{n-k-1} G_k"
    assert fresh_worker.call("same", {"gold": recurrence, "answer": answer}, 0.8) == ("done", True)
    fresh_worker.close()
    assert fresh_worker.call("read", {"gold": recurrence}, 0.3) == ("done", True)


def test_calls_from_threads_take_turns(fresh_worker: _worker.Worker) -> None:
    answers: list[tuple[int, object]] = []

    def ask(number: int) -> None:
        gold = "\\frac{n(n+1)}{2}" if number % 2 else "n^2"
        answers.append((number, fresh_worker.call("same", {**SUM, "gold": gold}, 5)))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [(number, ("done", bool(number % 2))) for number in range(12)]


def test_what_a_library_prints_does_not_reach_the_protocol(fresh_worker: _worker.Worker) -> None:
    assert fresh_worker.call("none", {}, 5)[0] == "failed"
    assert fresh_worker.call("same", SUM, 5) == ("done", True)


def test_bombs_off_the_main_thread_leave_the_process_alive() -> None:
    reward = Math()
    bombs = [TOWER, "3^{1500000000}", "(10^8)!", "\\binom{10^9}{5\\cdot10^8}", "9^{9^{9^{9}}}", "\\sum_{k=1}^{10^9} k!"]
    scores: list[float | None] = []
    texts = [f"\\boxed{{{bomb}}}" for bomb in bombs]
    thread = threading.Thread(target=lambda: scores.extend(reward(texts, gold=["3"] * len(bombs))))
    thread.start()
    thread.join(20)
    assert scores == [0.0] * len(bombs)


def test_the_trainers_process_never_imports_sympy() -> None:
    code = (
        "import sys; from rlvr_rewards import Math; r = Math(); "
        "print(r(['\\\\boxed{\\\\sum_{k=1}^{n} k}'], gold=['\\\\frac{n(n+1)}{2}']), 'sympy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    assert shown.stdout == "[1.0] False\n"


def test_a_worker_that_cannot_start_is_no_verdict_and_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = _worker.Worker()
    monkeypatch.setattr(_worker, "SHARED", broken)
    answer, row = "\\boxed{\\sum_{k=1}^{n} k^2}", {"gold": "\\frac{n(n+1)(2n+1)}{6}"}
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(Path(rlvr_rewards.__file__).parent / "no-such-python"))
        verdict = Math().grade(answer, row)
        assert (verdict.score, verdict.reason) == (None, "harness_error")
    assert Math().grade(answer, row).score == 1.0
    broken.close()


def test_an_answer_that_kills_the_worker_scores_zero_after_a_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Dying(_worker.Worker):
        def call(self, task: str, payload: object, seconds: float) -> tuple[_worker.State, object]:
            calls.append(task)
            return "died", None

    monkeypatch.setattr(_worker, "SHARED", Dying())
    verdict = Math().grade("\\boxed{\\sum_{k=1}^{n} k^3}", {"gold": "\\frac{n^2(n+1)^2}{4}"})
    assert (verdict.score, verdict.reason) == (0.0, "died")
    assert calls == ["same", "same"]


GOLDS = ["7", "(1,2)", "x^2+1", "[0,1)", "\\{1,2\\}", "x=3", "\\text{yes}", "\\frac{n(n+1)}{2}", "y=2x+1", "x>3"]
NASTY = [
    *("x^{" * 60 + "2" + "}" * 60, "e^{" * 20 + "x" + "}" * 20, "x" + "!" * 200, "\\sqrt{" * 60 + "2" + "}" * 60),
    *("+".join(["x^{99}"] * 200), "\\sin(" * 30 + "x" + ")" * 30, "\\frac{" * 50 + "1" + "}{2}" * 50),
    *("=".join(["x"] * 8), ",".join(["\\sqrt{3}"] * 50), "\\cup".join(["(3,4)"] * 50), "|" * 40 + "x" + "|" * 40),
    *("\\{" * 60 + "3" + "\\}" * 60, "\\sum_{k=1}^{10^9} k^{k}", "\\int_0^{10^9} x^{x^{x}} dx", "1/" * 200 + "1"),
    *("\\prod_{k=1}^{10^6} k", "\\sum_{n=1}^{99999} n^{n^n}", "3000!^{3000!}", "\\binom{3000}{1500}^{99}"),
    *("2^{-99999999}", "(1+10^{-9})^{10^9}", "x^{y^{z^{w}}}", "(x+1)^{10000000}", "\\tan(\\tan(\\tan(x)))"),
    *("\\frac{d^{99}}{dx^{99}} e^{x^{99}}", "\\text{" + "a" * 3000 + "}"),
]


@pytest.mark.parametrize("gold", GOLDS)
def test_no_expression_takes_long_or_more_than_a_wrong_answer(gold: str) -> None:
    reward = Math()
    for answer in NASTY:
        verdict = reward.grade(f"\\boxed{{{answer}}}", {"gold": gold})
        assert verdict.score == 0.0, answer[:60]
        assert verdict.seconds < 9, answer[:60]
