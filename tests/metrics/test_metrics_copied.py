"""What copying does to a log: prefixes of processes and quotations, broken names, summaries, tables in parts."""

import json

import pytest

from grpo_rlvr.metrics import parse, recommend
from grpo_rlvr.metrics.names import meaning

STEPS = range(1, 13)
TABLE = "| Step | reward | kl |\n|---|---|---|\n| 1 | 0.25 | 0.01 |\n| 2 | 0.5 | 0.02 |\n"
ROW = "step:{0} - actor/entropy:0.5 - response_length/mean:330.4 - critic/score/mean:0.25"


def reward(log):
    return list(log.get("reward").values)


@pytest.mark.parametrize(
    "carrier", ["(TaskRunner pid=132, ip=10.4.1.33) ", "[rank0]: ", "[default3]:", "> ", "> > ", "# ", "// "]
)
def test_a_table_is_read_behind_what_carried_it(carrier):
    log = parse("".join(f"{carrier}{line}\n" for line in TABLE.splitlines()))
    assert reward(log) == [0.25, 0.5] and log.rows == 2


def test_the_rule_of_a_commented_table_is_no_row_that_makes_three_rows_windows():
    text = "# | Step | reward |\n# |------|------|\n# | 1 | 0.9 |\n# | 2 | 0.5 |\n# | 3 | 0.1 |\n"
    answer = recommend(text)
    assert answer.parsed.rows == 3 and answer.labels[0].label == "too_short_to_tell"


def test_a_reward_on_three_rows_of_twelve_is_three_rows_and_no_window_means():
    rows = [{"loss": 0.1, "kl": 0.01, "step": step} for step in STEPS]
    for index, value in ((0, 0.9), (4, 0.4), (8, 0.1)):
        rows[index]["reward"] = value
    answer = recommend("\n".join(map(str, rows)))
    assert [item.label for item in answer.labels] == ["too_short_to_tell"]


@pytest.mark.parametrize("at", [30, 44, 50, 58, 66, 75])
def test_a_verl_line_is_read_wherever_a_terminal_broke_it(at):
    line = ROW.format(3)
    log = parse(f"{line[:at]}\n{line[at:]}\n")
    assert (log.rows, log.unread_count) == (1, 0)
    assert (log.get("length").values[0], reward(log)) == (330.4, [0.25])


def test_the_time_that_a_reward_takes_is_no_reward():
    log = parse("\n".join(f"{ROW.format(step)} - timing_s/reward:{step}" for step in STEPS))
    assert not log.components and log.columns["timing_s/reward"] == "other"


@pytest.mark.parametrize(
    "name",
    ["val-aux/num_turns/mean", "val/text/tool_call_count/mean", "val/ratio", "val/num_eos_tokens", "Val took",
     "eval_completions/mean_turns", "val-aux/gsm8k/reward/std@8"],
)  # fmt: skip
def test_what_an_evaluation_counts_beside_success_is_no_success(name):
    assert meaning(name).quantity not in ("accuracy", "reward", "component")


@pytest.mark.parametrize("name", ["val/math500", "eval/aime", "val-core/openai/gsm8k/acc/mean@1", "val/success_rate"])
def test_what_an_evaluation_says_of_success_is_success(name):
    assert meaning(name).quantity == "accuracy"


def test_fewer_turns_while_the_reward_rises_are_no_hacking():
    lines = (
        f"step:{step} - critic/score/mean:{0.2 + 0.02 * step} - val-aux/num_turns/mean:{9 - 0.2 * step}"
        for step in range(1, 31)
    )
    assert [item.label for item in recommend("\n".join(lines)).labels] == ["healthy"]


@pytest.mark.parametrize("name", ["r1_accuracy_reward_func std", "acc_std", "val/accuracy_std"])
def test_the_spread_of_a_measure_is_not_the_measure(name):
    assert meaning(name).quantity not in ("accuracy", "component")


def test_curves_drawn_in_characters_are_named_and_the_last_values_read():
    text = (
        "(TaskRunner pid=1) wandb: Run history:\n(TaskRunner pid=1) wandb:  critic/score/mean ▁▃▅▇█\n"
        "(TaskRunner pid=1) wandb: Run summary:\n(TaskRunner pid=1) wandb:  critic/score/mean 0.98\n"
        "(TaskRunner pid=1) wandb:      actor/entropy 0.07\n"
    )
    log = parse(text)
    assert (log.rows, reward(log)) == (1, [0.98])
    assert any("export the run's history" in note for note in log.notes)


def test_a_dictionary_with_a_line_for_each_pair_is_a_row():
    text = "```python\n{\n  'loss': 0.0,\n  'reward': 1.017,\n  'kl': 7.96e-06,\n}\n```\n"
    assert reward(parse(text)) == [1.017]


def test_a_trainer_state_that_was_cut_off_still_has_its_rows():
    rows = [{"loss": 0.0, "reward": round(0.3 + 0.01 * step, 2), "step": step} for step in STEPS]
    text = json.dumps({"best_metric": None, "epoch": 0.5, "log_history": rows}, indent=2)
    log = parse(text[: text.index('"step": 12')])
    assert reward(log)[:2] == [0.31, 0.32] and log.rows == 12 and list(log.get("step").values)[-1] == 11


def test_an_object_over_several_lines_without_a_metric_is_said_to_be_unread():
    log = parse("{\n  'beta': 0.04,\n  'optim': 'adamw'\n}\nfunction main() {\n  return 1;\n}\n")
    assert log.rows == 0 and any("optim" in text for _, text in log.unread)


def test_a_pair_of_its_own_line_is_read_with_a_remark_behind_it():
    log = parse("'frac_reward_zero_std': '0.9'   → most groups alike\n'reward': '0.1',\n\"kl\": 0.01 # small\n")
    assert log.rows == 1 and log.get("zero_std").values[0] == 0.9 and reward(log) == [0.1]


def test_a_table_that_explains_metrics_is_no_data():
    text = "| Metric | Meaning |\n|---|---|\n| `loss` | about **0** |\n| `reward` | mean of all |\n| `kl` | how far |\n"
    assert parse(text).get("loss") is None


def test_blocks_with_tabs_and_spreads_are_rows():
    block = "Iteration: \t {0}\nLoss:     \t 0.12\nMeanRew: \t -257.4 +- 63.1\nElapsed time\t 106.0 seconds\n-----\n"
    log = parse(block.format(0) + block.format(1))
    assert (log.rows, reward(log)) == (2, [-257.4, -257.4])


def test_parts_of_a_table_side_by_side_are_one_run():
    text = "| Step | Reward | Step | Reward |\n|---|---|---|---|\n| 1 | 0.1 | 3 | 0.3 |\n| 2 | 0.2 | 4 | 0.4 |\n"
    log = parse(text)
    assert reward(log) == [0.1, 0.2, 0.3, 0.4] and any("side by side" in note for note in log.notes)


def test_a_table_whose_header_is_repeated_goes_on():
    more = TABLE.replace("| 1 |", "| 3 |").replace("| 2 |", "| 4 |").replace("0.5", "nan")
    log = parse(f"{TABLE}\n{more}")
    assert reward(log) == [0.25, 0.5, 0.25] and log.series["reward"].nonfinite.last == 3
    assert any("read as one" in note for note in log.notes)


def test_a_second_run_in_the_paste_is_named_as_not_judged():
    log = parse(f"### run A\n{TABLE}\n### run B\n{TABLE}")
    assert log.rows == 2 and any("another run and not judged" in note for note in log.notes)


def test_the_settings_of_a_sweep_have_no_first_rows():
    table = "| epsilon | reward | clip_fraction | grad_norm |\n|---|---|---|---|\n"
    rows = "| 0.05 | 0.1 | 0.32 | 4 |\n| 0.1 | 0.1 | 0.0 | 4 |\n| 0.3 | 0.1 | 0.04 | 4 |\n| 1.0 | 0.1 | 0.0 | 4 |\n"
    assert [item.label for item in recommend(table + rows).labels] == ["too_short_to_tell"]


def test_rows_told_apart_by_a_word_are_no_course():
    rows = "".join(f"| split{chr(97 + i)} | {0.9 - 0.07 * i} | {900 + i} |\n" for i in range(12))
    answer = recommend(f"| split | pass_rate | length |\n|---|---|---|\n{rows}")
    assert answer.parsed.kind == "runs" and answer.labels[0].label == "too_short_to_tell"


def test_a_word_of_somebodys_table_names_no_trainer():
    assert parse("| Step | Reward | Truncated |\n|---|---|---|\n| 1 | 0.1 | 3% |\n").frameworks == ()


def test_a_trainer_built_on_trl_is_told_by_the_few_names_of_its_own():
    row = {"loss": 0.0, "completions/mean_length": 90.0, "frac_reward_zero_std": 0.1, "reward": 0.2,
           "global_step/max_steps": "5/100", "train_speed(iter/s)": 0.05}  # fmt: skip
    assert parse(str(row)).frameworks[0] == "ms-swift"


def test_a_broken_run_of_another_kind_is_told_which_kind_it_is():
    text = "{'loss': 1.8, 'grad_norm': 3.1, 'epoch': 0.1}\n{'loss': nan, 'grad_norm': nan, 'epoch': 0.2}\n"
    label = recommend(text).labels[0]
    assert label.label == "divergence_nan" and "supervised fine-tuning" in label.summary


def test_rows_of_evaluations_alone_are_said_to_be_that():
    answer = recommend("step:0 - val-core/openai/gsm8k/acc/mean@1:0.508 - val-aux/gsm8k/reward/mean@1:0.5\n")
    assert "rows of evaluations" in answer.labels[0].summary


def test_a_single_row_says_what_to_watch():
    row = {"reward": -2.0, "frac_reward_zero_std": 1.0, "completions/clipped_ratio": 0.7, "grad_norm": 0.0}
    label = recommend(str(row)).labels[0]
    told = " ".join(fact.text for fact in label.evidence)
    assert label.label == "too_short_to_tell" and label.summary.startswith("One row")
    assert all(words in told for words in ("no group", "70%", "exactly 0"))


def test_a_value_model_in_the_log_is_named():
    log = parse("step:2 - critic/vf_loss:24.4 - critic/score/mean:0.025 - actor/entropy_loss:1.2\n")
    assert any("value model" in note for note in log.notes)


def test_a_block_of_values_that_a_dictionary_repeats_is_the_same_row():
    block = (
        "Reward metrics:\n   rewards/acc/mean: 0.6500\n   completions/mean_length: 53.3500\n   entropy: 0.96\n====\n"
    )
    row = {"reward": 1.75, "rewards/acc/mean": 0.65, "completions/mean_length": 53.35}
    log = parse(f"{block}{row}\n{block}{row | {'reward': 2.0}}\n")
    assert log.rows == 2 and reward(log) == [1.75, 2.0] and len(log.get("entropy")) == 2


def test_a_block_of_other_values_comes_before_the_dictionary_below_it():
    log = parse("reward: 0.1\nkl: 0.01\n{'reward': 0.2, 'kl': 0.02}\n")
    assert reward(log) == [0.1, 0.2]


def test_names_and_signs_of_an_east_asian_keyboard_are_read():
    log = parse("Step 3:  熵=0.5, 长度=12 tokens\nStep 5:  熵=0.4，长度=14 tokens\n奖励：0.2，熵：0.3\n")
    assert list(log.get("entropy").values) == [0.5, 0.4, 0.3] and reward(log) == [0.2]


def test_a_column_of_words_is_not_listed_cell_by_cell():
    log = parse("| Step | Reward | Problems Solved |\n|---|---|---|\n| 1 | 0.1 | a ✓, b ✗ |\n| 2 | 0.2 | a ✓, b ✓ |\n")
    assert not [note for note in log.notes if "is no number" in note]


def test_few_rows_on_which_answers_vanish_say_so():
    rows = [{"reward": 1.7, "completions/mean_length": length} for length in (53.0, 2.6, 2.4)]
    label = recommend("\n".join(map(str, rows))).labels[0]
    assert any("length 53 on the first row, 2.4 on the last" in fact.text for fact in label.evidence)


@pytest.mark.parametrize(
    "text",
    [
        "Step;reward;kl\n1;0,45;0,01\n2;0,475;0,012\n",
        "| Schritt | reward | kl |\n|---|---|---|\n| 1 | 0,45 | 0,010 |\n| 2 | 0,475 | 0,012 |\n",
        "{'reward': '0,450', 'kl': '0,01'}\n{'reward': '0,475', 'kl': '0,012'}\n",
        "step 1: reward=0,45 kl=0,01\nstep 2: reward=0,475 kl=0,012\n",
    ],
)
def test_decimal_commas_are_read_as_points_and_said(text):
    log = parse(text)
    assert reward(log) == [0.45, 0.475] and list(log.get("kl").values) == [0.01, 0.012]
    assert any("decimal commas" in note for note in log.notes)


def test_a_list_of_devices_does_not_turn_thousands_into_decimals():
    table = "| Step | reward | length |\n|---|---|---|\n| 1 | 1 | 1,127 |\n"
    log = parse(f"CUDA_VISIBLE_DEVICES=0,1 accelerate launch train.py\n2025-01-01 10:00:00,12 start\n{table}")
    assert list(log.get("length").values) == [1127.0]


def test_whole_numbers_of_a_csv_are_no_decimals():
    assert reward(parse("step,reward\n1,0\n2,1\n3,0\n")) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "printed",
    ["tensor(0.5, device='cuda:0', dtype=torch.bfloat16)", "array([0.5], dtype=float32)", "Array(0.5, dtype=float32)",
     "np.float32(0.5)", "jnp.float32(0.5)", "tensor([0.5])", "tensor(0.5, grad_fn=<MeanBackward0>)"],
)  # fmt: skip
def test_numbers_of_array_libraries_are_read(printed):
    assert reward(parse(f"{{'reward': {printed}, 'kl': {printed}}}\n")) == [0.5]
    assert reward(parse(f"step 3 reward: {printed} kl: {printed}\n")) == [0.5]


def test_the_second_run_of_an_export_is_no_part_of_the_first():
    header = ",".join(f'"run{run} - train/{name}"' for run in "AB" for name in ("reward", "reward__MIN", "kl"))
    rows = "".join(f"{i},0.{i},0.1,0.01,0.9,0.8,0.02\n" for i in range(1, 4))
    log = parse(f'"Step",{header}\n{rows}')
    assert reward(log) == [0.1, 0.2, 0.3] and not log.components and list(log.get("kl").values) == [0.01] * 3
    assert any("several columns are called 'train/kl', 'train/reward'" in note for note in log.notes)


def test_the_older_progress_bar_of_openrlhf_is_read():
    bar = "Train epoch [1/1]: 100%|█████| 16/16 [00:30<00:00, 1.92s/it, pg=0.01, rm=0.45, glen=512, tlen=700, kl=0.002]"
    log = parse(f"{bar}\n")
    assert (reward(log), log.frameworks) == ([0.45], ("openrlhf",)) and list(log.get("length").values) == [512.0]


def test_marks_of_emphasis_inside_a_header_are_no_part_of_its_name():
    table = "| step | **reward** `run a` | mean **kl** |\n|--:|--:|--:|\n| 1 | 0.4 | 0.01 |\n| 2 | 0.5 | 0.02 |\n"
    assert not any(mark in name for name in parse(table).unknown_columns for mark in "*`")


@pytest.mark.parametrize(
    ("text", "said"), [("hello there\n", "No metrics were read"), ("reward: 0.4 kl: 0.01\n", "carry")]
)
def test_advice_on_nothing_does_not_praise_it(text, said):
    assert said in recommend(text).recommendation.why


@pytest.mark.parametrize(
    "line",
    ["reward: {} loss: 0.1", "Loss: 0.1 Mean reward: {}", "loss:0.1 reward:{}", "[Step 5] reward: {} loss: 0.1",
     "2025-01-01 10:00:00,123 - INFO - loss: 0.1 reward: {}", "Iteration 5/100 - loss: 0.1 - reward: {}",
     "Step 10: loss 0.1 reward {}", "Epoch 3: reward: {} loss: 0.1"],
)  # fmt: skip
def test_names_and_numbers_with_nothing_but_spaces_between_them_are_read(line):
    log = parse("".join(line.format(value) + "\n" for value in (0.25, 0.5)))
    assert reward(log) == [0.25, 0.5] and list(log.get("loss").values) == [0.1, 0.1] and not log.unknown_columns


@pytest.mark.parametrize(
    "line",
    ["lr: 1e-6 beta: 0.04 epsilon: 0.2", "Batch size: 8 lr: 1e-6", "reward goes from: 0.4 to: 0.8",
     "GPU 0: 45 GB Memory: 0.5", "time: 10:05 reward: 0.4", "a " * 900 + ": 1", "- " * 900, "step 1" * 300],
)  # fmt: skip
def test_settings_and_sentences_are_no_rows(line):
    assert parse(f"{line}\n{line}\n").rows == 0
