"""Configs as JSON, YAML and command-line YAML: values, lines, and what was converted."""

import pytest

from grpo_rlvr.config import check, load_config
from grpo_rlvr.models.setup import parse_setup


def test_json_keeps_values_and_knows_the_line_of_every_key() -> None:
    loaded = load_config('{\n  "beta": 0.1,\n  "model_init_kwargs": {\n    "dtype": "bfloat16"\n  }\n}', "c.json")
    assert loaded.config == {"beta": 0.1, "model_init_kwargs": {"dtype": "bfloat16"}}
    assert loaded.line_of("beta") == 2 and loaded.line_of("model_init_kwargs.dtype") == 4
    assert loaded.place("model_init_kwargs.dtype") == "c.json:4" and loaded.place("seed") == "c.json"


def test_a_text_without_a_suffix_is_recognised() -> None:
    assert load_config('{"beta": 0.1}', "config").format == "json"
    assert load_config("beta: 0.1", "config").format == "yaml"


def test_config_and_setup_may_come_in_one_file() -> None:
    loaded = load_config('{"config": {"beta": 0.1},\n "setup": {"model": {"peft": true}}}', "c.json")
    assert loaded.config == {"beta": 0.1} and loaded.setup == {"model": {"peft": True}} and loaded.line_of("beta") == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6), ("5E-7", 5e-7), ("1.5e6", 1.5e6), ("2e5", 2e5), ("1.0e-6", 1e-6), (".5", 0.5), ("1_000", 1000),
        ("0x10", 16), ("true", True), ("False", False), ("~", None), ("null", None), ("1:30", "1:30"),
        ("2024-01-02", "2024-01-02"), ("'1e-6'", "1e-6"), ("[1, 2.5]", [1, 2.5]), ("bfloat16", "bfloat16"),
        ("yes", True),
    ],
)  # fmt: skip
def test_yaml_values_are_what_people_mean(text: str, value: object) -> None:
    read = load_config(f"x: {text}", "c.yaml").config["x"]
    assert read == value and type(read) is type(value)


def test_yaml_conversions_are_said_with_their_line() -> None:
    loaded = load_config("learning_rate: 1e-6\neval_strategy: no\ngradient_checkpointing: yes\n", "c.yaml")
    assert loaded.config == {"learning_rate": 1e-6, "eval_strategy": False, "gradient_checkpointing": True}
    said = " ".join(loaded.notes)
    assert "learning_rate at line 1" in said and "1.0e-6" in said and "eval_strategy at line 2" in said


@pytest.mark.parametrize("word", ["no", "off", "No"])
def test_a_bare_no_is_an_error_as_it_is_for_trl_and_its_fix_puts_it_in_quotes(word: str) -> None:
    text = f"learning_rate: 1.0e-6\neval_strategy: {word}\nbeta: 0.1\n"
    loaded = load_config(text, "c.yaml")
    result = check(loaded.config, parse_setup({}), loaded=loaded)
    (found,) = [finding for finding in result.findings if "eval_strategy" in finding.fields]
    assert found.severity == "error" and found.line == 2 and "unquoted" in found.message
    assert result.fixed_config["eval_strategy"] == "no"
    assert result.diff is not None and "+eval_strategy: 'no'" in result.diff


def test_a_quoted_no_is_the_word() -> None:
    loaded = load_config('save_strategy: "no"\n', "c.yaml")
    assert loaded.config == {"save_strategy": "no"} and not loaded.notes


def test_yaml_merges_anchors_and_lets_own_keys_win() -> None:
    loaded = load_config("base: &b {beta: 0.1, seed: 1}\ngeneration_kwargs:\n  <<: *b\n  seed: 2\n", "c.yaml")
    assert loaded.config["generation_kwargs"] == {"beta": 0.1, "seed": 2}


SCRIPT = """\
model_name_or_path: Qwen/Qwen2.5-1.5B-Instruct
dtype: bfloat16
attn_implementation: flash_attention_2
dataset_name: org/data
use_peft: true
lora_r: 16
lora_target_modules: [q_proj, v_proj]
load_in_4bit: true
reward_funcs: [accuracy_reward, my_lib.rewards.own]
num_processes: 4
learning_rate: 1e-5
beta: 0.01
"""


def test_a_command_line_file_is_taken_apart_into_config_and_setup() -> None:
    loaded = load_config(SCRIPT, "grpo.yaml")
    assert loaded.format == "trl-yaml"
    init = {"dtype": "bfloat16", "attn_implementation": "flash_attention_2"}
    assert loaded.config == {"learning_rate": 1e-5, "beta": 0.01, "model_init_kwargs": init}
    model = loaded.setup["model"]
    assert model == {"name": "Qwen/Qwen2.5-1.5B-Instruct", "peft": True, "quantized": "4bit", "instance": False}
    assert loaded.setup["peft_config"] == {"r": 16, "target_modules": ["q_proj", "v_proj"]}
    assert loaded.setup["hardware"] == {"num_processes": 4} and loaded.setup["dataset"] == {"path": "org/data"}
    known, own = loaded.setup["rewards"]
    assert "solution" in known["signature"] and own == {"name": "my_lib.rewards.own"}


def test_dtype_stays_an_unknown_kwarg_in_a_plain_config() -> None:
    assert load_config("dtype: bfloat16\nbeta: 0.1\n", "c.yaml").config == {"dtype": "bfloat16", "beta": 0.1}


def test_lora_keys_without_use_peft_are_said_to_do_nothing() -> None:
    loaded = load_config("model_name_or_path: q\nlora_r: 16\n", "c.yaml")
    assert loaded.setup["model"]["peft"] is False and any("no effect without use_peft" in note for note in loaded.notes)


def test_the_check_of_a_file_passes_on_what_reading_it_changed() -> None:
    loaded = load_config("learning_rate: 1e-6\n", "c.yaml")
    result = check(loaded.config, parse_setup(loaded.setup), loaded=loaded)
    assert result.notes == list(loaded.notes) and "1.0e-6" in result.notes[0]


def test_a_key_of_the_users_own_script_is_told_from_one_misspelt() -> None:
    text = "model_name_or_path: m\ndataset_id_or_path: d\nnum_generation: 8\nkl_coef: 0.1\ngrpo:\n  beta: 0.1\n"
    loaded = load_config(text, "recipe.yaml")
    assert loaded.config == {"num_generation": 8, "kl_coef": 0.1, "grpo": {"beta": 0.1}}
    assert [note for note in loaded.notes if note.startswith("dataset_id_or_path: no option of TRL")]


def test_keys_of_another_trainer_are_not_taken_for_a_scripts_own() -> None:
    loaded = load_config("model_name_or_path: m\nfinetuning_type: lora\nquux: 1\n", "recipe.yaml")
    assert {"finetuning_type", "quux"} <= loaded.config.keys()
