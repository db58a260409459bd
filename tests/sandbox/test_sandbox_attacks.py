"""Isolation, denial of service and forging: every attack, at every level, as root and as an ordinary user."""

import os
import secrets
from pathlib import Path
from typing import Any

import pytest

from rlvr_rewards.sandbox import _pool
from rlvr_rewards.sandbox._jobs import Job, Limits
from rlvr_rewards.unit_test import UnitTest

DATA = Path(__file__).parents[1] / "data" / "sandbox"
TOKEN = f"EXPECTED_{secrets.token_hex(8)}"
PAIRS = f"{{((3, 4, 5, 6), (5, 7, 4, 10)): (4, 5), ((1, 2, 3, 4), (5, 4, 3, 7)): (3, 4), (('k',), ('z',)): {TOKEN!r}}}"
VALUES = f"""
assert f((3, 4, 5, 6), (5, 7, 4, 10)) == (4, 5)
assert f((1, 2, 3, 4), (5, 4, 3, 7)) == (3, 4)
assert f(('k',), ('z',)) == {TOKEN!r}
"""
ASSERTS = f"""
import math
EXPECTED = {PAIRS}
for args, want in EXPECTED.items():
    assert f(*args) == want
for got, (args, want) in zip((f(*args) for args in EXPECTED), EXPECTED.items()):
    assert got == want
for got, want in zip(map(g, [4.0, 9.0]), [2.0, 3.0]):
    assert math.isclose(got, want)
assert abs(g(2.0) - 1.4142135) < 1e-6
for xs in ([3, 1, 2], [9, 8]):
    assert items(list(xs)) == sorted(xs)
"""
PYTEST = f"""
import math
import unittest
import pytest
from candidate import f, g, items
EXPECTED = {PAIRS}
@pytest.mark.parametrize("args, want", EXPECTED.items())
def test_f(args, want):
    assert f(*args) == want
def test_loop():
    for got, want in zip(map(g, [4.0, 9.0]), [2.0, 3.0]):
        assert math.isclose(got, want)
def test_g():
    assert g(4.0) == pytest.approx(2)
    assert abs(g(2.0) - 1.4142135) < 1e-6
    assert isinstance(g(9.0), float)
class Items(unittest.TestCase):
    def test_items(self):
        for xs in ([3, 1, 2], [9, 8]):
            self.assertEqual(items(list(xs)), sorted(xs))
            self.assertEqual(len(items(xs)), len(xs))
    def test_key(self):
        self.assertEqual(items([2, 1]), [1, 2])
"""
RIGHT = f"""
def f(a, b): return {TOKEN!r} if a == ('k',) else tuple(sorted(set(a) & set(b)))
def g(x): return x ** 0.5
def items(xs): return sorted(xs)
"""
MODES = {"values": ("assert", VALUES), "assert": ("assert", ASSERTS), "pytest": ("pytest", PYTEST)}


def programs(name: str) -> dict[str, str]:
    """Parse a file of programs: `=== name`, then the text."""
    blocks = (DATA / name).read_text(encoding="utf-8").split("\n=== ")[1:]
    return {head.strip(): text for head, _, text in (block.partition("\n") for block in blocks)}


@pytest.mark.parametrize("mode", MODES)
def test_no_attack_on_the_verdict_is_paid(user: Any, level: str, mode: str, drive: Any) -> None:
    style, tests = MODES[mode]
    attacks = programs("forging.txt")
    assert len(attacks) >= 47
    # The right program runs first and last: its answers pass through the same workers as the attacks'.
    order = {"right before": RIGHT, **attacks, "right after": RIGHT}
    answers = drive(user, level, order, grade={"args": {"style": style, "limit_s": 5}, "tests": tests})["answers"]
    for name in ("right before", "right after"):
        assert answers.pop(name)[0] == 1.0
    assert {name: score for name, (score, _, _) in answers.items() if score != 0.0} == {}


STAR = """
import math
from candidate import *
assert_close = math.isclose
def test_g():
    assert math.isclose(g(4.0), 2.0)
    assert abs(g(9.0) - 3.0) < 1e-6
    assert sorted([2, 1]) == items([2, 1])
"""
UNIMPORTED = "assert math.isclose(g(4.0), 2.0)\nassert abs(g(9.0) - 3.0) < 1e-6\nassert items([2, 1]) == sorted([2, 1])"


@pytest.mark.parametrize(("style", "tests"), [("pytest", STAR), ("assert", UNIMPORTED)])
def test_names_of_the_program_do_not_replace_those_that_tests_compare_with(style: str, tests: str) -> None:
    reward = UnitTest(style=style)
    assert reward.grade(f"import math\n{RIGHT}", {"tests": tests}).score == 1.0
    for name in ("shadowed builtins and modules", "replaced math and operator", "replaced builtins"):
        verdict = reward.grade(programs("forging.txt")[name], {"tests": tests})
        assert verdict.score == 0.0, (name, verdict.detail)


def test_an_exception_of_a_callback_cannot_be_replayed_to_end_a_loop() -> None:
    tests = (
        "answers = iter([1])\nassert f(lambda: next(answers)) == 1\n"
        "try:\n    f(lambda: next(answers))\nexcept StopIteration:\n    pass\nexcept Exception:\n    pass\n"
        "for got, want in zip(map(h, [1, 2]), [1, 2]):\n    assert got == want\nassert h(0) is None or True\n"
    )
    honest = "def f(g): return g()\ndef h(x): return x"
    replay = "def f(g): return g()\nclass E(Exception): _rlvr_token = 0\ndef h(x):\n    if x: raise E\n    return None"
    assert UnitTest().grade(honest, {"tests": tests}).score == 1.0
    assert UnitTest().grade(replay, {"tests": tests}).score == 0.0


def test_partial_credit_cannot_be_forged_to_full_credit(mode_tests: tuple[str, str]) -> None:
    style, tests = mode_tests
    reward = UnitTest(style=style, partial=True, limit_s=5)
    attacks = programs("forging.txt")
    verdicts = reward.grade_batch(list(attacks.values()), [{"tests": tests}] * len(attacks))
    paid = {name: verdict.score for name, verdict in zip(attacks, verdicts, strict=True) if verdict.score != 0.0}
    assert set(paid) <= {"partly right, then death"}
    assert all(0 < (score or 0) < 1 for score in paid.values())


@pytest.fixture(params=MODES)
def mode_tests(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Style and tests of one mode."""
    return MODES[request.param]


def test_no_probe_reaches_anything(user: Any, level: str, drive: Any) -> None:
    probes = programs("isolation.txt")
    assert len(probes) >= 56
    answers = drive(user, level, probes, targets=True)["answers"]
    reached = {name: output for name, (_, _, output) in answers.items() if "BREACH" in output}
    allowed = {"look at a file (metadata)"} if level == "landlock+seccomp" else set()
    assert set(reached) == allowed
    silent = [name for name, (_, _, output) in answers.items() if "held" not in output and name not in reached]
    assert silent == []


def test_probes_breach_without_protection() -> None:
    """The probes can fail: run plainly, by a harmless selection of them, they do reach what they aim at."""
    import subprocess
    import sys

    chosen = ("read /etc/passwd", "list processes", "open a netlink socket", "fork", "make a memory file", "listen",
              "take 2 GB by mapping", "watch files")  # fmt: skip
    probes = programs("isolation.txt")
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("attack_driver", Path(__file__).with_name("attack_driver.py"))
    assert spec and spec.loader
    driver = module_from_spec(spec)
    spec.loader.exec_module(driver)
    for name in chosen:
        program = driver.PREAMBLE.replace("{target!r}", "{}") + probes[name]
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=90, check=False)
        assert b"BREACH" in done.stdout, name


def test_no_program_holds_or_crashes_the_grader(user: Any, level: str, drive: Any) -> None:
    attacks = programs("denial.txt")
    order: dict[str, str] = {}
    for name, text in attacks.items():
        order[name] = text
        order[f"after {name}"] = "print(7)"
    walls = {name: 0.6 for name in attacks if name.endswith("timeout")}
    answers = drive(user, level, order, walls=walls)["answers"]
    for name in attacks:
        status, code, _ = answers[name]
        wanted = name.rpartition(" | ")[2]
        ended = status if status != "ok" else ("died" if code < 0 else "error" if code else "fine")
        assert ended == wanted, (name, status, code)
        assert answers[f"after {name}"] == ["ok", 0, "7\n"], name


def test_nothing_passes_from_one_sample_to_the_next(user: Any, level: str, drive: Any) -> None:
    secret = secrets.token_hex(8)
    scan = next(text for name, text in programs("forging.txt").items() if name.startswith("scan of all memory"))
    scan += "\nprint(f(('k',), ()))\n"
    order = {
        f"planted {n}": f"x = 'EXPECTED_{secret}'\nprint(x * 500)\nimport json\njson.dumps = None" for n in range(3)
    }
    order |= {
        "scan": scan,
        "self": f"# EXPECTED_{secret}\n" + scan,
        "patched": "import json\nprint(json.dumps is None)",
    }
    order["file"] = "import os\nprint(os.listdir(os.getcwd()) if os.path.exists('new') else 'none')"
    answers = drive(user, level, order)["answers"]
    assert answers["scan"][2] == "None\n"
    assert secret in answers["self"][2]  # the scan does find what is there
    assert answers["patched"][2] == "False\n"
    assert answers["file"][2] == "none\n"


MARK = """
import fcntl, os
def f():
    for number in range(3):
        fcntl.fcntl(number, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK | os.O_ASYNC)
    return [0, 0, 0]
"""
LOOK = """
import fcntl, os
def f(): return [fcntl.fcntl(n, fcntl.F_GETFL) & (os.O_APPEND | os.O_NONBLOCK | os.O_ASYNC) for n in range(3)]
"""


@pytest.mark.parametrize("tests", ["assert f() == [0, 0, 0]", "got = f()\nassert got == [0, 0, 0], got"])
def test_no_flag_of_a_descriptor_passes_from_one_sample_to_the_next(tests: str) -> None:
    reward = UnitTest(workers=1)
    assert [verdict.score for verdict in reward.grade_batch([MARK, LOOK], [{"tests": tests}] * 2)] == [1.0, 1.0]
    (marked, seen) = reward.grade_batch(
        [MARK + "f()\n" + LOOK, LOOK], [{"tests": tests}] * 2
    )  # within one sample, what was set is seen
    assert (marked.score, seen.score) == (0.0, 1.0)


IN_FLIGHT = """
import array, os, socket
ends = socket.socketpair()
for end in ends:  # a circle that the kernel breaks when it likes, with the result pipe in it
    kept = array.array("i", [ends[0].fileno(), ends[1].fileno(), 1])
    end.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, kept)])
os.write(1, b"sent")
os._exit(0)
"""


def test_a_result_pipe_left_open_in_a_socket_holds_nobody_up(level: str) -> None:
    def grading() -> Any:
        limits = Limits(wall_s=3.0)
        result = yield Job("stdio", ({"code": IN_FLIGHT, "stdin": "", "name": "__main__"},), limits)
        return result

    pool = _pool.Pool(level, 1)  # type: ignore[arg-type]
    results = pool.run([grading() for _ in range(8)])
    pool.close()
    assert [(result.status, result.exit, result.data) for result in results] == [("ok", 0, b"sent")] * 8
    assert max(result.facts["wall_s"] for result in results) < 3.0


@pytest.mark.parametrize("hidden", [True, False])
def test_what_a_program_wrote_is_found_only_where_the_worker_does_not_hide_it(
    hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeps = "    made.madvise(mmap.MADV_DONTFORK)\n"
    sources = _pool.worker_sources
    assert sum(keeps in text for _, text in sources("program")) == 1
    if not hidden:
        monkeypatch.setattr(_pool, "worker_sources", lambda kind: [
            [name, text.replace(keeps, "")] for name, text in sources(kind)])  # fmt: skip
    scan = next(text for name, text in programs("forging.txt").items() if name.startswith("scan of all memory"))

    def grading(code: str) -> Any:
        result = yield Job("stdio", ({"code": code, "stdin": "", "name": "__main__"},), Limits())
        return result.data.decode()

    pool = _pool.Pool("landlock+seccomp", 1)
    head, tail = TOKEN[:9], TOKEN[9:]  # apart, so that no source holds all of it
    found = pool.run([grading(f"print(({head!r} + {tail!r}) * 500)"), grading(f"{scan}\nprint(f(('k',), ()))")])[1]
    pool.close()
    assert found == ("None\n" if hidden else f"{TOKEN}\n")


def test_the_attacks_were_run_as_an_ordinary_user_too(attackers: tuple[str, ...]) -> None:
    assert "ordinary" in attackers
    assert os.geteuid() != 0 or "root" in attackers
