"""Two real GRPO steps with their memory, in the training interpreter: `python -m grpo_rlvr.memory.worker SPEC OUT`.

SPEC is JSON with config, model, lora, quantized, prompt_tokens, steps. OUT receives JSON: bytes of each quantity that
was read, or an `error`. Imports nothing of the server's.
"""

import importlib.metadata
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "trl", "transformers", "peft", "accelerate", "bitsandbytes", "vllm")
# What a measurement leaves out: uploads, evaluation, checkpoints, what belongs to the user's own reward functions.
LEFT_OUT = frozenset(
    {"push_to_hub", "load_best_model_at_end", "resume_from_checkpoint", "evaluation_strategy", "eval_steps", "do_eval"}
    | {"reward_weights", "log_completions", "vllm_structured_outputs_regex", "metric_for_best_model", "save_steps"}
)
PIECES = (" the", " a", "a", "x ")


class NoGpuError(RuntimeError):
    """There is no CUDA GPU, and the run is not said to be one on the CPU."""


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Train for the wanted steps and return bytes per quantity.

    Raises:
        NoGpuError: no CUDA device, and the config does not say use_cpu.
    """
    import torch

    on_cpu = bool(spec["config"].get("use_cpu"))
    if not on_cpu and not torch.cuda.is_available():
        raise NoGpuError("torch sees no CUDA GPU")
    from trl import GRPOTrainer

    meter = Meter(torch, not on_cpu)
    meter.read_start()
    with tempfile.TemporaryDirectory() as folder:
        args = _arguments(spec, folder)
        trainer = GRPOTrainer(
            model=spec["model"],
            reward_funcs=_varied_reward,
            args=args,
            train_dataset=_dataset(spec),
            peft_config=_peft(spec),
        )
        if not on_cpu:
            _all_on_the_gpu(trainer.model)
        meter.read_model(trainer.model)
        meter.watch(trainer)
        trainer.train()
        meter.read_optimizer(trainer.optimizer)
    return {
        "device": "cpu" if on_cpu else torch.cuda.get_device_name(),
        "total_memory": 0 if on_cpu else torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory,
        "bytes": meter.sizes,
        "lengths": meter.lengths,
        "prompts": meter.prompts,
        "versions": {name: _version(name) for name in PACKAGES if _version(name)},
    }


class Meter:
    """Collects sizes in bytes: exact for tensors that can be counted, peaks only where CUDA keeps them."""

    def __init__(self, torch: Any, cuda: bool) -> None:
        self.torch, self.cuda = torch, cuda
        self.sizes: dict[str, int] = {}
        self.lengths: list[int] = []
        self.prompts: list[int] = []

    def read_start(self) -> None:
        """Read what the card holds before the run: this process's context, and whatever other processes hold."""
        if self.cuda:
            self.torch.cuda.init()
            free, total = self.torch.cuda.mem_get_info()
            self.sizes["used_at_start"] = total - free

    def read_model(self, model: Any) -> None:
        """Count weights and adapters by what trains and what does not."""
        peft = hasattr(model, "peft_config")
        adapters = weights = 0
        for name, parameter in model.named_parameters():
            size = _bytes(parameter) + _scales(parameter)
            if peft and "lora_" in name:
                adapters += size
            else:
                weights += size
        self.sizes["weights"] = weights
        if peft:
            self.sizes["adapters"] = adapters

    def watch(self, trainer: Any) -> None:
        """Read the peak after every generation, micro-batch and optimizer step."""
        for name, key in (("_generate_and_score_completions", "generation_peak"), ("training_step", "training_peak")):
            if hasattr(trainer, name):
                setattr(trainer, name, self._peaked(getattr(trainer, name), key))
        meter = self
        from transformers import TrainerCallback

        class Steps(TrainerCallback):  # type: ignore[misc]
            def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
                meter.keep("gradients", sum(_bytes(p.grad) for p in model.parameters() if p.grad is not None))

            def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                # Since the last micro-batch: clipping, the states made in the first step, the step's temporaries.
                meter.record("training_peak")

        trainer.add_callback(Steps())

    def _peaked(self, function: Any, key: str) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._reset()
            result = function(*args, **kwargs)
            self.record(key)
            if key == "generation_peak" and isinstance(result, dict) and "completion_ids" in result:
                self.lengths.append(int(result["completion_ids"].shape[1]))
                self.prompts.append(int(result["prompt_ids"].shape[1]))
            return result

        return wrapped

    def record(self, key: str) -> None:
        """Keep the peaks since the last reading, and begin a new one."""
        if not self.cuda:
            return
        cuda = self.torch.cuda
        free, total = cuda.mem_get_info()
        # Context, kernels and libraries (and other processes): what is in use beyond torch's allocator now.
        outside = total - free - cuda.memory_reserved()
        self.keep(f"{key}_allocated", cuda.max_memory_allocated())
        self.keep(f"{key}_reserved", cuda.max_memory_reserved())
        self.keep(f"{key}_device", cuda.max_memory_reserved() + outside)
        self.keep("outside_allocator", outside)
        self._reset()

    def _reset(self) -> None:
        if self.cuda:
            self.torch.cuda.reset_peak_memory_stats()

    def keep(self, key: str, value: int) -> None:
        """Keep the largest reading."""
        self.sizes[key] = max(self.sizes.get(key, 0), int(value))

    def read_optimizer(self, optimizer: Any) -> None:
        """Count the optimizer's states."""
        inner = getattr(optimizer, "optimizer", optimizer)
        states = [value for state in inner.state.values() for value in state.values()]
        tensors = [value for value in states if isinstance(value, self.torch.Tensor) and value.numel() > 1]
        self.sizes["optimizer"] = sum(map(_bytes, tensors))


def _all_on_the_gpu(model: Any) -> None:
    """Refuse a model of which TRL's device_map "auto" put layers elsewhere, because the card could not hold them.

    Raises:
        MemoryError: some weights lie on the host, on disk (meta), or anywhere but on a CUDA device.
    """
    elsewhere = {parameter.device.type for parameter in model.parameters()} - {"cuda"}
    if elsewhere:
        raise MemoryError(f"the weights alone do not fit: device_map 'auto' put some on {', '.join(sorted(elsewhere))}")


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def _scales(parameter: Any) -> int:
    """Bytes of the scales beside a weight that bitsandbytes holds in 4 bits (QuantState, nested or not)."""
    state: Any = getattr(parameter, "quant_state", None)
    inner: Any = getattr(state, "state2", None)
    scales = [part.absmax for part in (state, inner) if part is not None and part.absmax is not None]
    return sum(map(_bytes, scales))


def _arguments(spec: dict[str, Any], folder: str) -> Any:
    from trl import GRPOConfig

    config = {
        name: value for name, value in spec["config"].items() if name not in LEFT_OUT and not name.startswith("hub_")
    }
    kwargs = dict(config.pop("model_init_kwargs", None) or {})
    if spec["quantized"]:
        kwargs["quantization_config"] = _quantization(spec)
    config |= {
        "output_dir": folder, "max_steps": spec["steps"], "save_strategy": "no", "report_to": "none",
        "logging_steps": 1, "disable_tqdm": True, "model_init_kwargs": kwargs or None, "eval_strategy": "no",
        "dataloader_num_workers": 0,
    }  # fmt: skip
    # Short answers would hide the peak: every completion runs to its full length.
    length = {"min_tokens": config["max_completion_length"], "ignore_eos": True}
    if not config.get("use_vllm"):
        length = {"min_new_tokens": config["max_completion_length"]}
    config["generation_kwargs"] = {**(config.get("generation_kwargs") or {}), **length}
    return GRPOConfig(**config)


def _quantization(spec: dict[str, Any]) -> Any:
    import torch
    from transformers import BitsAndBytesConfig

    if spec["quantized"] == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=spec["quantized"] == "nf4",
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def _peft(spec: dict[str, Any]) -> Any:
    if not spec["lora"]:
        return None
    from peft import LoraConfig

    targets = spec["lora"]["targets"]
    return LoraConfig(r=spec["lora"]["rank"], target_modules=targets, task_type="CAUSAL_LM")


def _dataset(spec: dict[str, Any]) -> Any:
    from datasets import Dataset
    from transformers import AutoTokenizer

    text = prompt_of(AutoTokenizer.from_pretrained(spec["model"]), max(spec["prompt_tokens"], 1))
    return Dataset.from_dict({"prompt": [text] * _rows(spec["config"])})


def _rows(config: dict[str, Any]) -> int:
    """Prompts enough for two generations: an incomplete batch is dropped, and a run without a batch does no step."""
    batches = config.get("steps_per_generation") or config.get("gradient_accumulation_steps") or 1
    whole = config.get("generation_batch_size") or config["per_device_train_batch_size"] * batches
    return max(256, 2 * int(whole))


def prompt_of(tokenizer: Any, wanted: int) -> str:
    """Return a text that this tokenizer turns into `wanted` tokens, or as near as repeating one piece comes."""
    found: list[tuple[int, str]] = []
    for piece in PIECES:
        per_piece = len(tokenizer(piece * 64)["input_ids"]) / 64
        count = max(round(wanted / max(per_piece, 1e-6)), 1)
        for times in sorted(range(max(count - 2, 1), count + 3), key=lambda times: abs(times - count)):
            distance = abs(len(tokenizer(piece * times)["input_ids"]) - wanted)
            if distance == 0:
                return piece * times
            found.append((distance, piece * times))
    return min(found)[1]


def _varied_reward(completions: list[Any], **_: Any) -> list[float | None]:
    # Any spread within a group gives advantages, and so gradients.
    return [float(index % 2) for index in range(len(completions))]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def main(arguments: list[str]) -> int:
    """Read the spec, run, write the result; the error of a failed run is a result too."""
    spec = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        result = run(spec)
    except NoGpuError as error:
        result = {"error": str(error), "no_gpu": True}
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    Path(arguments[1]).write_text(json.dumps(result), encoding="utf-8")
    return 1 if "error" in result else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
