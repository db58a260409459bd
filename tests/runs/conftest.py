"""A tiny policy, its workspace, and what every test of runs must leave behind: no process."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.runs import run_status, stop_run
from grpo_rlvr.runs.process import MARK
from grpo_rlvr.workspace import Workspace

ENDED = ("halted", "finished", "failed", "stopped", "lost")
REWARDS = '''"""Rewards of the tests."""


def starts_with_a(completions, **kwargs):
    texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
    return [float(text.startswith("a")) for text in texts]


def same_letter(completions, answer, **kwargs):
    texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
    return [float(text[:1] == a) for text, a in zip(texts, answer, strict=True)]
'''
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'][0] + '=' + message['content'] + '.' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'a=' }}{% endif %}"
)


def build_tiny_model(folder: Path) -> Path:
    """Write a Qwen2 of about 0.1 M parameters with a character tokenizer and a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    characters = ["<pad>", "<eos>", *"abcdefghijklmnopqrstuvwxyz0123456789+-*/=?:. {}[]\"',_()<>\n"]
    table = {character: index for index, character in enumerate(dict.fromkeys(characters))}
    whole = Tokenizer(models.WordLevel(vocab=table, unk_token="?"))
    whole.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    whole.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=whole, pad_token="<pad>", eos_token="<eos>")
    tokenizer.chat_template = CHAT_TEMPLATE
    config = Qwen2Config(
        vocab_size=len(table), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=True, pad_token_id=0, eos_token_id=1,
        bos_token_id=None,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def workspace(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    root = tmp_path / "work space"
    root.mkdir()
    (root / "tiny").symlink_to(tiny_model)
    (root / "my_rewards.py").write_text(REWARDS, encoding="utf-8")
    rows = [{"prompt": f"{letter}{number}=", "answer": letter} for number in range(8) for letter in "abcd"]
    (root / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.setenv("GRPO_RLVR_STATE", str(tmp_path / "state"))
    opened = Workspace.open(root, confined=False)
    yield opened
    end_everything(opened)


def end_everything(workspace: Workspace) -> None:
    """Stop whatever a failing test left running, so that it cannot disturb the next one."""
    from grpo_rlvr.runs import list_runs

    for run in list_runs(workspace).runs:
        if run.state not in ENDED:
            stop_run(run.run_id, workspace, force=True)


def processes_of(run_id: str) -> list[int]:
    """Return the live processes that carry a run's mark, found independently of the code under test."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"{MARK}={run_id}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_until(condition: Callable[[], Any], timeout_s: float, what: str) -> Any:
    """Poll until the condition gives something true; fail with `what` when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if answer := condition():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {timeout_s} s: {what}")


@pytest.fixture
def wait_for_end(workspace: Workspace) -> Callable[..., Any]:
    def wait(run_id: str, timeout_s: float = 120) -> Any:
        wait_until(lambda: run_status(run_id, workspace).state in ENDED, timeout_s, f"end of {run_id}")
        wait_until(lambda: not processes_of(run_id), 5, f"processes of {run_id} gone")
        return run_status(run_id, workspace)

    return wait
