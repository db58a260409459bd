"""The completion cap: long enough for the task, short enough for the model's window."""

import re

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView

# Share of truncated completions from which the cap, not the task, decides the reward.
MANY_CLIPPED = 0.5
NEARLY_ALL_CLIPPED = 0.9
# Worked-out answers to grade-school problems take 150 to 700 tokens, thinking ones thousands: no cap up to this
# holds them.
SHORT_CAP = 512
# mask_truncated_completions with a cap this small masks any answer in words.
TINY_CAP = 64
_REASONING = re.compile(
    r"\b(?:math|maths|gsm8k|aime|amc|olympiad\w*|competition|codeforces|leetcode|reason\w*|proofs?|cot|chain[- ]of[- "
    "]thought|"
    r"step[- ]by[- ]step|gpqa|numina\w*|dapo[- ]?(?:math|17k)\w*|math[- ]?500)\b",
    re.IGNORECASE,
)
_THINKING_NAME = re.compile(r"(?:\br1\b|deepseek-r1|r1-distill|qwq|thinking|reasoner|magistral)", re.IGNORECASE)
# "600-700 tokens", "about 2k tokens", "2,000-token answers".
_TOKENS = re.compile(
    r"(\d[\d,.]*)\s*(k)?(?:\s*(?:-|–|to)\s*\d[\d,.]*\s*k?)?[\s-]+(?:completion |output |answer )?tokens?\b",
    re.IGNORECASE,
)
# How far before a number a word such as "prompts" still says what is counted.
_BEFORE = 30
GSM = {"dataset": {"task": "GSM8K step-by-step"}}


def tokens_needed(task: str) -> int | None:
    """Return the tokens that a task's description says an answer needs, the smaller end of a span."""
    found = []
    for match in _TOKENS.finditer(task):
        before = task[max(0, match.start() - _BEFORE) : match.start()].lower()
        digits = match[1].replace(",", "").rstrip(".")
        if "prompt" not in before and "question" not in before and digits.replace(".", "", 1).isdecimal():
            found.append(int(float(digits) * (1000 if match[2] else 1)))
    return max(found, default=None)


def thinks(facts: Facts, config: ConfigView) -> str | None:
    """Return why the model is taken to think at length before it answers, None when nothing says so."""
    stated = facts.setup.get("model.thinking")
    if stated is False or (str(stated).lower() in {"off", "false", "disabled", "none"} and stated is not None):
        return None
    if config.exists("chat_template_kwargs") and config.mapping("chat_template_kwargs").get("enable_thinking") is False:
        return None
    if stated:
        return "the setup calls it a thinking model"
    if "<think" in str(facts.setup.get("model.chat_template_prefills") or ""):
        return "its chat template opens <think>"
    if _THINKING_NAME.search(facts.text("model.name") or facts.text("model.path") or ""):
        return f"{facts.text('model.name') or facts.text('model.path')} is a thinking model"
    return None


def cap_too_low(config: ConfigView, facts: Facts) -> tuple[list[str], str] | None:
    """Return the fields and the reason when something stated says that the cap cuts answers off."""
    cap = config.integer("max_completion_length")
    if cap is None:
        return None
    clipped = facts.number("measured.clipped_ratio")
    if clipped is not None:
        said = f"clipped_ratio was measured at {clipped:g}: that share of completions never ended"
        return (["measured.clipped_ratio"], said) if clipped >= MANY_CLIPPED else None
    for name in ("free_generation_p50", "free_generation_p95"):
        length = facts.number(f"measured.{name}")
        if length is not None and length > cap:
            return [f"measured.{name}"], f"uncapped answers were measured at {length:g} tokens ({name[-3:]})"
    if facts.number("measured.free_generation_p95") is not None:
        return None
    task = facts.text("dataset.task") or ""
    needed = tokens_needed(task)
    if needed is not None:
        return (["dataset.task"], f"the task is said to need {needed} tokens") if needed > cap else None
    if cap <= SHORT_CAP and (reason := thinks(facts, config)):
        return ["model.thinking"], f"{reason}, and thinks for more than {cap} tokens"
    if cap <= SHORT_CAP and _REASONING.search(task):
        return ["dataset.task"], f"worked-out answers to '{task}' run longer than {cap} tokens"
    return None


@rule(
    "all-completions-masked",
    severity="error",
    what="mask_truncated_completions with a cap that nothing stays under.",
    why="Every completion is masked: gradient and entropy are 0 while reward_std still looks healthy.",
    bad=Example(
        {"mask_truncated_completions": True, "max_completion_length": 50}, {"measured": {"clipped_ratio": 1.0}}
    ),
    good=Example(
        {"mask_truncated_completions": True, "max_completion_length": 2048}, {"measured": {"clipped_ratio": 0.02}}
    ),
    sources=("huggingface/trl#3248",),
)
def all_completions_masked(config: ConfigView, facts: Facts) -> Outcome:
    if not config.flag("mask_truncated_completions"):
        return PASS
    clipped, median = facts.number("measured.clipped_ratio"), facts.number("measured.free_generation_p50")
    cap = config.integer("max_completion_length")
    needed = tokens_needed(facts.text("dataset.task") or "")
    if clipped is not None and clipped >= NEARLY_ALL_CLIPPED:
        reason = f"clipped_ratio {clipped:g}"
    elif clipped is None and cap is not None and needed is not None and needed > cap:
        reason = f"answers need {needed} tokens"
    elif clipped is None and cap is not None and median is not None and median > 2 * cap:
        reason = f"half of the uncapped answers exceed {median:g} tokens"
    else:
        return PASS
    return fail(
        "mask_truncated_completions",
        "max_completion_length",
        "measured.clipped_ratio",
        value=cap,
        message=f"max_completion_length={cap} with {reason}: everything is masked and nothing is trained. Raise the "
        "cap until "
        "clipped_ratio falls well below 1.",
    )


@rule(
    "completion-cap-too-low",
    severity="warning",
    requires=("all-completions-masked",),
    what="max_completion_length cuts answers off before they end.",
    why="A cut answer has no final result, so the verifier pays 0 for nearly everything and nothing is learned.",
    bad=Example({"max_completion_length": 256}, GSM),
    good=Example({"max_completion_length": 1024}, GSM),
    sources=(
        "huggingface/trl#5697",
        "huggingface/trl#6263",
        "greyhaven-ai/autocontext#1067",
        "modelscope/ms-swift#4950",
    ),
)
def completion_cap_too_low(config: ConfigView, facts: Facts) -> Outcome:
    found = cap_too_low(config, facts)
    if found is None:
        return PASS
    fields, reason = found
    cap = config.integer("max_completion_length")
    unset = "" if config.has("max_completion_length") else f" (the default of TRL {facts.versions.trl})"
    return fail(
        "max_completion_length",
        *fields,
        value=cap,
        message=f"max_completion_length={cap}{unset}: {reason}. Raise it until few completions are cut, and make "
        "sure the model "
        "emits its end-of-turn token.",
    )


@rule(
    "tiny-cap-with-masking",
    severity="warning",
    requires=("all-completions-masked", "completion-cap-too-low"),
    what="mask_truncated_completions with a very small max_completion_length and no measurement.",
    why="If answers do not end within the cap, all of them are masked and nothing is trained, silently.",
    bad=Example({"mask_truncated_completions": True, "max_completion_length": 32}),
    good=Example({"mask_truncated_completions": True, "max_completion_length": 1024}),
    sources=("huggingface/trl#3248",),
)
def tiny_cap_with_masking(config: ConfigView, facts: Facts) -> Outcome:
    cap = config.integer("max_completion_length")
    if not config.flag("mask_truncated_completions") or cap is None or cap > TINY_CAP:
        return PASS
    if facts.number("measured.clipped_ratio") is not None or facts.number("measured.free_generation_p50") is not None:
        return PASS
    return fail(
        "mask_truncated_completions",
        "max_completion_length",
        value=cap,
        message=f"max_completion_length={cap} with mask_truncated_completions: measure that answers end within {cap} "
        "tokens.",
    )


@rule(
    "no-completion-cap-without-vllm",
    severity="warning",
    what="max_completion_length is null with model.generate.",
    why="transformers then stops at its own default of about 20 new tokens.",
    bad=Example({"max_completion_length": None}),
    good=Example({"max_completion_length": 1024}),
    sources=("trl/trainer/grpo_trainer.py",),
)
def no_completion_cap_without_vllm(config: ConfigView, facts: Facts) -> Outcome:
    if config.effective("max_completion_length") is not None or facts.use_vllm:
        return PASS
    return fail(
        "max_completion_length",
        message="max_completion_length is null: model.generate stops after about 20 tokens. Set a number, e.g. 1024.",
    )


@rule(
    "prompt-beyond-model-window",
    severity="error",
    what="The longest prompt fills the model's position window.",
    why="vLLM rejects the request in the middle of training; model.generate runs past the trained positions.",
    bad=Example({}, {"model": {"max_position_embeddings": 4096}, "dataset": {"max_prompt_tokens": 5000}}),
    good=Example({}, {"model": {"max_position_embeddings": 4096}, "dataset": {"max_prompt_tokens": 3000}}),
    sources=("huggingface/open-r1#672",),
)
def prompt_beyond_model_window(facts: Facts) -> Outcome:
    window, prompt = facts.number("model.max_position_embeddings"), facts.sent_prompt_tokens
    if window is None or prompt is None:
        return not_applicable("model.max_position_embeddings or dataset.max_prompt_tokens is not stated")
    if prompt < window:
        return PASS
    return fail(
        "dataset.max_prompt_tokens",
        "model.max_position_embeddings",
        value=prompt,
        message=f"The longest prompt has {prompt} tokens and the model {window:g} positions: drop long prompts.",
    )


@rule(
    "sequence-beyond-model-window",
    severity="warning",
    requires=("prompt-beyond-model-window",),
    what="The longest prompt plus the completion cap exceed the model's position window.",
    why="Positions beyond the window were never trained: the end of long completions is noise, or generation stops.",
    bad=Example(
        {"max_completion_length": 4096},
        {"model": {"max_position_embeddings": 4096}, "dataset": {"max_prompt_tokens": 500}},
    ),
    good=Example(
        {"max_completion_length": 3072},
        {"model": {"max_position_embeddings": 4096}, "dataset": {"max_prompt_tokens": 500}},
    ),
    sources=("trl/trainer/grpo_trainer.py",),
)
def sequence_beyond_model_window(config: ConfigView, facts: Facts) -> Outcome:
    window, prompt = facts.number("model.max_position_embeddings"), facts.sent_prompt_tokens
    cap = config.integer("max_completion_length")
    if window is None or prompt is None or cap is None:
        return not_applicable("model.max_position_embeddings or dataset.max_prompt_tokens is not stated")
    if prompt + cap <= window:
        return PASS
    return fail(
        "max_completion_length",
        "dataset.max_prompt_tokens",
        "model.max_position_embeddings",
        value=cap,
        message=f"{prompt} prompt tokens + max_completion_length={cap} exceed the model's {window:g} positions.",
    )


@rule(
    "prompts-cut-at-the-left",
    severity="warning",
    trl="<0.26",
    what="max_prompt_length, 512 by default, is shorter than the longest prompt.",
    why="Only the last tokens are kept, so the system prompt and the start of the question are lost, without a word.",
    bad=Example({}, {"dataset": {"max_prompt_tokens": 900}, "versions": {"trl": "0.19.1"}}),
    good=Example({"max_prompt_length": 1024}, {"dataset": {"max_prompt_tokens": 900}, "versions": {"trl": "0.19.1"}}),
    sources=("trl/trainer/grpo_trainer.py", "huggingface/trl#4358"),
    fix_safety="Longer prompts take more memory; dropping the long rows is the other way.",
)
def prompts_cut_at_the_left(config: ConfigView, facts: Facts) -> Outcome:
    limit, prompt = config.integer("max_prompt_length"), facts.prompt_tokens
    if prompt is None:
        return not_applicable("dataset.max_prompt_tokens is not stated")
    # Prompts with images have a rule of their own.
    if limit is None or prompt <= limit or not facts.cuts_prompts or facts.model_class == "vlm":
        return PASS
    return fail(
        "max_prompt_length",
        "dataset.max_prompt_tokens",
        value=limit,
        message=f"The longest prompt has {prompt} tokens and max_prompt_length={limit} keeps the last {limit} only: "
        f"drop long rows, or set max_prompt_length={prompt}.",
        set={"max_prompt_length": prompt},
    )


RULES = (
    all_completions_masked,
    completion_cap_too_low,
    tiny_cap_with_masking,
    no_completion_cap_without_vllm,
    prompt_beyond_model_window,
    sequence_beyond_model_window,
    prompts_cut_at_the_left,
)
