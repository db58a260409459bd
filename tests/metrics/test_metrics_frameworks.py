"""What trainers other than TRL print: each format with the names its source logs, and a course that has to be seen."""

import json

import pytest

from grpo_rlvr.metrics import parse, recommend
from grpo_rlvr.metrics.names import meaning

STEPS = range(1, 31)


def rising(step):
    return round(0.2 + 0.012 * step + (0.02 if step % 2 else -0.02), 4)


def labels(text):
    return [finding.label for finding in recommend(text).labels]


def skyrl_console():
    head = "\x1b[36m(skyrl_entrypoint pid=5120)\x1b[0m 2025-10-22 18:31:10.120 | INFO     | skyrl_train.trainer:"
    for step in STEPS:
        yield (
            f"{head}compute_advantages_and_returns:811 - avg_final_rewards: {rising(step)}, avg_response_length: 700.5"
        )
        yield (
            f"{head}train:300 - {{'policy_loss': 0.001, 'policy_lr': 1e-06, 'policy_entropy': 0.3, "
            f"'ppo_clip_ratio': 0.001, 'policy_kl': 0.002, 'raw_grad_norm': 0.2}}"
        )


def skyrl_tracker():
    for step in STEPS:
        row = {
            "reward/avg_raw_reward": rising(step), "reward/avg_pass_at_8": 0.7, "loss/avg_final_rewards": 0.0,
            "policy/policy_loss": 0.001, "policy/policy_entropy": 0.3, "policy/raw_grad_norm": 0.2,
            "policy/policy_kl": 0.002, "generate/avg_num_tokens": 700.5, "trainer/global_step": step,
        }  # fmt: skip
        yield f"WANDB_MIRROR kind=train step={step} metrics={json.dumps(row)}"


def torchforge():
    for step in STEPS:
        yield f"=== [global_logger_fF8h_r0] - METRICS STEP {step} ==="
        yield "  buffer/add/count_episodes_added: 24.0"
        yield "  grpo_loss/loss: 0.001"
        yield f"  reward/evaluate_response/avg_total_reward: {rising(step)}"
        yield f"  reward/evaluate_response/sum_MathReward_reward: {24 * step}"
        yield "=============================="


def areal():
    for step in STEPS:
        yield f"20251020-10:10:01.322 areal.utils.stats_logger INFO: Epoch 1/10 Step {step}/233 Train step {step} done."
        yield "╭──────────────────────────────────┬──────────────╮"
        for name, value in (
            ("grpo_actor/task_reward/avg", rising(step)),
            ("grpo_actor/task_reward/max", 1),
            ("grpo_actor/final_reward/avg", -0.5),
            ("grpo_actor/no_eos_ratios/avg", 0.05),
            ("grpo_actor/update/entropy/avg", 0.3),
            ("grpo_actor/update/grad_norm", 0.2),
        ):
            yield f"│ {name:32s} │ {value:12.4e} │"
        yield "╰──────────────────────────────────┴──────────────╯"


def tinker():
    for step in STEPS:
        yield f"                Step {step}"
        yield "┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━┓"
        yield "┃ Metric                     ┃ Value     ┃"
        yield "┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━┩"
        for name, value in (("env/all/reward/total", rising(step)), ("optim/entropy", 0.3), ("progress/batch", step)):
            yield f"│ {name:26s} │ {value:9} │"
        yield "└────────────────────────────┴───────────┘"


def easyr1():
    for step in STEPS:
        yield json.dumps(
            {
                "step": step,
                "actor": {"pg_loss": 0.01, "kl_loss": 0.01, "grad_norm": 0.2},
                "reward": {"overall": rising(step), "format": 0.9},
                "critic": {"advantages": {"mean": 0.1}},
                "response_length": {"mean": 500, "clip_ratio": 0.01},
            }
        )


def roll():
    for step in STEPS:
        yield json.dumps(
            {
                "system/global_step": step, "actor/approxkl": 0.001, "critic/score/mean": rising(step),
                "tokens/response_length/mean": 500, "critic/entropy/mean": 0.3, "actor/grad_norm": 0.2,
            }
        )  # fmt: skip


@pytest.mark.parametrize(
    ("format_", "column", "quantities"),
    [
        (skyrl_console, "avg_final_rewards", {"length", "entropy", "kl", "grad_norm", "learning_rate"}),
        (skyrl_tracker, "reward/avg_raw_reward", {"length", "entropy", "kl", "grad_norm", "loss"}),
        (torchforge, "reward/evaluate_response/avg_total_reward", {"loss"}),
        (areal, "grpo_actor/task_reward/avg", {"step", "clipped", "entropy", "grad_norm"}),
        (tinker, "env/all/reward/total", {"step", "entropy"}),
        (easyr1, "reward/overall", {"step", "length", "clipped", "kl", "advantage"}),
        (roll, "critic/score/mean", {"step", "length", "entropy", "policy_kl"}),
    ],
)
def test_a_rising_reward_is_seen_in_every_format(format_, column, quantities):
    text = "\n".join(format_())
    log = parse(text)
    reward = log.get("reward")
    assert reward is not None and reward.column == column
    assert list(reward.values) == pytest.approx([rising(step) for step in STEPS])
    assert quantities <= set(log.series)
    assert "healthy" in labels(text)


def test_tables_of_one_step_each_take_the_step_stated_above_them():
    log = parse("\n".join(areal()))
    assert log.kind == "rows" and list(log.get("step").values) == list(STEPS)


def test_tables_of_other_metrics_are_not_rows_of_one_run():
    log = parse("| metric | value |\n|---|---|\n| reward | 0.4 |\n\n| metric | value |\n|---|---|\n| entropy | 0.3 |\n")
    assert log.kind == "summary" and log.rows == 1


def test_steps_that_go_back_and_forth_above_tables_are_not_taken():
    table = "| metric | value |\n|---|---|\n| reward | 0.4 |\n| kl | 0.1 |\n\n"
    log = parse(f"at step 900 it broke\n{table}as of step 100 it ran\n{table}")
    assert log.rows == 2 and log.get("step") is None


def test_numbers_of_groups_are_no_shares():
    row = "{{'rollout/zero_std/count_0': {}, 'rollout/raw_reward': 0.4, 'rollout/response_len/mean': 90}}"
    log = parse("\n".join(f"perf {step}: " + row.format(5 + step % 3) for step in STEPS))
    assert log.get("zero_std") is None and any("numbers of groups" in note for note in log.notes)


def test_rllm_numbers_of_prompts_become_shares():
    line = "step:{} - batch/solve_none:12 - batch/solve_all:3 - batch/solve_partial:1 - critic/score/mean:0.3"
    text = "\n".join(line.format(step) for step in STEPS)
    log = parse(text)
    assert log.get("all_wrong").values[0] == pytest.approx(12 / 16)
    assert log.get("zero_std").values[0] == pytest.approx(15 / 16)
    assert "no_signal" not in labels(text)
    assert "no_signal" in labels(text.replace("solve_all:3", "solve_all:4").replace("partial:1", "partial:0"))


def test_rllm_shares_stay_shares():
    line = "step:{} - batch/solve_none:0.25 - batch/solve_all:0.25 - batch/solve_partial:0.5 - critic/score/mean:0.3"
    log = parse("\n".join(line.format(step) for step in STEPS))
    assert log.get("all_wrong").values[0] == 0.25 and log.get("zero_std").values[0] == 0.5


@pytest.mark.parametrize(
    ("name", "quantity"),
    [
        ("policy/entropy", "entropy"),
        ("grpo_actor/update/entropy/avg", "entropy"),
        ("actor/loss", "loss"),
        ("reward_max", "other"),
        ("reward_mean", "reward"),
        ("reward_last", "reward"),
    ],
)
def test_a_name_is_known_where_it_stands(name, quantity):
    assert meaning(name).quantity == quantity


@pytest.mark.parametrize(
    "name", ["critic/loss", "critic/grad_norm", "main_perf/train_step/loss", "policy/grad_norm/max"]
)
def test_a_name_of_another_model_or_a_bound_is_not_taken(name):
    found = meaning(name)
    assert found is None or found.quantity == "other"


def test_the_best_reward_of_a_batch_is_not_read_as_its_mean():
    rows = [f"{step},0,1,{rising(step)}" for step in STEPS]
    log = parse("step,reward_min,reward_max,reward_mean\n" + "\n".join(rows) + "\n")
    assert log.get("reward").column == "reward_mean"
