"""What stands in the place of attention, or beside it, in some layers of a hybrid: it keeps no keys and values."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LinearAttention:
    """The layers whose attention is a gated delta rule (Qwen3-Next, Qwen3.5). Widths are heads x head dim."""

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


@dataclass(frozen=True)
class StateSpace:
    """The layers with a Mamba-2 mixer (Granite 4, Nemotron-H, Falcon-H1, Bamba).

    `width` is heads x head dim, `states` groups x state size; `norm` is the width of the gated norm, 0 without one.
    """

    layers: int
    width: int
    heads: int
    states: int
    kernel: int
    norm: int

    def projections(self, hidden: int) -> tuple[tuple[int, int], ...]:
        """(in, out) of the linear layers of one of these mixers."""
        return ((hidden, 2 * self.width + 2 * self.states + self.heads), (self.width, hidden))

    @property
    def other_params(self) -> int:
        """Convolution with its bias; time step, decay and skip of each head; norm."""
        return (self.width + 2 * self.states) * (self.kernel + 1) + 3 * self.heads + self.norm


Mixer = LinearAttention | ShortConvolution | StateSpace
