"""The plan: every number the estimate needs, read once from config and setup, with what had to be assumed."""

from dataclasses import dataclass, field
from typing import Any

from grpo_rlvr.memory.shape import ModelFacts


@dataclass(frozen=True)
class Lora:
    """The adapter: rank, the targeted linears, bytes of its parameters."""

    rank: int
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Engine:
    """The vLLM engine. `mode` is none, colocate or server."""

    mode: str = "none"
    utilization: float = 0.3
    tensor_parallel: int = 1
    max_length: int = 0
    sleep: bool = False


@dataclass(frozen=True)
class Devices:
    """The training devices.

    `memory_gb` is 0 when it is unknown; `training` is the number of training processes; `total` the GPUs that the setup
    states, 0 where it states none.
    """

    kind: str = "cuda"
    training: int = 1
    memory_gb: float = 0.0
    context_gb: float = 0.7
    nccl_gb: float = 0.6
    card: str = ""
    bandwidth_gb_s: float = 0.0
    server: int = 0
    total: int = 0


@dataclass(frozen=True)
class Sharding:
    """How the model is spread: engine single, ddp, deepspeed or fsdp; ZeRO stage 0 to 3 (FSDP counts as 3)."""

    engine: str = "single"
    stage: int = 0
    offload: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Checkpoints:
    """Gradient checkpointing: whether it is on, of which layers, and whether what it saves goes to host memory."""

    on: bool
    every: int = 1
    offload: bool = False


@dataclass(frozen=True)
class Plan:
    """All inputs of the arithmetic. Lengths are tokens, widths bytes; `batch` is per_device_train_batch_size."""

    facts: ModelFacts
    version: tuple[int, int]
    trl_version: str
    batch: int
    accumulation: int
    generation_steps: int
    prompt: int
    completion: int
    generations: int
    dtype: str
    autocast: str
    quantized: str
    lora: Lora | None
    optim: str
    checkpoints: Checkpoints
    attention: str
    liger: bool
    liger_frees_head: bool
    delta_kernels: bool
    beta: float
    logprob_pass: bool
    gather_for_generation: bool
    head_fp32: bool
    engine: Engine
    devices: Devices
    sharding: Sharding
    learning_rate: float = 1e-6
    experts_are_linears: bool = False
    version_stated: bool = True
    streamed_sync: bool = False
    sync_groups: int = 0
    assumed: tuple[tuple[str, Any, str], ...] = field(default=(), compare=False)

    @property
    def full(self) -> bool:
        """Whether all parameters train."""
        return self.lora is None

    @property
    def checkpointing(self) -> bool:
        """Whether layers are recomputed in the backward pass."""
        return self.checkpoints.on

    @property
    def recomputed_layers(self) -> int:
        """Layers that are recomputed: every n-th one, from the first on."""
        return -(-self.facts.layers // self.checkpoints.every) if self.checkpoints.on else 0

    @property
    def rows(self) -> int:
        """Sequences of one training micro-batch: TRL 0.14 counted prompts, each with all its completions."""
        return self.batch * (self.generations if self.version < (0, 15) else 1)

    @property
    def tokens(self) -> int:
        """Tokens of one training micro-batch."""
        return self.rows * (self.prompt + self.completion)

    @property
    def scored(self) -> int:
        """Completion tokens of one training micro-batch."""
        return self.rows * self.completion

    @property
    def generated(self) -> int:
        """Sequences that one device generates at a time."""
        return self.rows * self.generation_steps

    @property
    def on_cpu(self) -> bool:
        """Whether training runs on the CPU."""
        return self.devices.kind == "cpu"
