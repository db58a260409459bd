"""What this machine and its interpreters can do, looked at without importing anything heavy."""

import shutil
import subprocess
import sys
from typing import Literal

from grpo_rlvr import __version__
from grpo_rlvr.errors import InputError
from grpo_rlvr.interpreter import PACKAGES, TRAINING_PACKAGES, Interpreter, training_interpreter
from grpo_rlvr.models.environment import Check, Environment, Gpu
from grpo_rlvr.workspace import Workspace

BYTES_PER_MIB = 2**20
GPU_QUERY = "index,name,memory.total,memory.free"
# Optional training packages and what they are for; their absence is no fault.
OPTIONAL = {
    "peft": "LoRA and QLoRA",
    "vllm": "fast generation (use_vllm)",
    "bitsandbytes": "8-bit AdamW and 4-bit models",
    "math-verify": "math answers beyond numbers",
    "jsonschema": "the schema reward",
}
ORDER = {"missing": 0, "warning": 1, "ok": 2, "optional": 3}


def examine(workspace: Workspace, python: str | None = None) -> Environment:
    """Look at the interpreters, their packages and how they fit, GPUs and the sandbox.

    Raises:
        InputError: the named interpreter does not work.
    """
    interpreter = training_interpreter(workspace, python)
    gpus, gpu_check = find_gpus()
    sandbox, sandbox_check = _sandbox()
    checks = [*_package_checks(interpreter), *_fit_checks(interpreter), gpu_check, sandbox_check, _plots_check()]
    return Environment(
        server_python=sys.executable,
        server_version=__version__,
        training_python=str(interpreter.path),
        training_source=interpreter.source,
        packages=interpreter.packages,
        gpus=gpus,
        sandbox=sandbox,
        checks=sorted(checks, key=lambda check: ORDER[check.state]),
    )


def find_gpus() -> tuple[list[Gpu], Check]:
    """Ask nvidia-smi for the GPUs; none is a warning, since training on CPU works and is slow."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return [], Check(name="GPU", state="warning", detail="no nvidia-smi: training runs on the CPU, slowly")
    try:
        done = subprocess.run(
            [program, f"--query-gpu={GPU_QUERY}", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, encoding="utf-8", timeout=20, check=True,
        )  # fmt: skip
        gpus = [_gpu(line) for line in done.stdout.splitlines() if line.strip()]
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return [], Check(name="GPU", state="warning", detail=f"nvidia-smi does not answer: {error}")
    detail = "; ".join(f"{gpu.index}: {gpu.name}, {gpu.free_gb:.0f} of {gpu.memory_gb:.0f} GB free" for gpu in gpus)
    return gpus, Check(name="GPU", state="ok" if gpus else "warning", detail=detail or "none listed")


def _gpu(line: str) -> Gpu:
    index, name, total, free = (part.strip() for part in line.split(","))
    to_gb = BYTES_PER_MIB / 1e9
    return Gpu(index=int(index), name=name, memory_gb=float(total) * to_gb, free_gb=float(free) * to_gb)


def _package_checks(interpreter: Interpreter) -> list[Check]:
    install = f"'{interpreter.path}' -m pip install"
    checks = []
    for name in TRAINING_PACKAGES:
        version = interpreter.packages.get(name)
        state: Literal["ok", "missing"] = "ok" if version else "missing"
        detail = version or "not installed: cannot train"
        remedy = "" if version else f"{install} {name}"
        checks.append(Check(name=name, state=state, detail=detail, remedy=remedy))
    for name, purpose in OPTIONAL.items():
        found = interpreter.packages.get(name) or interpreter.packages.get(f"{name}-cpu")
        detail = found or f"not installed: needed only for {purpose}"
        checks.append(
            Check(
                name=name,
                state="ok" if found else "warning",
                detail=detail,
                remedy="" if found else f"{install} {name}",
            )
        )
    return checks


def _fit_checks(interpreter: Interpreter) -> list[Check]:
    """Whether the versions found fit the ranges that the TRL release states."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    from grpo_rlvr.config import table

    trl = interpreter.packages.get("trl")
    if not trl:
        return []
    try:
        ranges = table(trl).requires
    except InputError as error:
        return [Check(name=f"TRL {trl}", state="warning", detail=str(error))]
    checks = []
    for name, text in ranges.items():
        version = interpreter.packages.get(name)
        if name not in PACKAGES or not version:
            continue
        try:
            fits = SpecifierSet(text).contains(version, prereleases=True)
        except InvalidSpecifier:
            continue
        detail = f"{name} {version} is {'inside' if fits else 'outside'} {text}, which TRL {trl} states"
        remedy = "" if fits else f"'{interpreter.path}' -m pip install '{name}{text}'"
        checks.append(Check(name=f"{name} for TRL", state="ok" if fits else "warning", detail=detail, remedy=remedy))
    return checks


def _sandbox() -> tuple[str, Check]:
    from rlvr_rewards.sandbox import doctor

    found = doctor()
    level = found["level"]
    if level:
        return level, Check(name="code sandbox", state="ok", detail=str(level))
    tried = "; ".join(f"{name}: {reason}" for name, reason in found["tried"].items())
    return "none", Check(
        name="code sandbox",
        state="warning",
        detail=f"no boundary for model-written code, so unit_tests refuses to run ({tried or 'nothing to try'})",
        remedy=" ".join(found["advice"]),
    )


def _plots_check() -> Check:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        remedy = f"'{sys.executable}' -m pip install 'grpo-rlvr-training[plots]'"
        return Check(name="pictures", state="optional", detail="the server's Python lacks matplotlib", remedy=remedy)
    return Check(name="pictures", state="ok", detail="matplotlib is there")
