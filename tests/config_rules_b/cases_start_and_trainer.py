"""Arguments of GRPOTrainer, options that fail only when a run starts: where each rule fires and stays silent."""

from typing import Any

NO_REENTRANT = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}}
REENTRANT = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}}
FOUR = {"hardware": {"num_processes": 4}}
COLOCATE = {"use_vllm": True, "vllm_mode": "colocate"}
TEXT, CHAT = {"dataset": {"format": "string"}}, {"dataset": {"format": "conversational"}}
STEPS = {"max_steps": 100}
TWO = {"names": ["coding", "game"]}
THINK = {"chat_template_kwargs": {"enable_thinking": False}}


def trainer(**given: Any) -> dict[str, Any]:
    return {"trainer": given}


FIRES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("trainer-argument-unknown", {}, trainer(tokenizer="tok"), "1.16.0"),
    ("trainer-argument-unknown", {}, trainer(arguments=["model", "args", "data_collator"]), "0.19.1"),
    ("trainer-argument-unknown", {}, trainer(rollout_func="play"), "0.24.0"),
    ("trainer-argument-unknown", {}, {"environment_factory": {"name": "Env"}}, "0.28.0"),
    ("trainer-argument-unknown", {}, trainer(quantization_config={"load_in_4bit": True}), "1.7.1"),
    ("train-dataset-missing", {}, {"dataset": {"type": "None"}}, "1.16.0"),
    ("train-dataset-missing", {}, {"dataset": {"type": "None"}, "environment_factory": {"name": "Env"}}, "1.16.0"),
    ("train-dataset-missing", STEPS, {"dataset": {"type": "None"}, "environment_factory": {"name": "Env"}}, "1.8.0"),
    ("train-dataset-missing", STEPS, {"dataset": {"type": "None"}, "environment_factory": TWO}, "1.16.0"),
    ("environment-column-missing", {}, {"environment_factory": TWO, "dataset": {"columns": ["prompt"]}}, "1.8.0"),
    ("several-environments-refused", {}, {"environment_factory": TWO}, "1.7.1"),
    ("prompt-column-missing", {}, {"environment_factory": {"name": "Env"}, "dataset": {"columns": ["level"]}}, "1.8.0"),
    ("rollout-func-not-called", COLOCATE, trainer(rollout_func="play"), "0.25.1"),
    ("rollout-func-not-called", {}, trainer(rollout_func="play"), "0.28.0"),
    ("persistent-workers-without-workers", {"dataloader_persistent_workers": True}, {}, "0.14.0"),
    ("deepspeed-with-fsdp", {"deepspeed": {"zero_optimization": {}}, "fsdp": "full_shard"}, {}, "0.22.2"),
    ("low-rank-optimizer-without-targets", {"optim": "apollo_adamw"}, {}, "0.24.0"),
    ("checkpointing-option-unknown", {**REENTRANT, "gradient_checkpointing_kwargs": {"reentrant": True}}, {}, "0.24.0"),
    ("token-count-of-raw-rows", {"include_tokens_per_second": True}, {}, "0.16.1"),
    (
        "unused-parameters-with-reentrant-checkpointing",
        {**REENTRANT, "ddp_find_unused_parameters": True},
        FOUR,
        "1.16.0",
    ),
    (
        "unused-parameters-with-reentrant-checkpointing",
        {"gradient_checkpointing": True, "ddp_find_unused_parameters": True},
        {**FOUR, "versions": {"transformers": "4.57.6"}},
        "0.24.0",
    ),
    ("eval-without-dataset", {"eval_on_start": True}, {"dataset": {"eval": None}}, "1.16.0"),
    ("generation-kwargs-misspelled", {"generation_kwargs": {"max_new_token": 5}}, {}, "0.24.0"),
    ("generation-kwargs-misspelled", {**COLOCATE, "generation_kwargs": {"stop_token_id": [1]}}, {}, "1.16.0"),
    ("template-options-without-messages", THINK, TEXT, "1.16.0"),
]
SILENT: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("train-dataset-missing", STEPS, {"dataset": {"type": "None"}, "environment_factory": {"name": "Env"}}, "1.9.0"),
    ("train-dataset-missing", {}, {"dataset": {"type": "Dataset"}}, "1.16.0"),
    ("train-dataset-missing", {}, {"dataset": {"type": "None"}}, "0.28.0"),
    ("environment-column-missing", {}, {"environment_factory": TWO, "dataset": {"columns": ["environment"]}}, "1.16.0"),
    ("environment-column-missing", {}, {"environment_factory": {"name": "E"}, "dataset": {"columns": ["a"]}}, "1.16.0"),
    ("several-environments-refused", {}, {"environment_factory": TWO}, "1.8.0"),
    ("several-environments-refused", {}, {"environment_factory": {"names": 2}}, "1.7.1"),
    ("prompt-column-missing", {}, {"environment_factory": {"name": "Env"}, "dataset": {"columns": ["level"]}}, "1.9.0"),
    (
        "rollout-cut-by-update-uncorrected",
        {"gradient_accumulation_steps": 4, "steps_per_generation": 6},
        {},
        "0.18.2",
    ),
    (
        "rollout-cut-by-update-uncorrected",
        {"gradient_accumulation_steps": 4, "steps_per_generation": 3, "num_iterations": 2},
        {},
        "0.18.2",
    ),
    ("trainer-argument-unknown", {}, trainer(arguments=["model", "reward_funcs", "args", "tools"]), "0.26.2"),
    ("trainer-argument-unknown", {}, trainer(unsloth=True, tokenizer="tok"), "0.24.0"),
    ("trainer-argument-unknown", {}, {"environment_factory": {"name": "Env"}}, "0.29.1"),
    ("trainer-argument-unknown", {}, trainer(arguments=["model", "novelty"]), "9.0.0"),
    ("rollout-func-not-called", COLOCATE, trainer(rollout_func="play"), "0.26.2"),
    ("rollout-func-not-called", {"use_vllm": True, "vllm_mode": "server"}, trainer(rollout_func="play"), "0.25.1"),
    ("rollout-func-not-called", {}, trainer(rollout_func="play"), "0.29.1"),
    (
        "persistent-workers-without-workers",
        {"dataloader_persistent_workers": True, "dataloader_num_workers": 1},
        {},
        "1.16.0",
    ),
    ("deepspeed-with-fsdp", {"deepspeed": "zero3.json", "fsdp": ""}, {}, "0.22.2"),
    (
        "low-rank-optimizer-without-targets",
        {"optim": "galore_adamw", "optim_target_modules": "all-linear"},
        {},
        "1.16.0",
    ),
    (
        "checkpointing-option-unknown",
        {**NO_REENTRANT, "gradient_checkpointing_kwargs": {"use_reentrant": False, "preserve_rng_state": False}},
        {},
        "1.16.0",
    ),
    (
        "checkpointing-option-unknown",
        {"gradient_checkpointing": False, "gradient_checkpointing_kwargs": {"reentrant": False}},
        {},
        "1.16.0",
    ),
    ("token-count-of-raw-rows", {"include_tokens_per_second": False}, {}, "0.16.1"),
    (
        "unused-parameters-with-reentrant-checkpointing",
        {**NO_REENTRANT, "ddp_find_unused_parameters": True},
        FOUR,
        "0.24.0",
    ),
    ("unused-parameters-with-reentrant-checkpointing", {**REENTRANT, "ddp_find_unused_parameters": True}, {}, "0.24.0"),
    (
        "unused-parameters-with-reentrant-checkpointing",
        {**REENTRANT, "ddp_find_unused_parameters": True},
        {"hardware": {"num_processes": 4, "deepspeed_stage": 2}},
        "0.24.0",
    ),
    ("eval-without-dataset", {"eval_on_start": True}, {"dataset": {"eval": {"rows": 5}}}, "1.16.0"),
    ("generation-kwargs-misspelled", {"generation_kwargs": {"speculation": 5, "top_h": 0.4}}, {}, "1.16.0"),
    ("template-options-without-messages", THINK, CHAT, "1.16.0"),
    ("template-options-without-messages", THINK, {**TEXT, **trainer(rollout_func="play")}, "1.16.0"),
]
