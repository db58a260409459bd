"""The phases of a step as sums of terms, and the verdict on them. Numbers only: estimate.py puts them into words."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory import serving
from grpo_rlvr.memory import terms as t
from grpo_rlvr.memory.plan import Plan
from grpo_rlvr.models.memory import Verdict

# Terms that are not the trainer's own allocations.
OUTSIDE = frozenset({"allocator", "context", "vllm_pool", "vllm_residue"})


@dataclass(frozen=True)
class Computed:
    """Bytes per phase and term, with the vLLM pool's own arithmetic."""

    plan: Plan
    phases: Mapping[str, Mapping[str, float]]
    pool: float
    pool_needs: float

    @cached_property
    def totals(self) -> dict[str, float]:
        """Bytes of each phase."""
        return {name: sum(parts.values()) for name, parts in self.phases.items()}

    @property
    def highest(self) -> str:
        """Name of the phase with the highest peak."""
        return max(self.totals, key=self.totals.__getitem__)

    @property
    def peak_gb(self) -> float:
        """Highest phase in GB."""
        return max(self.totals.values()) / c.GB

    @property
    def allocated_gb(self) -> float:
        """Most that the trainer's own tensors take in GB."""
        return max(sum(v for k, v in parts.items() if k not in OUTSIDE) for parts in self.phases.values()) / c.GB

    @property
    def reserved_gb(self) -> float:
        """The same with what the caching allocator holds on to."""
        return self.allocated_gb * allocator_factor(self.plan)

    @property
    def pool_too_small(self) -> bool:
        """Whether vLLM refuses to start because its share cannot hold its weights and one full sequence."""
        return self.plan.engine.mode == "colocate" and 0 < self.pool < self.pool_needs

    @property
    def wanted_sequences(self) -> int:
        """Sequences that one generation asks an engine for at once."""
        return self.plan.generated * self.plan.engine.tensor_parallel

    @property
    def sequences(self) -> int:
        """Sequences of this run's full length that vLLM's cache holds at once."""
        room = self.pool - serving.engine_weights(self.plan) - c.VLLM_WORK_GB * c.GB
        each = serving.generated_sequence(self.plan)
        if each == 0:  # a model that keeps nothing of its own
            return self.wanted_sequences if room >= 0 else 0
        return max(int(room / each), 0)

    @property
    def pool_tight(self) -> bool:
        """Whether vLLM starts but has under a tenth of its share to spare, or keeps most sequences waiting."""
        if self.plan.engine.mode != "colocate" or not self.plan.devices.memory_gb or self.pool_too_small:
            return False
        queued = self.sequences < c.QUEUE_SHARE * self.wanted_sequences
        return queued or self.pool_needs > c.FITS_SHARE * self.pool

    def _peak_but(self, left_out: str) -> float:
        return max(total for name, total in self.totals.items() if name != left_out) / c.GB

    @property
    def verdict(self) -> Verdict:
        """fits up to 90 % of the card and of vLLM's share of it, tight up to 100 %."""
        found = self.card_verdict
        return "tight" if found == "fits" and self.pool_tight else found

    @property
    def card_verdict(self) -> Verdict:
        """The verdict but for how full vLLM's share is."""
        memory = self.plan.devices.memory_gb
        if not memory:
            return "unknown"
        if self.pool_too_small or self._peak_but("weight_sync") > memory:
            return "does_not_fit"
        if self.peak_gb > memory:
            # Every TRL gathers the model for this sync; trainers built on it need not. Unstated, it stays open.
            return "does_not_fit" if self.plan.version_stated or not serving.gathers_for_sync(self.plan) else "tight"
        return "fits" if self.peak_gb <= c.FITS_SHARE * memory and not self.sync_in_doubt else "tight"

    @property
    def sync_in_doubt(self) -> bool:
        """Whether the weight sync fits in groups alone, and nothing says that ms-swift sends the weights in groups."""
        whole = serving.whole_sync(self.plan)
        total = self.totals.get("weight_sync", 0.0) - self.phases.get("weight_sync", {}).get("sync_transient", 0.0)
        return whole > 0 and total + whole > self.plan.devices.memory_gb * c.GB > 0


def share_for(plan: Plan, size: float) -> float:
    """Return the vllm_gpu_memory_utilization that gives so many bytes, rounded up to a hundredth with one to spare."""
    return min(int(size / c.GB / plan.devices.memory_gb * 100 + 1.999) / 100, 1.0)


def allocator_factor(plan: Plan) -> float:
    """Reserved over allocated."""
    if plan.on_cpu:
        return 1.0
    return c.RESERVED_ONE_GPU if plan.devices.training == 1 else c.RESERVED_MANY_GPUS


def compute(plan: Plan) -> Computed:
    """Return all phases of a plan."""
    pool, needs = _pool(plan)
    model = {"weights": t.weights(plan), "adapters": t.adapters(plan), "reference": t.reference(plan)}
    resident = model | {"optimizer": t.optimizer(plan)}
    awake = {"vllm_pool": pool} if plan.engine.mode == "colocate" else {}
    asleep = {"vllm_residue": c.SLEEP_RESIDUE_GB * c.GB} if plan.engine.sleep else awake
    phases = {
        "start": _whole(plan, model, awake),
        "generation": _whole(plan, resident | _generation(plan), awake),
        "training": _whole(plan, _training(plan, resident), asleep),
    }
    if plan.logprob_pass:
        phases["logprob"] = _whole(plan, resident | _logprob(plan), asleep)
    if plan.engine.mode != "none":
        # A sleeping engine wakes its weights alone to receive the new ones.
        woken = {"vllm_pool": min(serving.engine_weights(plan), pool), **asleep} if plan.engine.sleep else awake
        phases["weight_sync"] = _whole(plan, resident | {"sync_transient": serving.sync_transient(plan)}, woken)
    return Computed(plan, phases, pool, needs)


def _whole(plan: Plan, trainer: Mapping[str, float], outside: Mapping[str, float]) -> dict[str, float]:
    parts = {name: value for name, value in trainer.items() if value > 0}
    slack = sum(parts.values()) * (allocator_factor(plan) - 1)
    parts["context"] = (plan.devices.context_gb + plan.devices.nccl_gb) * c.GB
    parts |= outside
    # Under pressure the caching allocator gives back what it merely holds, before it reports out of memory.
    room = plan.devices.memory_gb * c.GB - sum(parts.values())
    parts["allocator"] = min(slack, room) if room > 0 else slack
    return {name: value for name, value in parts.items() if value > 0}


def _training(plan: Plan, resident: Mapping[str, float]) -> dict[str, float]:
    gradients, gathered = t.gradients(plan), t.gathered_layers(plan)
    saved = t.saved_activations(plan)
    moment = {
        "recomputed_layer": t.recomputed_layer(plan), "head": t.head(plan), "autocast_copies": t.autocast_copies(plan),
    }  # fmt: skip
    widest = max(moment, key=moment.__getitem__)
    held = {"gathered_layers": gathered}
    activations = held | {"saved_activations": saved, widest: moment[widest]}
    if plan.accumulation > 1:
        activations["gradients"] = gradients
    # Without accumulation the last gradients appear when the activations are gone.
    late = held | {"gradients": gradients, "recomputed_layer": moment["recomputed_layer"]}
    step = {"gradients": gradients, "step_temporary": t.step_temporary(plan)}
    return dict(resident) | max((activations, late, step), key=lambda parts: sum(parts.values()))


def _generation(plan: Plan) -> dict[str, float]:
    if plan.engine.mode != "none":
        return {}
    return {
        "kv_cache": serving.generation_cache(plan), "generation_work": serving.generation_work(plan),
        "gathered_weights": serving.generation_gather(plan),
    }  # fmt: skip


def _logprob(plan: Plan) -> dict[str, float]:
    moment = max(t.live_layer(plan), t.head_without_grad(plan), t.autocast_copies(plan))
    return {"gathered_layers": t.gathered_layers(plan), "logprob_work": moment}


def _pool(plan: Plan) -> tuple[float, float]:
    if plan.engine.mode == "none":
        return 0.0, 0.0
    needs = serving.engine_weights(plan) + c.VLLM_WORK_GB * c.GB + serving.engine_sequence(plan)
    if plan.devices.memory_gb:
        return plan.engine.utilization * plan.devices.memory_gb * c.GB, needs
    return needs, needs
