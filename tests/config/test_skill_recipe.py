"""The recipe of SKILL.md raises nothing at the versions it is for, and the check says what differs at older ones."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.config import check, known_versions
from grpo_rlvr.config.versions import in_range
from grpo_rlvr.models.setup import parse_setup

SKILL = Path(__file__).resolve().parent.parent.parent / "SKILL.md"
SETUP = parse_setup(
    {
        "model": {"class": "dense", "params_b": 1.5, "peft": False},
        "hardware": {"num_processes": 1, "device": "cuda", "gpus": 1, "gpu_mem_gb": 80},
    }
)


def recipe() -> dict[str, Any]:
    block = re.search(r"```json\n(.*?)```", SKILL.read_text(encoding="utf-8"), re.DOTALL)
    assert block, "SKILL.md shows its recipe as a JSON block"
    found: dict[str, Any] = json.loads(block[1])
    assert found["loss_type"] == "grpo" and "beta" in found
    return found


def versions(spec: str) -> list[str]:
    return [known for known in known_versions() if in_range(known, spec)]


@pytest.mark.parametrize("version", versions(">=0.26"))
def test_the_recipe_raises_nothing_where_it_is_supported(version: str) -> None:
    result = check(recipe(), SETUP, trl_version=version)
    assert [finding.message for finding in result.findings if finding.severity != "info"] == []
    assert result.fixed_config == recipe()


@pytest.mark.parametrize("version", versions(">=0.18,<0.26"))
def test_older_releases_take_it_without_the_window_of_vllm_and_after_the_safe_fixes(version: str) -> None:
    result = check(recipe(), SETUP, trl_version=version)
    errors = {finding.fields[0]: finding.message for finding in result.findings if finding.severity == "error"}
    assert "0.26" in errors.pop("vllm_max_model_length")
    assert set(errors) <= ({"scale_rewards"} if in_range(version, "<0.22") else set())
    without = {name: value for name, value in result.fixed_config.items() if name != "vllm_max_model_length"}
    assert check(without, SETUP, trl_version=version).verdict == "ok"


@pytest.mark.parametrize("version", versions("<0.18"))
def test_before_colocate_the_check_says_which_kwargs_must_differ(version: str) -> None:
    result = check(recipe(), SETUP, trl_version=version)
    named = {finding.fields[0] for finding in result.findings if finding.severity == "error"}
    assert "vllm_mode" in named
    assert all("0.18" in finding.message for finding in result.findings if finding.fields[0] == "vllm_mode")
