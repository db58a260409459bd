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


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Train for the wanted steps and return bytes per quantity."""
    import torch
    from trl import GRPOTrainer

    cuda = torch.cuda.is_available() and not spec["config"].get("use_cpu")
    meter = Meter(torch, cuda)
    with tempfile.TemporaryDirectory() as folder:
        args = _arguments(spec, folder)
        trainer = GRPOTrainer(
            model=spec["model"],
            reward_funcs=_varied_reward,
            args=args,
            train_dataset=_dataset(spec),
            peft_config=_peft(spec),
        )
        meter.read_model(trainer.model)
        meter.watch(trainer)
        trainer.train()
        meter.read_optimizer(trainer.optimizer)
    return {
        "device": torch.cuda.get_device_name(0) if cuda else "cpu",
        "total_memory": torch.cuda.get_device_properties(0).total_memory if cuda else 0,
        "bytes": meter.sizes,
        "lengths": meter.lengths,
        "versions": {name: _version(name) for name in PACKAGES if _version(name)},
    }


class Meter:
    """Collects sizes in bytes: exact for tensors that can be counted, peaks only where CUDA keeps them."""

    def __init__(self, torch: Any, cuda: bool) -> None:
        self.torch, self.cuda = torch, cuda
        self.sizes: dict[str, int] = {}
        self.lengths: list[int] = []

    def read_model(self, model: Any) -> None:
        """Count weights and adapters by what trains and what does not."""
        peft = hasattr(model, "peft_config")
        adapters = weights = 0
        for name, parameter in model.named_parameters():
            size = parameter.numel() * parameter.element_size()
            if peft and "lora_" in name:
                adapters += size
            else:
                weights += size
        self.sizes["weights"] = weights
        if peft:
            self.sizes["adapters"] = adapters
        if self.cuda:
            self.sizes["allocated_at_start"] = self.torch.cuda.memory_allocated()

    def watch(self, trainer: Any) -> None:
        """Wrap generation, training step and optimizer step with readings of the peak."""
        for name, key in (("_generate_and_score_completions", "generation_peak"), ("training_step", "training_peak")):
            if hasattr(trainer, name):
                setattr(trainer, name, self._peaked(getattr(trainer, name), key))
        meter = self
        from transformers import TrainerCallback

        class Gradients(TrainerCallback):  # type: ignore[misc]
            def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
                grads = [p.grad for p in model.parameters() if p.grad is not None]
                meter.keep("gradients", sum(g.numel() * g.element_size() for g in grads))

        trainer.add_callback(Gradients())

    def _peaked(self, function: Any, key: str) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self._reset()
            result = function(*args, **kwargs)
            if self.cuda:
                self.keep(f"{key}_allocated", self.torch.cuda.max_memory_allocated())
                self.keep(f"{key}_reserved", self.torch.cuda.max_memory_reserved())
                free, total = self.torch.cuda.mem_get_info()
                self.keep(f"{key}_device", total - free)
            if key == "generation_peak" and isinstance(result, dict) and "completion_ids" in result:
                self.lengths.append(int(result["completion_ids"].shape[1]))
            self._reset()
            return result

        return wrapped

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
        self.sizes["optimizer"] = sum(value.numel() * value.element_size() for value in tensors)


def _arguments(spec: dict[str, Any], folder: str) -> Any:
    from trl import GRPOConfig

    config = dict(spec["config"])
    kwargs = dict(config.pop("model_init_kwargs", None) or {})
    if spec["quantized"]:
        kwargs["quantization_config"] = _quantization(spec)
    config |= {
        "output_dir": folder, "max_steps": spec["steps"], "save_strategy": "no", "report_to": "none",
        "logging_steps": 1, "disable_tqdm": True, "model_init_kwargs": kwargs or None, "eval_strategy": "no",
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

    tokenizer = AutoTokenizer.from_pretrained(spec["model"])
    ids = [index for index in range(len(tokenizer)) if index not in set(tokenizer.all_special_ids)]
    text = tokenizer.decode([ids[len(ids) // 2]] * max(spec["prompt_tokens"], 1))
    return Dataset.from_dict({"prompt": [text] * 256})


def _varied_reward(completions: list[Any], **_: Any) -> list[float]:
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
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    Path(arguments[1]).write_text(json.dumps(result), encoding="utf-8")
    return 1 if "error" in result else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
