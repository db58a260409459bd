"""What the check passes constructs in the installed TRL, and what TRL's constructor rejects is an error here."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpo_rlvr.config import check, table
from grpo_rlvr.errors import InputError
from grpo_rlvr.models.setup import parse_setup

TRL, TRANSFORMERS = version("trl"), version("transformers")
TABLE = table(TRL, TRANSFORMERS)
EXAMPLES = 2_100
# Options that reach outside the config: files, folders, an engine that must be installed, objects that data cannot be.
OUTSIDE = {
    "output_dir",
    "deepspeed",
    "fsdp",
    "fsdp_config",
    "local_rank",
    "log_level",
    "log_level_replica",
    "torch_compile",
}
OUTSIDE |= {"torch_compile_backend", "torch_compile_mode", "tf32", "report_to"}
NUMBERS = st.one_of(
    st.integers(-2, 40),
    st.sampled_from([0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 16.0, -0.1, 1e-6, 1e6]),
    st.sampled_from([2**40]),
)
COUNTS = st.sampled_from([0, 1, 2, 3, 4, 6, 8, 8, 8, 12, 16, 16, 20, 24, 32, 64])
WORDS = st.sampled_from(["", "auto", "no", "steps", "epoch", "none", "x", "8", "true", "{", "{}", '{"a": 1}', "grpo"])
JUNK = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS, st.just([]), st.just({}), st.just([1.0]), st.just({"a": 1}))


def values_of(name: str) -> st.SearchStrategy[Any]:
    """Return mostly fitting values of a field, sometimes anything."""
    if name == "accelerator_config":
        # Anything but a dict is opened as a file, a number even as an open file descriptor.
        return st.sampled_from([None, {}, {"split_batches": True}, {"split_batch": True}])
    if name == "ddp_backend":
        # A real backend opens a process group.
        return st.sampled_from([None, "nccl2", "", "auto"])
    spec = TABLE.fields[name]
    types = spec.get("type", [])
    types = [types] if isinstance(types, str) else types
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "integer": COUNTS,
        "number": NUMBERS,
        "boolean": st.booleans(),
        "string": WORDS,
        "null": st.none(),
        "object": st.sampled_from([{}, {"dtype": "bfloat16"}, {"split_batches": True}]),
        "array": st.sampled_from([[], [1.0], [1.0, 0.5]]),
    }
    fitting = [kinds[kind] for kind in types] or [st.none()]
    if "enum" in spec:
        fitting = [st.sampled_from(spec["enum"])]
    usual = st.one_of(*fitting, st.just(spec.get("default")))
    return st.integers(0, 19).flatmap(lambda dice: usual if dice else JUNK)


def configs() -> st.SearchStrategy[dict[str, Any]]:
    """Return configs over all fields, the batch options often among them."""
    names = sorted(set(TABLE.fields) - OUTSIDE)
    batch = ["per_device_train_batch_size", "gradient_accumulation_steps", "num_generations", "steps_per_generation"]
    batch += ["generation_batch_size", "per_device_eval_batch_size", "num_generations_eval", "eval_strategy"]
    picked = st.lists(st.one_of(st.sampled_from(names), st.sampled_from(batch)), max_size=7, unique=True)
    return picked.flatmap(lambda chosen: st.fixed_dictionaries({name: values_of(name) for name in chosen}))


@pytest.fixture(scope="module")
def real() -> Iterator[Any]:
    """Return a function that asks the real package, in one child process."""
    worker = Path(__file__).with_name("agreement_worker.py")
    process = subprocess.Popen([sys.executable, str(worker)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout

    def ask(config: dict[str, Any], world: int) -> str | None:
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps({"config": config, "world": world}) + "\n")
        process.stdin.flush()
        answer: str | None = json.loads(process.stdout.readline())
        return answer

    yield ask
    process.stdin.close()
    process.wait(timeout=90)


@pytest.mark.slow
def test_what_trl_rejects_is_an_error_and_what_we_pass_constructs(real: Any) -> None:
    counted = {"rejected": 0, "constructed": 0}

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(config=configs(), world=st.sampled_from([1, 2, 3, 4, 8]))
    def agree(config: dict[str, Any], world: int) -> None:
        said = real(config, world)
        setup = parse_setup(
            {"hardware": {"num_processes": world}, "versions": {"trl": TRL, "transformers": TRANSFORMERS}}
        )
        try:
            verdict = check(config, setup).verdict
        except InputError:
            verdict = "error"
        counted["rejected" if said else "constructed"] += 1
        assert said is None or verdict == "error", f"TRL rejects {config} on {world} processes: {said}"

    agree()
    assert min(counted.values()) > EXAMPLES // 20, f"the generator is one-sided: {counted}"
