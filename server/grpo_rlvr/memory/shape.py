"""The sizes of one decoder, and what follows from them: counts of parameters, widths, layers of each kind."""

from dataclasses import dataclass

# Families that normalise q and k per head, that have four norms a layer, and that add a bias to q, k and v
# (read in transformers 5.24, models/<family>/modeling_<family>.py).
QK_NORM = frozenset(
    {"qwen3", "qwen3_moe", "gemma3_text", "gemma3", "olmo2", "olmo3", "qwen3_next", "qwen3_5", "qwen3_5_text"}
    | {"lfm2", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_vl", "qwen3_vl_text", "qwen3_vl_moe", "qwen3_vl_moe_text"}
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
    | {"persimmon", "nemotron", "xglm", "biogpt", "apertus", "arcee"}
)
# Architectures whose parameters are counted as their class has them (transformers 5.24, on the meta device, within 1 %;
# tests/memory counts them again). The count of any other is that of a plain decoder of its sizes.
COUNTED = frozenset({
    "llama", "mistral", "ministral3", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next",
    "qwen3_5_text", "qwen3_5_moe_text", "gemma", "gemma2", "gemma3_text", "vaultgemma", "phi", "phi3", "phimoe",
    "olmo", "olmo2", "olmo3", "olmoe", "flex_olmo", "smollm3", "gpt_oss", "granite", "granitemoe", "granitemoeshared",
    "cohere", "cohere2", "glm", "glm4", "glm4_moe", "glm4_moe_lite", "deepseek_v2", "deepseek_v3", "llama4_text",
    "ernie4_5", "ernie4_5_moe", "exaone4", "seed_oss", "arcee", "apertus", "helium", "stablelm", "starcoder2",
    "minimax_m2", "bitnet", "diffllama", "cwm", "gpt2", "gpt_neox", "gptj", "gpt_bigcode", "codegen", "bloom",
    "persimmon", "biogpt", "internlm3", "solar_open", "minicpm3", "youtu", "aria_text", "lfm2",
})  # fmt: skip
# Vision-language models with such a decoder, under the name that a text part without its own takes.
COUNTED_VISION = frozenset(
    {"qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen3_vl", "qwen3_vl_text", "gemma3", "llava"}
    | {"idefics3", "paligemma", "qwen3_5", "qwen3_vl_moe", "qwen3_vl_moe_text"}
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
class ShortConvolution:
    """The layers that mix tokens by a gated convolution of a few steps (LFM2): no cache of keys and values."""

    layers: int
    width: int
    kernel: int = 3

    def projections(self, hidden: int) -> tuple[tuple[int, int], ...]:
        """(in, out) of the linear layers of one of these mixers."""
        return ((hidden, 3 * self.width), (self.width, hidden))

    @property
    def other_params(self) -> int:
        """The convolution of one of these mixers."""
        return self.kernel * self.width


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
    linear: LinearAttention | ShortConvolution | None = None
    query_gate: bool = False
    mlp_matrices: int = 3
    tower: int = 0
    dense_layers: int = 0
    latent: LatentAttention | None = None

    @property
    def counted_as_its_class(self) -> bool:
        """Whether the parameters of this architecture are known to be counted right."""
        return self.model_type in COUNTED or self.model_type in COUNTED_VISION

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

    @property
    def attention_linear_params(self) -> int:
        """Weights of q, k, v and o of one layer."""
        if self.latent:
            return sum(a * b for a, b in self.latent.projections(self.hidden, self.heads))
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
        """Weights of the dense or shared MLPs and routers of all layers."""
        routed = self.hidden * self.experts + 3 * self.hidden * self.shared_intermediate
        dense = self.mlp_matrices * self.hidden * self.intermediate
        return self.expert_layers * routed + (self.layers - self.expert_layers) * dense

    @property
    def block_linear_params(self) -> int:
        """Weights of the linear layers of all blocks, experts included."""
        attention = self.attention_layers * self.attention_linear_params
        if self.linear:
            attention += self.linear.layers * sum(a * b for a, b in self.linear.projections(self.hidden))
        return attention + self.mlp_linear_params + self.expert_layers * self.expert_params

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
        if self.latent:
            small += self.latent.rank + self.latent.query_rank
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
        return self.params - self.expert_layers * idle * 3 * self.hidden * self.expert_intermediate

    @property
    def layer_intermediate(self) -> int:
        """MLP width that one token goes through: of a mixture, the chosen experts together."""
        return (
            (self.active * self.expert_intermediate + self.shared_intermediate) if self.experts else self.intermediate
        )
