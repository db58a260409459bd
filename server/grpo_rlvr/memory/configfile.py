"""Model facts from a transformers config.json."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory.checkpoint import quantization_of_config
from grpo_rlvr.memory.checks import flag, integer
from grpo_rlvr.memory.families import (
    GATED_TOWERS,
    HEAD_BY_DEFAULT,
    LAYER_KINDS,
    PLAIN_MLP,
    QK_NORM,
    QKV_BIAS,
    QUERY_GATE,
    TIED_BY_DEFAULT,
)
from grpo_rlvr.memory.layerfile import layer_kinds, read_layers
from grpo_rlvr.memory.mixerfile import NO_ATTENTION
from grpo_rlvr.memory.mixers import Mixer
from grpo_rlvr.memory.shape import LatentAttention, ModelFacts
from grpo_rlvr.memory.sizes import MAX_SIZE, Sizes

SHARED = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")
SHARED_COUNTS = ("n_shared_experts", "moe_num_shared_experts", "num_shared_experts")
HEAD_WIDTHS = ("head_dim", "attention_head_dim")
# What may stand beside text and vision, and the names of a tower's depth.
OTHER_PARTS = (
    "audio_config", "audio_encoder_config", "speech_config", "talker_config", "encoder_config", "perception_config",
    "vq_config",
)  # fmt: skip
TOWER_LAYERS = ("depth", "num_hidden_layers")
# The names that the text part of a model with several parts goes by.
TEXT_PARTS = ("text_config", "llm_config", "language_config")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def from_config(config: Mapping[str, Any], name: str, source: str) -> ModelFacts:
    """Return the facts in a transformers config.json (for a vision-language model those of its text part).

    Raises:
        InputError: a size is missing or no number, sizes contradict each other, or the model is no decoder.
    """
    where = f"config.json of '{name}'"
    inner = _text_part(config)
    if config.get("is_encoder_decoder") is True:
        raise InputError(
            "an encoder-decoder, which TRL's GRPOTrainer does not train", where=where, remedy="Name a decoder."
        )
    size = Sizes(inner, where)
    model_type = inner.get("model_type") or config.get("model_type") or "llama"
    if not isinstance(model_type, str):
        remedy = "Give the model's config.json as it is published."
        raise InputError(f"model_type must be a string, got {model_type!r:.60}", where=where, remedy=remedy)
    hidden = size("hidden_size", "n_embd", "d_model")
    heads = size("num_attention_heads", "n_head", "n_heads", default=1 if model_type in NO_ATTENTION else None)
    layers = _layers(size, where)
    # Of a vision-language model the outer word decides, where there is one.
    tied = config.get("tie_word_embeddings")
    tied = inner.get("tie_word_embeddings") if tied is None else tied
    latent = _latent_attention(inner, size)
    return ModelFacts(
        name=name, source=source, layers=layers, hidden=hidden, heads=heads,
        kv_heads=heads if latent else _kv_heads(size, heads), head_dim=_head_dim(size, model_type, latent, where),
        vocab=size("vocab_size", "padded_vocab_size"), model_type=model_type,
        tied=model_type in TIED_BY_DEFAULT if tied is None else flag(tied, f"{where}: tie_word_embeddings"),
        qk_norm=model_type in QK_NORM or (bool(inner.get("use_qk_norm")) and model_type != "llama4_text"),
        qkv_bias=model_type in QKV_BIAS or bool(inner.get("attention_bias")),
        context=size("max_position_embeddings", default=0) if inner.get("max_position_embeddings") else 0,
        latent=latent, query_gate=model_type in QUERY_GATE,
        mlp_matrices=2 if model_type in PLAIN_MLP else 3, tower=_tower(config, hidden, where),
        quantization=quantization_of_config(config) or quantization_of_config(inner),
        **_widths(size, model_type, layers, hidden), **(kinds := read_layers(size, model_type, layers, hidden)),
        uncounted=_uncounted(config, inner, kinds["linear"]),
    )  # fmt: skip


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sizes of the decoder: those of the text part, and what stands beside it."""
    text = next((config[key] for key in TEXT_PARTS if isinstance(config.get(key), Mapping)), None)
    return config if text is None else {**config, **text}


def _layers(size: Sizes, where: str) -> int:
    """How many layers: those whose kinds are listed (Nemotron-H lists them alone), as many as are stated."""
    listed, names = len(layer_kinds(size.config)), ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
    if not listed:
        return size(*names)
    stated = size(*names, default=listed)
    if stated != listed:
        raise InputError(
            f"{stated} layers, but the kinds of {listed} are listed", where=where, remedy="Give the published file."
        )
    return listed


def _kv_heads(size: Sizes, heads: int) -> int:
    config = size.config
    if config.get("multi_query") is True and not config.get("new_decoder_architecture"):
        return 1  # Falcon and GPT-BigCode
    names = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
    return size(*names, default=heads)


def _head_dim(size: Sizes, model_type: str, latent: LatentAttention | None, where: str) -> int:
    config = size.config
    if latent is not None:
        return latent.plain + latent.rotary
    if model_type in NO_ATTENTION:
        return size("hidden_size")
    if any(config.get(key) is not None for key in HEAD_WIDTHS):
        return size(*HEAD_WIDTHS)
    if "head_dim" not in config and model_type in HEAD_BY_DEFAULT:
        return HEAD_BY_DEFAULT[model_type]
    hidden = size("hidden_size", "n_embd", "d_model")
    return head_width(hidden, size("num_attention_heads", "n_head", "n_heads"), where)


def _uncounted(config: Mapping[str, Any], inner: Mapping[str, Any], mixer: Mixer | None) -> tuple[str, ...]:
    """What the file names that the count leaves out: parts beside text and vision, kinds of layers that are unknown."""
    kinds = set(layer_kinds(inner))
    unknown = kinds - LAYER_KINDS
    if "linear_attention" in kinds and mixer is None:
        unknown.add("linear_attention")
    parts = [key for key in OTHER_PARTS if isinstance(config.get(key), Mapping)]
    vision = config.get("vision_config")
    if isinstance(vision, Mapping) and vision and not any(vision.get(key) for key in TOWER_LAYERS):
        parts.append("vision_config")
    return (*parts, *(f"layers of kind '{kind}'" for kind in sorted(unknown)))


def _widths(size: Sizes, model_type: str, layers: int, hidden: int) -> dict[str, Any]:
    """The MLP's width and, of a mixture, the experts: how many, how wide, shared ones, layers without any."""
    config = size.config
    names = ("block_ff_dim", "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
    intermediate = size(*names, default=_unstated(model_type) * hidden)
    if config.get("block_auto_adjust_ff_dim"):  # LFM2 states the width before its gate takes a third of it
        step = size("block_multiple_of", default=256)
        intermediate = -(-_adjusted(2 * intermediate // 3, config.get("block_ffn_dim_multiplier")) // step) * step
    routed = any(config.get(key) for key in EXPERTS)
    if not routed or (model_type == "jamba" and size(*EXPERTS) == 1):  # Jamba without experts says that it has one
        # Granite 4's small models keep the shared MLP alone.
        return {"intermediate": size("shared_intermediate_size", default=intermediate)}
    width = size("moe_intermediate_size", default=intermediate)
    shared = 0
    if model_type == "llama4_text":
        shared, intermediate = width, size("intermediate_size_mlp", default=intermediate)
    elif model_type.startswith("gemma4") or model_type == "hunyuan_v1_moe":
        shared = intermediate  # the experts stand beside the dense MLP
    elif any(config.get(key) for key in SHARED):
        shared = size(*SHARED)
    elif any(config.get(key) for key in SHARED_COUNTS):
        shared = size(*SHARED_COUNTS) * width
    return {
        "intermediate": intermediate, "experts": size(*EXPERTS),
        "active": size("num_experts_per_tok", "num_experts_per_token", "moe_k", "top_k_experts", "moe_topk", default=2),
        "expert_intermediate": width, "shared_intermediate": shared,
        "dense_layers": min(_dense_layers(size, layers), layers),
    }  # fmt: skip


def _unstated(model_type: str) -> int:
    """The MLP's width over the hidden size where config.json has none: Mamba's mixer is twice as wide."""
    return 2 if model_type in NO_ATTENTION else 4


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
    if config.get("expert_layer_period") is not None:  # Jamba
        offset = size("expert_layer_offset", default=1, minimum=0)
        return layers - sum(layer % size("expert_layer_period") == offset for layer in range(min(layers, 10_000)))
    if config.get("num_dense_layers") is not None:  # LFM2
        return size("num_dense_layers", minimum=0)
    step = size("decoder_sparse_step", default=1)
    plain = len(dense) if isinstance(dense, list) else 0
    return size("first_k_dense_replace", default=0, minimum=0) + max(plain, layers - layers // step)


def _latent_attention(config: Mapping[str, Any], size: Sizes) -> LatentAttention | None:
    if config.get("kv_lora_rank") is None or config.get("qk_nope_head_dim") is None:
        return None
    return LatentAttention(
        rank=size("kv_lora_rank"), query_rank=size("q_lora_rank", default=0), plain=size("qk_nope_head_dim"),
        rotary=size("qk_rope_head_dim", minimum=0), value=size("v_head_dim"),
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
    layers = size(*TOWER_LAYERS)
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
