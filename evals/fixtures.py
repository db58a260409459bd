"""The files each task starts from, made from seeds so that nothing large lies in the repository."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
OLD_CONFIG = {
    "learning_rate": 1e-6, "num_generations": 8, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 3,
    "max_prompt_length": 512, "max_completion_length": 256, "vllm_device": "auto", "use_vllm": True,
    "vllm_guided_decoding_regex": "<answer>.*</answer>", "warmup_ratio": 0.1, "beta": 0.04,
}  # fmt: skip
ZERO_REWARD = """import re


def format_and_answer(completions, gold, **kwargs):
    scores = []
    for completion, expected in zip(completions, gold):
        text = completion[0]["content"]
        match = re.fullmatch(r"<think>.*?</think>\\s*<answer>(.*?)</answer>", text, re.DOTALL)
        scores.append(1.0 if match and match.group(1).strip() == expected else 0.0)
    return scores
"""


def write_json(path: Path, value: Any) -> None:
    """Write one JSON file."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def fix_config(folder: Path) -> None:
    """A config of another age whose batch does not divide into groups."""
    write_json(folder / "config.json", OLD_CONFIG)


def reward_is_zero(folder: Path) -> None:
    """Completions without the opening tag, which the chat template wrote into the prompt."""
    rng = random.Random(1)
    rows = []
    for _ in range(40):
        a, b = rng.randint(1, 50), rng.randint(1, 50)
        answer = a + b if rng.random() < 0.6 else a + b + 1
        prompt = [{"role": "user", "content": f"{a}+{b}? Think, then answer in <answer> tags."}]
        completion = [{"role": "assistant", "content": f"{a} plus {b}.</think>\n<answer>{answer}</answer>"}]
        rows.append({"prompt": prompt, "completion": completion, "gold": str(a + b)})
    write_lines(folder / "samples.jsonl", rows)
    (folder / "reward.py").write_text(ZERO_REWARD, encoding="utf-8")


def log_lines(rows: int, seed: int, level: Callable[[int], float], entropy: Callable[[int], float]) -> str:
    """A console log as transformers 5 prints it, with values as strings and noise."""
    rng = random.Random(seed)
    lines = []
    for step in range(1, rows + 1):
        reward = min(1.0, max(0.0, level(step) + rng.gauss(0, 0.05)))
        row = {
            "loss": f"{rng.gauss(0, 0.01):.4f}", "grad_norm": f"{abs(rng.gauss(0.4, 0.1)):.4f}",
            "learning_rate": "1e-06", "num_tokens": str(step * 8000),
            "completions/mean_length": f"{rng.gauss(210, 8):.1f}", "completions/clipped_ratio": "0.01",
            "rewards/accuracy/mean": f"{reward:.4f}", "reward": f"{reward:.4f}",
            "reward_std": f"{abs(rng.gauss(0.3, 0.03)):.4f}",
            "frac_reward_zero_std": f"{abs(rng.gauss(0.3, 0.05)):.3f}",
            "entropy": f"{max(0.01, entropy(step) + rng.gauss(0, 0.02)):.4f}", "clip_ratio/region_mean": "0.0",
            "epoch": f"{step / rows:.3f}",
        }  # fmt: skip
        lines.append(str(row))
    return "\n".join(lines) + "\n"


def variant_for_log(folder: Path) -> None:
    """A run that simply learns, its entropy falling as it should."""
    log = log_lines(120, 2, lambda s: 0.3 + 0.5 * s / 120, lambda s: 0.9 - 0.5 * s / 120)
    (folder / "train.log").write_text(log, encoding="utf-8")
    write_json(folder / "config.json", {"loss_type": "grpo", "beta": 0.0, "num_generations": 8, "logging_steps": 1})


def schema_reward(folder: Path) -> None:
    """Rows with their schemas."""
    rows = [
        {"prompt": f"Describe person {n} as JSON with name and age.", "schema": json.dumps(SCHEMA)} for n in range(10)
    ]
    write_lines(folder / "rows.jsonl", rows)


def route_never_succeeds(folder: Path) -> None:
    """A model that answers in form and is never right."""
    rng = random.Random(3)
    rows = []
    for n in range(40):
        for _ in range(8):
            wrong = n * 7 + rng.randint(1, 9)
            rows.append({"prompt": f"Problem {n}", "completion": f"<answer>{wrong}</answer>", "gold": str(n * 7)})
    write_lines(folder / "samples.jsonl", rows)


def port_config(folder: Path) -> None:
    """A small config of TRL 0.17 that leaves the important options to its defaults."""
    write_json(
        folder / "config.json",
        {"learning_rate": 1e-6, "num_generations": 8, "per_device_train_batch_size": 8, "logging_steps": 10},
    )


def launch_needs_reading(folder: Path) -> None:
    """A spec whose reading nobody has made."""
    write_lines(folder / "train.jsonl", [{"prompt": f"{n}+1=", "gold": str(n + 1)} for n in range(64)])
    write_json(
        folder / "run.json",
        {
            "config": {"loss_type": "grpo", "num_generations": 8, "per_device_train_batch_size": 8, "max_steps": 100},
            "model": {"path": "Qwen/Qwen2.5-0.5B-Instruct"},
            "dataset": {"path": "train.jsonl"},
            "rewards": [{"reward": "exact"}],
        },
    )


def vision_language(folder: Path) -> None:
    """A plausible config for a vision-language model."""
    write_json(folder / "config.json", {"loss_type": "grpo", "num_generations": 8, "per_device_train_batch_size": 8})


def compare_runs(folder: Path) -> None:
    """Two runs of the same process with different noise."""
    for name, seed in (("a.log", 11), ("b.log", 12)):
        log = log_lines(60, seed, lambda s: 0.3 + 0.3 * s / 60, lambda s: 0.8 - 0.2 * s / 60)
        (folder / name).write_text(log, encoding="utf-8")


def nothing(folder: Path) -> None:
    """The prompt says it all."""


MAKERS: dict[str, Callable[[Path], None]] = {
    "fix-config": fix_config,
    "reward-is-zero": reward_is_zero,
    "variant-for-log": variant_for_log,
    "size-a-model": nothing,
    "schema-reward": schema_reward,
    "no-verifier": nothing,
    "route-never-succeeds": route_never_succeeds,
    "port-config": port_config,
    "launch-needs-reading": launch_needs_reading,
    "vision-language": vision_language,
    "judge-graded": nothing,
    "compare-runs": compare_runs,
}
