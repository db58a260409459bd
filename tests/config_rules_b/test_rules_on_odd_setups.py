"""No setup, however odd its values, makes a rule raise: it is judged, or refused with one sentence."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpo_rlvr.config import check, known_versions
from grpo_rlvr.errors import InputError
from grpo_rlvr.models.setup import FREE, KNOWN, parse_setup

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 4000),
    st.one_of(st.floats(), st.sampled_from([10**400, "9" * 400, "24 GB", "7B"])),
    st.sampled_from(
        ["", "x", "string", "conversational", "PeftModel", "4bit", "cuda", "python t.py", "0,1", "<think>", "None"]
    ),
    st.sampled_from(
        ["def f(", "def f(completions, **kwargs)", "lambda c: 1", "float", "[1.0]", "kwargs['a'] in c", "vlm"]
    ),
)
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.sampled_from(["a", "rows", "eos"]), SCALARS, max_size=2)
)
KWARGS = {
    "beta": [0.0, 0.04, None, "x"],
    "use_vllm": [True, False, None],
    "vllm_mode": ["colocate", "server", 3],
    "model_init_kwargs": [None, {}, {"dtype": "bfloat16"}, "x", [1]],
    "learning_rate": [1e-6, 1.0, 0, "a", None],
    "eval_strategy": ["no", "steps", None, 1],
    "num_generations": [1, 4, None, "8"],
    "gradient_checkpointing_kwargs": [None, 3],
    "load_best_model_at_end": [True],
    "save_steps": [0, 0.5, 100],
    "eval_steps": [None, 0, 0.1],
    "reward_weights": [[], [0], "x"],
    "remove_unused_columns": [True],
    "resume_from_checkpoint": ["x", True],
    "optim": ["adamw_8bit", 1],
    "fp16": [True, "yes"],
    "accelerator_config": [None, "x", {"dispatch_batches": True}],
    "max_prompt_length": [None, 5, "5"],
}


def sections() -> st.SearchStrategy[dict[str, Any]]:
    """Return setups over all known sections and keys, with values of any kind."""
    parts: dict[str, st.SearchStrategy[Any]] = {}
    for name, keys in KNOWN.items():
        if name in FREE:
            parts[name] = st.one_of(VALUES, st.dictionaries(st.sampled_from(["r", "target_modules"]), VALUES))
        elif name == "rewards":
            parts[name] = st.lists(st.dictionaries(st.sampled_from(sorted(keys)), VALUES, max_size=4), max_size=3)
        elif name != "versions":
            parts[name] = st.dictionaries(st.sampled_from(sorted(keys)), VALUES, max_size=6)
    return st.fixed_dictionaries({}, optional=parts)


def configs() -> st.SearchStrategy[dict[str, Any]]:
    """Return configs of the options that the setup families read."""
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in KWARGS.items()})


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(configs(), sections(), st.sampled_from(known_versions()))
def test_any_setup_is_judged_or_refused_in_words(config: dict[str, Any], setup: dict[str, Any], version: str) -> None:
    try:
        result = check(config, parse_setup(setup), trl_version=version)
    except InputError as error:
        assert str(error)
        return
    assert result.verdict in ("ok", "warning", "error")
    for finding in result.findings:
        assert finding.message and finding.fields and "None None" not in finding.message
