"""Starting an attempt: the detached supervisor of a run, which outlives this process."""

import os
import subprocess
from pathlib import Path
from typing import Any

from grpo_rlvr.codefolder import write_code_folder
from grpo_rlvr.errors import InputError
from grpo_rlvr.runs.process import MARK
from grpo_rlvr.runs.records import read_record
from grpo_rlvr.runs.store import RunFolder, write_attempt

WORKERS = tuple(
    f"runs/{name}.py"
    for name in (
        "process", "records", "supervisor", "stopping", "checkpoints", "guards", "callbacks", "capture", "rewards",
        "rows", "seal", "measure", "card", "worker", "sample_worker", "sample_transformers", "sample_vllm",
        "sample_endpoint",
    )
)  # fmt: skip
# Stands for the number of the attempt in a phase's arguments.
ATTEMPT = "{attempt}"
# The server's own import path and hooks must not reach the training interpreter.
UNSET = ("PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "PYTHONWARNDEFAULTENCODING", "PYTHONWARNINGS")


def write_code(folder: Path) -> None:
    """Copy our workers and the reward library into a run folder."""
    write_code_folder(folder / "code", WORKERS)


def child_environment(folder: Path) -> dict[str, str]:
    """Return the variables that every process of a run gets."""
    return {
        "PYTHONPATH": str(folder / "code"),
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
        "TOKENIZERS_PARALLELISM": "false",
    }


def start_attempt(
    folder: RunFolder,
    python: Path,
    phases: list[dict[str, Any]],
    *,
    secrets: dict[str, str] | None = None,
    grace_s: float = 10,
) -> int:
    """Write the next attempt's plan and start its supervisor.

    Args:
        folder: The run.
        python: The training interpreter.
        phases: What to run, in order.
        secrets: Variables for the processes that are written nowhere.
        grace_s: Seconds between SIGTERM and SIGKILL at the end.

    Returns:
        The number of the attempt.

    Raises:
        InputError: the supervisor could not be started.
    """
    number = folder.last_attempt() + 1
    numbered = [{**phase, "argv": [part.replace(ATTEMPT, str(number)) for part in phase["argv"]]} for phase in phases]
    plan = {"run_id": folder.run_id, "phases": numbered, "unset": list(UNSET), "grace_s": grace_s}
    attempt = write_attempt(folder, number, plan)
    environment = {key: value for key, value in os.environ.items() if key not in UNSET}
    environment |= child_environment(folder.path) | (secrets or {})
    environment.pop(MARK, None)
    done = subprocess.run(
        [str(python), "-m", "grpo_rlvr.runs.supervisor", str(folder.path), str(number)],
        cwd=folder.path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    if done.returncode != 0 or read_record(attempt / "process.json") is None:
        raise InputError(
            f"the run could not be started: {done.stderr.strip()[-500:] or 'no reason given'}", where=str(python)
        )
    return number
