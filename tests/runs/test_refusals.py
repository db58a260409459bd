"""Every reason not to launch is said, with its remedy, and leaves nothing behind."""

import json
import shutil

import pytest

from grpo_rlvr.errors import InputError, NotFoundError, RefusedError
from grpo_rlvr.models.run import RunSpec
from grpo_rlvr.runs import launch, list_runs
from grpo_rlvr.runs.gpus import Gpu
from grpo_rlvr.workspace import Workspace


def rules_of(spec, workspace, stage="smoke"):
    return {refusal.rule: refusal for refusal in launch(spec, workspace, stage=stage, dry_run=True).refusals}


def test_open_gate_and_sound_config_have_nothing_against_them(spec, workspace):
    result = launch(spec, workspace, stage="proof", dry_run=True)
    assert result.refusals == [] and result.run_id is None and result.state == "planned"
    assert result.gate.open and result.gate.record["record"]["reading_id"] == spec.reading
    assert [command.name for command in result.commands] == ["train"]
    assert result.effective["config"]["max_steps"] == 2
    assert not workspace.runs.exists() or list_runs(workspace).total == 0


def test_real_launch_raises_all_reasons_at_once_and_makes_no_run(spec, workspace):
    bad = spec.model_copy(update={"reading": None, "config": {**spec.config, "num_generations": 3}})
    with pytest.raises(RefusedError) as raised:
        launch(bad, workspace, stage="smoke")
    text = str(raised.value)
    assert "[gate:no-reading]" in text and "[config:" in text and "start_reading" in text
    assert list_runs(workspace).total == 0
    assert not list(workspace.runs.glob(".new-*"))


def test_settings_that_cannot_be_used_are_named_as_the_cause(spec, workspace):
    settings = workspace.root / "grpo-rlvr.toml"
    settings.write_text(settings.read_text(encoding="utf-8") + "row = 5\n", encoding="utf-8")
    line = settings.read_text(encoding="utf-8").count("\n")
    result = launch(spec, workspace, stage="smoke", dry_run=True)
    (refusal,) = result.refusals
    assert refusal.rule == "gate:settings" and "Known keys: rows" in refusal.remedy
    assert refusal.message.startswith(f"grpo-rlvr.toml line {line} [gate]: unknown key 'row'")
    assert result.message.endswith("1 reason stands against it.")


def test_config_error_is_refused_with_its_fix(spec, workspace):
    found = rules_of(spec.model_copy(update={"config": {**spec.config, "num_generations": 3}}), workspace)
    refusal = next(value for rule, value in found.items() if rule.startswith("config:"))
    assert "3" in refusal.message and refusal.remedy


def test_config_without_use_cpu_is_sent_to_a_gpu_first_and_to_the_cpu_as_a_possibility(spec, workspace, monkeypatch):
    monkeypatch.setattr("grpo_rlvr.runs.launching.list_gpus", list)
    config = {key: value for key, value in spec.config.items() if key not in ("use_cpu", "bf16")}
    found = rules_of(spec.model_copy(update={"config": config}), workspace)
    refusal = found["config:bf16-without-gpu"]
    assert "launch where the GPU is" in refusal.message
    assert refusal.remedy == "Possible, but changes the run: set use_cpu to True."


def test_cpu_stated_in_the_launcher_needs_no_use_cpu_beside_it(spec, workspace):
    config = {key: value for key, value in spec.config.items() if key not in ("use_cpu", "bf16")}
    stated = spec.model_copy(update={"config": config, "launcher": spec.launcher.model_copy(update={"cpu": True})})
    assert "config:bf16-without-gpu" not in rules_of(stated, workspace)
    unstated = spec.model_copy(update={"config": config})
    assert "config:bf16-without-gpu" in rules_of(unstated, workspace)


def test_reading_that_does_not_exist_is_refused(spec, workspace):
    found = rules_of(spec.model_copy(update={"reading": "reading-that-never-was"}), workspace)
    assert any(rule.startswith("gate:") for rule in found)


def test_edited_reward_closes_the_gate(spec, workspace):
    helper = workspace.root / "helper.py"
    helper.write_text(helper.read_text(encoding="utf-8") + "# one more line\n", encoding="utf-8")
    found = rules_of(spec, workspace)
    assert "helper.py was edited" in found["gate:reward_changed"].message


def test_disagreeing_reading_is_refused(workspace, make_spec, gate_for):
    (workspace.root / "wrong.py").write_text("def wrong(completions, **kwargs):\n    return [1.0] * len(completions)\n")
    rewards = [{"reward": "wrong.py:wrong"}]
    found = rules_of(make_spec(workspace, rewards=rewards, reading=gate_for(workspace, rewards)), workspace)
    assert "gate:unresolved_disagreement" in found
    assert "base-rate-one" in found, "a reward that is always 1 measures a base rate of 1"


@pytest.mark.parametrize(("right", "rule"), [(0, "base-rate-zero"), (60, "base-rate-one")])
def test_model_that_never_or_always_succeeds_is_refused(workspace, make_spec, gate_for, right, rule):
    rewards = [{"reward": "my_rewards.py:early_letter"}]
    found = rules_of(make_spec(workspace, reading=gate_for(workspace, rewards, right=right)), workspace)
    assert rule in found and "60" in found[rule].message and found[rule].remedy


def test_reading_of_another_workspace_is_refused(spec, workspace, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(workspace.root, other, symlinks=True, ignore=shutil.ignore_patterns(".grpo-rlvr"))
    found = rules_of(spec, Workspace.open(other, confined=False))
    assert any(rule.startswith("gate:") for rule in found)


def test_vision_language_model_is_refused(spec, workspace):
    (workspace.root / "vlm").mkdir()
    config = {"model_type": "qwen2_vl", "vision_config": {"depth": 2}}
    (workspace.root / "vlm" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    changed = spec.model_copy(update={"model": spec.model.model_copy(update={"path": "vlm"})})
    assert "vision-language-model" in rules_of(changed, workspace)


def test_vision_language_model_of_the_hub_is_refused_by_its_name(spec, workspace):
    changed = spec.model_copy(update={"model": spec.model.model_copy(update={"path": "Qwen/Qwen2-VL-2B-Instruct"})})
    assert "'VL' in its name" in rules_of(changed, workspace)["vision-language-model"].message


def test_dry_run_leaves_no_file_behind(spec, workspace):
    before = sorted(path for path in workspace.root.rglob("*") if path.name != "__pycache__")
    launch(spec, workspace, dry_run=True)
    assert sorted(path for path in workspace.root.rglob("*") if path.name != "__pycache__") == before


def test_full_run_wants_a_smoke_run_first(spec, workspace):
    assert "no-smoke" in rules_of(spec, workspace, stage="full")
    waived = launch(spec, workspace, stage="full", dry_run=True, waive="trying it out")
    assert waived.refusals == [] and any("trying it out" in warning for warning in waived.warnings)


def test_missing_packages_are_named_with_the_command(spec, workspace):
    changed = spec.model_copy(update={"config": {**spec.config, "report_to": "trackio"}})
    refusal = rules_of(changed, workspace)["missing-packages"]
    assert "trackio" in refusal.message and "-m pip install trackio" in refusal.remedy


def test_interpreter_without_trl_is_refused(spec, workspace, tmp_path):
    import venv

    venv.create(tmp_path / "bare", with_pip=False)
    changed = spec.model_copy(update={"python": str(tmp_path / "bare" / "bin" / "python")})
    refusal = rules_of(changed, workspace)["missing-packages"]
    assert "trl, transformers, torch, accelerate, datasets" in refusal.message


def test_output_folder_of_another_run_is_refused(spec, workspace):
    out = workspace.root / "out"
    out.mkdir()
    (out / ".grpo-rlvr-run.json").write_text('{"run_id": "train-20260101-000000-aaaaaa"}', encoding="utf-8")
    changed = spec.model_copy(update={"config": {**spec.config, "output_dir": "out"}})
    assert "train-20260101-000000-aaaaaa" in rules_of(changed, workspace, "full")["output-taken"].message
    (out / ".grpo-rlvr-run.json").unlink()
    (out / "checkpoint-5").mkdir()
    assert "already holds checkpoints" in rules_of(changed, workspace, "full")["output-taken"].message
    assert "output-taken" not in rules_of(changed, workspace, "smoke"), "short stages keep to the run's own folder"


GPUS = [Gpu(i, "test", 80.0, 0.0, 0.0) for i in range(4)]


@pytest.fixture
def four_gpus(monkeypatch):
    for module in ("launching", "gpus"):
        monkeypatch.setattr(f"grpo_rlvr.runs.{module}.list_gpus", lambda: GPUS)


def gpu_spec(spec, **launcher):
    config = {key: value for key, value in spec.config.items() if key != "use_cpu"}
    return RunSpec.model_validate({**spec.model_dump(), "config": config, "launcher": launcher})


def test_gpus_are_handed_out_without_overlap(spec, workspace, four_gpus):
    changed = gpu_spec(spec, processes=2)
    changed = changed.model_copy(update={"vllm": changed.vllm.model_copy(update={"mode": "server"})})
    result = launch(changed, workspace, stage="smoke", dry_run=True)
    visible = {command.name: command.environment["CUDA_VISIBLE_DEVICES"] for command in result.commands}
    assert visible == {"vLLM server": "2", "train": "0,1"}


def test_named_gpus_must_exist_and_not_be_named_twice(spec, workspace, four_gpus):
    with pytest.raises(InputError, match="GPU 7 is not there"):
        launch(gpu_spec(spec, gpus=[7]), workspace, dry_run=True)
    both = gpu_spec(spec, gpus=[1])
    both = both.model_copy(update={"vllm": both.vllm.model_copy(update={"mode": "server", "gpus": [1]})})
    with pytest.raises(InputError, match="same GPU"):
        launch(both, workspace, dry_run=True)
    with pytest.raises(InputError, match="5 processes need as many GPUs"):
        launch(gpu_spec(spec, processes=5), workspace, dry_run=True)


def test_gpu_of_a_living_run_is_refused(spec, workspace, four_gpus, monkeypatch):
    monkeypatch.setattr("grpo_rlvr.runs.refusals.taken_gpus", lambda store: iter([("train-x", {0, 1})]))
    found = rules_of(gpu_spec(spec, gpus=[1]), workspace)
    assert "GPU 1 is in use by run train-x" in found["gpu-taken"].message and "stop_run" in found["gpu-taken"].remedy


def test_memory_over_the_gpu_is_refused_and_near_it_warned_of(spec, workspace, four_gpus, monkeypatch):
    def estimated(peak):
        answer = type("Answer", (), {"peak_gb": peak})
        monkeypatch.setattr("grpo_rlvr.memory.estimate", lambda *a, **k: answer, raising=False)
        return launch(gpu_spec(spec, gpus=[0]), workspace, stage="smoke", dry_run=True)

    assert "memory" in {refusal.rule for refusal in estimated(81.0).refusals}
    near = estimated(75.0)
    assert "memory" not in {refusal.rule for refusal in near.refusals}
    assert any("within 10 %" in warning for warning in near.warnings)
    assert not any("memory" in warning for warning in estimated(40.0).warnings)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"dataset": {"path": "nowhere.jsonl"}}, NotFoundError, "nowhere.jsonl"),
        ({"model": {"path": "helper.py"}}, InputError, "no config.json"),
        ({"rewards": [{"reward": "absent.py:f"}]}, InputError, "absent.py"),
        ({"rewards": [{"reward": "mahth"}]}, InputError, "math"),
        ({"rewards": [{"reward": "../outside.py:f"}]}, InputError, "outside"),
        ({"resume": "not-an-id"}, InputError, "run id"),
    ],
)
def test_spec_that_names_nothing_is_an_input_error(spec, workspace, changes, error, text):
    (workspace.root.parent / "outside.py").write_text("def f(completions, **k): return [0.0]\n", encoding="utf-8")
    changed = RunSpec.model_validate({**spec.model_dump(), **changes})
    with pytest.raises(error, match=text):
        launch(changed, workspace, stage="proof")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (['{"prompt": "a", "answer": "a"}', '{"prompt": "b"}'], "row 2 has no column 'answer'"),
        (['{"prompt": "a"}', "{broken"], "line 2 is not valid JSON"),
        (['{"question": "a"}'], "no 'prompt' column"),
        (["[1, 2]"], "line 1 is no object"),
        ([""], "no rows"),
    ],
)
def test_broken_data_is_refused_by_line(spec, workspace, lines, text):
    (workspace.root / "train.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=text):
        launch(spec, workspace, stage="proof")


def test_vllm_outside_the_range_of_trl_is_refused(spec, workspace, four_gpus, monkeypatch):
    from grpo_rlvr.interpreter import Interpreter, training_interpreter

    real = training_interpreter(workspace)
    other = Interpreter(real.path, real.source, real.python, {**real.packages, "vllm": "0.10.0"})
    monkeypatch.setattr("grpo_rlvr.runs.launching.training_interpreter", lambda *a: other)
    changed = gpu_spec(spec, gpus=[0])
    changed = changed.model_copy(update={"vllm": changed.vllm.model_copy(update={"mode": "colocate"})})
    refusal = rules_of(changed, workspace)["vllm-version"]
    assert "0.10.0" in refusal.message and "0.31.0" in refusal.message and "pip install" in refusal.remedy


def test_contradicting_vllm_settings_are_refused(spec, workspace):
    changed = RunSpec.model_validate(
        {**spec.model_dump(), "vllm": {"mode": "colocate"}, "config": {**spec.config, "vllm_mode": "server"}}
    )
    assert "vllm-disagrees" in rules_of(changed, workspace)
