"""The generated page is fresh and its claims hold."""

from pathlib import Path

from grpo_rlvr.memory import render_docs
from grpo_rlvr.memory.tables import CARDS, METHODS, SIZES, run

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_fresh() -> None:
    for path, text in render_docs().items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path} is stale: run scripts/docs"


def test_no_placeholder_is_left_in_the_page() -> None:
    for text in render_docs().values():
        assert "{{" not in text


def test_every_size_method_and_card_is_in_the_tables() -> None:
    (text,) = render_docs().values()
    for label, _ in SIZES:
        assert f"| {label} |" in text
    for name in [*METHODS, *(name for name, _ in CARDS)]:
        assert name in text


def test_a_full_fine_tune_of_a_size_class_never_takes_less_than_its_adapter() -> None:
    for _, model in SIZES:
        assert run(model, "full fp32").peak_gb > run(model, "LoRA bf16").peak_gb > run(model, "QLoRA").peak_gb
