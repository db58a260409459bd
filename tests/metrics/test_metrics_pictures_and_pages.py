"""Pictures, and the reference pages made from the tables."""

import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from grpo_rlvr.config import check
from grpo_rlvr.errors import InputError
from grpo_rlvr.metrics import judge_parsed, parse, picture_png, picture_svg, recommend, render_docs
from grpo_rlvr.metrics.aliases import ALIASES
from grpo_rlvr.metrics.names import QUANTITIES, meaning
from grpo_rlvr.metrics.remedies import REMEDIES, WOULD_DECIDE
from grpo_rlvr.models.recommend import Label
from grpo_rlvr.models.setup import parse_setup
from grpo_rlvr.report.parts import prose
from grpo_rlvr.report.sections import config_section, diagnosis_section

ROOT = Path(__file__).parents[2]
LABELS = set(Label.__args__)  # type: ignore[attr-defined]


@pytest.fixture
def broken(simulate, console):
    columns = simulate(4, 60)
    columns["reward"][40:] = 0.0
    columns["entropy"][40:] = 4.0
    return parse(console(columns))


def test_the_png_is_eight_hundred_pixels_wide(broken):
    data = picture_png(broken, judge_parsed(broken))
    assert data.startswith(b"\x89PNG")
    assert struct.unpack(">I", data[16:20]) == (800,)


def test_the_svg_shows_the_verdict_the_curves_and_the_break(broken):
    text = picture_svg(broken)
    root = ElementTree.fromstring(text)
    words = " ".join(element.text or "" for element in root.iter() if element.tag.endswith("text"))
    assert "divergence" in words and "reward" in words and "break, row 41" in words
    assert len([e for e in root.iter() if e.tag.endswith("polyline")]) == 8


def test_a_gamed_reward_is_drawn_beside_the_measure_that_falls():
    log = parse(ROOT / "tests" / "data" / "logs" / "tiny_runs" / "length_rewarded.txt")
    root = ElementTree.fromstring(picture_svg(log))
    words = {element.text for element in root.iter() if element.tag.endswith("text")}
    assert {"reward", "accuracy"} <= words


def test_no_mark_of_markdown_reaches_the_page_of_a_report():
    checked = check({"beta": 0.0}, parse_setup({}), trl_version="1.16.0")
    assert "`kl`" in " ".join(checked.effective.summary)
    section = config_section(SimpleNamespace(check=checked, spec=SimpleNamespace(config={})))
    assert "<code>kl</code>" in section.html and "`" not in section.html
    diagnosis = recommend(ROOT / "tests" / "data" / "logs" / "tiny_runs" / "kl_blowup.txt")
    diagnosis.labels[0].summary = "look at `kl` first"
    section = diagnosis_section(SimpleNamespace(diagnosis=diagnosis, diagnosis_picture=""))
    assert "look at <code>kl</code> first" in section.html


def test_a_sentence_of_a_page_is_escaped_before_its_names_are_set_as_code():
    assert prose("set `a<b` & see `c`") == "set <code>a&lt;b</code> &amp; see <code>c</code>"
    assert prose("a lone ` stays") == "a lone ` stays"


def test_a_constant_curve_can_be_drawn(simulate, console):
    columns = simulate(4, 30)
    columns["reward"] = np.zeros(30)
    assert ElementTree.fromstring(picture_svg(parse(console(columns)))).tag.endswith("svg")


def test_nothing_to_draw_is_said():
    with pytest.raises(InputError, match="draw"):
        picture_svg(parse("{'reward': 0.5, 'loss': 0.1}"))


@pytest.mark.parametrize("path", sorted(render_docs()))
def test_the_reference_pages_are_fresh(path):
    assert (ROOT / path).read_text(encoding="utf-8") == render_docs()[path], "run scripts/docs"


def test_every_alias_names_a_known_quantity_and_is_found_by_its_name():
    assert {alias.quantity for alias in ALIASES} <= set(QUANTITIES)
    assert not [alias.name for alias in ALIASES if meaning(alias.name) is None]


def test_every_label_has_remedies_and_columns_that_would_decide():
    assert set(REMEDIES) == LABELS and set(WOULD_DECIDE) == LABELS
    assert all(remedies for remedies in REMEDIES.values())
    assert {quantity for rows in WOULD_DECIDE.values() for quantity, _ in rows} <= set(QUANTITIES)
