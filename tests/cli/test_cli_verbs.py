"""The command line as people call it: exit codes, JSON equal to the tools', one clear line for a mistake."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grpo_rlvr.cli import render, run
from grpo_rlvr.models.check import CheckResult
from grpo_rlvr.models.memory import MemoryEstimate
from grpo_rlvr.models.recommend import Recommendation
from grpo_rlvr.models.score import Audit, ScoreResult

GOOD = {"loss_type": "grpo", "num_generations": 8, "per_device_train_batch_size": 8}
BAD = {**GOOD, "per_device_train_batch_size": 6, "max_prompt_length": 64}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with good and bad inputs, and the working directory."""
    monkeypatch.setenv("GRPO_RLVR_HOME", str(tmp_path / "keys"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.json").write_text(json.dumps(GOOD), encoding="utf-8")
    (tmp_path / "bad.json").write_text(json.dumps(BAD), encoding="utf-8")
    setup = {"model": {"name": "Qwen2.5-1.5B-Instruct"}, "hardware": {"gpus": 1, "gpu_mem_gb": 80}}
    (tmp_path / "setup.json").write_text(json.dumps(setup), encoding="utf-8")
    rows = [
        {"prompt": f"{i // 4}+1=", "completion": f"<answer>{i // 4 + 1 + i % 2}</answer>", "gold": str(i // 4 + 1)}
        for i in range(64)
    ]
    (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "log.txt").write_text(
        "\n".join(str({"reward": i / 50, "loss": 0.0}) for i in range(40)), encoding="utf-8"
    )
    return tmp_path


def test_check_exits_0_on_a_good_config_and_1_on_findings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--config", "good.json", "--json"]) == 0
    assert CheckResult.model_validate_json(capsys.readouterr().out).verdict == "ok"
    assert run(["check", "--config", "bad.json", "--json"]) == 1
    found = CheckResult.model_validate_json(capsys.readouterr().out)
    assert {field for finding in found.findings for field in finding.fields} >= {"max_prompt_length"}


def test_check_prints_a_table_for_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--config", "bad.json"]) == 1
    shown = capsys.readouterr().out
    assert "max_prompt_length" in shown and "error" in shown and "What this config does" in shown


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, without the line breaks of the terminal's width."""
    return " ".join(capsys.readouterr().out.split())


def test_check_says_which_facts_rules_wait_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["check", "--config", "good.json", "--json"])
    result = CheckResult.model_validate_json(capsys.readouterr().out)
    run(["check", "--config", "good.json"])
    shown = one_line(capsys)
    said = re.search(
        r"(\d+) rules wait for facts that the setup does not state, most often: dataset.columns \(7\)", shown
    )
    assert said and 7 < int(said[1]) <= len(result.not_applicable)


def test_check_says_which_transformers_is_assumed_and_marks_fixes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "old.json").write_text(json.dumps({**GOOD, "warmup_ratio": 0.1}), encoding="utf-8")
    run(["check", "--config", "old.json"])
    shown = one_line(capsys)
    assert "transformers 5.19.0 (assumed" in shown and "safe fix" not in shown
    assert "possible fix (may change the run): warmup_steps = 0.1; remove warmup_ratio" in shown


def test_check_tells_absent_and_gone_options_from_null_ones(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["check", "--config", "good.json", "--from-version", "0.17.0"])
    shown = one_line(capsys)
    assert "use_bias_correction_kl: absent, behaved as False -> True." in shown
    assert "max_prompt_length: 512 -> gone." in shown and "report_to: None -> 'none'." in shown
    assert "pad_to_multiple_of: absent -> 'auto'." in shown and "vllm_" not in shown


@pytest.mark.parametrize("form", ["sarif", "github"])
def test_check_speaks_the_formats_of_code_review(folder: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    run(["check", "--config", "bad.json", "--format", form])
    shown = capsys.readouterr().out
    if form == "sarif":
        assert json.loads(shown)["version"] == "2.1.0"
    else:
        assert "::error file=" in shown


def test_check_fix_writes_the_safe_fixes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = run(["check", "bad.json"])
    capsys.readouterr()
    after = run(["check", "bad.json", "--fix", "--json"])
    output = capsys.readouterr()
    assert "max_prompt_length" not in json.loads((folder / "bad.json").read_text(encoding="utf-8"))
    assert "fixed in bad.json: " in output.err and "removed-kwarg" in output.err
    left = CheckResult.model_validate_json(output.out)
    assert "removed-kwarg" not in {finding.rule for finding in left.findings}
    assert before == 1 and after == (0 if left.verdict == "ok" else 1)


def test_check_compares_releases_in_a_table_and_fails_where_one_of_them_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "old.json").write_text(json.dumps({**GOOD, "max_prompt_length": 64}), encoding="utf-8")
    arguments = ["check", "--config", "old.json", "--trl-version", "0.24.0"]
    assert run([*arguments, "--compare-versions", "0.25.1"]) == 0
    assert "0.24.0 to 0.25.1 (2)" in one_line(capsys)
    assert run([*arguments, "--compare-versions", "0.25.1", "1.16.0"]) == 1
    assert "1.16.0 │ error │ ok │ removed-kwarg:" in one_line(capsys)
    (folder / "old.json").write_text(json.dumps({**GOOD, "max_prompt_length": 64, "temperature": 0}), encoding="utf-8")
    run([*arguments, "--compare-versions", "1.16.0", "9.9"])
    shown = one_line(capsys)
    assert "│ nothing else" in shown and "In every one of them - temperature-not-positive: temperature" in shown
    assert "TRL 9.9 is newer than the newest table (1.16.0)" in shown


def test_check_takes_what_a_script_gets_from_its_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.py").write_text("GRPOConfig(num_generations=args.g, loss_type=args.loss)", encoding="utf-8")
    assert run(["check", "--config", "train.py", "--set", "num_generations=6", "loss_type=grpo", "--json"]) == 1
    found = CheckResult.model_validate_json(capsys.readouterr().out)
    assert [finding.value for finding in found.findings if finding.severity == "error"] == [8] and not found.unread
    assert run(["check", "--config", "train.py", "--set", "num_generations=8", "--set", "loss_type=grpo"]) == 0
    assert run(["check", "--config", "train.py", "--set", "num_generations=8", "--fix"]) == 2
    assert "--set" in capsys.readouterr().err


def test_memory_answers_with_and_without_a_solution(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "--config", "good.json", "--setup", "setup.json", "--json"]) in {0, 1}
    assert MemoryEstimate.model_validate_json(capsys.readouterr().out).peak_gb > 1
    run(["memory", "--config", "good.json", "--setup", "setup.json", "--solve", "--json"])
    assert MemoryEstimate.model_validate_json(capsys.readouterr().out).solved is not None


def test_facts_of_the_command_line_stand_over_the_setup_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "--model", "Qwen/Qwen2.5-7B-Instruct", "--gpu", "H100", "--json"]) == 1
    assert MemoryEstimate.model_validate_json(capsys.readouterr().out).verdict == "does_not_fit"
    asked = ["memory", "--setup", "setup.json", "--json"]
    peaks = []
    for more in ([], ["--model", "Qwen2.5-0.5B-Instruct"]):
        assert run([*asked, *more]) == 0
        peaks.append(MemoryEstimate.model_validate_json(capsys.readouterr().out).peak_gb)
    # A third of the size; the card of the file still counts, or there would be no verdict.
    assert peaks[1] < peaks[0] / 2
    sized = {"model": {"path": "gone", "params_b": 70, "peft": True}, "hardware": {"gpus": 1, "gpu_mem_gb": 8}}
    (folder / "sized.json").write_text(json.dumps(sized), encoding="utf-8")
    run(["memory", "--setup", "sized.json", "--model", "Qwen2.5-0.5B-Instruct", "--gpu", "H100", "--json"])
    found = MemoryEstimate.model_validate_json(capsys.readouterr().out)
    # Another model and another card: neither 70 B nor 8 GB; still the LoRA run of the file.
    assert found.verdict == "fits" and found.peak_gb < peaks[1]
    assert run([*asked, "--gpus", "0"]) == 2
    assert "setup.hardware.gpus" in capsys.readouterr().err


def test_a_setup_may_name_a_model_a_card_and_the_file_of_accelerate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = {"model": "Qwen/Qwen2.5-7B", "hardware": "A100 80GB", "rewards": ["math"]}
    (folder / "accelerate.yaml").write_text("distributed_type: MULTI_GPU\nnum_processes: 3\n", encoding="utf-8")
    named = {**setup, "launch": {"accelerate": "accelerate.yaml"}}
    found = {}
    for name, stated in (("without", setup), ("with", named), ("missing", {"launch": {"accelerate": "gone.yaml"}})):
        (folder / "named.json").write_text(json.dumps(stated), encoding="utf-8")
        status = run(["check", "--config", "good.json", "--setup", "named.json", "--json"])
        output = capsys.readouterr()
        found[name] = output.err if status == 2 else CheckResult.model_validate_json(output.out)
    assert found["without"].effective.batch.processes == 1 and found["with"].effective.batch.processes == 3
    assert not {"hardware.gpu_mem_gb", "model.params_b", "rewards"} & set(found["with"].missing_facts)
    assert "no such file or folder: 'gone.yaml'" in found["missing"]


def test_kwargs_that_are_gone_tell_the_age_of_a_config(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "old.json").write_text(json.dumps({**GOOD, "max_prompt_length": 64}), encoding="utf-8")
    run(["check", "--config", "old.json"])
    assert "Written for TRL 0.27 or older" in one_line(capsys)
    run(["check", "--config", "old.json", "--from-version", "0.27.2"])
    assert "Written for" not in one_line(capsys)


def test_score_routes_and_read_status_shows_a_closed_gate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["score", "--samples", "samples.jsonl", "--reward", "exact", "--json"]) == 0
    scored = ScoreResult.model_validate_json(capsys.readouterr().out)
    assert scored.route.route == "grpo"
    assert run(["read", scored.reading_id, "--status"]) == 1
    assert "closed" in capsys.readouterr().out


def test_rewards_may_stand_in_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    form = {"reward": "format", "args": {"tags": ["answer"]}, "weight": 0.5}
    (folder / "form.json").write_text(json.dumps(form), encoding="utf-8")
    (folder / "both.json").write_text(json.dumps(["exact", form]), encoding="utf-8")
    for given in (["exact", "form.json"], ["both.json"]):
        run(["score", "--samples", "samples.jsonl", "--reward", *given, "--json"])
        scored = ScoreResult.model_validate_json(capsys.readouterr().out)
        assert [(reward.name[:6], reward.weight) for reward in scored.rewards] == [("exact", 1.0), ("format", 0.5)]
    for content, said in (("[]", "no spec in it"), ('[{"weight": 1}]', "reward: field required"), ("[", "not JSON")):
        (folder / "bad.json").write_text(content, encoding="utf-8")
        assert run(["score", "--samples", "samples.jsonl", "--reward", "bad.json"]) == 2
        error = capsys.readouterr().err
        assert said in error and "bad.json" in error


def test_audit_alone_names_the_attack_and_stores_no_reading(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    careless = (
        "def right(completions, gold, **kwargs):\n    return [float(g in c) for c, g in zip(completions, gold)]\n"
    )
    (folder / "mine.py").write_text(careless, encoding="utf-8")
    assert run(["audit", "--samples", "samples.jsonl", "--reward", "mine.py:right", "--json"]) == 1
    audit = Audit.model_validate_json(capsys.readouterr().out)
    paid = [attack for attack in audit.attacks if attack.outcome == "paid"]
    assert "all_answers" in {attack.attack for attack in paid}
    assert all(attack.text for attack in paid)
    assert not list((folder / ".grpo-rlvr").rglob("r-*"))
    assert run(["audit", "--samples", "samples.jsonl", "--reward", "mine.py:right"]) == 1
    assert "all_answers" in capsys.readouterr().out


def test_words_of_a_model_are_neither_markup_nor_orders_to_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steering = "[/INST] [bold]x[/bold] \x1b]0;owned\x07\x1b[2J"
    rows = [{"prompt": f"{i}", "completion": f"{steering} {i}", "gold": f"{i}"} for i in range(60)]
    (folder / "odd.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "mine.py").write_text(
        "def right(completions, gold, **kwargs):\n"
        "    return [float(c.split()[-1:] == [g]) for c, g in zip(completions, gold)]\n",
        encoding="utf-8",
    )
    run(["score", "--samples", "odd.jsonl", "--reward", "mine.py:right"])
    render.table(("text",), [(steering,)])
    shown = capsys.readouterr().out
    assert "[/INST] [bold]x[/bold]" in shown
    assert "\x1b" not in shown


def test_recommend_reads_a_file_and_standard_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recommend", "log.txt", "--json"]) == 0
    from_file = Recommendation.model_validate_json(capsys.readouterr().out)
    done = subprocess.run(
        [sys.executable, "-m", "grpo_rlvr", "recommend", "-", "--json"],
        input=(folder / "log.txt").read_text(encoding="utf-8"), capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    piped = Recommendation.model_validate_json(done.stdout)
    assert [label.label for label in piped.labels] == [label.label for label in from_file.labels]


def test_runs_and_doctor_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"runs": [], "total": 0}
    assert run(["doctor"]) in {0, 1}
    assert "trl" in capsys.readouterr().out


def test_explain_prints_a_rule(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "batch-not-divisible-by-group"]) == 0
    assert "num_generations" in capsys.readouterr().out


def test_the_next_command_that_new_reward_prints_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["new-reward", "valid-sql"]) == 0
    command = capsys.readouterr().out.splitlines()[-1].split()
    assert command[:2] == ["grpo-rlvr", "score"]
    assert run(command[1:]) in {0, 1}
    assert "valid_sql" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--config", "nothing.json"],
        ["check", "--config", "."],
        ["check", "--config", "good.json", "--compare-versions", "all", "--format", "sarif"],
        ["check", "--config", "good.json", "--set", "beta"],
        ["memory", "--config", "good.json", "--setup", "log.txt"],
        ["score", "--samples", "samples.jsonl", "--reward", "exat"],
        ["score", "--samples", "samples.jsonl", "--reward", "{broken"],
        ["recommend", "nothing.log"],
        ["status", "train-20260101-000000-abcdef"],
        ["logs", "nonsense"],
        ["launch", "good.json"],
        ["launch"],
        ["launch", "good.json", "--resume", "train-20260101-000000-abcdef"],
        ["launch", "--resume", "train-20260101-000000-abcdef"],
        ["explain", "no-such-rule"],
        ["runs", "--root", "no-such-folder"],
        ["new-reward", "not a name"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_a_mistake_is_one_line_and_exit_2(folder: Path, arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "grpo_rlvr", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("grpo-rlvr: ") and "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("arguments", [[], ["frobnicate"], ["check"], ["check", "--confg", "x"]])
def test_a_wrong_command_line_exits_2_with_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(arguments)
    assert stopped.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_without_the_server_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    import grpo_rlvr
    import rlvr_rewards

    paths = os.pathsep.join(str(Path(module.__file__ or "").parents[1]) for module in (grpo_rlvr, rlvr_rewards))
    done = subprocess.run(
        [sys.executable, "-S", "-m", "grpo_rlvr", "runs"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": paths}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "grpo-rlvr-training[server]" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("folder", ["filesystem root", "plugin folder"])
def test_serving_where_nobody_would_look_is_refused(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "skills").mkdir()
    monkeypatch.setattr("grpo_rlvr.cli.serving.CHECKOUT", tmp_path)
    monkeypatch.setattr("grpo_rlvr.cli.serving.PLUGIN", tmp_path / "skills")
    root = tmp_path.anchor if folder == "filesystem root" else str(tmp_path)
    assert run(["serve", "--root", root]) == 2
    assert "--root" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "one"),
    [("check", "1 an error or a warning was found"), ("read", "1 the gate is closed"), ("runs", None), ("demo", None)],
)
def test_the_help_of_a_verb_says_what_its_exit_status_means(
    verb: str, one: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run([verb, "--help"])
    shown = one_line(capsys)
    assert "Exit status: 0 fine, " in shown and "2 your mistake" in shown
    assert one in shown if one else " 1 " not in shown.partition("Exit status")[2]
