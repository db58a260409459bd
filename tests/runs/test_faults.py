"""What breaks around a run: disks, signals in the middle of a save, two servers, edited folders, replayed specs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grpo_rlvr.errors import RefusedError
from grpo_rlvr.models.run import RunSpec
from grpo_rlvr.runs import launch, list_runs, metric_rows, resume_run, run_status, stop_run
from grpo_rlvr.runs.launching import free_port
from grpo_rlvr.runs.records import read_record, write_record
from grpo_rlvr.runs.watch import thin_rows

REFERENCE = Path(__file__).resolve().parents[2] / "references" / "launching.md"


def may_mount(folder):
    done = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True, check=False)
    if done.returncode == 0:
        subprocess.run(["umount", str(folder)], check=True)
    return done.returncode == 0


@pytest.mark.slow
def test_full_disk_fails_the_run_keeps_its_checkpoints_and_it_resumes_on_a_larger_one(workspace, make_spec, ended):
    spec = make_spec(workspace, config={"max_steps": 12, "save_steps": 1, "save_total_limit": 50})
    workspace.runs.mkdir(parents=True)
    if not may_mount(workspace.runs):
        # Where nothing may be mounted, the whole store cannot be made small; one file on a full disk has its own test.
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=14m", "tmpfs", str(workspace.runs)], check=True)
    try:
        run_id = launch(spec, workspace, stage="full", waive="fault").run_id
        status = ended(run_id)
        assert status.state == "failed", status.message
        assert "No space left" in status.message or "space" in "\n".join(status.log_tail), status.message
        assert status.checkpoints, "the checkpoints before the disk was full are usable"
        assert [row["step"] for row in metric_rows(run_id, workspace)][:2] == [1, 2]
        subprocess.run(["mount", "-o", "remount,size=128m", str(workspace.runs)], check=True)
        resume_run(run_id, workspace)
        status = ended(run_id)
        assert status.state == "finished", status.log_tail
        assert [row["step"] for row in metric_rows(run_id, workspace)] == list(range(1, 13))
    finally:
        subprocess.run(["umount", "-l", str(workspace.runs)], check=False)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signal_in_the_middle_of_a_save_leaves_usable_checkpoints(workspace, make_spec, ended, alive, until, number):
    spec = make_spec(workspace, config={"max_steps": 3000, "save_steps": 1})
    run_id = launch(spec, workspace, stage="full", waive="fault").run_id
    checkpoints = workspace.runs / run_id / "checkpoints"
    until(lambda: list(checkpoints.glob("checkpoint-*")), 120, "a save has begun")
    for pid in alive(run_id):
        environment = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"grpo_rlvr.runs.worker" in environment and b"accelerate.commands.launch" not in environment:
            os.kill(pid, number)
    status = ended(run_id)
    assert status.state == ("stopped" if number == signal.SIGTERM else "failed"), status.message
    if number == signal.SIGTERM:
        assert status.checkpoints
    (workspace.root / "train.jsonl").touch()
    resume_run(run_id, workspace)
    until(lambda: run_status(run_id, workspace).state == "running", 120, "it trains again")
    stop_run(run_id, workspace)
    status = ended(run_id)
    assert (status.state, status.attempt) == ("stopped", 2), status.log_tail
    steps = [row["step"] for row in metric_rows(run_id, workspace)]
    assert steps == list(range(1, len(steps) + 1))


def sealed_run(workspace, spec, ended):
    """A run that ended at once, since its training interpreter was told to leave: cheap, and really launched."""
    run_id = launch(spec, workspace, stage="smoke").run_id
    stop_run(run_id, workspace, force=True)
    return ended(run_id)


def test_edited_or_copied_folders_and_changed_code_do_not_start(workspace, spec, ended):
    status = sealed_run(workspace, spec, ended)
    folder = workspace.root / status.folder
    for name in ("spec.json", "phases.json", "code/user/my_rewards.py", "gate.json"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole.replace(b"0", b"1", 1) + b"\n")
        with pytest.raises(RefusedError, match="were changed after its launch"):
            resume_run(status.run_id, workspace)
        (folder / name).write_bytes(whole)
    other = spec.model_copy(update={"resume": status.run_id, "config": {**spec.config, "learning_rate": 1.0}})
    with pytest.raises(RefusedError, match=r"differs from the one .* in: config"):
        launch(other, workspace)
    reward = workspace.root / "my_rewards.py"
    reward.write_text(reward.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    with pytest.raises(RefusedError, match="no longer the one"):
        resume_run(status.run_id, workspace)
    with pytest.raises(RefusedError, match="gate:reward_changed"):
        launch(RunSpec.model_validate((read_record(folder / "run.json") or {})["spec"]), workspace, stage="smoke")


def test_two_servers_launch_and_look_at_once(workspace, spec, ended):
    path = workspace.root / "spec.json"
    path.write_text(spec.model_dump_json(), encoding="utf-8")
    code = (
        "import sys\nfrom pathlib import Path\nfrom grpo_rlvr.models.run import RunSpec\n"
        "from grpo_rlvr.runs import launch, list_runs, stop_run\nfrom grpo_rlvr.workspace import Workspace\n"
        "workspace = Workspace.open(sys.argv[1], confined=False)\n"
        "spec = RunSpec.model_validate_json(Path(sys.argv[2]).read_text(encoding='utf-8'))\n"
        "run = launch(spec, workspace, stage='proof').run_id\n"
        "for _ in range(20):\n    list_runs(workspace)\n"
        "print(run, stop_run(run, workspace, force=True).state)\n"
    )
    command = [sys.executable, "-c", code, str(workspace.root), str(path)]
    servers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [server.communicate(timeout=120)[0].split() for server in servers]
    assert [answer[1] for answer in answers] == ["stopped", "stopped"]
    ids = {answer[0] for answer in answers}
    assert len(ids) == 2 and {run.run_id for run in list_runs(workspace).runs} == ids
    for run_id in ids:
        ended(run_id)


def test_taken_port_is_refused(workspace, spec):
    import socket

    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        changed = RunSpec.model_validate({**spec.model_dump(), "launcher": {"main_port": port}})
        refusals = launch(changed, workspace, stage="smoke", dry_run=True).refusals
        assert [refusal.rule for refusal in refusals] == ["port-taken"] and str(port) in refusals[0].message
    assert launch(changed, workspace, stage="smoke", dry_run=True).refusals == []


def test_thinned_rows_of_a_large_file_are_spread_over_it(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f'{{"step": {n}, "reward": 0.5, "padding": "{"x" * 40}"}}\n' for n in range(1, 50_001))
    began = time.process_time()
    rows = thin_rows(path, 200)
    assert time.process_time() - began < 1
    steps = [row["step"] for row in rows]
    assert len(steps) == 200 and steps == sorted(set(steps))
    assert steps[0] == 1 and steps[-1] > 49_500
    small = tmp_path / "small.jsonl"
    small.write_text("".join(f'{{"step": {n}}}\n' for n in range(1, 8)), encoding="utf-8")
    assert [row["step"] for row in thin_rows(small, 3)] == [1, 3, 5, 7], "the last row is always there"


@pytest.mark.slow
def test_chosen_label_halts_the_run(workspace, make_spec, ended):
    code = "from pathlib import Path\n\n\ndef flat(completions, **k):\n"
    code += "    if Path('flat').exists():\n        return [0.0] * len(completions)\n"
    code += "    return [float(c[:1] in 'abcdefghijklm' and c != '') for c in completions]\n"
    (workspace.root / "flat.py").write_text(code, encoding="utf-8")
    spec = make_spec(
        workspace,
        rewards=[{"reward": "flat.py:flat"}],
        guards={"constant_reward_logs": None, "truncated_logs": None, "labels": ["no_signal"]},
        config={"max_steps": 20_000, "save_steps": 5000},
    )
    (workspace.root / "flat").write_text("", encoding="utf-8")
    status = ended(launch(spec, workspace, stage="full", waive="label").run_id)
    assert status.state == "halted", (status.message, status.diagnosis)
    assert "'no_signal'" in status.message and status.checkpoints


def test_reference_page_shows_a_real_spec_and_names_every_refusal():
    text = REFERENCE.read_text(encoding="utf-8")
    RunSpec.model_validate(json.loads(text[text.index("```json") + 7 : text.index("```", text.index("```json") + 7)]))
    package = Path(sys.modules["grpo_rlvr.runs"].__file__).parent
    source = "".join((package / name).read_text(encoding="utf-8") for name in ("refusals.py", "launching.py"))
    rules = set(re.findall(r'refuse\(\s*"([a-z-]+)"', source))
    assert {"memory", "no-smoke", "output-taken"} <= rules
    assert [rule for rule in sorted(rules) if f"`{rule}`" not in text] == []


def test_records_keep_nothing_half_written(tmp_path):
    write_record(tmp_path / "a.json", {"x": 1}, durable=False)
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{"x": 1}'
