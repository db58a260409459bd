"""Real vLLM on a CPU: colocated training and sampling. Collected only where GRPO_RLVR_VLLM_PYTHON names its Python.

vLLM on the CPU replaces the weights that TRL pushes into, so two of its packings are switched off first, in the module
of the reward, which the training process imports before it builds the trainer. Users have no such case: TRL does not
support vLLM on the CPU.
"""

import os

from grpo_rlvr.models.run import SampleRequest
from grpo_rlvr.runs import launch, metric_rows, start_sampling

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
