"""Rules about model, launch, dataset and evaluation: where each fires and where it stays silent, by release."""

from typing import Any

CHAT = {"columns": ["prompt"], "format": "conversational"}
STRING = {"columns": ["prompt"], "format": "string"}
VLM = {"class": "vlm", "params_b": 3}
FROZEN = {"peft": True, "instance": "PeftModel", "adapter": {"is_trainable": False}}
FOUR = {"num_processes": 1, "device": "cuda", "gpus": 4, "cuda_visible_devices": [0, 1, 2, 3]}
EVAL = {"eval_strategy": "steps", "eval_steps": 50}
GPU = {"num_processes": 1, "device": "cuda", "gpus": 1, "gpu_mem_gb": 80}

ZERO3 = {"deepspeed": {"zero_optimization": {"stage": 3}}}
NON_REENTRANT = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}}
SHARDED = {"launch": {"accelerate": {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2}}}}
EIGHT = {"accelerate": {"num_processes": 8, "distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}}}
T4 = {"hardware": {"gpu": "T4"}, "trainer": {"unsloth": True}}

FIRES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("one-process-many-gpus", {}, {"hardware": FOUR, "launch": {"command": "python train.py"}}, "1.16.0"),
    ("one-process-many-gpus", {}, {"hardware": {"gpus": 8}, "launch": {"command": "python t.py"}}, "1.16.0"),
    (
        "one-process-many-gpus",
        {},
        {"hardware": FOUR, "launch": {"command": "accelerate launch --num_processes 1 train.py"}},
        "1.16.0",
    ),
    ("batch-multiplied-by-replicas", {}, {"hardware": FOUR, "launch": {"command": "python train.py"}}, "0.15.2"),
    ("sequence-parallelism", {}, {"hardware": {"cp_size": 4, "num_processes": 8}}, "1.16.0"),
    ("fsdp2-without-weight-sync", {"use_vllm": True}, {"hardware": {"fsdp_version": 2}}, "0.19.1"),
    (
        "lora-zero3-non-reentrant-checkpointing",
        {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}},
        {"model": {"peft": True}, "hardware": {"deepspeed_stage": 3, "num_processes": 8}},
        "1.8.0",
    ),
    ("adapter-frozen-with-kl", {"beta": 0.04}, {"model": FROZEN}, "1.16.0"),
    ("adapter-frozen", {"beta": 0.0}, {"model": FROZEN}, "1.16.0"),
    ("adapter-frozen", {"beta": 0.04}, {"model": FROZEN}, "0.24.0"),
    ("adapter-on-output-layer", {}, {"peft_config": {"target_modules": r".*(q_proj|lm_head)"}}, "1.16.0"),
    (
        "adapter-on-output-layer-with-liger",
        {"use_liger_kernel": True},
        {"peft_config": {"target_modules": ["lm_head"]}},
        "0.26.2",
    ),
    ("quantized-without-adapter", {}, {"model": {"peft": False, "quantized": "4bit"}}, "1.16.0"),
    (
        "four-bit-base-with-vllm",
        {"use_vllm": True, "vllm_mode": "colocate"},
        {"model": {"peft": True, "quantized": "4bit"}},
        "0.19.1",
    ),
    ("lora-weights-stale-in-vllm", {"use_vllm": True}, {"model": {"peft": True}}, "0.15.0"),
    ("fp16-and-bf16", {"fp16": True, "bf16": True}, {}, "1.16.0"),
    ("optimizer-needs-bitsandbytes", {"optim": "paged_adamw_8bit"}, {"versions": {"bitsandbytes": None}}, "1.16.0"),
    (
        "bfloat16-weights-lose-updates",
        {"learning_rate": 5e-7, "model_init_kwargs": {"dtype": "bfloat16"}},
        {"model": {"params_b": 1.5, "peft": False}, "hardware": GPU},
        "1.16.0",
    ),
    ("bf16-without-native-support", {}, {"hardware": {"gpu": "Tesla V100-SXM2-32GB", "device": "cuda"}}, "1.16.0"),
    ("bf16-without-native-support", {}, {"hardware": {"gpu": "card", "native_bf16": False}}, "1.16.0"),
    ("float32-weights-do-not-fit", {}, {"model": {"params_b": 7, "peft": False}, "hardware": GPU}, "1.16.0"),
    (
        "float32-weights-do-not-fit",
        {"model_init_kwargs": {"dtype": "float32"}},
        {"model": {"params_b": 7, "peft": False}, "hardware": GPU},
        "1.16.0",
    ),
    ("full-tuning-rate-high", {"learning_rate": 2e-5}, {"model": {"peft": False}}, "1.16.0"),
    ("learning-rate-extreme", {"learning_rate": 0.01}, {"model": {"peft": True}}, "1.16.0"),
    ("eval-batch-not-divisible-by-group", {**EVAL, "per_device_eval_batch_size": 1}, {}, "1.16.0"),
    (
        "eval-batch-not-divisible-by-group",
        {**EVAL, "num_generations": 16, "per_device_train_batch_size": 16},
        {},
        "0.15.2",
    ),
    ("eval-group-of-one", {**EVAL, "num_generations_eval": 1}, {}, "1.16.0"),
    ("eval-without-dataset", EVAL, {"dataset": {**STRING, "eval": False}}, "1.16.0"),
    ("best-model-without-matching-eval", {"load_best_model_at_end": True}, {}, "1.16.0"),
    (
        "resume-not-passed-to-train",
        {"resume_from_checkpoint": "x"},
        {"launch": {"train_call": "trainer.train()"}},
        "1.16.0",
    ),
    (
        "resume-into-empty-buffer",
        {"num_iterations": 4},
        {"launch": {"train_call": "trainer.train(resume_from_checkpoint='out/checkpoint-50')"}},
        "0.16.1",
    ),
    ("prompt-column-missing", {}, {"dataset": {"columns": ["messages"]}}, "1.16.0"),
    ("dataset-type-refused", {}, {"dataset": {"type": "IterableDatasetDict"}}, "1.16.0"),
    ("dataset-type-refused", {}, {"dataset": {"type": "pandas.DataFrame"}}, "1.16.0"),
    (
        "prompt-ends-with-assistant",
        {},
        {"dataset": {**CHAT, "prompts": "[{'role': 'assistant', 'content': 'So'}]"}},
        "1.16.0",
    ),
    (
        "optimizer-needs-bitsandbytes",
        {"optim": "adamw_8bit"},
        {"versions": {"bitsandbytes": "not installed"}},
        "1.16.0",
    ),
    (
        "init-kwargs-for-loaded-model",
        {},
        {"model": {"instance": "PreTrainedModel"}, "trainer": {"quantization_config": "4bit"}},
        "1.16.0",
    ),
    ("dataset-type-refused", {}, {"dataset": {"type": "list"}}, "1.16.0"),
    ("streaming-refused", {"max_steps": 5}, {"dataset": {"streaming": True}}, "0.15.2"),
    ("streaming-without-max-steps", {}, {"dataset": {"streaming": True}}, "1.16.0"),
    ("instruct-model-without-template", {}, {"model": {"name_kind": "instruct"}, "dataset": STRING}, "1.16.0"),
    ("instruct-name-without-template", {}, {"model": {"name": "org/M-7B-Instruct"}, "dataset": STRING}, "1.16.0"),
    (
        "template-applied-twice",
        {},
        {"dataset": {**STRING, "prompts": "templated, starts with <|begin_of_text|>"}},
        "1.16.0",
    ),
    ("prompt-ends-with-assistant", {}, {"dataset": {**CHAT, "prompts": "last turn is assistant: 'So'"}}, "1.16.0"),
    ("chat-template-missing", {}, {"model": {"tokenizer": {"chat_template": None}}, "dataset": CHAT}, "1.16.0"),
    (
        "turn-end-not-counted-as-end",
        {"mask_truncated_completions": True},
        {"model": {"tokenizer": {"eos": "<|endoftext|>", "turn_end": "<|end|>"}}},
        "1.10.0",
    ),
    ("prompt-limit-strips-template", {"use_vllm": True, "vllm_mode": "server"}, {"dataset": CHAT}, "0.19.0"),
    ("vision-language-run", {}, {"model": VLM}, "1.16.0"),
    (
        "images-with-text-prompts",
        {},
        {"model": VLM, "dataset": {"columns": ["prompt", "image"], "format": "string"}},
        "1.16.0",
    ),
    ("continuous-batching-with-images", {"use_transformers_continuous_batching": True}, {"model": VLM}, "1.16.0"),
    (
        "prompt-limit-cuts-images",
        {"max_prompt_length": 512},
        {"model": VLM, "dataset": {"columns": ["prompt", "image"], "image_tokens": 1024}},
        "0.21.0",
    ),
    ("recipe-few-generations", {"num_generations": 4}, {}, "1.16.0"),
    ("fsdp2-without-weight-sync", {"use_vllm": True}, SHARDED, "0.19.1"),
    (
        "fsdp2-without-weight-sync",
        {"use_vllm": True, "fsdp": "full_shard auto_wrap", "fsdp_config": {"fsdp_version": 2}},
        {},
        "0.19.1",
    ),
    ("lora-zero3-non-reentrant-checkpointing", {**NON_REENTRANT, **ZERO3}, {"model": {"peft": True}}, "1.8.0"),
    ("lora-zero3-non-reentrant-checkpointing", NON_REENTRANT, {"model": {"peft": True}, "launch": EIGHT}, "1.8.0"),
    ("more-processes-than-gpus", {}, {"hardware": {"gpus": 2}, "launch": EIGHT}, "0.15.2"),
    ("bf16-without-native-support", {"bf16": True}, T4, "0.24.0"),
    ("value-out-of-range", {"max_tool_calling_iterations": -1}, {}, "1.16.0"),
    (
        "no-gpu-left-for-vllm",
        {"use_vllm": True, "vllm_device": "cuda:1"},
        {"hardware": {"num_processes": 1, "gpus": 1}},
        "0.15.2",
    ),
    ("recipe-learning-rate", {"learning_rate": 5e-7}, {"model": {"peft": True}}, "1.16.0"),
    ("recipe-loss-left-to-version", {}, {}, "1.16.0"),
]

SILENT: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("fsdp2-without-weight-sync", {"use_vllm": True, "fsdp": "", "fsdp_config": {"fsdp_version": 2}}, {}, "0.19.1"),
    (
        "fsdp2-without-weight-sync",
        {"use_vllm": True},
        {"launch": {"accelerate": {"distributed_type": "MULTI_GPU", "fsdp_config": {"fsdp_version": 2}}}},
        "0.19.1",
    ),
    (
        "lora-zero3-non-reentrant-checkpointing",
        {**NON_REENTRANT, "deepspeed": {"zero_optimization": {"stage": 2}}},
        {"model": {"peft": True}},
        "1.8.0",
    ),
    (
        "lora-zero3-non-reentrant-checkpointing",
        NON_REENTRANT,
        {"model": {"peft": True}, "launch": EIGHT, "hardware": {"deepspeed_stage": 2}},
        "1.8.0",
    ),
    ("more-processes-than-gpus", {}, {"hardware": {"gpus": 2, "num_processes": 2}, "launch": EIGHT}, "0.15.2"),
    ("more-processes-than-gpus", {}, {"hardware": {"gpus": 4, "num_machines": 2}, "launch": EIGHT}, "0.15.2"),
    ("more-processes-than-gpus", {"use_cpu": True}, {"hardware": {"gpus": 2, "num_processes": 4}}, "1.16.0"),
    ("bf16-without-native-support", {}, T4, "0.24.0"),
    ("value-out-of-range", {"max_tool_calling_iterations": 0}, {}, "1.16.0"),
    ("data-workers-with-newer-transformers", {"dataloader_num_workers": 2}, {}, "0.17.0"),
    (
        "data-workers-with-newer-transformers",
        {"dataloader_num_workers": 2},
        {"versions": {"transformers": "4.56.1"}},
        "0.18.2",
    ),
    (
        "no-gpu-left-for-vllm",
        {"use_vllm": True, "vllm_device": "cuda:0"},
        {"hardware": {"num_processes": 2, "gpus": 2}},
        "0.15.2",
    ),
    (
        "float32-weights-do-not-fit",
        {"optim": "adamw_8bit"},
        {"model": {"params_b": 7, "peft": False}, "hardware": GPU},
        "1.16.0",
    ),
    ("dataset-type-refused", {}, {"dataset": {"type": "HF Dataset (map-style)"}}, "1.16.0"),
    ("dataset-type-refused", {}, {"dataset": {"type": "datasets.IterableDataset"}}, "1.16.0"),
    ("one-process-many-gpus", {}, {"hardware": {**FOUR, "num_processes": 4}}, "1.16.0"),
    ("one-process-many-gpus", {}, {"hardware": {"num_processes": 1, "gpus": 8}}, "1.16.0"),
    ("one-process-many-gpus", {}, {"hardware": FOUR, "launch": {"command": "python train.py"}}, "1.14.0"),
    ("fsdp2-without-weight-sync", {"use_vllm": True}, {"hardware": {"fsdp_version": 2}}, "0.20.0"),
    ("adapter-on-output-layer", {}, {"peft_config": {"target_modules": "all-linear"}}, "1.16.0"),
    ("float32-weights-do-not-fit", {}, {"model": {"params_b": 7, "peft": False}, "hardware": GPU}, "0.26.2"),
    ("float32-weights-do-not-fit", {}, {"model": {"params_b": 7, "peft": True}, "hardware": GPU}, "1.16.0"),
    (
        "bfloat16-weights-lose-updates",
        {"learning_rate": 1e-6, "model_init_kwargs": {"dtype": "bfloat16"}},
        {"model": {"peft": False}, "hardware": {"deepspeed_stage": 3}},
        "1.16.0",
    ),
    (
        "bfloat16-weights-lose-updates",
        {"learning_rate": 1e-6, "model_init_kwargs": {"dtype": "bfloat16"}},
        {"model": {"peft": False}},
        "1.16.0",
    ),
    (
        "bfloat16-weights-lose-updates",
        {"learning_rate": 1e-6, "model_init_kwargs": {"dtype": "bfloat16"}, "deepspeed": "zero3.json"},
        {"model": {"peft": False}, "hardware": GPU},
        "1.16.0",
    ),
    ("optimizer-needs-bitsandbytes", {"optim": "adamw_8bit"}, {}, "1.16.0"),
    (
        "resume-not-passed-to-train",
        {"resume_from_checkpoint": "x"},
        {"launch": {"train_call": "trainer.train(resume_from_checkpoint=True)"}},
        "1.16.0",
    ),
    (
        "resume-not-passed-to-train",
        {"resume_from_checkpoint": "x"},
        {"launch": {"command": "trl grpo --config c.yaml"}},
        "1.16.0",
    ),
    ("prompt-limit-strips-template", {"use_vllm": True, "vllm_mode": "server"}, {"dataset": CHAT}, "0.19.1"),
    ("instruct-model-without-template", {}, {"model": {"name_kind": "base"}, "dataset": STRING}, "1.16.0"),
    (
        "eval-batch-not-divisible-by-group",
        {**EVAL, "num_generations_eval": 1, "per_device_eval_batch_size": 1},
        {},
        "1.16.0",
    ),
    ("prompt-ends-with-assistant", {}, {"dataset": {**CHAT, "prompts": "no assistant turn at the end"}}, "1.16.0"),
]
