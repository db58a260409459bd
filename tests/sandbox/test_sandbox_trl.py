"""Programs are graded inside the real trainer: in one process and in two, beside workers that load data."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRAINING = Path(__file__).with_name("trl_code_run.py")


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_real_grpo_steps_are_paid_for_programs(processes: int, tmp_path: Path) -> None:
    command = [sys.executable, str(TRAINING), str(tmp_path)]
    if processes > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
        command = [sys.executable, *launcher, *command[1:]]
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"}
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", env={**os.environ, **quiet}, timeout=280,
                         check=False)  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.count("DONE") == processes
