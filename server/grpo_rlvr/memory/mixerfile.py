"""The mixers of a hybrid and how many layers have which, from its config.json."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.memory.mixers import KimiDelta, Lightning, LinearAttention, SelectiveScan, ShortConvolution, StateSpace
from grpo_rlvr.memory.shape import Uneven
from grpo_rlvr.memory.sizes import Sizes

_MAMBA = ("mamba", "linear_attention")
_ATTENTION = ("attention", "full_attention")
MAMBA2_FAMILIES = frozenset({"granitemoehybrid", "bamba", "falcon_h1", "nemotron_h", "mamba2", "zamba2"})
MAMBA1_FAMILIES = frozenset({"mamba", "falcon_mamba", "jamba"})
# Models of mixers alone: no attention, no MLP, and so neither heads nor a head width in their config.json.
NO_ATTENTION = frozenset({"mamba", "falcon_mamba", "mamba2"})


def linear_attention(size: Sizes, model_type: str, kinds: list[str]) -> LinearAttention | KimiDelta | Lightning | None:
    """Return the linear attention of the layers that are called so, None without any that is known."""
    layers = kinds.count("linear_attention")
    if not layers:
        return None
    if model_type == "kimi_linear":
        return _kimi(size, layers)
    if size.config.get("linear_num_value_heads") is not None:
        value_heads, key_dim = size("linear_num_value_heads"), size("linear_key_head_dim")
        return LinearAttention(
            layers=layers, key_width=size("linear_num_key_heads") * key_dim,
            value_width=value_heads * size("linear_value_head_dim"), value_heads=value_heads,
            kernel=size("linear_conv_kernel_dim"), key_dim=key_dim, state_bytes=_state_bytes(size),
        )  # fmt: skip
    if model_type == "minimax":
        heads = size("num_attention_heads")
        return Lightning(layers, heads, size("head_dim", default=size("hidden_size") // heads))
    return None


def _kimi(size: Sizes, layers: int) -> KimiDelta:
    """The published config.json has these sizes in an object of their own, that of transformers beside the others."""
    own = size.config.get("linear_attn_config")
    inner = Sizes(own, f"{size.where}: linear_attn_config") if isinstance(own, Mapping) else size
    kernel = inner("linear_conv_kernel_dim", "short_conv_kernel_size", default=4)
    return KimiDelta(layers, inner("linear_num_heads", "num_heads"), inner("linear_head_dim", "head_dim"), kernel)


def _state_bytes(size: Sizes) -> int:
    """vLLM keeps the recurrent state in the dtype that config.json names (Qwen3.5: float32), else in the model's."""
    return 4 if size.config.get("mamba_ssm_dtype") == "float32" else 2


def convolution(size: Sizes, kinds: list[str], layers: int, hidden: int) -> ShortConvolution | None:
    """Return LFM2's convolutions, None of any other family."""
    if size.config.get("conv_L_cache") is None:
        return None
    listed = size.config.get("full_attn_idxs")
    attending = layers - kinds.count("conv") if kinds else len(listed) if isinstance(listed, list) else layers
    return ShortConvolution(layers - attending, hidden, size("conv_L_cache")) if attending < layers else None


def state_space(size: Sizes, model_type: str, kinds: list[str], layers: int, hidden: int) -> dict[str, Any]:
    """Return what ModelFacts holds of Mamba: instead of attention in most layers, beside it (Falcon-H1), or alone."""
    mixing, attending = _mixing(size, model_type, kinds, layers)
    if model_type in MAMBA1_FAMILIES:
        mixer: SelectiveScan | StateSpace = _mamba1(size, model_type, mixing, hidden)
    else:
        mixer = _mamba2(size, model_type, mixing, hidden)
    found: dict[str, Any] = {"linear": mixer, "attending": attending, "bare_layers": 0}
    if model_type == "zamba2":
        return found | {"bare_layers": layers, "uneven": _shared_blocks(size, attending, hidden)}
    if model_type in NO_ATTENTION | {"nemotron_h"}:  # a layer of these is a mixer or an MLP, not both
        found["bare_layers"] = mixing + attending
    return found


def _shared_blocks(size: Sizes, uses: int, hidden: int) -> Uneven:
    """Zamba2: a few blocks of attention and MLP that many layers share, each use with its own adapters and cache."""
    config, blocks = size.config, size("num_mem_blocks", default=1)
    wide = size("attention_hidden_size", default=2 * hidden)
    head = size("attention_head_dim", default=wide // size("num_attention_heads"))
    queries, keys = size("num_attention_heads") * head, size("num_key_value_heads") * head
    mlp, rank = size("intermediate_size"), size("adapter_rank", default=128)
    block = wide * (queries + 2 * keys) + queries * hidden + 3 * hidden * mlp
    use = hidden * hidden + rank * (hidden + 2 * mlp)
    if config.get("use_shared_attention_adapter"):
        use += 6 * rank * wide
    plain = uses * hidden * 2 * (queries + keys)
    return Uneven(blocks * block + uses * use - plain, tables=0, whole=uses, whole_width=keys, windowed=0)


def _mixing(size: Sizes, model_type: str, kinds: list[str], layers: int) -> tuple[int, int]:
    """Layers with a Mamba mixer, and layers with attention."""
    indices = size.config.get("attn_layer_indices")
    if model_type in NO_ATTENTION:
        return layers, 0
    if model_type == "falcon_h1":
        return layers, layers
    if model_type == "zamba2":  # its hybrid layers have both
        return layers, kinds.count("hybrid") or len(size.config.get("hybrid_layer_ids") or ())
    if kinds:
        return sum(map(kinds.count, _MAMBA)), sum(map(kinds.count, _ATTENTION))
    if model_type == "jamba":
        period, offset = size("attn_layer_period", default=8), size("attn_layer_offset", default=4, minimum=0)
        attending = sum(layer % period == offset for layer in range(layers))
    else:
        attending = len(indices) if isinstance(indices, list) else 0
    return layers - attending, attending


def _mamba1(size: Sizes, model_type: str, layers: int, hidden: int) -> SelectiveScan:
    wide = size("mamba_expand", "expand", default=2) * hidden
    return SelectiveScan(
        layers=layers, width=wide if model_type == "jamba" else size("intermediate_size", "d_inner", default=wide),
        state=size("mamba_d_state", "state_size", default=16),
        rank=_time_step_rank(size, hidden), kernel=size("mamba_d_conv", "conv_kernel", default=4),
        normed=model_type == "jamba", state_bytes=_state_bytes(size),
    )  # fmt: skip


def _time_step_rank(size: Sizes, hidden: int) -> int:
    names = ("mamba_dt_rank", "time_step_rank")
    if any(size.config.get(name) == "auto" for name in names):
        return -(-hidden // 16)
    return size(*names, default=-(-hidden // 16))


def _mamba2(size: Sizes, model_type: str, layers: int, hidden: int) -> StateSpace:
    # Mamba-2 alone gives its mixer's heads the names that others give attention's.
    alone = model_type == "mamba2"
    heads = size("num_heads") if alone else size("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
    head = size("head_dim") if alone else size("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    width = size("mamba_d_ssm", default=heads * head)
    normed = model_type != "falcon_h1" or bool(size.config.get("mamba_rms_norm"))
    state = size("ssm_state_size", "mamba_d_state", "state_size")
    return StateSpace(
        layers=layers, width=width, heads=heads,
        states=size("mamba_n_groups", "n_groups", "mamba_ngroups", default=1) * state,
        kernel=size("conv_kernel", "mamba_d_conv", default=4), norm=width if normed else 0, state=state,
        state_bytes=_state_bytes(size),
    )  # fmt: skip
