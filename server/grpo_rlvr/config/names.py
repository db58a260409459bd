"""Names that people write in a GRPOConfig and that this version does not have: what to write instead."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Replacement:
    """What to write instead of a name.

    `to` holds candidates of which the first existing one is meant; `convert` changes the value; `note` is one sentence.
    `safe` states whether the replacement computes what the old name asked for.
    """

    to: tuple[str, ...] = ()
    note: str = ""
    convert: Callable[[Any], Any] = lambda value: value
    safe: bool = True


def _mode(value: Any) -> str:
    # vllm_device named one GPU of its own; the nearest thing that needs no second process is colocate.
    return "colocate"


# Options that TRL or transformers once had (or will have), by the name people still write.
RENAMED: dict[str, Replacement] = {
    "max_prompt_length": Replacement(
        note="Nothing truncates prompts since 0.26: drop rows with long prompts, or bound prompt + completion with "
        "vllm_max_model_length."
    ),
    "vllm_device": Replacement(
        ("vllm_mode",), "One GPU for vLLM inside the run went away in 0.18: colocate shares the training GPUs, "
            "server is a "
        "process of its own.", _mode, safe=False,
    ),
    "vllm_dtype": Replacement(note="vLLM follows model_init_kwargs={'dtype': ...} now; a server takes --dtype."),
    "vllm_max_model_len": Replacement(("vllm_max_model_length",), "A server takes --max-model-len instead."),
    "vllm_max_model_length": Replacement(("vllm_max_model_len",), "It exists since 0.26 under this name."),
    "vllm_enable_prefix_caching": Replacement(note="vLLM caches prefixes by default; a server takes "
        "--enable-prefix-caching."),
    "vllm_guided_decoding_regex": Replacement(("vllm_structured_outputs_regex",), "Renamed in 0.27."),
    "vllm_structured_outputs_regex": Replacement(("vllm_guided_decoding_regex",), "Its name since 0.27."),
    "use_liger_loss": Replacement(
        note="Removed in 0.28; the fused LM head is built in since 1.15, and layer kernels are "
        "model_init_kwargs={'use_kernels': True}."
    ),
    "wandb_log_unique_prompts": Replacement(("log_unique_prompts",), "Renamed in 0.26."),
    "log_unique_prompts": Replacement(("wandb_log_unique_prompts",), "Its name since 0.26."),
    "vllm_importance_sampling_cap": Replacement(("vllm_importance_sampling_clip_max",), "Renamed in 1.6."),
    "vllm_importance_sampling_clip_max": Replacement(("vllm_importance_sampling_cap",), "Its name since 1.6."),
    "use_transformers_paged": Replacement(("use_transformers_continuous_batching",), "Renamed in 1.7."),
    "use_transformers_continuous_batching": Replacement(("use_transformers_paged",), "Its name since 1.7."),
    "warmup_ratio": Replacement(("warmup_steps",), "A number below 1 in warmup_steps is the ratio now."),
    "logging_dir": Replacement(note="The folder is taken from the environment variable TENSORBOARD_LOGGING_DIR now."),
    "overwrite_output_dir": Replacement(note="It has had no effect on training for long and was dropped."),
    "save_safetensors": Replacement(note="Weights are always saved as safetensors."),
    "evaluation_strategy": Replacement(("eval_strategy",), "Renamed."),
    "eval_strategy": Replacement(("evaluation_strategy",), "Its name in newer transformers."),
    "no_cuda": Replacement(("use_cpu",), "Renamed."),
    "push_to_hub_token": Replacement(("hub_token",), "Renamed."),
    "push_to_hub_model_id": Replacement(("hub_model_id",), "Renamed."),
    "push_to_hub_organization": Replacement(note="Write organization/name in hub_model_id."),
    "activation_checkpointing": Replacement(("gradient_checkpointing",), "Its name in transformers 5.24 and later."),
    "activation_checkpointing_kwargs": Replacement(
        ("gradient_checkpointing_kwargs",), "Its name in transformers 5.24 and later."
    ),
    "per_gpu_train_batch_size": Replacement(("per_device_train_batch_size",), "Renamed."),
    "per_gpu_eval_batch_size": Replacement(("per_device_eval_batch_size",), "Renamed."),
    "group_by_length": Replacement(note="GRPO needs its own sampler; it never had an effect here."),
    "report_to_wandb": Replacement(("report_to",), "A list of trackers.", lambda value: ["wandb"] if value else []),
}  # fmt: skip

# Names of other libraries and papers for something that GRPOConfig has.
FOREIGN: dict[str, Replacement] = {
    "max_new_tokens": Replacement(("max_completion_length",), "GRPOConfig's name for the completion cap."),
    "max_tokens": Replacement(("max_completion_length",), "GRPOConfig's name for the completion cap."),
    "max_response_length": Replacement(("max_completion_length",), "GRPOConfig's name for the completion cap."),
    "response_length": Replacement(("max_completion_length",), "GRPOConfig's name for the completion cap."),
    "kl_coef": Replacement(("beta",), "GRPOConfig's name for the KL coefficient."),
    "kl_beta": Replacement(("beta",), "GRPOConfig's name for the KL coefficient."),
    "kl_coeff": Replacement(("beta",), "GRPOConfig's name for the KL coefficient."),
    "init_kl_coef": Replacement(("beta",), "GRPOConfig's name for the KL coefficient."),
    "kl_loss_coef": Replacement(("beta",), "GRPOConfig's name for the KL coefficient."),
    "clip_range": Replacement(("epsilon",), "GRPOConfig's name for the lower clip range."),
    "cliprange": Replacement(("epsilon",), "GRPOConfig's name for the lower clip range."),
    "clip_ratio": Replacement(("epsilon",), "GRPOConfig's name for the lower clip range."),
    "clip_epsilon": Replacement(("epsilon",), "GRPOConfig's name for the lower clip range."),
    "epsilon_low": Replacement(("epsilon",), "epsilon is the lower range, epsilon_high the upper one."),
    "clip_ratio_low": Replacement(("epsilon",), "epsilon is the lower range, epsilon_high the upper one."),
    "clip_ratio_high": Replacement(("epsilon_high",), "epsilon is the lower range, epsilon_high the upper one."),
    "lr": Replacement(("learning_rate",), "Spelled out here."),
    "group_size": Replacement(("num_generations",), "GRPOConfig's name for the group."),
    "num_return_sequences": Replacement(("num_generations",), "GRPOConfig's name for the group."),
    "num_rollouts": Replacement(("num_generations",), "GRPOConfig's name for the group.", safe=False),
    "n_generations": Replacement(("num_generations",), "GRPOConfig's name for the group."),
    "num_samples": Replacement(("num_generations",), "GRPOConfig's name for the group.", safe=False),
    "batch_size": Replacement(("per_device_train_batch_size",), "Completions per process and micro-step.", safe=False),
    "train_batch_size": Replacement(("per_device_train_batch_size",), "Completions per process.", safe=False),
    "mini_batch_size": Replacement(("per_device_train_batch_size",), "Completions per process.", safe=False),
    "ppo_epochs": Replacement(("num_iterations",), "GRPOConfig's name for the passes over one rollout."),
    "num_ppo_epochs": Replacement(("num_iterations",), "GRPOConfig's name for the passes over one rollout."),
    "mu": Replacement(("num_iterations",), "GRPOConfig's name for the passes over one rollout."),
    "epochs": Replacement(("num_train_epochs",), "Spelled out here."),
    "warmup": Replacement(("warmup_steps",), "Spelled out here.", safe=False),
    "gpu_memory_utilization": Replacement(("vllm_gpu_memory_utilization",), "With its prefix here."),
    "tensor_parallel_size": Replacement(("vllm_tensor_parallel_size",), "With its prefix here."),
    "max_model_len": Replacement(("vllm_max_model_length", "vllm_max_model_len"), "With its prefix here."),
    "grad_accumulation_steps": Replacement(("gradient_accumulation_steps",), "Spelled out here."),
    "norm_adv_by_std_in_grpo": Replacement(("scale_rewards",), "GRPOConfig's name for the scaling.", safe=False),
    "algorithm": Replacement(("loss_type",), "Variants are settings here.", safe=False),
    "max_seq_length": Replacement(note="Sequences are not packed or cut: max_completion_length caps completions only."),
    "max_length": Replacement(note="Sequences are not packed or cut: max_completion_length caps completions only."),
    "packing": Replacement(note="A supervised option; GRPO samples its own completions."),
    "dataset_text_field": Replacement(note="A supervised option; GRPO reads the column prompt."),
}

# Arguments of GRPOTrainer, of the model, or of the command line, by where they belong.
ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(
        (
            "reward_funcs", "rollout_func", "train_dataset", "eval_dataset", "processing_class", "tokenizer",
            "peft_config",
            "callbacks", "optimizers", "reward_processing_classes", "environment_factory", "tools",
            "quantization_config",
            "model",
        ),
        "an argument of GRPOTrainer",
    ),
    **dict.fromkeys(("dtype", "torch_dtype", "attn_implementation"), "a key of model_init_kwargs"),
    **dict.fromkeys(
        ("load_in_4bit", "load_in_8bit"), "part of the BitsAndBytesConfig that GRPOTrainer takes as quantization_config"
    ),
    **dict.fromkeys(
        (
            "model_name_or_path", "model_revision", "use_peft", "lora_r", "lora_alpha", "lora_dropout",
            "lora_target_modules", "lora_task_type", "use_bnb_nested_quant", "bnb_4bit_quant_type",
        ),
        "an option of the command line (ModelConfig)",
    ),
    **dict.fromkeys(
        (
            "dataset_name", "dataset_config", "dataset_train_split", "dataset_test_split", "dataset_prompt_column",
            "system_prompt",
        ),
        "an option of the command line or of your script (ScriptArguments)",
    ),
}  # fmt: skip
# What unsloth's patched GRPOConfig adds, beside the names that start with unsloth_.
UNSLOTH = ("vllm_sampling_params", "max_seq_length")
# Keys that move into model_init_kwargs as they are.
MODEL_INIT = ("dtype", "torch_dtype", "attn_implementation")


@dataclass(frozen=True)
class Framework:
    """Another trainer whose configs look like a GRPOConfig.

    One of `sure` tells it alone; of `hints` it takes two. A name with dots stands for itself and for what it begins.
    """

    name: str
    sure: tuple[str, ...]
    hints: tuple[str, ...] = ()
    advice: str = ""


FRAMEWORKS: tuple[Framework, ...] = (
    Framework(
        "ms-swift",
        (
            "rlhf_type", "tuner_type", "external_plugins", "num_infer_workers", "sleep_level", "async_generate",
            "gc_collect_after_offload", "vllm_enable_lora", "reward_model_plugin",
        ),
        ("train_type", "sft_type", "attn_impl", "model_type", "offload_model", "offload_optimizer", "lora_rank"),
    ),
    Framework(
        "verl",
        ("actor_rollout_ref", "adv_estimator", "algorithm.adv_estimator", "trainer.n_gpus_per_node"),
        ("algorithm", "critic", "reward_model", "custom_reward_function", "worker"),
    ),
    Framework(
        "axolotl",
        ("base_model", "micro_batch_size", "sample_packing"),
        ("rl", "trl", "adapter", "sequence_len", "datasets"),
        "Its section trl holds GRPOConfig's options: give that one.",
    ),
    Framework(
        "OpenRLHF",
        ("n_samples_per_prompt", "micro_train_batch_size", "micro_rollout_batch_size", "advantage_estimator"),
        ("rollout_batch_size", "pretrain", "prompt_data", "zero_stage", "init_kl_coef", "generate_max_len"),
    ),
    Framework(
        "accelerate",
        ("compute_environment", "distributed_type", "main_training_function", "deepspeed_config"),
        ("machine_rank", "rdzv_backend", "num_machines", "mixed_precision", "same_network", "downcast_bf16"),
        "It is a setup: give the file as setup, or its content as launch.accelerate there.",
    ),
    Framework(
        "DeepSpeed",
        ("zero_optimization", "train_micro_batch_size_per_gpu"),
        ("train_batch_size", "gradient_clipping", "steps_per_print", "wall_clock_breakdown"),
        "GRPOConfig takes it, or its path, as deepspeed.",
    ),
    Framework("NeMo RL", (), ("grpo", "policy", "loss_fn", "cluster")),
    Framework("LLaMA-Factory", ("finetuning_type",), ("stage", "template", "cutoff_len", "do_train")),
    Framework("MLX", ("num_lora_layers", "train_mode"), ("lora_rank", "lora_layers", "adapter_path", "iters")),
    Framework("torchtune", ("_component_",), ("tokenizer", "checkpointer", "metric_logger")),
    Framework("prime-rl", (), ("orchestrator", "inference", "ckpt")),
    Framework("Tunix", ("grpo_config", "algo_config"), ("rollout_config", "cluster_config", "training_config")),
)  # fmt: skip


def framework_of(names: list[str]) -> tuple[Framework, list[str]] | None:
    """Return the other trainer whose names these are, with the names that tell it; None when they tell none."""
    best: tuple[Framework, list[str]] | None = None
    for framework in FRAMEWORKS:
        sure = [name for name in names if _is_one_of(name, framework.sure)]
        told = sure + [name for name in names if name not in sure and _is_one_of(name, framework.hints)]
        if (sure or len(told) >= 2) and (best is None or len(told) > len(best[1])):
            best = framework, told
    return best


def _is_one_of(name: str, known: tuple[str, ...]) -> bool:
    return name in known or ("." in name and name.partition(".")[0] in known)
