"""What the rules about model loading, generation backends and limits on prompts say in full."""

from typing import Any

import pytest

from config_rules_b.cases_loading_and_backend import COLOCATE, NAMED


def test_a_short_dtype_is_written_out_and_the_other_keys_stay(findings: Any) -> None:
    given = {"model_init_kwargs": {"dtype": "bf16", "attn_implementation": "sdpa"}}
    found = next(item for item in findings(given, NAMED) if item.rule == "weights-dtype-unknown")
    assert found.fix is not None
    assert found.fix.set == {"model_init_kwargs": {"dtype": "bfloat16", "attn_implementation": "sdpa"}}


def test_a_limit_on_prompts_that_nothing_reads_is_called_so(findings: Any) -> None:
    found = findings({"max_prompt_length": 512}, {}, "0.27.2")
    text = next(item.message for item in found if item.rule == "kwarg-gone-in-next-release")
    assert "is not read any more" in text and "works here" not in text


@pytest.mark.parametrize(("trl", "lost"), [("0.28.0", "vllm_structured"), ("0.29.1", "generation_kwargs")])
def test_which_of_two_structured_outputs_counts_depends_on_the_release(findings: Any, trl: str, lost: str) -> None:
    given = {**COLOCATE, "vllm_structured_outputs_regex": "a", "generation_kwargs": {"structured_outputs": {"a": 1}}}
    found = next(item for item in findings(given, {}, trl) if item.rule == "structured-outputs-given-twice")
    assert f"Remove {lost}" in found.message
