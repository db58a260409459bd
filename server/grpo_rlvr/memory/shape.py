"""The sizes of one decoder, and what follows from them: counts of parameters, widths, layers of each kind."""

from dataclasses import dataclass

# Families that normalise q and k per head, that have four norms a layer, and that add a bias to q, k and v
# (read in transformers 5.24, models/<family>/modeling_<family>.py).
QK_NORM = frozenset(
    {"qwen3", "qwen3_moe", "gemma3_text", "gemma3", "olmo2", "olmo3", "qwen3_next", "qwen3_5", "qwen3_5_text"}
    | {"qwen3_5_moe", "qwen3_5_moe_text", "qwen3_vl", "qwen3_vl_text", "qwen3_vl_moe", "qwen3_vl_moe_text"}
)
FOUR_NORMS = frozenset({"gemma2", "gemma3_text", "gemma3"})
QKV_BIAS = frozenset({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"})
# Families whose queries come with a gate of their width (q_proj is twice as wide).
QUERY_GATE = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"})
# Families whose MLP has two matrices instead of a gated three.
PLAIN_MLP = frozenset(
    {
        "gpt2",
        "gpt_neo",
        "gpt_neox",
        "gptj",
        "gpt_bigcode",
        "opt",
        "bloom",
        "falcon",
        "phi",
        "starcoder2",
        "codegen",
        "mpt",
    }
    | {"persimmon", "nemotron", "xglm", "biogpt"}
)

# Vision towers whose MLP is gated too.
GATED_TOWERS = frozenset({"qwen2_5_vl", "qwen2_5_vl_vision", "pixtral"})


@dataclass(frozen=True)
class LinearAttention:
    """The layers whose attention is a gated delta rule (Qwen3-Next, Qwen3.5): no cache of keys and values.

    Widths are heads x head dim.
    """

    layers: int
    key_width: int
    value_width: int
    value_heads: int
    kernel: int = 4

    def projections(self, hidden: int) -> tuple[tuple[int, int], ...]:
        """(in, out) of the linear layers of one of these attentions."""
        joint = 2 * self.key_width + self.value_width
        gates = ((hidden, self.value_width), (hidden, self.value_heads), (hidden, self.value_heads))
        return ((hidden, joint), *gates, (self.value_width, hidden))

    @property
    def other_params(self) -> int:
        """Convolution, time steps, decay and norm of one of these attentions."""
        convolution = (2 * self.key_width + self.value_width) * self.kernel
        return convolution + 2 * self.value_heads + self.value_width // max(self.value_heads, 1)


@dataclass(frozen=True)
class ModelFacts:
    """Sizes of one decoder.

    `stated_params` replaces the counted total where only a size is known or the model has parts beside the decoder;
    `tower` counts the vision tower and its projector.
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
    linear: LinearAttention | None = None
    query_gate: bool = False
    mlp_matrices: int = 3
    tower: int = 0

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

    @property
    def attention_linear_params(self) -> int:
        """Weights of q, k, v and o of one layer."""
        return self.hidden * ((3 if self.query_gate else 2) * self.q_width + 2 * self.kv_width)

    @property
    def attention_layers(self) -> int:
        """Layers whose attention keeps keys and values: all but those of linear attention."""
        return self.layers - (self.linear.layers if self.linear else 0)

    @property
    def expert_params(self) -> int:
        """Weights of all routed experts of one layer, 0 for a dense model."""
        return self.experts * 3 * self.hidden * self.expert_intermediate

    @property
    def mlp_linear_params(self) -> int:
        """Weights of one layer's dense or shared MLP and router."""
        if self.experts:
            return self.hidden * self.experts + 3 * self.hidden * self.shared_intermediate
        return self.mlp_matrices * self.hidden * self.intermediate

    @property
    def block_linear_params(self) -> int:
        """Weights of the linear layers of all blocks, experts included."""
        attention = self.attention_layers * self.attention_linear_params
        if self.linear:
            attention += self.linear.layers * sum(a * b for a, b in self.linear.projections(self.hidden))
        return attention + self.layers * (self.mlp_linear_params + self.expert_params)

    @property
    def counted_params(self) -> int:
        """Parameters counted from the shape."""
        norms = 4 if self.model_type in FOUR_NORMS else 2
        small = norms * self.hidden
        if self.qkv_bias:
            small += self.q_width + 2 * self.kv_width
        if self.model_type == "olmo2":
            small += self.q_width + self.kv_width
        elif self.qk_norm:
            small += 2 * self.head_dim
        other = self.linear.layers * self.linear.other_params if self.linear else 0
        return self.embedding_params + self.block_linear_params + self.layers * small + self.hidden + other

    @property
    def params(self) -> int:
        """Parameters of the whole model."""
        return self.stated_params or self.counted_params + self.tower

    @property
    def active_params(self) -> int:
        """Parameters that one token reads: all of a dense model, the chosen experts of a mixture."""
        idle = max(self.experts - self.active, 0)
        return self.params - self.layers * idle * 3 * self.hidden * self.expert_intermediate

    @property
    def layer_intermediate(self) -> int:
        """MLP width that one token goes through: of a mixture, the chosen experts together."""
        return (
            (self.active * self.expert_intermediate + self.shared_intermediate) if self.experts else self.intermediate
        )
