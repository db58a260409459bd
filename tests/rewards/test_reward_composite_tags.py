"""A composite's parts fit each other: the answer is looked for where the format wants it."""

import pickle
from typing import Any

import pytest

from rlvr_rewards import Composite, Exact, Format, Math, RewardSpecError, Schema, build

AGE = {"type": "object", "required": ["age"], "properties": {"age": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("answer", "row", "right", "wrong"),
    [
        (Exact(), {"gold": "72"}, "72", "27"),
        (Math(), {"gold": "72"}, "72", "27"),
        (Math(), {"gold": "72"}, "So \\boxed{72}", "\\boxed{27}"),
        (Math(), {"gold": "72"}, "The answer is 72", "The answer is 27"),
        (Schema(schema=AGE), {}, '{"age": 3}', '{"age": "3"}'),
        (Schema(schema=AGE), {}, '```json\n{"age": 3}\n```', "3"),
    ],
)
def test_the_answer_is_read_inside_the_formats_last_block(
    answer: Any, row: dict[str, Any], right: str, wrong: str
) -> None:
    reward = pickle.loads(pickle.dumps(Composite(answer, Format())))
    texts = [f"<think>a</think>\n<answer>{text}</answer>" for text in (right, wrong)]
    columns = {name: [value] * 2 for name, value in row.items()}
    assert reward(completions=texts, **columns) == [1.1, 0.1]


def test_without_its_block_an_answer_counts_as_the_part_reads_it() -> None:
    reward = Composite(Math(), Format())
    texts = ["\\boxed{72}", "<think>a</think><answer>72</answer>", "It is 72", "<answer>72"]
    assert reward(completions=texts, gold=["72"] * 4) == [1.0, 1.1, 0.0, 0.0]
    assert reward.__name__ == "math_with_format"


def test_the_block_wins_over_a_box_beside_it() -> None:
    reward = Composite(Math(), Format())
    verdict = reward.grade("\\boxed{72} <answer>5</answer>", {"gold": "72"})
    assert verdict.score == 0.0


def test_other_names_of_the_block_are_taken_from_the_format() -> None:
    tags = ("reasoning", "solution")
    reward = Composite(Math(), Format(tags=tags))
    assert reward(completions=["<reasoning>a</reasoning><solution>72</solution>"], gold=["72"]) == [1.1]
    spec = {"answer": {"reward": "exact", "args": {"answer_tag": "solution"}}, "format": {"reward": "format"}}
    spec["format"]["args"] = {"tags": list(tags)}
    built = build({"reward": "composite", "args": spec})
    assert built(completions=["<reasoning>a</reasoning><solution>72</solution>"], gold=["72"]) == [1.1]


def test_a_part_that_looks_where_the_format_has_nothing_is_refused() -> None:
    with pytest.raises(
        RewardSpecError, match=r"looked for in <answer>, which the format does not have \(think, result\)"
    ):
        Composite(Exact(), Format(tags=("think", "result")))
    assert Composite(Exact(answer_tag=""), Format(tags=("think",), outside="tail"))(
        completions=["<think>a</think>72"], gold=["72"]
    ) == [1.1]


def test_schema_may_look_into_a_block_alone() -> None:
    reward = Schema(schema=AGE, answer_tag="json")
    texts = ['Here: <json>{"age": 3}</json>', '{"age": 3}', '<json>{"age": 3}']
    assert reward(completions=texts) == [1.0, 0.0, 0.0]
