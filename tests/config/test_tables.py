"""The version tables say what the wheels say."""

import json
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from grpo_rlvr.config import known_versions, newest_version, table
from grpo_rlvr.config.tables import inherited_fields, lifetimes, table_version
from grpo_rlvr.config.typecheck import wrongly_typed
from grpo_rlvr.errors import InputError

# Prints the real dataclass's fields: name -> default (enumerations by value, factories called).
REAL = """
import dataclasses, json
from trl import GRPOConfig
out = {}
for field in dataclasses.fields(GRPOConfig):
    if field.init:
        made = field.default_factory is not dataclasses.MISSING
        default = field.default_factory() if made else field.default
        out[field.name] = getattr(default, "value", default)
print(json.dumps(out))
"""


# Fields that each wheel's GRPOConfig declares itself (its TRL base class included), counted by hand when read.
DECLARED = {
    "0.14.0": 13, "0.15.2": 19, "0.16.1": 33, "0.17.0": 40, "0.18.2": 42, "0.19.1": 45, "0.20.0": 48, "0.21.0": 49,
    "0.22.2": 50, "0.23.1": 53, "0.24.0": 53, "0.25.1": 56, "0.26.2": 63, "0.27.2": 67, "0.28.0": 65, "0.29.1": 67,
    "1.0.0": 72, "1.1.0": 72, "1.2.0": 72, "1.3.0": 72, "1.4.0": 72, "1.5.1": 72, "1.6.0": 74, "1.7.1": 78, "1.8.0": 84,
    "1.9.2": 85, "1.10.0": 85, "1.11.0": 85, "1.12.0": 85, "1.13.0": 85, "1.14.2": 85, "1.15.0": 85, "1.16.0": 85,
}  # fmt: skip


@pytest.mark.parametrize("name", DECLARED)
def test_no_field_that_a_wheel_declares_is_missed(name: str) -> None:
    own = [field for field, spec in table(name).fields.items() if spec.get("x-from") == "trl"]
    assert len(own) == DECLARED[name]


def test_there_is_one_table_for_every_minor_from_0_14_to_the_newest() -> None:
    minors = [tuple(map(int, name.split(".")[:2])) for name in known_versions()]
    assert minors == [(0, n) for n in range(14, 30)] + [(1, n) for n in range(0, 17)]


@pytest.mark.parametrize("name", known_versions())
def test_a_table_is_a_valid_schema_whose_defaults_fit(name: str) -> None:
    schema = table(name).schema()
    Draft202012Validator.check_schema(schema)
    defaults = {field: spec["default"] for field, spec in schema["properties"].items() if "default" in spec}
    problems = [error.message for error in Draft202012Validator(schema).iter_errors(defaults)]
    assert not problems, problems
    assert len(defaults) > 100
    assert Draft202012Validator(schema).is_valid({"num_generations": 8})
    assert not Draft202012Validator(schema).is_valid({"num_generation": 8})


@pytest.mark.slow
def test_the_table_of_the_installed_trl_equals_the_real_dataclass() -> None:
    done = subprocess.run([sys.executable, "-c", REAL], capture_output=True, encoding="utf-8", timeout=120, check=True)
    real: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    installed = table(version("trl"), version("transformers"))
    assert set(real) == set(installed.fields)
    assert {name: installed.default(name) for name in real} == real


def test_the_newest_table_is_that_of_the_installed_trl() -> None:
    assert table_version(version("trl")) == newest_version()


@pytest.mark.parametrize(
    ("field", "before", "old", "after", "new"),
    [
        ("beta", "0.18", 0.04, "0.19", 0.0),
        ("temperature", "0.17", 0.9, "0.18", 1.0),
        ("loss_type", "0.21", "bnpo", "0.22", "dapo"),
        ("vllm_mode", "0.29", "server", "1.0", "colocate"),
        ("max_completion_length", "1.9", 256, "1.10", 512),
        ("use_bias_correction_kl", "1.9", False, "1.10", True),
        ("vllm_importance_sampling_cap", "0.25", 2.0, "0.26", 3.0),
        ("router_aux_loss_coef", "1.13", 0.001, "1.14", None),
        ("max_prompt_length", "0.25", 512, "0.26", None),
        ("logging_steps", "0.18", 500, "0.29", 10),
        ("gradient_checkpointing", "0.21", False, "0.29", True),
        ("bf16", "0.18", False, "0.29", None),
    ],
)
def test_defaults_change_where_the_releases_changed_them(
    field: str, before: str, old: Any, after: str, new: Any
) -> None:
    assert (table(before).default(field), table(after).default(field)) == (old, new)


def test_lifetimes_of_kwargs_come_from_the_wheels() -> None:
    spans = lifetimes()
    assert spans["max_prompt_length"] == ("0.14.0", "0.27.2")
    assert spans["vllm_device"][1] == "0.17.0"
    assert spans["chat_template_kwargs"] == ("0.25.1", newest_version())


def test_a_stated_transformers_decides_the_inherited_fields() -> None:
    assert "warmup_ratio" in table("1.16.0", "5.14.1")
    assert "warmup_ratio" not in table("1.16.0", "5.15.0")
    assert "warmup_ratio" in inherited_fields("4.57.6")


def test_a_development_version_has_the_fields_of_its_release() -> None:
    assert table_version("0.18.0.dev0") == "0.18.2"


@pytest.mark.parametrize("text", ["", "newest", "1.x", "0.13.0", "0.9"])
def test_a_version_without_grpo_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(InputError, match=r"1\.16\.0|0\.14"):
        table_version(text)


@pytest.mark.parametrize("value", [None, True, False, 0, 1])
def test_a_switch_may_be_written_as_trl_reads_it(value: Any) -> None:
    assert not wrongly_typed({"use_vllm": value}, table("1.16.0"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_generations", 8.0), ("num_generations", True), ("per_device_train_batch_size", None), ("use_vllm", 2),
        ("use_vllm", "true"), ("learning_rate", "1e-6"), ("model_init_kwargs", "{dtype"), ("reward_weights", 1.0),
    ],
)  # fmt: skip
def test_a_value_that_trl_cannot_use_is_named_with_what_it_takes(name: str, value: Any) -> None:
    wrong = wrongly_typed({name: value, "beta": 0.0}, table("1.16.0"))
    assert list(wrong) == [name] and wrong[name]
