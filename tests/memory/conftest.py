"""Shared helpers of the memory tests."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.memory import estimate
from grpo_rlvr.models.memory import MemoryEstimate
from grpo_rlvr.models.setup import parse_setup

Estimate = Callable[..., MemoryEstimate]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test asks the hub."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def estimated() -> Estimate:
    """Return a function that estimates a config with setup sections given as keywords."""

    def run(
        config: dict[str, Any] | None = None, *, trl_version: str | None = "1.16.0", **sections: Any
    ) -> MemoryEstimate:
        return estimate(config or {}, parse_setup(sections), trl_version=trl_version)

    return run


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a Qwen2-class model of about 0.1 M parameters and a byte tokenizer."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    folder = tmp_path_factory.mktemp("tiny")
    # One token a byte; "a" comes in the middle of the vocabulary, where the worker takes its prompt token from.
    letters = sorted(ByteLevel.alphabet(), key=lambda letter: (letter == "a", letter))
    letters.insert(128, letters.pop())
    vocabulary = {"<pad>": 0, "<eos>": 1, **{letter: index + 2 for index, letter in enumerate(letters)}}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], pad_token="<pad>", eos_token="<eos>", unk_token="<pad>")
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=len(tokenizer), tie_word_embeddings=False, pad_token_id=0, eos_token_id=1, bos_token_id=1,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder
