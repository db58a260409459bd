"""The kinds of a decoder's layers, from its config.json: mixers beside attention, windows, layers that differ."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.memory.families import WINDOW_EVERYWHERE, WINDOWS
from grpo_rlvr.memory.mixerfile import MAMBA1_FAMILIES, MAMBA2_FAMILIES, convolution, linear_attention, state_space
from grpo_rlvr.memory.shape import Uneven
from grpo_rlvr.memory.sizes import Sizes

# Nemotron-H writes its layers as one letter each: a Mamba-2 mixer, attention, an MLP, experts.
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def layer_kinds(config: Mapping[str, Any]) -> list[str]:
    """Return the kind of each layer as the config.json names it, an empty list where it does not."""
    pattern = config.get("hybrid_override_pattern")
    kinds = config.get("layers_block_type") or config.get("layer_types")
    if not kinds and isinstance(pattern, str):
        return [_LETTERS.get(letter, letter) for letter in pattern]
    if not kinds and (numbered := _numbered_kinds(config)):
        return numbered
    return [str(kind) for kind in kinds] if isinstance(kinds, list) else []


def _numbered_kinds(config: Mapping[str, Any]) -> list[str]:
    """Kimi Linear lists the numbers of its layers by kind, from 1 on."""
    own = config.get("linear_attn_config")
    kinds: dict[int, str] = {}
    for key, kind in (("kda_layers", "linear_attention"), ("full_attn_layers", "full_attention")):
        numbers = own.get(key) if isinstance(own, Mapping) else None
        kinds |= {number: kind for number in numbers or () if isinstance(number, int)}
    return [kinds[number] for number in sorted(kinds)]


def read_layers(size: Sizes, model_type: str, layers: int, hidden: int) -> dict[str, Any]:
    """Return what ModelFacts holds of the kinds of layers."""
    kinds = layer_kinds(size.config)
    if model_type in MAMBA1_FAMILIES | MAMBA2_FAMILIES:
        return state_space(size, model_type, kinds, layers, hidden)
    mixer = linear_attention(size, model_type, kinds) or convolution(size, kinds, layers, hidden)
    return {"linear": mixer, **_windows(size, model_type, kinds, layers), **_uneven(size, model_type, kinds, hidden)}


def _windows(size: Sizes, model_type: str, kinds: list[str], layers: int) -> dict[str, int]:
    every, window = WINDOWS.get(model_type, (1, 0))
    if "chunked_attention" in kinds:  # Llama 4 attends within chunks in three layers of four
        windowed, window = kinds.count("chunked_attention"), size("attention_chunk_size", default=0, minimum=0)
        return {"windowed_layers": windowed if window else 0, "window": window}
    if "sliding_attention" in kinds:
        windowed = kinds.count("sliding_attention")
    elif kinds:
        windowed = 0
    elif model_type in WINDOW_EVERYWHERE:
        windowed = layers
    else:
        windowed = layers - _whole_layers(size, layers, every)
    stated = size("sliding_window", default=window, minimum=0) if windowed else 0
    return {"windowed_layers": windowed if stated else 0, "window": stated}


def _whole_layers(size: Sizes, layers: int, every: int) -> int:
    """Layers that attend to all tokens where config.json gives a pattern: every n-th, or letters such as LLLG."""
    pattern = size.config.get("sliding_window_pattern")
    if isinstance(pattern, str):
        letters = pattern.upper()
        return sum(letters[layer % len(letters)] == "G" for layer in range(layers)) if letters else layers
    return layers // size("sliding_window_pattern", default=every)


def _uneven(size: Sizes, model_type: str, kinds: list[str], hidden: int) -> dict[str, Any]:
    """Gemma 4 and 3n: wider heads where a layer attends to all tokens, shared keys and values, per-layer embeddings."""
    if not model_type.startswith(("gemma4", "gemma3n")) or not kinds:
        return {}
    layers, shared = len(kinds), size("num_kv_shared_layers", default=0, minimum=0)
    heads, kv_heads, head = size("num_attention_heads"), size("num_key_value_heads"), size("head_dim")
    even = model_type.startswith("gemma3n")
    wide = head if even else size("global_head_dim", default=_stated_head(size.config) or 512)
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
    streams = size("altup_num_inputs", default=1)
    # Gemma 3n: a low-rank path beside each layer, and the projections between its streams.
    extra += layers * 2 * hidden * size("laurel_rank", default=0) + 2 * (streams - 1) * hidden * hidden
    uneven = Uneven(extra + 3 * layers * hidden * inputs, tables, whole_own, wide_kv, windowed_own)
    return {"uneven": uneven, "streams": streams}


def _stated_head(config: Mapping[str, Any]) -> int:
    """The head width of single layers as transformers writes it back: {'05': {'head_dim': 512}, ...}; 0 without."""
    layers = config.get("per_layer_config")
    rows = layers.values() if isinstance(layers, Mapping) else ()
    widths = (row.get("head_dim") for row in rows if isinstance(row, Mapping))
    return next((width for width in widths if isinstance(width, int)), 0)
