"""The reference page names every attack, key and policy key as the code has them."""

import tomllib
from pathlib import Path

from grpo_rlvr.inspection.attacks import KINDS
from grpo_rlvr.inspection.batch_checks import CHECKS
from grpo_rlvr.inspection.docs import PAGE, render_docs
from grpo_rlvr.models.reading import GatePolicy

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_attacks_is_fresh() -> None:
    assert render_docs() == {PAGE: (ROOT / PAGE).read_text(encoding="utf-8")}, "run scripts/docs"


def test_attack_ids_are_unique() -> None:
    ids = [kind.attack for kind in KINDS] + [check.attack for check in CHECKS]
    assert len(ids) == len(set(ids))


def test_the_policy_on_the_page_is_the_default() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    stated = tomllib.loads(text.partition("```toml\n")[2].partition("```")[0])
    assert GatePolicy.model_validate(stated["gate"]) == GatePolicy()
    assert set(stated["gate"]) == set(GatePolicy.model_fields)
