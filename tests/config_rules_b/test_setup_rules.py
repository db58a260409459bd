"""What the rules about model, launch, dataset and evaluation say in full."""

from typing import Any

import pytest

from config_rules_b.cases_setup import CHAT, VLM
from grpo_rlvr.config import check
from grpo_rlvr.models.setup import parse_setup


@pytest.mark.parametrize("names", [("eos", "turn_end"), ("eos_token", "eot_token"), ("eos_token_id", "eot_id")])
def test_a_turn_end_beside_the_eos_is_seen_under_the_usual_names(findings: Any, names: tuple[str, str]) -> None:
    ends: dict[str, Any] = {"model": {"tokenizer": {names[0]: 1, names[1]: 2}}}
    assert "turn-end-not-counted-as-end" in [finding.rule for finding in findings({}, ends, "1.13.0")]
    same: dict[str, Any] = {**ends, "model": {"tokenizer": {names[0]: 1, names[1]: 1}}}
    assert "turn-end-not-counted-as-end" not in [finding.rule for finding in findings({}, same, "1.13.0")]


def test_recipe_and_vision_remarks_are_never_more_than_information(findings: Any) -> None:
    found = findings({"num_generations": 4, "learning_rate": 5e-7}, {"model": {**VLM, "peft": True}, "dataset": CHAT})
    remarks = [item for item in found if item.rule.startswith("recipe-") or item.rule == "vision-language-run"]
    assert len(remarks) >= 3 and {item.severity for item in remarks} == {"info"}


CPU = {"hardware": {"device": "cpu"}}


@pytest.mark.parametrize(
    ("config", "told"),
    [({}, "bf16 is on by default,"), ({"bf16": True}, "bf16 is on,"),
     ({"bf16": False, "bf16_full_eval": True}, "bf16_full_eval is on,")],
)  # fmt: skip
def test_bf16_without_a_gpu_points_to_the_gpu_before_the_cpu(config: dict[str, Any], told: str) -> None:
    result = check(config, parse_setup(CPU), trl_version="1.16.0")
    found = next(finding for finding in result.findings if finding.rule == "bf16-without-gpu")
    assert found.message.startswith(told)
    assert found.message.index("launch where the GPU is") < found.message.index("use_cpu=True for a proof on the CPU")
    assert found.fix and not found.fix.safe and "use_cpu" not in result.fixed_config
