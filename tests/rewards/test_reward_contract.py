"""What holds for every reward: TRL's signature, chat completions, row errors, pickling, names, metrics."""

import asyncio
import concurrent.futures
import importlib.util
import json
import multiprocessing
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rlvr_rewards
from rlvr_rewards import (
    Composite,
    Exact,
    Format,
    LengthPenalty,
    Math,
    MissingExtraError,
    RewardHarnessError,
    RewardRowError,
    RewardSpecError,
    RewardWiringError,
    Schema,
    SoftOverlong,
    ToolCall,
    Verdict,
    build,
    grade_all,
)
from rlvr_rewards._core import REASONS, Reward
from rlvr_rewards._text import text_of

SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
CALL = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
GOLD_CALL = [{"name": "f", "arguments": {"a": 1}}]
TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]
IDS = [1, 2, 3]

# A reward, a completion that is right, one that is wrong, and the columns of one row.
EXAMPLES: list[tuple[Reward, str, str, dict[str, Any]]] = [
    (Format(), "<think>a</think><answer>b</answer>", "b", {}),
    (Exact(), "<answer>Paris</answer>", "<answer>Rome</answer>", {"gold": "Paris"}),
    (Math(), "\\boxed{1/2}", "\\boxed{1/3}", {"gold": "0.5"}),
    (Schema(), '{"a": 1}', '{"a": "1"}', {"schema": json.dumps(SCHEMA)}),
    (ToolCall(), CALL, "no call", {"gold": GOLD_CALL, "tools": TOOLS}),
    (
        LengthPenalty(Exact()),
        "<answer>Paris</answer>",
        "<answer>Rome</answer>",
        {"gold": "Paris", "completion_ids": IDS},
    ),
    (Composite(Math(), weights={"format": 0}), "\\boxed{2}", "\\boxed{3}", {"gold": "2"}),
]
NAMES = [reward.reward_name for reward, *_ in EXAMPLES]
NAMED = pytest.mark.parametrize(("reward", "good", "bad", "row"), EXAMPLES, ids=NAMES)
HOSTILE = [
    *("", " ", "\x00", "\ud800", "<think>", "</think>", "{", "[" * 100_000, "9" * 50_000, "$" * 10_000),
    *("\\boxed{" * 20_000, "\\boxed{" + "9" * 5000 + "}", "\\boxed{\\frac{" * 500, "\\boxed{" + "a," * 5000 + "}"),
    *("<tool_call>" * 2000, "<answer>" * 20_000, "answer is " * 5000, '{"a": ' * 5000, "```json\n" * 3000),
    *("\\boxed{" + "(" * 3000 + "1" + ")" * 3000 + "}", "\\boxed{\\text{" + "x " * 5000 + "}}"),
    *("\\boxed{x^{x^{x^{x}}}}", "\\boxed{1/0}", "\\boxed{\\sqrt{-1}}", "\\boxed{0^0}", "\\boxed{\\log 0}"),
    *("\\boxed{\\tan(\\pi/2)}", "\\boxed{(-1)^{1/2}}", "\\boxed{" + "\\pm" * 300 + "1}"),
    *("\\boxed{" + "\\cup".join(["[1,2]"] * 900) + "}", "\\boxed{" + "=".join("12345678") + "}"),
    "\\boxed{" + "{" * 60 + "1" + "}" * 60 + "}" + "\\boxed{8}" * 60,
]


@NAMED
def test_right_and_wrong_score_apart(reward: Reward, good: str, bad: str, row: dict[str, Any]) -> None:
    columns = {name: [value] * 2 for name, value in row.items()}
    scores = reward(
        completions=[good, bad], prompts=["p", "p"], unknown_column=[None], trainer_state=object(), **columns
    )
    assert scores[0] is not None and scores[0] > 0.9
    assert scores[1] == 0.0
    assert all(type(score) is float for score in scores)


@NAMED
def test_chat_completions_score_as_their_text(reward: Reward, good: str, bad: str, row: dict[str, Any]) -> None:
    for text in (good, bad):
        message = [{"role": "assistant", "content": text}]
        blocks = [{"role": "assistant", "content": [{"type": "text", "text": text}]}]
        assert reward.grade(message, row).score == reward.grade(text, row).score == reward.grade(blocks, row).score


@NAMED
def test_hostile_output_neither_raises_nor_goes_ungraded(
    reward: Reward, good: str, bad: str, row: dict[str, Any]
) -> None:
    for text in HOSTILE:
        verdict = reward.grade(text, row)
        assert verdict.score is not None and verdict.score <= 0.1, text[:40]
        assert verdict.reason in REASONS
        assert verdict.seconds < 5
        json.dumps(verdict.as_dict())


@NAMED
def test_a_missing_or_short_column_raises(reward: Reward, good: str, bad: str, row: dict[str, Any]) -> None:
    if not row:
        with pytest.raises(TypeError):
            reward()  # type: ignore[call-arg]
        return
    columns = {name: [value] for name, value in row.items()}
    with pytest.raises(RewardRowError, match=r"has 1 entries for 3 completions"):
        reward(completions=[good] * 3, **columns)
    name = next(iter(row))
    with pytest.raises(RewardRowError, match=f"no column '{name}'"):
        reward(completions=[good], **{key: value for key, value in columns.items() if key != name})
    with pytest.raises(RewardRowError, match="must be a list"):
        reward(completions=[good], **{**columns, name: "text"})


@NAMED
def test_it_pickles_into_another_process(reward: Reward, good: str, bad: str, row: dict[str, Any]) -> None:
    copy = pickle.loads(pickle.dumps(reward))
    assert copy.__name__ == reward.__name__
    assert copy.grade(good, row).score == reward.grade(good, row).score


def test_rewards_work_in_a_spawned_process_and_in_threads() -> None:
    reward = Composite(Math())
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(reward, ["\\boxed{2}"], gold=["2"]).result(timeout=60) == [1.0]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        golds = [str(number) for number in range(64)]
        scored = list(pool.map(lambda gold: reward([f"\\boxed{{{gold}}}"], gold=[gold]), golds))
    assert scored == [[1.0]] * 64


def test_a_row_that_cannot_be_graded_is_none_for_every_completion() -> None:
    scores = Math()(completions=["\\boxed{1}", "", "x", "\\boxed{2}"], gold=[None, None, None, "2"])
    assert scores == [None, None, None, 1.0]


def test_check_rows_lists_them_before_training() -> None:
    rows = [{"gold": "1"}, {"gold": None}, {"gold": "\\frac{1}{"}, {}, {"gold": "1/0"}, {"gold": "9^{9^{9^9}}"}]
    assert [problem.index for problem in Math().check_rows(rows)] == [1, 2, 3, 4, 5]
    penalty = LengthPenalty(Exact())
    assert [problem.index for problem in penalty.check_rows([{"gold": "a"}, {"gold": ""}])] == [1]
    assert SoftOverlong(10, 2).check_rows([{}]) == []


def test_default_names_tell_rewards_with_other_arguments_apart() -> None:
    rewards: list[Reward] = [
        *(Math(), Math(rel_tol=1e-3), Math(kind="choice"), Exact(), Exact(case=False)),
        *(LengthPenalty(Math()), SoftOverlong(9, 1), Composite(Math()), Composite(Math(), gate=True)),
        *(Composite(Math(), weights={"format": 0.2}), Format(), Format(prefilled=True)),
        *(Schema(schema=SCHEMA), Schema(schema=True)),
    ]
    names = [reward.__name__ for reward in rewards]
    assert len(set(names)) == len(names)
    assert names[0] == "math" and names[5] == "math_length_penalty"
    assert Math(name="mine").__name__ == "mine"
    assert Math(rel_tol=1e-3).__name__ == Math(rel_tol=1e-3).__name__


def test_reasons_and_answers_reach_the_table_and_the_metrics() -> None:
    table: dict[str, list[Any]] = {}
    metrics: dict[str, float] = {}
    Math()(
        completions=["\\boxed{2}", "hm"], gold=["2", "2"], log_extra=table.__setitem__, log_metric=metrics.__setitem__
    )
    assert table == {"math_reason": ["correct", "no_answer"], "math_extracted": ["2", ""]}
    assert metrics["math/correct"] == 0.5 and metrics["math/no_answer"] == 0.5 and metrics["math/wrong"] == 0.0


def test_a_grader_that_fails_itself_stops_training() -> None:
    class Broken(Reward):
        def judge_output(self, completion: Any, row: Any) -> Verdict:
            return Verdict(None, "harness_error", None, {"problem": "the disk is full"})

    reward = Broken()
    assert reward(completions=["a"] * 3) == [None] * 3
    with pytest.raises(RewardHarnessError, match="4 of 4 gradings; the last failure: the disk is full"):
        reward(completions=["a"])


def test_format_reports_tags_that_decoding_dropped() -> None:
    class Tokenizer:
        def encode(self, text: str, add_special_tokens: bool) -> list[int]:
            return [7] if text == "<think>" else [ord(char) for char in text]

        def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
            return "".join(chr(token) for token in ids if token != 7)

    with pytest.raises(RewardWiringError, match=r"<think> is a special token"):
        Format().check_tokenizer(Tokenizer())
    Format(tags=("reasoning", "answer")).check_tokenizer(Tokenizer())
    reward = Format(tag_ids={"<think>": 7})
    with pytest.raises(RewardWiringError, match=r"every score would be 0\.0"):
        reward(completions=["a</think><answer>b</answer>"], completion_ids=[[7, 97]])
    assert reward(completions=["a</think><answer>b</answer>"], completion_ids=[[97]]) == [0.0]


def test_format_says_so_when_no_completion_ever_holds_a_tag() -> None:
    reward = Format()
    with pytest.warns(UserWarning, match="none of 256 completions"):
        scores = reward(completions=["4"] * 256)
    assert scores == [0.0] * 256


def test_format_reads_thinking_that_a_chat_parser_moved() -> None:
    message = [{"role": "assistant", "content": "<answer>4</answer>", "reasoning_content": "2+2"}]
    assert Format()(completions=[message]) == [1.0]


def test_a_conversation_that_ends_with_a_tool_has_no_answer() -> None:
    assert text_of([{"role": "assistant", "content": "\\boxed{2}"}, {"role": "tool", "content": "\\boxed{2}"}]) == ""


def test_length_penalty_keeps_the_order_of_right_and_wrong() -> None:
    def signed(completions: list[str], **columns: Any) -> list[float | None]:
        return [{"bad": -1.0, "zero": 0.0, "good": 1.0, "none": None}[text] for text in completions]

    reward = LengthPenalty(signed, free_tokens=10, max_tokens=20, max_share=0.99)
    texts = ["bad", "zero", "good", "none", "good"]
    scores = reward(completions=texts, completion_ids=[[0] * 1000] * 4 + [[0] * 5])
    assert scores == [-1.0, 0.0, pytest.approx(0.01), None, 1.0]
    assert reward.__name__ == "signed_length_penalty"
    composite = LengthPenalty(Composite(Exact(), weights={"format": 0.5}), free_tokens=0, max_tokens=1, max_share=0.9)
    long_right, short_wrong = "<answer>a</answer>", "<think>x</think><answer>b</answer>"
    scores = composite(completions=[long_right, short_wrong], gold=["a", "a"], completion_ids=[[0] * 99, []])
    assert scores[0] is not None and scores[1] is not None and scores[0] > scores[1]


@pytest.mark.parametrize(
    ("tokens", "expected"), [(0, 0.0), (80, 0.0), (81, -0.05), (90, -0.5), (100, -1.0), (101, -1.0)]
)
def test_soft_overlong_is_dapos(tokens: int, expected: float) -> None:
    assert SoftOverlong(100, 20)(completions=["x"], completion_ids=[[1] * tokens]) == [pytest.approx(expected)]


@pytest.mark.parametrize("limits", [(100, 20), (100, 0), (8, 8)])
def test_soft_overlong_agrees_with_trl(limits: tuple[int, int]) -> None:
    rewards = pytest.importorskip("trl.rewards")
    theirs = rewards.get_soft_overlong_punishment(*limits)
    ids = [[1] * count for count in range(0, 120)]
    assert SoftOverlong(*limits)(completions=["x"] * 120, completion_ids=ids) == pytest.approx(theirs(ids))


def test_composite_refuses_weights_that_pay_a_wrong_answer_more() -> None:
    with pytest.raises(RewardSpecError, match=r"a wrong answer can score 1\.5 and a correct one only 1"):
        Composite(Exact(), weights={"format": 1.5})
    with pytest.raises(RewardSpecError, match="set gate=True"):
        Composite(Schema(schema=True, partial=True))
    Composite(Schema(schema=True, partial=True), gate=True)


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("weight", [0.0, 0.1, 0.99])
def test_composite_orders_every_combination(gate: bool, weight: float) -> None:
    reward = Composite(Exact(), weights={"format": weight}, gate=gate)
    texts = {
        (answer, form): f"<think>{'x' if form else ''}</think><answer>{'a' if answer else 'b'}</answer>"
        for answer in (0, 1)
        for form in (0, 1)
    }
    scores = {key: reward.grade(text, {"gold": "a"}).score for key, text in texts.items()}
    right = [score for (answer, form), score in scores.items() if answer and (form or not gate)]
    wrong = [score for (answer, form), score in scores.items() if not (answer and (form or not gate))]
    assert min(right) > max(wrong)  # type: ignore[type-var]


def test_composite_is_none_when_the_answer_cannot_be_graded() -> None:
    table: dict[str, list[Any]] = {}
    metrics: dict[str, float] = {}
    reward = Composite(Math())
    good = "<think>a</think><answer>\\boxed{2}</answer>"
    logs = {"log_extra": table.__setitem__, "log_metric": metrics.__setitem__}
    assert reward(completions=[good, good], gold=["2", None], **logs) == [1.1, None]
    assert metrics["math_with_format/answer"] == 1.0 and metrics["math_with_format/format"] == 1.0
    assert table["math_with_format_answer"] == [1.0, None]


def test_grade_all_awaits_coroutine_functions_even_inside_a_loop() -> None:
    async def later(completions: list[str], **columns: Any) -> list[float]:
        await asyncio.sleep(0)
        return [0.5] * len(completions)

    async def inside() -> list[Verdict]:
        return grade_all(later, ["x"], [{}])

    assert [verdict.score for verdict in grade_all(later, ["x", "y"], [{}, {}])] == [0.5, 0.5]
    assert asyncio.run(inside())[0].score == 0.5


@pytest.mark.parametrize(("kind", "packages"), [(Math, "math_verify"), (Schema, "jsonschema")])
def test_a_missing_package_is_named_when_the_reward_is_made(
    kind: Any, packages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name.startswith(packages) else real(name, *rest)
    )
    with pytest.raises(MissingExtraError, match="pip install"):
        kind()


def test_grade_all_takes_plain_functions_and_refuses_wrong_counts() -> None:
    rows = [{"gold": "a"}, {"gold": "b"}]
    verdicts = grade_all(lambda completions, gold, **rest: [float(g == "a") for g in gold], ["x", "y"], rows)
    assert [(verdict.score, verdict.reason) for verdict in verdicts] == [(1.0, "scored"), (0.0, "scored")]
    with pytest.raises(RewardRowError, match="1 scores for 2 completions"):
        grade_all(lambda completions, **rest: [1.0], ["x", "y"], rows)
    with pytest.raises(RewardRowError, match="not a number"):
        grade_all(lambda completions, **rest: ["good", "bad"], ["x", "y"], rows)


MISFITS: list[tuple[Any, dict[str, Any]]] = [
    *((Format, {"tags": ()}), (Format, {"tags": ("a", "a")}), (Format, {"tags": ("<a>",)}), (Format, {"outside": "x"})),
    *((Math, {"rel_tol": 1}), (Math, {"kind": "number"}), (Math, {"stop": "Question:"}), (Math, {"max_nesting": 0})),
    *((Schema, {"schema": {"type": "objekt"}}), (ToolCall, {"syntax": "xml"}), (ToolCall, {"forbid": "x"})),
    *((SoftOverlong, {"max_tokens": 5, "cache_tokens": 9}), (LengthPenalty, {"reward": Exact(), "max_share": 1.0})),
    *((LengthPenalty, {"reward": Exact(), "free_tokens": 9, "max_tokens": 9}), (LengthPenalty, {"reward": "math"})),
    *((Exact, {"normalize": "NFX"}), (Composite, {"answer": Exact(), "weights": {"form": 1}}), (Exact, {"case": 1})),
]


@pytest.mark.parametrize(("kind", "arguments"), MISFITS)
def test_arguments_that_fit_nothing_are_refused(kind: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(RewardSpecError):
        kind(**arguments)


def test_exports_are_lazy_light_and_complete() -> None:
    code = (
        "import sys, time; start = time.perf_counter(); import rlvr_rewards; took = time.perf_counter() - start; "
        "heavy = {'numpy', 'sympy', 'torch', 'jsonschema', 'asyncio', 'dataclasses'} & set(sys.modules); "
        "print(sorted(heavy), took)"
    )
    root = str(Path(rlvr_rewards.__file__).parents[1])
    shown = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PYTHONPATH": root},
        check=True,
    )
    assert shown.stdout.startswith("[] ")
    assert sorted(rlvr_rewards.__all__) == rlvr_rewards.__all__
    for name in rlvr_rewards.__all__:
        assert getattr(rlvr_rewards, name) is not None
    with pytest.raises(AttributeError, match="Maths"):
        rlvr_rewards.Maths  # noqa: B018


def test_every_reason_a_reward_names_is_on_the_closed_list() -> None:
    for name in ("Format", "Exact", "Math", "Schema", "ToolCall", "Judge", "Composite", "SoftOverlong"):
        assert set(getattr(rlvr_rewards, name).reasons) <= set(REASONS)


def test_build_gives_the_same_verdicts_as_the_class() -> None:
    spec = {
        "reward": "composite",
        "args": {"answer": {"reward": "math", "args": {"rel_tol": 0.01}}, "format": "format"},
    }
    made = build(spec)
    assert made.__name__ == Composite(Math(rel_tol=0.01)).__name__
    assert made(completions=["\\boxed{0.331}"], gold=["1/3"]) == [1.0]
