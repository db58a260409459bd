"""Dataset and template: columns, types, streaming, and what the chat template makes of the prompts."""

import re

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView, as_mapping
from grpo_rlvr.errors import nearest

_USUAL_PROMPTS = (
    "question", "problem", "query", "instruction", "input", "messages", "prompts", "text", "conversations",
)  # fmt: skip
# What people pass instead of a Dataset; a type that is not among them is taken to be one.
_OTHER_TYPES = re.compile(
    r"dict|\blist\b|list\[|data ?frame|pandas|polars|tuple|generator|data ?loader|torch|numpy|\bstr(ing)?\b|\bpath\b",
    re.I,
)
EOS_NAMES = ("eos", "eos_token", "eos_token_id")
TURN_END_NAMES = ("turn_end", "turn_end_token", "eot", "eot_token", "eot_id", "end_of_turn", "turn_end_id")
_ROLE = re.compile(r"role['\"]?\s*[:=]\s*['\"](\w+)")
_TEMPLATED = re.compile(r"templat|<\|begin_of_text\|>|<bos>|\bBOS\b|<s>|<\|im_start\|>|<start_of_turn>", re.I)
_BOS = re.compile(r"\bBOS\b|begin_of_text|<s>|<bos>", re.I)
_INSTRUCT_NAME = re.compile(r"instruct|chat|[-_]it\b|thinking|zephyr", re.I)
_ASSISTANT_END = re.compile(
    r"\b(end|ends|ending|last|final|trailing|finish\w*|clos\w+)\b.*\bassistant\b|"
    r"\bassistant\b.*\b(last|prefill\w*|prefix|at the end|final|ending|turn)\b",
    re.I,
)
_TOKENIZER = {"eos": "<|end|>", "turn_end": "<|end|>"}
_STRING = {"columns": ["prompt"], "format": "string"}
_CHAT = {"columns": ["prompt"], "format": "conversational"}


@rule(
    "prompt-column-missing",
    severity="error",
    what="The dataset has no prompt column.",
    why="The trainer reads prompt and nothing else, and raises KeyError at the first step, after the model has been "
    "loaded.",
    bad=Example({}, {"dataset": {"columns": ["question", "answer"]}}),
    good=Example({}, {"dataset": {"columns": ["prompt", "answer"]}}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
)
def prompt_column_missing(facts: Facts) -> Outcome:
    if facts.columns is None:
        return not_applicable("dataset.columns is not stated")
    environment = facts.setup.get("environment_factory")
    if "prompt" in facts.columns or (environment and facts.trl_is(">=1.9")):
        return PASS
    usual = next((name for name in _USUAL_PROMPTS if name in facts.columns), None)
    hint = f"Rename {usual} to prompt" if usual else "Rename the column that holds it to prompt"
    if usual in ("messages", "conversations"):
        hint = f"Map {usual}, without its final assistant turn, to prompt"
    return fail(
        "dataset.columns",
        value=list(facts.columns),
        message=f"The columns are {', '.join(facts.columns) or 'none'}, and TRL reads prompts from a column called "
        f"prompt{nearest('prompt', facts.columns)}. {hint}.",
    )


@rule(
    "dataset-type-refused",
    severity="error",
    what="train_dataset is no Dataset and no IterableDataset.",
    why="A DatasetDict (load_dataset without split), a list or a data frame raises when the trainer is built or "
    "iterates over it.",
    bad=Example({}, {"dataset": {"type": "DatasetDict"}}),
    good=Example({}, {"dataset": {"type": "Dataset"}}),
    sources=("huggingface/trl#6432", "huggingface/trl:trl/trainer/grpo_trainer.py"),
)
def dataset_type_refused(facts: Facts) -> Outcome:
    kind = facts.text("dataset.type")
    if kind is None:
        return not_applicable("dataset.type is not stated")
    if not _OTHER_TYPES.search(kind):
        return PASS
    split = " Choose a split, for example dataset['train']." if "dict" in kind.lower() else ""
    return fail(
        "dataset.type",
        value=kind,
        message=f"train_dataset is a {kind}; TRL takes a Dataset or an IterableDataset.{split}",
    )


@rule(
    "streaming-refused",
    severity="error",
    trl="<1.9",
    what="A streaming dataset with a TRL version that cannot group it.",
    why="From 0.17 to 1.8 the trainer refuses it; before, the completions of one prompt were silently not kept "
    "together, so advantages compared different prompts.",
    bad=Example({"max_steps": 10}, {"dataset": {"streaming": True}}),
    good=Example({"max_steps": 10}, {"dataset": {"streaming": False}}),
    sources=("huggingface/trl#3213", "huggingface/trl#2942"),
)
def streaming_refused(facts: Facts) -> Outcome:
    if not streams(facts):
        return PASS
    what = "refuses iterable datasets" if facts.trl_is(">=0.17") else "takes the groups apart"
    return fail(
        "dataset.streaming",
        "dataset.type",
        value=True,
        message=f"The dataset streams, and TRL {facts.versions.trl} {what}. Load it without streaming, or use "
        "trl>=1.9.",
    )


@rule(
    "streaming-without-max-steps",
    severity="error",
    what="A streaming dataset without max_steps.",
    why="It has no length, so the number of steps cannot be derived and the trainer raises ValueError when it is "
    "built.",
    bad=Example({}, {"dataset": {"streaming": True}}),
    good=Example({"max_steps": 500}, {"dataset": {"streaming": True}}),
    sources=("huggingface/trl#6432",),
    requires=("streaming-refused",),
)
def streaming_without_max_steps(config: ConfigView, facts: Facts) -> Outcome:
    steps = config.number("max_steps")
    if not streams(facts) or (steps is not None and steps > 0):
        return PASS
    return fail(
        "max_steps",
        "dataset.streaming",
        value=steps,
        message=f"The dataset streams and max_steps is {'unset' if steps is None else f'{steps:g}'}, so the length of "
        "the run is unknown. Set max_steps.",
    )


@rule(
    "streaming-dispatched",
    severity="error",
    trl=">=1.9",
    what="accelerator_config.dispatch_batches is on for a streaming dataset.",
    why="The trainer raises ValueError when it is built: groups must be read by each process itself.",
    bad=Example({"accelerator_config": {"dispatch_batches": True}, "max_steps": 5}, {"dataset": {"streaming": True}}),
    good=Example({"max_steps": 5}, {"dataset": {"streaming": True}}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
)
def streaming_dispatched(config: ConfigView, facts: Facts) -> Outcome:
    if not streams(facts) or as_mapping(config.effective("accelerator_config")).get("dispatch_batches") is not True:
        return PASS
    return fail(
        "accelerator_config",
        "accelerator_config.dispatch_batches",
        "dataset.streaming",
        value=True,
        message="accelerator_config.dispatch_batches=True cannot be used with a streaming dataset. Remove it.",
    )


def streams(facts: Facts) -> bool:
    """Return whether the dataset is stated to stream."""
    kind = (facts.text("dataset.type") or "").lower()
    return facts.setup.get("dataset.streaming") is True or "iterable" in kind or kind.startswith("stream")


def is_instruct(facts: Facts) -> bool:
    """Return whether the setup states that the model is instruction-tuned."""
    kind = (facts.text("model.name_kind") or "").lower()
    return kind not in ("", "base", "pretrained", "pt") or (not kind and facts.setup.get("model.thinking") is True)


def templated(facts: Facts) -> bool:
    """Return whether the prompts are stated to carry the chat template already."""
    return bool(_TEMPLATED.search(facts.text("dataset.prompts") or ""))


@rule(
    "instruct-model-without-template",
    severity="warning",
    what="Plain text prompts for an instruction-tuned model.",
    why="TRL applies the chat template to message prompts only, so the model is sampled outside the format it was "
    "tuned on: it rambles on, seldom ends its turn, and the reward measures that.",
    bad=Example({}, {"model": {"name_kind": "instruct"}, "dataset": _STRING}),
    good=Example({}, {"model": {"name_kind": "instruct"}, "dataset": _CHAT}),
    sources=("huggingface/trl#3520",),
)
def instruct_model_without_template(facts: Facts) -> Outcome:
    if facts.text("dataset.format") != "string":
        return PASS
    if not is_instruct(facts):
        return not_applicable("model.name_kind is not stated to be instruct")
    if templated(facts):
        return PASS
    return fail(
        "dataset.format",
        "model.name_kind",
        "dataset.prompts",
        value="string",
        message="The prompts are plain texts and the model is instruction-tuned, so no chat template is applied. "
        "Give each prompt as messages: [{'role': 'user', 'content': ...}].",
    )


@rule(
    "instruct-name-without-template",
    severity="info",
    what="Plain text prompts for a model whose name says that it is instruction-tuned.",
    why="TRL applies the chat template to message prompts only. Continuing plain text can be what is wanted, as in "
    "TRL's own quick start; for a task with instructions give messages.",
    bad=Example({}, {"model": {"name": "org/Model-1B-Instruct"}, "dataset": _STRING}),
    good=Example({}, {"model": {"name": "org/Model-1B-Instruct"}, "dataset": _CHAT}),
    sources=("huggingface/trl#3520", "huggingface/trl:docs/source/grpo_trainer.md"),
    requires=("instruct-model-without-template",),
)
def instruct_name_without_template(facts: Facts) -> Outcome:
    name = facts.text("model.name") or ""
    if facts.text("dataset.format") != "string" or facts.text("model.name_kind") or templated(facts):
        return PASS
    if not _INSTRUCT_NAME.search(name):
        return PASS
    return fail(
        "dataset.format",
        "model.name",
        value="string",
        message=f"The prompts are plain texts, so {name} is sampled without its chat template.",
    )


@rule(
    "template-applied-twice",
    severity="warning",
    what="Prompts are texts to which the chat template was applied beforehand.",
    why="The tokenizer adds its own beginning-of-sequence token to a text that carries one already, so every prompt "
    "starts with two, which the model never saw.",
    bad=Example({}, {"dataset": {**_STRING, "prompts": "chat template already applied, with BOS"}}),
    good=Example({}, {"dataset": _CHAT}),
    sources=("huggingface/trl#3856",),
)
def template_applied_twice(facts: Facts) -> Outcome:
    said = facts.text("dataset.prompts") or ""
    if facts.text("dataset.format") == "conversational" or not templated(facts):
        return PASS
    if facts.model_class == "vlm" and _has_images(facts):
        return not_applicable("images with plain texts are another finding")
    tokenizer = as_mapping(facts.setup.get("model.tokenizer"))
    names = ("adds_bos", "add_bos", "add_bos_token", "bos", "bos_token")
    adds = [tokenizer[name] for name in names if name in tokenizer]
    if adds and not any(adds) and not _BOS.search(said):
        return PASS
    return fail(
        "dataset.prompts",
        "dataset.format",
        "model.tokenizer",
        value=said,
        message=f"The prompts are texts with the template applied ({said}), and the tokenizer adds its special tokens "
        "again. Give messages and leave the template to TRL, or strip the leading token.",
    )


@rule(
    "prompt-ends-with-assistant",
    severity="error",
    what="Conversational prompts end with an assistant turn.",
    why="TRL does not continue it: it closes the turn and opens a second assistant header, so a prefill is not what "
    "the model goes on from.",
    bad=Example({}, {"dataset": {**_CHAT, "prompts": "last message is from the assistant"}}),
    good=Example({}, {"dataset": {**_CHAT, "prompts": "last message is from the user"}}),
    sources=("huggingface/trl:docs/source/grpo_trainer.md",),
)
def prompt_ends_with_assistant(facts: Facts) -> Outcome:
    stated = facts.setup.get("dataset.prompts")
    said = stated if isinstance(stated, str) else str(stated or "")
    roles = _ROLE.findall(said)
    ends = roles[-1] == "assistant" if roles else bool(_ASSISTANT_END.search(said))
    if facts.text("dataset.format") == "string" or not ends:
        return PASS
    if not roles and re.search(r"\b(no|without|not|never|strip\w*|removed?)\b", said, re.I):
        return PASS
    return fail(
        "dataset.prompts",
        "dataset.format",
        value=said,
        message=f"The prompts end with an assistant turn ({said}), which TRL does not continue. End them with the "
        "user's turn, or write the prefill into the chat template.",
    )


@rule(
    "chat-template-missing",
    severity="error",
    what="Conversational prompts and a tokenizer without a chat template.",
    why="apply_chat_template raises ValueError at the first step.",
    bad=Example({}, {"model": {"tokenizer": {"chat_template": None}}, "dataset": _CHAT}),
    good=Example({}, {"model": {"tokenizer": {"chat_template": "{{ messages }}"}}, "dataset": _CHAT}),
    sources=("huggingface/transformers:src/transformers/tokenization_utils_base.py",),
)
def chat_template_missing(facts: Facts) -> Outcome:
    if facts.text("dataset.format") != "conversational":
        return PASS
    tokenizer = facts.setup.get("model.tokenizer")
    if not isinstance(tokenizer, dict) or "chat_template" not in tokenizer:
        return not_applicable("model.tokenizer.chat_template is not stated")
    if tokenizer["chat_template"]:
        return PASS
    return fail(
        "model.tokenizer.chat_template",
        "dataset.format",
        value=None,
        message="The prompts are messages and the tokenizer has no chat template. Set tokenizer.chat_template, or "
        "give the prompts as texts.",
    )


@rule(
    "turn-end-not-counted-as-end",
    severity="error",
    trl="<1.14.2",
    what="The model ends its turns with another token than the tokenizer's EOS.",
    why="Before 1.14.2 only the tokenizer's EOS counts as an end: finished replies are seen as truncated, trained on "
    "their padding, and masked out altogether with mask_truncated_completions.",
    bad=Example({}, {"model": {"tokenizer": {**_TOKENIZER, "eos": "</s>"}}, "versions": {"trl": "1.14.1"}}),
    good=Example({}, {"model": {"tokenizer": _TOKENIZER}, "versions": {"trl": "1.10.0"}}),
    sources=("huggingface/trl#7039", "trl wheels 1.14.1 and 1.14.2"),
)
def turn_end_not_counted_as_end(config: ConfigView, facts: Facts) -> Outcome:
    tokenizer = as_mapping(facts.setup.get("model.tokenizer"))
    eos = next((tokenizer[name] for name in EOS_NAMES if tokenizer.get(name)), None)
    turn_end = next((tokenizer[name] for name in TURN_END_NAMES if tokenizer.get(name)), None)
    if not eos or not turn_end:
        return not_applicable("model.tokenizer does not state eos and turn_end")
    if eos == turn_end or facts.text("dataset.format") == "string":
        return PASS
    masked = config.exists("mask_truncated_completions") and config.flag("mask_truncated_completions")
    effect = "and then masked out, so nothing is left to train on" if masked else "and their padding is trained on"
    return fail(
        "model.tokenizer.eos",
        "model.tokenizer.turn_end",
        "mask_truncated_completions",
        value=eos,
        message=f"Replies end with {turn_end} but the tokenizer's EOS is {eos}: TRL {facts.versions.trl} sees them as "
        f"truncated, {effect}. Set tokenizer.eos_token={turn_end!r}, or use trl>=1.14.2.",
    )


@rule(
    "prompt-limit-strips-template",
    severity="error",
    trl="==0.19.0",
    what="A prompt limit with vLLM in the release that rebuilds prompts without their special tokens.",
    why="TRL 0.19.0 truncates by decoding the prompt without special tokens before it goes to vLLM, so the chat "
    "markers are lost and the model answers another prompt than the one that is scored.",
    bad=Example({"use_vllm": True, "vllm_mode": "server"}, {"versions": {"trl": "0.19.0"}, "dataset": _CHAT}),
    good=Example(
        {"use_vllm": True, "vllm_mode": "server", "max_prompt_length": None},
        {"versions": {"trl": "0.19.0"}, "dataset": _CHAT},
    ),
    sources=("huggingface/trl#3644", "unslothai/unsloth#2980"),
    fix_safety="Prompts are no longer cut, so filter long ones first.",
)
def prompt_limit_strips_template(config: ConfigView, facts: Facts) -> Outcome:
    limit = config.effective("max_prompt_length")
    if limit is None or not facts.use_vllm or facts.text("dataset.format") == "string":
        return PASS
    return fail(
        "max_prompt_length",
        value=limit,
        message=f"max_prompt_length={limit} makes TRL 0.19.0 drop the chat template's special tokens from what vLLM "
        "gets. Set it to None and filter long prompts beforehand, or upgrade.",
        set={"max_prompt_length": None},
    )


def _has_images(facts: Facts) -> bool:
    return bool({"image", "images"} & set(facts.columns or ())) or facts.setup.get("dataset.images") is not None


RULES = (
    prompt_column_missing,
    dataset_type_refused,
    streaming_refused,
    streaming_without_max_steps,
    streaming_dispatched,
    instruct_model_without_template,
    instruct_name_without_template,
    template_applied_twice,
    prompt_ends_with_assistant,
    chat_template_missing,
    turn_end_not_counted_as_end,
    prompt_limit_strips_template,
)
