"""The deep check against the installed packages: what they raise, warn and train, mapped to the rules."""

from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.config import check
from grpo_rlvr.config.deep import add_new_findings, build_request, deep_check, predicting_rule
from grpo_rlvr.interpreter import Interpreter, training_interpreter
from grpo_rlvr.models.check import CheckResult, DeepFinding, DeepResult
from grpo_rlvr.models.setup import parse_setup
from grpo_rlvr.workspace import Workspace

PEFT_MODEL = {"peft": True, "instance": "PeftModel", "adapter": {"is_trainable": False}}
CHAT = {"columns": ["prompt", "answer"], "format": "conversational"}


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Interpreter:
    """Return the interpreter that trains."""
    return training_interpreter(Workspace.open(tmp_path_factory.mktemp("deep")))


def deep(config: dict[str, Any], setup: dict[str, Any], interpreter: Interpreter) -> CheckResult:
    """Return a check with the deep one in it."""
    return check({"learning_rate": 1e-5, **config}, parse_setup(setup), deep=interpreter)


@pytest.mark.slow
def test_a_sound_config_goes_through_every_stage_without_findings(interpreter: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def graded(completions, answer, **kwargs):\n"
        "    return [float(len(c[0]['content']) % 3) for c in completions]\n",
        encoding="utf-8",
    )
    setup = parse_setup(
        {"dataset": CHAT, "rewards": [{"reward": "mine.py:graded"}], "model": {"class": "moe", "peft": True}}
    )
    result = check({"loss_type": "grpo", "beta": 0.01}, setup)
    found = deep_check(result, {"loss_type": "grpo", "beta": 0.01}, setup, interpreter, root=tmp_path)
    assert found.ran and found.findings == [] and found.stages == ["config", "trainer", "inspect", "step"]
    assert found.trainable_parameters and found.total_parameters
    assert 0 < found.trainable_parameters < found.total_parameters
    assert found.reference == "the model with its adapter switched off" and found.versions["trl"]


@pytest.mark.slow
def test_an_optimizer_without_parameters_is_seen_and_belongs_to_its_rule(interpreter: Interpreter) -> None:
    result = deep({"beta": 0.04}, {"model": PEFT_MODEL}, interpreter)
    assert result.deep is not None and result.deep.trainable_parameters == 0
    assert [finding.rule for finding in result.deep.findings] == ["adapter-frozen-with-kl"]
    assert sum(finding.rule == "adapter-frozen-with-kl" for finding in result.findings) == 1


@pytest.mark.slow
def test_a_reference_reloaded_from_disk_is_seen_to_differ(interpreter: Interpreter) -> None:
    model = {"instance": "merge_and_unload() of an adapter, not saved", "peft": False}
    result = deep({"beta": 0.04}, {"model": model}, interpreter)
    assert result.deep is not None and result.deep.reference == "a model with other weights than the policy"
    assert [finding.rule for finding in result.deep.findings] == ["reference-reloaded-without-changes"]


def test_what_no_rule_predicts_is_a_finding_of_its_own() -> None:
    result = check({"optim_args": "nope=1"}, parse_setup({}))
    assert result.verdict == "ok"
    text = "TypeError: AdamW.__init__() got an unexpected keyword argument 'nope'"
    assert predicting_rule(text, result.findings) is None
    seen = DeepFinding(stage="step", kind="raised", text=f"{text} from optim_args", rule=None)
    add_new_findings(result, DeepResult(ran=True, interpreter="python", findings=[seen]))
    new = result.findings[0]
    assert (new.rule, new.severity, new.fields) == ("deep-raised", "error", ["optim_args"])
    assert "nope" in new.message and result.verdict == "error"


def test_a_child_that_takes_too_long_is_ended_and_said(interpreter: Interpreter) -> None:
    setup = parse_setup({})
    found = deep_check(check({}, setup), {}, setup, interpreter, time_limit_s=0.2)
    assert not found.ran and found.reason == "the deep check was ended after 0.2 s"


def test_an_interpreter_without_trl_is_named_with_the_command_that_helps() -> None:
    bare = Interpreter(Path("/opt/python"), "test", "3.11.0", {"torch": "2.6"})
    setup = parse_setup({})
    found = deep_check(check({}, setup), {}, setup, bare)
    assert not found.ran and found.reason is not None and "pip install trl transformers datasets" in found.reason


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("TypeError: f() missing 1 required positional argument: 'solution'", "reward-required-parameter-missing"),
        ("TypeError: f() got an unexpected keyword argument 'prompts'", "reward-without-kwargs"),
        ("TypeError: GRPOConfig.__init__() got an unexpected keyword argument 'x'", "unknown-kwarg"),
        ("ImportError: You need to install `bitsandbytes`", "optimizer-needs-bitsandbytes"),
        ("KeyError: 'prompt'", "prompt-column-missing"),
        ("RuntimeError: something else", None),
    ],
)
def test_messages_of_the_packages_are_mapped_to_the_rules_known_for_them(text: str, rule: str | None) -> None:
    assert predicting_rule(text, []) == rule


def test_a_known_message_without_its_finding_appears_under_its_rule() -> None:
    result = check({}, parse_setup({}))
    seen = DeepFinding(stage="step", kind="raised", text="KeyError: 'prompt'", rule="prompt-column-missing")
    add_new_findings(result, DeepResult(ran=True, interpreter="python", findings=[seen]))
    assert result.findings[0].rule == "prompt-column-missing" and result.verdict == "error"


def test_columns_that_are_not_stated_are_made_up_for_stand_ins_only() -> None:
    asks = {"rewards": [{"name": "f", "signature": "def f(prompts, completions, answer, **kwargs)"}]}
    assert build_request({}, parse_setup(asks), Path("/"))["made_up_columns"] == ["answer"]
    stated = {**asks, "dataset": {"columns": ["prompt"]}}
    assert "made_up_columns" not in build_request({}, parse_setup(stated), Path("/"))


@pytest.mark.slow
def test_a_reward_that_raises_is_a_finding_only_where_the_columns_are_stated(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("def f(completions, gold, **kwargs):\n    return [1 / 0]\n", encoding="utf-8")
    rewards = [{"reward": "mine.py:f"}]
    known = {"rewards": rewards, "dataset": {"columns": ["prompt", "gold"]}}
    for context, raised in (({"rewards": rewards}, []), (known, ["error"])):
        setup = parse_setup(context)
        result = check({"loss_type": "grpo"}, setup)
        found = deep_check(result, {"loss_type": "grpo"}, setup, interpreter, root=tmp_path)
        assert [finding.severity for finding in result.findings if finding.rule.startswith("deep-")] == raised
        assert (found.reason is None) == bool(raised) and found.stages == ["config", "trainer", "inspect"]


def test_vision_and_streaming_are_checked_as_far_as_the_config() -> None:
    for setup in ({"model": {"class": "vlm"}}, {"dataset": {"streaming": True}}):
        assert "skip_trainer" in build_request({}, parse_setup(setup), Path("/"))
