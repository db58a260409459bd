"""Sampling: the policy that makes the completions must be the one that is scored, and must explore."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView, judge_each

# Below this, a softmax of real logits is an argmax for nearly every token.
GREEDY_TEMPERATURE = 0.1
# Options that change from which distribution a token is drawn.
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
# What generate() or vLLM call "more than one completion per prompt".
SEQUENCES = ("num_return_sequences", "n", "best_of")
VLLM = {"use_vllm": True, "vllm_mode": "colocate"}


@rule(
    "temperature-not-positive",
    severity="error",
    what="temperature is zero or negative.",
    why="transformers raises at the first generation; greedy rollouts would be identical anyway.",
    bad=Example({"temperature": 0.0}),
    good=Example({"temperature": 1.0}),
    sources=("huggingface/trl#3640",),
)
def temperature_not_positive(config: ConfigView) -> Outcome:
    value = config.number("temperature")
    if value is None or value > 0:
        return PASS
    return fail("temperature", value=value, message=f"temperature={value:g}: it must be above 0; 1.0 is the default.")


def _greedy(name: str, config: ConfigView) -> tuple[str, str] | None:
    """Return the field by which an option makes sampling greedy, and how."""
    value = config.number(name) if config.exists(name) else None
    if name == "temperature" and value is not None and 0 < value < GREEDY_TEMPERATURE:
        return "temperature", f"temperature={value:g} is nearly greedy"
    if value is not None and value == {"top_p": 0, "top_k": 1, "min_p": 1}.get(name):
        return name, f"{name}={value:g} keeps only the likeliest token"
    if name != "generation_kwargs":
        return None
    extra = config.mapping(name)
    for key, greedy in (("do_sample", False), ("temperature", 0), ("top_p", 0), ("top_k", 1)):
        if key in extra and extra[key] is not None and extra[key] == greedy and extra[key] is not True:
            return f"generation_kwargs.{key}", f"generation_kwargs sets {key}={extra[key]!r}"
    return None


@rule(
    "greedy-rollouts",
    severity="error",
    requires=("temperature-not-positive",),
    what="Sampling is greedy or nearly so.",
    why="All completions of a prompt come out the same: no variance in the group, no gradient, and no message.",
    bad=Example({"top_p": 0.0}),
    good=Example({"top_p": 1.0}),
    sources=("huggingface/trl#3640", "huggingface/trl#3562", "trl/trainer/grpo_trainer.py"),
)
def greedy_rollouts(config: ConfigView) -> Outcome:
    names = ("temperature", "top_p", "top_k", "min_p", "generation_kwargs")
    found = judge_each(names, lambda name: _greedy(name, config))
    if not found:
        return PASS
    field, how = found[0]
    head = field.partition(".")[0]
    return fail(
        *dict.fromkeys((field, head)),
        value=config.effective(field),
        message=f"{how}, so the completions of a group are identical. Sample: temperature=1.0, top_p=1.0, no "
        "do_sample=False.",
    )


@rule(
    "generation-kwargs-override-sampling",
    severity="error",
    trl=">=0.19",
    requires=("greedy-rollouts",),
    what="generation_kwargs sets a sampling option that GRPOConfig sets to something else.",
    why="Rollouts follow generation_kwargs, log-probs follow the config: the gradient is for another policy, silently.",
    bad=Example({"temperature": 1.0, "generation_kwargs": {"temperature": 0.3}}),
    good=Example({"temperature": 0.3}),
    sources=("huggingface/trl#3562",),
    fix_safety="Changes the policy that is scored to the one that samples.",
)
def generation_kwargs_override_sampling(config: ConfigView) -> Outcome:
    extra = config.mapping("generation_kwargs")
    clashes = {
        name: extra[name]
        for name in SAMPLING
        if name in extra and extra[name] is not None and extra[name] != config.effective(name)
    }
    if not clashes:
        return PASS
    rest = {name: value for name, value in extra.items() if name not in clashes}
    fields = [f"generation_kwargs.{name}" for name in clashes]
    said = ", ".join(f"{name}={value!r} over {config.effective(name)!r}" for name, value in clashes.items())
    return fail(
        *fields,
        "generation_kwargs",
        *clashes,
        value=dict(clashes),
        message=f"generation_kwargs overrides {said}, but log-probs keep the config's value. Set it as an option of "
        "its own.",
        set={**clashes, **({"generation_kwargs": rest} if rest else {})},
        unset=() if rest else ("generation_kwargs",),
    )


@rule(
    "several-sequences-per-prompt",
    severity="error",
    trl=">=0.19",
    what="generation_kwargs asks for several sequences per prompt.",
    why="The sampler already repeats each prompt num_generations times; more sequences break the tensor shapes at "
    "step 1.",
    bad=Example({"generation_kwargs": {"num_return_sequences": 8}}),
    good=Example({"num_generations": 8}),
    sources=("trl/trainer/grpo_trainer.py",),
    fix_safety="Safe: with the option the first step fails.",
)
def several_sequences_per_prompt(config: ConfigView) -> Outcome:
    extra = config.mapping("generation_kwargs")
    for name in SEQUENCES:
        value = extra.get(name)
        if isinstance(value, int) and value > 1:
            rest = {key: item for key, item in extra.items() if key not in SEQUENCES}
            return fail(
                f"generation_kwargs.{name}",
                "generation_kwargs",
                value=value,
                message=f"generation_kwargs.{name}={value}: remove it, num_generations already repeats each prompt.",
                set={"generation_kwargs": rest} if rest else {},
                unset=() if rest else ("generation_kwargs",),
                safe=True,
            )
    return PASS


@rule(
    "beam-search-rollouts",
    severity="warning",
    trl=">=0.19",
    what="generation_kwargs switches beam search on.",
    why="Beams are not samples of the policy, so the log-probs of the loss belong to another distribution.",
    bad=Example({"generation_kwargs": {"num_beams": 4}}),
    good=Example({"num_generations": 8}),
    sources=("huggingface/trl#3562",),
)
def beam_search_rollouts(config: ConfigView) -> Outcome:
    beams = config.mapping("generation_kwargs").get("num_beams")
    if not isinstance(beams, int) or beams < 2:
        return PASS
    return fail(
        "generation_kwargs.num_beams",
        "generation_kwargs",
        value=beams,
        message=f"generation_kwargs.num_beams={beams}: remove it, rollouts must be samples of the policy.",
    )


@rule(
    "top-k-minus-one-without-vllm",
    severity="error",
    what="top_k=-1 with model.generate.",
    why="-1 is vLLM's word for no limit; transformers raises ValueError at the first generation.",
    bad=Example({"top_k": -1}),
    good=Example({"top_k": 0}),
    sources=("huggingface/trl#3494",),
    fix_safety="Safe: 0 (null before 0.27) asks for the same.",
)
def top_k_minus_one_without_vllm(config: ConfigView, facts: Facts) -> Outcome:
    extra = config.mapping("generation_kwargs") if config.exists("generation_kwargs") else {}
    if facts.use_vllm or (config.effective("top_k") != -1 and extra.get("top_k") != -1):
        return PASS
    off = 0 if facts.trl_is(">=0.27") else None
    own = config.effective("top_k") == -1
    return fail(
        "top_k" if own else "generation_kwargs.top_k",
        "top_k",
        "generation_kwargs",
        value=-1,
        message=f"top_k=-1 is vLLM's spelling; with model.generate write top_k={off}.",
        set={"top_k": off} if own else {},
        safe=own,
    )


@rule(
    "generation-config-wins",
    severity="warning",
    trl="<0.26.2",
    what="The model ships a narrow generation_config and this release lets its values win.",
    why="With transformers 4.50 up to 4.57, options left at their defaults are taken from the model's file: nearly "
    "greedy rollouts.",
    bad=Example(
        {"num_generations": 8},
        {"model": {"generation_config": {"temperature": 0.1, "top_k": 1}}, "versions": {"trl": "0.25.1"}},
    ),
    good=Example(
        {"num_generations": 8},
        {"model": {"generation_config": {"temperature": 0.1, "top_k": 1}}, "versions": {"trl": "0.26.2"}},
    ),
    sources=("huggingface/trl#5783", "huggingface/transformers#42762", "trl wheels 0.26.0 to 0.26.2"),
)
def generation_config_wins(config: ConfigView, facts: Facts) -> Outcome:
    shipped = facts.setup.get("model.generation_config")
    if not shipped:
        return not_applicable("model.generation_config is not stated")
    if facts.use_vllm or not facts.transformers_is(">=4.50,<5"):
        return PASS
    narrow = _narrow(shipped)
    if not narrow:
        return PASS
    return fail(
        "model.generation_config",
        *narrow,
        "versions.trl",
        "versions.transformers",
        value=shipped,
        message=f"The model's generation_config sets {', '.join(narrow)}, and those values win here. Reset them on "
        "the model, "
        "or upgrade to trl>=0.26.",
    )


def _narrow(shipped: Any) -> list[str]:
    if isinstance(shipped, Mapping):
        loose = {"temperature": (1, 1.0), "top_p": (1, 1.0), "top_k": (0, None, -1, 50), "min_p": (0, None),
                 "repetition_penalty": (1, 1.0), "do_sample": (True,)}  # fmt: skip
        return [name for name, fine in loose.items() if name in shipped and shipped[name] not in fine]
    text = str(shipped)
    return [name for name in (*SAMPLING, "do_sample") if name in text] or ["temperature"]


@rule(
    "sampling-narrowed",
    severity="info",
    requires=("greedy-rollouts",),
    what="top_k, top_p, min_p or a repetition penalty cut the sampled distribution.",
    why="The loss scores the full distribution at that temperature; tokens outside the cut can never be explored.",
    bad=Example({"top_p": 0.9}),
    good=Example({"top_p": 1.0}),
    sources=("huggingface/trl#6945",),
)
def sampling_narrowed(config: ConfigView, facts: Facts) -> Outcome:
    if facts.use_vllm:
        return PASS
    cut = narrowed(config)
    if not cut:
        return PASS
    said = ", ".join(f"{name}={config.effective(name)!r}" for name in cut)
    return fail(
        *cut, value=config.effective(cut[0]), message=f"{said}: rollouts come from a part of the distribution only."
    )


def narrowed(config: ConfigView) -> list[str]:
    """Return the options in force that keep only a part of the distribution (temperature not counted)."""

    def judge(name: str) -> str | None:
        # The default top_k=50 of 0.16 and 0.17 counts as well: it is in force.
        value = config.number(name) if config.exists(name) else None
        if value is None:
            return None
        cuts = {"top_k": value > 0, "top_p": value < 1, "min_p": value > 0, "repetition_penalty": value != 1}
        return name if cuts[name] else None

    return judge_each(("top_k", "top_p", "min_p", "repetition_penalty"), judge)


RULES = (
    temperature_not_positive,
    greedy_rollouts,
    generation_kwargs_override_sampling,
    several_sequences_per_prompt,
    beam_search_rollouts,
    top_k_minus_one_without_vllm,
    generation_config_wins,
    sampling_narrowed,
)
