"""Model facts: the sizes that memory depends on, from a config.json, stated numbers, or the table of known models."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory import known
from grpo_rlvr.memory.checks import flag, integer, number
from grpo_rlvr.memory.modelfile import find_config
from grpo_rlvr.memory.names import hint
from grpo_rlvr.memory.shape import GATED_TOWERS, PLAIN_MLP, QK_NORM, QKV_BIAS, QUERY_GATE, LinearAttention, ModelFacts
from grpo_rlvr.models.setup import Setup
from grpo_rlvr.workspace import Workspace

# The largest open model published by 2026 has about 2e12 parameters; beyond five times that a unit is wrong.
MAX_PARAMS_B = 10_000.0
MAX_SIZE = 10_000_000
# `tie_word_embeddings` when config.json does not say (the class default in transformers 5.24).
TIED_BY_DEFAULT = frozenset({"gemma", "gemma2", "gemma3", "gemma3_text", "gpt2", "smollm3"})


@dataclass(frozen=True)
class Resolved:
    """Facts with what had to be assumed for them, as (input, value, what it would take to know it)."""

    facts: ModelFacts
    assumed: tuple[tuple[str, Any, str], ...] = ()


def resolve_facts(setup: Setup, workspace: Workspace | None = None) -> Resolved:
    """Return the model's facts from the best source the setup names.

    Raises:
        InputError: no model, an unknown name, or facts that contradict each other.
    """
    model = setup.section("model")
    name = _name(model)
    found = find_config(model, name, workspace)
    if found is not None:
        facts = from_config(found.config, name or found.label, found.source)
        return Resolved(_checked(_overridden(facts, model)))
    row = known.find(name) if name else None
    if row is not None:
        return Resolved(_checked(_overridden(_from_shape(name, f"known model {row[0]}", row[1]), model)))
    if all(model.get(key) is not None for key in ("layers", "hidden", "heads", "intermediate", "vocab")):
        return _from_numbers(model, name)
    if model.get("params_b") is not None:
        return _from_size(model, name)
    if not name:
        raise InputError(
            "no model is stated",
            where="setup.model",
            remedy="Give model.name (e.g. 'Qwen/Qwen3-8B'), model.path (a folder with config.json), or model.params_b.",
        )
    raise InputError(
        f"unknown model '{name[:120]}'{hint(name)}",
        where="setup.model.name",
        remedy="Give model.path (a folder with config.json), the numbers (layers, hidden, heads, kv_heads, "
        "intermediate, vocab), or at least model.params_b in billions.",
    )


def from_config(config: Mapping[str, Any], name: str, source: str) -> ModelFacts:
    """Return the facts in a transformers config.json (for a vision-language model those of its text part).

    Raises:
        InputError: a size is missing or no number.
    """
    where = f"config.json of '{name}'"
    text = config.get("text_config")
    inner: Mapping[str, Any] = {**config, **text} if isinstance(text, Mapping) else config

    def size(*keys: str, default: int | None = None) -> int:
        for key in keys:
            if inner.get(key) is not None:
                return integer(inner[key], f"{where}: {key}", minimum=1, maximum=MAX_SIZE)
        if default is None:
            raise InputError(f"'{keys[0]}' is missing", where=where, remedy="Give it in setup.model instead.")
        return default

    hidden, heads = size("hidden_size", "n_embd", "d_model"), size("num_attention_heads", "n_head")
    experts = size("num_experts", "num_local_experts", "n_routed_experts", default=0) if _is_mixture(inner) else 0
    intermediate = size("intermediate_size", "n_inner", "ffn_dim", default=4 * hidden)
    expert_width = size("moe_intermediate_size", default=intermediate) if experts else 0
    model_type = str(inner.get("model_type") or config.get("model_type") or "llama")
    tied = inner.get("tie_word_embeddings", config.get("tie_word_embeddings", model_type in TIED_BY_DEFAULT))
    shared = 0
    if experts and inner.get("shared_expert_intermediate_size"):
        shared = size("shared_expert_intermediate_size")
    elif experts and inner.get("n_shared_experts"):
        shared = size("n_shared_experts") * expert_width
    head_dim = size("head_dim") if inner.get("head_dim") is not None else _head_dim(hidden, heads, where)
    return ModelFacts(
        name=name, source=source, layers=size("num_hidden_layers", "n_layer"), hidden=hidden, heads=heads,
        kv_heads=size("num_key_value_heads", default=heads), head_dim=head_dim,
        intermediate=intermediate, vocab=size("vocab_size"), tied=bool(tied), model_type=model_type,
        qk_norm=model_type in QK_NORM or bool(inner.get("use_qk_norm")),
        qkv_bias=model_type in QKV_BIAS or bool(inner.get("attention_bias")),
        experts=experts, active=size("num_experts_per_tok", "num_experts_per_token", default=2) if experts else 0,
        expert_intermediate=expert_width, shared_intermediate=shared,
        context=size("max_position_embeddings", default=0) if inner.get("max_position_embeddings") else 0,
        linear=_linear_attention(inner, where), query_gate=model_type in QUERY_GATE,
        mlp_matrices=2 if model_type in PLAIN_MLP else 3, tower=_tower(config, hidden, where),
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


def _linear_attention(config: Mapping[str, Any], where: str) -> LinearAttention | None:
    kinds = config.get("layer_types")
    if not isinstance(kinds, list) or "linear_attention" not in kinds or config.get("linear_num_value_heads") is None:
        return None

    def size(key: str) -> int:
        return integer(config.get(key), f"{where}: {key}", minimum=1, maximum=MAX_SIZE)

    return LinearAttention(
        layers=kinds.count("linear_attention"),
        key_width=size("linear_num_key_heads") * size("linear_key_head_dim"),
        value_width=size("linear_num_value_heads") * size("linear_value_head_dim"),
        value_heads=size("linear_num_value_heads"),
        kernel=size("linear_conv_kernel_dim"),
    )


def _is_mixture(config: Mapping[str, Any]) -> bool:
    return any(config.get(key) for key in ("num_experts", "num_local_experts", "n_routed_experts"))


def _head_dim(hidden: int, heads: int, where: str) -> int:
    if hidden % heads:
        raise InputError(
            f"{heads} heads do not divide the hidden size {hidden}",
            where=where,
            remedy="Correct one of them, or state head_dim.",
        )
    return hidden // heads


def _name(model: Mapping[str, Any]) -> str:
    value = model.get("name")
    if value is None:
        return ""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"must be a non-empty string, got {value!r:.80}", where="setup.model.name")
    return value.strip()


def facts_of_known(row: str) -> ModelFacts:
    """Return the facts of a row of the table of known models."""
    return _from_shape(row, f"known model {row}", known.KNOWN[row])


def _from_shape(name: str, source: str, shape: known.Shape) -> ModelFacts:
    return ModelFacts(
        name=name, source=source, layers=shape.layers, hidden=shape.hidden, heads=shape.heads,
        kv_heads=shape.kv_heads, head_dim=shape.head_dim, intermediate=shape.intermediate, vocab=shape.vocab,
        tied=shape.tied, model_type=shape.model_type, qk_norm=shape.model_type in QK_NORM,
        qkv_bias=shape.model_type in QKV_BIAS, experts=shape.experts, active=shape.active,
        expert_intermediate=shape.expert_intermediate, linear=shape.linear,
        query_gate=shape.model_type in QUERY_GATE, tower=shape.tower,
    )  # fmt: skip


def _from_numbers(model: Mapping[str, Any], name: str) -> Resolved:
    hidden = integer(model["hidden"], "setup.model.hidden", minimum=1, maximum=MAX_SIZE)
    heads = integer(model["heads"], "setup.model.heads", minimum=1, maximum=MAX_SIZE)
    if model.get("head_dim") is None:
        _head_dim(hidden, heads, "setup.model")
    assumed: list[tuple[str, Any, str]] = []
    if model.get("kv_heads") is None and model.get("num_key_value_heads") is None:
        assumed.append(("model.kv_heads", heads, "num_key_value_heads in the model's config.json"))
    if model.get("tied_embeddings") is None and model.get("tied") is None:
        assumed.append(("model.tied_embeddings", False, "tie_word_embeddings in the model's config.json"))
    base = ModelFacts(
        name=name or "stated numbers", source="numbers stated in the setup",
        layers=1, hidden=hidden, heads=heads, kv_heads=heads,
        head_dim=hidden // heads or 1, intermediate=1, vocab=1, tied=False,
    )  # fmt: skip
    return Resolved(_checked(_overridden(base, model)), tuple(assumed))


def _overridden(facts: ModelFacts, model: Mapping[str, Any]) -> ModelFacts:
    """Apply the numbers that the setup states over those of a file or the table."""
    changes: dict[str, Any] = {}
    for key in ("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab"):
        if model.get(key) is not None:
            changes[key] = integer(model[key], f"setup.model.{key}", minimum=1, maximum=MAX_SIZE)
    for key in ("tied", "tied_embeddings", "tie_word_embeddings"):
        if model.get(key) is not None:
            changes["tied"] = flag(model[key], f"setup.model.{key}")
    if model.get("qk_norm") is not None:
        changes["qk_norm"] = flag(model["qk_norm"], "setup.model.qk_norm")
    changes |= _mixture(model)
    reshaped = any(changes.get(key, getattr(facts, key)) != getattr(facts, key) for key in ("hidden", "heads"))
    if reshaped and "head_dim" not in changes:
        changes["head_dim"] = _head_dim(
            changes.get("hidden", facts.hidden), changes.get("heads", facts.heads), "setup.model"
        )
    facts = replace(facts, **changes)
    if model.get("params_b") is None:
        return facts
    return _with_stated_size(facts, params_of(model))


def _mixture(model: Mapping[str, Any]) -> dict[str, int]:
    raw = model.get("moe")
    if raw is None and model.get("experts") is not None:
        raw = {
            "experts": model["experts"],
            "active": model.get("active"),
            "expert_intermediate": model.get("moe_intermediate"),
        }
    if raw is None or raw is False:
        return {}
    if raw is True:
        return {}
    if not isinstance(raw, Mapping):
        raise InputError("must be an object with experts, active, expert_intermediate", where="setup.model.moe")
    changes = {}
    for source, target in (
        ("experts", "experts"), ("active", "active"), ("expert_intermediate", "expert_intermediate"),
        ("shared_intermediate", "shared_intermediate"),
    ):  # fmt: skip
        if raw.get(source) is not None:
            changes[target] = integer(raw[source], f"setup.model.moe.{source}", minimum=1, maximum=MAX_SIZE)
    return changes


def params_of(model: Mapping[str, Any]) -> int:
    """Return the stated number of parameters.

    Raises:
        InputError: not a number, not positive, or too large to be billions.
    """
    billions = number(model["params_b"], "setup.model.params_b", minimum=0, exclusive=True)
    if billions > MAX_PARAMS_B:
        raise InputError(
            f"{billions:g} billion parameters is more than any model has",
            where="setup.model.params_b",
            remedy="The unit is billions: write 7.6 for a 7.6B model.",
        )
    return max(round(billions * 1e9), 1)


def _with_stated_size(facts: ModelFacts, stated: int) -> ModelFacts:
    counted = facts.counted_params + facts.tower
    ratio = stated / counted
    # Names round ("7B" is 7.6B), and a vision tower adds to the decoder; a factor beyond these is a contradiction.
    if not 0.75 <= ratio <= 1.5:
        raise InputError(
            f"{stated / 1e9:.3g} billion parameters contradict the shape of {facts.name}, which has "
            f"{counted / 1e9:.3g} billion",
            where="setup.model.params_b",
            remedy="Correct the size or the shape; leave params_b out to have it counted.",
        )
    return replace(facts, stated_params=stated) if ratio > 1.02 else facts


def _from_size(model: Mapping[str, Any], name: str) -> Resolved:
    stated = params_of(model)
    rows = [(row, known.KNOWN[row]) for row in known.SIZE_CLASSES]
    row, shape = min(rows, key=lambda item: abs(math.log(item[1].params / stated)))
    facts = _from_shape(name or f"a {stated / 1e9:g}B model", f"size only; shape borrowed from {row}", shape)
    per_layer = (facts.counted_params - facts.embedding_params) / facts.layers
    layers = max(round((stated - facts.embedding_params) / per_layer), 1)
    if stated < facts.embedding_params:
        facts = replace(facts, vocab=max(stated // (4 * facts.hidden), 1))
    facts = replace(facts, layers=layers, stated_params=stated)
    need = "model.name of a known model, model.path with a config.json, or the numbers"
    given = {key: model[key] for key in ("layers", "hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocab")
             if model.get(key) is not None}  # fmt: skip
    if given:
        facts = replace(_overridden(facts, {**given}), stated_params=stated)
    shape_text = (
        f"{facts.layers} layers, hidden {facts.hidden}, {facts.heads}/{facts.kv_heads} heads, "
        f"MLP {facts.intermediate}, vocabulary {facts.vocab} (like {row})"
    )
    return Resolved(_checked(facts), (("model shape", shape_text, need),))


def _checked(facts: ModelFacts) -> ModelFacts:
    if facts.heads % facts.kv_heads:
        raise InputError(
            f"{facts.kv_heads} key-value heads do not divide {facts.heads} heads",
            where="setup.model.kv_heads",
            remedy="Grouped-query attention needs heads to be a multiple of kv_heads.",
        )
    if facts.experts and not 0 < facts.active <= facts.experts:
        raise InputError(
            f"{facts.active} active experts of {facts.experts}",
            where="setup.model.moe.active",
            remedy="State between 1 and all experts.",
        )
    if facts.experts and not facts.expert_intermediate:
        raise InputError("expert_intermediate is missing", where="setup.model.moe", remedy="State the experts' width.")
    if facts.params > MAX_PARAMS_B * 1e9:
        raise InputError(
            f"the shape has {facts.params:.3g} parameters, more than any model",
            where="setup.model",
            remedy="Check layers, hidden, intermediate and vocab.",
        )
    return facts
