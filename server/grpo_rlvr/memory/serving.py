"""What generating costs, in bytes on one GPU: transformers' own, vLLM's weights and cache, and the weight sync."""

from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory import terms as t
from grpo_rlvr.memory.plan import Plan


def kv_bytes(plan: Plan, tokens: float, ahead: int = 0) -> float:
    """Keys and values of one sequence, 2 bytes each; layers with a window keep that many tokens and `ahead` more."""
    whole, windowed = plan.facts.cached_widths
    return 4 * (whole * tokens + windowed * min(tokens, plan.facts.window + ahead))


def generation_cache(plan: Plan) -> float:
    """transformers generation: the whole generation batch's keys and values at full length, and its mixers' states."""
    width = 2 if t.stream_width(plan) == 4 else 1  # float32 rotary embeddings promote the keys and values
    return (width * kv_bytes(plan, plan.prompt + plan.completion) + plan.facts.cached_state) * plan.generated


def generation_work(plan: Plan) -> float:
    """transformers generation: float32 logits of the last token with their sorted copies, or the prefill's layer."""
    f = plan.facts
    logits = plan.generated * f.vocab * 4 * 4
    prefill = plan.generated * plan.prompt * t.compute_width(plan) * (2 * f.hidden + 3 * f.layer_intermediate)
    return max(float(logits), float(prefill))


def generation_gather(plan: Plan) -> float:
    """ZeRO-3 without vLLM gathers all weights on every GPU to generate (ds3_gather_for_generation)."""
    if plan.engine.mode != "none" or plan.sharding.engine != "deepspeed" or plan.sharding.stage != 3:
        return 0.0
    return t.whole_weights(plan) if plan.gather_for_generation else 0.0


def gathers_for_sync(plan: Plan) -> bool:
    """Whether the whole model is gathered to merge the adapter (trl/generation/vllm_generation.py, all versions)."""
    deepspeed = plan.sharding.engine == "deepspeed" and plan.sharding.stage == 3 and plan.devices.training > 1
    return plan.engine.mode != "none" and plan.lora is not None and deepspeed and not plan.streamed_sync


def sync_transient(plan: Plan) -> float:
    """Weight sync streams one tensor at a time; PEFT under ZeRO-3 gathers the whole model on every GPU first."""
    if plan.engine.mode == "none":
        return 0.0
    if gathers_for_sync(plan):
        return plan.facts.params * 2.0
    return max(float(plan.facts.vocab * plan.facts.hidden * t.weight_width(plan)), _group(plan))


def _group(plan: Plan) -> float:
    return plan.facts.params * 2.0 / plan.sync_groups if plan.streamed_sync and plan.sync_groups else 0.0


def whole_sync(plan: Plan) -> float:
    """What ms-swift gathers at once under ZeRO-3 when move_model_batches is not stated: all weights; else 0."""
    sharded = plan.sharding.engine == "deepspeed" and plan.sharding.stage == 3 and plan.devices.training > 1
    open_ = plan.streamed_sync and not plan.sync_groups and plan.engine.mode != "none" and sharded
    return plan.facts.params * 2.0 if open_ else 0.0


def engine_weights(plan: Plan) -> float:
    """vLLM's own copy of the weights on one of its GPUs, in the checkpoint's 2 bytes (4-bit for a 4-bit policy)."""
    if plan.quantized:
        packed = t.quantized_params(plan)
        size = packed * t.quantized_width(plan) + (plan.facts.params - packed) * 2
    else:
        size = plan.facts.params * 2.0
    return size / plan.engine.tensor_parallel


def engine_sequence(plan: Plan) -> float:
    """vLLM's cache of one sequence of the full length, on one of its GPUs."""
    return _engine_cache(plan, plan.engine.max_length)


def generated_sequence(plan: Plan) -> float:
    """The same of one sequence as long as this run makes it: prompt and completion, never beyond the engine's limit."""
    return _engine_cache(plan, min(plan.prompt + plan.completion, plan.engine.max_length))


def _engine_cache(plan: Plan, tokens: int) -> float:
    return engine_sequence_bytes(plan, plan.engine.tensor_parallel, tokens)


def engine_sequence_bytes(plan: Plan, parallel: int, tokens: float) -> float:
    """What vLLM keeps of a sequence on each of `parallel` GPUs.

    Keys and values (or MLA's one vector, never split), and the states of the mixers in a hybrid.
    """
    state = plan.facts.cached_state / parallel
    if plan.facts.latent:
        return 2.0 * plan.facts.cached_latent * tokens + state
    return kv_bytes(plan, tokens, c.VLLM_BATCHED_TOKENS - 1) / min(parallel, plan.facts.kv_heads) + state
