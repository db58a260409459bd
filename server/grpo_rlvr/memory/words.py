"""The words of the estimate: what each phase is, and the arithmetic of each term with a run's numbers."""

from collections.abc import Callable

from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory import serving
from grpo_rlvr.memory import terms as t
from grpo_rlvr.memory.phases import Computed, allocator_factor
from grpo_rlvr.memory.plan import Plan

PHASES = ("start", "generation", "logprob", "training", "weight_sync")
WHAT = {
    "start": "The policy is loaded and vLLM, in colocate mode, claims its share of the card.",
    "generation": "Completions are sampled; the policy and its optimizer states stay on the GPU.",
    "logprob": "The old policy's log-probabilities are computed without gradients.",
    "training": "Forward, backward and optimizer step of one micro-batch, from the second step on.",
    "weight_sync": "The new weights are sent to vLLM, tensor by tensor.",
}


def explain(term: str, computed: Computed) -> str:
    """Return a term's arithmetic."""
    return _HOW[term](computed.plan, computed)


def _weights(plan: Plan, _: Computed) -> str:
    packed = t.quantized_params(plan)
    parts = []
    if packed:
        parts.append(f"{packed / 1e9:.3f}B x {t.quantized_width(plan):.3f} B ({plan.quantized})")
    parts.append(f"{(plan.facts.params - packed) / 1e9:.3f}B x {t.weight_width(plan)} B")
    return " + ".join(parts) + (_over(plan) if plan.sharding.stage == 3 else "")


def _over(plan: Plan) -> str:
    return f", / {plan.devices.training} GPUs" if plan.devices.training > 1 else ""


def _optimizer(plan: Plan, computed: Computed) -> str:
    trained = t.trained_params(plan)
    each = computed.phases["training"]["optimizer"] / trained
    shared = _over(plan) + " included" if plan.sharding.stage >= 1 and plan.devices.training > 1 else ""
    return f"{trained / 1e9:.4g}B trained x {each:.3g} B ({plan.optim}{shared})"


def _gradients(plan: Plan, _: Computed) -> str:
    bucket = " x 2 for DDP's buckets" if plan.sharding.engine == "ddp" and plan.devices.training > 1 else ""
    return f"{t.trained_params(plan) / 1e9:.4g}B trained x {t.trained_width(plan)} B{bucket}" + (
        _over(plan) if plan.sharding.stage >= 2 else ""
    )


def _saved(plan: Plan, _: Computed) -> str:
    parts = []
    if plan.recomputed_layers and not plan.checkpoints.offload:
        parts.append(
            f"{plan.recomputed_layers} layers x {plan.facts.hidden} x {plan.tokens:,} tokens x "
            f"{t.stream_width(plan)} B (checkpointing)"
        )
    if whole := plan.facts.layers - plan.recomputed_layers:
        each = t.mean_layer_bytes(plan) / 1e3
        parts.append(f"{whole} layers x {each:.1f} kB x {plan.tokens:,} tokens (no checkpointing)")
    return " + ".join(parts)


def _head(plan: Plan, _: Computed) -> str:
    path = t.head_path(plan)
    if path in ("in_place", "copy"):
        each = t.head_bytes(plan)
        return f"full logits: {plan.scored:,} tokens x {plan.facts.vocab:,} x {each:g} B (TRL {plan.trl_version})"
    if path == "liger_row":
        return (
            f"Liger: one sequence at a time, {plan.completion:,} tokens x {plan.facts.vocab:,} x 16 B, and two "
            "gradients of the head, frozen or not"
        )
    if path == "liger_chunks":
        return (
            f"Liger: one sequence at a time, in chunks of {c.LIGER_TOKENS:,} tokens x {c.LIGER_COLUMNS:,} columns"
            + (", gradients of the head" if plan.full else "")
        )
    return (
        f"tiles of {c.TILE_TOKENS:,} tokens x {c.TILE_COLUMNS:,} columns, hidden states and their gradients of "
        f"{plan.scored:,} scored tokens" + (", gradient of the head" if plan.full else "")
    )


def _kv(plan: Plan, _: Computed) -> str:
    tokens = plan.prompt + plan.completion
    each = serving.kv_bytes(plan, tokens) / max(tokens, 1) / 1e3
    return f"{plan.generated} sequences x {tokens:,} tokens x {each:.1f} kB"


def _pool(plan: Plan, _: Computed) -> str:
    if not plan.devices.memory_gb:
        return "the least vLLM needs (its share is unknown without a card)"
    return f"{plan.engine.utilization:g} of {plan.devices.memory_gb:g} GB, whatever vLLM needs"


_HOW: dict[str, Callable[[Plan, Computed], str]] = {
    "weights": _weights,
    "reference": lambda p, _: f"a second copy of the weights, since beta is {p.beta:g} and all parameters train",
    "adapters": lambda p, _: f"{t.adapter_params(p) / 1e6:.1f}M LoRA parameters x {t.trained_width(p)} B",
    "optimizer": _optimizer,
    "gradients": _gradients,
    "step_temporary": lambda p, _: f"one parameter-sized temporary of {p.optim}'s step",
    "saved_activations": _saved,
    "recomputed_layer": lambda p, _: (
        f"one layer, {max(t.layer_bytes(p), t.delta_layer_bytes(p)) / 1e3:.1f} kB x {p.tokens:,} tokens, with its "
        "gradients in flight"
    ),
    "head": _head,
    "autocast_copies": lambda p, _: "bf16 copies of the float32 linear weights while autocast is open",
    "gathered_layers": lambda p, _: "parameters gathered for two layers, and communication buckets",
    "gathered_weights": lambda p, _: "ZeRO-3 gathers all weights on every GPU to generate",
    "kv_cache": _kv,
    "generation_work": lambda p, _: "prefill's widest layer or last-token logits with their sorted copies",
    "logprob_work": lambda p, _: "one layer or one slice of logits, nothing saved for backward",
    "sync_transient": lambda p, _: (
        "the whole model, gathered on every GPU" if serving.gathers_for_sync(p) else "the largest tensor"
    ),
    "allocator": lambda p, _: f"{allocator_factor(p) - 1:.0%} that the caching allocator holds on to",
    "context": lambda p, _: "torch and its libraries" if p.on_cpu else "CUDA context and communication buffers",
    "vllm_pool": _pool,
    "vllm_residue": lambda p, _: "what a sleeping vLLM leaves on the card",
}
