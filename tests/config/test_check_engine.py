"""How findings are gathered: versions, unknown values, order, fixes, files."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import grpo_rlvr.config as public
from grpo_rlvr.config import check, known_versions, load_config, newest_version
from grpo_rlvr.config.rules.completion_length import tokens_needed
from grpo_rlvr.models.check import CheckResult
from grpo_rlvr.models.setup import parse_setup

EMPTY = parse_setup({})
ONE = {"hardware": {"num_processes": 1}}


def rules(result: CheckResult) -> list[str]:
    """Return the errors and warnings."""
    return [finding.rule for finding in result.findings if finding.severity != "info"]


def test_the_version_comes_from_the_argument_then_the_setup_then_the_newest_table() -> None:
    stated = parse_setup({"versions": {"trl": "1.4.0"}})
    assert check({}, stated, trl_version="0.20.0").trl_version == "0.20.0"
    assert check({}, stated).trl_version == "1.4.0"
    result = check({}, EMPTY)
    assert result.trl_version == newest_version() and "newest" in result.trl_version_source


def test_a_version_newer_than_the_tables_is_said() -> None:
    result = check({"max_prompt_length": 512}, EMPTY, trl_version="9.0.0")
    assert "newer than the newest table" in result.trl_version_source and "deep" in result.trl_version_source
    assert rules(result) == ["removed-kwarg"]


def test_a_kwarg_that_a_newer_version_may_have_is_not_called_unknown() -> None:
    result = check({"brand_new_option": 1}, EMPTY, trl_version="9.0.0")
    assert rules(result) == [] and "newer" in result.not_applicable["unknown-kwarg"]
    assert rules(check({"brand_new_option": 1}, EMPTY)) == ["unknown-kwarg"]


def test_the_worst_finding_comes_first_and_is_the_verdict() -> None:
    result = check({"loss_type": "dr_grpo", "importance_sampling_level": "sequence", "beta": -1.0}, EMPTY)
    order = [finding.severity for finding in result.findings]
    assert order == sorted(order, key=["error", "warning", "info"].index)
    assert result.verdict == "error" and {"error", "warning", "info"} <= set(order)
    assert check({"loss_type": "dr_grpo"}, EMPTY).verdict == "ok"


def test_one_cause_makes_one_finding() -> None:
    wrong_type = check({"num_generations": "eight"}, EMPTY)
    assert rules(wrong_type) == ["value-of-wrong-type"]
    assert "batch-not-divisible-by-group" in wrong_type.not_applicable
    both = check({"generation_batch_size": 7, "steps_per_generation": 3}, parse_setup(ONE))
    assert rules(both) == ["both-rollout-sizes-set"]


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ({"eval_strategy": None, "per_device_eval_batch_size": None}, "eval_strategy"),
        ({"use_vllm": "yes", "top_p": None}, "use_vllm"),
        ({"save_strategy": 5, "save_steps": None, "learning_rate": "fast"}, "learning_rate"),
    ],
)
def test_an_option_that_cannot_be_judged_hides_no_other_one(config: dict[str, Any], wrong: str) -> None:
    found = check(config, EMPTY).findings
    assert wrong in [finding.fields[0] for finding in found if finding.rule == "value-of-wrong-type"]


@pytest.mark.parametrize(
    "line", ["eval_strategy=pick(), per_device_eval_batch_size=0", "max_steps=pick(), num_train_epochs=-1"]
)
def test_a_range_that_hangs_on_an_unread_value_hides_no_other_one(line: str) -> None:
    loaded = load_config(f"from trl import GRPOConfig\nGRPOConfig({line}, num_iterations=0)\n", "train.py")
    found = check(loaded.config, EMPTY, trl_version="1.16.0", loaded=loaded).findings
    assert [finding.fields[0] for finding in found if finding.rule == "value-out-of-range"] == ["num_iterations"]


def test_changed_defaults_between_two_versions_are_listed_for_unset_options_only() -> None:
    changes = check(
        {"beta": 0.0, "use_vllm": True}, EMPTY, trl_version="1.16.0", from_version="0.18.0"
    ).defaults_changed
    found = {change.field: (change.before, change.after) for change in changes if change.changes_training}
    assert found["loss_type"] == ("bnpo", "dapo")
    assert found["vllm_mode"] == ("server", "colocate")
    assert found["max_completion_length"] == (256, 512)
    assert "beta" not in found
    assert not check({}, EMPTY, trl_version="1.16.0", from_version="1.16.0").defaults_changed


def test_a_bias_corrected_kl_is_among_the_changes() -> None:
    changes = check({}, EMPTY, trl_version="1.10.0", from_version="1.9.2").defaults_changed
    assert {change.field for change in changes if change.changes_training} == {
        "max_completion_length",
        "use_bias_correction_kl",
    }


SCRIPT = """
from trl import GRPOConfig
args = GRPOConfig(
    per_device_train_batch_size=1,
    num_generations=compute(),
    max_prompt_length=512,
)
"""


def test_findings_from_a_script_point_at_file_and_line_and_leave_unread_values_unknown() -> None:
    loaded = load_config(SCRIPT, "train.py")
    result = check(loaded.config, EMPTY, trl_version="1.16.0", loaded=loaded)
    removed = next(finding for finding in result.findings if finding.rule == "removed-kwarg")
    assert (removed.file, removed.line) == ("train.py", 6)
    assert result.unread == ["num_generations"]
    assert "batch-not-divisible-by-group" not in rules(result)
    assert "num_generations" in result.not_applicable["batch-not-divisible-by-group"]
    assert result.diff and "-    max_prompt_length=512,\n" in result.diff


def test_an_entry_that_could_not_be_read_leaves_only_itself_unknown() -> None:
    text = "GRPOConfig(use_cpu=True, model_init_kwargs={'dtype': pick(), 'attn_implementation': 'sdpa'})\n"
    loaded = load_config(f"from trl import GRPOConfig\n{text}", "train.py")
    setup = parse_setup({"model": {"params_b": 7, "peft": False}, "hardware": {"num_processes": 1, "gpu_mem_gb": 24}})
    result = check(loaded.config, setup, trl_version="1.16.0", loaded=loaded)
    assert result.unread == ["model_init_kwargs.dtype"]
    assert not [name for name in rules(result) if "kwarg" in name or "float32" in name], rules(result)


def test_an_unpacked_dict_makes_unset_options_unknown() -> None:
    loaded = load_config("from trl import GRPOConfig\nGRPOConfig(num_generations=8, **read())\n", "train.py")
    result = check(loaded.config, EMPTY, trl_version="1.16.0", loaded=loaded)
    assert "batch-not-divisible-by-group" not in rules(result)
    assert result.effective is None


def test_safe_fixes_are_applied_and_others_are_not() -> None:
    config = {"warmup_ratio": 0.1, "learning_rate": "1e-6", "per_device_train_batch_size": 1}
    setup = parse_setup({**ONE, "versions": {"transformers": "5.24.0"}})
    result = check(config, setup, trl_version="1.16.0")
    assert result.fixed_config == {"learning_rate": 1e-6, "per_device_train_batch_size": 1, "warmup_steps": 0.1}
    assert rules(check(result.fixed_config, setup, trl_version="1.16.0")) == ["batch-not-divisible-by-group"]
    assert config["warmup_ratio"] == 0.1, "the caller's config must stay as it was"


@pytest.mark.parametrize("version", known_versions())
def test_an_empty_config_is_fine_at_every_version(version: str) -> None:
    assert check({}, EMPTY, trl_version=version).verdict == "ok"


def test_exported_names_are_those_that_exist() -> None:
    for name in public.__all__:
        assert getattr(public, name) is not None
    with pytest.raises(AttributeError):
        _ = public.nothing


def test_importing_the_package_loads_no_rule_and_a_check_loads_nothing_heavy() -> None:
    code = (
        "import sys, grpo_rlvr.config as c\n"
        "assert not [m for m in sys.modules if m.startswith('grpo_rlvr.config.')], 'import is not lazy'\n"
        "from grpo_rlvr.models.setup import parse_setup\n"
        "c.check({'num_generations': 4}, parse_setup({}))\n"
        "heavy = {'torch', 'trl', 'transformers', 'numpy', 'scipy', 'mcp'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_generated_pages_are_fresh(pytestconfig: pytest.Config) -> None:
    root = Path(__file__).resolve().parent.parent.parent
    stale = [
        name
        for name, text in public.render_docs().items()
        if not (root / name).is_file() or (root / name).read_text(encoding="utf-8") != text
    ]
    assert not stale, f"run scripts/docs: {stale}"


def test_setup_keys_that_nothing_reads_are_reported() -> None:
    setup: Any = {"model": {"colour": "blue"}}
    assert check({}, parse_setup(setup)).unused_setup == ["model.colour"]
    assert check({}, parse_setup({"hardware": {"num_processes": "eight"}})).unused_setup == ["hardware.num_processes"]


def test_settings_of_accelerate_are_a_setup_as_they_are() -> None:
    settings: Any = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {"zero_stage": 3},
        "num_processes": 8,
    }
    result = check({"per_device_train_batch_size": 1, "num_generations": 8}, parse_setup(settings))
    assert result.unused_setup == [] and result.verdict == "ok"
    assert result.effective and result.effective.batch and result.effective.batch.processes == 8


@pytest.mark.parametrize(
    ("task", "tokens"),
    [
        ("math, answers need 600-700 tokens", 600),
        ("answers of about 2k tokens", 2000),
        ("2,000-token chains of thought", 2000),
        ("1.5k to 3k output tokens", 1500),
        ("prompts of 900 tokens, answers need 100 tokens", 100),
        ("prompts of 900 tokens", None),
        ("GSM8K step-by-step", None),
    ],
)
def test_the_length_that_a_task_needs_is_read_from_its_description(task: str, tokens: int | None) -> None:
    assert tokens_needed(task) == tokens


@pytest.mark.parametrize(
    ("path", "usual", "other"),
    [
        ("hardware.gpu_mem_gb", 24, "24 GB"),
        ("hardware.gpu_mem_gb", 24, "24"),
        ("model.params_b", 7, "7B"),
        ("hardware.gpus", 2, [0, 1]),
        ("hardware.gpus", 2, "2"),
        ("model.class", "dense", "Dense"),
        ("dataset.columns", ["prompt"], "prompt"),
        ("dataset.columns", ["prompt", "gold"], {"prompt": "string", "gold": "string"}),
        ("hardware.cuda_visible_devices", [0, 1], ["0", "1"]),
        ("hardware.cuda_visible_devices", [0, 1], "0,1"),
        ("vllm_server.running", False, "false"),
    ],
)
def test_a_setup_says_the_same_in_each_usual_way(path: str, usual: Any, other: Any) -> None:
    def found(value: Any) -> list[tuple[str, str]]:
        setup: dict[str, Any] = {
            "model": {"class": "dense", "params_b": 7, "peft": True},
            "hardware": {"num_processes": 1, "gpus": 2, "gpu_mem_gb": 24},
            "dataset": {"columns": ["prompt", "answer"]},
            "rewards": [{"name": "f", "signature": "def f(completions, gold, **kwargs)"}],
            "vllm_server": {"running": True},
        }
        section, _, key = path.partition(".")
        setup[section] = {**setup[section], key: value}
        result = check({"use_vllm": True, "vllm_mode": "server"}, parse_setup(setup), trl_version="1.16.0")
        assert not result.unused_setup
        return [(finding.rule, finding.message) for finding in result.findings]

    assert found(other) == found(usual)


@pytest.mark.parametrize(
    ("rule", "field", "script"),
    [
        ("step-count-not-whole", "eval_steps", "logging_steps=every(), eval_steps=2.5, eval_strategy='steps'"),
        ("step-count-not-whole", "save_steps", "eval_steps=2.5, eval_strategy=args.when, save_steps=7.5"),
        ("greedy-rollouts", "top_k", "temperature=args.temperature, top_k=1"),
        ("greedy-rollouts", "top_p", "top_p=0.0, generation_kwargs=args.extra"),
        ("sampling-narrowed", "min_p", "top_p=args.top_p, min_p=0.1"),
        ("adam-betas-of-two-types", "adam_beta2", "adam_beta1=args.beta1, adam_beta2=1"),
        ("option-unused-by-loss", "delta", "loss_type='sapo', epsilon=args.epsilon, delta=4.0"),
    ],
)
def test_an_option_that_cannot_be_read_hides_nothing_about_the_others(rule: str, field: str, script: str) -> None:
    loaded = load_config(f"from trl import GRPOConfig\nargs = parse()\nGRPOConfig({script})\n", "train.py")
    result = check(loaded.config, parse_setup(loaded.setup), trl_version="1.16.0", loaded=loaded)
    assert field in [found.fields[0] for found in result.findings if found.rule == rule]
    assert result.unread


def test_a_rule_that_could_read_none_of_its_options_says_that_it_could_not_judge() -> None:
    loaded = load_config("from trl import GRPOConfig\nGRPOConfig(logging_steps=every())\n", "train.py")
    result = check(loaded.config, parse_setup(loaded.setup), trl_version="1.16.0", loaded=loaded)
    assert "logging_steps" in result.not_applicable["step-count-not-whole"]


@pytest.mark.parametrize(
    ("hardware", "server", "processes"),
    [
        ({"gpus": 8}, {"gpus": 2}, 6),
        ({"gpus": 8}, {"gpus": [0, 1]}, 6),
        ({"gpus": 8}, {"gpus": "6,7"}, 6),
        ({"gpus": 4}, {"gpus": 4}, 4),  # a machine of its own
        ({"gpus": 8}, {}, 1),
        ({"gpus": 8, "num_processes": 4}, {"gpus": 2}, 4),
    ],
)
def test_training_processes_are_what_a_stated_server_leaves(hardware: Any, server: Any, processes: int) -> None:
    setup = parse_setup({"hardware": hardware, "vllm_server": server})
    result = check({"use_vllm": True, "vllm_mode": "server"}, setup)
    assert result.effective
    assert result.effective.batch and result.effective.batch.processes == processes


def test_a_plain_number_of_server_gpus_is_a_count_and_no_index() -> None:
    rule = "server-shares-trainer-gpu"
    server = {"use_vllm": True, "vllm_mode": "server"}
    apart = {"hardware": {"gpus": 2, "cuda_visible_devices": [1]}, "vllm_server": {"gpus": 1}}
    assert rule not in [finding.rule for finding in check(server, parse_setup(apart)).findings]
    crowded = {"hardware": {"gpus": 8, "num_processes": 7}, "vllm_server": {"gpus": 2}}
    assert rule in [finding.rule for finding in check(server, parse_setup(crowded)).findings]
