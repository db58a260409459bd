"""Tasks, samples, readers and workspaces for the inspection tests."""

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr import inspection
from grpo_rlvr.inspection.rows import Reading
from grpo_rlvr.inspection.verdicts import Given, enter_reader, record
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.reading import ReadingStatus
from grpo_rlvr.workspace import Workspace

DATA = Path(__file__).parent.parent / "data" / "inspection"
CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Japan": "Tokyo", "Peru": "Lima", "Egypt": "Cairo", "Norway": "Oslo",
    "Cuba": "Havana", "Ghana": "Accra", "Iran": "Tehran", "Chile": "Santiago",
}  # fmt: skip
Truth = Callable[[Any], str]


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the key of the records away from the user's own."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("GRPO_RLVR_HOME", str(home))
    return home


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace, in a path with a space, that holds the reward files."""
    root = tmp_path / "work space"
    root.mkdir()
    for name in ("faulty_rewards.py", "sound_rewards.py"):
        shutil.copyfile(DATA / name, root / name)
    return Workspace.open(root)


def completion(answer: str, kind: int, reason: str) -> str:
    """Return an answer in one of the shapes that a half-trained model gives."""
    return [
        f"<think>{reason}</think>\n<answer>{answer}</answer>",
        f"<think>{reason}</think><answer> {answer} </answer>\n",
        f"{reason} So it is {answer}.",
        f"<think>{reason}",
    ][kind]


@pytest.fixture
def sums() -> list[dict[str, Any]]:
    """80 samples of 16 sums, 5 a prompt; the right answer in about half of them."""
    return make_sums(chat=False)


def make_sums(*, chat: bool) -> list[dict[str, Any]]:
    """Return the samples of the sums, as text or as chat."""
    rng = random.Random(7)
    rows = []
    for number in range(16):
        a, b = rng.randint(11, 60), rng.randint(11, 39)
        prompt = f"What is {a} + {b}? Think in <think> tags, then answer in <answer> tags."
        for turn in range(5):
            right = turn % 2 == 0
            answer = str(a + b) if right else str(a + b + rng.choice([-20, -3, -1, 2, 9, 100]))
            kind = rng.choice([0, 0, 0, 0, 1, 2, 3]) if turn else 0
            text = completion(answer, kind, f"{a} and {b} make about {a + b // 10 * 10}, try {turn}.")
            row: dict[str, Any] = {"prompt": prompt, "completion": text, "answer": str(a + b), "level": number % 3}
            if chat:
                row["prompt"] = [{"role": "user", "content": prompt}]
                row["completion"] = [{"role": "assistant", "content": text}]
            rows.append(row)
    return rows


@pytest.fixture
def chat_sums() -> list[dict[str, Any]]:
    """The sums as chat messages."""
    return make_sums(chat=True)


@pytest.fixture
def capitals() -> list[dict[str, Any]]:
    """60 samples of 10 questions with words as answers, some in lower case."""
    rng = random.Random(3)
    names = list(CAPITALS.values())
    rows = []
    for country, capital in CAPITALS.items():
        for turn in range(6):
            answer = capital if turn % 2 == 0 else rng.choice([name for name in names if name != capital])
            answer = answer.lower() if turn in (2, 3) else answer
            text = completion(answer, 0 if turn < 5 else 2, f"I think of {country}, try {turn}.")
            rows.append(
                {"prompt": f"Name the capital of {country}.", "completion": text, "answer": capital, "level": turn}
            )
    return rows


def careful(row: Any) -> str:
    """Return the verdict of a person who looks at the final answer and at the form."""
    gold = str(row.columns["answer"])
    text = row.completion.rpartition("</think>")[2] if "<think>" in row.completion else row.completion
    blocks = re.findall(r"<answer>([^<>]*)</answer>", text)
    if not blocks:
        return "wrong"
    answer = blocks[-1].strip()
    try:
        return "correct" if float(answer) == float(gold) else "wrong"
    except ValueError:
        return "correct" if answer.casefold() == gold.casefold() else "wrong"


@pytest.fixture
def score(workspace: Workspace) -> Callable[..., Any]:
    """Score samples from a file of the workspace with rewards named as file.py:function or as dicts."""

    def scored(samples: list[dict[str, Any]], *rewards: Any, **options: Any) -> Any:
        path = workspace.root / "samples.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in samples), encoding="utf-8")
        return inspection.score("samples.jsonl", specs(*rewards), workspace, **options)

    return scored


def specs(*rewards: Any) -> list[RewardSpec]:
    """Return reward specs of names or dicts."""
    return [RewardSpec.model_validate(r if isinstance(r, dict) else {"reward": r}) for r in rewards]


@pytest.fixture
def read(workspace: Workspace) -> Callable[..., ReadingStatus]:
    """Read every row of a reading as one person would."""

    def reading(
        reading_id: str,
        truth: Truth = careful,
        *,
        name: str = "Ann",
        kind: str = "person",
        channel: Any = "page",
        seconds: float = 4.0,
        limit: int | None = None,
    ) -> ReadingStatus:
        opened = Reading.open(workspace, reading_id)
        key = enter_reader(opened.store, name, kind, channel, "test 1.0")
        rows = opened.rows[:limit]
        given = [Given(row=row.row, verdict=truth(row), seconds=seconds) for row in rows]
        record(opened.store, key, channel, given, opened.ids)
        return inspection.reading_status(reading_id, workspace)

    return reading


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium; the page's tests need one."""
    import importlib.util

    found = importlib.util.spec_from_file_location("inspection_chromium", Path(__file__).parent / "chromium.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    binary = module.find()
    assert binary is not None, "the reading page is tested in Chromium: install chromium"
    started = module.Chromium(binary)
    yield started
    started.close()
