"""What the reward rules say about the ways in which people state their rewards."""

from typing import Any

import pytest

STRING = {"columns": ["prompt"], "format": "string"}
CHAT = {"columns": ["prompt"], "format": "conversational"}
GRADED = {"columns": ["prompt", "answer"], "format": "string"}


def reward(signature: str = "def f(completions, **kwargs)", name: str = "f", **more: Any) -> dict[str, Any]:
    """Return a reward as a setup states it."""
    return {"name": name, "signature": signature, **more}


def fired(found: list[Any], *severities: str) -> set[str]:
    """Return the rules that fired with one of the severities."""
    return {finding.rule for finding in found if finding.severity in severities}


@pytest.mark.parametrize(
    ("returns", "rule"),
    [
        ("[1.0]", "reward-returns-wrong-shape"),
        ("a single float", "reward-returns-wrong-shape"),
        ("0.5", "reward-returns-wrong-shape"),
        ("float", "reward-returns-wrong-shape"),
        ("None", "reward-returns-wrong-shape"),
        ("sum(scores) / len(scores)", "reward-returns-wrong-shape"),
        ("torch.tensor of shape ()", "reward-returns-wrong-shape"),
        ("list with one entry per prompt", "reward-returns-wrong-shape"),
        ("{index: score}", "reward-returns-wrong-shape"),
        ("dict of scores", "reward-returns-wrong-shape"),
        ("list of strings", "reward-returns-wrong-shape"),
        ("may contain inf", "reward-not-finite"),
        ("NaN when parsing fails", "reward-not-finite"),
        ("float('nan') on failure", "reward-not-finite"),
        ("same value for every completion of a prompt", "reward-constant-in-group"),
        ("always 1.0", "reward-constant-in-group"),
        ("1.0 for every completion", "reward-constant-in-group"),
        ("[0.0 for _ in completions]", "reward-constant-in-group"),
        ("[1] * len(completions)", "reward-constant-in-group"),
    ],
)
def test_wrong_return_values_are_errors(findings: Any, returns: str, rule: str) -> None:
    found = findings({}, {"dataset": STRING, "rewards": [reward(returns=returns)]})
    assert rule in fired(found, "error")
    named = next(finding for finding in found if finding.rule == rule)
    assert {"rewards[].returns", "rewards", "reward_funcs"} <= set(named.fields) and returns in named.message


@pytest.mark.parametrize(
    "returns",
    [
        "list of floats",
        "[0.0, 1.0, 0.0]",
        "one float per completion in [0, 1]",
        "0.0 or 1.0 per completion",
        "1.0 if correct else 0.0",
        "list[float]",
        "scores in [-1, 1]",
        "[0.0 if wrong(text) else 1.0 for text in completions]",
        "finite, never inf",
    ],
)
def test_right_return_values_are_silent(findings: Any, returns: str) -> None:
    assert not fired(findings({}, {"dataset": STRING, "rewards": [reward(returns=returns)]}), "error", "warning")


def test_a_return_annotation_counts_as_a_statement(findings: Any) -> None:
    assert "reward-returns-wrong-shape" in fired(
        findings({}, {"rewards": [reward("def f(completions, **kwargs) -> float")]}), "error"
    )
    assert not fired(findings({}, {"rewards": [reward("def f(completions, **kwargs) -> list[float]")]}), "error")


@pytest.mark.parametrize("returns", ["0 for almost all completions", "binary, all completions of most prompts get 0"])
def test_suspected_constancy_is_a_warning(findings: Any, returns: str) -> None:
    found = findings({}, {"rewards": [reward(returns=returns)]})
    assert "reward-perhaps-constant" in fired(found, "warning") and not fired(found, "error")


def test_none_from_the_only_reward_is_a_warning_and_from_one_of_several_is_not(findings: Any) -> None:
    alone = findings({}, {"rewards": [reward(returns="None for rows without a reference")]})
    assert fired(alone, "warning") == {"reward-none-for-whole-row"}
    several = [reward(returns="None on code rows"), reward(name="g", returns="None on math rows")]
    assert not fired(findings({}, {"rewards": several}), "warning")


def test_a_wrapper_that_erases_negative_scores_is_an_error(findings: Any) -> None:
    reads = "penalty = min(reward, overflow * rate); returns reward - penalty"
    bad = reward("closure from with_length_penalty(base)", returns="base range is [-1, 1]", reads=reads)
    good = {**bad, "reads": "penalty = max(0.0, min(reward, overflow * rate)); returns reward - penalty"}
    assert "reward-penalty-erases-negatives" in fired(findings({}, {"rewards": [bad]}), "error")
    assert not fired(findings({}, {"rewards": [good]}), "error")


@pytest.mark.parametrize(
    ("signature", "columns", "rule"),
    [
        ("def f(completions, solution, **kwargs)", ["prompt", "answer"], "reward-required-parameter-missing"),
        ("def f(completions, tests, sandbox_cmd, **kwargs)", ["prompt", "tests"], "reward-required-parameter-missing"),
        ("class J: def __call__(self, completions, gold, **kwargs)", ["prompt"], "reward-required-parameter-missing"),
        ("def f(completions, prompt, **kwargs)", ["prompt"], "reward-required-parameter-missing"),
        ("def f(completions)", ["prompt"], "reward-without-kwargs"),
        ("def f(prompts, completions, answer)", ["prompt", "answer"], "reward-without-kwargs"),
        ("lambda completions: [1.0] * len(completions)", ["prompt"], "reward-without-kwargs"),
        ("def f(completions, /, **kwargs)", ["prompt"], "reward-positional-only"),
        ("def f(completions, **kwargs)", ["prompt", "completions"], "reward-column-passed-twice"),
        ("def f(completions, **kwargs)", ["prompt", "prompts"], "reward-column-passed-twice"),
        ("def f(completions, **kwargs)", ["prompt", "log_extra"], "reward-column-overwritten"),
        ("def f(completions, completion, **kwargs)", ["prompt", "completion"], "reward-required-parameter-missing"),
    ],
)
def test_wiring_that_fails_at_the_first_step_is_an_error(
    findings: Any, signature: str, columns: list[str], rule: str
) -> None:
    found = findings({}, {"dataset": {"columns": columns, "format": "string"}, "rewards": [reward(signature)]})
    assert rule in fired(found, "error")


@pytest.mark.parametrize(
    "signature",
    [
        "def f(prompts, completions, answer, **kwargs)",
        "def f(completions, *, answer=None, **kwargs)",
        "class J: def __call__(self, completions, answer, **kwargs)",
        "lambda completions, **kw: [1.0] * len(completions)",
        "functools.partial(judge, rubric=...)",
        "closure from wrap(base)",
        "async def f(completions, **kwargs)",
        "def f(completions: list[str], answer: list[str], **kwargs) -> list[float]",
    ],
)
def test_wiring_that_works_is_silent(findings: Any, signature: str) -> None:
    assert not fired(findings({}, {"dataset": GRADED, "rewards": [reward(signature)]}), "error", "warning")


def test_old_versions_pass_fewer_names(findings: Any) -> None:
    plain = {"dataset": STRING, "rewards": [reward("def f(prompts, completions)")]}
    assert not fired(findings({"loss_type": "bnpo"}, plain, trl="0.17.0"), "error")
    assert "reward-without-kwargs" in fired(findings({}, plain, trl="0.18.2"), "error")


def test_callable_objects_need_a_name_before_1_9_only(findings: Any) -> None:
    for signature in ("functools.partial(judge, rubric=1)", "class J: def __call__(self, completions, **kwargs)"):
        setup = {"dataset": STRING, "rewards": [reward(signature, name="judge")]}
        assert "reward-without-name" in fired(findings({}, setup, trl="1.7.1"), "error")
        assert "reward-without-name" not in fired(findings({}, setup), "error")


def test_columns_dropped_before_the_reward_are_an_error_with_a_safe_fix(findings: Any) -> None:
    setup = {"dataset": GRADED, "rewards": [reward(reads="kwargs.get('answer')")]}
    found = findings({"remove_unused_columns": True}, setup)
    finding = next(item for item in found if item.rule == "reward-columns-removed")
    assert finding.fix is not None and finding.fix.safe and finding.fix.set == {"remove_unused_columns": False}
    alone = {"dataset": GRADED, "rewards": [reward("def f(completions, **kwargs)", reads="completion lengths only")]}
    assert not fired(findings({"remove_unused_columns": True}, alone), "error")


@pytest.mark.parametrize(
    "reads",
    [
        "re.search(pattern, completion)",
        "'<answer>' in completion",
        "c.split('####')",
        "completions[i] == answer[i]",
        "treats each completion as a string",
        "completions as strings (len(c))",
    ],
)
def test_text_code_on_conversations_is_an_error(findings: Any, reads: str) -> None:
    found = findings({}, {"dataset": CHAT, "rewards": [reward(reads=reads)]})
    assert "reward-reads-chat-as-text" in fired(found, "error")
    assert not fired(findings({}, {"dataset": STRING, "rewards": [reward(reads=reads)]}), "error")


def test_message_code_on_texts_is_an_error_unless_it_asks_for_the_type(findings: Any) -> None:
    content = "completion[0]['content']"
    assert "reward-reads-text-as-chat" in fired(
        findings({}, {"dataset": STRING, "rewards": [reward(reads=content)]}), "error"
    )
    assert not fired(findings({}, {"dataset": CHAT, "rewards": [reward(reads=content)]}), "error")
    both = reward(reads=f"c if isinstance(c, str) else {content}")
    assert not fired(findings({}, {"dataset": STRING, "rewards": [both]}), "error")


@pytest.mark.parametrize(
    ("model", "entry"),
    [
        ({"special_tokens": ["<answer>"]}, reward(reads="looks for <answer>...</answer>")),
        ({}, reward(reads="ends with <|im_end|>")),
        ({"special_tokens": ["<think>", "</think>"]}, reward(name="trl.rewards.think_format_reward")),
    ],
)
def test_tokens_that_decoding_strips_are_an_error(findings: Any, model: dict[str, Any], entry: dict[str, Any]) -> None:
    assert "reward-needs-special-tokens" in fired(findings({}, {"model": model, "rewards": [entry]}), "error")


def test_a_prefilled_tag_that_the_reward_wants_first_is_an_error(findings: Any) -> None:
    model = {"chat_template_prefills": "<think>\n"}
    for entry in (
        reward(name="trl.rewards.think_format_reward"),
        reward(reads="re.match(r'^<think>.*?</think>', text)"),
    ):
        assert "reward-expects-prefilled-text" in fired(findings({}, {"model": model, "rewards": [entry]}), "error")
    closing = reward(reads="'</think>' appears once")
    assert not fired(findings({}, {"model": model, "rewards": [closing]}), "error")


def test_a_hidden_column_is_an_error_only_for_a_reward_that_reads_it(findings: Any) -> None:
    data = {"columns": ["prompt", "completion"], "format": "string"}
    for reads in ("kwargs['completion']", "kwargs.get('completion')"):
        assert "reward-column-hidden" in fired(
            findings({}, {"dataset": data, "rewards": [reward(reads=reads)]}), "error"
        )
    # A prompt-completion dataset with a reward on the text alone is a documented recipe.
    for reads in ("", "completion lengths", "'x' in completion"):
        found = findings({}, {"dataset": data, "rewards": [reward(reads=reads)]})
        assert not fired(found, "error", "warning") and "column-left-out-of-rewards" in fired(found, "info")


@pytest.mark.parametrize(
    "signature",
    [
        "completions, gold, **kwargs",
        "(completions, gold, **kwargs)",
        "score(completions: dict[str, int], gold, **kwargs) -> list[float]",
        "Judge.__call__(self, completions, gold, **kwargs)",
        ["completions", "gold", "**kwargs"],
    ],
)
def test_a_signature_is_read_in_the_shapes_people_write(findings: Any, signature: Any) -> None:
    setup = {"dataset": STRING, "rewards": [{"name": "score", "signature": signature}]}
    assert "reward-required-parameter-missing" in fired(findings({}, setup), "error")


@pytest.mark.parametrize("signature", ["make_reward(config)", "takes completions, gold and more", "not stated"])
def test_a_text_that_is_no_signature_says_nothing(findings: Any, signature: str) -> None:
    found = findings({}, {"dataset": STRING, "rewards": [{"name": "score", "signature": signature}]})
    assert not {"reward-required-parameter-missing", "reward-without-kwargs"} & set(fired(found, "error"))
