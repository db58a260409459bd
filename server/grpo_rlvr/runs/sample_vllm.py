"""Completions by vLLM inside the training interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Nothing trains beside a sampling run, so it may take most of a GPU; on a CPU the same setting means the machine's
# memory, which is shared with everything else.
GPU_SHARE, CPU_SHARE = 0.85, 0.4


def vllm_generate(job: dict[str, Any]) -> Callable[[list[Any], int], list[dict[str, Any]]]:
    """Start an engine and return a function that completes prompts, reproducible from the job's seed."""
    import torch
    from vllm import LLM, SamplingParams

    model, sampling = job["model"], job["sampling"]
    share = job.get("memory_share") or (GPU_SHARE if torch.cuda.is_available() else CPU_SHARE)
    engine = LLM(
        model=model["path"],
        revision=model.get("revision"),
        dtype=model.get("dtype") or "auto",
        trust_remote_code=bool(model.get("trust_remote_code")),
        seed=job["seed"],
        gpu_memory_utilization=share,
        max_model_len=job.get("max_model_length"),
        generation_config="vllm",
    )

    def generate(prompts: list[Any], first_group: int) -> list[dict[str, Any]]:
        parameters = [
            SamplingParams(
                temperature=sampling["temperature"],
                top_p=sampling["top_p"],
                top_k=sampling["top_k"] or 0,
                min_p=sampling["min_p"] or 0.0,
                repetition_penalty=sampling["repetition_penalty"],
                max_tokens=sampling["max_completion_length"],
                seed=(job["seed"] * 1_000_003 + first_group * 4096 + index) % 2**31,
                **(sampling.get("generation_kwargs") or {}),
            )
            for index in range(len(prompts))
        ]
        chat = not isinstance(prompts[0], str)
        if chat:
            outputs = engine.chat(
                prompts,
                parameters,
                use_tqdm=False,
                chat_template=model.get("chat_template"),
                chat_template_kwargs=sampling.get("chat_template_kwargs") or None,
            )
        else:
            outputs = engine.generate(prompts, parameters, use_tqdm=False)
        return [_row(output.outputs[0], chat) for output in outputs]

    return generate


def _row(output: Any, chat: bool) -> dict[str, Any]:
    return {
        "completion": [{"role": "assistant", "content": output.text}] if chat else output.text,
        "completion_ids": list(output.token_ids),
        "finish_reason": "length" if output.finish_reason == "length" else "stop",
    }
