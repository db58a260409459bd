"""More than one machine: the same run as one command a machine, a Slurm batch script and a SkyPilot task.

The run folder must be reachable under the same path on every machine. Nothing is started here: each machine starts its
own command, and accelerate lets them meet.
"""

import json
import shlex
from pathlib import Path
from typing import Any

from grpo_rlvr.models.run import Command
from grpo_rlvr.runs.accelerate import train_command
from grpo_rlvr.runs.plan import Plan, phases
from grpo_rlvr.runs.seal import MANIFEST_VARIABLE
from grpo_rlvr.runs.start import ATTEMPT, child_environment

# Where the address of the first machine comes from when the spec does not state it.
MAIN_HOST = "$MAIN_HOST"
VLLM_HOST_VARIABLE = "GRPO_RLVR_VLLM_HOST"
DEFAULT_PORT = 29500


def node_commands(plan: Plan, folder: Path, manifest: str) -> list[Command]:
    """Return what each machine runs, in order, `machine` being its rank; a vLLM server has the rank after the last."""
    launcher = plan.spec.launcher
    shared = {**child_environment(folder), MANIFEST_VARIABLE: manifest}
    found = []
    for phase in phases(plan, folder):
        environment = {**shared, **phase["environment"]}
        argv = [part.replace(ATTEMPT, "1") for part in phase["argv"]]
        if phase["name"] == "vLLM server":
            environment.pop("CUDA_VISIBLE_DEVICES", None)
            found.append(Command(name=phase["name"], argv=argv, environment=environment, machine=launcher.machines))
        elif phase["name"] == "train":
            environment.pop("CUDA_VISIBLE_DEVICES", None) if not plan.on_cpu else None
            for rank in range(launcher.machines):
                found.append(
                    Command(name="train", argv=_train(plan, folder, rank), environment=environment, machine=rank)
                )
        else:
            found.append(Command(name=phase["name"], argv=argv, environment=environment, machine=0))
    return found


def _train(plan: Plan, folder: Path, rank: int) -> list[str]:
    launcher = plan.spec.launcher
    place = ["--machine_rank", str(rank), "--main_process_ip", launcher.main_host or MAIN_HOST]
    place += ["--main_process_port", str(launcher.main_port or DEFAULT_PORT)]
    return train_command(plan.interpreter.path, folder / "accelerate.json", folder, "1", *place)


def write_scripts(plan: Plan, folder: Path, commands: list[Command]) -> dict[str, Path]:
    """Write one shell script a machine, the Slurm script and the SkyPilot task into `folder`/nodes.

    Returns:
        Their paths by name.
    """
    target = folder / "nodes"
    target.mkdir(exist_ok=True)
    texts = {f"node-{rank}.sh": _script(commands, rank) for rank in sorted({c.machine for c in commands})}
    texts["slurm.sh"] = slurm_script(plan, target, commands)
    texts["skypilot.yaml"] = skypilot_task(plan, target, commands)
    for name, text in texts.items():
        (target / name).write_text(text, encoding="utf-8")
    return {name: target / name for name in texts}


def shell_line(command: Command) -> str:
    """Return a command as one line of shell, its variables in front; `$MAIN_HOST` stays open."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in command.environment.items()]
    parts = [f'"{part}"' if part == MAIN_HOST else shlex.quote(part) for part in command.argv]
    return " ".join(["env", *variables, *parts])


def _script(commands: list[Command], rank: int) -> str:
    lines = ["#!/bin/bash", "set -euo pipefail"]
    mine = [command for command in commands if command.machine == rank]
    if any(MAIN_HOST in command.argv for command in mine):
        lines.append(': "${MAIN_HOST:?set MAIN_HOST to the address of the first machine}"')
    for command in mine:
        lines += [f"# {command.name}", shell_line(command)]
    return "\n".join(lines) + "\n"


def slurm_script(plan: Plan, scripts: Path, commands: list[Command]) -> str:
    """Return a Slurm batch script that runs the machines' scripts, one task a machine."""
    nodes = max(command.machine for command in commands) + 1
    launcher = plan.spec.launcher
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={plan.spec.name.replace(' ', '-') or 'grpo'}",
        f"#SBATCH --nodes={nodes}",
        "#SBATCH --ntasks-per-node=1",
        *([] if plan.on_cpu else [f"#SBATCH --gpus-per-node={launcher.processes}"]),
        f"#SBATCH --cpus-per-task={max(2, launcher.processes)}",
        f"#SBATCH --output={shlex.quote(str(scripts.parent / 'log.txt'))}",
        "#SBATCH --open-mode=append",
        "set -euo pipefail",
        'mapfile -t HOSTS < <(scontrol show hostnames "$SLURM_JOB_NODELIST")',
        'export MAIN_HOST="${HOSTS[0]}"',
    ]
    if nodes > launcher.machines:
        lines += _slurm_server(scripts, launcher.machines)
        count = f"--nodes={launcher.machines} --ntasks={launcher.machines}"
        lines.append(f'srun {count} --exclude="$SERVER" --kill-on-bad-exit=1 \\')
    else:
        lines.append("srun --kill-on-bad-exit=1 \\")
    lines.append(f"  bash -c 'exec bash {_quoted_inside(str(scripts))}/node-\"$SLURM_PROCID\".sh'")
    return "\n".join(lines) + "\n"


def _slurm_server(scripts: Path, rank: int) -> list[str]:
    return [
        f'SERVER="${{HOSTS[{rank}]}}"',
        f'export {VLLM_HOST_VARIABLE}="$SERVER"',
        f'srun --nodes=1 --ntasks=1 --nodelist="$SERVER" bash {shlex.quote(str(scripts / f"node-{rank}.sh"))} &',
        "SERVER_JOB=$!",
        "trap 'kill \"$SERVER_JOB\" 2>/dev/null || true' EXIT",
    ]


def _quoted_inside(text: str) -> str:
    # Inside a single-quoted bash -c: double quotes guard spaces, and a single quote ends and reopens the outer ones.
    return '"' + text.replace("'", "'\\''") + '"'


def skypilot_task(plan: Plan, scripts: Path, commands: list[Command]) -> str:
    """Return a SkyPilot task (YAML, written as JSON, which YAML contains) over the same scripts."""
    nodes = max(command.machine for command in commands) + 1
    run = 'export MAIN_HOST="$(echo "$SKYPILOT_NODE_IPS" | head -n1)"\n'
    if nodes > plan.spec.launcher.machines:
        line = plan.spec.launcher.machines + 1
        run += f'export {VLLM_HOST_VARIABLE}="$(echo "$SKYPILOT_NODE_IPS" | sed -n {line}p)"\n'
    run += f'exec bash {shlex.quote(str(scripts))}/node-"$SKYPILOT_NODE_RANK".sh\n'
    task: dict[str, Any] = {"name": plan.spec.name.replace(" ", "-") or "grpo", "num_nodes": nodes, "run": run}
    gpu = (plan.spec.setup.get("hardware") or {}).get("gpu")
    if not plan.on_cpu and isinstance(gpu, str):
        task["resources"] = {"accelerators": f"{gpu}:{plan.spec.launcher.processes}"}
    return (
        "# The workspace must be a mount that all nodes share, under the same path.\n"
        + json.dumps(task, indent=2)
        + "\n"
    )
