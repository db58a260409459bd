"""Bad input ends in one clear error, or in findings, within a second."""

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpo_rlvr.config import RULES, check, load_config, table
from grpo_rlvr.errors import InputError
from grpo_rlvr.models.setup import KNOWN, parse_setup

EMPTY = parse_setup({})


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


BAD: dict[str, Any] = {
    "list": [{"num_generations": 8}],
    "text": "num_generations=8",
    "nothing": None,
    "deep": {"model_init_kwargs": nested(1_000)},
    "keys": {f"key_{number}": number for number in range(10_000)},
    "nan": {"learning_rate": float("nan")},
    "infinite": {"beta": float("inf")},
    "huge": {"max_steps": 10**5_000},
    "object": {"model_init_kwargs": object()},
    "number as key": {1: 2},
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_config_is_refused_in_a_sentence_within_a_second(name: str) -> None:
    start = time.process_time()
    with pytest.raises(InputError) as caught:
        check(BAD[name], EMPTY)
    assert time.process_time() - start < 1
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_hundreds_of_unknown_names_are_answered_within_a_second() -> None:
    start = time.process_time()
    result = check({f"num_generation_{number}": 8 for number in range(900)}, EMPTY)
    assert time.process_time() - start < 1
    assert result.verdict == "error" and len(result.findings) < 50


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "[1, 2]"),
        ("a.json", "{"),
        ("a.json", json.dumps(nested(900))),
        ("a.yaml", "a: 1\na: 2\n"),
        ("a.yaml", "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n" + "".join(
            f"d{n}: &d{n} [{', '.join(['*' + ('c' if n == 0 else f'd{n - 1}')] * 9)}]\n" for n in range(9)
        )),
        ("a.py", "GRPOConfig(num_generations=8"),
        ("a.py", "x = 1\n"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_config_is_refused_within_a_second(name: str, text: str) -> None:
    start = time.process_time()
    with pytest.raises(InputError):
        load_config(text, name)
    assert time.process_time() - start < 1


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 100), st.floats(allow_nan=False), st.text(max_size=12),
    st.lists(st.one_of(st.integers(0, 9), st.text(max_size=5), st.none()), max_size=3),
    st.dictionaries(st.text(max_size=6), st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=3),
)  # fmt: skip
SETUPS = st.fixed_dictionaries(
    {},
    optional={
        section: st.dictionaries(st.sampled_from(sorted(keys) or ["class"]), JUNK, max_size=5)
        for section, keys in KNOWN.items()
        if section != "rewards"
    }
    | {"rewards": st.lists(st.dictionaries(st.sampled_from(sorted(KNOWN["rewards"])), JUNK, max_size=3), max_size=2)},
)
CONFIGS = st.dictionaries(st.sampled_from(sorted({*table("1.16.0").fields, *table("0.17.0").fields})), JUNK, max_size=8)


@pytest.mark.parametrize(
    ("config", "raw"),
    [
        ({}, {"hardware": {"cuda_visible_devices": ["²"]}}),
        ({}, {"hardware": {"cuda_visible_devices": "0,²"}}),
        ({"use_vllm": True, "vllm_device": "cuda:²"}, {"hardware": {"gpus": 2, "num_processes": 1}}),
    ],
)
def test_a_raised_digit_is_no_number_of_a_device(config: dict[str, Any], raw: dict[str, Any]) -> None:
    assert check(config, parse_setup(raw), trl_version="0.15.2").findings is not None


def test_a_script_with_a_raised_digit_for_a_device_is_read() -> None:
    script = 'import os\nos.environ["CUDA_VISIBLE_DEVICES"] = "²"\nconfig = GRPOConfig(num_generations=8)\n'
    assert load_config(script, "a.py").setup["launch"]["env"] == {"CUDA_VISIBLE_DEVICES": "²"}


@settings(max_examples=300, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(config=CONFIGS, raw=SETUPS, version=st.sampled_from(["0.14.0", "0.17.0", "0.23.1", "0.29.1", "1.8.0", "1.16.0"]))
def test_whatever_a_setup_and_a_config_hold_the_answer_is_findings_or_one_error(
    config: dict[str, Any], raw: dict[str, Any], version: str
) -> None:
    known = {rule.id for rule in RULES}
    try:
        result = check(config, parse_setup(raw), trl_version=version)
    except InputError:
        return
    assert {finding.rule for finding in result.findings} <= known
    again = check(result.fixed_config, parse_setup(raw), trl_version=version)
    assert not [finding.rule for finding in again.findings if finding.fix and finding.fix.safe]
