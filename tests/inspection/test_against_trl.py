"""The same reward called by TRL itself and by us receives the same and gives the same."""

import json
import math
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

from grpo_rlvr import inspection
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.workspace import Workspace

pytestmark = pytest.mark.slow
SPY = '''
import json

def spy(**given):
    """Write down every keyword and give None for odd golds."""
    state = given.pop("trainer_state")
    log_extra, log_metric = given.pop("log_extra"), given.pop("log_metric")
    log_extra("seen", list(given["completions"]))
    log_metric("rows", len(given["prompts"]))
    seen = {"given": given, "step": state.global_step, "keys": sorted(given)}
    with open("seen.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(seen, sort_keys=True) + "\\\\n")
    return [None if int(gold) % 2 else 0.5 for gold in given["gold"]]

async def waits(completions, **given):
    return [float(len(str(completion)) > 20) for completion in completions]
'''.replace("\\\\n", "\\n")


def called_by_trl(rows: list[dict[str, Any]], functions: list[Any]) -> list[list[float]]:
    """Return the scores that TRL's trainer computes for these rows."""
    import asyncio
    import threading

    from transformers import TrainerState
    from trl import GRPOTrainer

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(device="cpu", gather=lambda tensor: tensor, is_main_process=True),
        reward_funcs=functions,
        reward_processing_classes=[None] * len(functions),
        reward_func_names=[function.__name__ for function in functions],
        state=TrainerState(),
        environments=None,
        async_loop=loop,
        args=SimpleNamespace(report_to=[]),
        _log_completion_extra=lambda column, values: None,
        _log_metric=lambda name, value: None,
        _pending_extra_logs=defaultdict(list),
        chat_template_kwargs={},
        _current_train_step_time=0.0,
    )
    inputs = [{key: value for key, value in row.items() if key not in ("completion", "completion_ids")} for row in rows]
    columns = [[row[key] for row in rows] for key in ("prompt", "completion", "completion_ids")]
    scores = GRPOTrainer._calculate_rewards(trainer, inputs, *columns)
    loop.call_soon_threadsafe(loop.stop)
    return [[float(value) for value in row] for row in scores]


@pytest.mark.parametrize("chat", [False, True])
def test_trl_and_we_call_a_reward_alike(workspace: Workspace, chat: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace.root / "spy.py").write_text(SPY, encoding="utf-8")
    monkeypatch.chdir(workspace.root)
    from rlvr_rewards.spec import build

    rows = []
    for index in range(6):
        prompt: Any = f"p{index // 2}"
        completion: Any = f"answer {index} " + "x" * index * 5
        if chat:
            prompt = [{"role": "user", "content": prompt}]
            completion = [{"role": "assistant", "content": completion}]
        rows.append(
            {
                "prompt": prompt,
                "completion": completion,
                "completion_ids": [index, 1],
                "gold": str(index // 2),
                "n": index,
            }
        )
    specs = [RewardSpec(reward="spy.py:spy"), RewardSpec(reward="spy.py:waits")]
    theirs = called_by_trl(rows, [build(spec.model_dump(), workspace.root) for spec in specs])
    seen_by_them = (workspace.root / "seen.jsonl").read_text(encoding="utf-8").splitlines()
    (workspace.root / "seen.jsonl").unlink()
    result = inspection.score(rows, specs, workspace)
    seen_by_us = (workspace.root / "seen.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(seen_by_us[0]) == json.loads(seen_by_them[0])
    stored = json.loads((workspace.readings / result.reading_id / "scores.json").read_text(encoding="utf-8"))
    ours = [[math.nan if score is None else score for score in row] for row in stored["scores"]]
    assert _same(ours, theirs)


def _same(first: list[list[float]], second: list[list[float]]) -> bool:
    pairs = zip(first, second, strict=True)
    return all(
        (math.isnan(a) and math.isnan(b)) or a == b for one, other in pairs for a, b in zip(one, other, strict=True)
    )
