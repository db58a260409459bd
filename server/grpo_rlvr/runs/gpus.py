"""GPUs of this machine, as the driver lists them, and which of them our own runs hold."""

import os
import shutil
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One GPU, memory in GB (10^9 bytes), utilization from 0 to 1."""

    index: int
    name: str
    memory_total_gb: float
    memory_used_gb: float
    utilization: float


def list_gpus() -> list[Gpu]:
    """Return the GPUs that a run may use; empty where there is no NVIDIA driver, or it does not answer in time."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    fields = "index,name,memory.total,memory.used,utilization.gpu"
    try:
        done = subprocess.run(
            [tool, f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    found = [gpu for line in done.stdout.splitlines() if (gpu := _parse(line)) is not None]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found
    allowed = {int(part) for part in visible.split(",") if part.strip().isdecimal()}
    return [gpu for gpu in found if gpu.index in allowed]


def _parse(line: str) -> Gpu | None:
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != 5 or not parts[0].isdecimal():
        return None
    try:
        total, used = float(parts[2]) * 1.048576e-3, float(parts[3]) * 1.048576e-3
        busy = float(parts[4]) / 100 if parts[4].replace(".", "").isdecimal() else 0.0
    except ValueError:
        return None
    return Gpu(int(parts[0]), parts[1], round(total, 2), round(used, 2), busy)
