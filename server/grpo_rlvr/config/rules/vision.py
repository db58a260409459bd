"""Vision-language: explained here and refused at launch; what TRL itself supports, and where it breaks."""

import re

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView, judge_each

_MIXED = re.compile(r"mixed|different|various|varying|several|uneven|not (all )?the same|any size|heterogen", re.I)
_IMAGES = {"columns": ["prompt", "image"], "format": "conversational"}
_VLM = {"class": "vlm", "params_b": 3}


def has_images(facts: Facts) -> bool:
    """Return whether the dataset is stated to hold images."""
    columns = set(facts.columns or ())
    return bool({"image", "images"} & columns) or facts.setup.get("dataset.images") not in (None, False, 0)


@rule(
    "vision-language-run",
    severity="info",
    what="A vision-language model, or a dataset with images.",
    why="TRL trains such models from image columns since 0.20. This project checks the config but does not launch "
    "it: its gate reads texts only, and a reward that nobody could read must not start a run.",
    bad=Example({}, {"model": _VLM, "dataset": _IMAGES, "versions": {"trl": "1.16.0"}}),
    good=Example({}, {"model": {"class": "dense"}, "dataset": {"columns": ["prompt"]}}),
    sources=("huggingface/trl:examples/scripts/grpo_vlm.py",),
)
def vision_language_run(facts: Facts) -> Outcome:
    if facts.model_class != "vlm" and not has_images(facts):
        return PASS
    return fail(
        "model.class" if facts.model_class == "vlm" else "dataset.columns",
        value=facts.model_class or list(facts.columns or ()),
        message="A vision-language run: checked here, refused at launch. Train it with TRL's own GRPOTrainer, image "
        "columns and conversational prompts.",
    )


@rule(
    "images-not-supported-yet",
    severity="error",
    trl="<0.20",
    what="Images with a TRL version whose GRPO trainer is text only.",
    why="The image columns are ignored or break the processor: image support arrived in 0.20.",
    bad=Example({}, {"model": _VLM, "dataset": _IMAGES, "versions": {"trl": "0.19.1"}}),
    good=Example({}, {"model": {"class": "dense"}, "dataset": {"columns": ["prompt"]}, "versions": {"trl": "0.19.1"}}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
)
def images_not_supported_yet(facts: Facts) -> Outcome:
    if not has_images(facts):
        return PASS
    return fail(
        "dataset.columns",
        "model.class",
        "versions.trl",
        value=facts.versions.trl,
        message=f"The dataset holds images and GRPO in TRL {facts.versions.trl} takes texts only. Use trl>=0.20.",
    )


@rule(
    "images-with-text-prompts",
    severity="error",
    what="Images with prompts that are plain texts.",
    why="Placeholders are put into message contents, so the trainer raises ValueError at the first step; a template "
    "applied beforehand has no place for them.",
    bad=Example({}, {"model": _VLM, "dataset": {"columns": ["prompt", "image"], "format": "string"}}),
    good=Example({}, {"model": _VLM, "dataset": _IMAGES}),
    sources=("unslothai/unsloth#3975", "huggingface/trl:trl/trainer/grpo_trainer.py"),
    requires=("images-not-supported-yet",),
)
def images_with_text_prompts(facts: Facts) -> Outcome:
    if not has_images(facts) or facts.text("dataset.format") != "string":
        return PASS
    return fail(
        "dataset.format",
        "dataset.prompts",
        "dataset.columns",
        value="string",
        message="The dataset holds images and its prompts are plain texts; TRL needs messages there. Give each "
        "prompt as messages and leave the template to the trainer.",
    )


@rule(
    "images-with-text-model",
    severity="error",
    what="An image column with a model that is stated to be text only.",
    why="The trainer takes a text tokenizer for it, which cannot process images, and fails at the first step.",
    bad=Example({}, {"model": {"class": "dense"}, "dataset": _IMAGES}),
    good=Example({}, {"model": _VLM, "dataset": _IMAGES}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
    requires=("images-not-supported-yet",),
)
def images_with_text_model(facts: Facts) -> Outcome:
    if facts.model_class not in ("dense", "moe") or not {"image", "images"} & set(facts.columns or ()):
        return PASS
    return fail(
        "dataset.columns",
        "model.class",
        value=list(facts.columns or ()),
        message=f"The dataset has an image column and the model is {facts.model_class}. Drop the column, or train a "
        "vision-language model.",
    )


@rule(
    "both-image-columns",
    severity="warning",
    trl=">=0.22",
    what="The dataset has an image and an images column.",
    why="The trainer reads images and never looks at image.",
    bad=Example({}, {"model": _VLM, "dataset": {"columns": ["prompt", "image", "images"], "format": "conversational"}}),
    good=Example({}, {"model": _VLM, "dataset": _IMAGES}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
)
def both_image_columns(facts: Facts) -> Outcome:
    if not {"image", "images"} <= set(facts.columns or ()):
        return PASS
    return fail(
        "dataset.columns",
        value=list(facts.columns or ()),
        message="Both image and images are columns, and image is ignored. Keep one of them.",
    )


@rule(
    "continuous-batching-with-images",
    severity="error",
    what="transformers' continuous batching with a vision-language model.",
    why="The trainer raises ValueError when it is built: that generation path takes texts only.",
    bad=Example({"use_transformers_continuous_batching": True}, {"model": _VLM}),
    good=Example({}, {"model": _VLM}),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
    fix_safety="Rollouts come from generate() instead; the same policy, another speed.",
)
def continuous_batching_with_images(config: ConfigView, facts: Facts) -> Outcome:
    names = ("use_transformers_continuous_batching", "use_transformers_paged")
    used = judge_each(names, lambda name: name if config.exists(name) and config.flag(name) else None)
    if not used or facts.model_class != "vlm":
        return PASS
    return fail(
        used[0],
        "model.class",
        value=True,
        message=f"{used[0]} does not support vision-language models. Turn it off, or use vLLM.",
        set={used[0]: False},
    )


@rule(
    "image-sizes-mixed",
    severity="error",
    trl=">=0.29.1",
    what="Images of different sizes with vLLM, which gets expanded token ids and raw images separately.",
    why="The two disagree about the number of image tokens: a crash, or silently corrupted prompts.",
    bad=Example(
        {"use_vllm": True, "vllm_mode": "colocate"}, {"model": _VLM, "dataset": {**_IMAGES, "images": "mixed sizes"}}
    ),
    good=Example(
        {"use_vllm": True, "vllm_mode": "colocate"}, {"model": _VLM, "dataset": {**_IMAGES, "images": "448x448"}}
    ),
    sources=("huggingface/trl#6401", "trl wheels 0.29.0 and 0.29.1"),
)
def image_sizes_mixed(facts: Facts) -> Outcome:
    said = facts.text("dataset.images")
    if said is None:
        return not_applicable("dataset.images is not stated")
    if not facts.use_vllm or not _MIXED.search(said):
        return PASS
    return fail(
        "dataset.images",
        "vllm_mode",
        "use_vllm",
        value=said,
        message=f"The images have {said}, and vLLM gets token ids expanded for one size. Resize all images to one "
        "size, or set use_vllm=False.",
    )


@rule(
    "image-placeholder-sampled",
    severity="warning",
    trl=">=0.20,<0.22",
    what="A vision-language model may sample its own image placeholder.",
    why="The forward pass then finds more image tokens than features and raises.",
    bad=Example({}, {"model": _VLM, "dataset": _IMAGES, "versions": {"trl": "0.21.0"}}),
    good=Example(
        {"generation_kwargs": {"suppress_tokens": [32000]}},
        {"model": _VLM, "dataset": _IMAGES, "versions": {"trl": "0.21.0"}},
    ),
    sources=("huggingface/trl#3847",),
)
def image_placeholder_sampled(config: ConfigView, facts: Facts) -> Outcome:
    if facts.model_class != "vlm":
        return PASS
    if config.effective("generation_kwargs.suppress_tokens") or config.effective("generation_kwargs.bad_words_ids"):
        return PASS
    return fail(
        "generation_kwargs.suppress_tokens",
        "generation_kwargs",
        "model.class",
        message=f"TRL {facts.versions.trl} does not keep the model from sampling its image token. Add "
        "generation_kwargs={'suppress_tokens': [image_token_id]}, or use trl>=0.22.",
    )


@rule(
    "prompt-limit-cuts-images",
    severity="error",
    trl=">=0.20,<0.26",
    what="max_prompt_length cuts prompts with images.",
    why="The cut removes image tokens while the pixel features stay, so the forward pass finds a mismatch and raises.",
    bad=Example(
        {"max_prompt_length": 512},
        {"model": _VLM, "dataset": {**_IMAGES, "image_tokens": 1200}, "versions": {"trl": "0.24.0"}},
    ),
    good=Example(
        {"max_prompt_length": None},
        {"model": _VLM, "dataset": {**_IMAGES, "image_tokens": 1200}, "versions": {"trl": "0.24.0"}},
    ),
    sources=("unslothai/unsloth#2980", "huggingface/trl:trl/trainer/grpo_trainer.py"),
    fix_safety="Prompts are no longer cut, so filter long ones first.",
)
def prompt_limit_cuts_images(config: ConfigView, facts: Facts) -> Outcome:
    limit = config.integer("max_prompt_length")
    if limit is None or not facts.cuts_prompts or (facts.model_class != "vlm" and not has_images(facts)):
        return PASS
    stated = [facts.number("dataset.image_tokens"), facts.number("dataset.max_prompt_tokens")]
    longest = max((value for value in stated if value is not None), default=None)
    if longest is None:
        return not_applicable("neither dataset.image_tokens nor dataset.max_prompt_tokens is stated")
    if longest <= limit:
        return PASS
    return fail(
        "max_prompt_length",
        "dataset.image_tokens",
        "dataset.max_prompt_tokens",
        value=limit,
        message=f"Prompts with images reach {longest:g} tokens and max_prompt_length={limit} cuts into them. Set it "
        "to None.",
        set={"max_prompt_length": None},
    )


RULES = (
    vision_language_run,
    images_not_supported_yet,
    images_with_text_prompts,
    images_with_text_model,
    both_image_columns,
    continuous_batching_with_images,
    image_sizes_mixed,
    image_placeholder_sampled,
    prompt_limit_cuts_images,
)
