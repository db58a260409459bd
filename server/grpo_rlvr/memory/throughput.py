"""Decode speed: bytes that one token has to read over the bandwidth the card sustains."""

from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory import serving
from grpo_rlvr.memory import terms as t
from grpo_rlvr.memory.plan import Plan
from grpo_rlvr.models.memory import Decode


def decode_speed(plan: Plan) -> Decode | None:
    """Return the bandwidth bound of generation on one GPU, None when the card's bandwidth is unknown.

    Each decoding step reads the weights once for all sequences, and each one's own cache at half its final length.
    """
    bandwidth = plan.devices.bandwidth_gb_s
    if not bandwidth or plan.on_cpu:
        return None
    parallel = plan.engine.tensor_parallel if plan.engine.mode == "colocate" else 1
    sequences = plan.generated * parallel
    weights = _read_weights(plan, sequences) / parallel
    length = plan.prompt + plan.completion / 2
    in_engine = plan.engine.mode != "none"
    cache = sequences * (
        serving.engine_sequence_bytes(plan, parallel, length) if in_engine else serving.kv_bytes(plan, length)
    )
    per_step = weights + cache
    bound = bandwidth * c.GB / per_step * sequences
    rate = bound * c.SUSTAINED_BANDWIDTH
    return Decode(
        tokens_per_s=round(rate, 1),
        bound_tokens_per_s=round(bound, 1),
        seconds_per_generation=round(sequences * plan.completion / rate, 1),
        how=f"({weights / c.GB:.2f} GB weights + {cache / c.GB:.2f} GB cache) a step for {sequences} sequences, over "
        f"{c.SUSTAINED_BANDWIDTH:.0%} of {bandwidth:g} GB/s",
    )


def _read_weights(plan: Plan, sequences: int) -> float:
    f = plan.facts
    if plan.engine.mode == "none":
        whole = t.whole_weights(plan)
    else:
        whole = serving.engine_weights(plan) * plan.engine.tensor_parallel
    whole -= 0 if f.tied else f.vocab * f.hidden * 2  # the embedding is looked up, not read
    if not f.experts:
        return whole
    # Sequences choose experts independently, so a batch reads nearly all of them.
    idle = (1 - f.active / f.experts) ** sequences
    return whole - idle * f.expert_layers * f.expert_params * 2
