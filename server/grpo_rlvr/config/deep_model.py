"""What the deep check trains: a tiny random model of the same class, its tokenizer, a few rows, stand-in rewards.

Runs inside the training interpreter; nothing is downloaded.
"""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

MAX_ROWS = 16
TARGETS = ["q_proj", "v_proj"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|pad|>", "<|unk|>", "<|im_start|>", "<|im_end|>")
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}


def build_tokenizer() -> Any:
    """Return a character tokenizer with a chat template, built on the spot."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from tokenizers import decoders as token_decoders
    from transformers import PreTrainedTokenizerFast

    characters = string.printable
    vocabulary = {token: index for index, token in enumerate((*SPECIAL, *characters))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<|unk|>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = token_decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        unk_token="<|unk|>",
        eos_token="<|im_end|>",
        padding_side="left",
    )
    fast.chat_template = TEMPLATE
    return fast


def model_config(request: dict[str, Any], vocabulary: int) -> Any:
    """Return a tiny config of the stated class: dense (llama or qwen2) or mixture of experts (qwen3_moe)."""
    from transformers import LlamaConfig, Qwen2Config, Qwen3MoeConfig

    model = request.get("model") or {}
    common: dict[str, Any] = {
        **SIZES,
        "vocab_size": vocabulary,
        "intermediate_size": 64,
        "max_position_embeddings": 512,
    }
    if model.get("tie_word_embeddings") is not None:
        common["tie_word_embeddings"] = bool(model["tie_word_embeddings"])
    if model.get("class") == "moe" or model.get("moe"):
        common["head_dim"] = 8
        return Qwen3MoeConfig(
            **common, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, decoder_sparse_step=1
        )
    named = f"{model.get('family') or ''} {model.get('name') or ''}".lower()
    return LlamaConfig(**common) if "llama" in named or "smol" in named else Qwen2Config(**common)


def build_model(request: dict[str, Any], folder: Path) -> tuple[Any, Any, Any]:
    """Return the model (a path, or an object where the setup states one), its tokenizer and the peft_config."""
    import torch
    from transformers import AutoModelForCausalLM, set_seed

    set_seed(0)
    tokenizer = build_tokenizer()
    path = folder / "tiny"
    AutoModelForCausalLM.from_config(model_config(request, len(tokenizer))).save_pretrained(path)
    tokenizer.save_pretrained(path)
    model = request.get("model") or {}
    instance = str(model.get("instance") or "")
    peft_config = lora(request.get("peft_config") or {}) if request.get("peft_config") is not None else None
    if "PeftModel" in instance:
        return with_adapter(path, model.get("adapter") or {}), tokenizer, peft_config
    if not instance:
        if peft_config is None and model.get("peft") is True:
            peft_config = lora({})
        return str(path), tokenizer, peft_config
    loaded = AutoModelForCausalLM.from_pretrained(path)
    if any(word in instance.lower() for word in ("merge", "resiz", "changed", "not saved")):
        with torch.no_grad():
            for parameter in loaded.parameters():
                parameter.add_(0.01 * torch.randn_like(parameter))
    return loaded, tokenizer, peft_config


def lora(stated: dict[str, Any]) -> Any:
    """Return the LoraConfig that the setup states."""
    from peft import LoraConfig

    # PEFT knows default targets by architecture; the tiny one's may differ from the user's.
    targets = {} if stated.get("target_modules") or stated.get("target_parameters") else {"target_modules": TARGETS}
    return LoraConfig(**{"task_type": "CAUSAL_LM", "r": 4, **stated, **targets})


def with_adapter(path: Path, adapter: dict[str, Any]) -> Any:
    """Return a PeftModel loaded from a folder as a user loads one."""
    from peft import PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM

    fresh = get_peft_model(AutoModelForCausalLM.from_pretrained(path), lora({}))
    fresh.save_pretrained(path / "adapter")
    base = AutoModelForCausalLM.from_pretrained(path)
    return PeftModel.from_pretrained(base, path / "adapter", is_trainable=bool(adapter.get("is_trainable", False)))


def build_rows(request: dict[str, Any]) -> Any:
    """Return a small dataset with the stated columns: rows of the user's file where there is one, else made up."""
    from datasets import Dataset

    dataset = request.get("dataset") or {}
    read = read_rows(dataset.get("path"), Path(request["root"]))
    if read:
        return Dataset.from_list(read)
    names = [str(name) for name in dataset.get("columns") or ["prompt", *request.get("made_up_columns", ())]]
    chat = dataset.get("format") == "conversational"
    rows = []
    for index in range(MAX_ROWS):
        text = f"{index} + 1 ="
        row: dict[str, Any] = {name: str(index + 1) for name in names}
        if "prompt" in row:
            row["prompt"] = [{"role": "user", "content": text}] if chat else text
        if "messages" in row:
            row["messages"] = [{"role": "user", "content": text}]
        rows.append(row)
    return Dataset.from_list(rows)


def read_rows(stated: Any, root: Path) -> list[dict[str, Any]]:
    """Return the first rows of a JSON Lines file below `root`, none when it is another kind of source."""
    if not isinstance(stated, str) or not stated.endswith((".jsonl", ".ndjson")):
        return []
    path = (root / stated).resolve()
    if not path.is_file() or not path.is_relative_to(root.resolve()):
        return []
    rows = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.strip():
                rows.append(json.loads(line))
            if len(rows) == MAX_ROWS:
                break
    return rows


def stand_in_rewards(entry: dict[str, Any]) -> Any:
    """Return a reward with the stated parameters whose values differ within a group."""
    parameters = entry.get("parameters")
    name = str(entry.get("name") or "reward").rpartition(".")[2]

    def graded(completions: list[Any]) -> list[float]:
        texts = [item if isinstance(item, str) else item[-1]["content"] for item in completions]
        return [float(sum(map(ord, text)) % 7) + 0.1 * index for index, text in enumerate(texts)]

    if parameters is None:

        def reward(completions: list[Any], **kwargs: Any) -> list[float]:
            return graded(completions)
    else:
        # The parameter names are identifiers that the server parsed, so this text holds nothing but them.
        names = [item for item in parameters["required"] if item.isidentifier()]
        names += [f"{item}=None" for item in parameters["optional"] if item.isidentifier()]
        names += ["**kwargs"] if parameters["takes_any"] else []
        scope: dict[str, Any] = {"graded": graded}
        where = (
            "completions"
            if "completions" in parameters["required"] + parameters["optional"]
            else "kwargs['completions']"
        )
        exec(f"def reward({', '.join(names)}):\n    return graded({where})\n", scope)
        reward = scope["reward"]
    reward.__name__ = reward.__qualname__ = name if name.isidentifier() else "reward"
    return reward
