"""Model facts: the sizes that memory depends on, from a config.json, stated numbers, or the table of known models."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory import known
from grpo_rlvr.memory.checks import flag, integer, number
from grpo_rlvr.memory.configfile import from_config, head_width
from grpo_rlvr.memory.families import COUNTED, QK_NORM, QKV_BIAS, QUERY_GATE, WINDOWS
from grpo_rlvr.memory.modelfile import FoundConfig, find_config
from grpo_rlvr.memory.names import hint
from grpo_rlvr.memory.shape import ModelFacts
from grpo_rlvr.memory.sizes import MAX_SIZE
from grpo_rlvr.models.setup import Setup
from grpo_rlvr.workspace import Workspace

# The largest open model published by 2026 has about 2e12 parameters; beyond five times that a unit is wrong.
MAX_PARAMS_B = 10_000.0


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
        return _from_file(found, model, name)
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


def _from_file(found: FoundConfig, model: Mapping[str, Any], name: str) -> Resolved:
    """The facts of a config.json; of an architecture that is not modelled, the stated size is believed."""
    stated = model.get("params_b") is not None
    try:
        facts = from_config(found.config, name or found.label, found.source)
    except InputError as error:
        kind = found.config.get("model_type")
        if not isinstance(kind, str | None) or kind in COUNTED or found.config.get("is_encoder_decoder") is True:
            raise
        if not stated:
            which = f"'{kind}'" if kind else "a file without model_type"
            remedy = f"State model.params_b beside it: {which} is not modelled, a shape of that size is borrowed."
            raise InputError(error.message, where=error.where, remedy=remedy) from None
        return _from_size(model, name or found.label)
    facts = _checked(_overridden(facts, model))
    if facts.counted_as_its_class or stated:
        return Resolved(facts)
    need = f"the size on the model's card: {uncertain(facts)}"
    return Resolved(facts, (("model.params_b", round(facts.params / 1e9, 3), need),))


def uncertain(facts: ModelFacts) -> str:
    """Return why the count of a model may not be that of its class."""
    if facts.uncounted:
        return f"its config.json names {', '.join(facts.uncounted)}, which the count leaves out"
    return f"'{facts.model_type}' is counted as a plain decoder, which it may not be"


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
    every, window = WINDOWS.get(shape.model_type, (1, 0))
    return ModelFacts(
        name=name, source=source, layers=shape.layers, hidden=shape.hidden, heads=shape.heads,
        kv_heads=shape.kv_heads, head_dim=shape.head_dim, intermediate=shape.intermediate, vocab=shape.vocab,
        tied=shape.tied, model_type=shape.model_type, qk_norm=shape.model_type in QK_NORM,
        qkv_bias=shape.model_type in QKV_BIAS, experts=shape.experts, active=shape.active,
        expert_intermediate=shape.expert_intermediate, linear=shape.linear,
        query_gate=shape.model_type in QUERY_GATE, tower=shape.tower,
        window=window, windowed_layers=shape.layers - shape.layers // every,
    )  # fmt: skip


def _from_numbers(model: Mapping[str, Any], name: str) -> Resolved:
    hidden = integer(model["hidden"], "setup.model.hidden", minimum=1, maximum=MAX_SIZE)
    heads = integer(model["heads"], "setup.model.heads", minimum=1, maximum=MAX_SIZE)
    if model.get("head_dim") is None:
        head_width(hidden, heads, "setup.model")
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
        changes["head_dim"] = head_width(
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
    if not facts.counted_as_its_class:
        return replace(facts, stated_params=stated)
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
