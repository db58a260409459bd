"""What generates the completions: options that the backend in use does not have, and what it needs to run."""

from difflib import get_close_matches

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView, as_mapping

VLLM = {"use_vllm": True, "vllm_mode": "colocate"}
# Names that generate() takes and vLLM's SamplingParams does not, with what vLLM calls the same thing.
FOR_GENERATE: dict[str, str] = {
    "max_new_tokens": "max_completion_length",
    "min_new_tokens": "min_tokens",
    "eos_token_id": "stop_token_ids",
    "stop_strings": "stop",
    **dict.fromkeys(
        (
            "max_length", "min_length", "max_time", "do_sample", "num_beams", "num_beam_groups", "penalty_alpha",
            "early_stopping", "diversity_penalty", "pad_token_id", "bos_token_id", "forced_bos_token_id",
            "forced_eos_token_id", "decoder_start_token_id", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
            "typical_p", "epsilon_cutoff", "eta_cutoff", "top_h", "use_cache", "cache_implementation",
            "cache_config", "suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "sequence_bias",
            "renormalize_logits", "remove_invalid_values", "exponential_decay_length_penalty", "guidance_scale",
            "token_healing", "output_scores", "output_logits", "output_attentions", "output_hidden_states",
            "return_dict_in_generate", "watermarking_config", "assistant_model", "logits_processor",
            "stopping_criteria", "num_return_sequences",
        ),
        "",
    ),
}  # fmt: skip
# Names that vLLM takes and generate() does not: GenerationConfig keeps them as attributes that nothing reads.
FOR_VLLM: dict[str, str] = {
    "max_tokens": "max_completion_length",
    "min_tokens": "min_new_tokens",
    "stop_token_ids": "eos_token_id",
    "stop": "stop_strings",
    "bad_words": "bad_words_ids",
    **dict.fromkeys(
        (
            "ignore_eos", "presence_penalty", "frequency_penalty", "seed", "logit_bias", "allowed_token_ids",
            "include_stop_str_in_output", "structured_outputs", "guided_decoding", "skip_special_tokens",
            "spaces_between_special_tokens", "truncate_prompt_tokens", "detokenize",
        ),
        "",
    ),
}  # fmt: skip
# What both know by the same name, and the rest of what one of the two takes: a near miss of any of these is a typo.
COMMON = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "length_penalty", "logits_processors")
ELSE = (
    "n", "best_of", "logprobs", "prompt_logprobs", "flat_logprobs", "output_kind", "extra_args", "compile_config",
    "constraints", "disable_compile", "dola_layers", "encoder_repetition_penalty", "force_words_ids", "low_memory",
    "max_cache_len", "num_assistant_tokens", "prefill_chunk_size", "prompt_lookup_num_tokens", "synced_gpus",
    "prefix_allowed_tokens_fn", "tokenizer", "streamer", "continuous_batching_config",
)  # fmt: skip
TYPO = 0.85
# Options of GRPOConfig that no backend knows by that name.
OF_CONFIG = ("max_completion_length", "max_prompt_length", "num_generations", "generation_batch_size")
PAD_NAMES = ("pad_token", "pad", "pad_token_id")


def _advice(names: list[str], known: dict[str, str]) -> str:
    said = [f"{known[name]} for {name}" for name in names if known.get(name)]
    return f" Here it is {', '.join(said)}." if said else ""


@rule(
    "generation-kwargs-unknown-to-vllm",
    severity="error",
    trl=">=0.19",
    what="generation_kwargs holds options of model.generate while vLLM generates.",
    why="They are passed to vLLM's SamplingParams, which raises TypeError for a name that it does not have, at the "
    "first rollout.",
    bad=Example({**VLLM, "generation_kwargs": {"max_new_tokens": 512}}),
    good=Example({**VLLM, "generation_kwargs": {"stop_token_ids": [151645]}}),
    sources=("trl/generation/vllm_generation.py", "vllm/sampling_params.py"),
    requires=("greedy-rollouts", "several-sequences-per-prompt"),
    fix_safety="Safe: with the option the first rollout fails.",
)
def generation_kwargs_unknown_to_vllm(config: ConfigView, facts: Facts) -> Outcome:
    # From 1.11 on a server is vLLM's own, which passes over what it does not know.
    if not (facts.colocate or (facts.server and facts.trl_is("<1.11"))):
        return PASS
    extra = config.mapping("generation_kwargs")
    wrong = [name for name in extra if name in FOR_GENERATE or name in OF_CONFIG]
    if not wrong:
        return PASS
    rest = {name: value for name, value in extra.items() if name not in wrong}
    return fail(
        *(f"generation_kwargs.{name}" for name in wrong),
        "generation_kwargs",
        value={name: extra[name] for name in wrong},
        message=f"vLLM's SamplingParams has no {', '.join(wrong)}, so the first rollout raises TypeError: take it out "
        f"of generation_kwargs.{_advice(wrong, FOR_GENERATE)}",
        set={"generation_kwargs": rest} if rest else {},
        unset=() if rest else ("generation_kwargs",),
        safe=True,
    )


@rule(
    "generation-kwargs-not-read",
    severity="warning",
    trl=">=0.19",
    what="generation_kwargs holds options that model.generate does not have.",
    why="GenerationConfig keeps unknown names as attributes and nothing reads them: completions are neither stopped "
    "nor cut as asked, without a word.",
    bad=Example({"generation_kwargs": {"stop_token_ids": [151645]}}),
    good=Example({"generation_kwargs": {"eos_token_id": [151645, 151643]}}),
    sources=("transformers/generation/configuration_utils.py", "trl/trainer/grpo_trainer.py"),
    requires=("several-sequences-per-prompt",),
    fix_safety="Safe: nothing reads the option.",
)
def generation_kwargs_not_read(config: ConfigView, facts: Facts) -> Outcome:
    if facts.use_vllm:
        return PASS
    extra = config.mapping("generation_kwargs")
    wrong = [name for name in extra if name in FOR_VLLM or name in OF_CONFIG]
    if not wrong:
        return PASS
    rest = {name: value for name, value in extra.items() if name not in wrong}
    own = [name for name in wrong if name in OF_CONFIG and config.exists(name)]
    aside = f" {', '.join(own)} is an option of GRPOConfig itself." if own else ""
    return fail(
        *(f"generation_kwargs.{name}" for name in wrong),
        "generation_kwargs",
        *own,
        value={name: extra[name] for name in wrong},
        message=f"model.generate has no {', '.join(wrong)} and passes over it silently.{aside}"
        f"{_advice(wrong, FOR_VLLM)}",
        set={"generation_kwargs": rest} if rest else {},
        unset=() if rest else ("generation_kwargs",),
        safe=True,
    )


@rule(
    "generation-kwargs-misspelled",
    severity="error",
    trl=">=0.19",
    what="A name in generation_kwargs is one letter or two off what a backend knows.",
    why="vLLM raises TypeError at the first rollout; model.generate keeps the unknown name and nothing reads it.",
    bad=Example({"generation_kwargs": {"repetition_penality": 1.1}}),
    good=Example({"generation_kwargs": {"bad_words_ids": [[5]]}}),
    sources=("measured on trl 1.16.0",),
    fix_safety="A guess at what was meant.",
)
def generation_kwargs_misspelled(config: ConfigView) -> Outcome:
    extra = config.mapping("generation_kwargs")
    known = (*COMMON, *ELSE, *FOR_GENERATE, *FOR_VLLM, *OF_CONFIG)
    near = {name: get_close_matches(name, known, n=1, cutoff=TYPO) for name in extra if name not in known}
    meant = {name: found[0] for name, found in near.items() if found}
    if not meant:
        return PASS
    said = ", ".join(f"{wrong} (did you mean {right}?)" for wrong, right in meant.items())
    return fail(
        *(f"generation_kwargs.{name}" for name in meant),
        "generation_kwargs",
        value={name: extra[name] for name in meant},
        message=f"No backend has {said}.",
        set={"generation_kwargs": {meant.get(name, name): value for name, value in extra.items()}},
    )


@rule(
    "template-options-without-messages",
    severity="warning",
    what="chat_template_kwargs with prompts that are plain text.",
    why="Only messages go through the chat template: the options (enable_thinking and the like) have no effect.",
    bad=Example({"chat_template_kwargs": {"enable_thinking": False}}, {"dataset": {"format": "string"}}),
    good=Example({"chat_template_kwargs": {"enable_thinking": False}}, {"dataset": {"format": "conversational"}}),
    sources=("trl/trainer/grpo_trainer.py",),
)
def template_options_without_messages(config: ConfigView, facts: Facts) -> Outcome:
    given = config.mapping("chat_template_kwargs") if config.exists("chat_template_kwargs") else {}
    if not given or facts.text("dataset.format") != "string":
        return PASS
    # These bring messages of their own, or render what they are given.
    if facts.setup.get("environment_factory") or facts.setup.get("trainer.rollout_func"):
        return PASS
    return fail(
        "chat_template_kwargs",
        "dataset.format",
        value=dict(given),
        message=f"Prompts are plain text, so chat_template_kwargs ({', '.join(map(str, given))}) has no effect: give "
        "prompts as messages, or render the template yourself.",
    )


@rule(
    "structured-outputs-given-twice",
    severity="warning",
    trl=">=0.19",
    what="vLLM's structured outputs are set by an option and in generation_kwargs.",
    why="One of the two counts: the option from 0.29 on, generation_kwargs before.",
    bad=Example(
        {**VLLM, "vllm_structured_outputs_regex": "a+", "generation_kwargs": {"structured_outputs": {"regex": "b+"}}}
    ),
    good=Example({**VLLM, "vllm_structured_outputs_regex": "a+"}),
    sources=("trl/generation/vllm_generation.py",),
)
def structured_outputs_given_twice(config: ConfigView, facts: Facts) -> Outcome:
    extra = config.mapping("generation_kwargs")
    options = ("vllm_structured_outputs_regex", "vllm_guided_decoding_regex")
    own = next((name for name in options if config.exists(name) and config.effective(name)), None)
    given = next((name for name in ("structured_outputs", "guided_decoding") if extra.get(name)), None)
    if own is None or given is None or not facts.use_vllm:
        return PASS
    counts, lost = (
        (own, f"generation_kwargs.{given}") if facts.trl_is(">=0.29") else (f"generation_kwargs.{given}", own)
    )
    return fail(
        own,
        f"generation_kwargs.{given}",
        "generation_kwargs",
        value=config.effective(own),
        message=f"{own} and generation_kwargs.{given} are both set; {counts} counts. Remove {lost}.",
    )


@rule(
    "top-k-null-with-vllm",
    severity="error",
    trl=">=0.28",
    what="top_k is null while vLLM generates in the training process.",
    why="Null meant no limit up to 0.27; since then TRL hands the value on as it is, and vLLM's SamplingParams "
    "compares it with a number: TypeError at the first rollout.",
    bad=Example({**VLLM, "top_k": None}),
    good=Example({**VLLM, "top_k": 0}),
    sources=("trl wheels 0.27 and 0.28", "vllm/sampling_params.py"),
    fix_safety="Safe: 0 asks for the same.",
)
def top_k_null_with_vllm(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.colocate or not config.has("top_k") or config.effective("top_k") is not None:
        return PASS
    return fail(
        "top_k", value=None, message="top_k=None is no number for vLLM: write top_k=0.", set={"top_k": 0}, safe=True
    )


@rule(
    "colocated-vllm-without-generation-kwargs",
    severity="error",
    trl="==0.19.0",
    what="vLLM in the training process and no generation_kwargs, in the release that wants a dict there.",
    why="It updates the sampling options with None: TypeError at the first rollout. 0.19.1 looks first.",
    bad=Example({**VLLM, "max_prompt_length": None}, {"versions": {"trl": "0.19.0"}}),
    good=Example({**VLLM, "max_prompt_length": None, "generation_kwargs": {}}, {"versions": {"trl": "0.19.0"}}),
    sources=("huggingface/trl#3633", "trl wheels 0.19.0 and 0.19.1"),
    fix_safety="Safe: an empty dict changes nothing.",
)
def colocated_vllm_without_generation_kwargs(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.colocate or config.effective("generation_kwargs") is not None:
        return PASS
    return fail(
        "generation_kwargs",
        "vllm_mode",
        "versions.trl",
        value=None,
        message="TRL 0.19.0 fails on generation_kwargs=None with colocated vLLM: set generation_kwargs={}, or use "
        "trl>=0.19.1.",
        set={"generation_kwargs": {}},
        safe=True,
    )


@rule(
    "pad-token-missing",
    severity="error",
    trl="<0.17",
    what="The tokenizer has no pad token, in a release that does not choose one.",
    why="Prompts are padded to one length at the first step, and the tokenizer raises ValueError. From 0.17 on TRL "
    "takes the end-of-sequence token.",
    bad=Example({}, {"model": {"tokenizer": {"pad_token": None}}, "versions": {"trl": "0.16.0"}}),
    good=Example({}, {"model": {"tokenizer": {"pad_token": "<pad>"}}, "versions": {"trl": "0.16.0"}}),
    sources=("huggingface/trl#3287", "huggingface/trl#3290"),
)
def pad_token_missing(facts: Facts) -> Outcome:
    tokenizer = as_mapping(facts.setup.get("model.tokenizer"))
    stated = [name for name in PAD_NAMES if name in tokenizer]
    if not stated:
        return not_applicable("model.tokenizer.pad_token is not stated")
    if any(tokenizer[name] is not None and tokenizer[name] != "" for name in stated):
        return PASS
    return fail(
        f"model.tokenizer.{stated[0]}",
        "model.tokenizer",
        value=None,
        message=f"TRL {facts.versions.trl} pads prompts and this tokenizer has no pad token. Set tokenizer.pad_token ="
        " tokenizer.eos_token and pass it as processing_class, or use trl>=0.17.",
    )


RULES = (
    generation_kwargs_unknown_to_vllm,
    generation_kwargs_not_read,
    generation_kwargs_misspelled,
    template_options_without_messages,
    structured_outputs_given_twice,
    top_k_null_with_vllm,
    colocated_vllm_without_generation_kwargs,
    pad_token_missing,
)
