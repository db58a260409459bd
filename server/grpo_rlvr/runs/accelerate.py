"""accelerate's own configuration and command line for a launcher section: one code path for 1..N processes."""

from pathlib import Path
from typing import Any

from grpo_rlvr.models.run import LauncherSpec

WORKER = "grpo_rlvr.runs.worker"
FSDP_DEFAULTS = {
    "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    "fsdp_state_dict_type": "SHARDED_STATE_DICT",
    "fsdp_offload_params": False,
}


def accelerate_config(launcher: LauncherSpec, on_cpu: bool, config: dict[str, Any], *, rank: int = 0) -> dict[str, Any]:
    """Return the content of an accelerate config file for one machine.

    Args:
        launcher: The launcher section.
        on_cpu: Whether training uses the CPU.
        config: The GRPOConfig arguments; they decide the precision when the launcher does not state it.
        rank: Rank of the machine.
    """
    total = launcher.processes * launcher.machines
    values: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": _kind(launcher, total),
        "mixed_precision": launcher.mixed_precision or "no",
        "use_cpu": on_cpu,
        "num_machines": launcher.machines,
        "num_processes": total,
        "machine_rank": rank,
        "main_training_function": "main",
        "rdzv_backend": "static",
        "same_network": True,
        "downcast_bf16": "no",
    }
    if launcher.machines > 1 or launcher.main_host:
        values["main_process_ip"] = launcher.main_host or "127.0.0.1"
    if launcher.main_port or launcher.machines > 1:
        values["main_process_port"] = launcher.main_port or 29500
    elif total > 1:
        # 0 lets torch choose a free port, so that two runs on one machine never meet.
        values["main_process_port"] = 0
    if launcher.deepspeed is not None:
        values["deepspeed_config"] = _deepspeed(launcher.deepspeed, launcher.machines)
    if launcher.fsdp is not None:
        values["fsdp_config"] = _fsdp(launcher.fsdp)
    return values


def train_command(python: Path | str, config: Path | str, folder: Path | str, attempt: str, *extra: str) -> list[str]:
    """Return the command that trains, on this machine."""
    return [
        str(python), "-m", "accelerate.commands.launch", "--config_file", str(config), *extra,
        "-m", WORKER, str(folder), attempt,
    ]  # fmt: skip


def _kind(launcher: LauncherSpec, total: int) -> str:
    if launcher.deepspeed is not None:
        return "DEEPSPEED"
    if launcher.fsdp is not None:
        return "FSDP"
    if total == 1:
        return "NO"
    # Also on the CPU: accelerate starts MULTI_CPU as a single process unless MPI starts it, and use_cpu picks gloo.
    return "MULTI_GPU"


def _deepspeed(stated: dict[str, Any], machines: int) -> dict[str, Any]:
    stage = stated.get("zero_stage", 2)
    values = {
        "zero_stage": stage,
        "offload_optimizer_device": stated.get("offload_optimizer", "none"),
        "offload_param_device": stated.get("offload_param", "none"),
        "zero3_init_flag": stage == 3,
        "zero3_save_16bit_model": stage == 3,
    }
    if machines > 1:
        # Each machine runs its own command; DeepSpeed's own launcher would want passwordless ssh.
        values["deepspeed_multinode_launcher"] = "standard"
    known = {"zero_stage", "offload_optimizer", "offload_param"}
    return values | {key: value for key, value in stated.items() if key not in known}


def _fsdp(stated: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {"fsdp_version": stated.get("version", 2), **FSDP_DEFAULTS}
    return values | {key: value for key, value in stated.items() if key != "version"}
