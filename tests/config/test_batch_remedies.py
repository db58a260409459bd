"""What the batch rules offer: both neighbours that fit, and the setting that keeps the size of an update."""

import math
from typing import Any

import pytest

from grpo_rlvr.config import apply_fix, check
from grpo_rlvr.models.check import Finding
from grpo_rlvr.models.setup import parse_setup

RULES = {"batch-not-divisible-by-group", "micro-batch-not-divisible-by-group"}


def refused(config: dict[str, Any], version: str = "1.16.0", processes: int = 1) -> Finding:
    result = check(config, parse_setup({"hardware": {"num_processes": processes}}), trl_version=version)
    return next(found for found in result.findings if found.rule in RULES)


def batch(per_device: int, accumulation: int, group: int, **more: int) -> dict[str, Any]:
    return {
        "per_device_train_batch_size": per_device, "gradient_accumulation_steps": accumulation,
        "num_generations": group, **more,
    }  # fmt: skip


def test_both_neighbours_of_the_accumulation_are_named_with_what_they_make() -> None:
    found = refused(batch(4, 3, 8))
    assert "gradient_accumulation_steps=2 (8 completions) or 4 (16 completions)" in found.message
    assert found.fix and found.fix.set == {"gradient_accumulation_steps": 4}


def test_the_rollout_that_keeps_the_size_of_an_update_is_named() -> None:
    assert (
        "steps_per_generation=6 keeps 12 completions an update: a rollout of 24 then feeds 2 updates"
        in refused(batch(4, 3, 8)).message
    )
    assert "steps_per_generation" not in refused(batch(4, 3, 8), "0.17.0").message


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (batch(4, 3, 8, steps_per_generation=3), "steps_per_generation=2 (8 completions) or 4 (16 completions)."),
        (batch(4, 3, 8, generation_batch_size=12), "generation_batch_size=8 (8 completions) or 16 (16 completions)."),
        (batch(1, 1, 8), "gradient_accumulation_steps=8 (8 completions). "),
    ],
)
def test_the_option_that_sets_the_rollout_is_the_one_that_is_changed(config: dict[str, Any], text: str) -> None:
    assert f"Or set {text}" in refused(config).message


def test_before_0_17_the_device_batch_is_what_is_changed() -> None:
    text = refused(batch(5, 1, 8), "0.16.1", processes=2).message
    assert "per_device_train_batch_size=4 (8 completions) or 8 (16 completions)" in text


@pytest.mark.parametrize("version", ["0.16.1", "0.17.0", "1.16.0"])
@pytest.mark.parametrize("processes", [1, 3])
def test_every_offered_batch_holds_whole_groups(version: str, processes: int) -> None:
    setup = parse_setup({"hardware": {"num_processes": processes}})
    tried = 0
    for per_device in (1, 3, 4, 6):
        for group in (4, 7, 8, 12):
            config = batch(per_device, 3, group)
            result = check(config, setup, trl_version=version)
            for found in result.findings:
                if found.rule in RULES and found.fix:
                    tried += 1
                    after = check(apply_fix(config, found.fix), setup, trl_version=version)
                    assert not RULES & {again.rule for again in after.findings}, config
                    if version == "1.16.0":
                        steps = math.lcm(group // math.gcd(per_device * processes, group), 3)
                        kept = check({**config, "steps_per_generation": steps}, setup, trl_version=version)
                        assert f"steps_per_generation={steps} keeps" in found.message
                        assert not RULES & {again.rule for again in kept.findings}, config
                        assert kept.effective and kept.effective.batch
                        assert kept.effective.batch.completions_per_update == per_device * processes * 3
    assert tried > 5


@pytest.mark.parametrize(
    ("config", "rule", "version"),
    [
        ({**batch(2, 4, 4), "generation_batch_size": 4}, "rollout-steps-differ-from-accumulation", "0.27.2"),
        ({**batch(4, 4, 8), "generation_batch_size": 4}, "batch-not-divisible-by-group", "1.16.0"),
        ({**batch(8, 4, 8), "generation_batch_size": 12}, "rollout-not-whole-micro-batches", "1.16.0"),
        (
            {**batch(4, 4, 8), "generation_batch_size": 16, "steps_per_generation": 4},
            "both-rollout-sizes-set",
            "1.16.0",
        ),
    ],
)
def test_what_is_offered_leaves_one_way_to_state_the_rollout(config: dict[str, Any], rule: str, version: str) -> None:
    setup = parse_setup({"hardware": {"num_processes": 1}})
    found = next(item for item in check(config, setup, trl_version=version).findings if item.rule == rule)
    assert found.fix is not None
    after = {item.rule for item in check(apply_fix(config, found.fix), setup, trl_version=version).findings}
    assert rule not in after and "both-rollout-sizes-set" not in after
