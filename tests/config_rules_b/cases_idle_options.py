"""Options that nothing reads, and a warm-up that never ends: where the rules fire and where they stay silent."""

from typing import Any

COLOCATE = {"use_vllm": True, "vllm_mode": "colocate"}
SUM = {"multi_objective_aggregation": "normalize_then_sum"}
IDLE, ADAPTIVE, WARM_UP = "option-without-its-switch", "entropy-options-without-adaptation", "warm-up-outlasts-run"

FIRES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (IDLE, {"log_unique_prompts": True}, {}, "1.16.0"),
    (IDLE, {"wandb_log_unique_prompts": True}, {}, "0.24.0"),
    (IDLE, {"cache_implementation": "static", "use_vllm": True}, {}, "0.19.1"),
    (IDLE, {"use_transformers_continuous_batching": True, "use_vllm": True}, {}, "1.12.0"),
    (IDLE, {"transformers_continuous_batching_config": {"max_batch_tokens": 4096}}, {}, "1.12.0"),
    (IDLE, {**COLOCATE, "vllm_server_port": 8001}, {}, "0.24.0"),
    (IDLE, {**SUM, "scale_rewards": "none"}, {}, "0.27.2"),
    (IDLE, {"lr_scheduler_type": "constant", "warmup_steps": 100}, {}, "1.16.0"),
    (IDLE, {"lr_scheduler_type": "constant", "warmup_ratio": 0.1}, {}, "0.24.0"),
    (IDLE, {"eval_steps": 100}, {}, "0.16.1"),
    (IDLE, {"eval_steps": 100, "eval_strategy": "epoch"}, {}, "1.16.0"),
    (ADAPTIVE, {"entropy_coef": 0.01, "entropy_coef_max": 0.1}, {}, "1.8.0"),
    (WARM_UP, {"warmup_steps": 500, "max_steps": 200}, {}, "0.14.0"),
]
SILENT: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (IDLE, {"log_unique_prompts": True, "log_completions": True}, {}, "1.16.0"),
    (IDLE, {"num_completions_to_print": None}, {}, "1.16.0"),
    (IDLE, {"cache_implementation": "static"}, {}, "1.16.0"),
    (IDLE, {"use_transformers_continuous_batching": False, "use_vllm": True}, {}, "1.12.0"),
    (IDLE, {"use_vllm": True, "vllm_mode": "server", "vllm_server_port": 8001}, {}, "0.24.0"),
    (IDLE, {**COLOCATE, "vllm_server_port": 8000}, {}, "0.24.0"),
    (IDLE, {**SUM, "scale_rewards": "group"}, {}, "0.27.2"),
    (IDLE, {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 100}, {}, "1.16.0"),
    (IDLE, {"lr_scheduler_type": "constant", "warmup_steps": 0}, {}, "1.16.0"),
    (IDLE, {"eval_steps": 100, "eval_strategy": "steps"}, {}, "1.16.0"),
    # The old name of the strategy is a finding of its own; with its cure the steps are read.
    (IDLE, {"eval_steps": 100, "evaluation_strategy": "steps"}, {}, "1.16.0"),
    (ADAPTIVE, {"entropy_coef": 0.01}, {}, "1.8.0"),
    (WARM_UP, {"warmup_steps": 0.5, "max_steps": 1}, {}, "1.16.0"),
    (WARM_UP, {"warmup_steps": 100}, {}, "1.16.0"),
    (WARM_UP, {"warmup_steps": 100, "max_steps": 50, "lr_scheduler_type": "constant"}, {}, "1.16.0"),
]
