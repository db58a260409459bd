"""Make the real training logs in tiny_runs/: GRPOTrainer on the demo's tiny policy, five faults, three seeds.

Run in a training interpreter: python tests/data/logs/make_tiny_runs.py WORK_FOLDER [NAME ...]. About a minute a run on
one free core. The logs are kept as data, since CI has no time to make them; a fault is one entry of RUNS.
"""

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from grpo_rlvr.demo.policy import problems, warm_start

HERE = Path(__file__).resolve().parent / "tiny_runs"
ROWS = 50
BASE: dict[str, Any] = {
    "loss_type": "grpo", "scale_rewards": "group", "beta": 0.0, "learning_rate": 1e-4, "num_generations": 8,
    "per_device_train_batch_size": 32, "max_completion_length": 32, "max_steps": 150, "logging_steps": 3, "seed": 1,
    "lr_scheduler_type": "constant", "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
    "report_to": "none", "save_strategy": "no", "disable_tqdm": True,
}  # fmt: skip


def accuracy(completions: list[str], gold: list[str], **kwargs: Any) -> list[float]:
    """1.0 when the content of the answer tag is the gold."""
    found = [re.search(r"<answer>(.*?)</answer>", text) for text in completions]
    return [float(match is not None and match[1] == want) for match, want in zip(found, gold, strict=True)]


def form(completions: list[str], **kwargs: Any) -> list[float]:
    """0.5 for the two blocks and nothing else."""
    return [0.5 * bool(re.fullmatch(r"<reasoning>\w+</reasoning><answer>\w+</answer>", text)) for text in completions]


def constant(completions: list[str], **kwargs: Any) -> list[float]:
    """What a broken grader does: the same for everything."""
    return [0.0] * len(completions)


def long_answers(completions: list[str], completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
    """Pays for length alone."""
    return [len(ids) / 32 for ids in completion_ids]


def far_away(completions: list[str], **kwargs: Any) -> list[float]:
    """Pays for a letter that the reference hardly writes, with a KL term too weak to hold it."""
    return [text.count("l") / max(len(text), 1) for text in completions]


# name: (label that has to come first, changes of the config, reward functions, their weights)
RUNS: dict[str, tuple[list[str], dict[str, Any], list[Any], list[float]]] = {
    "healthy_seed1": (["healthy"], {"seed": 1}, [accuracy, form], [1.0, 1.0]),
    "healthy_seed2": (["healthy"], {"seed": 2}, [accuracy, form], [1.0, 1.0]),
    "healthy_seed3": (["healthy"], {"seed": 3}, [accuracy, form], [1.0, 1.0]),
    "rate_too_high": (["divergence_nan"], {"learning_rate": 2e-2}, [accuracy, form], [1.0, 1.0]),
    "reward_constant": (["no_signal"], {}, [constant], [1.0]),
    "length_rewarded": (["reward_hacking", "length_bias"], {}, [long_answers, accuracy], [1.0, 0.0]),
    "cap_too_low": (["truncation"], {"max_completion_length": 6}, [accuracy, form], [1.0, 1.0]),
    "kl_blowup": (["kl_blowup"], {"beta": 1e-5}, [far_away], [1.0]),
}


def make(name: str, policy: Path, work: Path) -> None:
    """Train one run and keep its console rows and its line of the index."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    labels, changes, rewards, weights = RUNS[name]
    config = {**BASE, **changes}
    rows: list[str] = []

    class Keep(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            if logs and "reward" in logs:
                rows.append(str({key: float(f"{value:.6g}") for key, value in logs.items() if value is not None}))

    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(policy, padding_side="left"),
        args=GRPOConfig(output_dir=str(work / name), reward_weights=weights, **config),
        reward_funcs=rewards,
        train_dataset=Dataset.from_list([{"prompt": r["prompt"], "gold": r["gold"]} for r in problems(512, 3409)]),
        callbacks=[Keep()],
    )
    begun = time.monotonic()
    trainer.train()
    (HERE / f"{name}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    told = {key: value for key, value in config.items() if key not in ("report_to", "save_strategy", "disable_tqdm")}
    case = {
        "id": f"tiny-{name}", "file": f"{name}.txt", "source": "made by ../make_tiny_runs.py", "framework": "trl",
        "model": {"params_b": 0.0006, "moe": False}, "config": told, "acceptable_first_labels": labels,
        "acceptable_variants": ["none"] if labels == ["healthy"] else ["not_a_variant_problem"],
        "must_not_alarm": labels == ["healthy"], "rows": len(rows),
    }  # fmt: skip
    (HERE / f"{name}.case.json").write_text(json.dumps(case) + "\n", encoding="utf-8")
    print(f"{name}: {len(rows)} rows in {time.monotonic() - begun:.0f} s", flush=True)


def main() -> None:
    """Build the policy once, then make the named runs (all by default) and the index of what is there."""
    work = Path(sys.argv[1])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    policy = work / "policy"
    HERE.mkdir(exist_ok=True)
    if not policy.exists():
        warm_start(policy, steps=400, seed=3407, avoid=frozenset())
    for name in sys.argv[2:] or RUNS:
        make(name, policy, work)
    cases = [
        (HERE / f"{name}.case.json").read_text(encoding="utf-8")
        for name in RUNS
        if (HERE / f"{name}.case.json").exists()
    ]
    (HERE / "index.jsonl").write_text("".join(cases), encoding="utf-8")


if __name__ == "__main__":
    main()
