"""Training scripts and notebooks are read without being run; what cannot be read is unknown, never guessed."""

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.config import check, load_config
from grpo_rlvr.errors import InputError
from grpo_rlvr.models.check import CheckResult
from grpo_rlvr.models.setup import parse_setup
from grpo_rlvr.tools.check import check_config
from grpo_rlvr.workspace import Workspace

TRAIN = """\
import os
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel
from transformers import AutoModelForCausalLM
from trl import GRPOConfig as Config, GRPOTrainer
from trl.rewards import accuracy_reward

os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
RATE = 1e-6 * 2
BASE = {"num_generations": 4 * 2, "bf16": True}


def form(completions: list, **kwargs) -> list[float]:
    return [1.0 if "<a>" in c[0]["content"] else 0.0 for c in completions]


class Judge:
    def __call__(self, completions, answer, **kwargs):
        return [0.0] * len(completions)


def scaled(base):
    def wrapped(completions, **kwargs):
        return base(completions, **kwargs)
    return wrapped


if __name__ == "__main__":
    config = Config("out", learning_rate=RATE, model_init_kwargs=dict(dtype=torch.bfloat16), **BASE)
    config.temperature = 0.7
    base = AutoModelForCausalLM.from_pretrained("org/model", load_in_4bit=True)
    model = PeftModel.from_pretrained(base, "adapter")
    data = Dataset.from_list([{"question": "a", "answer": "1"}]).rename_column("question", "prompt")
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[form, Judge(), accuracy_reward, scaled(form), lambda completions, **k: [1.0]],
        args=config,
        train_dataset=data,
    )
    trainer.train(resume_from_checkpoint=True)
"""


@pytest.fixture
def script() -> Any:
    """Return the loaded training script."""
    return load_config(TRAIN, "train.py")


def test_the_config_call_is_read_through_aliases_constants_and_literal_dicts(script: Any) -> None:
    assert script.config == {
        "output_dir": "out", "learning_rate": 2e-6, "num_generations": 8, "bf16": True, "temperature": 0.7,
        "model_init_kwargs": {"dtype": "bfloat16"},
    }  # fmt: skip
    assert not script.unread and script.line_of("temperature") == 31


def test_rewards_are_read_with_their_signatures(script: Any) -> None:
    form, judge, shipped, closure, anonymous = script.setup["rewards"]
    assert form == {"name": "form", "signature": "def form(completions, **kwargs)", "reads": "c[0]['content']"}
    assert judge["signature"] == "class Judge: def __call__(self, completions, answer, **kwargs)"
    assert shipped["name"] == "trl.rewards.accuracy_reward" and "solution" in shipped["signature"]
    assert closure["signature"].startswith("closure from scaled(form)") and closure["name"] == "wrapped"
    assert anonymous["name"] == "<lambda>"


def test_the_model_the_dataset_and_the_call_of_train_are_read(script: Any) -> None:
    assert script.setup["model"] == {
        "name": "org/model", "quantized": "4bit", "instance": "PeftModel", "peft": True,
        "adapter": {"is_trainable": False},
    }  # fmt: skip
    assert script.setup["dataset"]["columns"] == ["prompt", "answer"]
    assert script.setup["launch"]["train_call"] == "trainer.train(resume_from_checkpoint=True)"
    assert script.setup["hardware"]["cuda_visible_devices"] == [0, 1]


def test_what_a_script_shows_is_a_setup_that_the_rules_accept(script: Any) -> None:
    setup = parse_setup(script.setup)
    assert not [name for name in setup.unused if not name.startswith("trainer")]
    found = {finding.rule: finding for finding in check(script.config, setup, loaded=script).findings}
    assert found["adapter-frozen"].line == 33 and found["adapter-frozen"].file == "train.py"
    assert "reward-required-parameter-missing" in found


@pytest.mark.parametrize(
    ("before", "expression", "reason"),
    [
        ("args = parser.parse_args()", "args.beta", "known only when the file runs"),
        ("", "float(os.environ['BETA'])", "known only when the file runs"),
        ("B = 0.1\nB = 0.2", "B", "assigned more than once"),
        ("B = 0.1\nB += 1", "B", "assigned more than once"),
        ("from settings import B", "B", "imported from settings"),
        ("for B in (1, 2): pass", "B", "gets its value when the file runs"),
        ("", "B", "not assigned in this file"),
        ("D = {'b': 1}\nD['b'] = 2", "D['b']", "changed in place"),
        ("D = {'b': 1}\nD.update(b=2)", "D['b']", "changed in place"),
        ("def g():\n    global B\n    B = 2\nB = 1", "B", "assigned more than once"),
        ("", "10 ** 10 ** 10", "out of range"),
        ("", "1 / 0", "division by zero"),
        ("", "[x for x in range(3)]", "computed when the file runs"),
        ("A = B\nB = A", "A", "too large"),
    ],
)
def test_values_that_only_running_would_tell_are_unread_with_the_reason(
    before: str, expression: str, reason: str
) -> None:
    loaded = load_config(f"{before}\nc = GRPOConfig(beta={expression}, seed=1)\n", "t.py")
    assert loaded.config == {"seed": 1} and reason in loaded.unread["beta"]
    result = check(loaded.config, parse_setup({}), loaded=loaded)
    assert "beta" in result.unread and not any("beta" in finding.fields for finding in result.findings)


@pytest.mark.parametrize(
    ("before", "expression", "value"),
    [
        ("B = 2\n", "B ** 3 * 0.5", 4.0), ("", "1 if True else 2", 1), ("N = 'x'", "f'out/{N}'", "out/x"),
        ("class C:\n    b = 3", "C.b", 3), ("D = {'a': {'b': 4}}", "D['a']['b']", 4), ("A, B = 1, 2", "B", 2),
        ("D = dict(a=1)", "{**D, 'b': 2}", {"a": 1, "b": 2}), ("", "torch.float16", "float16"), ("", "not False", True),
        ("", "-3", -3), ("B: float = 0.5", "B", 0.5), ("", "[1] + [2]", [1, 2]), ("", "7 // 2", 3),
    ],
)  # fmt: skip
def test_constant_expressions_are_evaluated(before: str, expression: str, value: object) -> None:
    assert load_config(f"{before}\nc = GRPOConfig(x={expression})\n", "t.py").config == {"x": value}


def test_an_unpacked_unknown_dict_leaves_every_other_option_open() -> None:
    loaded = load_config("c = GRPOConfig(num_generations=3, **load())\n", "t.py")
    assert "**load()" in loaded.unread
    result = check(loaded.config, parse_setup({}), loaded=loaded)
    assert not any(finding.severity == "error" for finding in result.findings)


def test_a_partly_readable_dict_keeps_what_can_be_read() -> None:
    loaded = load_config("c = GRPOConfig(model_init_kwargs={'dtype': 'bfloat16', 'device_map': pick()})\n", "t.py")
    assert loaded.config == {"model_init_kwargs": {"dtype": "bfloat16"}}
    assert list(loaded.unread) == ["model_init_kwargs.device_map"]


def test_an_assignment_in_a_branch_makes_the_field_unread() -> None:
    loaded = load_config("c = GRPOConfig(beta=0.1)\nif fast:\n    c.beta = 0.2\n", "t.py")
    assert not loaded.config and "line 3 may set it" in loaded.unread["beta"]


def test_the_config_that_the_trainer_gets_is_chosen_among_several() -> None:
    text = "a = GRPOConfig(beta=1.0)\nb = GRPOConfig(beta=2.0)\nGRPOTrainer(model='m', args=b)\n"
    assert load_config(text, "t.py").config == {"beta": 2.0}


def test_a_local_subclass_of_the_config_counts() -> None:
    assert load_config("class Mine(trl.GRPOConfig): pass\nMine(beta=0.5)\n", "t.py").config == {"beta": 0.5}


@pytest.mark.parametrize(
    ("lines", "model"),
    [
        ("m = 'org/m'", {"name": "org/m", "instance": False, "peft": False}),
        ("m = AutoModelForCausalLM.from_pretrained('org/m', torch_dtype=torch.float16)",
         {"name": "org/m", "instance": "PreTrainedModel", "dtype": "float16"}),
        ("m = get_peft_model(AutoModelForCausalLM.from_pretrained('org/m'), c)",
         {"instance": "PeftModel", "peft": True, "adapter": {"is_trainable": True, "from_sft": False}}),
        ("m = PeftModel.from_pretrained(b, 'a', is_trainable=True)\nm = m.merge_and_unload()",
         {"instance": "merge_and_unload() result in memory, not saved to disk"}),
    ],
)  # fmt: skip
def test_how_the_model_was_made_is_read(lines: str, model: dict[str, Any]) -> None:
    loaded = load_config(f"{lines}\nc = GRPOConfig()\nGRPOTrainer(model=m, reward_funcs=f, args=c)\n", "t.py")
    assert loaded.setup["model"] == model


def test_a_model_from_a_function_is_unread_not_guessed() -> None:
    loaded = load_config("m = build()\nc = GRPOConfig()\nGRPOTrainer(model=m, args=c)\n", "t.py")
    assert "model" not in loaded.setup and "build()" in loaded.unread_setup["model"]


def test_a_dataset_without_split_is_a_dict_of_splits() -> None:
    text = "d = load_dataset('org/d')\nc = GRPOConfig()\nGRPOTrainer(model='m', args=c, train_dataset=d{0})\n"
    assert load_config(text.format(""), "t.py").setup["dataset"]["type"] == "DatasetDict"
    assert "type" not in load_config(text.format("['train']"), "t.py").setup["dataset"]


NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "source": ["!pip install trl\n", "%matplotlib inline\n", "x = 1\n"]},
        {"cell_type": "markdown", "source": "# GRPO"},
        {"cell_type": "code", "source": "%%bash\nls (not python"},
        {"cell_type": "code", "source": "if x:\n    !ls\nc = GRPOConfig(\n    beta=0.1,\n    learning_rate=RATE)"},
    ]
}


def test_a_notebook_is_read_over_its_cells_and_places_name_the_cell() -> None:
    loaded = load_config(json.dumps(NOTEBOOK), "n.ipynb")
    assert loaded.config == {"beta": 0.1} and "RATE" in loaded.unread["learning_rate"]
    assert loaded.place("beta") == "n.ipynb cell 4 line 4"


def test_a_script_is_never_executed(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    text = f"open({str(marker)!r}, 'w').write('x')\nc = GRPOConfig(beta=__import__('os').getpid())\n"
    assert "beta" in load_config(text, "t.py").unread and not marker.exists()


MAPPED = """
import re
from trl import GRPOConfig, GRPOTrainer


def tags(completions, **kwargs):
    return [1.0 if re.search(r"<a>(.*?)</a>", completion, re.DOTALL) else 0.0 for completion in completions]


def exact(completions, answer, **kwargs):
    scores = []
    for i, (c, gold) in enumerate(zip(completions, answer)):
        scores.append(1.0 if gold in c else 0.0)
    return scores


def both(completions, **kwargs):
    return [float(len(c if isinstance(c, str) else c[0]["content"])) for c in completions]


def rows():
    return load_dataset("x", split="train").map(
        lambda row: {"prompt": [{"role": "user", "content": row["question"]}], "answer": row["answer"]}
    )


trainer = GRPOTrainer(model="org/m", reward_funcs=[tags, exact, both], args=GRPOConfig(), train_dataset=rows())
"""


def test_text_code_on_rows_that_the_script_builds_as_conversations_is_found() -> None:
    loaded = load_config(MAPPED, "train.py")
    assert loaded.setup["dataset"]["format"] == "conversational"
    tags, exact, both = loaded.setup["rewards"]
    assert tags["reads"] == "re.search(pattern, completion)" and "isinstance" in both["reads"]
    found = check(loaded.config, parse_setup(loaded.setup), loaded=loaded).findings
    lines = {item.line for item in found if item.rule == "reward-reads-chat-as-text"}
    assert lines == {6, 10} and exact["reads"] == "'gold' in completion"


def test_rewards_of_a_module_beside_the_script_are_read_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "graders.py").write_text("def exact(completions, gold):\n    return 1.0\n", encoding="utf-8")
    text = (
        "from mine.graders import exact as graded\nfrom elsewhere import other\n"
        "GRPOTrainer(model='m', reward_funcs=[graded, other], args=GRPOConfig())\n"
    )
    own, other = load_config(text, "t.py", path=tmp_path / "t.py").setup["rewards"]
    assert own == {"name": "exact", "signature": "def exact(completions, gold)", "returns": "1.0"}
    assert other == {"name": "other"}
    assert load_config(text, "t.py").setup["rewards"][0] == {"name": "exact"}


def test_a_module_that_leads_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "outside.py").write_text("def f(completions):\n    return 1.0\n", encoding="utf-8")
    (inner / "linked.py").symlink_to(tmp_path / "outside.py")
    text = "from linked import f\nGRPOTrainer(model='m', reward_funcs=f, args=GRPOConfig())\n"
    assert load_config(text, "t.py", path=inner / "t.py").setup["rewards"] == [{"name": "f"}]


UNSLOTH = """\
from unsloth import FastLanguageModel
from trl import GRPOConfig, GRPOTrainer
from vllm import SamplingParams

model, tokenizer = FastLanguageModel.from_pretrained("base", load_in_4bit=True, fast_inference=True)
model = FastLanguageModel.get_peft_model(model, r=32)
args = GRPOConfig(
    use_vllm=True, vllm_sampling_params=SamplingParams(min_p=0.1), unsloth_num_chunks=-1,
    per_device_train_batch_size=1, gradient_accumulation_steps=1, num_generations=4, num_generation=8,
)
trainer = GRPOTrainer(model=model, args=args, train_dataset=rows, reward_funcs=[score])
"""


def test_what_unsloth_patches_is_no_error_and_a_typo_still_is() -> None:
    def errors(text: str) -> set[str]:
        loaded = load_config(text, "train.py")
        result = check(loaded.config, parse_setup(loaded.setup), trl_version="0.22.2", loaded=loaded)
        return {finding.fields[0] for finding in result.findings if finding.severity == "error"}

    assert errors(UNSLOTH) == {"num_generation"}
    without = errors(UNSLOTH.replace("from unsloth import", "from own import"))
    assert {"num_generations", "unsloth_num_chunks", "vllm_sampling_params"} <= without


@pytest.mark.parametrize("body", ["[0.0 for _ in completions]", "[1.0] * len(completions)"])
def test_a_reward_that_is_the_same_for_all_is_an_error_alone_and_a_log_beside_others(body: str) -> None:
    script = (
        "from trl import GRPOConfig, GRPOTrainer\n"
        f"def same(completions, **kwargs):\n    print(completions)\n    return {body}\n"
        "def graded(completions, **kwargs):\n    return [float(len(c)) for c in completions]\n"
        "args = GRPOConfig(num_generations=8, per_device_train_batch_size=8)\n"
        "GRPOTrainer(model='m', args=args, reward_funcs=[same], train_dataset=rows)\n"
    )
    for text, expected in ((script, True), (script.replace("[same]", "[same, graded]"), False)):
        loaded = load_config(text, "train.py")
        found = check(loaded.config, parse_setup(loaded.setup), trl_version="1.16.0", loaded=loaded).findings
        assert any(finding.rule == "reward-constant-in-group" for finding in found) is expected


@pytest.mark.parametrize(("tools", "read"), [("[weather, clock]", ["weather", "clock"]), ("[]", None), ("found", None)])
def test_tools_given_to_the_trainer_are_read_where_they_are_listed(tools: str, read: list[str] | None) -> None:
    script = (
        "from trl import GRPOConfig, GRPOTrainer\nargs = GRPOConfig()\n"
        f"GRPOTrainer(model='m', args=args, reward_funcs=score, train_dataset=rows, tools={tools})\n"
    )
    assert load_config(script, "train.py").setup.get("trainer", {}).get("tools") == read


CALL = "from trl import GRPOConfig, GRPOTrainer\nargs = GRPOConfig(output_dir='o')\n"


def _rules(script: str, trl: str) -> set[str]:
    loaded = load_config(script, "train.py")
    return {
        item.rule for item in check(loaded.config, parse_setup(loaded.setup), trl_version=trl, loaded=loaded).findings
    }


def test_arguments_of_the_trainer_are_judged_where_it_is_that_of_trl() -> None:
    wrong = "GRPOTrainer(model='m', tokenizer=t, reward_funcs=[f], args=args, train_dataset=d)\n"
    assert "trainer-argument-unknown" in _rules(CALL + wrong, "1.16.0")
    assert "trainer-argument-unknown" not in _rules("import unsloth\n" + CALL + wrong, "1.16.0")
    assert "trainer-argument-unknown" not in _rules(CALL.replace("GRPOTrainer", "SFTTrainer") + wrong, "1.16.0")
    own = "class Own(GRPOTrainer):\n    pass\nOwn(model='m', margin=2, reward_funcs=[f], args=args, train_dataset=d)\n"
    assert "trainer-argument-unknown" not in _rules(CALL + own, "1.16.0")
    assert "trainer-argument-unknown" in _rules(
        CALL.replace("import GRPOConfig", "import GRPOConfig as C, GRPOConfig")
        + "GRPOTrainer('m', [f], args, d, rollout_func=play)\n",
        "0.24.0",
    )


def test_an_environment_replaces_the_reward_functions() -> None:
    call = "GRPOTrainer(model='m', reward_funcs=[], args=args, train_dataset=d, environment_factory=lambda: Env())\n"
    assert "reward-source-missing" not in _rules(CALL + call, "1.16.0")
    assert "reward-source-missing" in _rules(CALL + call.replace("lambda: Env()", "None"), "1.16.0")


def test_members_of_enumerations_are_read_as_their_values() -> None:
    script = (
        "from transformers.trainer_utils import IntervalStrategy, SchedulerType\nfrom trl import GRPOConfig\n"
        "args = GRPOConfig(eval_strategy=IntervalStrategy.EPOCH, lr_scheduler_type=SchedulerType.REDUCE_ON_PLATEAU)\n"
    )
    expected = {"eval_strategy": "epoch", "lr_scheduler_type": "reduce_lr_on_plateau"}
    assert load_config(script, "train.py").config == expected
    own = script.replace("IntervalStrategy, ", "").replace(
        "\nfrom trl", "\nclass IntervalStrategy:\n    EPOCH = 'x'\nfrom trl"
    )
    assert load_config(own, "train.py").config["eval_strategy"] == "x"


@pytest.mark.parametrize("name", ["AsyncGRPOConfig", "GKDConfig"])
def test_the_config_of_another_trainer_of_trl_is_named(name: str) -> None:
    with pytest.raises(InputError, match=name):
        load_config(f"from trl import {name}\nargs = {name}(output_dir='o')\n", "train.py")


def test_the_quantization_that_the_trainer_is_told_is_the_models() -> None:
    script = (
        "from transformers import BitsAndBytesConfig\nfrom trl import GRPOConfig, GRPOTrainer\n"
        "bnb = BitsAndBytesConfig(load_in_4bit=True)\n"
        "GRPOTrainer(model={model}, args=GRPOConfig(), reward_funcs=f, train_dataset=d, quantization_config=bnb)\n"
    )
    named = load_config(script.format(model="'org/m'"), "train.py").setup
    assert named["model"]["quantized"] == "4bit" and named["trainer"]["quantization_config"] == "bnb"
    # An object was quantized, or not, where it was loaded; the trainer does not read the argument then.
    assert "quantized" not in load_config(script.format(model="model"), "train.py").setup.get("model", {})


ARGUED = """\
import argparse
from trl import GRPOConfig
args = argparse.ArgumentParser().parse_args()
GRPOConfig(num_generations=args.g, per_device_train_batch_size=args.b, max_prompt_length=64, beta=0.04)
"""


def told(tmp_path: Path, **values: Any) -> CheckResult:
    (tmp_path / "train.py").write_text(ARGUED, encoding="utf-8")
    return check_config(Workspace.open(tmp_path), values or None, path="train.py", trl_version="1.16.0")


def test_values_of_the_command_line_make_what_a_script_leaves_open_known(tmp_path: Path) -> None:
    open_ones = told(tmp_path)
    assert open_ones.unread == ["num_generations", "per_device_train_batch_size"]
    assert "batch-not-divisible-by-group" not in {finding.rule for finding in open_ones.findings}
    result = told(tmp_path, num_generations=8, per_device_train_batch_size=6)
    assert result.unread == [] and not any(note.startswith("num_generations") for note in result.notes)
    found = next(finding for finding in result.findings if finding.rule == "batch-not-divisible-by-group")
    assert found.line == 4 and result.effective and result.effective.batch
    assert result.fixed_config["num_generations"] == 8


def test_what_is_told_beside_a_script_wins_and_is_never_written_into_it(tmp_path: Path) -> None:
    result = told(tmp_path, num_generations=8, per_device_train_batch_size=8, beta=0.0)
    assert result.fixed_config["beta"] == 0.0 and "max_prompt_length" not in result.fixed_config
    assert result.diff
    added = [line for line in result.diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added == ["+GRPOConfig(num_generations=args.g, per_device_train_batch_size=args.b, beta=0.04)"]
