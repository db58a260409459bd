"""What a model's folder, cache or name says about it."""

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.memory import describe
from grpo_rlvr.workspace import Workspace

TINY = {
    "model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 1000, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind", "params_b"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "dense", 7.6156),
        ("Qwen/Qwen3-30B-A3B", "moe", 30.532),
        ("Qwen/Qwen2-VL-2B-Instruct", "vlm", None),
        ("OpenGVLab/InternVL3-8B", "vlm", None),
        ("HuggingFaceM4/Idefics3-8B-Llama3", "vlm", None),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", "vlm", None),
        ("somebody/vlsi-helper", None, None),
        ("", None, None),
    ],
)
def test_a_name_tells_size_and_kind_as_far_as_it_is_known(name: str, kind: str | None, params_b: float | None) -> None:
    summary = describe({"name": name})
    assert summary.kind == kind
    assert summary.params_b == (None if params_b is None else pytest.approx(params_b, rel=1e-3))


@pytest.mark.parametrize(
    ("more", "kind"),
    [({}, "dense"), ({"vision_config": {}}, "vlm"), ({"num_experts": 4, "num_experts_per_tok": 2}, "moe")],
)
def test_a_config_in_the_folder_decides_whatever_the_name(tmp_path: Path, more: dict[str, Any], kind: str) -> None:
    folder = tmp_path / "my-vl-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**TINY, **more}), encoding="utf-8")
    assert describe({"path": "my-vl-model"}, Workspace.open(tmp_path)).kind == kind


def test_a_config_in_the_hub_cache_is_read_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "models--me--mine" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps({**TINY, "image_token_id": 7}), encoding="utf-8")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert describe({"path": "me/mine"}).kind == "vlm"


def test_a_broken_config_says_nothing_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{", encoding="utf-8")
    assert describe({"path": "m"}, Workspace.open(tmp_path)).kind is None
