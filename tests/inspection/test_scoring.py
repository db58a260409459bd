"""Scoring: TRL's calling contract, the figures, the route, and samples that cannot be used."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from grpo_rlvr import inspection
from grpo_rlvr.errors import InputError, NotFoundError
from grpo_rlvr.inspection.store import ReadingStore
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.workspace import Workspace

CONTRACT = '''
import json

def spy(prompts, completions, completion_ids, trainer_state, log_extra, log_metric, **columns):
    """Write down what it was given."""
    seen = {
        "prompts": prompts, "completions": completions, "ids": completion_ids, "columns": columns,
        "step": trainer_state.global_step, "max_steps": trainer_state.max_steps,
    }
    with open("seen.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(seen) + "\\n")
    log_extra("note", ["x"] * len(prompts))
    log_metric("answered", 0.25)
    return [1.0 if "yes" in str(c) else 0.0 for c in completions]
'''
Rows = list[dict[str, Any]]


def spec(reward: str, **more: Any) -> RewardSpec:
    """Return a reward spec."""
    return RewardSpec(reward=reward, **more)


def answers(rate: float, prompts: int, each: int) -> Rows:
    """Return samples of which a share, the same in every prompt, says yes."""
    yes = round(rate * each)
    return [
        {"prompt": f"p{p}", "completion": f"{'yes' if i < yes else 'no'} p{p} {i}", "gold": str(p)}
        for p in range(prompts)
        for i in range(each)
    ]


@pytest.fixture
def spy(workspace: Workspace) -> str:
    """A reward that pays yes and writes down its arguments."""
    (workspace.root / "spy.py").write_text(CONTRACT, encoding="utf-8")
    return "spy.py:spy"


def test_a_reward_is_called_as_trl_calls_it(workspace: Workspace, spy: str) -> None:
    rows = [
        {"prompt": "a", "completion": "yes", "gold": "1", "completion_ids": [5, 6, 7], "finish_reason": "stop"},
        {"prompt": "a", "completion": "no", "gold": "1", "completion_ids": [5], "finish_reason": "length"},
        {"prompt": "b", "completion": "no", "extra": [1, 2], "completion_ids": [9], "finish_reason": "stop"},
    ]
    result = inspection.score(rows, [spec(spy)], workspace, columns={"gold": "target"}, config={"max_steps": 7})
    seen = json.loads((workspace.root / "seen.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert seen == {
        "prompts": ["a", "a", "b"],
        "completions": ["yes", "no", "no"],
        "ids": [[5, 6, 7], [5], [9]],
        "columns": {"target": ["1", "1", None], "extra": [None, None, [1, 2]]},
        "step": 0,
        "max_steps": 7,
    }
    assert result.rewards[0].logged == {"answered": 0.25}
    assert result.groups.clipped_share == pytest.approx(1 / 3)


def test_chat_samples_reach_the_reward_as_messages(workspace: Workspace, spy: str) -> None:
    prompt, completion = [{"role": "user", "content": "q"}], [{"role": "assistant", "content": "yes"}]
    inspection.score([{"prompt": prompt, "completion": completion}], [spec(spy)], workspace)
    seen = json.loads((workspace.root / "seen.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert (seen["prompts"], seen["completions"]) == ([prompt], [completion])


def test_the_figures_of_a_reward_are_right(workspace: Workspace, spy: str) -> None:
    result = inspection.score(answers(0.25, 5, 4), [spec(spy, weight=2.0)], workspace)
    reward = result.rewards[0]
    assert (reward.mean, reward.floor_share, reward.ceiling_share, reward.distinct) == (0.25, 0.75, 0.25, 2)
    assert (result.composite.mean, result.composite.high, result.composite.histogram) == (
        0.5, 2.0, [15, 0, 0, 0, 0, 0, 0, 0, 0, 5],
    )  # fmt: skip
    assert (result.groups.count, result.groups.smallest, result.groups.largest) == (5, 4, 4)
    assert result.groups.no_gradient_share is not None
    assert result.groups.no_gradient_share.value == 0.0
    pairs = {entry.num_generations: entry.no_gradient_share.value for entry in result.groups.predicted}
    # Of the six pairs of one yes and three no, three hold two no.
    assert pairs[2] == pytest.approx(0.5)
    assert pairs[4] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("rate", "prompts", "each", "word"),
    [
        (0.0, 20, 4, "sft_first"),
        (0.0, 3, 2, "unknown"),
        (0.25, 20, 4, "grpo"),
        (1.0, 20, 4, "nothing_to_learn"),
        (1.0, 2, 3, "unknown"),
    ],
)
def test_the_route_follows_the_success_rate_and_admits_ignorance(
    workspace: Workspace, spy: str, rate: float, prompts: int, each: int, word: str
) -> None:
    route = inspection.score(answers(rate, prompts, each), [spec(spy)], workspace).route
    assert route.route == word
    assert route.success_rate is not None
    assert route.success_rate.low <= rate <= route.success_rate.high


def test_dead_weight_prompts_are_listed(workspace: Workspace, spy: str) -> None:
    rows = answers(0.5, 6, 4) + [{"prompt": "hard", "completion": f"no {i}", "gold": "x"} for i in range(4)]
    rows += [{"prompt": "easy", "completion": f"yes {i}", "gold": "y"} for i in range(4)]
    groups = inspection.score(rows, [spec(spy)], workspace).groups
    assert [entry.prompt for entry in groups.never] == ["hard"]
    assert [entry.prompt for entry in groups.always] == ["easy"]
    assert groups.no_gradient_share is not None
    assert groups.no_gradient_share.value == pytest.approx(2 / 8)


def test_a_format_reward_does_not_decide_what_is_right(sums: Rows, score: Callable[..., Any]) -> None:
    result = score(sums, "sound_rewards.py:correct", {"reward": "sound_rewards.py:well_formed", "weight": 3.0})
    assert result.composite.judged_by == ["correct"]
    assert [reward.reads_row for reward in result.rewards] == [True, False]
    assert result.route.success_rate.value == pytest.approx(result.rewards[0].mean)


def test_none_for_a_whole_prompt_is_no_score_and_no_error(workspace: Workspace, sums: Rows) -> None:
    (workspace.root / "skips.py").write_text(
        "def skips(completions, answer, **kwargs):\n    return [None if int(a) % 2 else 1.0 for a in answer]\n",
        encoding="utf-8",
    )
    result = inspection.score(sums, [spec("skips.py:skips")], workspace)
    assert result.rewards[0].ungraded > 0
    assert result.rewards[0].mean == 1.0
    assert result.errors == []


def test_scoring_the_same_samples_twice_gives_the_same_digests_and_other_ids(
    sums: Rows, score: Callable[..., Any]
) -> None:
    first, second = score(sums, "sound_rewards.py:correct"), score(sums, "sound_rewards.py:correct")
    assert first.reading_id != second.reading_id
    same = {"reading_id", "rewards"}
    assert first.model_dump(exclude=same) == second.model_dump(exclude=same)


def test_the_rows_to_read_are_spread_and_hold_no_near_duplicates(workspace: Workspace, sums: Rows) -> None:
    rows = sums + [{**row, "completion": row["completion"].upper()} for row in sums]
    specs = [spec("sound_rewards.py:correct"), spec("sound_rewards.py:well_formed", weight=0.2)]
    reading = ReadingStore.open(workspace, inspection.score(rows, specs, workspace).reading_id).reading()
    chosen = [entry for entry in reading["rows"] if entry["source"] == "sample"]
    assert len(chosen) == 60
    texts = [rows[entry["sample"]]["completion"].casefold() for entry in chosen]
    prompts = [rows[entry["sample"]]["prompt"] for entry in chosen]
    assert len(set(zip(texts, prompts, strict=True))) == 60
    assert len(set(prompts)) == 16
    patterns = {tuple(entry["scores"]) for entry in chosen}
    assert patterns == {(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)}
    beginning = [tuple(entry["scores"]) for entry in chosen[:9]]
    assert len(set(beginning)) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("{", "line 1: not JSON"),
        ('{"prompt": "a"}', "'completion': field required"),
        ('{"prompt": "a", "completion": 3}', "completion"),
        ('{"prompt": "a", "completion": []}', "empty list"),
        ('{"prompt": "a", "completion": "b", "x": NaN}', "NaN is not JSON"),
        ('[{"prompt": "a", "completion": "b"}]', "must be an object"),
        ('{"prompt": "a", "completion": "b"}\n{"prompt": "a", "completion": [{"role": "x"}]}', "some completions"),
        ('{"prompt": "a", "completion": "b", "trainer_state": 1}', "reserved by TRL"),
    ],
)
def test_samples_that_cannot_be_used_name_the_line(workspace: Workspace, content: str, message: str) -> None:
    (workspace.root / "s.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        inspection.score("s.jsonl", [spec("sound_rewards.py:correct")], workspace)


def test_what_the_user_can_get_wrong_is_told(workspace: Workspace, sums: Rows) -> None:
    right = [spec("sound_rewards.py:correct")]
    with pytest.raises(NotFoundError, match="no such file"):
        inspection.score("none.jsonl", right, workspace)
    with pytest.raises(InputError, match="no rewards"):
        inspection.score(sums, [], workspace)
    with pytest.raises(InputError, match="no samples"):
        inspection.score([], right, workspace)
    with pytest.raises(InputError, match="no such column: gold"):
        inspection.score(sums, right, workspace, columns={"gold": "answer"})
    with pytest.raises(InputError, match="used twice"):
        inspection.score(sums, right, workspace, columns={"level": "answer"})
    with pytest.raises(InputError, match="unknown reward 'exakt'"):
        inspection.score(sums, [spec("exakt")], workspace)
    with pytest.raises(InputError, match=r"none\.py"):
        inspection.score(sums, [spec("none.py:f")], workspace)
    assert not workspace.readings.exists()


def test_a_stray_module_of_the_user_does_not_hide_the_standard_library(
    workspace: Workspace, sums: Rows, score: Callable[..., Any]
) -> None:
    for name in ("types", "json", "asyncio"):
        (workspace.root / f"{name}.py").write_text("raise SystemExit('shadowed')\n", encoding="utf-8")
    assert score(sums, "sound_rewards.py:correct").errors == []


def test_progress_is_told(workspace: Workspace, sums: Rows) -> None:
    seen: list[tuple[float, float, str]] = []
    specs = [spec("sound_rewards.py:correct"), spec("sound_rewards.py:well_formed")]
    inspection.score(sums, specs, workspace, progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[-1][:2] == (3, 3)


def test_rewards_can_be_audited_alone_and_nothing_is_stored(workspace: Workspace, sums: Rows) -> None:
    found = inspection.audit_rewards(sums, [spec("faulty_rewards.py:contains")], workspace)
    assert found.verdict == "errors"
    assert next(attack for attack in found.attacks if attack.attack == "answer_embedded").outcome == "paid"
    assert "no proof" in found.note
    assert not workspace.readings.exists()


def test_a_slow_reward_is_attacked_with_fewer_rows(workspace: Workspace, sums: Rows) -> None:
    slow = "import time\nfrom sound_rewards import correct\n\ndef slow(completions, **columns):\n"
    slow += "    with open('calls', 'a') as file:\n        file.write('x' * len(completions))\n"
    slow += "    time.sleep(0.005 * len(completions))\n    return correct(completions, **columns)\n"
    (workspace.root / "slow.py").write_text(slow, encoding="utf-8")
    rows = sums[:10]
    quick, patient = 0.2, 60.0
    calls = []
    for seconds in (quick, patient):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("grpo_rlvr.inspection.audit.BUDGET_SECONDS", seconds / 4)
            patch.setattr("grpo_rlvr.inspection.batch_checks.PART_SECONDS", seconds / 4)
            patch.setattr("grpo_rlvr.inspection.batch_checks.MOVED_SECONDS", seconds / 4)
            inspection.audit_rewards(rows, [spec("slow.py:slow")], workspace)
        calls.append(len((workspace.root / "calls").read_text(encoding="utf-8")))
        (workspace.root / "calls").unlink()
    assert calls[0] < calls[1]


def test_the_status_shows_the_scores_apart_by_what_the_reader_said(
    sums: Rows, score: Callable[..., Any], read: Callable[..., Any]
) -> None:
    status = read(score(sums, "faulty_rewards.py:contains").reading_id)
    histogram = status.histograms[0]
    agreement = status.agreement
    assert (histogram.low, histogram.high) == (0.0, 1.0)
    assert histogram.correct == [agreement.false_negatives] + [0] * 8 + [agreement.both_correct]
    assert histogram.wrong == [agreement.both_wrong] + [0] * 8 + [agreement.false_positives]


def test_weights_that_pay_wrong_answers_as_much_as_right_ones_are_told(
    sums: Rows, score: Callable[..., Any], read: Callable[..., Any]
) -> None:
    formatted = {"reward": "sound_rewards.py:well_formed", "weight": 5.0}
    # It also pays answers without the format, so that a wrong answer in the format can overtake them.
    loose = score(sums, "faulty_rewards.py:contains", formatted)
    apart = score(sums, "faulty_rewards.py:contains", formatted | {"weight": 0.2})
    told = [note for note in loose.notes if "earn as much as right ones" in note]
    assert told
    assert told[0] in read(loose.reading_id).gate.warnings
    assert not any("earn as much" in note for note in apart.notes)


def test_rewards_that_read_the_row_are_known_for_it_although_the_data_repeats(workspace: Workspace) -> None:
    """Answers that repeat every three prompts put the same answer at every distance that three divides."""
    samples = [
        {
            "prompt": f"{'abcd'[number % 4]}{number}=",
            "completion": f"<answer>{number % 3 if number < 30 else 9}</answer>",
            "letter": "abcd"[number % 4],
            "gold": str(number % 3),
            "group": number // 4,
        }
        for number in range(60)
    ]
    result = inspection.score(samples, [RewardSpec(reward="exact")], workspace)
    assert result.rewards[0].reads_row is True
    assert result.route.success_rate is not None and result.route.success_rate.value == 0.5
