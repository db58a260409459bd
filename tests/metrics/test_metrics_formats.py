"""One log in every shape that people paste, read into the same series."""

import json
import math
import struct
from pathlib import Path

import pytest

from grpo_rlvr.errors import InputError
from grpo_rlvr.metrics import parse

REWARDS = [0.1, 0.2, 0.25, 0.4, 0.5, 0.55, 0.6, 0.62, 0.7, 0.8, 0.81, 0.9]
ROWS = [
    {"step": i + 1, "loss": 0.001 * i, "reward": r, "completions/mean_length": 100.0 + i, "entropy": 0.5 - 0.01 * i}
    for i, r in enumerate(REWARDS)
]


def dicts():
    return "\n".join(map(str, ROWS))


def quoted():
    return "\n".join(str({name: f"{value:.4g}" for name, value in row.items()}) for row in ROWS)


def progress_bars():
    return "".join(
        f"\r  {i}%|█▏        | {i}/12 [00:10<03:10,  2.1s/it]{row}\r  {i}%|█▏  | {i}/12" for i, row in enumerate(ROWS)
    )


def coloured_ray():
    lines = [
        f"\x1b[36m(TaskRunner pid=123)\x1b[0m step:{r['step']} - actor/entropy:{r['entropy']:.4f} - "
        f"critic/score/mean:np.float64({r['reward']}) - response_length/mean:{r['completions/mean_length']:.1f}"
        for r in ROWS
    ]
    return "\n".join(lines)


def json_lines():
    return "\n".join(map(json.dumps, ROWS))


def trainer_state():
    return json.dumps({"log_history": ROWS, "global_step": 12, "best_metric": None})


def json_columns():
    return json.dumps({name: [row[name] for row in ROWS] for name in ROWS[0]})


def csv_export():
    names = list(ROWS[0])
    return "\n".join(
        [",".join(n.replace("/", "_") for n in names), *(",".join(str(r[n]) for n in names) for r in ROWS)]
    )


def wandb_export():
    names = ("train/reward", "train/reward__MIN", "train/completions/mean_length", "train/entropy")
    head = ",".join(['"Step"', *(f'"my run - {name}"' for name in names)])
    return "\n".join(
        [
            head,
            *(f'"{r["step"]}","{r["reward"]}","0.0","{r["completions/mean_length"]}","{r["entropy"]}"' for r in ROWS),
        ]
    )


def markdown():
    head = "| Step | **Reward** | mean len | entropy |\n|---:|:---|---|---|"
    return "\n".join(
        [
            head,
            *(
                f"| {r['step']} | **{r['reward']}** | {r['completions/mean_length']:,} | {r['entropy']:.3f} |"
                for r in ROWS
            ),
        ]
    )


def box():
    rule = "+------+--------+-------+-------+"
    rows = [f"| {r['step']} | {r['reward']} | {r['completions/mean_length']} | {r['entropy']} |" for r in ROWS]
    return "\n".join([rule, "| step | reward | length | entropy |", rule, *rows, rule])


def aligned():
    head = "Step  Training Loss  reward  completion_length  entropy"
    return "\n".join(
        [
            head,
            *(
                f"{r['step']}  {r['loss']:.6f}  {r['reward']}  {r['completions/mean_length']}  {r['entropy']}"
                for r in ROWS
            ),
        ]
    )


def tabs():
    head = "Step\tTraining Loss\treward\tcompletion_length\tentropy"
    return "\n".join(
        [
            head,
            *(f"{r['step']}\t{r['loss']}\t{r['reward']}\t{r['completions/mean_length']}\t{r['entropy']}" for r in ROWS),
        ]
    )


def key_values():
    return "\n".join(
        f"[12:00:{r['step']:02d}] step={r['step']} reward={r['reward']}±0.1 "
        f"length={r['completions/mean_length']} entropy={r['entropy']:.3f}"
        for r in ROWS
    )


def prime_rl():
    return "\n".join(
        f"12:00:01 SUCCESS Step {r['step']} | Time: 4.10s | Reward: {r['reward']:.4f} | "
        f"Seq. Length {r['completions/mean_length']} tokens/sample | "
        f"Entropy {r['entropy']:.4f} | Truncation 3.0%"
        for r in ROWS
    )


def nemo_blocks():
    return "\n".join(
        f"========================= Step {r['step']}/12 =========================\n"
        f"▶ Preparing batch...\n📊 Training Results:\n  • Loss: {r['loss']}\n  • Avg Reward: {r['reward']}\n"
        f"  • Mean Generation Length: {r['completions/mean_length']}\n  • Approx Entropy: {r['entropy']}"
        for r in ROWS
    )


def slime():
    return "\n".join(
        f"(RolloutManager pid=1) rollout {r['step']}: {{'rollout/raw_reward': {r['reward']}, "
        f"'rollout/response_len/mean': {r['completions/mean_length']}, 'rollout/entropy': {r['entropy']}}}"
        for r in ROWS
    )


def openrlhf():
    return "\n".join(
        f"Train epoch [1/1]: 100%|██| 1/1 [00:03<00:00, 3.2s/it, act_loss=0.1, reward={r['reward']}, "
        f"gen_len={r['completions/mean_length']}, ent_loss={r['entropy']}]"
        for r in ROWS
    )


def swift():
    return "\n".join(
        json.dumps({"loss": r["loss"], "reward": r["reward"], "completions/mean_length": r["completions/mean_length"],
                    "entropy/mean": r["entropy"], "global_step/max_steps": f"{r['step']}/12", "percentage": "8.00%"})
        for r in ROWS
    )  # fmt: skip


@pytest.mark.parametrize("start", ["[{}/12]", "2026-01-02 12:00:01,233 INFO step {}", "Step {}/12 - train"])
def test_what_stands_before_the_first_metric_of_a_line_with_bars_is_no_part_of_it(start):
    rows = [f"{start.format(r['step'])} entropy {r['entropy']} | reward {r['reward']} | kl 0.1" for r in ROWS]
    log = parse("\n".join(rows))
    assert log.series["entropy"].values.tolist() == pytest.approx([r["entropy"] for r in ROWS])
    assert log.series["reward"].values.tolist() == pytest.approx(REWARDS)
    assert "step" in log.columns


FORMS = [dicts, quoted, progress_bars, coloured_ray, json_lines, trainer_state, json_columns, csv_export, wandb_export,
         markdown, box, aligned, tabs, key_values, prime_rl, nemo_blocks, slime, openrlhf, swift]  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_gives_the_same_series(form):
    log = parse(form())
    assert log.series["reward"].values.tolist() == pytest.approx(REWARDS)
    assert log.series["length"].values.tolist() == pytest.approx([100.0 + i for i in range(12)])
    assert log.series["entropy"].values.tolist() == pytest.approx([0.5 - 0.01 * i for i in range(12)])
    assert log.rows == 12


@pytest.mark.parametrize("form", [dicts, csv_export, markdown, json_lines], ids=lambda form: form.__name__)
def test_a_file_gives_what_the_paste_gives(form, tmp_path):
    path = tmp_path / "my run's log.txt"
    path.write_text(form(), encoding="utf-8")
    assert parse(path).series["reward"].values.tolist() == pytest.approx(REWARDS)


def test_a_run_folder_is_read_by_its_metrics_file(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(
        "\n".join(json.dumps({**row, "time": 1.7e9}) for row in ROWS), encoding="utf-8"
    )
    assert parse(tmp_path).series["reward"].values.tolist() == pytest.approx(REWARDS)


def test_windows_of_powershell_are_read(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(dicts().encode("utf-16"))
    assert parse(path).rows == 12


def test_a_tensorboard_csv_takes_its_name_from_the_file(tmp_path):
    path = tmp_path / "run-mine-tag-train_reward.csv"
    path.write_text(
        "Wall time,Step,Value\n" + "\n".join(f"1.7e9,{i},{r}" for i, r in enumerate(REWARDS)), encoding="utf-8"
    )
    assert parse(path).series["reward"].values.tolist() == pytest.approx(REWARDS)


def test_a_wandb_offline_run_is_read_without_wandb():
    log = parse(Path(__file__).parent.parent / "data" / "logs" / "formats" / "run-offline.wandb")
    assert log.series["reward"].values.tolist() == pytest.approx([i / 12 for i in range(12)])
    assert log.series["length"].values[-1] == 111.0


def test_typed_values_of_newer_wandb_files_are_read(tmp_path):
    def field(number, wire, content):
        head = bytes([number << 3 | wire])
        return head + (bytes([len(content)]) if wire == 2 else b"") + content

    items = [
        field(1, 2, field(2, 2, b"train") + field(2, 2, b"reward") + field(6, 1, struct.pack("<d", 0.25))),
        field(1, 2, field(1, 2, b"_step") + field(5, 0, bytes([7 << 1]))),
    ]
    record = field(2, 2, b"".join(items))
    path = tmp_path / "run.wandb"
    path.write_bytes(b":W&B\xe1\xbe\x00" + b"\0" * 4 + len(record).to_bytes(2, "little") + b"\x01" + record)
    log = parse(path)
    assert log.series["reward"].values.tolist() == [0.25] and log.series["step"].values.tolist() == [7.0]


@pytest.mark.parametrize("size", [3, 7, 400, 900])
def test_a_torn_wandb_file_gives_what_is_whole(tmp_path, size):
    whole = (Path(__file__).parent.parent / "data" / "logs" / "formats" / "run-offline.wandb").read_bytes()
    torn = tmp_path / "run-torn.wandb"
    torn.write_bytes(whole[:size])
    if size < 7:
        with pytest.raises(InputError):
            parse(torn)
    else:
        assert 0 <= parse(torn).rows < 12


def test_tensorboard_event_files_are_read(tmp_path):
    writer = _event_writer(tmp_path)
    for row in ROWS:
        writer(row)
    assert parse(tmp_path).series["reward"].values.tolist() == pytest.approx(REWARDS, rel=1e-5)


def _event_writer(folder: Path):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))

    def write(row):
        values = [
            Summary.Value(tag=f"train/{name}", simple_value=value) for name, value in row.items() if name != "step"
        ]
        writer.add_event(Event(step=row["step"], wall_time=1.7e9, summary=Summary(value=values)))
        writer.flush()

    return write


def test_evaluation_rows_are_kept_apart():
    log = parse("\n".join([dicts(), str({"eval_reward": 0.3, "eval_loss": 0.1, "step": 12})]))
    assert log.series["reward"].values.tolist() == pytest.approx(REWARDS)
    assert log.evaluation["eval_reward"].values.tolist() == [0.3]
    assert any("evaluation rows" in note for note in log.notes)


def test_the_closing_summary_is_no_row():
    log = parse(dicts() + "\n" + str({"train_runtime": 41.9, "train_loss": 4.7, "epoch": 1.2}))
    assert log.rows == 12 and log.unread_count == 0


def test_rows_of_reused_batches_do_not_become_zeros():
    mixed = [row if i % 2 == 0 else {"step": row["step"], "loss": 0.1, "entropy": 0.4} for i, row in enumerate(ROWS)]
    log = parse("\n".join(map(str, mixed)))
    assert log.series["reward"].values.tolist() == pytest.approx(REWARDS[::2])
    assert log.series["reward"].rows.tolist() == [1, 3, 5, 7, 9, 11]


def test_nan_is_counted_and_never_a_value():
    text = "\n".join(str({**row, "grad_norm": math.nan}) for row in ROWS)
    log = parse(text)
    assert log.series["grad_norm"].nonfinite.count == 12 and len(log.series["grad_norm"]) == 0


def test_a_cut_last_line_keeps_its_complete_values():
    text = dicts()
    log = parse(text[: text.rindex("'entropy'")])
    assert len(log.series["reward"]) == 12 and len(log.series["entropy"]) == 11
    assert any("cut off" in note for note in log.notes)


def test_appended_runs_are_told_apart():
    second = "\n".join(str({**row, "reward": 0.01}) for row in ROWS)
    log = parse(dicts() + "\n" + second)
    assert log.runs == 2 and set(log.series["reward"].values.tolist()) == {0.01}
    assert any("appended" in note for note in log.notes)


def test_what_is_not_understood_is_quoted_with_its_line():
    log = parse("Loading checkpoint shards\n" + dicts() + "\nTraceback (most recent call last):")
    assert [line for line, _ in log.unread] == [1, 14] and log.unread_count == 2


def test_ranges_in_cells_are_said():
    log = parse("| epoch | grad_norm | reward |\n|---|---|---|\n| 1 | 0.1-3.0 | 0.5 |\n| 2 | 111 | 0.4 |")
    assert log.series["grad_norm"].values.tolist() == pytest.approx([1.55, 111])
    assert any("range" in note for note in log.notes)


def test_percentages_become_shares():
    log = parse("| step | truncated% | zero-var groups |\n|---|---|---|\n| 1 | 60.5 | 42% |\n| 2 | 70 | 64% |")
    assert log.series["clipped"].values.tolist() == pytest.approx([0.605, 0.7])
    assert log.series["zero_std"].values.tolist() == pytest.approx([0.42, 0.64])
    assert any("truncated%" in note and "percent" in note for note in log.notes)


def test_the_spaced_names_of_notebook_tables_are_read():
    head = "| Step | reward | completions / mean_length | rewards / correctness / mean |"
    log = parse(head + "\n|---|---|---|---|\n| 1 | 0.5 | 200 | 0.25 |\n| 2 | 0.6 | 210 | 0.30 |")
    assert log.series["length"].values.tolist() == [200.0, 210.0]
    assert log.components["correctness"].values.tolist() == [0.25, 0.3]


def test_settings_are_no_row_and_are_said_to_be_unread():
    log = parse("learning_rate: 1e-6\nnum_generations: 8\nbeta: 0.0\n")
    assert log.rows == 0 and log.unread_count >= 1


def test_memory_stays_bounded_on_a_long_log(tmp_path):
    path = tmp_path / "long.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for i in range(40_000):
            file.write(f'{{"step": {i}, "reward": {i / 40_000}, "loss": 0.0}}\n')
    log = parse(path)
    assert log.rows == 40_000 and len(log.series["reward"]) <= 8192 and log.stride > 1
    assert log.series["reward"].values[-1] == pytest.approx(1.0, abs=0.001)


def test_every_name_that_the_installed_trl_logs_is_known():
    import re
    from importlib.util import find_spec

    from grpo_rlvr.metrics.names import meaning

    source = (Path(find_spec("trl").submodule_search_locations[0]) / "trainer" / "grpo_trainer.py").read_text(
        encoding="utf-8"
    )
    names = set(re.findall(r'_metrics\[[^\]]+\]\[f?"([^"]+)"\]', source))
    assert {"reward", "entropy", "kl"} <= names
    assert not [name for name in names if meaning(re.sub(r"\{\w+\}", "some_function", name)) is None]
