"""The kinds of a decoder's layers, from its config.json: mixers beside attention, windows, layers that differ."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.memory.families import WINDOWS
from grpo_rlvr.memory.mixers import LinearAttention, ShortConvolution, StateSpace
from grpo_rlvr.memory.shape import Uneven
from grpo_rlvr.memory.sizes import Sizes

# Nemotron-H writes its layers as one letter each: a Mamba-2 mixer, attention, an MLP, experts.
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_MAMBA = ("mamba", "linear_attention")
_ATTENTION = ("attention", "full_attention")
_MAMBA_FAMILIES = frozenset({"granitemoehybrid", "bamba", "falcon_h1", "nemotron_h"})


def layer_kinds(config: Mapping[str, Any]) -> list[str]:
    """Return the kind of each layer as the config.json names it, an empty list where it does not."""
    pattern = config.get("hybrid_override_pattern")
    kinds = config.get("layers_block_type") or config.get("layer_types")
    if not kinds and isinstance(pattern, str):
        return [_LETTERS.get(letter, letter) for letter in pattern]
    return [str(kind) for kind in kinds] if isinstance(kinds, list) else []


def read_layers(size: Sizes, model_type: str, layers: int, hidden: int) -> dict[str, Any]:
    """Return what ModelFacts holds of the kinds of layers."""
    kinds = layer_kinds(size.config)
    if model_type in _MAMBA_FAMILIES:
        return _state_space(size, model_type, kinds, layers, hidden)
    mixer = _linear_attention(size, kinds) or _convolution(size, kinds, layers, hidden)
    return {"linear": mixer, **_windows(size, model_type, kinds, layers), **_uneven(size, model_type, kinds, hidden)}


def _linear_attention(size: Sizes, kinds: list[str]) -> LinearAttention | None:
    if "linear_attention" not in kinds or size.config.get("linear_num_value_heads") is None:
        return None
    value_heads = size("linear_num_value_heads")
    return LinearAttention(
        layers=kinds.count("linear_attention"),
        key_width=size("linear_num_key_heads") * size("linear_key_head_dim"),
        value_width=value_heads * size("linear_value_head_dim"),
        value_heads=value_heads,
        kernel=size("linear_conv_kernel_dim"),
    )


def _convolution(size: Sizes, kinds: list[str], layers: int, hidden: int) -> ShortConvolution | None:
    if size.config.get("conv_L_cache") is None:
        return None
    listed = size.config.get("full_attn_idxs")
    attending = layers - kinds.count("conv") if kinds else len(listed) if isinstance(listed, list) else layers
    return ShortConvolution(layers - attending, hidden, size("conv_L_cache")) if attending < layers else None


def _state_space(size: Sizes, model_type: str, kinds: list[str], layers: int, hidden: int) -> dict[str, Any]:
    """Mamba-2: instead of attention in most layers, or beside it in each (Falcon-H1)."""
    heads = size("mamba_num_heads", "mamba_n_heads")
    width = size("mamba_d_ssm", default=heads * size("mamba_head_dim", "mamba_d_head"))
    normed = model_type != "falcon_h1" or bool(size.config.get("mamba_rms_norm"))
    indices = size.config.get("attn_layer_indices")
    if model_type == "falcon_h1":
        mixing = attending = layers
    elif kinds:
        mixing, attending = sum(map(kinds.count, _MAMBA)), sum(map(kinds.count, _ATTENTION))
    else:
        attending = len(indices) if isinstance(indices, list) else 0
        mixing = layers - attending
    mixer = StateSpace(
        layers=mixing, width=width, heads=heads,
        states=size("mamba_n_groups", "n_groups", default=1) * size("ssm_state_size", "mamba_d_state"),
        kernel=size("conv_kernel", "mamba_d_conv", default=4), norm=width if normed else 0,
    )  # fmt: skip
    bare = mixing + attending if model_type == "nemotron_h" else 0
    return {"linear": mixer, "attending": attending, "bare_layers": bare}


def _windows(size: Sizes, model_type: str, kinds: list[str], layers: int) -> dict[str, int]:
    every, window = WINDOWS.get(model_type, (1, 0))
    if "sliding_attention" in kinds:
        windowed = kinds.count("sliding_attention")
    else:
        windowed = 0 if kinds else layers - layers // size("sliding_window_pattern", default=every)
    stated = size("sliding_window", default=window, minimum=0) if windowed else 0
    return {"windowed_layers": windowed if stated else 0, "window": stated}


def _uneven(size: Sizes, model_type: str, kinds: list[str], hidden: int) -> dict[str, Uneven]:
    """Gemma 4: wider heads where a layer attends to all tokens, shared keys and values, per-layer embeddings."""
    if not model_type.startswith("gemma4") or not kinds:
        return {}
    layers, shared = len(kinds), size("num_kv_shared_layers", default=0, minimum=0)
    heads, kv_heads, head = size("num_attention_heads"), size("num_key_value_heads"), size("head_dim")
    wide = size("global_head_dim", default=_stated_head(size.config) or 512)
    one_matrix = bool(size.config.get("attention_k_eq_v"))
    wide_kv = (size("num_global_key_value_heads", default=kv_heads) if one_matrix else kv_heads) * wide
    own = kinds[: layers - shared]
    whole, whole_own = kinds.count("full_attention"), own.count("full_attention")
    windowed_own = len(own) - whole_own
    queries = 2 * heads * (whole * wide + (layers - whole) * head)
    keys = (1 if one_matrix else 2) * whole_own * wide_kv + 2 * windowed_own * kv_heads * head
    plain = layers * (2 * heads * head + 2 * kv_heads * head)
    extra = hidden * (queries + keys - plain)
    if size.config.get("use_double_wide_mlp"):
        extra += shared * 3 * hidden * size("intermediate_size")
    inputs = size("hidden_size_per_layer_input", default=0, minimum=0)
    tables = size("vocab_size_per_layer_input", default=0, minimum=0) * layers * inputs
    return {"uneven": Uneven(extra + 3 * layers * hidden * inputs, tables, whole_own, wide_kv, windowed_own)}


def _stated_head(config: Mapping[str, Any]) -> int:
    """The head width of single layers as transformers writes it back: {'05': {'head_dim': 512}, ...}; 0 without."""
    layers = config.get("per_layer_config")
    rows = layers.values() if isinstance(layers, Mapping) else ()
    widths = (row.get("head_dim") for row in rows if isinstance(row, Mapping))
    return next((width for width in widths if isinstance(width, int)), 0)
