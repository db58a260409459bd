"""The unit_test reward as its users see it: rows, options, extraction, refusals, advice."""

import ast
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rlvr_rewards
from rlvr_rewards import RewardRowError, RewardSpecError, build
from rlvr_rewards.sandbox import SandboxUnavailable, _advice, _launch, _pool, _probe, doctor
from rlvr_rewards.unit_test import UnitTest

ADD = "def add(a, b):\n    return a + b"
HARMONY = "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>"
ROW = {"tests": "assert add(2, 3) == 5\nassert add(-1, 1) == 0"}


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        (ADD, "correct"),
        (f"```python\n{ADD}\n```", "correct"),
        (f"Here:\n```py\n{ADD}\n```\nDone.", "correct"),
        (f"```\n{ADD}\n```", "correct"),
        (f"~~~python\n{ADD}\n~~~", "correct"),
        (f"````python\n{ADD}\n````", "correct"),
        (f"```Python\n{ADD}\n```", "correct"),
        (f"```python\n{ADD}", "correct"),
        ("1. First:\n   ```python\n   def add(a, b):\n       return a + b\n   ```", "correct"),
        (f"```python\nx = 1\n```\nBetter:\n```python\n{ADD}\n```", "correct"),
        (f"```python\n{ADD}\n```\n```text\n5\n```", "correct"),
        (f"<think>```python\nx = 1\n```</think>\n```python\n{ADD}\n```", "correct"),
        ('```python\ndef add(a, b):\n    """\n    ```\n    x\n    ```\n    """\n    return a + b\n```', "correct"),
        (f"<think>x</think>\n<answer>\n{ADD}\n</answer>", "correct"),
        (f"```python\n{ADD}\n```<|im_end|>", "correct"),
        (f"{HARMONY}```python\n{ADD}\n```<|return|>", "correct"),
        (f"analysisWe need a sum.assistantfinal```python\n{ADD}\n```", "correct"),
        (f"analysisResult = 1\n{ADD}\nEND = '</s>'", "correct"),
        (f"<|channel|>analysis<|message|>```python\n{ADD}\n```", "no_answer"),
        (f"<answer>```python\n{ADD}\n```</answer>", "correct"),
        (f"```python\r\n{ADD}\r\n```", "correct"),
        (f"```python\n{ADD}\n```\n```python\nprint(1)\n```", "tests_failed"),
        ("```python\n```", "no_answer"),
        ("```javascript\nfunction add() {}\n```", "no_answer"),
        ("", "no_answer"),
        ("   \n", "no_answer"),
        (f"<think>```python\n{ADD}\n```", "no_answer"),
        ("I cannot do this.", "tests_failed"),
        ("```python\ndef add(a, b):\n    return a +", "tests_failed"),
        ("def add(a, b):\n    return a + b\x00", "tests_failed"),
        ("def add(a, b): return a + b  # \ud800", "tests_failed"),
        ("#" * 300_000, "limit"),
    ],
)  # fmt: skip
def test_the_program_is_found(completion: str, reason: str) -> None:
    verdict = UnitTest().grade(completion, ROW)
    assert verdict.reason == reason, verdict
    assert verdict.score == (1.0 if reason == "correct" else 0.0)


def test_chat_completions_and_other_picks() -> None:
    chat = [{"role": "assistant", "content": f"```python\n{ADD}\n```\n```python\nx = 1\n```"}]
    assert UnitTest(pick="first")([chat], tests=[ROW["tests"]]) == [1.0]
    assert UnitTest()([chat], tests=[ROW["tests"]]) == [0.0]
    assert UnitTest(languages=["js"]).grade(f"```js\n{ADD}\n```", ROW).score == 1.0
    assert UnitTest(fence=False).grade(f"```python\n{ADD}\n```", ROW).score == 0.0


@pytest.mark.parametrize(
    ("style", "row", "words"),
    [
        ("assert", {"tests": None}, "missing"),
        ("assert", {"tests": ""}, "missing"),
        ("assert", {"tests": 5}, "missing"),
        ("assert", {"tests": "assert add(1, 2 == 3"}, "do not parse"),
        ("pytest", {"tests": "def test_add():\n    assert add(1, 2) == 3"}, "never import from `candidate`"),
        ("assert", {"tests": "add(1, 2)"}, "assert nothing"),
        ("assert", {"tests": "def check(f):\n    assert f(1) == 1"}, "never call"),
        ("assert", {}, "column"),
        ("pytest", {"tests": "def helper():\n    assert True"}, "no test function"),
        ("pytest", {"tests": "import subprocess\ndef test_a():\n    assert 1"}, "subprocess"),
        ("pytest", {"tests": "def test_a(tmp_path):\n    assert tmp_path"}, "tmp_path"),
        (
            "pytest",
            {"tests": "from candidate import A\nclass B(A):\n    pass\ndef test_a():\n    assert B()"},
            "derive",
        ),
        ("pytest", {"tests": "def test_a():\n    assert 1", "files": {"a.py": "def"}}, "a.py"),
        ("pytest", {"tests": "def test_a():\n    assert 1", "files": ["a.py"]}, "mapping"),
        ("assert", {"tests": "import numpy as np\nassert np.allclose(f(), 1)"}, "packages"),
        ("pytest", {"tests": "from hypothesis import given\ndef test_a():\n    assert 1"}, "hypothesis"),
        ("io", {"tests": []}, "not empty"),
        ("io", {"tests": "print(1)"}, "no JSON"),
        ("io", {"tests": [{"stdin": "1"}]}, "stdout"),
        ("io", {"tests": [{"stdin": 1, "stdout": "1"}]}, "stdin"),
        ("io", {"tests": ["1"]}, "test 0"),
    ],
)
def test_rows_that_cannot_be_graded_are_found_and_give_none(style: str, row: dict[str, Any], words: str) -> None:
    reward = UnitTest(style=style)
    (problem,) = reward.check_rows([row])
    assert words in problem.problem
    verdict = reward.grade(ADD, row)
    assert (verdict.score, verdict.reason) == (None, "bad_row")


def test_a_bad_row_gives_none_for_every_completion_and_only_there() -> None:
    tests = ["assert add(1, 1) == 2", "assert (", "assert ("]
    assert UnitTest()([ADD, ADD, "exit()"], tests=tests) == [1.0, None, None]


def test_asserts_can_come_as_a_list_of_statements() -> None:
    assert UnitTest()([ADD, "x"], tests=[["assert add(1, 1) == 2", "assert add(0, 1) == 1"]] * 2) == [1.0, 0.0]
    assert UnitTest().check_rows([{"tests": []}, {"tests": ["assert add(", "1"]}, {"tests": [1]}])[2].index == 2


def test_columns_of_the_wrong_shape_raise() -> None:
    with pytest.raises(RewardRowError):
        UnitTest()([ADD, ADD], tests=[ROW["tests"]])
    with pytest.raises(RewardRowError, match="tests"):
        UnitTest()([ADD], test=[ROW["tests"]])
    assert UnitTest()([ADD], tests=[ROW["tests"]], files=[None], entry_point=[None], prompts=["x"]) == [1.0]


@pytest.mark.parametrize(
    ("options", "program", "case", "score"),
    [
        ({}, "print(int(input()) * 2)", {"stdin": "4\n", "stdout": "8\n"}, 1.0),
        ({}, "print(1)", {"stdin": "", "stdout": "1\n2\n"}, 0.0),
        ({}, "print('1 \\n\\n2  \\n\\n')", {"stdin": "", "stdout": "1\n\n2"}, 1.0),
        ({}, "print(' 1')", {"stdin": "", "stdout": "1"}, 0.0),
        ({"trailing_whitespace": "strict"}, "print('1')", {"stdin": "", "stdout": "1"}, 0.0),
        ({"trailing_whitespace": "strict"}, "print('1')", {"stdin": "", "stdout": "1\n"}, 1.0),
        ({}, "print(0.1 + 0.2)", {"stdin": "", "stdout": "0.3"}, 0.0),
        ({"atol": 1e-9}, "print(0.1 + 0.2, 'x')", {"stdin": "", "stdout": "0.3 x"}, 1.0),
        ({"atol": 1e-9}, "print('nan')", {"stdin": "", "stdout": "0.3"}, 0.0),
        ({"atol": 1e-9}, "print('inf')", {"stdin": "", "stdout": "0.3"}, 0.0),
        ({}, "print(1)\nraise SystemExit(3)", {"stdin": "", "stdout": "1"}, 0.0),
        ({"exit_zero": False}, "print(1)\nraise SystemExit(3)", {"stdin": "", "stdout": "1"}, 1.0),
        ({}, "print(1)\nexit()", {"stdin": "", "stdout": "1"}, 1.0),
        ({}, "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())", {"stdin": "é\n", "stdout": "é\n"}, 1.0),
        ({}, "if __name__ == '__main__':\n    print(1)", {"stdin": "", "stdout": "1"}, 1.0),
        ({"as_main": False}, "if __name__ == '__main__':\n    print(1)", {"stdin": "", "stdout": "1"}, 0.0),
        ({}, "import atexit\natexit.register(print, 2)\nprint(1)", {"stdin": "", "stdout": "1\n2"}, 1.0),
        ({}, "print('x' * 10_000_000)", {"stdin": "", "stdout": "1"}, 0.0),
        ({}, "import sys\nfor line in sys.stdin: print(sum(map(int, line.split())))",
         {"stdin": "1 2\n3 4\n", "stdout": "3\n7\n"}, 1.0),
        ({}, "print(open(0).read())", {"stdin": "a", "stdout": "a"}, 1.0),
    ],
)  # fmt: skip
def test_scripts(options: dict[str, Any], program: str, case: dict[str, str], score: float) -> None:
    verdict = UnitTest(style="io", **options).grade(program, {"tests": [case]})
    assert verdict.score == score, verdict.detail


def test_a_large_expected_output_is_compared_whole() -> None:
    wanted = "\n".join(map(str, range(200_000)))
    reward = UnitTest(style="io")
    assert reward.grade("for i in range(200000): print(i)", {"tests": [{"stdin": "", "stdout": wanted}]}).score == 1.0
    assert reward.grade("for i in range(199999): print(i)", {"tests": [{"stdin": "", "stdout": wanted}]}).score == 0.0


def test_scripts_share_one_time_limit_and_partial_counts_cases() -> None:
    cases = [{"stdin": f"{n}", "stdout": f"{n}"} for n in range(8)]
    reward = UnitTest(style="io", partial=True, limit_s=1)
    program = "n = int(input())\nwhile n >= 4: pass\nprint(n)"
    verdict = reward.grade(program, {"tests": cases})
    assert (verdict.score, verdict.reason) == (0.5, "timeout")
    assert verdict.seconds < 3, "four limits of one second each"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"style": "nose"}, "style"),
        ({"limit_s": 0}, "limit_s"),
        ({"limit_s": "ten"}, "limit_s"),
        ({"languages": "python"}, "languages"),
        ({"memory_mb": 1}, "memory_mb"),
        ({"level": "none"}, "level"),
        ({"workers": 0}, "workers"),
        ({"partial": "yes"}, "partial"),
        ({"limits": 3}, "limit_s"),
    ],
)
def test_wrong_arguments_are_refused(args: dict[str, Any], words: str) -> None:
    with pytest.raises(RewardSpecError, match=words):
        build({"reward": "unit_test", "args": args})


def test_packages_are_only_there_when_asked_for() -> None:
    row = {"tests": "assert f() == [2, 4]\nassert abs(g() - 2.5) < 1e-9"}
    program = "import numpy as np\ndef f(): return np.array([1, 2]) * 2\ndef g(): return np.float64(2.5)"
    assert UnitTest().grade(program, row).score == 0.0
    verdict = UnitTest(packages=["numpy"], memory_mb=1024).grade(program, row)
    assert verdict.score == 1.0, verdict.detail
    both = {"tests": "import numpy as np\nassert (f() == np.array([2, 4])).all()\nassert np.allclose(f(), [2, 4])"}
    assert UnitTest(packages=["numpy"], memory_mb=1024).grade(program, both).score == 1.0
    assert UnitTest(packages=["numpy"], memory_mb=1024).grade(program.replace("* 2", "* 3"), both).score == 0.0
    fake = "import types\nnp = types.ModuleType('numpy')\nnp.array = np.allclose = lambda *_: True\ndef f(): return 0"
    assert UnitTest(packages=["numpy"], memory_mb=1024).grade(fake, both).score == 0.0
    tests = (
        "import numpy as np\nfrom candidate import f, h\ndef test_f():\n    assert isinstance(f(), np.ndarray)\n"
        "    assert f().shape == (2,) and (f() == np.array([2, 4])).all()\n"
        "    np.testing.assert_allclose(h(f()), [4, 8])"
    )
    reward = UnitTest(style="pytest", packages=["numpy"], memory_mb=1024)
    verdict = reward.grade(program + "\ndef h(x): return x * 2.0", {"tests": tests})
    assert verdict.score == 1.0, verdict.detail
    assert reward.grade(program + "\ndef h(x): return x", {"tests": tests}).score == 0.0


def test_a_batch_logs_reasons_and_extracted_programs() -> None:
    logged: dict[str, Any] = {}
    reward = UnitTest()
    reward([ADD, "x"], tests=[ROW["tests"]] * 2, log_extra=logged.__setitem__, log_metric=logged.__setitem__)
    assert logged["unit_test_reason"] == ["correct", "tests_failed"]
    assert logged["unit_test/correct"] == 0.5


# -- refusing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("system", "words"), [("darwin", "container"), ("win32", "WSL2"), ("freebsd14", "Linux")])
def test_other_systems_refuse_with_the_reason_and_what_to_use(
    system: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(_probe, "_found", {})
    with pytest.raises(SandboxUnavailable, match="not run here") as caught:
        UnitTest()([ADD], tests=[ROW["tests"]])
    assert words in str(caught.value)
    assert doctor()["level"] is None


def test_the_modules_import_without_those_of_linux() -> None:
    """What the trainer's process imports must load on macOS and Windows too."""
    code = (
        "import sys\n"
        "for name in ('resource', 'fcntl', 'pwd', 'grp'): sys.modules[name] = None\n"
        "import rlvr_rewards.unit_test, rlvr_rewards.sandbox._probe, rlvr_rewards.sandbox._judge\n"
        "assert 'rlvr_rewards.sandbox._kernel' not in sys.modules\n"
    )
    library = str(Path(rlvr_rewards.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": library})


def test_a_stack_that_lets_something_through_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_probe, "_found", {})
    monkeypatch.setattr(_probe, "BATTERY", "print('BREACH read a file')\nprint('end')\n")
    with pytest.raises(SandboxUnavailable, match="could read a file"):
        _probe.required()


def test_probes_that_do_not_finish_are_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_probe, "_found", {})
    monkeypatch.setattr(_probe, "BATTERY", "import os\nos._exit(0)\n")
    assert _probe.protection().level is None
    assert "did not finish" in " ".join(_probe.protection().tried.values())


def test_without_bubblewrap_the_next_stack_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_probe, "_found", {})
    monkeypatch.setattr(_advice, "find_bwrap", lambda: None)
    found = _probe.protection()
    assert found.level == "landlock+seccomp"
    assert any("install bubblewrap" in step for step in found.advice)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("bubblewrap is not installed", "apt install bubblewrap"),
        ("bwrap: No permissions to create new namespace", "seccomp profile"),
        ("bwrap: setting up uid map: Permission denied", "apparmor_parser"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "apparmor"),
        ("bwrap: Failed to make / slave: Permission denied", "landlock+seccomp"),
        ("OSError: Landlock is not available", "5.13"),
        ("OSError: [Errno 22] seccomp: Invalid argument", "CONFIG_SECCOMP_FILTER"),
        ("something new", "doctor"),
    ],
)
def test_advice_fits_what_was_said(said: str, words: str) -> None:
    assert words in " ".join(_advice.steps({"bwrap+landlock+seccomp": said}, {}))
    assert words in _advice.refusal({"x": said}, _advice.steps({"x": said}, {}))


def test_the_doctor_says_what_there_is() -> None:
    found = doctor()
    assert found["level"] in _launch.LEVELS
    assert found["facts"]["system"] == "Linux"
    assert found["facts"]["landlock_abi"] >= 0
    assert isinstance(found["advice"], list)


def test_as_many_workers_as_processors_and_memory_allow() -> None:
    assert 1 <= _advice.workers_that_fit(64) <= _advice.cores()
    assert _advice.workers_that_fit(1 << 30) == 1


def test_no_environment_variable_changes_the_protection() -> None:
    folder = Path(_launch.__file__).parent
    for path in [*folder.glob("*.py"), folder.parent / "unit_test.py"]:
        text = path.read_text(encoding="utf-8")
        names = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
        assert "getenv" not in names, path
        assert "environ" not in names or path.name == "_pytest_face.py", path


OPTIMISED = """
from rlvr_rewards.unit_test import UnitTest
tests = "from candidate import f\\ndef test_f():\\n    assert f(1) == 2"
programs = ["def f(x): return x + 1", "def f(x): return x", "def f(x):\\n    assert x > 1\\n    return 2"]
print(UnitTest(style="pytest")(programs, tests=[tests] * 3))
"""


@pytest.mark.parametrize("switch", ["-O", "-OO"])
def test_assertions_hold_where_the_trainer_runs_without_its_own(switch: str) -> None:
    done = subprocess.run([sys.executable, switch, "-c", OPTIMISED], capture_output=True, text=True, check=False)
    assert done.stdout == "[1.0, 0.0, 0.0]\n", done.stderr


def test_an_interpreter_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_launch.importlib.util, "MAGIC_NUMBER", b"\x00\x00\r\n")
    problem = _probe.attack("landlock+seccomp", {})
    assert problem is not None
    assert "another version of Python" in problem


# -- what the probes notice: each layer taken out, one at a time ------------------------------------------------------

LAYERS = {
    "the call filter": ("self.seal.close()", "pass", "start a process"),
    "Landlock": ('calls.append(("syscall", restrict))', "pass", "read a file"),
    "the memory limit": ("memory_mb << 20", "memory_mb << 40", "take 2 GB of memory"),
    "the closing of descriptors": ("os.closerange(first_free, MAX_OPEN_FILES)", "pass", "use a spare descriptor"),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_a_missing_layer_is_noticed_at_start(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, replacement, breach = LAYERS[layer]
    _edit_worker(monkeypatch, text, replacement)
    problem = _probe.attack("landlock+seccomp", {})
    assert problem is not None
    assert breach in problem


def test_the_oldest_landlock_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    _edit_worker(monkeypatch, "abi = _kernel.landlock_abi()", "abi = min(1, _kernel.landlock_abi())")
    assert _probe.attack("landlock+seccomp", {}) is None


def test_a_kernel_without_landlock_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _edit_worker(monkeypatch, "abi = _kernel.landlock_abi()", "abi = 0")
    monkeypatch.setattr(_probe, "_found", {})
    monkeypatch.setattr(_advice, "find_bwrap", lambda: None)
    with pytest.raises(SandboxUnavailable, match="lsm=landlock") as caught:
        _probe.required()
    assert "apt install bubblewrap" in str(caught.value)


def _edit_worker(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Start workers from a changed source."""

    def sources(kind: Any) -> list[list[str]]:
        found = _launch.worker_sources(kind)
        assert sum(text.count(old) for _, text in found) == 1
        return [[name, text.replace(old, new)] for name, text in found]

    monkeypatch.setattr(_pool, "worker_sources", sources)


ONE_STATE = (
    "assert f() == WANTED",
    "import random\nassert random.random() == WANTED == f()",
    "import random\nfrom decimal import Decimal\nassert random.random() == f()",
)


@pytest.mark.parametrize("tests", ONE_STATE)
def test_every_program_and_every_test_finds_the_generator_in_one_state(tests: str) -> None:
    wanted, code = repr(random.Random(0).random()), "import random\ndef f(): return random.random()"
    rows = [{"tests": tests.replace("WANTED", wanted)}] * 3
    assert [verdict.score for verdict in UnitTest().grade_batch([code] * 3, rows)] == [1.0] * 3


@pytest.mark.parametrize("tests", ["assert f() == 1", "got = f()\nassert got == 1, got"])
@pytest.mark.parametrize("code", ["def f(): raise ValueError('\\ud800')", "def f(): return '\\ud800'",
                                  "raise ValueError('\\udcff')"])  # fmt: skip
def test_what_a_failure_says_can_be_written_by_every_log(tests: str, code: str) -> None:
    verdict = UnitTest().grade(code, {"tests": tests})
    assert verdict.score == 0.0
    assert "".join(verdict.detail["failures"]).encode()
