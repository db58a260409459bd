"""More than one machine: accelerate's multi-machine path between two hosts, and the scripts for schedulers."""

import json
import os
import secrets
import shlex
import subprocess
from pathlib import Path

import pytest

from grpo_rlvr.errors import RefusedError
from grpo_rlvr.models.run import RunSpec
from grpo_rlvr.runs import launch, metric_rows, run_status
from grpo_rlvr.runs.launching import free_port


class Hosts:
    """Two hosts: network namespaces joined by a cable, or twice this machine where namespaces are not allowed."""

    def __init__(self):
        name = secrets.token_hex(2)
        self.names = [f"grpo{name}a", f"grpo{name}b"]
        self.separate = self._cable()
        self.main = "10.77.0.1" if self.separate else "127.0.0.1"
        self.interface = "eth0" if self.separate else "lo"

    def _cable(self):
        first, second = self.names
        steps = [f"ip netns add {first}", f"ip netns add {second}"]
        steps.append(f"ip link add v{first} type veth peer name v{second}")
        for host, name in enumerate(self.names, 1):
            steps += [
                f"ip link set v{name} netns {name}",
                f"ip -n {name} link set v{name} name eth0",
                f"ip -n {name} addr add 10.77.0.{host}/24 dev eth0",
                f"ip -n {name} link set eth0 up",
                f"ip -n {name} link set lo up",
            ]
        try:
            return all(subprocess.run(step.split(), capture_output=True, check=False).returncode == 0 for step in steps)
        except FileNotFoundError:
            return False

    def start(self, rank, script):
        prefix = f"ip netns exec {self.names[rank]} " if self.separate else ""
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": self.interface}
        return subprocess.Popen([*prefix.split(), "bash", str(script)], env=environment, stdin=subprocess.DEVNULL)

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@pytest.fixture
def hosts():
    made = Hosts()
    yield made
    made.remove()


@pytest.mark.slow
def test_two_hosts_train_what_one_host_with_two_processes_trains(workspace, make_spec, ended, hosts):
    config = {"per_device_train_batch_size": 4, "max_steps": 4}
    one = make_spec(workspace, launcher={"processes": 2}, config=config)
    status = ended(launch(one, workspace, stage="smoke").run_id)
    assert status.state == "finished", status.log_tail
    expected = metric_rows(status.run_id, workspace)

    launcher = {"machines": 2, "main_host": hosts.main, "main_port": free_port()}
    two = RunSpec.model_validate({**one.model_dump(), "launcher": launcher})
    planned = launch(two, workspace, stage="smoke")
    assert planned.state == "planned" and [c.machine for c in planned.commands] == [0, 1]
    assert run_status(planned.run_id, workspace).state == "planned"
    children = [hosts.start(rank, planned.files[f"node-{rank}.sh"]) for rank in (1, 0)]
    assert [child.wait(timeout=150) for child in children] == [0, 0]
    status = run_status(planned.run_id, workspace)
    assert (status.state, status.progress.processes) == ("finished", 2)
    rows = metric_rows(planned.run_id, workspace)
    for mine, theirs in zip(rows, expected, strict=True):
        for name in ("loss", "grad_norm", "reward", "reward_std", "entropy", "num_tokens", "completions/mean_length"):
            assert mine[name] == pytest.approx(theirs[name], rel=1e-4, abs=1e-6), (mine["step"], name)
    assert any(row["grad_norm"] > 0 for row in rows)


@pytest.mark.slow
def test_edited_folder_does_not_train_on_another_machine_either(workspace, make_spec, hosts):
    spec = make_spec(workspace, launcher={"machines": 2, "main_host": hosts.main, "main_port": free_port()})
    planned = launch(spec, workspace, stage="smoke")
    folder = workspace.runs / planned.run_id
    edited = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
    edited["config"]["learning_rate"] = 1.0
    (folder / "spec.json").write_text(json.dumps(edited), encoding="utf-8")
    children = [hosts.start(rank, planned.files[f"node-{rank}.sh"]) for rank in (1, 0)]
    assert all(child.wait(timeout=150) != 0 for child in children)
    status = run_status(planned.run_id, workspace)
    assert status.state == "failed" and "not those that were launched" in status.message


@pytest.fixture
def big_spec(spec):
    config = {key: value for key, value in spec.config.items() if key != "use_cpu"}
    return RunSpec.model_validate(
        {
            **spec.model_dump(),
            "name": "two nodes",
            "config": config,
            "launcher": {"machines": 2, "processes": 8, "deepspeed": {"zero_stage": 3}},
            "vllm": {"mode": "server"},
            "setup": {"hardware": {"gpu": "H100"}},
        }
    )


def planned_files(spec, workspace):
    result = launch(spec, workspace, stage="smoke", dry_run=True)
    assert not [r for r in result.refusals if r.rule not in ("missing-packages",) and "config:" not in r.rule], result
    from grpo_rlvr.interpreter import training_interpreter
    from grpo_rlvr.runs.launching import hand_out_gpus
    from grpo_rlvr.runs.nodes import node_commands, write_scripts
    from grpo_rlvr.runs.plan import make_plan
    from grpo_rlvr.runs.store import RunStore

    spec, gpus = hand_out_gpus(spec, RunStore(workspace))
    plan = make_plan(spec, "smoke", workspace, training_interpreter(workspace), gpus)
    folder = workspace.root / "planned"
    folder.mkdir()
    return {n: p.read_text("utf-8") for n, p in write_scripts(plan, folder, node_commands(plan, folder, "m")).items()}


def test_scripts_for_schedulers_are_valid_and_place_the_server_on_its_own_node(big_spec, workspace, tmp_path):
    files = planned_files(big_spec, workspace)
    assert set(files) == {"node-0.sh", "node-1.sh", "node-2.sh", "slurm.sh", "skypilot.yaml"}
    for name, text in files.items():
        if name.endswith(".sh"):
            path = tmp_path / name
            path.write_text(text, encoding="utf-8")
            checked = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
            assert checked.returncode == 0, (name, checked.stderr)
    assert "#SBATCH --nodes=3" in files["slurm.sh"] and "#SBATCH --gpus-per-node=8" in files["slurm.sh"]
    assert "GRPO_RLVR_VLLM_HOST" in files["slurm.sh"]
    assert "serve" in files["node-2.sh"] and "--machine_rank 1" in files["node-1.sh"]
    import yaml

    task = yaml.safe_load(files["skypilot.yaml"])
    assert task["num_nodes"] == 3 and task["resources"] == {"accelerators": "H100:8"}
    assert "$SKYPILOT_NODE_RANK" in task["run"]


def test_node_command_is_one_that_accelerate_parses(big_spec, workspace):
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    files = planned_files(big_spec, workspace)
    line = next(line for line in files["node-1.sh"].splitlines() if "accelerate.commands.launch" in line)
    words = shlex.split(line)
    arguments = words[words.index("accelerate.commands.launch") + 1 :]
    parsed = launch_command_parser().parse_args(arguments)
    assert (parsed.machine_rank, parsed.main_process_port, parsed.module) == (1, 29500, True)
    assert parsed.training_script == "grpo_rlvr.runs.worker"
    from grpo_rlvr.runs.accelerate import accelerate_config

    config = workspace.root / "accelerate.json"
    for launcher in (
        big_spec.launcher,
        big_spec.launcher.model_copy(update={"deepspeed": None, "fsdp": {"version": 2}}),
    ):
        config.write_text(json.dumps(accelerate_config(launcher, False, {})), encoding="utf-8")
        loaded = load_config_from_file(str(config))
        assert loaded.num_processes == 16 and loaded.num_machines == 2
    assert Path(parsed.config_file).name == "accelerate.json"


def test_several_machines_without_an_open_gate_are_refused_too(big_spec, workspace):
    with pytest.raises(RefusedError, match="gate:no-reading"):
        launch(big_spec.model_copy(update={"reading": None}), workspace, stage="smoke")
