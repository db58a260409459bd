"""The sizes of one decoder, and what follows from them: counts of parameters, widths, layers of each kind."""

from dataclasses import dataclass
from functools import cached_property

from grpo_rlvr.memory.families import COUNTED, COUNTED_VISION, FOUR_NORMS, ONE_NORM
from grpo_rlvr.memory.mixers import Mixer


@dataclass(frozen=True)
class LatentAttention:
    """Attention whose keys and values are kept as one low-rank vector a token (DeepSeek's MLA). Widths of one head."""

    rank: int
    query_rank: int
    plain: int
    rotary: int
    value: int

    def projections(self, hidden: int, heads: int) -> tuple[tuple[int, int], ...]:
        """(in, out) of the linear layers of one of these attentions."""
        queries = heads * (self.plain + self.rotary)
        down = ((hidden, self.query_rank), (self.query_rank, queries)) if self.query_rank else ((hidden, queries),)
        keys = ((hidden, self.rank + self.rotary), (self.rank, heads * (self.plain + self.value)))
        return (*down, *keys, (heads * self.value, hidden))

    @property
    def cached(self) -> int:
        """Width of what vLLM keeps of a token, once for all heads."""
        return self.rank + self.rotary


@dataclass(frozen=True)
class Uneven:
    """What a decoder whose layers differ (Gemma 4, Gemma 3n, Zamba2) has beyond a plain one of its sizes.

    `linears` counts the weights of linear layers, `tables` those of per-layer embeddings. Of the layers that keep keys
    and values, `whole` attend to all tokens, with keys `whole_width` wide, and `windowed` to a window.
    """

    linears: int
    tables: int
    whole: int
    whole_width: int
    windowed: int


@dataclass(frozen=True)
class ModelFacts:
    """Sizes of one decoder.

    `stated_params` replaces the counted total where only a size is known or the model has parts beside the decoder;
    `tower` counts the vision tower and its projector. `attending` layers have attention where that is not all but those
    of `linear`; `bare_layers` have no MLP; `windowed_layers` attend to no more than `window` tokens. A layer's input is
    `streams` x hidden wide. `quantization` is how the checkpoint stores its linears, None where no config.json
    tells; `uncounted` names what that has but is not counted.
    """

    name: str
    source: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    model_type: str = "llama"
    qk_norm: bool = False
    qkv_bias: bool = False
    experts: int = 0
    active: int = 0
    expert_intermediate: int = 0
    shared_intermediate: int = 0
    context: int = 0
    stated_params: int = 0
    linear: Mixer | None = None
    query_gate: bool = False
    mlp_matrices: int = 3
    tower: int = 0
    dense_layers: int = 0
    latent: LatentAttention | None = None
    attending: int | None = None
    bare_layers: int = 0
    window: int = 0
    windowed_layers: int = 0
    uneven: Uneven | None = None
    streams: int = 1
    quantization: str | None = None
    uncounted: tuple[str, ...] = ()

    @property
    def counted_as_its_class(self) -> bool:
        """Whether the parameters of this architecture are known to be counted right."""
        return not self.uncounted and (self.model_type in COUNTED or self.model_type in COUNTED_VISION)

    @property
    def expert_layers(self) -> int:
        """Layers with routed experts; of a mixture all but `dense_layers`."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def q_width(self) -> int:
        """Width of the queries, heads x head_dim."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of the keys (and of the values), kv_heads x head_dim."""
        return self.kv_heads * self.head_dim

    @property
    def embedding_params(self) -> int:
        """Parameters of the embedding and, when it is not tied, of the head."""
        return self.vocab * self.hidden * (1 if self.tied else 2)

    @cached_property
    def attention_linear_params(self) -> int:
        """Weights of q, k, v and o of one layer."""
        if self.latent:
            return sum(a * b for a, b in self.latent.projections(self.hidden, self.heads))
        return self.hidden * ((3 if self.query_gate else 2) * self.q_width + 2 * self.kv_width)

    @property
    def attention_layers(self) -> int:
        """Layers with attention that keeps keys and values: all but those of a mixer, unless both stand in one."""
        if self.attending is not None:
            return self.attending
        return self.layers - (self.linear.layers if self.linear else 0)

    @cached_property
    def cached_widths(self) -> tuple[int, int]:
        """Width of a token's keys in all layers that attend to all tokens, and in those that attend to a window."""
        if self.uneven:
            return self.uneven.whole * self.uneven.whole_width, self.uneven.windowed * self.kv_width
        windowed = min(self.windowed_layers, self.attention_layers)
        return (self.attention_layers - windowed) * self.kv_width, windowed * self.kv_width

    @property
    def cached_latent(self) -> int:
        """Width of what vLLM keeps of a token of latent attention, in all layers together; 0 without."""
        return self.attention_layers * self.latent.cached if self.latent else 0

    @property
    def cached_state(self) -> int:
        """Bytes of the states that all mixers keep of a sequence, whatever its length."""
        return self.linear.layers * self.linear.cached if self.linear else 0

    @property
    def expert_params(self) -> int:
        """Weights of all routed experts of one layer, 0 for a dense model."""
        return self.experts * self.mlp_matrices * self.hidden * self.expert_intermediate

    @property
    def dense_mlps(self) -> int:
        """Layers whose MLP has no experts."""
        return self.layers - self.expert_layers - self.bare_layers

    @property
    def mlp_linear_params(self) -> int:
        """Weights of the dense or shared MLPs and routers of all layers."""
        width = self.mlp_matrices * self.hidden
        routed = self.hidden * self.experts + width * self.shared_intermediate
        return self.expert_layers * routed + self.dense_mlps * width * self.intermediate

    @cached_property
    def block_linear_params(self) -> int:
        """Weights of the linear layers of all blocks, experts included."""
        attention = self.attention_layers * self.attention_linear_params
        if self.linear:
            attention += self.linear.layers * sum(a * b for a, b in self.linear.projections(self.hidden))
        extra = self.uneven.linears if self.uneven else 0
        return attention + extra + self.mlp_linear_params + self.expert_layers * self.expert_params

    @cached_property
    def counted_params(self) -> int:
        """Parameters counted from the shape."""
        norms = 4 if self.model_type in FOUR_NORMS else 1 if self.model_type in ONE_NORM else 2
        small = norms * self.hidden
        if self.qkv_bias:
            small += self.q_width + 2 * self.kv_width
        if self.model_type == "olmo2":
            small += self.q_width + self.kv_width
        elif self.qk_norm:
            small += 2 * self.head_dim
        if self.latent:
            small += self.latent.rank + self.latent.query_rank
        other = self.linear.layers * self.linear.other_params if self.linear else 0
        other += self.uneven.tables if self.uneven else 0
        return self.embedding_params + self.block_linear_params + self.layers * small + self.hidden + other

    @cached_property
    def params(self) -> int:
        """Parameters of the whole model."""
        return self.stated_params or self.counted_params + self.tower

    @property
    def active_params(self) -> int:
        """Parameters that one token reads: all of a dense model, the chosen experts of a mixture."""
        idle = max(self.experts - self.active, 0)
        return self.params - self.expert_layers * idle * self.mlp_matrices * self.hidden * self.expert_intermediate

    @property
    def layer_intermediate(self) -> int:
        """MLP width that one token goes through: of a mixture, the chosen experts together."""
        return (
            (self.active * self.expert_intermediate + self.shared_intermediate) if self.experts else self.intermediate
        )
