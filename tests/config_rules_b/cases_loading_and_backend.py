"""Model loading, generation backends and limits on prompts: where each rule fires and where it stays silent."""

from typing import Any

LOADED = {"model": {"instance": "PreTrainedModel"}}
NAMED = {"model": {"instance": False}}
COLOCATE = {"use_vllm": True, "vllm_mode": "colocate"}
SERVER = {"use_vllm": True, "vllm_mode": "server"}
PREFIX = {"peft_config": {"peft_type": "PREFIX_TUNING"}, "versions": {"peft": "0.17.1"}}
LONG = {"dataset": {"max_prompt_tokens": 3000}}
CHAT = {"dataset": {"max_prompt_tokens": 3000, "format": "conversational"}}
WINDOW = {**COLOCATE, "max_prompt_length": 1024, "max_completion_length": 512}
HEAD = {"peft_config": {"target_modules": ["q_proj", "lm_head"]}}


def dtype(value: Any, key: str = "dtype", **more: Any) -> dict[str, Any]:
    return {"model_init_kwargs": {key: value, **more}}


FIRES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("init-kwargs-refused-for-loaded-model", dtype("bfloat16", "torch_dtype"), LOADED, "0.21.0"),
    ("init-kwargs-refused-for-loaded-model", dtype("bfloat16", "torch_dtype"), LOADED, "0.14.0"),
    ("init-kwargs-for-loaded-model", dtype("bfloat16", "torch_dtype"), LOADED, "0.22.2"),
    ("weights-dtype-unknown", dtype("bf16"), NAMED, "1.16.0"),
    ("weights-dtype-unknown", dtype("half"), {}, "0.26.2"),
    ("weights-dtype-unknown", dtype("bf16", "torch_dtype"), NAMED, "0.22.2"),
    ("weights-dtype-unknown", dtype("fp16"), NAMED, "0.24.0"),
    ("torch-dtype-not-read", dtype("bfloat16", "torch_dtype"), NAMED, "0.27.2"),
    ("torch-dtype-not-read", dtype("auto", "torch_dtype"), {}, "1.16.0"),
    ("dtype-key-of-newer-transformers", dtype("bfloat16"), {"versions": {"transformers": "4.55.4"}}, "0.22.2"),
    (
        "hub-kernels-need-newer-transformers",
        {"model_init_kwargs": {"use_kernels": True}},
        {"versions": {"transformers": "5.2.0"}},
        "1.16.0",
    ),
    ("prefix-tuning-needs-newer-peft", {}, PREFIX, "1.16.0"),
    ("liger-loss-of-first-release", {"use_liger_loss": True}, {"model": {"peft": True}}, "0.17.0"),
    ("liger-loss-of-first-release", {"use_liger_loss": True, "loss_type": "grpo"}, {}, "0.17.0"),
    (
        "liger-loss-with-prompt-learning",
        {"use_liger_kernel": True},
        {"peft_config": {"peft_type": "PeftType.P_TUNING"}},
        "1.14.2",
    ),
    (
        "liger-head-over-fused-head",
        {"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": True}},
        {},
        "1.15.0",
    ),
    ("head-cast-over-adapter", {"cast_lm_head_to_fp32": True}, HEAD, "1.9.2"),
    ("vllm-server-sync-without-cuda", SERVER, {"hardware": {"device": "xpu:0"}}, "1.11.0"),
    (
        "structured-outputs-given-twice",
        {
            **COLOCATE,
            "vllm_guided_decoding_regex": "a+",
            "generation_kwargs": {"guided_decoding": {"regex": "b+"}},
        },
        {},
        "0.24.0",
    ),
    (
        "feature-of-newer-transformers",
        {},
        {"trainer": {"tools": ["weather"]}, "versions": {"transformers": "4.57.6"}},
        "0.26.2",
    ),
    ("value-not-allowed", {"torch_compile": True, "torch_compile_mode": "max"}, {}, "1.16.0"),
    ("prompts-cut-at-the-left", {"max_prompt_length": 1024}, LONG, "0.25.1"),
    ("prompts-cut-at-the-left", {}, CHAT, "0.19.1"),
    ("prompt-beyond-vllm-window", WINDOW, CHAT, "0.25.1"),
    (
        "prompt-beyond-model-window",
        {"max_prompt_length": 512},
        {**LONG, "model": {"max_position_embeddings": 2048}},
        "0.27.2",
    ),
    ("sequence-ratio-on-long-completions", {**COLOCATE, "max_completion_length": 4097}, {}, "1.16.0"),
    ("generation-kwargs-unknown-to-vllm", {**SERVER, "generation_kwargs": {"do_sample": True}}, {}, "1.10.0"),
    ("vllm-server-address-malformed", {**SERVER, "vllm_server_base_url": "localhost:8000"}, {}, "0.24.0"),
    ("vllm-server-address-malformed", {**SERVER, "vllm_server_base_url": "http://localhost:8000/v1"}, {}, "0.24.0"),
    ("vllm-server-address-malformed", {**SERVER, "vllm_server_host": "http://node1"}, {}, "0.24.0"),
    ("vllm-server-address-malformed", {**SERVER, "vllm_server_host": "node1:8000"}, {}, "0.24.0"),
]
SILENT: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("init-kwargs-refused-for-loaded-model", dtype("bfloat16", "torch_dtype"), NAMED, "0.21.0"),
    ("init-kwargs-refused-for-loaded-model", dtype("bfloat16", "torch_dtype"), LOADED, "0.22.2"),
    ("weights-dtype-unknown", dtype("float64"), NAMED, "1.16.0"),
    ("weights-dtype-unknown", dtype("torch.bfloat16"), NAMED, "1.16.0"),
    ("weights-dtype-unknown", dtype("half", "torch_dtype"), NAMED, "0.22.2"),
    ("weights-dtype-unknown", dtype("bf16"), LOADED, "1.16.0"),
    ("weights-dtype-unknown", dtype(None), NAMED, "1.16.0"),
    ("torch-dtype-not-read", dtype("bfloat16", "torch_dtype"), NAMED, "0.26.2"),
    ("torch-dtype-not-read", dtype("float32", "torch_dtype"), NAMED, "1.16.0"),
    ("torch-dtype-not-read", dtype("bfloat16", "torch_dtype", dtype="bfloat16"), NAMED, "1.16.0"),
    ("torch-dtype-not-read", dtype("bfloat16", "torch_dtype"), LOADED, "1.16.0"),
    ("dtype-key-of-newer-transformers", dtype("bfloat16"), {}, "0.22.2"),
    ("dtype-key-of-newer-transformers", dtype("bfloat16"), {"versions": {"transformers": "4.56.2"}}, "0.22.2"),
    (
        "hub-kernels-need-newer-transformers",
        {"model_init_kwargs": {"use_kernels": True}},
        {"versions": {"transformers": "5.2.0"}},
        "1.15.0",
    ),
    ("prefix-tuning-needs-newer-peft", {"model_init_kwargs": {"device_map": None}}, PREFIX, "1.16.0"),
    ("prefix-tuning-needs-newer-peft", {}, {**PREFIX, "model": {"instance": "PreTrainedModel"}}, "1.16.0"),
    ("liger-loss-of-first-release", {"use_liger_loss": True}, {"model": {"peft": True}}, "0.18.2"),
    (
        "liger-loss-with-prompt-learning",
        {"use_liger_kernel": True},
        {"peft_config": {"peft_type": "P_TUNING"}},
        "1.15.0",
    ),
    ("liger-head-over-fused-head", {"liger_kernel_config": {"fused_linear_cross_entropy": True}}, {}, "1.16.0"),
    ("head-cast-over-adapter", {"cast_lm_head_to_fp32": True}, HEAD, "1.8.0"),
    ("vllm-server-sync-without-cuda", SERVER, {"hardware": {"device": "npu"}}, "1.10.0"),
    ("vllm-server-sync-without-cuda", COLOCATE, {"hardware": {"device": "npu"}}, "1.16.0"),
    (
        "structured-outputs-given-twice",
        {"vllm_structured_outputs_regex": "a", "generation_kwargs": {"structured_outputs": 1}},
        {},
        "1.2.0",
    ),
    (
        "feature-of-newer-transformers",
        {},
        {"trainer": {"tools": ["weather"]}, "versions": {"transformers": "5.0.0"}},
        "0.26.2",
    ),
    ("value-not-allowed", {"torch_compile_mode": "max-autotune-no-cudagraphs"}, {}, "1.16.0"),
    ("prompts-cut-at-the-left", {"max_prompt_length": 1024}, LONG, "0.26.2"),
    ("prompts-cut-at-the-left", {"max_prompt_length": None}, LONG, "0.25.1"),
    ("prompts-cut-at-the-left", {**COLOCATE, "max_prompt_length": 1024}, CHAT, "0.25.1"),
    ("prompt-beyond-vllm-window", WINDOW, LONG, "0.25.1"),
    ("prompt-beyond-vllm-window", WINDOW, CHAT, "0.24.0"),
    (
        "prompt-beyond-model-window",
        {"max_prompt_length": 512},
        {**LONG, "model": {"max_position_embeddings": 2048}},
        "0.24.0",
    ),
    ("sequence-ratio-on-long-completions", {**COLOCATE, "max_completion_length": 4096}, {}, "1.16.0"),
    ("generation-kwargs-unknown-to-vllm", {**SERVER, "generation_kwargs": {"do_sample": True}}, {}, "1.11.0"),
    ("vllm-server-address-malformed", {**SERVER, "vllm_server_base_url": "http://localhost:8000"}, {}, "0.24.0"),
    ("vllm-server-address-malformed", {**SERVER, "vllm_server_base_url": "https://gpu.example/vllm"}, {}, "0.24.0"),
    ("vllm-server-address-malformed", {**SERVER, "vllm_server_host": "::1"}, {}, "0.24.0"),
]
