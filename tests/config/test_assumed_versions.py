"""What is said and done where the setup leaves a version open: transformers, and the TRL a config comes from."""

from typing import Any

import pytest

from grpo_rlvr.config import check, known_versions, load_config, table
from grpo_rlvr.config.admitted import admitted, breaks_elsewhere
from grpo_rlvr.config.tables import inherited_fields, transformers_history
from grpo_rlvr.config.typecheck import wrongly_typed
from grpo_rlvr.models.check import ChangedDefault, Finding
from grpo_rlvr.models.setup import parse_setup

EMPTY = parse_setup({})


def finding(config: dict[str, Any], rule: str, versions: dict[str, str] | None = None, **more: Any) -> Finding:
    result = check(config, parse_setup({"versions": versions or {}}), **more)
    return next(found for found in result.findings if found.rule == rule)


def changed(config: dict[str, Any], before: str, after: str = "1.16.0") -> dict[str, ChangedDefault]:
    result = check(config, EMPTY, trl_version=after, from_version=before)
    return {change.field: change for change in result.defaults_changed}


# ------------------------------------------------------------------------------------------- transformers
def test_the_transformers_version_and_where_it_comes_from_are_said() -> None:
    open_, stated = check({}, EMPTY), check({}, parse_setup({"versions": {"transformers": "4.57.0"}}))
    assert open_.transformers_version == "5.19.0"
    assert "assumed" in open_.transformers_version_source and ">=4.56.2" in open_.transformers_version_source
    assert (stated.transformers_version, stated.transformers_version_source) == (
        "4.57.0",
        "setup versions.transformers",
    )


def test_a_fix_that_another_admitted_transformers_refuses_is_not_safe_and_says_so() -> None:
    found = finding({"warmup_ratio": 0.1}, "removed-kwarg", trl_version="1.16.0")
    assert found.fix and found.fix.set == {"warmup_steps": 0.1} and not found.fix.safe
    assert "5.19.0 is assumed" in found.message
    assert "up to 4.57" in found.message and "whole number" in found.message
    assert "state versions.transformers" in found.message
    assert check({"warmup_ratio": 0.1}, EMPTY, trl_version="1.16.0").fixed_config == {"warmup_ratio": 0.1}


def test_the_same_fix_is_safe_once_transformers_is_stated() -> None:
    found = finding({"warmup_ratio": 0.1}, "removed-kwarg", {"transformers": "5.15.0"}, trl_version="1.16.0")
    assert found.fix and found.fix.safe and "assumed" not in found.message
    old = check({"warmup_ratio": 0.1}, parse_setup({"versions": {"transformers": "4.57.0"}}), trl_version="1.16.0")
    assert old.verdict == "ok" and old.fixed_config == {"warmup_ratio": 0.1}


def test_a_share_in_warmup_steps_is_translated_back_for_an_older_transformers() -> None:
    found = finding({"warmup_steps": 0.1}, "value-of-wrong-type", {"transformers": "4.57.0"}, trl_version="1.16.0")
    assert found.fix and found.fix.safe
    assert (found.fix.set, found.fix.unset) == ({"warmup_ratio": 0.1}, ["warmup_steps"])
    unstated = finding({"warmup_steps": 0.1}, "value-of-wrong-type", trl_version="0.26.2")
    assert unstated.fix and not unstated.fix.safe and "from 5.15 on" in unstated.message


OLD_NAMES: dict[str, Any] = {
    "warmup_ratio": 0.1, "evaluation_strategy": "steps", "no_cuda": True, "push_to_hub_token": "t", "logging_dir": "d",
    "save_safetensors": True, "overwrite_output_dir": True, "group_by_length": True, "max_prompt_length": 64,
    "per_gpu_train_batch_size": 8, "report_to_wandb": True, "learning_rate": "1e-6", "warmup_steps": "0.1",
    "save_steps": "10", "vllm_device": "auto", "dtype": "bfloat16", "wandb_log_unique_prompts": True,
}  # fmt: skip


@pytest.mark.parametrize("version", known_versions())
def test_a_safe_fix_sets_only_what_every_admitted_transformers_takes(version: str) -> None:
    fields = table(version)
    releases = [transformers_history()["releases"][at] for at in admitted(fields.requires["transformers"])]
    assert releases
    for name, value in OLD_NAMES.items():
        for found in check({name: value}, EMPTY, trl_version=version).findings:
            if found.fix and found.fix.safe:
                for release in releases:
                    under = table(version, release)
                    assert set(found.fix.set) <= set(under.fields), (found.rule, release)
                    assert not wrongly_typed(found.fix.set, under), (found.rule, release)


def test_only_inherited_options_depend_on_transformers() -> None:
    fields = table("1.16.0")
    assert "eval_strategy" in inherited_fields("4.46.3")
    assert breaks_elsewhere({"beta": 0.0, "eval_strategy": "no", "learning_rate": 1e-6}, fields) == ""
    assert "does not exist" in breaks_elsewhere({"activation_checkpointing": True}, fields)
    assert "whole number" in breaks_elsewhere({"warmup_steps": 0.5}, fields)
    assert breaks_elsewhere({"warmup_steps": 5}, fields) == ""


# ------------------------------------------------------------------------------------------- from_version
def test_a_loss_left_open_offers_one_that_changes_the_run_and_names_the_one_that_runs() -> None:
    found = finding({}, "recipe-loss-left-to-version", trl_version="1.16.0")
    assert found.fix and (found.fix.set, found.fix.safe) == ({"loss_type": "grpo"}, False)
    assert "'dapo' to keep what runs now" in found.message


@pytest.mark.parametrize(("came_from", "loss"), [("0.17.0", "bnpo"), ("0.16.1", "grpo"), ("0.21.0", "bnpo")])
def test_a_loss_left_open_is_fixed_to_what_ran_where_the_config_comes_from(came_from: str, loss: str) -> None:
    found = finding({}, "recipe-loss-left-to-version", trl_version="1.16.0", from_version=came_from)
    assert found.fix and (found.fix.set, found.fix.safe) == ({"loss_type": loss}, False)
    assert f"TRL {came_from} optimised '{loss}'" in found.message
    assert f"'{loss}' to keep what ran there, 'dapo' to keep what runs now" in found.message


def test_a_loss_that_did_not_change_since_is_not_spoken_of_as_changed() -> None:
    found = finding({}, "recipe-loss-left-to-version", trl_version="1.16.0", from_version="1.0.0")
    assert "optimised" not in found.message and found.fix and found.fix.set == {"loss_type": "grpo"}


def test_an_option_that_was_absent_is_told_from_one_that_was_null() -> None:
    changes = changed({"use_vllm": True}, "0.17.0")
    corrected = changes["use_bias_correction_kl"]
    assert (corrected.before, corrected.after, corrected.existed_before) == (False, True, False)
    mode = changes["vllm_mode"]
    assert (mode.before, mode.after, mode.existed_before) == ("server", "colocate", False)
    trackers = changes["report_to"]
    assert (trackers.before, trackers.existed_before) == (None, True) and "every tracker" in trackers.note
    assert not trackers.changes_training
    assert all(change.exists_after for change in changes.values() if change.field != "max_prompt_length")


def test_an_option_that_is_gone_says_so() -> None:
    gone = changed({}, "0.17.0")["max_prompt_length"]
    assert (gone.before, gone.after, gone.exists_after) == (512, None, False)
    kept = changed({}, "0.17.0", "0.26.2")["max_prompt_length"]
    assert (kept.before, kept.after, kept.exists_after) == (512, None, True)


def test_options_of_vllm_are_left_out_where_it_does_not_generate() -> None:
    assert not [name for name in changed({}, "0.17.0") if name.startswith("vllm_")]
    assert not [name for name in changed({"use_vllm": False}, "0.17.0") if name.startswith("vllm_")]
    assert {"vllm_mode", "vllm_importance_sampling_correction"} <= set(changed({"use_vllm": True}, "0.17.0"))


def test_a_renamed_option_is_one_option() -> None:
    config = {"use_vllm": True}
    assert not [name for name in changed(config, "1.5.1") if "sampling_c" in name], "the same bound, renamed"
    bound = changed(config, "0.23.1")
    assert "vllm_importance_sampling_cap" not in bound
    assert (bound["vllm_importance_sampling_clip_max"].before, bound["vllm_importance_sampling_clip_max"].after) == (
        2,
        3,
    )
    assert bound["vllm_importance_sampling_mode"].before == "token_truncate"


def test_the_oldest_releases_sampled_from_50_tokens_except_with_vllm() -> None:
    without, with_vllm = changed({}, "0.15.2")["top_k"], changed({"use_vllm": True}, "0.15.2")["top_k"]
    assert (without.before, without.existed_before, without.changes_training) == (50, False, True)
    assert (with_vllm.before, with_vllm.changes_training) == (None, False)


def test_options_of_a_synchronised_reference_model_change_only_where_there_is_one() -> None:
    assert not [name for name in changed({}, "0.15.2") if name.startswith("ref_model_")]
    assert changed({"sync_ref_model": True}, "0.15.2")["ref_model_sync_steps"].changes_training


def test_an_option_whose_value_could_not_be_read_is_not_left_unset() -> None:
    loaded = load_config("from trl import GRPOConfig\nGRPOConfig(temperature=pick(), use_vllm=pick())\n", "t.py")
    result = check(loaded.config, EMPTY, trl_version="1.16.0", from_version="0.17.0", loaded=loaded)
    names = {change.field for change in result.defaults_changed}
    assert "temperature" not in names and "vllm_mode" in names and "beta" in names


def test_what_an_absent_option_did_anyway_is_no_change() -> None:
    assert not {"importance_sampling_level", "num_iterations", "top_entropy_quantile"} & set(changed({}, "0.15.2"))


def test_the_stated_transformers_decides_the_inherited_defaults() -> None:
    setup = parse_setup({"versions": {"transformers": "4.57.6"}})
    kept = check({}, setup, trl_version="1.16.0", from_version="0.17.0").defaults_changed
    assert "report_to" not in {change.field for change in kept}


def test_the_default_optimizer_is_fused_only_since_transformers_4_54() -> None:
    assert table("0.17.0").default("optim") == "adamw_torch"
    assert inherited_fields("4.53.3")["optim"]["default"] == "adamw_torch"
    assert inherited_fields("4.54.1")["optim"]["default"] == "adamw_torch_fused"
    optim = changed({}, "0.17.0")["optim"]
    assert (optim.before, optim.after, optim.changes_training) == ("adamw_torch", "adamw_torch_fused", False)


# ------------------------------------------------------------------------------------------- missing facts
def test_facts_that_rules_wait_for_are_counted_the_most_first() -> None:
    result = check({}, EMPTY)
    assert list(result.missing_facts.values()) == sorted(result.missing_facts.values(), reverse=True)
    reasons = result.not_applicable.values()
    assert result.missing_facts["dataset.columns"] == sum("dataset.columns" in reason for reason in reasons) > 3
    assert not [fact for fact in result.missing_facts if fact.startswith("vllm_server")], "vLLM is off"


def test_a_stated_fact_is_missed_no_more() -> None:
    setup = parse_setup({"dataset": {"columns": ["prompt"], "rows": 10}, "rewards": [{"name": "exact"}]})
    found = check({}, setup).missing_facts
    assert not {"dataset.columns", "dataset.rows", "rewards"} & set(found) and "model.peft" in found


@pytest.mark.parametrize(
    ("setup", "fact"),
    [
        ({"peft_config": {"r": 8}}, "model.peft"),
        ({"model": {"lora_r": 8}}, "model.peft"),
        ({"model": {"peft": {"r": 8}}}, "model.peft"),
        ({"hardware": {"gb_each": 24}}, "hardware.gpu_mem_gb"),
        ({"launch": {"command": "CUDA_VISIBLE_DEVICES=0 python t.py"}}, "hardware.cuda_visible_devices"),
        ({"model": {"heads": 16}}, "model.num_attention_heads"),
    ],
)
def test_a_fact_stated_in_another_usual_way_is_not_missed(setup: dict[str, Any], fact: str) -> None:
    config = {"use_vllm": True, "vllm_tensor_parallel_size": 2}
    assert fact in check(config, EMPTY).missing_facts
    assert fact not in check(config, parse_setup(setup)).missing_facts


@pytest.mark.parametrize("config", [{}, {"use_vllm": True}, {"use_vllm": True, "vllm_mode": "server"}])
def test_every_reason_that_something_is_not_stated_names_the_fact(config: dict[str, Any]) -> None:
    result = check(config, EMPTY)
    silent = [
        reason
        for reason in result.not_applicable.values()
        if "stated" in reason and not any(fact in reason for fact in result.missing_facts)
    ]
    assert not silent
