"""Every text that is no config gives one clear error: what, where, and what to do."""

import json

import pytest

from grpo_rlvr.config import load_config
from grpo_rlvr.config.load_limits import checked_mapping
from grpo_rlvr.errors import InputError

NINE = ",".join(["*{0}"] * 9)
BOMB = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{new}: &{new} [{NINE.format(old)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
)
MERGE_BOMB = "m0: &m0 {x: 1}\n" + "".join(f"m{n}: &m{n}\n  <<: [{','.join([f'*m{n - 1}'] * 9)}]\n" for n in range(1, 9))

CASES = [
    ("c.json", "[1]", "a list"),
    ("c.json", '"text"', "a text"),
    ("c.json", "null", "empty"),
    ("c.json", "", "empty"),
    ("c.json", "   \n", "empty"),
    ("c.json", '{"a":' * 1000 + "1" + "}" * 1000, "nested deeper than 32"),
    ("c.json", "[" * 100_000, "nested deeper than 32"),
    ("c.json", json.dumps({f"k{n}": n for n in range(10_000)}), "10,000 keys"),
    ("c.json", '{"learning_rate": NaN}', "NaN"),
    ("c.json", '{"learning_rate": -Infinity}', "-Infinity"),
    ("c.json", '{"learning_rate": 1e999}', "'learning_rate' is inf"),
    ("c.json", '{"seed": 1' + "0" * 50 + "}", "'seed' is an integer"),
    ("c.json", '{"seed": 1' + "0" * 5000 + "}", "too long"),
    ("c.json", '{"beta": 0.1, "beta": 0.2}', "'beta' occurs twice"),
    ("c.json", '{"generation_kwargs": {"n": 1, "n": 2}}', "'n' occurs twice"),
    ("c.json", '{"beta": 0.1,}', "line 1, column 14"),
    ("c.json", "{'beta': 0.1}", "no single quotes"),
    ("c.json", '{"beta": 0.1', "not valid JSON"),
    ("c.yaml", "beta: 0.1\nbeta: 0.2", "'beta' occurs twice, the second time at line 2"),
    ("c.yaml", "\n".join(f"k{n}: 1" for n in range(10_000)), "more than"),
    ("c.yaml", "a: " + "[" * 1000 + "]" * 1000, "nest"),
    ("c.yaml", BOMB, "anchors expand to"),
    ("c.yaml", MERGE_BOMB, "anchors expand to"),
    ("c.yaml", "a: &a [*a]", "contains itself"),
    ("c.yaml", "beta: .nan", "'beta' is nan"),
    ("c.yaml", "beta: .inf", "'beta' is inf"),
    ("c.yaml", "a: !!python/object/apply:os.system [ls]", "builds an object"),
    ("c.yaml", "a: !custom 1", "builds an object"),
    ("c.yaml", "a: 1\n---\nb: 2\n", "2 YAML documents"),
    ("c.yaml", "- a\n- b\n", "a list"),
    ("c.yaml", "just words", "a text"),
    ("c.yaml", "a: [1", "not valid YAML"),
    ("c.yaml", "a: 1\n\tb: 2", "not valid YAML"),
    ("c.yaml", "? [1, 2]\n: 3\n", "not a text"),
    ("c.yaml", "seed: 9" + "9" * 5000, "no usable integer"),
    ("t.py", "a = (1", "line 1"),
    ("t.py", "def f(:\n  pass", "not valid Python"),
    ("t.py", "x = 1", "no GRPOConfig"),
    ("t.py", "-" * 100_000 + "1", "cannot be parsed"),
    ("t.py", "(" * 1000 + ")" * 1000, "not valid Python"),
    ("t.py", "x = " + "1 + " * 20_000 + "1\nGRPOConfig(beta=x)", "cannot be parsed"),
    ("t.py", "from trl import SFTConfig\nSFTConfig(seed=1)", "SFTConfig at line 2"),
    ("t.py", "p = TrlParser((GRPOConfig,))\nargs = p.parse_args_and_config()", "command line or YAML"),
    ("t.py", "GRPOConfig(beta=1)\nGRPOConfig(beta=2)", "2 GRPOConfig calls at lines 1, 2"),
    ("t.py", "#" * 1_000_001, "1,000,001 characters"),
    ("n.ipynb", "words", "not a notebook"),
    ("n.ipynb", '{"cells": 3}', "not a notebook"),
    ("n.ipynb", '{"cells": []}', "without code cells"),
    ("config.toml", "beta = 0.1", "'.toml' is no format"),
]


@pytest.mark.parametrize(("name", "text", "said"), CASES, ids=[f"{name}-{n}" for n, (name, _, _) in enumerate(CASES)])
def test_bad_input_is_one_clear_sentence_that_names_the_file(name: str, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load_config(text, name)
    message = str(caught.value)
    assert said in message and message.startswith(name)
    assert len(message) < 500 and "\n" not in message.strip()


@pytest.mark.parametrize(
    "value",
    [
        [],
        "x",
        None,
        {1: 2},
        {"a": float("nan")},
        {"a": 2**70},
        {"a": {"b": object()}},
        {"a": b"x"},
        {"a": "x" * 200_000},
    ],
)
def test_inline_values_are_held_to_the_same_limits(value: object) -> None:
    with pytest.raises(InputError):
        checked_mapping(value, "argument 'config'")


def test_an_inline_value_nested_thousands_deep_is_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    with pytest.raises(InputError, match="deeper"):
        checked_mapping(deep, "argument 'config'")
