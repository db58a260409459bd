"""Model facts from a transformers config.json."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory.checks import integer
from grpo_rlvr.memory.families import GATED_TOWERS, PLAIN_MLP, QK_NORM, QKV_BIAS, QUERY_GATE
from grpo_rlvr.memory.layerfile import layer_kinds, read_layers
from grpo_rlvr.memory.shape import LatentAttention, ModelFacts
from grpo_rlvr.memory.sizes import MAX_SIZE, Sizes

# `tie_word_embeddings` when config.json does not say (the class default in transformers 5.24).
TIED_BY_DEFAULT = frozenset(
    {"gemma", "gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text", "gpt2", "smollm3", "lfm2"}
)
SHARED = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def from_config(config: Mapping[str, Any], name: str, source: str) -> ModelFacts:
    """Return the facts in a transformers config.json (for a vision-language model those of its text part).

    Raises:
        InputError: a size is missing or no number.
    """
    where = f"config.json of '{name}'"
    text = config.get("text_config")
    inner: Mapping[str, Any] = {**config, **text} if isinstance(text, Mapping) else config
    size = Sizes(inner, where)
    hidden, heads = size("hidden_size", "n_embd", "d_model"), size("num_attention_heads", "n_head")
    # Nemotron-H names each layer's kind; that list decides.
    layers = len(layer_kinds(inner)) or size("num_hidden_layers", "n_layer")
    model_type = str(inner.get("model_type") or config.get("model_type") or "llama")
    # Of a vision-language model the outer word decides, where there is one.
    tied = config.get("tie_word_embeddings", inner.get("tie_word_embeddings", model_type in TIED_BY_DEFAULT))
    latent = _latent_attention(inner, size)
    if latent is not None:
        head_dim = latent.plain + latent.rotary
    else:
        head_dim = size("head_dim") if inner.get("head_dim") is not None else head_width(hidden, heads, where)
    return ModelFacts(
        name=name, source=source, layers=layers, hidden=hidden, heads=heads,
        kv_heads=heads if latent else size("num_key_value_heads", default=heads), head_dim=head_dim,
        vocab=size("vocab_size"), tied=bool(tied), model_type=model_type,
        qk_norm=model_type in QK_NORM or (bool(inner.get("use_qk_norm")) and model_type != "llama4_text"),
        qkv_bias=model_type in QKV_BIAS or bool(inner.get("attention_bias")),
        context=size("max_position_embeddings", default=0) if inner.get("max_position_embeddings") else 0,
        latent=latent, query_gate=model_type in QUERY_GATE,
        mlp_matrices=2 if model_type in PLAIN_MLP else 3, tower=_tower(config, hidden, where),
        **_widths(size, model_type, layers, hidden), **read_layers(size, model_type, layers, hidden),
    )  # fmt: skip


def _widths(size: Sizes, model_type: str, layers: int, hidden: int) -> dict[str, Any]:
    """The MLP's width and, of a mixture, the experts: how many, how wide, shared ones, layers without any."""
    config = size.config
    intermediate = size("block_ff_dim", "intermediate_size", "n_inner", "ffn_dim", default=4 * hidden)
    if config.get("block_auto_adjust_ff_dim"):  # LFM2 states the width before its gate takes a third of it
        step = size("block_multiple_of", default=256)
        intermediate = -(-_adjusted(2 * intermediate // 3, config.get("block_ffn_dim_multiplier")) // step) * step
    if not any(config.get(key) for key in EXPERTS):
        # Granite 4's small models keep the shared MLP alone.
        return {"intermediate": size("shared_intermediate_size", default=intermediate)}
    width = size("moe_intermediate_size", default=intermediate)
    shared = 0
    if model_type == "llama4_text":
        shared, intermediate = width, size("intermediate_size_mlp", default=intermediate)
    elif model_type.startswith("gemma4"):
        shared = intermediate  # its experts stand beside the dense MLP
    elif any(config.get(key) for key in SHARED):
        shared = size(*SHARED)
    elif config.get("n_shared_experts") or config.get("moe_num_shared_experts"):
        shared = size("n_shared_experts", "moe_num_shared_experts") * width
    return {
        "intermediate": intermediate, "experts": size(*EXPERTS),
        "active": size("num_experts_per_tok", "num_experts_per_token", "moe_k", "top_k_experts", default=2),
        "expert_intermediate": width, "shared_intermediate": shared,
        "dense_layers": min(_dense_layers(size, layers), layers),
    }  # fmt: skip


def _adjusted(width: int, factor: Any) -> int:
    return int(width * factor) if isinstance(factor, int | float) and not isinstance(factor, bool) else width


def _dense_layers(size: Sizes, layers: int) -> int:
    """Layers of a mixture whose MLP has no experts, under the names that the families give them."""
    config = size.config
    kinds, sparse, dense = (config.get(key) for key in ("mlp_layer_types", "moe_layers", "mlp_only_layers"))
    if "moe" in (blocks := layer_kinds(config)):
        return layers - blocks.count("moe")
    if isinstance(kinds, list):
        return kinds.count("dense")
    if isinstance(sparse, list):
        return layers - len(sparse)
    if config.get("interleave_moe_layer_step") is not None:
        return layers - layers // size("interleave_moe_layer_step")
    if config.get("moe_layer_start_index") is not None:
        start = size("moe_layer_start_index", minimum=0)
        end = config.get("moe_layer_end_index")
        last = layers - 1 if end in (None, -1) else size("moe_layer_end_index", minimum=0)
        step = size("moe_layer_interval", default=1)
        return sum(not (start <= layer <= last and (layer + 1) % step == 0) for layer in range(min(layers, 10_000)))
    step = size("decoder_sparse_step", default=1)
    plain = len(dense) if isinstance(dense, list) else 0
    return size("first_k_dense_replace", default=0, minimum=0) + max(plain, layers - layers // step)


def _latent_attention(config: Mapping[str, Any], size: Sizes) -> LatentAttention | None:
    if config.get("kv_lora_rank") is None or config.get("qk_nope_head_dim") is None:
        return None
    return LatentAttention(
        rank=size("kv_lora_rank"), query_rank=size("q_lora_rank", default=0), plain=size("qk_nope_head_dim"),
        rotary=size("qk_rope_head_dim"), value=size("v_head_dim"),
    )  # fmt: skip


def _tower(config: Mapping[str, Any], text_width: int, where: str) -> int:
    """Parameters of the vision tower and of what joins it to the text: 8 % of Qwen2.5-VL-7B, 30 % of Qwen2-VL-2B."""
    vision = config.get("vision_config")
    if not isinstance(vision, Mapping):
        return 0

    def size(*keys: str, default: int = 0) -> int:
        value = next((vision[key] for key in keys if vision.get(key) is not None), None)
        if isinstance(value, list):  # InternVL states a patch as [14, 14]
            value = value[0] if value else None
        return default if value is None else integer(value, f"{where}: vision_config.{keys[0]}", maximum=MAX_SIZE)

    width = size("embed_dim", "hidden_size")
    ratio = vision.get("mlp_ratio")
    wide = size("intermediate_size", default=round((ratio if isinstance(ratio, (int, float)) else 4) * width))
    layers = size("depth", "num_hidden_layers")
    blocks = layers * (4 * width * width + (3 if vision.get("model_type") in GATED_TOWERS else 2) * width * wide)
    # Qwen joins patches in squares of `spatial_merge_size` before its projectors, of which Qwen3-VL has several.
    joined = width * size("spatial_merge_size", default=1) ** 2
    deep = vision.get("deepstack_visual_indexes")
    projectors = 1 + (len(deep) if isinstance(deep, list) else 0)
    projection = joined * (joined if joined > width else 0) + joined * text_width
    patch, image = size("patch_size"), size("image_size")
    positions = (image // patch) ** 2 if image and patch else size("num_position_embeddings")
    return blocks + projectors * projection + width * positions


def head_width(hidden: int, heads: int, where: str) -> int:
    """Return the width of a head that nothing states.

    Raises:
        InputError: the heads do not divide the hidden size.
    """
    if hidden % heads:
        raise InputError(
            f"{heads} heads do not divide the hidden size {hidden}",
            where=where,
            remedy="Correct one of them, or state head_dim.",
        )
    return hidden // heads
