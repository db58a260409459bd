"""The small parts: records, checkpoints, guards, seals, states, intervals. No training."""

import json
import math
import os
import subprocess
import sys
import time

import pytest

from grpo_rlvr.errors import InputError, NotFoundError
from grpo_rlvr.runs import list_runs, metric_rows, run_logs, run_status
from grpo_rlvr.runs.checkpoints import complete_steps, last_complete, mark_complete
from grpo_rlvr.runs.guards import Guards
from grpo_rlvr.runs.measure import measure
from grpo_rlvr.runs.process import MARK, boot_id, end_all, identity, is_alive, marked
from grpo_rlvr.runs.records import append_rows, iter_rows, keep_rows, read_record, tail_lines, write_record
from grpo_rlvr.runs.seal import is_sealed, verify_folder, write_seal
from grpo_rlvr.runs.state import read_state
from grpo_rlvr.runs.store import RunFolder, RunStore, write_attempt


def make_run(store, kind="train", **record):
    run_id = store.new_id(kind)
    with store.building(run_id) as folder:
        (folder / "attempts").mkdir()
        write_record(folder / "run.json", {"run_id": run_id, "kind": kind, "created": "2026-01-01T00:00:00", **record})
        write_record(folder / "spec.json", {"workspace": "x"})
    return store.get(run_id)


def test_rows_survive_a_broken_last_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    append_rows(path, [{"step": 1}, {"step": 2}])
    with path.open("a", encoding="utf-8") as file:
        file.write('{"step": 3, "loss"')
    assert [row["step"] for row in iter_rows(path)] == [1, 2]
    moved = keep_rows(path, lambda row: row["step"] <= 1, tmp_path / "dropped.jsonl")
    assert moved == 1 and path.read_text(encoding="utf-8") == '{"step": 1}\n'
    assert [row["step"] for row in iter_rows(tmp_path / "dropped.jsonl")] == [2]


def test_records_are_whole_or_absent(tmp_path):
    path = tmp_path / "record.json"
    assert read_record(path) is None
    write_record(path, {"a": 1})
    assert read_record(path) == {"a": 1}
    path.write_text('{"a": ', encoding="utf-8")
    assert read_record(path) is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["record.json"]


def test_full_disk_leaves_the_old_record(tmp_path):
    path = tmp_path / "record.json"
    write_record(path, {"a": 1})
    with pytest.raises(TypeError):
        write_record(path, {"a": object()})
    assert read_record(path) == {"a": 1} and len(list(tmp_path.iterdir())) == 1


def test_tail_reads_only_the_end(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("".join(f"line {n}\n" for n in range(1000)), encoding="utf-8")
    assert tail_lines(path, 2) == (["line 998", "line 999"], True)
    assert tail_lines(path, 5, max_bytes=22) == (["line 998", "line 999"], True)
    assert tail_lines(tmp_path / "none", 2) == ([], False)


def test_only_whole_checkpoints_count(tmp_path):
    for step in (2, 4, 6):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"x" * step)
        if step != 6:
            mark_complete(folder, step)
    (tmp_path / "checkpoint-4" / "model.safetensors").write_bytes(b"x")
    assert complete_steps(tmp_path) == [2], "4 was cut short after its marker, 6 has none"
    assert last_complete(tmp_path).name == "checkpoint-2"
    assert last_complete(tmp_path / "absent") is None


def test_guards_halt_on_nan_constant_reward_and_truncation():
    sound = {"loss": 0.1, "reward": 0.5, "frac_reward_zero_std": 0.2, "completions/clipped_ratio": 0.5}
    guards = Guards({"nan": True, "constant_reward_logs": 3, "truncated_logs": 2})
    assert [guards.look(sound) for _ in range(9)] == [""] * 9
    assert "loss is nan" in guards.look({**sound, "loss": math.nan})
    assert "grad_norm is inf" in guards.look({**sound, "grad_norm": math.inf})
    flat = {**sound, "frac_reward_zero_std": 1.0}
    assert [bool(guards.look(flat)) for _ in range(3)] == [False, False, True]
    assert guards.look({**flat, "reward": 0.6}) == "", "another value starts the count anew"
    cut = {**sound, "completions/clipped_ratio": 1.0}
    assert [bool(guards.look(cut)) for _ in range(2)] == [False, True]
    off = Guards({"nan": False, "constant_reward_logs": None, "truncated_logs": None})
    assert all(off.look({**flat, **cut, "loss": math.nan}) == "" for _ in range(99))


def test_process_identity_tells_a_reused_pid():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    known = identity(child.pid)
    assert is_alive(known)
    assert not is_alive({**known, "start": str(int(known["start"]) - 1)}), "the same pid started at another time"
    assert not is_alive({**known, "boot": "another"})
    child.kill()
    time.sleep(0.05)
    assert not is_alive(known), "a corpse is not alive"
    child.wait()
    assert not is_alive(known) and not is_alive(None) and not is_alive({"pid": child.pid})


def test_all_processes_of_a_run_are_found_and_ended_even_in_their_own_sessions():
    code = (
        "import subprocess,sys,signal,time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable,'-c','import time;time.sleep(60)'],start_new_session=True)\n"
        "print('up',flush=True)\n"
        "time.sleep(60)\n"
    )
    environment = {**os.environ, MARK: "train-of-this-test"}
    child = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
    child.stdout.readline()
    assert len(marked("train-of-this-test")) == 2
    assert marked("train-of-this-tes") == []
    assert len(end_all("train-of-this-test", grace_s=0.3)) == 2
    child.wait()
    assert marked("train-of-this-test") == []


def test_seal_is_broken_by_any_change_and_by_another_key(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    (folder / "code" / "user").mkdir(parents=True)
    (folder / "code" / "user" / "r.py").write_text("x = 1\n", encoding="utf-8")
    write_record(folder / "spec.json", {"rewards": []})
    write_record(folder / "gate.json", {"open": True})
    write_seal(folder)
    assert is_sealed(folder)
    verify_folder(folder, {})
    for name in ("spec.json", "gate.json", "code/user/r.py", "code/user/new.py"):
        path = folder / name
        before = path.read_bytes() if path.exists() else None
        path.write_bytes((before or b"") + b" ")
        assert not is_sealed(folder), name
        with pytest.raises(RuntimeError, match="not those that were launched"):
            verify_folder(folder, {})
        path.write_bytes(before) if before is not None else path.unlink()
    assert is_sealed(folder)
    (folder / "log.txt").write_text("what a run writes is no part of it", encoding="utf-8")
    assert is_sealed(folder)
    monkeypatch.setenv("GRPO_RLVR_HOME", str(tmp_path / "another user"))
    assert not is_sealed(folder)


def test_state_is_read_from_files_and_processes(workspace):
    store = RunStore(workspace)
    folder = make_run(store)
    assert read_state(folder).state == "planned"
    attempt = write_attempt(folder, 1, {"run_id": folder.run_id, "phases": []})
    assert read_state(folder).state == "starting", "the supervisor may still come"
    os.utime(attempt / "plan.json", (time.time() - 100, time.time() - 100))
    assert read_state(folder).state == "lost"
    write_record(attempt / "process.json", identity())
    assert read_state(folder).state == "starting"
    write_record(folder.progress, {"attempt": 1, "phase": "training", "done": 3, "total": 9, "time": time.time()})
    assert (read_state(folder).state, read_state(folder).message) == ("running", "training")
    write_record(attempt / "process.json", {**identity(), "start": "1"})
    assert read_state(folder).state == "lost" and "resume" in read_state(folder).message
    write_record(attempt / "process.json", {"pid": os.getpid(), "start": "1", "boot": "of last week"})
    assert "machine was restarted" in read_state(folder).message
    write_record(attempt / "result.json", {"state": "finished", "message": "trained 9 steps", "time": time.time()})
    assert read_state(folder).state == "finished", "the supervisor died after the work was done"
    write_record(attempt / "outcome.json", {"state": "failed", "message": "boom", "ended": time.time()})
    assert (read_state(folder).state, read_state(folder).message) == ("failed", "boom")
    (folder.path / "run.json").unlink()
    assert run_status(folder.run_id, workspace).kind == "train", "a damaged folder is still answered for"
    assert boot_id()


def test_fifty_runs_are_listed_newest_first(workspace):
    store = RunStore(workspace)
    for number in range(50):
        folder = make_run(store, "sample" if number % 2 else "train")
        attempt = write_attempt(folder, 1, {})
        write_record(attempt / "outcome.json", {"state": "finished", "message": "done", "ended": 1.0})
    (workspace.runs / "notes").mkdir()
    (workspace.runs / ".new-train-20260101-000000-aaaaaa").mkdir()
    listed = list_runs(workspace)
    assert listed.total == 50 and {run.state for run in listed.runs} == {"finished"}
    times = [run.run_id.split("-", 1)[1][:15] for run in listed.runs]
    assert times == sorted(times, reverse=True)


def test_failed_build_leaves_no_folder(workspace):
    store = RunStore(workspace)
    run_id = store.new_id("train")
    with pytest.raises(RuntimeError, match="half way"), store.building(run_id) as folder:
        write_record(folder / "run.json", {})
        raise RuntimeError("half way")
    assert list(workspace.runs.iterdir()) == []


@pytest.mark.parametrize("bad", ["", "../../etc", "train-1", "train-20260101-000000-ABCDEF", "a" * 500, "x\0y"])
def test_what_is_no_run_id_is_refused(workspace, bad):
    for ask in (run_status, run_logs, metric_rows):
        with pytest.raises(InputError, match="not a run id"):
            ask(bad, workspace)
    with pytest.raises(NotFoundError, match="did you mean"):
        folder = make_run(RunStore(workspace))
        run_status(folder.run_id[:-1] + ("0" if folder.run_id[-1] != "0" else "1"), workspace)


def test_keys_are_blotted_out_of_shown_logs(workspace):
    folder = make_run(RunStore(workspace))
    folder.log.write_text(f"login with hf_{'a' * 34} ok\n", encoding="utf-8")
    assert run_logs(folder.run_id, workspace).lines == ["login with [key] ok"]


def test_nan_metrics_come_back_as_numbers(workspace):
    folder = make_run(RunStore(workspace))
    append_rows(folder.metrics, [{"step": 1, "loss": "NaN", "kl": "-Infinity", "note": "text"}])
    row = metric_rows(folder.run_id, workspace)[0]
    assert math.isnan(row["loss"]) and row["kl"] == -math.inf and row["note"] == "text"


def graded(folder, side, values, name="r"):
    rows = [{"group": g, "rewards": {name: v}} for g, group in enumerate(values) for v in group]
    append_rows(folder / f"evaluation_{side}.jsonl", rows)


def test_before_and_after_are_paired_by_prompt(tmp_path):
    graded(tmp_path, "before", [[0.0], [0.0], [1.0], [0.0]] * 25)
    assert measure(tmp_path) is None, "after is missing"
    graded(tmp_path, "after", [[1.0], [0.0], [1.0], [0.0]] * 25)
    change = measure(tmp_path)["rewards"][0]
    assert (change["before"]["value"], change["after"]["value"], change["difference"]["value"]) == (0.25, 0.5, 0.25)
    # Wilson's interval for 25 of 100, from its closed form.
    assert change["before"]["low"] == pytest.approx(0.1755, abs=1e-4)
    assert change["before"]["high"] == pytest.approx(0.3430, abs=1e-4)
    assert 0.15 < change["difference"]["low"] < 0.25 < change["difference"]["high"] < 0.36


def test_identical_sides_have_no_difference_and_graded_rewards_a_normal_interval(tmp_path):
    values = [[0.2, 0.4], [0.6, 0.8], [0.0, 0.1]]
    graded(tmp_path, "before", values)
    graded(tmp_path, "after", values)
    change = measure(tmp_path)["rewards"][0]
    assert change["difference"] == {"value": 0.0, "low": 0.0, "high": 0.0, "n": 3}
    assert change["before"]["n"] == 3 and change["before"]["low"] < 0.35 < change["before"]["high"]


def test_missing_prompts_give_no_comparison(tmp_path):
    graded(tmp_path, "before", [[0.0], [1.0]])
    graded(tmp_path, "after", [[0.0]])
    assert measure(tmp_path) is None


def test_workers_need_only_the_standard_library_and_the_training_libraries():
    import ast
    from pathlib import Path

    import grpo_rlvr
    from grpo_rlvr.runs.start import WORKERS

    package = Path(grpo_rlvr.__file__).parent
    shipped = {f"grpo_rlvr.{name.removesuffix('.py').replace('/', '.')}" for name in WORKERS}
    training = {"torch", "transformers", "trl", "datasets", "peft", "vllm", "rlvr_rewards"}
    for name in WORKERS:
        for node in ast.walk(ast.parse((package / name).read_text(encoding="utf-8"))):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                top = module.split(".")[0]
                known = top in sys.stdlib_module_names or top in training or module in shipped
                assert known, f"{name} imports {module}"


def test_folder_record_round_trip(tmp_path):
    folder = RunFolder(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"kind": "train"}), encoding="utf-8")
    assert folder.run() == {"kind": "train"} and folder.last_attempt() == 0
    assert folder.output() == tmp_path / "checkpoints"
