"""A few real GRPO steps of a tiny model that is paid for programs, in one process or in two."""

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import torch
from datasets import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from rlvr_rewards import Composite, LengthPenalty, UnitTest
from rlvr_rewards.sandbox import _pool

# What the tiny model writes is no program; as a script it fails without a word, which these cases ask for.
SILENCE = [{"stdin": "", "stdout": ""}]


def tiny() -> ModuleType:
    """Return the module with the tokenizer of the tiny model."""
    path = Path(__file__).parents[1] / "rewards" / "trl_run.py"
    spec = importlib.util.spec_from_file_location("trl_run", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def length(completions: list[str], **_: object) -> list[float]:
    """A reward of the user's own that the trainer awaits beside ours."""
    return [float(len(completion)) for completion in completions]


def main(folder: str) -> None:
    """Train two steps and check what the trainer logged about the rewards."""
    torch.manual_seed(0)
    tokens = tiny().tokenizer()
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "max_position_embeddings": 64}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    config = Qwen2Config(vocab_size=len(tokens), **sizes, **heads, pad_token_id=0, eos_token_id=1, bos_token_id=None)
    silent = Composite(UnitTest(style="io", exit_zero=False, limit_s=5))
    ungraded = Composite(LengthPenalty(UnitTest(limit_s=5)), gate=True)  # its tests are no cases but statements
    rewards = [silent, ungraded, length]
    rows = {"prompt": [f"{number}+1=" for number in range(8)], "tests": [SILENCE] * 8}
    assert silent(completions=["print(1)", "("], tests=[SILENCE] * 2) == [0.0, 1.0]
    arguments = GRPOConfig(
        output_dir=folder, per_device_train_batch_size=8, num_generations=4, max_completion_length=8, max_steps=2,
        logging_steps=1, use_cpu=True, bf16=False, report_to=[], save_strategy="no", disable_tqdm=True,
        dataloader_num_workers=1,
    )  # fmt: skip
    trainer = GRPOTrainer(
        Qwen2ForCausalLM(config), rewards, args=arguments, train_dataset=Dataset.from_dict(rows),
        processing_class=tokens,
    )  # fmt: skip
    trainer.train()
    for logged in trainer.state.log_history[:2]:
        name = silent.__name__
        paid, empty = logged[f"rewards/{name}/mean"], logged[f"{name}/no_answer"]
        assert paid == logged[f"{name}/answer"] > 0, logged
        assert abs(paid - (1.0 - empty)) < 1e-6, logged  # an empty completion is no program
        assert logged[f"{name}/format"] == 0.0, logged
        none = logged[f"rewards/{ungraded.__name__}/mean"]  # the trainer's own mark of a mean over nothing
        assert none is None or math.isnan(none), logged
        assert logged["rewards/length/mean"] > 0, logged
    assert sum(len(pool.workers) for pool in _pool._pools.values()) >= 1
    print("DONE", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
