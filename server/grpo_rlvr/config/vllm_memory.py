"""Rough memory of a colocated vLLM, in GB of 1e9 bytes, as far as rules need it."""

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.view import ConfigView

BYTES = {"4bit": 0.6, "8bit": 1.1}
# Activations, logits, CUDA context and fragmentation of an ordinary run; below it "it fits" cannot be said.
OVERHEAD_GB = 10.0


def left_for_cache_gb(config: ConfigView, facts: Facts) -> float | None:
    """Return what vLLM's share leaves for keys and values after its weights; None when something is not stated."""
    share = config.number("vllm_gpu_memory_utilization")
    if not facts.colocate or share is None or facts.gpu_mem_gb is None or facts.params_b is None:
        return None
    parallel = config.integer("vllm_tensor_parallel_size") or 1
    per_parameter = BYTES.get(facts.quantized or "", 2.0)
    return share * facts.gpu_mem_gb - facts.params_b * per_parameter / parallel


def left_for_training_gb(config: ConfigView, facts: Facts) -> float | None:
    """Return what vLLM's share leaves for training; None when something is not stated."""
    share = config.number("vllm_gpu_memory_utilization")
    return None if share is None or facts.gpu_mem_gb is None else (1 - share) * facts.gpu_mem_gb


def training_need_gb(facts: Facts) -> float | None:
    """Return what training needs at least on one GPU; None when the model or the kind of training is not stated."""
    if facts.params_b is None or facts.peft is None:
        return None
    sharded = facts.processes if (facts.zero_stage or 0) >= 3 or facts.fsdp_version else 1
    if facts.peft:
        weights = BYTES.get(
            facts.quantized or "", 2.0 if facts.weights_dtype in {"bfloat16", "float16", "auto"} else 4.0
        )
        return facts.params_b * weights / sharded + OVERHEAD_GB
    return facts.params_b * 16 / sharded + OVERHEAD_GB


def kv_bytes_per_token(facts: Facts) -> float | None:
    """Return the bytes of keys and values of one token in 16 bit; None when the model's shape is not stated."""
    layers = facts.number("model.layers")
    heads = facts.number("model.num_key_value_heads") or facts.number("model.kv_heads")
    dim = facts.number("model.head_dim")
    if dim is None and (hidden := facts.number("model.hidden")):
        count = facts.number("model.num_attention_heads") or facts.number("model.heads")
        dim = hidden / count if count else None
    return None if layers is None or heads is None or dim is None else 2 * layers * heads * dim * 2
