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


@pytest.mark.parametrize("version", [known for known in known_versions() if in_range(known, ">=0.22")])
def test_the_recipe_raises_nothing_where_it_is_supported(version: str) -> None:
    result = check(recipe(), SETUP, trl_version=version)
    assert [finding.message for finding in result.findings if finding.severity != "info"] == []
    assert result.fixed_config == recipe()


@pytest.mark.parametrize("version", [known for known in known_versions() if in_range(known, ">=0.18,<0.22")])
def test_four_older_releases_take_it_after_the_safe_fixes(version: str) -> None:
    result = check(recipe(), SETUP, trl_version=version)
    assert result.fixed_config == {**recipe(), "scale_rewards": True}
    assert check(result.fixed_config, SETUP, trl_version=version).verdict == "ok"


@pytest.mark.parametrize("version", [known for known in known_versions() if in_range(known, "<0.18")])
def test_before_colocate_the_check_says_which_kwargs_must_differ(version: str) -> None:
    result = check(recipe(), SETUP, trl_version=version)
    named = {finding.fields[0] for finding in result.findings if finding.severity == "error"}
    assert "vllm_mode" in named
    assert all("0.18" in finding.message for finding in result.findings if finding.fields[0] == "vllm_mode")
