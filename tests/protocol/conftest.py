"""A workspace, and in-memory clients of both protocol eras on a server over it."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from grpo_rlvr.app import build_server
from grpo_rlvr.workspace import Workspace

ERAS = ("legacy", "2026-07-28")
CONFIG = {"loss_type": "grpo", "num_generations": 8, "per_device_train_batch_size": 8, "max_completion_length": 64}
EXACT = [{"reward": "exact"}]


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """Each protocol era in turn."""
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace folder with spaces in its name, a config and 64 samples; keys lie beside it, not in the home."""
    monkeypatch.setenv("GRPO_RLVR_HOME", str(tmp_path / "keys"))
    folder = tmp_path / "my workspace"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    lines = []
    for index in range(64):
        answer = index % 8 if index % 2 else index % 8 + 1
        row = {
            "prompt": f"What is {index // 4} mod 8?",
            "completion": f"<answer>{answer}</answer>",
            "gold": str(index % 8),
        }
        lines.append(json.dumps(row))
    (folder / "samples.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


ClientMaker = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def connect(root: Path) -> ClientMaker:
    """Make an in-memory client; keywords go to the client."""

    def make(mode: str = "2026-07-28", **keywords: Any) -> Client:
        return Client(build_server(Workspace.open(root)), mode=mode, **keywords)  # type: ignore[arg-type]

    return make
