"""What somebody meets who uses a reward in a script of their own: messages, shown arguments, numbers of libraries."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from rlvr_rewards import Composite, Exact, Format, LengthPenalty, Math, RewardRowError, RewardSpecError, ToolCall


def test_a_missing_column_names_the_argument_that_could_name_another() -> None:
    for reward in (Math(), Composite(Exact()), LengthPenalty(Math(), free_tokens=1, max_tokens=50)):
        with pytest.raises(
            RewardRowError, match=r"no column 'gold'; columns: .*answer.*; name the right one with gold_column"
        ):
            reward(completions=["x"], answer=["1"], completion_ids=[[1]])
    with pytest.raises(RewardRowError, match=r"tools_column"):
        ToolCall()(completions=["x"], gold=[[]])


def test_one_text_is_no_list_of_completions_and_rows_must_match() -> None:
    with pytest.raises(RewardRowError, match="not one text"):
        Math()(completions="\\boxed{1}", gold=["1"])
    with pytest.raises(RewardRowError, match="2 rows for 1 completions"):
        Exact().grade_batch(["x"], [{"gold": "x"}] * 2)


def test_a_reward_shows_only_what_was_set() -> None:
    assert repr(Math()) == "Math()"
    assert repr(Math(gold_column="answer", name="m")) == "Math(name='m', gold_column='answer')"
    assert repr(Composite(Exact(), Format(tags=["answer"]), gate=True)).startswith(
        "Composite(answer=Exact(), format=Format(tags=('answer',)), weights="
    )


@pytest.mark.parametrize("value", [1.5, Decimal("1.5"), Fraction(3, 2), "numpy.float64(1.5)", "numpy.float32(1.5)"])
def test_golds_of_every_kind_of_number_are_read(value: Any) -> None:
    if isinstance(value, str):
        numpy = pytest.importorskip("numpy")
        value = getattr(numpy, value.partition("(")[0].removeprefix("numpy."))(1.5)
    assert Math()(completions=["\\boxed{\\frac{3}{2}}", "\\boxed{1.6}"], gold=[value] * 2) == [1.0, 0.0]


def test_whole_numbers_of_numpy_are_golds_and_what_is_no_number_is_none() -> None:
    numpy = pytest.importorskip("numpy")
    assert Math()(completions=["\\boxed{42}"], gold=[numpy.int64(42)]) == [1.0]
    assert Exact()(completions=["<answer>42</answer>"], gold=[numpy.int64(42)]) == [1.0]
    for value in (float("nan"), numpy.float64("inf"), Decimal("NaN"), True, [1, 2]):
        assert Math()(completions=["\\boxed{1}"], gold=[value]) == [None]


@pytest.mark.parametrize("kind", [Exact, Math])
@pytest.mark.parametrize("tag", ["<answer>", "my answer", 5])
def test_a_tag_is_given_by_its_name(kind: Any, tag: Any) -> None:
    with pytest.raises(RewardSpecError, match="without brackets"):
        kind(answer_tag=tag)
