"""The picture: a PNG, and an SVG that needs no package."""

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from grpo_rlvr.errors import MissingPackageError
from grpo_rlvr.memory import picture_png, picture_svg
from grpo_rlvr.memory.picture import COLORS, LEFT

CONFIG = {"use_vllm": True, "vllm_mode": "colocate", "vllm_enable_sleep_mode": True}
MODEL = {"name": "Qwen/Qwen2.5-7B", "peft": True}
SVG = "{http://www.w3.org/2000/svg}"


def test_the_png_has_a_size_and_grows_with_the_phases(estimated: Any) -> None:
    data = picture_png(estimated(CONFIG, model=MODEL, hardware={"gpu": "H100"}))
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    assert width > 800 and height > 300


def test_the_bars_of_the_svg_are_as_long_as_the_phases(estimated: Any) -> None:
    answer = estimated(CONFIG, model=MODEL, hardware={"gpu": "H100"})
    root = ElementTree.fromstring(picture_svg(answer))
    bars = [rect for rect in root.iter(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    lengths: dict[str, float] = {}
    for bar in bars:
        lengths[bar.attrib["y"]] = lengths.get(bar.attrib["y"], 0.0) + float(bar.attrib["width"])
    peaks = [phase.peak_gb for phase in answer.phases]
    drawn = list(lengths.values())
    assert [length / drawn[0] for length in drawn] == pytest.approx([peak / peaks[0] for peak in peaks], rel=0.02)
    limit = max(float(line.attrib["x1"]) for line in root.iter(f"{SVG}line"))
    assert (limit - LEFT) / drawn[0] == pytest.approx(answer.card_gb / peaks[0], rel=0.02)


def test_every_term_has_a_colour(estimated: Any) -> None:
    for config, sections in (
        (CONFIG, {"hardware": {"gpu": "H100"}}),
        ({"gradient_checkpointing": False, "beta": 0.1}, {"hardware": {"gpus": 2}, "launch": {"zero_stage": 3}}),
        ({"optim": "adamw_torch", "num_iterations": 2}, {}),
    ):  # fmt: skip
        answer = estimated(config, model={"name": "Qwen/Qwen3-0.6B"}, **sections)
        for phase in answer.phases:
            assert {term.name for term in phase.terms} <= set(COLORS)


def test_a_hostile_model_name_stays_text(estimated: Any) -> None:
    answer = estimated({}, model={"name": "<script>&", "params_b": 1})
    assert "<script>" not in picture_svg(answer)


def test_without_matplotlib_the_png_says_what_to_install(estimated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(MissingPackageError, match="plots"):
        picture_png(estimated({}, model=MODEL))
