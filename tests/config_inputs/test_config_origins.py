"""Whose config a file holds: TRL's own, one made from it, or one of another trainer; and dicts filled step by step."""

from typing import Any

import pytest

from grpo_rlvr.config import check, load_config
from grpo_rlvr.errors import InputError
from grpo_rlvr.models.setup import parse_setup


def findings(text: str, name: str) -> list[tuple[str, str]]:
    loaded = load_config(text, name)
    result = check(loaded.config, parse_setup(loaded.setup), loaded=loaded)
    return [(finding.rule, finding.message) for finding in result.findings if finding.severity == "error"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from mlx_grpo import GRPOConfig\nc = GRPOConfig(lora_rank=8)", "comes from mlx_grpo"),
        ("from tunix.rl.grpo.grpo_learner import GRPOConfig\nc = GRPOConfig(beta=0.1)", "not from TRL"),
        ("import verl\nc = verl.GRPOConfig(n=8)", "comes from verl"),
        ("class GRPOConfig:\n    group: int = 8\n\nc = GRPOConfig(group=4)", "class of this file"),
    ],
)
def test_a_class_of_that_name_of_another_trainer_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_config(text, "train.py")


@pytest.mark.parametrize(
    "text",
    [
        "from trl import GRPOConfig\nc = GRPOConfig(beta=0.1)",
        "from trl.trainer.grpo_config import GRPOConfig as C\nc = C(beta=0.1)",
        "import trl\nc = trl.GRPOConfig(beta=0.1)",
        "from open_r1.configs import GRPOConfig\nc = GRPOConfig(beta=0.1)",
        "from trl import GRPOConfig\nclass Own(GRPOConfig):\n    pass\nc = Own(beta=0.1)",
        "def go():\n    from trl import GRPOConfig\n    return GRPOConfig(beta=0.1)",
        "deps = load()\nc = deps['GRPOConfig'](beta=0.1)",
    ],
)
def test_trls_class_is_found_under_any_name_and_without_a_remark(text: str) -> None:
    loaded = load_config(text, "train.py")
    assert loaded.config == {"beta": 0.1}
    assert not [note for note in loaded.notes if "comes from" in note]


def test_a_class_of_an_unknown_module_is_judged_and_that_is_said() -> None:
    loaded = load_config("from lab.configs import GRPOConfig\nc = GRPOConfig(beta=0.1)", "train.py")
    assert loaded.config == {"beta": 0.1} and "comes from lab.configs" in loaded.notes[0]


def test_a_repeated_keyword_is_the_syntax_error_that_python_makes_of_it() -> None:
    text = "from trl import GRPOConfig\nc = GRPOConfig(\n    steps_per_generation=1,\n    steps_per_generation=4,\n)"
    with pytest.raises(InputError, match="steps_per_generation is repeated at line 4"):
        load_config(text, "train.py")


def test_two_unpacked_dicts_are_no_repetition() -> None:
    text = "A = {'beta': 0.1}\nB = {'seed': 1}\nc = GRPOConfig(**A, **B)"
    assert load_config(text, "train.py").config == {"beta": 0.1, "seed": 1}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("max(4, 2)", 4),
        ("int(8 / 2)", 4),
        ("min([8, 4])", 4),
        ("round(2.4 * 2)", 5),
        ("4 if 3 > 2 else 8", 4),
        ("None or 4", 4),
        ("8 and 4", 4),
        ("len('abcd')", 4),
    ],
)
def test_pure_functions_and_comparisons_of_constants_are_read(expression: str, value: int) -> None:
    assert load_config(f"c = GRPOConfig(num_generations={expression})", "train.py").config == {"num_generations": value}


@pytest.mark.parametrize("text", ["def max(a, b):\n    return 7\nN = max(4, 2)", "N = int('x')", "N = max()"])
def test_a_function_of_the_file_or_one_that_fails_is_unread(text: str) -> None:
    loaded = load_config(f"{text}\nc = GRPOConfig(num_generations=N)", "train.py")
    assert loaded.config == {} and "num_generations" in loaded.unread


STEPS = """\
from trl import GRPOConfig
def build(args):
    options = dict(num_generations=4, beta=0.0, vllm_mode=args.mode)
    options["beta"] = 0.1
    options.update({"loss_type": "grpo"}, seed=1)
    if args.fast:
        options["use_vllm"] = True
    print(options.get("beta"))
    return GRPOConfig(**options)
"""


def test_a_dict_filled_step_by_step_is_read_and_what_may_be_set_is_unknown() -> None:
    loaded = load_config(STEPS, "train.py")
    assert loaded.config == {"num_generations": 4, "beta": 0.1, "loss_type": "grpo", "seed": 1}
    assert set(loaded.unread) == {"vllm_mode", "use_vllm"} and "line 7 may set it" in loaded.unread["use_vllm"]


@pytest.mark.parametrize(
    "change",
    [
        "options.update(extra)",
        "options.pop('beta')",
        "del options['beta']",
        "options['beta'] += 1",
        "options[key] = 1",
        "options.setdefault('beta', 2)",
        "options = {**options}",
    ],
)
def test_a_change_that_cannot_be_followed_leaves_the_whole_dict_unread(change: str) -> None:
    text = f"options = dict(beta=0.1)\n{change}\nc = GRPOConfig(**options)"
    loaded = load_config(text, "train.py")
    assert loaded.config == {} and "**options" in loaded.unread


def test_statements_behind_the_call_do_not_count() -> None:
    text = "options = dict(beta=0.1)\nc = GRPOConfig(**options)\noptions['beta'] = 0.5"
    assert load_config(text, "train.py").config == {"beta": 0.1}


SWIFT = "rlhf_type: grpo\ntuner_type: lora\nmodel: Qwen/Qwen2.5-7B\nnum_generations: 8\nlora_rank: 16\n"
VERL = "actor_rollout_ref:\n  rollout: {n: 8}\nalgorithm: {adv_estimator: grpo}\ndata: {train_batch_size: 8}\n"
AXOLOTL = "base_model: Qwen/Qwen2.5-0.5B\nrl: grpo\ntrl: {beta: 0.1, num_generations: 4}\nmicro_batch_size: 4\n"


LAUNCH = (
    "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3}\n"
    "machine_rank: 0\nnum_machines: 1\nnum_processes: 8\n"
)
ZERO = "zero_optimization: {stage: 3}\ntrain_micro_batch_size_per_gpu: auto\n"


@pytest.mark.parametrize(
    ("text", "trainer"),
    [
        (SWIFT, "ms-swift"),
        (VERL, "verl"),
        (AXOLOTL, "axolotl"),
        (LAUNCH, "give the file as setup"),
        (ZERO, "as deepspeed"),
    ],
)
def test_a_config_of_another_trainer_is_one_finding_that_names_it(text: str, trainer: str) -> None:
    found = findings(text, "c.yaml")
    assert [rule for rule, _ in found] == ["config-of-another-trainer"] and trainer in found[0][1]


@pytest.mark.parametrize("config", [{"lora_rank": 8}, {"num_generation": 8}, {"data": 1, "trainer": 2}, {"rl": 1}])
def test_a_single_strange_name_is_a_misspelling_not_another_trainer(config: dict[str, Any]) -> None:
    rules = [finding.rule for finding in check(config, parse_setup({})).findings]
    assert "unknown-kwarg" in rules and "config-of-another-trainer" not in rules


def test_options_one_level_down_are_named_and_nothing_absurd_is_offered() -> None:
    found = findings("training:\n  loss_type: dapo\n  num_generations: 8\n  beta: 0.1\n", "c.yaml")
    assert found == [
        (
            "unknown-kwarg",
            "GRPOConfig has no training. It holds options of GRPOConfig (loss_type, num_generations, beta) one level "
            "down: give its content.",
        )
    ]


def test_a_name_whose_value_does_not_fit_is_not_offered() -> None:
    result = check({"algorithm": {"name": "grpo"}, "do_trains": {"a": 1}}, parse_setup({}))
    found = [finding for finding in result.findings if finding.rule == "unknown-kwarg"]
    assert len(found) == 2 and not any(finding.fix and finding.fix.set for finding in found)


SUBCLASS = """
from dataclasses import dataclass, field
from trl import GRPOConfig

{decorator}
class OwnConfig(GRPOConfig):
    agent_servers: dict | None = None
    num_generations: int = 3
    learning_rate: float = field(default=2e-6)

args = OwnConfig(output_dir="out", agent_servers={{}}, beta=0.1)
"""


def test_fields_of_a_subclass_are_defaults_where_trl_knows_them_and_not_judged_where_it_does_not() -> None:
    loaded = load_config(SUBCLASS.format(decorator="@dataclass"), "train.py")
    assert loaded.config == {"num_generations": 3, "learning_rate": 2e-6, "output_dir": "out", "beta": 0.1}
    assert [note for note in loaded.notes if note.startswith("agent_servers: a field that this file adds")]


def test_a_subclass_that_is_no_dataclass_changes_no_default() -> None:
    loaded = load_config(SUBCLASS.format(decorator=""), "train.py")
    assert loaded.config == {"output_dir": "out", "agent_servers": {}, "beta": 0.1}


ENVIRONMENTS = """
from trl import GRPOConfig, GRPOTrainer
GRPOTrainer(model="m", args=GRPOConfig(output_dir="o"), environment_factory={factory}{more})
"""


@pytest.mark.parametrize(
    ("factory", "more", "setup"),
    [
        ('{"code": Code, "game": Game}', "", {"environment_factory": {"names": ["code", "game"]}, "type": "None"}),
        ("Game", ", train_dataset=None", {"environment_factory": {"name": "Game"}, "type": "None"}),
        ("Game", ", **more", {"environment_factory": {"name": "Game"}, "type": None}),
    ],
)
def test_a_trainer_without_a_dataset_and_its_environments_are_told(
    factory: str, more: str, setup: dict[str, Any]
) -> None:
    loaded = load_config(ENVIRONMENTS.format(factory=factory, more=more), "train.py")
    assert loaded.setup["environment_factory"] == setup["environment_factory"]
    assert loaded.setup.get("dataset", {}).get("type") == setup["type"]
