"""What the trainer does with model_init_kwargs: keys that are not read, dtype words that are refused, old packages."""

import re

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, rule
from grpo_rlvr.config.view import ConfigView

# Names of torch dtypes. A loader writes torch.half as float16, so half here was text in the file.
TORCH_DTYPES = ("float32", "bfloat16", "float16", "float64", "half", "float", "double", "auto")
# What TRL itself takes as text since 0.26; torch.float64, which is no text in the file, is left alone.
ALIASES = {"half": "float16", "float": "float32", "double": "float64"}
SHORT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "f16": "float16", "f32": "float32", **ALIASES}
_NO_POLICY = re.compile(r"\w*(?:WithValueHead|ForSequenceClassification|ForTokenClassification)\b")
_NAMED = {"class": "dense", "instance": False}
_LOADED = {"model": {"instance": "PreTrainedModel"}}


def _given(config: ConfigView, facts: Facts) -> dict[str, object]:
    """Return model_init_kwargs where they are used: for a model that the trainer loads by name."""
    return {} if facts.instance or facts.unsloth else dict(config.mapping("model_init_kwargs"))


@rule(
    "policy-not-a-language-model",
    severity="error",
    what="The model object is a value-head wrapper or a classifier.",
    why="GRPO generates with the policy and reads its logits over the vocabulary: a wrapper lacks what the trainer "
    "asks a model for, and a classifier has no vocabulary. A value head is for PPO.",
    bad=Example({}, {"model": {"instance": "AutoModelForCausalLMWithValueHead.from_pretrained(name)"}}),
    good=Example({}, {"model": {"instance": "AutoModelForCausalLM.from_pretrained(name)"}}),
    sources=("huggingface/trl#3257",),
)
def policy_not_a_language_model(facts: Facts) -> Outcome:
    found = _NO_POLICY.search(facts.instance or "")
    if found is None:
        return PASS
    return fail(
        "model.instance",
        value=facts.instance,
        message=f"{found[0]} cannot be the policy of GRPO: load it with AutoModelForCausalLM (or pass its name).",
    )


@rule(
    "init-kwargs-refused-for-loaded-model",
    severity="error",
    trl="<0.22",
    what="model_init_kwargs with a model that is loaded already, in a release that refuses them.",
    why="The trainer raises ValueError when it is built. From 0.22 on it warns or passes over them.",
    bad=Example({"model_init_kwargs": {"torch_dtype": "bfloat16"}}, {**_LOADED, "versions": {"trl": "0.19.1"}}),
    good=Example({}, {**_LOADED, "versions": {"trl": "0.19.1"}}),
    sources=("trl wheels 0.14 to 0.22",),
    fix_safety="Safe: with them the run cannot start.",
)
def init_kwargs_refused_for_loaded_model(config: ConfigView, facts: Facts) -> Outcome:
    given = config.effective("model_init_kwargs")
    if facts.instance is None or given is None:
        return PASS
    return fail(
        "model_init_kwargs",
        "model.instance",
        value=given if isinstance(given, dict) else str(given),
        message=f"TRL {facts.versions.trl} refuses model_init_kwargs, since the model is an object ({facts.instance})."
        " Pass the model by name, or set these where it is loaded.",
        unset=["model_init_kwargs"],
        safe=True,
    )


@rule(
    "init-kwargs-for-loaded-model",
    severity="warning",
    trl=">=0.22",
    what="model_init_kwargs with a model that is loaded already.",
    why="They are ignored: dtype, attention implementation and revision are those of the loading code.",
    bad=Example({"model_init_kwargs": {"dtype": "bfloat16"}}, _LOADED),
    good=Example({}, _LOADED),
    sources=("huggingface/trl:trl/trainer/grpo_trainer.py",),
    fix_safety="Safe: they have no effect.",
)
def init_kwargs_for_loaded_model(config: ConfigView, facts: Facts) -> Outcome:
    given = config.effective("model_init_kwargs")
    if facts.instance is None:
        return PASS
    if facts.setup.get("trainer.quantization_config"):
        return fail(
            "trainer.quantization_config",
            "quantization_config",
            "model.instance",
            message=f"quantization_config is ignored, since the model is an object ({facts.instance}). Quantize it "
            "where it is loaded, or pass the model by name.",
        )
    if not given:
        return PASS
    return fail(
        "model_init_kwargs",
        "model.instance",
        value=given if isinstance(given, dict) else str(given),
        message=f"model_init_kwargs is ignored, since the model is an object ({facts.instance}). Pass the model by "
        "name, or set these where it is loaded.",
        unset=["model_init_kwargs"],
        safe=True,
    )


@rule(
    "quantization-config-given-twice",
    severity="error",
    trl=">=1.8",
    what="quantization_config for the trainer and in model_init_kwargs.",
    why="The trainer raises ValueError when it loads the model.",
    bad=Example(
        {"model_init_kwargs": {"quantization_config": {"load_in_4bit": True}}},
        {"model": _NAMED, "trainer": {"quantization_config": {"load_in_4bit": True}}},
    ),
    good=Example({}, {"model": _NAMED, "trainer": {"quantization_config": {"load_in_4bit": True}}}),
    sources=("trl wheel 1.8", "trl/trainer/grpo_trainer.py"),
)
def quantization_config_given_twice(config: ConfigView, facts: Facts) -> Outcome:
    if "quantization_config" not in _given(config, facts) or not facts.setup.get("trainer.quantization_config"):
        return PASS
    return fail(
        "model_init_kwargs.quantization_config",
        "model_init_kwargs",
        "trainer.quantization_config",
        message="quantization_config is given to GRPOTrainer and in model_init_kwargs: keep the one of GRPOTrainer.",
        set={"model_init_kwargs": {k: v for k, v in _given(config, facts).items() if k != "quantization_config"}},
    )


@rule(
    "weights-dtype-unknown",
    severity="error",
    what="A dtype in model_init_kwargs that nobody knows by that name.",
    why="Loading the model fails: torch has no such attribute, or TRL (0.26 and later), which takes float32, bfloat16, "
    "float16 and auto alone, raises ValueError.",
    bad=Example({"model_init_kwargs": {"dtype": "bf16"}}, {"model": _NAMED}),
    good=Example({"model_init_kwargs": {"dtype": "bfloat16"}}, {"model": _NAMED}),
    sources=("trl/trainer/utils.py", "trl/trainer/grpo_trainer.py"),
    fix_safety="Safe for a short form of one of the names.",
)
def weights_dtype_unknown(config: ConfigView, facts: Facts) -> Outcome:
    given = _given(config, facts)
    key = "dtype" if given.get("dtype") is not None else "torch_dtype"
    value = given.get(key)
    # Since 0.27 nothing reads torch_dtype, whatever it says.
    if not isinstance(value, str) or (key == "torch_dtype" and facts.trl_is(">=0.27")):
        return PASS
    name = value.removeprefix("torch.")
    strict = key == "dtype" and facts.trl_is(">=0.26")
    if name in TORCH_DTYPES and not (strict and name in ALIASES):
        return PASS
    meant = SHORT.get(name.lower(), name.lower() if name.lower() in TORCH_DTYPES else None)
    return fail(
        f"model_init_kwargs.{key}",
        "model_init_kwargs",
        value=value,
        message=f"model_init_kwargs: {key}={value!r} is none of float32, bfloat16, float16, auto."
        + (f" Write {meant!r}." if meant else ""),
        set={"model_init_kwargs": {**given, key: meant}} if meant else {},
        safe=meant is not None,
    )


@rule(
    "torch-dtype-not-read",
    severity="warning",
    trl=">=0.27",
    what="torch_dtype in model_init_kwargs, whose name is dtype now.",
    why="TRL fills in dtype='float32' where dtype is missing, and transformers prefers it over torch_dtype: the model "
    "is loaded in float32, twice the memory, without a word.",
    bad=Example({"model_init_kwargs": {"torch_dtype": "bfloat16"}}, {"model": _NAMED}),
    good=Example({"model_init_kwargs": {"dtype": "bfloat16"}}, {"model": _NAMED}),
    sources=("trl/trainer/utils.py", "measured on trl 1.16.0"),
    fix_safety="The model is then loaded as asked: right for a frozen base, not for a full fine-tune at small rates.",
)
def torch_dtype_not_read(config: ConfigView, facts: Facts) -> Outcome:
    given = _given(config, facts)
    value = given.get("torch_dtype")
    if value is None or given.get("dtype") is not None:
        return PASS
    if str(value).removeprefix("torch.") in ("float32", "float"):
        return PASS
    rest = {name: item for name, item in given.items() if name != "torch_dtype"}
    return fail(
        "model_init_kwargs.torch_dtype",
        "model_init_kwargs",
        "model_init_kwargs.dtype",
        value=str(value),
        message=f"TRL {facts.versions.trl} reads dtype, not torch_dtype, and loads the model in float32 here. Write "
        f"model_init_kwargs={{'dtype': {str(value).removeprefix('torch.')!r}}}.",
        set={"model_init_kwargs": {**rest, "dtype": value}},
    )


@rule(
    "dtype-key-of-newer-transformers",
    severity="error",
    what="dtype in model_init_kwargs with a transformers that calls it torch_dtype.",
    why="Before 4.56 from_pretrained hands an unknown key to the model class, which raises TypeError.",
    bad=Example(
        {"model_init_kwargs": {"dtype": "bfloat16"}},
        {"model": _NAMED, "versions": {"trl": "0.22.2", "transformers": "4.55.4"}},
    ),
    good=Example(
        {"model_init_kwargs": {"torch_dtype": "bfloat16"}},
        {"model": _NAMED, "versions": {"trl": "0.22.2", "transformers": "4.55.4"}},
    ),
    sources=("transformers wheels 4.55 and 4.56",),
    fix_safety="Safe: it is the older name of the same option.",
)
def dtype_key_of_newer_transformers(config: ConfigView, facts: Facts) -> Outcome:
    given = _given(config, facts)
    if given.get("dtype") is None or facts.versions.within("transformers", "<4.56") is not True:
        return PASS
    rest = {name: item for name, item in given.items() if name != "dtype"}
    # 0.23 and later fill in or convert dtype alone, so the other name is no way out there.
    usable = facts.trl_is("<0.23")
    return fail(
        "model_init_kwargs.dtype",
        "model_init_kwargs",
        "versions.transformers",
        value=str(given["dtype"]),
        message=f"transformers {facts.versions.get('transformers')} has no dtype in from_pretrained: "
        + ("write torch_dtype, or " if usable else "")
        + "install transformers>=4.56.",
        set={"model_init_kwargs": {**rest, "torch_dtype": given["dtype"]}} if usable else {},
        safe=usable,
    )


@rule(
    "hub-kernels-need-newer-transformers",
    severity="error",
    trl=">=1.16",
    what="use_kernels with transformers 5.2 or 5.3.",
    why="These releases pin a kernels package that cannot load the kernels; TRL raises ValueError.",
    bad=Example({"model_init_kwargs": {"use_kernels": True}}, {"versions": {"transformers": "5.3.0"}}),
    good=Example({"model_init_kwargs": {"use_kernels": True}}, {"versions": {"transformers": "5.4.0"}}),
    sources=("trl/trainer/utils.py", "huggingface/transformers#44887"),
)
def hub_kernels_need_newer_transformers(config: ConfigView, facts: Facts) -> Outcome:
    if not _given(config, facts).get("use_kernels"):
        return PASS
    if facts.versions.within("transformers", ">=5.2,<5.4") is not True:
        return PASS
    return fail(
        "versions.transformers",
        "model_init_kwargs.use_kernels",
        "model_init_kwargs",
        value=facts.versions.get("transformers"),
        message="model_init_kwargs: use_kernels needs transformers>=5.4.0; 5.2 and 5.3 fail to load the kernels.",
    )


@rule(
    "prefix-tuning-needs-newer-peft",
    severity="error",
    trl=">=1.16",
    what="Prefix tuning with a PEFT before 0.18 on a model that TRL loads.",
    why="TRL loads it with a device map, onto which that PEFT moves the cache by an attribute that transformers has "
    "dropped; TRL raises ValueError.",
    bad=Example({}, {"peft_config": {"peft_type": "PREFIX_TUNING"}, "versions": {"peft": "0.17.1"}}),
    good=Example({}, {"peft_config": {"peft_type": "PREFIX_TUNING"}, "versions": {"peft": "0.18.0"}}),
    sources=("trl/trainer/grpo_trainer.py", "huggingface/peft#2821"),
)
def prefix_tuning_needs_newer_peft(config: ConfigView, facts: Facts) -> Outcome:
    given = _given(config, facts)
    mapped = facts.instance is None and not ("device_map" in given and given["device_map"] is None)
    if str(facts.peft_config.get("peft_type")).rpartition(".")[2] != "PREFIX_TUNING" or not mapped:
        return PASS
    if facts.text("hardware.device") in ("cpu", "mps") or facts.versions.within("peft", "<0.18") is not True:
        return PASS
    return fail(
        "versions.peft",
        "peft_config.peft_type",
        "peft_config",
        value=facts.versions.get("peft"),
        message=f"Prefix tuning needs peft>=0.18.0 here, and {facts.versions.get('peft')} is installed. Or set "
        "model_init_kwargs={'device_map': None}.",
    )


RULES = (
    policy_not_a_language_model,
    init_kwargs_refused_for_loaded_model,
    init_kwargs_for_loaded_model,
    quantization_config_given_twice,
    weights_dtype_unknown,
    torch_dtype_not_read,
    dtype_key_of_newer_transformers,
    hub_kernels_need_newer_transformers,
    prefix_tuning_needs_newer_peft,
)
