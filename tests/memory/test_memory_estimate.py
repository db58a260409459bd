"""What the estimate says: terms, phases, verdicts, and how they move with the config."""

import json
import subprocess
import sys
from typing import Any

import pytest

from grpo_rlvr.memory import constants as c
from grpo_rlvr.models.memory import MemoryEstimate

LORA = {"name": "Qwen/Qwen2.5-7B", "peft": True, "lora_r": 16, "lora_targets": "all-linear"}
FULL = {"name": "Qwen/Qwen2.5-0.5B", "peft": False}
BF16 = {"model_init_kwargs": {"dtype": "bfloat16"}}
COLOCATE = {"use_vllm": True, "vllm_mode": "colocate", **BF16}
H100 = {"gpu": "H100", "gpus": 1}


def term(answer: MemoryEstimate, phase: str, name: str) -> float:
    """Return a term in GB, 0 when the phase does not have it."""
    found = next(entry for entry in answer.phases if entry.name == phase)
    return next((entry.gb for entry in found.terms if entry.name == name), 0.0)


def test_the_terms_of_each_phase_add_up_to_its_peak(estimated: Any) -> None:
    for config in (
        {},
        COLOCATE,
        COLOCATE | {"vllm_enable_sleep_mode": True},
        {"use_vllm": True, "vllm_mode": "server"},
    ):
        answer = estimated(config, model=LORA, hardware=H100)
        for phase in answer.phases:
            assert sum(entry.gb for entry in phase.terms) == pytest.approx(phase.peak_gb, abs=0.01)
            assert phase.dominant == phase.terms[0].name and all(entry.how for entry in phase.terms)
        assert answer.peak_gb == max(phase.peak_gb for phase in answer.phases)


def test_a_full_fine_tune_in_float32_takes_sixteen_bytes_a_parameter(estimated: Any) -> None:
    answer = estimated({"gradient_accumulation_steps": 2}, model=FULL)
    states = sum(term(answer, "training", name) for name in ("weights", "gradients", "optimizer"))
    assert states == pytest.approx(16 * 0.494, rel=0.01)


def test_a_model_given_by_name_is_loaded_in_float32_unless_told_otherwise(estimated: Any) -> None:
    assert term(estimated({}, model=LORA), "training", "weights") == pytest.approx(4 * 7.616, rel=0.01)
    assert term(estimated(BF16, model=LORA), "training", "weights") == pytest.approx(2 * 7.616, rel=0.01)


def test_only_a_full_fine_tune_with_beta_holds_a_reference(estimated: Any) -> None:
    assert term(estimated({"beta": 0.04}, model=FULL), "training", "reference") == pytest.approx(4 * 0.494, rel=0.01)
    assert term(estimated({"beta": 0.0}, model=FULL), "training", "reference") == 0
    assert term(estimated({"beta": 0.04}, model=LORA), "training", "reference") == 0


def test_quantised_weights_leave_embeddings_and_head_alone(estimated: Any) -> None:
    qlora = {"name": "Qwen/Qwen3-8B", "peft": True, "quantized": "nf4"}
    assert term(estimated(BF16, model=qlora), "start", "weights") == pytest.approx(6.1, abs=0.1)
    assert term(estimated({}, model=qlora), "start", "weights") == pytest.approx(8.6, abs=0.1)


def test_eight_bit_adam_keeps_embeddings_in_32_bit_states(estimated: Any) -> None:
    answer = estimated({"optim": "adamw_8bit"}, model=FULL)
    embedding, rest = 151_936 * 896 / 1e9, 0.494 - 151_936 * 896 / 1e9
    expected = 8 * embedding + c.ADAM_8BIT_BYTES * rest
    assert term(answer, "generation", "optimizer") == pytest.approx(expected, rel=0.01)


def test_the_version_decides_the_head(estimated: Any) -> None:
    peaks = [
        estimated({"max_completion_length": 4096, **BF16}, model=LORA, trl_version=version).peak_gb
        for version in ("1.16.0", "1.13.0", "1.9.2")
    ]
    assert peaks == sorted(peaks) and peaks[1] > 1.8 * peaks[0]


def test_versions_bring_their_own_defaults(estimated: Any) -> None:
    old = estimated({}, model=FULL, trl_version="0.18.2")
    assert term(old, "training", "reference") > 0, "beta was 0.04 until 0.18"
    new = estimated({}, model=FULL, trl_version="1.16.0")
    assert term(new, "training", "reference") == 0


def test_colocated_vllm_takes_its_share_whatever_it_needs(estimated: Any) -> None:
    answer = estimated(COLOCATE | {"vllm_gpu_memory_utilization": 0.5}, model=LORA, hardware=H100)
    assert term(answer, "training", "vllm_pool") == pytest.approx(0.5 * 85.0)
    assert answer.vllm is not None and answer.vllm.needs_gb < 20


def test_sleep_gives_the_share_back_in_training_only(estimated: Any) -> None:
    answer = estimated(COLOCATE | {"vllm_enable_sleep_mode": True}, model=LORA, hardware=H100)
    assert term(answer, "training", "vllm_pool") == 0
    assert term(answer, "generation", "vllm_pool") == pytest.approx(0.3 * 85.0)


def pooled(estimated: Any, utilization: float, **more: Any) -> MemoryEstimate:
    """Return the estimate of a 3B with LoRA beside vLLM on a card of 24.1 GB."""
    config = {"vllm_max_model_length": 1536, "max_completion_length": 1024, "gradient_accumulation_steps": 1} | more
    return estimated(
        COLOCATE | {"vllm_gpu_memory_utilization": utilization} | config,
        model={**LORA, "name": "Qwen/Qwen2.5-3B"},
        hardware={"gpus": 1, "gpu_mem_gb": 24.1},
        dataset={"max_prompt_tokens": 512},
    )


def test_a_pool_with_nothing_to_spare_is_tight_and_says_so(estimated: Any) -> None:
    answer = pooled(estimated, 0.3)
    assert answer.peak_gb < 0.9 * 24.1 and answer.verdict == "tight"
    assert answer.vllm is not None and (answer.vllm.sequences, answer.vllm.wanted_sequences) == (1, 8)
    notes = " ".join(answer.notes)
    assert "less than a tenth to spare" in notes and "holds one sequence of 1,536 tokens at a time, of 8" in notes
    wider = next(lever for lever in answer.levers if "for all sequences" in lever.change)
    assert wider.verdict == "fits" and pooled(estimated, wider.set["vllm_gpu_memory_utilization"]).verdict == "fits"


def test_a_pool_that_holds_under_half_of_the_sequences_is_tight_however_much_it_has_to_spare(estimated: Any) -> None:
    long = {"vllm_max_model_length": 32_768, "max_completion_length": 16_384, "per_device_train_batch_size": 1}
    few, enough = (
        pooled(estimated, 0.39, vllm_enable_sleep_mode=True, **long, gradient_accumulation_steps=n) for n in (8, 1)
    )
    assert few.verdict == "tight" and any("Generation is queued" in note for note in few.notes)
    assert enough.verdict == "fits" and not any("queued" in note for note in enough.notes)


def test_the_pool_is_counted_in_sequences_of_the_run_not_of_the_engines_limit(estimated: Any) -> None:
    short, long = (pooled(estimated, 0.5, vllm_max_model_length=length).vllm for length in (1536, 32_768))
    assert short is not None and long is not None
    assert short.sequences == long.sequences and short.needs_gb < long.needs_gb


def test_a_share_below_vllms_own_weights_does_not_fit_however_large_the_card(estimated: Any) -> None:
    answer = estimated(COLOCATE | {"vllm_gpu_memory_utilization": 0.1}, model=LORA, hardware=H100)
    assert answer.verdict == "does_not_fit"
    assert any("refuses to start" in note for note in answer.notes)


def test_more_gpus_help_only_when_the_model_is_sharded(estimated: Any) -> None:
    big = {"name": "Qwen/Qwen2.5-32B", "peft": False}
    config = {"use_vllm": True, "vllm_mode": "server", **BF16}
    eight = {"gpu": "H100", "num_processes": 8}
    replicated = estimated(config, model=big, hardware=eight)
    sharded = estimated(config, model=big, hardware=eight, launch={"zero_stage": 3})
    assert replicated.verdict == "does_not_fit" and any("never help" in note for note in replicated.notes)
    assert sharded.verdict in ("fits", "tight")
    assert term(sharded, "training", "optimizer") == pytest.approx(12 * 32.76 / 8, rel=0.01)


def test_fsdp_shards_everything_and_trains_in_float32(estimated: Any) -> None:
    answer = estimated(BF16, model=FULL, hardware={"gpu": "H100", "gpus": 2}, launch={"engine": "fsdp"})
    assert term(answer, "training", "weights") == pytest.approx(4 * 0.494 / 2, rel=0.01)


def test_lora_under_zero3_gathers_the_model_at_each_sync(estimated: Any) -> None:
    config = {"use_vllm": True, "vllm_mode": "server", **BF16}
    answer = estimated(config, model=LORA, hardware={"gpu": "H100", "num_processes": 4}, launch={"zero_stage": 3})
    assert term(answer, "weight_sync", "sync_transient") == pytest.approx(2 * 7.616, rel=0.01)
    full = estimated(
        config, model={**LORA, "peft": False}, hardware={"gpu": "H100", "num_processes": 4}, launch={"zero_stage": 3}
    )
    assert term(full, "weight_sync", "sync_transient") < 2


@pytest.mark.parametrize(("name", "peft", "billions"), [("Qwen2.5-72B", True, 72.7), ("Qwen2.5-32B", False, 32.8)])
def test_ms_swift_under_zero3_is_in_doubt_until_it_says_in_how_many_groups_it_syncs(
    estimated: Any, name: str, peft: bool, billions: float
) -> None:
    arguments: dict[str, Any] = {"model": {"name": name, "peft": peft}, "hardware": {"gpu": "H200", "gpus": 10}}
    if not peft:
        arguments["hardware"] = {"gpu": "H100", "gpus": 18}
    config = {"use_vllm": True, "vllm_mode": "server", "per_device_train_batch_size": 1, **BF16}
    launch = {"zero_stage": 3, "framework": "ms-swift"}
    open_ = estimated(config, **arguments, launch=launch)
    assert open_.verdict == "tight" and any("move_model_batches" in note for note in open_.notes)
    grouped = estimated(config, **arguments, launch={**launch, "move_model_batches": 16})
    assert grouped.verdict == "fits" and not any("move_model_batches" in note for note in grouped.notes)
    assert term(grouped, "weight_sync", "sync_transient") == pytest.approx(2 * billions / 16, rel=0.01)
    replicated = estimated(config, **arguments, launch={**launch, "zero_stage": 2})
    assert not any("move_model_batches" in note for note in replicated.notes)


def test_zero3_without_vllm_gathers_the_model_to_generate(estimated: Any) -> None:
    arguments: dict[str, Any] = {
        "model": {**LORA, "peft": False}, "hardware": {"gpu": "H100", "gpus": 4}, "launch": {"zero_stage": 3},
    }  # fmt: skip
    assert term(estimated(BF16, **arguments), "generation", "gathered_weights") == pytest.approx(15.2, abs=0.1)
    spared = estimated(BF16 | {"ds3_gather_for_generation": False}, **arguments)
    assert term(spared, "generation", "gathered_weights") == 0


@pytest.mark.parametrize(
    ("change", "larger"),
    [
        ({"per_device_train_batch_size": 16}, True), ({"max_completion_length": 2048}, True),
        ({"gradient_checkpointing": False}, True), ({"per_device_train_batch_size": 2}, False),
        ({"max_completion_length": 64}, False),
    ],
)  # fmt: skip
def test_the_peak_moves_with_batch_length_and_checkpointing(
    estimated: Any, change: dict[str, Any], larger: bool
) -> None:
    before = estimated(BF16, model=LORA, hardware=H100).peak_gb
    after = estimated(BF16 | change, model=LORA, hardware=H100).peak_gb
    assert (after > before) is larger


def test_num_generations_alone_costs_nothing(estimated: Any) -> None:
    four, eight = (estimated(BF16 | {"num_generations": n}, model=LORA, hardware=H100) for n in (4, 8))
    assert four.peak_gb == eight.peak_gb


def test_a_mixture_counts_all_experts_and_reads_the_chosen_ones(estimated: Any) -> None:
    answer = estimated(BF16, model={"name": "Qwen/Qwen3-30B-A3B", "peft": True})
    assert answer.model.params_b == pytest.approx(30.53, abs=0.01)
    assert answer.model.active_b == pytest.approx(3.3, abs=0.1)


def test_a_full_fine_tune_of_16_bit_weights_is_told_that_it_trains_next_to_nothing(estimated: Any) -> None:
    assert any("trains next to nothing" in note for note in estimated(BF16, model=FULL).notes)
    assert not any("trains next to nothing" in note for note in estimated(BF16, model=LORA).notes)


def test_a_cpu_run_is_a_host_memory_estimate_without_a_gpu_verdict(estimated: Any) -> None:
    answer = estimated({}, model=FULL, hardware={"device": "cpu"})
    assert answer.verdict == "unknown" and any("host memory" in note for note in answer.notes)
    assert estimated({}, model=FULL, hardware={"device": "cpu", "ram_gb": 64}).verdict == "fits"
    assert estimated({}, model=FULL, hardware={"device": "cpu", "ram_gb": 8}).verdict == "does_not_fit"
    assert answer.decode is None


@pytest.mark.parametrize(
    ("name", "gb"),
    [("NVIDIA H100 80GB HBM3", 85.0), ("NVIDIA A100-SXM4-40GB", 42.4), ("Tesla T4", 15.8), ("NVIDIA H200", 150.1),
     ("NVIDIA GeForce RTX 4090", 25.4), ("DGX Spark", 109.5), ("a card of tomorrow", None)],
)  # fmt: skip
def test_cards_are_known_by_the_names_that_tools_print(estimated: Any, name: str, gb: float | None) -> None:
    answer = estimated({}, model=FULL, hardware={"gpu": name})
    assert answer.card_gb == gb
    assert (answer.verdict == "unknown") is (gb is None)


def test_decoding_is_bound_by_bytes_over_bandwidth(estimated: Any) -> None:
    config = {"per_device_train_batch_size": 1, "num_generations": 2, "max_completion_length": 1, **BF16}
    answer = estimated(config, model=LORA, hardware=H100, dataset={"max_prompt_tokens": 0})
    # 7.6B parameters but for the looked-up embedding, 2 bytes each, once a token.
    assert answer.decode is not None
    assert answer.decode.bound_tokens_per_s == pytest.approx(3350 / 14.14, rel=0.02)
    assert answer.decode.tokens_per_s == pytest.approx(0.7 * answer.decode.bound_tokens_per_s, rel=0.01)


def test_an_estimate_imports_nothing_heavy_and_survives_json() -> None:
    code = (
        "import sys\n"
        "from grpo_rlvr.memory import estimate\n"
        "from grpo_rlvr.models.setup import parse_setup\n"
        "a = estimate({}, parse_setup({'model': {'name': 'Qwen/Qwen3-0.6B'}, 'hardware': {'gpu': 'H100'}}))\n"
        "heavy = {'torch', 'transformers', 'trl', 'numpy', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "print(a.model_dump_json())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True)
    assert MemoryEstimate.model_validate(json.loads(done.stdout)).verdict == "fits"


def test_a_paged_optimizer_holds_no_states_that_could_not_leave_the_card(estimated: Any) -> None:
    answer = estimated({"optim": "paged_adamw_8bit"}, model=FULL, hardware=H100)
    assert term(answer, "generation", "optimizer") == 0
    assert any("managed memory" in note for note in answer.notes)


def test_a_sync_that_overflows_is_open_only_while_the_trainer_is_not_stated(estimated: Any) -> None:
    sections: dict[str, Any] = {
        "model": {"name": "Qwen/Qwen2.5-72B", "peft": True, "lora_r": 8}, "hardware": {"gpu": "H100", "gpus": 8},
    }  # fmt: skip
    config = COLOCATE | {
        "vllm_tensor_parallel_size": 4, "vllm_gpu_memory_utilization": 0.5, "vllm_enable_sleep_mode": True,
        "per_device_train_batch_size": 1, "vllm_max_model_length": 1024,
    }  # fmt: skip
    stated = estimated(config, **sections, launch={"zero_stage": 3})
    assert stated.verdict == "does_not_fit" and "gathers the whole model" in stated.notes[0]
    unstated = estimated(config, trl_version=None, **sections, launch={"zero_stage": 3})
    assert unstated.verdict == "tight" and "does not fit this card" in unstated.notes[0]
    swift = {"zero_stage": 3, "framework": "ms-swift", "move_model_batches": 16}
    streamed = estimated(config, **sections, launch=swift)
    assert streamed.verdict == "fits"
