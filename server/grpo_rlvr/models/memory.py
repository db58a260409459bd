"""The answer of the memory estimate. GB is 1e9 bytes."""

from typing import Any, Literal

from pydantic import Field, JsonValue

from grpo_rlvr.models.common import Model

Verdict = Literal["fits", "tight", "does_not_fit", "unknown"]


class Term(Model):
    """One part of a phase's memory."""

    name: str = Field(description="What takes the memory: weights, optimizer, saved_activations, head, vllm_pool, ...")
    gb: float = Field(description="Size in GB (1e9 bytes) on one GPU.", ge=0)
    how: str = Field(description="The arithmetic with this run's numbers.")


class Phase(Model):
    """One phase of a step, as the most that is held at once."""

    name: Literal["start", "generation", "logprob", "training", "weight_sync"]
    peak_gb: float = Field(description="Most memory held at once in GB, context, allocator and vLLM included.", ge=0)
    dominant: str = Field(description="Name of the largest term.")
    what: str = Field(description="What happens in the phase.")
    terms: list[Term] = Field(description="The parts, adding up to peak_gb.")


class Assumed(Model):
    """An input that was not stated."""

    input: str = Field(description="Dotted path of the input, e.g. dataset.max_prompt_tokens.")
    value: JsonValue = Field(description="The value that the estimate used.")
    to_know: str = Field(description="What it would take to know it.")


class Lever(Model):
    """A config change with what it saves for this config."""

    change: str = Field(description="The change in a few words.")
    set: dict[str, JsonValue] = Field(description="Config fields to set.")
    unset: list[str] = Field(description="Config fields to drop.")
    saves_gb: float = Field(description="GB less at the peak.", ge=0)
    peak_gb: float = Field(description="Peak in GB with the change.", ge=0)
    verdict: Verdict = Field(description="Verdict with the change.")
    cost: str = Field(description="What it costs in speed, or how it changes what the run computes.")
    safe: bool = Field(description="True when the run computes the same objective on the same data.")


class Alternative(Model):
    """A change outside the GRPOConfig (adapter, sharding, hardware, TRL version) with what it saves."""

    change: str = Field(description="The change in a few words.")
    setup: dict[str, JsonValue] = Field(description="The setup keys that state it, as dotted paths.")
    set: dict[str, JsonValue] = Field(default_factory=dict, description="Config fields to set with it.")
    unset: list[str] = Field(default_factory=list, description="Config fields to drop with it.")
    saves_gb: float = Field(description="GB less at the peak.", ge=0)
    peak_gb: float = Field(description="Peak in GB with the change.", ge=0)
    verdict: Verdict = Field(description="Verdict with the change.")
    cost: str = Field(description="What it costs.")


class ModelSummary(Model):
    """The model facts that the estimate used."""

    name: str
    source: str = Field(description="Where the facts come from.")
    params_b: float = Field(description="Parameters in billions, embeddings included.", gt=0)
    active_b: float = Field(description="Parameters that one token reads, in billions.", gt=0)
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied_embeddings: bool
    experts: int = Field(description="Routed experts a layer, 0 for a dense model.")


class Peaks(Model):
    """The peak by the three common meters, and by the two phases that compete."""

    allocated_gb: float = Field(description="torch.cuda.max_memory_allocated of the trainer, vLLM's pool left out.")
    reserved_gb: float = Field(description="torch.cuda.max_memory_reserved of the trainer, vLLM's pool left out.")
    device_gb: float = Field(description="Used memory as nvidia-smi shows it: context and vLLM included.")
    training_gb: float = Field(description="Device memory at the training step's peak.")
    generation_gb: float = Field(description="Device memory at the generation phase's peak.")


class Pool(Model):
    """vLLM's share of each GPU it runs on."""

    pool_gb: float = Field(description="Memory that vLLM takes: utilization x card, 0 when the card is unknown.")
    needs_gb: float = Field(description="Least it needs: weights, work space and the cache of one full sequence.")
    weights_gb: float = Field(description="vLLM's own copy of the weights on one GPU.")
    sequences: int = Field(description="Full-length sequences that its cache holds at once.", ge=0)
    wanted_sequences: int = Field(description="Sequences that one generation asks for at once.", ge=0)
    max_length: int = Field(description="vllm_max_model_length, or the prompt and completion length when it is unset.")


class Decode(Model):
    """How fast tokens are generated, bounded by memory bandwidth."""

    tokens_per_s: float = Field(description="Tokens a second at the sustained bandwidth, all sequences of a GPU.")
    bound_tokens_per_s: float = Field(description="The same at the card's full bandwidth: no engine is faster.")
    seconds_per_generation: float = Field(description="Seconds for one generation batch at full completion length.")
    how: str = Field(description="The arithmetic: bytes a token over the sustained bandwidth.")


class Solved(Model):
    """The largest or smallest values that still fit, everything else unchanged."""

    max_batch: int | None = Field(
        description="Largest per_device_train_batch_size that fits and holds whole groups; None without any."
    )
    max_completion: int | None = Field(description="Largest max_completion_length that fits; None when none does.")
    largest_model: str | None = Field(description="Largest of the size classes that fits with this config.")
    smallest_card: str | None = Field(description="Smallest card of the table on which it fits.")
    min_gpus: int | None = Field(description="Fewest GPUs of this card on which it fits, up to 64.")
    notes: list[str] = Field(default_factory=list, description="Why a value is missing, and what was held fixed.")


class MemoryEstimate(Model):
    """Will it fit, what dominates, which lever first."""

    verdict: Verdict = Field(
        description="fits: at most 90 % of the card and of vLLM's share of it, which holds half the sequences or more; "
        "tight: up to 100 %, or it hangs on a TRL version that is not stated (the notes say so); does_not_fit; "
        "unknown: no card known."
    )
    peak_gb: float = Field(description="Highest phase in GB on one GPU (host memory on a CPU).", ge=0)
    card_gb: float | None = Field(description="Memory of one GPU in GB, None when unknown.")
    dominating: str = Field(description="The largest term of the highest phase, in words.")
    peaks: Peaks
    phases: list[Phase]
    assumed: list[Assumed] = Field(description="Inputs that were not stated, with what it would take to know them.")
    levers: list[Lever] = Field(description="Config changes, safe ones first, then by what they save.")
    alternatives: list[Alternative] = Field(description="Changes outside the config, by what they save.")
    model: ModelSummary
    trl_version: str = Field(description="The TRL version that the estimate holds for.")
    vllm: Pool | None = Field(default=None, description="vLLM's share, None without vLLM.")
    decode: Decode | None = Field(
        default=None, description="Throughput bound of generation, None without a known card."
    )
    notes: list[str] = Field(default_factory=list, description="What the numbers do not show by themselves.")
    solved: Solved | None = Field(default=None, description="Filled by solve.")


class TermComparison(Model):
    """One measured quantity beside the estimate."""

    name: str
    estimated_gb: float
    measured_gb: float
    error: float = Field(description="(estimated - measured) / measured.")


class MemoryMeasurement(Model):
    """Two real steps beside the estimate."""

    device: str = Field(description="The GPU the steps ran on.")
    steps: int
    estimate: MemoryEstimate
    comparison: list[TermComparison]
    versions: dict[str, str] = Field(description="Packages of the training interpreter.")
    environment: dict[str, Any] = Field(default_factory=dict, description="What else the worker reported.")
