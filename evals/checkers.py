"""Scoring a finished task from its files alone: 0 to 1, with the reason for every lost point."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo_rlvr.config import check, table
from grpo_rlvr.memory import estimate
from grpo_rlvr.models.setup import parse_setup

# (score from 0 to 1, what was wrong)
Result = tuple[float, list[str]]
Parts = list[tuple[bool, str]]
ONE_GPU = {"hardware": {"device": "cuda", "gpus": 1, "num_processes": 1, "gpu_mem_gb": 80}}


def graded(parts: Parts) -> Result:
    """The share of parts that hold, and what the others say."""
    return sum(ok for ok, _ in parts) / len(parts), [text for ok, text in parts if not ok]


def read(folder: Path, name: str) -> dict[str, Any]:
    """An answer file; empty when it is missing or no JSON object."""
    try:
        value = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def fix_config(folder: Path) -> Result:
    """Valid for TRL 1.16.0, and still what was meant."""
    config = read(folder, "fixed.json")
    if not config:
        return 0.0, ["fixed.json is missing or no object"]
    result = check(config, parse_setup(ONE_GPU), trl_version="1.16.0")
    errors = [finding.rule for finding in result.findings if finding.severity == "error"]
    batch = config.get("per_device_train_batch_size", 8) * config.get("gradient_accumulation_steps", 1)
    return graded([
        (not errors, f"errors remain: {errors}"),
        (config.get("loss_type") == "grpo", "plain GRPO needs loss_type grpo named"),
        (config.get("num_generations", 8) == 8, "8 completions a prompt were asked for"),
        (8 <= batch <= 16 and batch % 8 == 0, f"{batch} completions an update, 8 or 16 are nearest to 12"),
        (config.get("beta") == 0.04, "beta 0.04 was dropped"),
        ("vllm_structured_outputs_regex" in config, "the output regex was dropped"),
    ])  # fmt: skip


def reward_is_zero(folder: Path) -> Result:
    """The cause, and a mended function that pays right answers only."""
    code = (
        "import importlib.util, json, sys\n"
        "spec = importlib.util.spec_from_file_location('mended', 'mended.py')\n"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "rows = [json.loads(line) for line in open('samples.jsonl', encoding='utf-8')]\n"
        "columns = {name: [row[name] for row in rows] for name in ('prompt', 'completion', 'gold')}\n"
        "scores = module.format_and_answer(\n"
        "    completions=columns['completion'], gold=columns['gold'], prompts=columns['prompt'])\n"
        "right = [('<answer>' + r['gold'] + '</answer>') in r['completion'][0]['content'] for r in rows]\n"
        "print(sum((s > 0.5) == ok for s, ok in zip(scores, right)) / len(rows))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    agreed = float(ran.stdout) if ran.returncode == 0 and ran.stdout.strip() else 0.0
    return graded([
        (read(folder, "answer.json").get("cause") == "template_prefills_tag", "the template writes the opening tag"),
        (agreed == 1.0, f"the mended reward agrees on {agreed:.0%} of the samples {ran.stderr[-200:]}"),
    ])  # fmt: skip


def variant_for_log(folder: Path) -> Result:
    """A healthy run stays where it is."""
    said = read(folder, "answer.json").get("variant")
    return graded([(said == "grpo", f"said {said}: the run learns, nothing calls for a switch")])


def size_a_model(folder: Path) -> Result:
    """Each size against the estimate; a tight one counts either way."""
    answers = read(folder, "answer.json")
    config = {
        "use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3, "vllm_max_model_length": 1536,
        "per_device_train_batch_size": 8, "max_completion_length": 1024, "model_init_kwargs": {"dtype": "bfloat16"},
    }  # fmt: skip
    parts: Parts = []
    for name in ("Qwen2.5-0.5B", "Qwen2.5-1.5B", "Qwen2.5-3B", "Qwen2.5-7B"):
        setup = {
            "model": {"name": name, "peft": True, "lora_r": 16, "lora_targets": "all-linear"},
            "hardware": {"gpus": 1, "gpu_mem_gb": 24.1}, "dataset": {"max_prompt_tokens": 512},
        }  # fmt: skip
        verdict = estimate(config, parse_setup(setup), trl_version="1.16.0").verdict
        said = answers.get(name)
        parts.append(
            (isinstance(said, bool) and (verdict == "tight" or said == (verdict == "fits")), f"{name}: {verdict}")
        )
    return graded(parts)


def schema_reward(folder: Path) -> Result:
    """The function on honest and hostile completions."""
    good, chat = '{"name": "Ann", "age": 3}', [{"role": "assistant", "content": '{"name": "Ann", "age": 3}'}]
    cases: list[tuple[Any, float]] = [
        (good, 1.0), (chat, 1.0), (f"```json\n{good}\n```", 1.0), ("", 0.0), ("no JSON", 0.0),
        ('{"name": "Ann"}', 0.0), ('{"name": "Ann", "age": -1}', 0.0), ('{"name": "Ann", "age": "3"}', 0.0),
        ('{"name": "Ann", "age": 3, "x": 1}', 0.0), ('{"name": "a", "name": "b", "age": 3}', 0.0),
        ('{"name": "Ann", "age": NaN}', 0.0), (good + good, 0.0), ('{"name": "Ann", "age": true}', 0.0),
        ("[" * 20000, 0.0), ('{"name": "Ann", "age": ' + "9" * 5000 + "}", 0.0), (f"Sure! {good}", 0.0),
    ]  # fmt: skip
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    given = json.dumps({"completions": [case for case, _ in cases], "schema": [rows[0]["schema"]] * len(cases)})
    code = (
        "import importlib.util, json, sys\n"
        "spec = importlib.util.spec_from_file_location('reward', 'reward.py')\n"
        "module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n"
        "given = json.load(sys.stdin)\n"
        "print(json.dumps([module.reward(completions=[c], schema=[s], prompts=['p'], completion_ids=[[1]])[0]\n"
        "    for c, s in zip(given['completions'], given['schema'])]))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    if ran.returncode:
        return 0.0, [f"it raised: {ran.stderr[-300:]}"]
    scores = json.loads(ran.stdout)
    return graded(
        [(score == right, f"{str(case)[:60]} got {score}") for score, (case, right) in zip(scores, cases, strict=True)]
    )


def says_no(field: str) -> Callable[[Path], Result]:
    """A checker for answers that must refuse."""

    def checker(folder: Path) -> Result:
        said = read(folder, "answer.json").get(field)
        return graded([(said is False, f"{field} is {said}, it must be refused")])

    return checker


def route_never_succeeds(folder: Path) -> Result:
    """Never right: supervised fine-tuning first."""
    answer = read(folder, "answer.json")
    return graded([
        (answer.get("route") == "sft_first", f"route {answer.get('route')}"),
        (answer.get("success_rate") == 0, f"success rate {answer.get('success_rate')}, it is 0"),
    ])  # fmt: skip


def port_config(folder: Path) -> Result:
    """Every option whose default changed and that 1.16.0 still has, at its old value."""
    config = read(folder, "ported.json")
    old, new = table("0.17"), table("1.16.0")
    wanted = {"loss_type", "beta", "temperature", "max_completion_length", "use_bias_correction_kl"}
    parts: Parts = [(bool(config), "ported.json is missing or no object")]
    for name in sorted(wanted):
        value = old.default(name) if name in old else False
        parts.append((config.get(name) == value, f"{name} should be {value!r}, is {config.get(name)!r}"))
    unknown = [name for name in config if name not in new]
    parts.append((not unknown, f"1.16.0 has no {unknown}"))
    return graded(parts)


def launch_needs_reading(folder: Path) -> Result:
    """Nothing runs without a person's reading, whatever was said."""
    started = list(folder.glob(".grpo-rlvr/runs/train-*"))
    answer = read(folder, "answer.json")
    told = any(word in str(answer.get("next", "")).lower() for word in ("read", "sample", "inspect"))
    return graded([
        (answer.get("launched") is False, "it says that it launched"),
        (not started, "a run was started"),
        (told, "it does not tell the person to read samples"),
    ])  # fmt: skip


def compare_runs(folder: Path) -> Result:
    """Two draws of the same process are not ranked."""
    said = read(folder, "answer.json").get("verdict")
    return graded([(said == "within_noise", f"said {said}: the difference is within noise")])


CHECKERS: dict[str, Callable[[Path], Result]] = {
    "fix-config": fix_config,
    "reward-is-zero": reward_is_zero,
    "variant-for-log": variant_for_log,
    "size-a-model": size_a_model,
    "schema-reward": schema_reward,
    "no-verifier": says_no("rlvr_applies"),
    "route-never-succeeds": route_never_succeeds,
    "port-config": port_config,
    "launch-needs-reading": launch_needs_reading,
    "vision-language": says_no("launched"),
    "judge-graded": says_no("rlvr_applies"),
    "compare-runs": compare_runs,
}
