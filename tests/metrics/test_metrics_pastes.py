"""Shapes of pasted logs that hide what they say: broken lines, other languages, tables that are no course of a run."""

import time
from pathlib import Path

import pytest

from grpo_rlvr.metrics import parse, recommend
from grpo_rlvr.metrics.names import meaning

COLLECTED = Path(__file__).parent.parent / "data" / "logs" / "collected"


def read(name):
    return parse(next(COLLECTED.glob(f"{name}.*")))


def test_a_verl_line_broken_over_six_lines_is_one_row():
    log = read("verl-wrapped")
    assert log.rows == 1 and log.unread_count == 0
    assert log.get("length").values[0] == pytest.approx(239.133) and log.get("reward").values[0] == 0.004


def test_a_verl_line_broken_within_a_name_is_one_row():
    log = read("verl-pid-wrapped")
    assert log.rows == 1 and "critic/rewards/min" in log.columns


def test_two_verl_steps_stay_two_rows():
    log = parse(
        "step:1 - actor/entropy:0.5 - critic/score/mean:0.1\nstep:2 - actor/entropy:0.4 - critic/score/mean:0.2\n"
    )
    assert list(log.get("reward").values) == [0.1, 0.2]


def test_names_of_one_step_printed_over_two_lines_are_one_row():
    log = read("trl-256-kv")
    assert log.rows == 1
    assert log.get("clipped").values[0] == 1.0 and log.get("reward").values[0] == 0.0


def test_lines_that_repeat_a_name_are_two_rows():
    log = parse("loss: 0.1, reward: 0.2\nloss: 0.3, reward: 0.4\n")
    assert list(log.get("reward").values) == [0.2, 0.4]


def test_a_row_without_its_opening_brace_is_read_and_said():
    log = read("swift5571")
    assert log.rows == 1 and log.get("zero_std").values[0] == 0.0
    assert any("no opening brace" in note for note in log.notes)


def test_dots_between_the_rows_of_a_table_do_not_end_it():
    log = read("quickstart")
    assert list(log.get("step").values) == [1, 2, 10]


def test_chinese_headings_are_read():
    log = read("all-capped-zh")
    assert {"熵": "entropy", "生成长度": "length", "截断比": "clipped"}.items() <= log.columns.items()


@pytest.mark.parametrize(
    ("heading", "quantity"),
    [("平均奖励", "reward"), ("보상", "reward"), ("報酬", "reward"), ("Награда", "reward"), ("KL 散度", "kl"),
     ("AvgLen", "length"), ("mean frac_reward_zero_std", "zero_std"), ("groups with zero reward spread", "zero_std"),
     ("reward (총합)", "reward"), ("Token Accuracy", "other")],
)  # fmt: skip
def test_a_heading_is_understood(heading, quantity):
    assert meaning(heading).quantity == quantity


@pytest.mark.parametrize("heading", ["格式奖励", "单步耗时", "PlanRate"])
def test_a_heading_understood_by_half_is_not_understood(heading):
    assert meaning(heading) is None


@pytest.mark.parametrize("name", ["eval_runtime", "eval_samples_per_second", "eval_steps_per_second"])
def test_the_speed_of_an_evaluation_is_no_measure_of_success(name):
    assert meaning(name).quantity == "other"


def test_evaluations_that_get_faster_are_no_reward_hacking(simulate, rows_of):
    lines = []
    for number, row in enumerate(rows_of(simulate(3, 60, rise=0.4))):
        lines.append(str(row))
        if number % 20 == 19:
            lines.append(str({"eval_runtime": 90.0 - number, "eval_samples_per_second": 2.0 - number / 40}))
    answer = recommend("\n".join(lines))
    assert [item.label for item in answer.labels] == ["healthy"]


def test_rows_of_an_evaluation_are_kept_apart_from_the_training_rows():
    log = read("verl-val")
    assert list(log.get("step").values) == [1, 3, 14]
    assert list(log.evaluation["eval_Reward"].values) == pytest.approx([0.023, 0.723, 0.727])


def test_windows_are_seen_when_the_steps_stand_in_the_second_column():
    log = read("phases")
    assert log.kind == "windows"
    assert list(log.get("entropy").values) == pytest.approx([0.75, 0.45, 0.9, 1.9])


def test_a_column_of_changes_is_no_point_in_time():
    log = read("two-windows-ko")
    assert log.rows == 2 and log.kind == "summary"
    assert list(log.get("length").values) == [1127, 1463]
    assert any("변화" in note for note in log.notes)


def test_statistics_of_a_run_are_not_read_as_its_course():
    log = read("ols-summary")
    assert log.rows == 1 and list(log.get("reward").values) == [0.2381]


def test_columns_of_different_runs_are_not_read_as_one_course():
    assert read("frameworks").kind == "runs" and read("two-runs").kind == "runs"


def test_metrics_at_two_steps_are_read_as_a_course():
    log = parse("| metric | step 10 | step 200 |\n|---|---|---|\n| reward | 0.1 | 0.4 |\n| entropy | 0.9 | 0.2 |\n")
    assert log.kind == "summary" and list(log.get("reward").values) == [0.1, 0.4]


def test_prime_rl_names_the_share_of_groups_that_teach():
    log = read("prime-rl")
    assert list(log.get("zero_std").values) == pytest.approx([0.5, 0.9]) and log.frameworks == ("prime-rl",)


def test_mlx_rows_are_read():
    log = parse(
        "Iter 1: Val loss -0.000, Val total_rewards_mean -0.358, Val kl 0.000, Val took 4.2s\n"
        "Iter 1: Train loss 0.000, Total rewards mean 0.210, Grouped rewards std 0.080, KL 0.000, It/sec 0.080\n"
        "Iter 2: Train loss 0.000, Total rewards mean 0.125, Grouped rewards std 0.060, KL 0.001, It/sec 0.078\n"
    )
    assert list(log.get("reward").values) == [0.21, 0.125] and list(log.get("kl").values) == [0.0, 0.001]
    assert log.evaluation


def test_prose_with_an_iteration_and_commas_is_no_row():
    assert parse("Iter 3: we changed the rate, then waited 4 days, and all 8 runs died\n").rows == 0


@pytest.mark.parametrize("name", ["overtrained", "jason2", "plan-rl"])
def test_a_few_rows_far_apart_show_a_policy_that_fell_apart(name):
    answer = recommend(next(COLLECTED.glob(f"{name}.*")))
    assert answer.labels[0].label == "divergence_nan" and len(answer.labels[0].evidence) >= 2


@pytest.mark.parametrize("changed", ["neighbours", "reward_only"])
def test_a_few_rows_are_left_alone_without_distance_or_without_company(changed):
    step = 1 if changed == "neighbours" else 25
    entropy = [0.3, 0.3, 0.3, 0.3, 1.5, 1.5] if changed == "neighbours" else [0.3] * 6
    rows = [
        f"| {step * (i + 1)} | {r} | {e} |"
        for i, (r, e) in enumerate(zip([0.6, 0.7, 0.7, 0.6, 0.1, 0.1], entropy, strict=True))
    ]
    answer = recommend("\n".join(["| step | reward | entropy |", "|---|---|---|", *rows]))
    assert answer.labels[0].label == "too_short_to_tell"


COURSE = [round(0.2 + 0.02 * step + (0.03 if step % 2 else -0.03), 4) for step in range(1, 31)]


def html(lines):
    head = "<table border='1'><thead><tr style='text-align: left;'><th>Step</th><th>reward</th></tr></thead><tbody>"
    rows = [f"<tr><td>{step}</td><td>{reward}</td></tr>" for step, reward in enumerate(COURSE, 1)]
    text = f"{head}{''.join(rows)}</tbody></table>"
    return text.replace("><", ">\n  <") if lines else text


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"Step {i}/30:\n  Reward: {r} ± 0.21\n  KL: 0.001\n\n" for i, r in enumerate(COURSE, 1)),
        "".join(f"  reward: {r}\n  kl: 0.001\n  global_step: {i}\n" for i, r in enumerate(COURSE, 1)),
        "".join(
            f"2025-06-01 12:00:01 - INFO - Step {i}: loss 0.0, reward {r}, kl 0.1\n" for i, r in enumerate(COURSE, 1)
        ),
        "".join(f"[trainer] epoch 1 step {i} reward {r} loss 0.0\n" for i, r in enumerate(COURSE, 1)),
        "    step    reward  reward_std\n" + "".join(f"{i - 1:<3d} {i}  {r}  0.3\n" for i, r in enumerate(COURSE, 1)),
        "Step Training Loss reward rewards / check / mean\n"
        + "".join(f"{i} 0.000100 {r} 0.5\n" for i, r in enumerate(COURSE, 1)),
        f"steps = {list(range(1, 31))}\nrewards = {COURSE}\nkl = {[0.001] * 30}\n",
        "step,qwen-7b-train/reward,qwen-7b-train/reward_timestamp\n"
        + "".join(f"{i},{r},17000{i}\n" for i, r in enumerate(COURSE, 1)),
        html(lines=False),
        html(lines=True),
    ],
    ids=["headings", "step-last", "prefix", "in-turn", "frame", "spaces", "lists", "swanlab", "html", "html-lines"],
)
def test_a_course_is_read_however_it_is_pasted(text):
    log = parse(text)
    assert list(log.get("reward").values) == pytest.approx(COURSE)
    assert list(log.get("step").values) == list(range(1, 31))
    assert "healthy" in [finding.label for finding in recommend(text).labels]


def test_the_json_of_one_tensorboard_scalar_is_named_by_its_file(tmp_path):
    path = tmp_path / "run-x-tag-train_reward.json"
    path.write_text("[" + ",".join(f"[1700000000.5, {i}, {r}]" for i, r in enumerate(COURSE, 1)) + "]")
    log = parse(path)
    assert list(log.get("reward").values) == pytest.approx(COURSE)


def test_the_rewards_of_a_batch_printed_again_and_again_are_no_course():
    log = parse("rewards: [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]\n" * 3)
    assert log.rows == 0 and log.unread_count == 3


def test_a_tag_in_prose_does_not_hide_the_rows_after_it():
    log = parse("the answer held a <table> tag\nstep 1 reward 0.3 kl 0.1\nstep 2 reward 0.4 kl 0.1\n")
    assert list(log.get("reward").values) == [0.3, 0.4]


@pytest.mark.parametrize("name", ["run - train/reward__MIN", "train/reward__MAX", "train/reward_timestamp"])
def test_what_exports_put_beside_a_metric_is_not_the_metric(name):
    assert meaning(name).quantity == "other"


@pytest.mark.parametrize("flood", ["<td>" * 15000 + "</tr>", "<td" * 20000, "<table>\n" * 5000, "step 1 a 1 " * 6000])
def test_floods_of_tags_and_pairs_are_read_in_bounded_time(flood):
    started = time.process_time()
    parse(flood)
    assert time.process_time() - started < 3


def rows_with_nan(grads, kls=(), losses=()):
    for step, reward in enumerate(COURSE):
        grad, kl, loss = ("nan" if step in rows else 0.1 for rows in (grads, kls, losses))
        yield f"{{'loss': {loss}, 'grad_norm': {grad}, 'reward': {reward}, 'kl': {kl}}}"


@pytest.mark.parametrize(
    ("nan", "label"),
    [
        ({"grads": (3, 11, 17)}, "healthy"),
        ({"grads": (3, 11, 17), "kls": (0, 3, 11, 17, 22, 28)}, "healthy"),
        ({"grads": (), "kls": range(0, 30, 2)}, "healthy"),
        ({"grads": (3, 11, 29)}, "divergence_nan"),
        ({"grads": range(5, 25)}, "divergence_nan"),
        ({"grads": (3, 11), "losses": (3, 11)}, "divergence_nan"),
    ],
    ids=["skipped", "skipped-and-logged", "logged", "ongoing", "most-rows", "loss"],
)
def test_nan_that_harms_no_update_is_told_from_nan_that_does(nan, label):
    text = "\n".join(rows_with_nan(**nan))
    assert recommend(text).labels[0].label == label
    assert any("is nan or inf on" in note for note in parse(text).notes)


def test_nan_in_kl_stays_an_alarm_while_the_reward_falls():
    lines = list(rows_with_nan((), kls=(2, 9, 20)))
    swaps = zip(lines, COURSE, reversed(COURSE), strict=True)
    falling = [line.replace(f"'reward': {up}", f"'reward': {down}") for line, up, down in swaps]
    assert "divergence_nan" in [finding.label for finding in recommend("\n".join(falling)).labels]


def test_a_metric_by_its_path_is_read_beside_what_somebody_says_of_it():
    text = (
        "- **actor/entropy: 0.17** - how random\n- **actor/grad_norm: 0.6** (its size)\n- **critic/score/mean: 0.93**\n"
    )
    log = parse(text)
    assert log.rows == 1
    assert {name: float(log.series[name].values[0]) for name in ("entropy", "grad_norm", "reward")} == {
        "entropy": 0.17, "grad_norm": 0.6, "reward": 0.93,
    }  # fmt: skip


def test_of_the_mean_and_bounds_of_a_run_the_mean_is_read():
    text = (
        "- rollout_corr/kl: mean=16.28 min=0.0003 max=17.38\n- actor/grad_norm: mean=5.99 min=0.36 max=9.61\n"
        "- actor/lr: mean=1e-06 min=1e-06 max=1e-06\n"
    )
    log = parse(text)
    assert log.rows == 1 and float(log.series["mismatch_kl"].values[0]) == 16.28
    assert recommend(text).labels[0].label == "offpolicy_mismatch"


def test_the_loss_of_a_wandb_export_is_the_loss_and_may_stand_alone():
    text = "".join(f"step {n}: {{'train/loss': 0.1, 'train/grad_norm': 1.0}}\n" for n in range(3))
    log = parse(text + "step 3: {'train/loss': nan}\n")
    assert log.rows == 4 and log.series["loss"].nonfinite.count == 1
    assert recommend(text + "step 3: {'train/loss': nan}\n").labels[0].label == "divergence_nan"
    assert "loss" not in parse("{'train_runtime': 12.5, 'train_loss': nan, 'epoch': 1.0}\n").series
