"""What a reward looks for, and whether the prompts ask for it."""

from pathlib import Path
from typing import Any

import pytest

from grpo_rlvr.config import check, load_config
from grpo_rlvr.models.setup import parse_setup
from grpo_rlvr.tools.check import check_config
from grpo_rlvr.workspace import Workspace

ASKED, HABIT = "reward-form-never-asked-for", "reward-form-left-to-habit"
PLAIN = ["What is 2+2? Answer the question.", "What is 3+3?"]
EXACT = {"reward": "exact"}


def rules(findings: Any, prompts: Any, *rewards: dict[str, Any], **setup: Any) -> set[str]:
    """Return which of the two rules fire."""
    given = {"dataset": {"prompts": prompts}, "rewards": list(rewards), **setup}
    return {finding.rule for finding in findings({}, given)} & {ASKED, HABIT}


@pytest.mark.parametrize(
    ("reward", "fires"),
    [
        (EXACT, {ASKED}),
        ({"reward": "exact", "args": {"answer_tag": ""}}, set()),
        ({"reward": "format"}, {ASKED, HABIT}),
        ({"reward": "format", "args": {"tags": ["think"]}}, {HABIT}),
        ({"reward": "format", "args": {"tags": ["think", "plan"], "prefilled": True}}, {ASKED}),
        ({"reward": "math"}, {HABIT}),
        ({"reward": "schema", "args": {"schema": {"type": "object"}}}, {ASKED}),
        ({"reward": "composite", "args": {"answer": EXACT}}, {ASKED, HABIT}),
        ({"name": "f", "looks_for": ["<move>", "JSON"]}, {ASKED}),
        ({"name": "f", "looks_for": ["\\boxed"]}, {HABIT}),
        ({"name": "f", "looks_for": ["<tool_call>"]}, {HABIT}),
        ({"name": "f", "reads": "text between <answer> and </answer>"}, {ASKED}),
        ({"name": "f", "reads": "the last \\boxed{...}"}, {HABIT}),
        ({"name": "f", "reads": "a pair such as <int, str>"}, set()),
        ({"name": "trl.rewards.think_format_reward"}, {HABIT}),
        ({"name": "length"}, set()),
    ],
)
def test_a_form_that_no_prompt_asks_for_is_found(findings: Any, reward: dict[str, Any], fires: set[str]) -> None:
    assert rules(findings, PLAIN, reward) == fires


@pytest.mark.parametrize(
    "prompts",
    [
        ["Give it as <answer>4</answer>.", "What is 3+3?"],
        [[{"role": "system", "content": "Use the answer tag."}, {"role": "user", "content": "2+2?"}]],
        [{"role": "system", "content": "Use XML."}, {"role": "user", "content": "2+2?"}],
        [[{"role": "user", "content": [{"type": "text", "text": "Write <ANSWER>4</ANSWER>"}, {"type": "image"}]}]],
        "plain questions, nothing said of the form",
        None,
    ],
)
def test_a_form_that_is_asked_for_or_prompts_told_in_words_are_silent(findings: Any, prompts: Any) -> None:
    assert rules(findings, prompts, EXACT) == set()


@pytest.mark.parametrize(
    "setup",
    [
        {"measured": {"base_success_rate": 0.2}},
        {"trainer": {"rollout_func": "play"}},
        {"environment_factory": {"n": 1}},
    ],
)
def test_a_model_that_is_right_sometimes_or_other_prompts_are_silent(findings: Any, setup: dict[str, Any]) -> None:
    assert rules(findings, PLAIN, EXACT, **setup) == set()


SCRIPT = '''
import re
from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

SYSTEM = {system!r}
PATTERN = re.compile(r"<move>(.*?)</move>", re.DOTALL)


def last(text):
    """Take what stands in <cell>4</cell>."""
    return text.split("<answer>")[-1].split("</answer>")[0]


def right(completions, answer, **kwargs):
    texts = [re.sub(r"<note>.*?</note>", "", c[0]["content"]) for c in completions]
    return [float(last(text) == gold) for text, gold in zip(texts, answer)]


def legal(completions, **kwargs):
    return [float(bool(PATTERN.search(c[0]["content"]))) for c in completions]


def row(x):
    question = x["question"]
    return {{"prompt": {prompt}, "answer": x["answer"]}}


data = load_dataset("openai/gsm8k", "main", split="train").map(row)
args = GRPOConfig(per_device_train_batch_size=8)
GRPOTrainer(model="org/model", reward_funcs=[right, legal], args=args, train_dataset=data).train()
'''
CHAT = '[{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]'


def missing(system: str, prompt: str) -> list[Any]:
    """Return what the rewards of the script look for and its prompts do not ask for."""
    loaded = load_config(SCRIPT.format(system=system, prompt=prompt), "train.py")
    result = check(loaded.config, parse_setup(loaded.setup), trl_version="1.16.0", loaded=loaded)
    return [finding.value for finding in result.findings if finding.rule == ASKED]


@pytest.mark.parametrize(
    ("system", "prompt", "found"),
    [
        ("You are a tutor.", CHAT, [["<answer>"], ["<move>"]]),
        ("Answer as <answer>4</answer>.", CHAT, [["<move>"]]),
        ("Be brief.", 'f"{SYSTEM} Write <move> and <answer>.\\n{question}"', []),
        ("Be brief.", 'SYSTEM + "\\n\\n" + question', [["<answer>"], ["<move>"]]),
        ("Be brief.", "build(SYSTEM, question)", []),
        ("Be brief.", 'x["question"]', []),
        ("Be brief.", '[{"role": "user", "content": x["question"]}]', []),
        ("Be brief.", '[{"role": "system", "content": SYSTEM}, {"role": "user", "content": x["prompt"]}]', []),
    ],
)
def test_a_script_shows_what_its_rewards_look_for_and_what_its_prompts_ask(
    system: str, prompt: str, found: list[Any]
) -> None:
    assert missing(system, prompt) == found


@pytest.mark.parametrize("call", ["client.chat.completions.create(x)", "ask_judge(x)", "llm.generate(x)"])
def test_marks_in_the_answer_of_another_model_are_not_asked_of_the_policy(call: str) -> None:
    script = SCRIPT.format(system="Be brief. <move>", prompt=CHAT).replace(
        "    texts = [", f"    said = [{call} for x in completions]\n    texts = ["
    )
    loaded = load_config(script, "train.py")
    assert ["looks_for" in reward for reward in loaded.setup["rewards"]] == [False, True]


def test_the_rows_of_a_file_in_the_setup_are_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"prompt": "2+2?", "answer": "4"}\n\n{"prompt": "3+3?", "answer": "6"}\n', encoding="utf-8")
    setup: dict[str, Any] = {"dataset": {"path": "rows.jsonl"}, "rewards": [EXACT]}
    place, config = Workspace.open(tmp_path), {"per_device_train_batch_size": 16}
    found = {finding.rule for finding in check_config(place, config, setup=setup).findings}
    assert {ASKED, "reward-spec-column-missing"} <= found
    stated = {**setup, "dataset": {"path": "rows.jsonl", "columns": ["prompt", "gold"], "prompts": "see the card"}}
    said = {finding.rule for finding in check_config(place, config, setup=stated).findings}
    assert not said & {ASKED, "reward-spec-column-missing"}


@pytest.mark.parametrize(
    "content", ["not json\n", '["a", "b"]\n', '{"prompt": 4}\n', "", '{"question": "2+2?"}\n', None]
)
def test_a_file_that_shows_no_prompts_leaves_them_unknown(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "rows.jsonl").write_text(content, encoding="utf-8")
    setup = {"dataset": {"path": "rows.jsonl"}, "rewards": [EXACT]}
    result = check_config(Workspace.open(tmp_path), {}, setup=setup)
    assert ASKED not in {finding.rule for finding in result.findings} and ASKED in result.not_applicable
