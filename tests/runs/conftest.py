"""A tiny policy, its workspace, and what every test of runs must leave behind: no process."""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.models.run import RunSpec, RunStatus
from grpo_rlvr.runs import launch, list_runs, run_status, stop_run
from grpo_rlvr.runs.process import MARK, is_alive
from grpo_rlvr.runs.records import read_record
from grpo_rlvr.runs.store import RunStore
from grpo_rlvr.workspace import Workspace

# A job of its own: it needs an environment of 3.8 GB, and minutes.
collect_ignore = [] if os.environ.get("GRPO_RLVR_VLLM_PYTHON") else ["test_vllm.py"]
ENDED = ("halted", "finished", "failed", "stopped", "lost")
EARLY = "abcdefghijklm"
REWARDS = '''"""Rewards of the tests."""

from helper import EARLY


def early_letter(completions, answer, **kwargs):
    """1.0 for a completion that starts in the first half of the alphabet: a random model does so sometimes."""
    texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
    assert len(answer) == len(texts)
    return [float(text[:1] in EARLY and text != "") for text in texts]
'''
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'][0] + '=' + message['content'] + '.' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'a=' }}{% endif %}"
)


def build_tiny_model(folder: Path) -> Path:
    """Write a Qwen2 of about 0.3 M parameters with a character tokenizer and a chat template; its heads suit vLLM."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    characters = ["<pad>", "<eos>", *"abcdefghijklmnopqrstuvwxyz0123456789+-*/=?:. {}[]\"',_()<>\n"]
    table = {character: index for index, character in enumerate(dict.fromkeys(characters))}
    whole = Tokenizer(models.WordLevel(vocab=table, unk_token="?"))
    whole.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    whole.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=whole, pad_token="<pad>", eos_token="<eos>")
    tokenizer.chat_template = CHAT_TEMPLATE
    config = Qwen2Config(
        vocab_size=len(table), hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=True, pad_token_id=0, eos_token_id=1,
        bos_token_id=None,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session", autouse=True)
def key_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keys of the tests, apart from the user's own."""
    home = tmp_path_factory.mktemp("home")
    before = os.environ.get("GRPO_RLVR_HOME")
    os.environ["GRPO_RLVR_HOME"] = str(home)
    yield home
    if before is None:
        del os.environ["GRPO_RLVR_HOME"]
    else:
        os.environ["GRPO_RLVR_HOME"] = before


def build_workspace(root: Path, model: Path) -> Workspace:
    """Make a workspace (its path has a space) with model, prompts, rewards, and the policy of the tests."""
    root.mkdir(parents=True)
    (root / "tiny").symlink_to(model)
    (root / "helper.py").write_text(f'EARLY = "{EARLY}"\n', encoding="utf-8")
    (root / "my_rewards.py").write_text(REWARDS, encoding="utf-8")
    rows = [{"prompt": f"{letter}{number}=", "answer": letter} for number in range(8) for letter in "abcd"]
    (root / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    policy = '[gate]\nreaders = ["oracle"]\nchannels = ["elicitation"]\nmin_median_seconds = 0\n'
    (root / "grpo-rlvr.toml").write_text(policy, encoding="utf-8")
    return Workspace.open(root, confined=False)


def open_gate(
    workspace: Workspace,
    rewards: list[dict[str, Any]],
    *,
    right: int = 30,
    chat: bool = False,
    columns: Callable[[int], dict[str, Any]] = lambda number: {},
    right_text: Callable[[int], str] | None = None,
) -> str:
    """Score 60 samples of which `right` are right, let a program read them truthfully, and return the reading's id."""
    from grpo_rlvr.inspection import next_rows, record_form, score
    from grpo_rlvr.models.common import RewardSpec

    samples = []
    for number in range(60):
        text = (EARLY if number < right else "nopqrstuvwxyz")[number % 13] + f"{number:02d}"
        text = right_text(number) if right_text and number < right else text
        prompt = f"{'abcd'[number % 4]}{number}="
        samples.append(
            {
                "prompt": [{"role": "user", "content": prompt}] if chat else prompt,
                "completion": [{"role": "assistant", "content": text}] if chat else text,
                "answer": "abcd"[number % 4],
                "group": number // 4,
                **columns(number),
            }
        )
    result = score(samples, [RewardSpec.model_validate(reward) for reward in rewards], workspace)
    assert not result.errors, result.errors
    while rows := next_rows(result.reading_id, workspace, 60):
        answers = {"reader_name": "the tests", "reader_kind": "oracle"}
        for index, row in enumerate(rows, 1):
            first = row.completion.removeprefix("assistant: ")[:1]
            correct = "tool_call" in row.completion if right_text else first != "" and first in EARLY
            answers[f"verdict_{index}"] = "correct" if correct else "wrong"
        record_form(
            result.reading_id,
            workspace,
            rows,
            answers,
            client_name="tests",
            client_version="1",
            seconds=2.0 * len(rows),
        )
    return str(result.reading_id)


@pytest.fixture
def workspace(tmp_path: Path, tiny_model: Path) -> Iterator[Workspace]:
    opened = build_workspace(tmp_path / "work space", tiny_model)
    yield opened
    end_everything(opened)


CONFIG: dict[str, Any] = {
    "loss_type": "grpo",
    "beta": 0.0,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "max_completion_length": 8,
    "learning_rate": 1e-3,
    "max_steps": 4,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "seed": 7,
}


@pytest.fixture
def spec(workspace: Workspace) -> RunSpec:
    """A spec whose gate is open."""
    return build_spec(workspace)


@pytest.fixture
def make_spec() -> Callable[..., RunSpec]:
    return build_spec


@pytest.fixture
def gate_for() -> Callable[..., str]:
    return open_gate


@pytest.fixture
def alive() -> Callable[[str], list[int]]:
    return processes_of


@pytest.fixture
def until() -> Callable[..., Any]:
    return wait_until


def build_spec(workspace: Workspace, **changes: Any) -> RunSpec:
    """Return a spec whose gate is open; `config` is merged into the usual one."""
    rewards = changes.pop("rewards", [{"reward": "my_rewards.py:early_letter"}])
    config = {**CONFIG, **changes.pop("config", {})}
    reading = changes.pop("reading", None) or open_gate(workspace, rewards)
    return RunSpec.model_validate(
        {
            "config": config,
            "model": {"path": "tiny"},
            "dataset": {"path": "train.jsonl"},
            "rewards": rewards,
            "reading": reading,
            **changes,
        }
    )


def end_everything(workspace: Workspace) -> None:
    """Stop whatever a failing test left running, so that it cannot disturb the next one."""
    for run in list_runs(workspace).runs:
        if run.state not in ENDED:
            stop_run(run.run_id, workspace, force=True)


def processes_of(run_id: str) -> list[int]:
    """Return the live processes that carry a run's mark, found independently of the code under test."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"{MARK}={run_id}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_until(condition: Callable[[], Any], timeout_s: float, what: str) -> Any:
    """Poll until the condition gives something true; fail with `what` when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if answer := condition():
            return answer
        time.sleep(0.05)
    raise AssertionError(f"not within {timeout_s} s: {what}")


def await_end(run_id: str, workspace: Workspace, timeout_s: float = 300) -> RunStatus:
    """Wait until a run has ended and nothing of it is alive, and return its status."""
    wait_until(lambda: run_status(run_id, workspace).state in ENDED, timeout_s, f"end of {run_id}")
    wait_until(lambda: not processes_of(run_id), 10, f"no process left of {run_id}")
    folder = RunStore(workspace).get(run_id)
    for number in range(1, folder.last_attempt() + 1):
        supervisor = read_record(folder.attempt(number) / "process.json")
        wait_until(lambda record=supervisor: not is_alive(record), 10, f"supervisor of {run_id} gone")
    return run_status(run_id, workspace)


@pytest.fixture
def ended(workspace: Workspace) -> Callable[[str], RunStatus]:
    return lambda run_id: await_end(run_id, workspace)


@dataclass(frozen=True)
class Finished:
    """A whole run that several tests look at: full stage, evaluated before and after."""

    workspace: Workspace
    spec: RunSpec
    status: RunStatus

    @property
    def folder(self) -> Path:
        return self.workspace.root / self.status.folder


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Finished:
    workspace = build_workspace(tmp_path_factory.mktemp("finished") / "work space", tiny_model)
    spec = build_spec(
        workspace,
        name="whole",
        evaluation={"dataset": {"path": "train.jsonl", "limit": 6}, "samples_per_prompt": 2},
        config={"max_steps": 4, "save_steps": 2},
    )
    launched = launch(spec, workspace, stage="full", waive="the tests look at one full run")
    assert launched.run_id
    return Finished(workspace, spec, await_end(launched.run_id, workspace))
