"""The vLLM server's command, against TRL's own builder and parser."""

import sys
from dataclasses import replace

import pytest

from grpo_rlvr.interpreter import training_interpreter
from grpo_rlvr.models.run import VllmSpec
from grpo_rlvr.runs.vllm_server import server_phase


@pytest.fixture
def interpreter(workspace):
    return training_interpreter(workspace)


def having(interpreter, **packages):
    return replace(interpreter, packages={**interpreter.packages, **packages})


def pairs(argv):
    """The flags of a command as a dictionary; a flag without a value has True."""
    found = {}
    for index, part in enumerate(argv):
        if part.startswith("--"):
            following = argv[index + 1] if index + 1 < len(argv) else "--"
            found[part] = True if following.startswith("--") else following
    return found


@pytest.mark.parametrize(("vllm", "scale_out"), [("0.29.1", False), ("0.30.0", True)])
def test_native_server_gets_every_flag_that_trl_imposes(interpreter, monkeypatch, vllm, scale_out):
    from trl.scripts import vllm_serve

    monkeypatch.setattr(vllm_serve, "is_vllm_available", lambda **kwargs: scale_out)
    arguments = vllm_serve.ScriptArguments(
        model="m", host="127.0.0.1", port=8011, tensor_parallel_size=2, max_model_len=128, gpu_memory_utilization=0.5
    )
    theirs = pairs([part.replace(": ", ":") for part in vllm_serve.build_command(arguments)])
    spec = VllmSpec(mode="server", port=8011, tensor_parallel_size=2, max_model_length=128, gpu_memory_utilization=0.5)
    phase = server_phase(spec, {"path": "m"}, having(interpreter, trl="1.16.0", vllm=vllm))
    ours = pairs(phase["argv"])
    defaults = {"--dtype", "--kv-cache-dtype", "--model-impl", "--uvicorn-log-level"}
    assert ours == {flag: value for flag, value in theirs.items() if flag not in defaults}
    assert phase["argv"][:5] == [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", "m"]
    assert phase["environment"]["VLLM_SERVER_DEV_MODE"] == "1"
    assert phase["health"] == "http://127.0.0.1:8011/health"


def test_older_trl_gets_its_own_server_whose_parser_takes_the_command(interpreter):
    from trl.scripts.vllm_serve import make_parser

    spec = VllmSpec(mode="server", port=8012, gpus=[3], tensor_parallel_size=1, max_model_length=64)
    phase = server_phase(spec, {"path": "m", "dtype": "bfloat16"}, having(interpreter, trl="1.9.0", vllm="0.20.0"))
    argv = phase["argv"]
    assert argv[1:4] == ["-m", "trl.cli", "vllm-serve"]
    (parsed,) = make_parser().parse_args_into_dataclasses(argv[4:])
    assert (parsed.model, parsed.port, parsed.max_model_len, parsed.dtype) == ("m", 8012, 64, "bfloat16")
    assert phase["environment"] == {"CUDA_VISIBLE_DEVICES": "3"}


def test_no_server_is_started_for_colocate_none_or_one_that_runs_elsewhere(interpreter):
    for spec in (VllmSpec(), VllmSpec(mode="colocate"), VllmSpec(mode="server", external=True)):
        assert server_phase(spec, {"path": "m"}, interpreter) is None
