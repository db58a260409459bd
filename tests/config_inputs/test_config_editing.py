"""Fixes are written back into the text they came from: exactly, touching nothing else, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_rlvr.config import apply_diff, check, load_config
from grpo_rlvr.config.load_edit import edited_text, unified_diff
from grpo_rlvr.errors import InputError
from grpo_rlvr.models.setup import parse_setup

NAMES = st.sampled_from(["beta", "seed", "optim", "loss_type", "warmup_steps", "generation_kwargs", "reward_weights"])
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12),
)
VALUES = st.one_of(PLAIN, st.lists(PLAIN, max_size=3), st.dictionaries(st.sampled_from(["a", "b"]), PLAIN, max_size=2))
CONFIGS = st.dictionaries(NAMES, VALUES, max_size=5)


@settings(max_examples=150, deadline=None)
@given(CONFIGS, CONFIGS, st.sampled_from([None, 2, 4]))
def test_an_edited_json_text_says_exactly_the_new_config(before: Any, after: Any, indent: int | None) -> None:
    loaded = load_config(json.dumps(before, indent=indent, ensure_ascii=False), "c.json")
    text = edited_text(loaded, after)
    assert text is not None and load_config(text, "c.json").config == after


@settings(max_examples=100, deadline=None)
@given(CONFIGS.filter(bool), CONFIGS.filter(bool))
def test_an_edited_yaml_text_says_exactly_the_new_config_or_is_refused(before: Any, after: Any) -> None:
    import yaml

    loaded = load_config(yaml.safe_dump(before, allow_unicode=True, sort_keys=False), "c.yaml")
    text = edited_text(loaded, after)
    assert text is None or load_config(text, "c.yaml").config == after


@settings(max_examples=100, deadline=None)
@given(CONFIGS, CONFIGS, st.booleans())
def test_an_edited_call_says_exactly_the_new_config(before: Any, after: Any, spread: bool) -> None:
    gap = ",\n    " if spread else ", "
    body = gap.join(f"{name}={value!r}" for name, value in before.items())
    loaded = load_config(f"# é\nc = GRPOConfig({body})\n", "t.py")
    text = edited_text(loaded, {**loaded.config, **after})
    assert text is not None and load_config(text, "t.py").config == {**loaded.config, **after}


def test_comments_and_layout_outside_the_change_stay() -> None:
    text = "# mine\nbeta: 0.1  # keep me\nmax_prompt_length: 512\nseed: 1\n"
    loaded = load_config(text, "c.yaml")
    assert edited_text(loaded, {"beta": 0.2, "seed": 1}) == "# mine\nbeta: 0.2  # keep me\nseed: 1\n"


def test_a_keyword_on_its_own_line_goes_with_its_line() -> None:
    text = 'c = GRPOConfig(\n    beta=0.1,\n    warmup_ratio=0.1,  # old\n    optim="adamw_torch",\n)\n'
    wanted = 'c = GRPOConfig(\n    beta=0.1,\n    optim="adafactor",\n    warmup_steps=0.1,\n)\n'
    loaded = load_config(text, "t.py")
    assert edited_text(loaded, {"beta": 0.1, "optim": "adafactor", "warmup_steps": 0.1}) == wanted


@pytest.mark.parametrize(
    ("name", "text", "fixed"),
    [
        ("t.py", "D = {'beta': 0.1}\nc = GRPOConfig(**D)\n", {"beta": 0.2}),
        ("t.py", "c = GRPOConfig()\nc.beta = 0.1\n", {"beta": 0.2}),
        ("c.yaml", "{beta: 0.1}\n", {"beta": 0.2}),
        ("c.yaml", "model_name_or_path: m\ndtype: float32\n", {"model_init_kwargs": {"dtype": "bfloat16"}}),
    ],
)
def test_what_cannot_be_edited_safely_is_left_to_a_person(name: str, text: str, fixed: dict[str, Any]) -> None:
    loaded = load_config(text, name)
    assert edited_text(loaded, fixed) is None and unified_diff(loaded, fixed) is None


def test_a_check_of_a_file_gives_a_diff_that_apply_diff_writes(tmp_path: Path) -> None:
    path = tmp_path / "train config.py"
    path.write_text("c = GRPOConfig(\n    warmup_ratio=0.1,\n    beta=0.0,\n)\n", encoding="utf-8")
    loaded = load_config(path.read_text(encoding="utf-8"), path.name, path=path)
    setup = parse_setup({"versions": {"transformers": "5.24.0"}})
    result = check(loaded.config, setup, loaded=loaded)
    assert (
        result.diff is not None
        and "-    warmup_ratio=0.1,\n" in result.diff
        and "+    warmup_steps=0.1,\n" in result.diff
    )
    apply_diff(path, result)
    again = load_config(path.read_text(encoding="utf-8"), path.name)
    assert again.config == result.fixed_config
    assert not any(finding.fix and finding.fix.safe for finding in check(again.config, setup).findings)


def test_a_file_that_cannot_be_edited_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "t.py"
    text = "D = {'warmup_ratio': 0.1}\nc = GRPOConfig(**D)\n"
    path.write_text(text, encoding="utf-8")
    loaded = load_config(text, path.name, path=path)
    with pytest.raises(InputError, match="by hand"):
        apply_diff(path, check(loaded.config, parse_setup({"versions": {"transformers": "5.24.0"}}), loaded=loaded))
    assert path.read_text(encoding="utf-8") == text
