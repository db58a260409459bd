"""Completions by transformers' generate, with TRL's own treatment of prompts and completions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def transformers_generate(job: dict[str, Any]) -> Callable[[list[Any], int], list[dict[str, Any]]]:
    """Load the model and return a function that completes prompts, reproducible from the job's seed."""
    import torch
    from transformers import AutoTokenizer, GenerationConfig
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    model = _load_model(job["model"])
    tokenizer = AutoTokenizer.from_pretrained(_tokenizer_path(job["model"]), padding_side="left")
    if job["model"].get("chat_template"):
        tokenizer.chat_template = job["model"]["chat_template"]
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    sampling = job["sampling"]
    # A model's own generation_config must not narrow what training samples from, so every setting is stated.
    settings: dict[str, Any] = {
        "max_new_tokens": sampling["max_completion_length"],
        "do_sample": sampling["temperature"] > 0,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "repetition_penalty": sampling["repetition_penalty"],
    }
    if settings["do_sample"]:
        settings |= {key: sampling[key] for key in ("temperature", "top_p", "top_k", "min_p")}
    settings |= sampling.get("generation_kwargs") or {}
    generation = GenerationConfig(**settings)
    stops = generation.eos_token_id if isinstance(generation.eos_token_id, list) else [generation.eos_token_id]
    template = {"add_generation_prompt": True, "tokenize": False, **(sampling.get("chat_template_kwargs") or {})}

    def generate(prompts: list[Any], first_group: int) -> list[dict[str, Any]]:
        torch.manual_seed((job["seed"] * 1_000_003 + first_group) % 2**63)
        chat = not isinstance(prompts[0], str)
        texts = [tokenizer.apply_chat_template(prompt, **template) for prompt in prompts] if chat else prompts
        # A rendered chat already carries its special tokens; a plain prompt gets those that the tokenizer adds.
        batch = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=not chat)
        batch = {key: value.to(model.device) for key, value in batch.items() if key in ("input_ids", "attention_mask")}
        with torch.inference_mode():
            output = model.generate(**batch, generation_config=generation)
        tails = output[:, batch["input_ids"].shape[1] :].tolist()
        return [completion_row(tokenizer, ids, stops, chat) for ids in tails]

    return generate


def completion_row(tokenizer: Any, ids: list[int], stops: list[int | None], chat: bool) -> dict[str, Any]:
    """Cut generated ids at the first stop token and return the completion as the rewards will see it."""
    end = next((i for i, token in enumerate(ids) if token in stops), None)
    kept = ids if end is None else ids[: end + 1]
    text = tokenizer.decode(kept, skip_special_tokens=True)
    return {
        "completion": [{"role": "assistant", "content": text}] if chat else text,
        "completion_ids": kept,
        "finish_reason": "length" if end is None else "stop",
    }


def _tokenizer_path(model: dict[str, Any]) -> str:
    return str(model["path"])


def _load_model(model: dict[str, Any]) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    device = "cuda" if torch.cuda.is_available() and not model.get("cpu") else "cpu"
    arguments: dict[str, Any] = {"dtype": model.get("dtype") or ("bfloat16" if device == "cuda" else "float32")}
    for key in ("revision", "attn_implementation"):
        if model.get(key):
            arguments[key] = model[key]
    if model.get("trust_remote_code"):
        arguments["trust_remote_code"] = True
    if (Path(model["path"]) / "adapter_config.json").exists():
        from peft import AutoPeftModelForCausalLM

        loaded: Any = AutoPeftModelForCausalLM.from_pretrained(model["path"], **arguments)
    else:
        loaded = AutoModelForCausalLM.from_pretrained(model["path"], **arguments)
    return loaded.to(device).eval()
