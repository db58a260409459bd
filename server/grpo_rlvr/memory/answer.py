"""The estimate in words: phases with their arithmetic, verdict, what was assumed, and the levers."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory import serving
from grpo_rlvr.memory.facts import Resolved
from grpo_rlvr.memory.inputs import read_plan
from grpo_rlvr.memory.levers import find_alternatives, find_levers
from grpo_rlvr.memory.notes import write_notes
from grpo_rlvr.memory.phases import Computed, compute
from grpo_rlvr.memory.plan import Plan
from grpo_rlvr.memory.throughput import decode_speed
from grpo_rlvr.memory.words import PHASES, WHAT, explain
from grpo_rlvr.models.memory import Assumed, MemoryEstimate, ModelSummary, Peaks, Phase, Pool, Term
from grpo_rlvr.models.setup import Setup
from grpo_rlvr.workspace import Workspace


def estimate(
    config: Mapping[str, Any], setup: Setup, *, trl_version: str | None = None, workspace: Workspace | None = None
) -> MemoryEstimate:
    """Estimate the memory of a GRPO run on one of its GPUs, phase by phase.

    Args:
        config: Keyword arguments of GRPOConfig; an empty one means this TRL version's defaults.
        setup: At least a model: `model.name` of a known one, `model.path` with a config.json, or `model.params_b`.
        trl_version: The version of the training interpreter; what the setup states, else the newest known one.
        workspace: Where a relative `model.path` lies.

    Raises:
        InputError: a value that cannot be right, an unknown model, or facts that contradict each other.
        NotFoundError: a stated model path that does not exist.
    """
    plan = read_plan(config, setup, trl_version, workspace)
    computed = compute(plan)
    # No lever changes the model, so it is looked up once.
    same_model = Resolved(plan.facts)

    def again(new_config: Mapping[str, Any], new_setup: Setup = setup, version: str | None = None) -> Computed:
        return compute(read_plan(new_config, new_setup, version or trl_version, workspace, same_model))

    return _shape(
        computed,
        levers=find_levers(computed, config, again),
        alternatives=find_alternatives(computed, config, setup, again),
    )


def _shape(computed: Computed, *, levers: list[Any], alternatives: list[Any]) -> MemoryEstimate:
    plan = computed.plan
    phases = [_phase(computed, name) for name in PHASES if name in computed.phases]
    highest = next(phase for phase in phases if phase.name == computed.highest)
    return MemoryEstimate(
        verdict=computed.verdict,
        peak_gb=_gb(computed.peak_gb * c.GB),
        card_gb=plan.devices.memory_gb or None,
        dominating=f"{highest.dominant.replace('_', ' ')} in the {highest.name.replace('_', ' ')} phase",
        peaks=Peaks(
            allocated_gb=_gb(computed.allocated_gb * c.GB),
            reserved_gb=_gb(computed.reserved_gb * c.GB),
            device_gb=_gb(computed.peak_gb * c.GB),
            training_gb=_gb(computed.totals["training"]),
            generation_gb=_gb(computed.totals["generation"]),
        ),
        phases=phases,
        assumed=[Assumed(input=name, value=value, to_know=need) for name, value, need in plan.assumed],
        levers=levers,
        alternatives=alternatives,
        model=_model(plan),
        trl_version=plan.trl_version,
        vllm=_pool(computed),
        decode=decode_speed(plan),
        notes=write_notes(computed),
    )


def _phase(computed: Computed, name: Any) -> Phase:
    parts = computed.phases[name]
    terms = [
        Term(name=term, gb=_gb(size), how=explain(term, computed))
        for term, size in sorted(parts.items(), key=lambda item: -item[1])
    ]
    return Phase(name=name, peak_gb=_gb(computed.totals[name]), dominant=terms[0].name, what=WHAT[name], terms=terms)


def _model(plan: Plan) -> ModelSummary:
    f = plan.facts
    return ModelSummary(
        name=f.name, source=f.source, params_b=round(f.params / 1e9, 4), active_b=round(f.active_params / 1e9, 4),
        layers=f.layers, hidden=f.hidden, heads=f.heads, kv_heads=f.kv_heads, head_dim=f.head_dim,
        intermediate=f.intermediate, vocab=f.vocab, tied_embeddings=f.tied, experts=f.experts,
    )  # fmt: skip


def _pool(computed: Computed) -> Pool | None:
    plan = computed.plan
    if plan.engine.mode == "none":
        return None
    return Pool(
        pool_gb=_gb(computed.pool) if plan.devices.memory_gb else 0.0,
        needs_gb=_gb(computed.pool_needs),
        weights_gb=_gb(serving.engine_weights(plan)),
        sequences=computed.sequences,
        wanted_sequences=computed.wanted_sequences,
        max_length=plan.engine.max_length,
    )


def _gb(size: float) -> float:
    return round(max(size, 0.0) / c.GB, 3)
