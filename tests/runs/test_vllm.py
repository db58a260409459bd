"""Real vLLM on a CPU: colocated training and sampling. Collected only where GRPO_RLVR_VLLM_PYTHON names its Python.

vLLM on the CPU replaces the weights that TRL pushes into, so two of its packings are switched off first, in the module
of the reward, which the training process imports before it builds the trainer. Users have no such case: TRL does not
support vLLM on the CPU.
"""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from grpo_rlvr.interpreter import Interpreter
from grpo_rlvr.models.run import SampleRequest, VllmSpec
from grpo_rlvr.runs import launch, metric_rows, start_sampling
from grpo_rlvr.runs.vllm_server import server_phase

PYTHON = os.environ["GRPO_RLVR_VLLM_PYTHON"]
UNPACKED = """
def unpack():
    try:
        from vllm.model_executor.layers import utils
    except ImportError:
        return
    utils.check_cpu_sgl_kernel = lambda *args, **kwargs: False
    utils.ops._supports_onednn = False


def early_letter(completions, answer, trainer_state=None, **kwargs):
    return [float(c[:1] in "abcdefghijklm" and c != "") for c in completions]


import os

if os.environ.get("UNPACK"):
    unpack()
"""
ENVIRONMENT = {"UNPACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "WARNING"}


def test_colocated_vllm_trains_through_the_launcher(workspace, make_spec, ended):
    (workspace.root / "unpacked.py").write_text(UNPACKED, encoding="utf-8")
    spec = make_spec(
        workspace,
        rewards=[{"reward": "unpacked.py:early_letter"}],
        python=PYTHON,
        vllm={"mode": "colocate"},
        launcher={"cpu": True, "env": ENVIRONMENT},
        config={"max_steps": 3, "vllm_max_model_length": 64, "vllm_gpu_memory_utilization": 0.3},
    )
    status = ended(launch(spec, workspace, stage="smoke").run_id)
    assert status.state == "finished", status.log_tail
    rows = metric_rows(status.run_id, workspace)
    assert [row["step"] for row in rows] == [1, 2, 3]
    gap = "sampling/sampling_logp_difference/mean"
    assert all(row[gap] < 0.05 for row in rows), "what vLLM sampled is not what the trainer scores"


def test_vllm_samples(workspace, ended):
    request = SampleRequest(
        prompts="train.jsonl", model="tiny", limit=4, num_per_prompt=2, engine="vllm", python=PYTHON,
        config={"max_completion_length": 6},
    )  # fmt: skip
    status = ended(start_sampling(request, workspace).run_id)
    assert status.state == "finished", status.log_tail
    assert status.progress.done == 8


def test_the_server_command_serves_health_info_and_completions(tmp_path, tiny_model):
    """As far as a CPU goes: TRL's weight transfer needs CUDA and is refused when the trainer is built."""
    # vLLM for the CPU is called vllm-cpu, and its own command line asks for the metadata of vllm.
    stub = tmp_path / "stub" / "vllm-0.31.0+cpu.dist-info"
    stub.mkdir(parents=True)
    (stub / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.31.0+cpu\n", encoding="utf-8")
    interpreter = Interpreter(Path(PYTHON), "test", "3.11", {"trl": "1.16.0", "vllm-cpu": "0.31.0"})
    port = free_port()
    phase = server_phase(
        VllmSpec(mode="server", port=port, max_model_length=64), {"path": str(tiny_model)}, interpreter
    )
    environment = {**os.environ, **ENVIRONMENT, **phase["environment"], "PYTHONPATH": str(stub.parent)}
    with (
        (tmp_path / "log.txt").open("wb") as log,
        subprocess.Popen(
            phase["argv"], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        ) as server,
    ):
        try:
            wait_healthy(server, phase["health"], tmp_path / "log.txt")
            assert get(f"http://127.0.0.1:{port}/server_info")
            body = {"model": str(tiny_model), "prompt": "a1=", "max_tokens": 4, "temperature": 1.0}
            answer = get(f"http://127.0.0.1:{port}/v1/completions", body)
            assert answer["choices"][0]["finish_reason"] in {"length", "stop"}
        finally:
            os.killpg(server.pid, signal.SIGKILL)


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(url, body=None):
    """The JSON answer of the server."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.loads(response.read())


def wait_healthy(server, url, log, seconds=900):
    """Wait until the server answers; its first start compiles for minutes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-3000:]
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(1)
    raise AssertionError(f"not healthy after {seconds} s: {log.read_text(encoding='utf-8', errors='replace')[-3000:]}")
