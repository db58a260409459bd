"""Faults that a patch release mended: the last release that has them, and the first that does not."""

from typing import Any

COLOCATE = {"use_vllm": True, "vllm_mode": "colocate"}
SERVER = {"use_vllm": True, "vllm_mode": "server"}
NO_LIMIT = {**COLOCATE, "max_prompt_length": None}
EVAL = {"eval_strategy": "steps", "eval_steps": 50, "num_generations": 8}
SMALL_EVAL = {**EVAL, "num_generations_eval": 2, "per_device_eval_batch_size": 4}
NARROW = {"model": {"generation_config": {"temperature": 0.1, "top_k": 1}}}
ENDS = {"model": {"tokenizer": {"eos": "<a>", "turn_end": "<b>"}}}
TOOLS = {"trainer": {"tools": ["search"]}}
QUANTIZED = {"model": {"peft": True, "quantized": "4bit", "instance": "get_peft_model(model, config)"}}
OFFLOADED = {
    "beta": 0.04,
    "deepspeed": {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "optimizer": {}},
}
ZERO3 = {**OFFLOADED, "deepspeed": {**OFFLOADED["deepspeed"], "zero_optimization": {"stage": 3}}}  # type: ignore[dict-item]
NONE = {
    "rewards": [
        {"name": "f", "signature": "def f(completions, **kwargs)", "returns": "None when the answer is missing"}
    ]
}
STEPS = {"gradient_accumulation_steps": 8, "steps_per_generation": 2, "num_generations": 8}
MIXED = {"model": {"class": "vlm"}, "dataset": {"columns": ["prompt", "image"], "images": "mixed sizes"}}
SHARDED = {"model": {"peft": True}, "hardware": {"fsdp_version": 2, "num_processes": 8}}
FULL = {"model": {"peft": False}}
NO_NVLINK = {"model": {"peft": True}, "hardware": {"num_processes": 2, "nvlink": False}}


def beside(**versions: str) -> dict[str, Any]:
    return {"versions": versions}


FIRES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("evaluation-without-step-of-its-own", EVAL, {}, "0.14.0"),
    ("evaluation-without-step-of-its-own", {"eval_on_start": True}, {}, "0.14.0"),
    ("data-workers-with-newer-transformers", {"dataloader_num_workers": 1}, beside(transformers="4.52.4"), "0.18.1"),
    ("colocated-vllm-without-generation-kwargs", NO_LIMIT, {}, "0.19.0"),
    ("reward-none-for-whole-row-refused", {}, NONE, "0.21.0"),
    ("reward-scaling-swapped", {"scale_rewards": True}, {}, "0.22.1"),
    ("reward-scaling-swapped", {"scale_rewards": "none"}, {}, "0.22.0"),
    ("quantized-adapter-frozen-again", {}, QUANTIZED, "0.23.0"),
    ("vllm-server-ratio-ignores-temperature", {**SERVER, "temperature": 0.6}, {}, "0.27.0"),
    ("vllm-server-ratio-ignores-temperature", {"use_vllm": True, "temperature": 0.6}, {}, "0.24.0"),
    ("generation-config-wins", {}, {**NARROW, **beside(transformers="4.57.3")}, "0.26.1"),
    ("eval-batch-not-divisible-by-group", SMALL_EVAL, {}, "0.26.0"),
    ("evaluation-before-first-step", {**EVAL, "eval_on_start": True, "loss_type": "grpo"}, {}, "0.27.0"),
    ("transformers-without-warnings-issued", {}, beside(transformers="5.1.0"), "0.27.1"),
    ("tools-with-colocated-vllm", COLOCATE, TOOLS, "0.28.0"),
    ("tools-with-colocated-vllm", COLOCATE, {"environment_factory": {"name": "Env"}}, "0.29.0"),
    ("tools-with-vllm-server", SERVER, TOOLS, "0.29.1"),
    ("tools-with-vllm-server", SERVER, {"environment_factory": {"name": "Env"}}, "1.14.0"),
    ("rollout-func-not-called", {}, {"trainer": {"rollout_func": "play"}}, "0.29.0"),
    ("image-sizes-mixed", COLOCATE, MIXED, "0.29.1"),
    ("adapter-tensor-parallel-hang", {**COLOCATE, "vllm_tensor_parallel_size": 2}, NO_NVLINK, "1.7.0"),
    ("reference-with-optimizer-block", OFFLOADED, FULL, "1.9.0"),
    ("fsdp2-lora-generate", {}, {**SHARDED, **beside(transformers="4.57.6")}, "0.28.0"),
    ("fsdp2-lora-generate", {}, SHARDED, "0.25.1"),
    ("rollout-steps-differ-from-accumulation", STEPS, {}, "1.9.0"),
    ("turn-end-not-counted-as-end", {}, ENDS, "1.14.1"),
    ("vllm-server-answers-without-body", SERVER, beside(vllm="0.25.0"), "1.14.0"),
    ("policy-not-a-language-model", {}, {"model": {"instance": "AutoModelForCausalLMWithValueHead"}}, "1.16.0"),
    ("policy-not-a-language-model", {}, {"model": {"instance": "Qwen2ForSequenceClassification(c)"}}, "0.22.2"),
]
SILENT: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("evaluation-without-step-of-its-own", EVAL, {}, "0.15.0"),
    ("data-workers-with-newer-transformers", {"dataloader_num_workers": 1}, beside(transformers="4.52.4"), "0.18.2"),
    ("colocated-vllm-without-generation-kwargs", NO_LIMIT, {}, "0.19.1"),
    ("colocated-vllm-without-generation-kwargs", {**NO_LIMIT, "generation_kwargs": {}}, {}, "0.19.0"),
    ("colocated-vllm-without-generation-kwargs", {**SERVER, "max_prompt_length": None}, {}, "0.19.0"),
    ("reward-none-for-whole-row-refused", {}, NONE, "0.22.0"),
    ("reward-scaling-swapped", {"scale_rewards": True}, {}, "0.22.2"),
    ("reward-scaling-swapped", {}, {}, "0.22.0"),
    ("quantized-adapter-frozen-again", {}, QUANTIZED, "0.23.1"),
    ("quantized-adapter-frozen-again", {}, {**QUANTIZED, "trainer": {"unsloth": True}}, "0.22.2"),
    ("quantized-adapter-frozen-again", {}, {**QUANTIZED, "hardware": {"fsdp_version": 2}}, "0.22.2"),
    ("vllm-server-ratio-ignores-temperature", {**SERVER, "temperature": 0.6}, {}, "0.27.1"),
    ("vllm-server-ratio-ignores-temperature", {**COLOCATE, "temperature": 0.6}, {}, "0.26.2"),
    ("generation-config-wins", {}, {**NARROW, **beside(transformers="4.57.3")}, "0.26.2"),
    ("generation-config-wins", {}, {**NARROW, **beside(transformers="5.0.0")}, "0.26.1"),
    ("eval-batch-not-divisible-by-group", SMALL_EVAL, {}, "0.26.1"),
    ("evaluation-before-first-step", {**EVAL, "eval_on_start": True, "loss_type": "grpo"}, {}, "0.27.1"),
    ("transformers-without-warnings-issued", {}, beside(transformers="5.1.0"), "0.27.2"),
    ("transformers-without-warnings-issued", {}, beside(transformers="5.0.0"), "0.27.1"),
    ("transformers-without-warnings-issued", {}, {}, "0.24.0"),
    ("tools-with-colocated-vllm", COLOCATE, TOOLS, "0.27.2"),
    ("tools-with-colocated-vllm", COLOCATE, TOOLS, "0.29.1"),
    ("tools-with-vllm-server", SERVER, TOOLS, "1.14.1"),
    ("tools-with-vllm-server", SERVER, {}, "1.13.0"),
    ("rollout-func-not-called", {}, {"trainer": {"rollout_func": "play"}}, "0.29.1"),
    ("image-sizes-mixed", COLOCATE, MIXED, "0.29.0"),
    ("adapter-tensor-parallel-hang", {**COLOCATE, "vllm_tensor_parallel_size": 2}, NO_NVLINK, "1.7.1"),
    ("reference-with-optimizer-block", OFFLOADED, FULL, "1.9.1"),
    ("reference-with-optimizer-block", ZERO3, FULL, "1.9.0"),
    ("reference-with-optimizer-block", OFFLOADED, {"model": {"peft": True}}, "1.9.0"),
    ("rollout-steps-differ-from-accumulation", STEPS, {}, "1.9.1"),
    ("fsdp2-lora-generate", {}, {**SHARDED, **beside(transformers="5.0.0")}, "0.28.0"),
    ("fsdp2-lora-generate", COLOCATE, SHARDED, "0.25.1"),
    ("turn-end-not-counted-as-end", {}, ENDS, "1.14.2"),
    ("vllm-server-answers-without-body", SERVER, beside(vllm="0.25.0"), "1.14.1"),
    ("vllm-server-answers-without-body", SERVER, beside(vllm="0.26.0"), "1.14.0"),
    ("vllm-server-answers-without-body", COLOCATE, beside(vllm="0.25.0"), "1.14.0"),
    ("policy-not-a-language-model", {}, {"model": {"instance": "AutoModelForCausalLM"}}, "1.16.0"),
    # Without a patch number the newest patch is meant, whose faults are mended.
    ("reward-scaling-swapped", {"scale_rewards": True}, {}, "0.22"),
    ("colocated-vllm-without-generation-kwargs", NO_LIMIT, {}, "0.19"),
    ("rollout-steps-differ-from-accumulation", STEPS, {}, "1.9"),
]
