"""The reference page names every attack, key and policy key as the code has them."""

import tomllib
from pathlib import Path

from grpo_rlvr.inspection.attacks import KINDS
from grpo_rlvr.inspection.batch_checks import CHECKS
from grpo_rlvr.inspection.docs import ATTACKS_PAGE, CLASSES, REWARDS_PAGE, render_docs
from grpo_rlvr.inspection.opening import OPENING
from grpo_rlvr.models.reading import GatePolicy

ROOT = Path(__file__).resolve().parents[2]


def test_the_generated_parts_are_fresh() -> None:
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for page in (ATTACKS_PAGE, REWARDS_PAGE)}
    assert render_docs() == pages, "run scripts/docs"


def test_every_reward_has_formula_range_weakness_and_a_runnable_example() -> None:
    _, *parts = render_docs()[REWARDS_PAGE].split("\n### ")
    assert [part.splitlines()[0] for part in parts] == list(CLASSES)
    for part in parts:
        for wanted in ("- Formula", "Range", "- How it is gamed", "- None", "\n>>> "):
            assert wanted in part, (part[:30], wanted)


def test_attack_ids_are_unique() -> None:
    ids = [kind.attack for kind in KINDS] + [check.attack for check in (*CHECKS, OPENING)]
    assert len(ids) == len(set(ids))


def test_the_policy_on_the_page_is_the_default() -> None:
    text = (ROOT / ATTACKS_PAGE).read_text(encoding="utf-8")
    stated = tomllib.loads(text.partition("```toml\n")[2].partition("```")[0])
    assert GatePolicy.model_validate(stated["gate"]) == GatePolicy()
    assert set(stated["gate"]) == set(GatePolicy.model_fields)
