"""What stands in the place of attention, or beside it, in some layers of a hybrid.

It keeps no keys and values but a state of one size, however long the sequence: vLLM holds the recurrent part and the
last steps of the convolution of each sequence (vllm/model_executor/layers/mamba/mamba_utils.py, state shapes).
"""

from dataclasses import dataclass

# Bytes of a number of the convolution's state: the model's own dtype.
_CONVOLUTION_BYTES = 2


@dataclass(frozen=True)
class LinearAttention:
    """The layers whose attention is a gated delta rule (Qwen3-Next, Qwen3.5). Widths are heads x head dim."""

    layers: int
    key_width: int
    value_width: int
    value_heads: int
    kernel: int = 4
    key_dim: int = 128
    state_bytes: int = 2

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

    @property
    def cached(self) -> int:
        """Bytes that one of these attentions keeps of a sequence."""
        convolution = (2 * self.key_width + self.value_width) * (self.kernel - 1)
        return self.value_width * self.key_dim * self.state_bytes + convolution * _CONVOLUTION_BYTES


@dataclass(frozen=True)
class KimiDelta:
    """The layers whose attention is Kimi's delta rule, with a decay for each channel; all heads are alike."""

    layers: int
    heads: int
    head_dim: int
    kernel: int = 4

    @property
    def width(self) -> int:
        """Width of the queries, of the keys and of the values."""
        return self.heads * self.head_dim

    def projections(self, hidden: int) -> tuple[tuple[int, int], ...]:
        """(in, out) of the linear layers of one of these attentions: gates of low rank beside q, k, v and o."""
        gate = ((hidden, self.head_dim), (self.head_dim, self.width))
        return (*((hidden, self.width),) * 3, *gate, *gate, (hidden, self.heads), (self.width, hidden))

    @property
    def other_params(self) -> int:
        """Convolutions, time steps, decay and norm of one of these attentions."""
        return 3 * self.width * self.kernel + self.width + self.heads + self.head_dim

    @property
    def cached(self) -> int:
        """Bytes that one of these attentions keeps of a sequence: the recurrent part in float32."""
        return 4 * self.width * self.head_dim + 3 * self.width * (self.kernel - 1) * _CONVOLUTION_BYTES


@dataclass(frozen=True)
class Lightning:
    """The layers of linear attention with a fixed decay and an output gate (MiniMax-Text-01)."""

    layers: int
    heads: int
    head_dim: int

    @property
    def width(self) -> int:
        """Width of the queries, of the keys and of the values."""
        return self.heads * self.head_dim

    def projections(self, hidden: int) -> tuple[tuple[int, int], ...]:
        """(in, out) of the linear layers of one of these attentions."""
        return ((hidden, 3 * self.width), (hidden, self.width), (self.width, hidden))

    @property
    def other_params(self) -> int:
        """The norm of one of these attentions."""
        return self.width

    @property
    def cached(self) -> int:
        """Bytes that one of these attentions keeps of a sequence, in the model's dtype."""
        return 2 * self.width * self.head_dim


@dataclass(frozen=True)
class ShortConvolution:
    """The layers that mix tokens by a gated convolution of a few steps (LFM2)."""

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

    @property
    def cached(self) -> int:
        """Bytes that one of these mixers keeps of a sequence."""
        return self.width * (self.kernel - 1) * _CONVOLUTION_BYTES


@dataclass(frozen=True)
class StateSpace:
    """The layers with a Mamba-2 mixer (Granite 4, Nemotron-H, Falcon-H1, Bamba, Zamba2).

    `width` is heads x head dim, `states` groups x state size; `norm` is the width of the gated norm, 0 without one.
    """

    layers: int
    width: int
    heads: int
    states: int
    kernel: int
    norm: int
    state: int = 128
    state_bytes: int = 2

    def projections(self, hidden: int) -> tuple[tuple[int, int], ...]:
        """(in, out) of the linear layers of one of these mixers."""
        return ((hidden, 2 * self.width + 2 * self.states + self.heads), (self.width, hidden))

    @property
    def other_params(self) -> int:
        """Convolution with its bias; time step, decay and skip of each head; norm."""
        return (self.width + 2 * self.states) * (self.kernel + 1) + 3 * self.heads + self.norm

    @property
    def cached(self) -> int:
        """Bytes that one of these mixers keeps of a sequence."""
        convolution = (self.width + 2 * self.states) * (self.kernel - 1)
        return self.width * self.state * self.state_bytes + convolution * _CONVOLUTION_BYTES


@dataclass(frozen=True)
class SelectiveScan:
    """The layers with a Mamba-1 mixer (Mamba, Jamba).

    `rank` is that of the time step, `state` the numbers kept for each channel; Jamba norms all of them.
    """

    layers: int
    width: int
    state: int
    rank: int
    kernel: int
    normed: bool = False
    state_bytes: int = 2

    def projections(self, hidden: int) -> tuple[tuple[int, int], ...]:
        """(in, out) of the linear layers of one of these mixers."""
        steps = ((self.width, self.rank + 2 * self.state), (self.rank, self.width))
        return ((hidden, 2 * self.width), *steps, (self.width, hidden))

    @property
    def other_params(self) -> int:
        """Convolution with its bias; time step's bias, decay and skip of each channel; norms."""
        norms = self.rank + 2 * self.state if self.normed else 0
        return self.width * (self.kernel + 1 + 1 + self.state + 1) + norms

    @property
    def cached(self) -> int:
        """Bytes that one of these mixers keeps of a sequence."""
        return self.width * (self.state * self.state_bytes + (self.kernel - 1) * _CONVOLUTION_BYTES)


Mixer = LinearAttention | KimiDelta | Lightning | ShortConvolution | StateSpace | SelectiveScan
