"""The supervisor alone, over small programs: phases, services, stops, full disks, and nothing left behind."""

import sys
import textwrap

import pytest

from grpo_rlvr.runs import run_logs, run_status, stop_run
from grpo_rlvr.runs.launching import free_port
from grpo_rlvr.runs.process import start_time
from grpo_rlvr.runs.records import read_record, write_record
from grpo_rlvr.runs.start import start_attempt, write_code
from grpo_rlvr.runs.store import RunStore

SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""


def program(name, code, *arguments, **more):
    return {"name": name, "argv": [sys.executable, "-c", textwrap.dedent(code), *arguments], "environment": {}, **more}


@pytest.fixture
def start(workspace):
    """Start a run of some phases; returns its folder."""
    from pathlib import Path

    def begin(*phases, grace_s=1.0, prepare=None):
        store = RunStore(workspace)
        run_id = store.new_id("train")
        with store.building(run_id) as folder:
            (folder / "attempts").mkdir()
            write_record(folder / "run.json", {"run_id": run_id, "kind": "train", "created": ""})
            write_code(folder)
        made = store.get(run_id)
        if prepare:
            prepare(made)
        start_attempt(made, Path(sys.executable), list(phases), grace_s=grace_s)
        return made

    return begin


def test_phases_run_in_order_and_the_run_returns_at_once(start, ended, tmp_path):
    # A start that waited for its phase would never come to the line that lets the phase end.
    wait = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)\nprint('first')"
    folder = start(program("one", wait, str(tmp_path / "go")), program("two", "print('second')"))
    (tmp_path / "go").touch()
    status = ended(folder.run_id)
    assert status.state == "finished"
    text = folder.log.read_text(encoding="utf-8")
    assert text.index("first") < text.index("phase 'two'") < text.index("second")


def test_standard_input_is_closed_and_the_session_is_its_own(start, ended):
    code = "import os, sys; print('in:', repr(sys.stdin.read()), 'leader:', os.getsid(0) == os.getpid())"
    folder = start(program("ask", code))
    ended(folder.run_id)
    assert "in: '' leader: True" in folder.log.read_text(encoding="utf-8")


def test_service_is_waited_for_and_ended_with_the_run(start, ended, alive):
    port = free_port()
    server = program("vLLM server", SERVER, str(port), health=f"http://127.0.0.1:{port}/health", timeout_s=30)
    code = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).status)"
    folder = start(server, program("train", code, f"http://127.0.0.1:{port}/health"))
    assert ended(folder.run_id).state == "finished"
    assert alive(folder.run_id) == []
    assert "'vLLM server' is healthy" in folder.log.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "timeout", "text"),
    [
        ("raise SystemExit(3)", 30, "exit code 3 before it was up"),
        ("import time; time.sleep(60)", 0.5, "was not healthy after 0.5 s"),
    ],
)
def test_service_that_does_not_come_up_fails_the_run(start, ended, code, timeout, text):
    url = f"http://127.0.0.1:{free_port()}/health"
    folder = start(program("vLLM server", code, health=url, timeout_s=timeout), program("train", "print('never')"))
    status = ended(folder.run_id)
    assert status.state == "failed" and text in status.message
    assert "phase 'train'" not in folder.log.read_text(encoding="utf-8")


def test_service_that_dies_ends_the_training(start, ended):
    port = free_port()
    code = SERVER.replace("serve_forever()", "handle_request()")
    server = program("vLLM server", code, str(port), health=f"http://127.0.0.1:{port}/health", timeout_s=30)
    folder = start(server, program("train", "import time; time.sleep(60)"))
    status = ended(folder.run_id)
    assert status.state == "failed" and "the vLLM server ended with exit code 0" in status.message


def test_grandchildren_in_other_sessions_are_ended_too(start, ended, alive):
    code = """
        import signal, subprocess, sys
        hold = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        subprocess.Popen([sys.executable, "-c", hold], start_new_session=True)
        sys.exit(4)
    """
    folder = start(program("train", code))
    status = ended(folder.run_id)
    assert status.state == "failed" and "exit code 4" in status.message
    assert alive(folder.run_id) == []
    assert read_record(folder.attempt(1) / "outcome.json")["left_over"] == []


def test_process_that_cleaned_its_environment_is_ended_too(start, ended):
    code = """
        import subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env={}, start_new_session=True)
        print("child", child.pid, flush=True)
    """
    folder = start(program("train", code))
    assert ended(folder.run_id).state == "finished"
    words = folder.log.read_text(encoding="utf-8").split()
    pid = int(words[words.index("child") + 1])
    assert start_time(pid) is None, "it is gone"


def test_segfault_and_missing_program_are_told(start, ended):
    folder = start(program("train", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
    assert "signal 11 (SIGSEGV)" in ended(folder.run_id).message
    folder = start({"name": "train", "argv": ["/no/such/program"], "environment": {}})
    assert "/no/such/program" in ended(folder.run_id).message


def test_stop_before_the_next_phase(start, ended, workspace, until):
    folder = start(program("one", "import time; time.sleep(1)"), program("two", "print('never')"))
    stop_run(folder.run_id, workspace)
    status = ended(folder.run_id)
    assert status.state == "stopped"
    assert "phase 'two'" not in folder.log.read_text(encoding="utf-8")


def test_program_that_ignores_the_stop_is_ended_after_the_grace(start, ended, workspace, until):
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    folder = start(program("train", code), grace_s=0.2)
    until(lambda: "up" in "".join(run_logs(folder.run_id, workspace).lines), 20, "up")
    stop_run(folder.run_id, workspace, grace_s=0.2)
    assert ended(folder.run_id).state == "stopped"


def test_second_supervisor_is_kept_off(start, workspace, until, ended):
    from pathlib import Path

    from grpo_rlvr.errors import InputError

    folder = start(program("train", "import time; time.sleep(60)"))
    with pytest.raises(InputError, match="another supervisor"):
        start_attempt(folder, Path(sys.executable), [])
    stop_run(folder.run_id, workspace, force=True)
    assert ended(folder.run_id).state in ("stopped", "lost")


def test_full_disk_while_writing_progress_is_told_by_its_name(start, ended):
    # /dev/full answers every write as a full disk does.
    code = """
        from pathlib import Path
        from grpo_rlvr.runs.records import append_rows, write_record
        import traceback
        attempt = Path("attempts/1")
        try:
            append_rows(Path("metrics.jsonl"), [{"step": 1}])
        except OSError as error:
            write_record(attempt / "error.json", {"message": f"OSError: {error}"})
            raise SystemExit(1)
    """
    folder = start(program("train", code), prepare=lambda made: made.metrics.symlink_to("/dev/full"))
    status = ended(folder.run_id)
    assert status.state == "failed" and "No space left on device" in status.message


def test_secrets_reach_the_program_and_no_file(workspace, ended):
    from pathlib import Path

    store = RunStore(workspace)
    run_id = store.new_id("train")
    with store.building(run_id) as folder:
        (folder / "attempts").mkdir()
        write_record(folder / "run.json", {"run_id": run_id, "kind": "train", "created": ""})
        write_code(folder)
    made = store.get(run_id)
    code = "import os; print(len(os.environ['HF_TOKEN']))"
    start_attempt(made, Path(sys.executable), [program("train", code)], secrets={"HF_TOKEN": "hf_of_the_tests_only"})
    assert ended(run_id).state == "finished"
    assert "20" in made.log.read_text(encoding="utf-8").split()
    for path in made.path.rglob("*"):
        assert not path.is_file() or b"hf_of_the_tests_only" not in path.read_bytes(), path
    assert run_status(run_id, workspace).state == "finished"
