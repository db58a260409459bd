"""The measuring worker: which counters of CUDA it reads and when, over a real trainer whose card is a script."""

import ast
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_rlvr.memory import measure, worker
from grpo_rlvr.memory.measuring import MeasurementError, _compare, _environment, _failure
from grpo_rlvr.models.setup import parse_setup
from grpo_rlvr.workspace import Workspace

TOTAL, CONTEXT = 10_000, 700


class ScriptedCard:
    """torch.cuda with its peak counters: `use` allocates for a moment, what is reserved is never given back."""

    def __init__(self) -> None:
        self.peak = self.reserved = self.resets = 0

    def use(self, size: int) -> None:
        self.peak, self.reserved = max(self.peak, size), max(self.reserved, size)

    def init(self) -> None:
        self.resets = 0

    def mem_get_info(self) -> tuple[int, int]:
        return TOTAL - self.reserved - CONTEXT, TOTAL

    def memory_reserved(self) -> int:
        return self.reserved

    def max_memory_allocated(self) -> int:
        return self.peak

    def max_memory_reserved(self) -> int:
        return self.reserved

    def reset_peak_memory_stats(self) -> None:
        self.peak, self.resets = 0, self.resets + 1


@pytest.fixture(scope="module")
def readings(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The readings of two real steps of a tiny trainer: 100 in generation, 300 a micro-batch, 500 in the optimizer."""
    import torch
    from transformers import TrainerCallback
    from trl import GRPOTrainer

    card = ScriptedCard()
    spec = {
        "config": {"per_device_train_batch_size": 4, "num_generations": 2, "max_completion_length": 8, "bf16": False,
                   "gradient_accumulation_steps": 2, "use_cpu": True, "reward_weights": [1.0, 2.0], "eval_steps": 3,
                   "push_to_hub": False, "hub_model_id": "nobody/nothing"},
        "model": str(tiny_model), "lora": None, "quantized": "", "prompt_tokens": 5, "steps": 2,
    }  # fmt: skip

    def reward(completions: list[Any], **_: Any) -> list[float]:
        card.use(100)
        return [float(index % 2) for index in range(len(completions))]

    class Stages(TrainerCallback):  # type: ignore[misc]
        def on_substep_end(self, *_: Any, **__: Any) -> None:
            card.use(40)

        def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
            card.use(500)

    meter = worker.Meter(SimpleNamespace(cuda=card, Tensor=torch.Tensor), cuda=True)
    meter.read_start()
    trainer = GRPOTrainer(
        model=spec["model"],
        reward_funcs=reward,
        args=worker._arguments(spec, str(tmp_path_factory.mktemp("out"))),
        train_dataset=worker._dataset(spec),
        callbacks=[Stages()],
    )
    loss = trainer.compute_loss

    def compute_loss(*args: Any, **kwargs: Any) -> Any:
        card.use(300)
        return loss(*args, **kwargs)

    trainer.compute_loss = compute_loss
    meter.read_model(trainer.model)
    meter.watch(trainer)
    trainer.train()
    meter.read_optimizer(trainer.optimizer)
    return meter.sizes | {"prompts": meter.prompts[0], "lengths": meter.lengths[0]}


@pytest.mark.slow
def test_the_peak_of_generation_is_its_own(readings: dict[str, int]) -> None:
    assert readings["generation_peak_allocated"] == 100


@pytest.mark.slow
def test_the_peak_of_training_has_the_optimizer_step_in_it(readings: dict[str, int]) -> None:
    assert readings["training_peak_allocated"] == 500


@pytest.mark.slow
def test_the_device_is_what_torch_reserved_and_what_lies_outside_it(readings: dict[str, int]) -> None:
    assert readings["used_at_start"] == CONTEXT == readings["outside_allocator"]
    assert readings["training_peak_device"] == 500 + CONTEXT
    assert readings["generation_peak_reserved"] == 500  # of the second step: reserved memory stays


@pytest.mark.slow
def test_every_quantity_is_read_and_prompts_have_the_wanted_length(readings: dict[str, int]) -> None:
    assert {"weights", "gradients", "optimizer"} <= readings.keys()
    assert (readings["prompts"], readings["lengths"]) == (5, 8)


def test_every_function_of_cuda_that_the_worker_calls_exists_and_takes_its_arguments() -> None:
    import torch

    called = []
    for node in ast.walk(ast.parse(Path(worker.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = ast.unparse(node.func.value)
            if owner == "cuda" or owner.endswith("torch.cuda"):
                inspect.signature(getattr(torch.cuda, node.func.attr)).bind(*[None] * len(node.args))
                called.append(node.func.attr)
    assert {"mem_get_info", "max_memory_allocated", "reset_peak_memory_stats", "get_device_name"} <= set(called)


def test_the_hooks_that_the_worker_hangs_itself_into_exist() -> None:
    from transformers import Trainer, TrainerCallback
    from trl import GRPOTrainer

    loop = inspect.getsource(Trainer)
    assert loop.index("on_pre_optimizer_step(") < loop.index("on_optimizer_step(")
    assert hasattr(TrainerCallback, "on_optimizer_step") and hasattr(GRPOTrainer, "_generate_and_score_completions")


def test_the_scales_of_a_four_bit_weight_are_counted_with_it() -> None:
    import torch

    inner = SimpleNamespace(absmax=torch.zeros(4), state2=None)
    state = SimpleNamespace(absmax=torch.zeros(1024, dtype=torch.uint8), state2=inner)
    packed = SimpleNamespace(quant_state=state)
    assert worker._scales(packed) == 1024 + 16
    assert worker._scales(torch.nn.Parameter(torch.zeros(2))) == 0


@pytest.mark.parametrize("wanted", [1, 5, 64, 1000])
def test_a_prompt_has_the_length_that_was_asked_for(tiny_model: Path, wanted: int) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    assert len(tokenizer(worker.prompt_of(tokenizer, wanted))["input_ids"]) == wanted


def test_a_prompt_allows_for_tokens_that_merge_and_for_a_first_token() -> None:
    class Merging:
        def __call__(self, text: str) -> dict[str, list[int]]:
            return {"input_ids": [0] * (1 + -(-len(text) // 3))}

    assert len(Merging()(worker.prompt_of(Merging(), 100))["input_ids"]) == 100


def test_one_gpu_is_visible_and_no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    found = _environment(Path("/code"), on_cpu=False)
    assert found["CUDA_VISIBLE_DEVICES"] == "3"
    assert "WORLD_SIZE" not in found and "ACCELERATE_USE_DEEPSPEED" not in found
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert _environment(Path("/code"), on_cpu=False)["CUDA_VISIBLE_DEVICES"] == "0"
    assert _environment(Path("/code"), on_cpu=True)["CUDA_VISIBLE_DEVICES"] == ""


def test_out_of_memory_is_reported_as_the_answer_it_is() -> None:
    for reason in (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "MemoryError: the weights alone",
    ):
        error = _failure({"error": reason})
        assert "out of memory" in error.message and "does not fit" in (error.remedy or "")


def test_with_vllm_in_the_process_only_the_device_is_compared() -> None:
    from grpo_rlvr.memory import estimate
    from grpo_rlvr.memory.inputs import read_plan

    config = {"use_vllm": True, "vllm_mode": "colocate", "model_init_kwargs": {"dtype": "bfloat16"}}
    setup = parse_setup({"model": {"name": "Qwen/Qwen3-0.6B"}, "hardware": {"gpu": "H200", "gpus": 1}})
    sizes = dict.fromkeys(("training_peak_allocated", "training_peak_device", "outside_allocator"), 10**9)
    answer = estimate(config, setup, trl_version="1.16.0")
    with_engine = _compare(answer, read_plan(config, setup, "1.16.0"), sizes)
    assert [entry.name for entry in with_engine] == ["training peak, device"]
    alone = {**config, "use_vllm": False}
    names = {entry.name for entry in _compare(answer, read_plan(alone, setup, "1.16.0"), sizes)}
    assert names == {"training peak, allocated", "training peak, device", "context and libraries"}


def test_weights_that_were_put_on_the_host_are_out_of_memory() -> None:
    import torch

    with pytest.raises(MemoryError, match="put some on cpu, meta"):
        worker._all_on_the_gpu(
            torch.nn.Sequential(torch.nn.Linear(2, 2, device="meta"), torch.nn.Linear(2, 2, device="cpu"))
        )


@pytest.mark.parametrize(
    ("config", "rows"),
    [
        ({"per_device_train_batch_size": 8}, 256),
        ({"per_device_train_batch_size": 64, "gradient_accumulation_steps": 32}, 4096),
        ({"per_device_train_batch_size": 8, "generation_batch_size": 512}, 1024),
    ],
)
def test_there_are_prompts_enough_for_two_generations(config: dict[str, int], rows: int) -> None:
    assert worker._rows(config) == rows


@pytest.mark.slow
def test_a_machine_without_a_gpu_says_so(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    setup = parse_setup({"model": {"path": "."}, "dataset": {"max_prompt_tokens": 5}})
    with pytest.raises(MeasurementError, match="no CUDA GPU to measure on") as caught:
        measure({"per_device_train_batch_size": 4, "num_generations": 2}, setup, Workspace.open(tiny_model))
    assert "hardware.device" in (caught.value.remedy or "")
