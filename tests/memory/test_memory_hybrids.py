"""Hybrids of attention and Mamba-2, layers that attend to a window, and layers that differ."""

from typing import Any

import pytest

from grpo_rlvr.memory import estimate
from grpo_rlvr.memory.configfile import from_config
from grpo_rlvr.memory.facts import facts_of_known
from grpo_rlvr.models.setup import parse_setup

NEMOTRON = {
    "model_type": "nemotron_h", "num_key_value_heads": 8, "head_dim": 128, "mamba_num_heads": 128, "n_groups": 8,
    "ssm_state_size": 128, "conv_kernel": 4, "vocab_size": 131072, "tie_word_embeddings": False,
}  # fmt: skip
GRANITE = {
    "model_type": "granitemoehybrid", "num_hidden_layers": 40, "vocab_size": 100352, "tie_word_embeddings": True,
    "layer_types": ["mamba"] * 36 + ["attention"] * 4, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1,
    "mamba_d_conv": 4, "mamba_expand": 2,
}  # fmt: skip
# Published config.json files (what sets the size of them) and the billions of parameters that the model cards state.
PUBLISHED: list[tuple[str, dict[str, Any], float, int]] = [
    (
        "Nemotron-H-8B",
        NEMOTRON | {"hidden_size": 4096,
                    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
                    "num_hidden_layers": 52, "intermediate_size": 21504, "num_attention_heads": 32,
                    "mamba_head_dim": 64},
        8.10, 4,
    ),
    (
        "NVIDIA-Nemotron-Nano-9B-v2",
        NEMOTRON | {"hidden_size": 4480, "intermediate_size": 15680, "num_attention_heads": 40, "mamba_head_dim": 80,
                    "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"},
        8.89, 4,
    ),
    (
        "NVIDIA-Nemotron-3-Nano-30B-A3B",
        NEMOTRON | {"hidden_size": 2688,
                    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
                    "intermediate_size": 1856, "num_attention_heads": 32, "num_key_value_heads": 2,
                    "mamba_num_heads": 64, "mamba_head_dim": 64, "n_routed_experts": 128, "n_shared_experts": 1,
                    "num_experts_per_tok": 6, "moe_intermediate_size": 1856,
                    "moe_shared_expert_intermediate_size": 3712},
        31.58, 6,
    ),
    (
        "granite-4.0-h-tiny",
        GRANITE | {"hidden_size": 1536, "num_attention_heads": 12, "num_key_value_heads": 4, "num_local_experts": 64,
                   "num_experts_per_tok": 6, "intermediate_size": 512, "shared_intermediate_size": 1024,
                   "mamba_n_heads": 48},
        6.94, 4,
    ),
    (
        "granite-4.0-h-micro",
        GRANITE | {"hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 0,
                   "num_experts_per_tok": 0, "intermediate_size": 8192, "shared_intermediate_size": 8192,
                   "mamba_n_heads": 64},
        3.19, 4,
    ),
    (
        "Falcon-H1-0.5B",
        {"model_type": "falcon_h1", "hidden_size": 1024, "num_hidden_layers": 36, "intermediate_size": 2048,
         "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "mamba_d_ssm": 1536, "mamba_n_heads": 24,
         "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4, "vocab_size": 32784,
         "tie_word_embeddings": False, "mamba_rms_norm": False},
        0.521, 36,
    ),
    (
        "Jamba-v0.1",
        {"model_type": "jamba", "hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 14336,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 65536, "num_experts": 16,
         "num_experts_per_tok": 2, "expert_layer_period": 2, "expert_layer_offset": 1, "attn_layer_period": 8,
         "attn_layer_offset": 4, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 256,
         "tie_word_embeddings": False},
        51.57, 4,
    ),
    (
        "Kimi-Linear-48B-A3B",
        {"model_type": "kimi_linear", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 27,
         "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 163840, "kv_lora_rank": 512,
         "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
         "moe_intermediate_size": 1024, "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1,
         "first_k_dense_replace": 1, "tie_word_embeddings": False,
         "linear_attn_config": {"full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32,
                                "short_conv_kernel_size": 4,
                                "kda_layers": [n for n in range(1, 27) if n % 4]}},
        49.12, 7,
    ),
    (
        "mamba-2.8b",
        {"model_type": "mamba", "hidden_size": 2560, "num_hidden_layers": 64, "vocab_size": 50280, "expand": 2,
         "state_size": 16, "conv_kernel": 4, "time_step_rank": 160},
        2.768, 0,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "config", "billions", "attending"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_a_hybrid_with_mamba_has_its_published_size(
    name: str, config: dict[str, Any], billions: float, attending: int
) -> None:
    facts = from_config(config, name, "test")
    assert facts.params / 1e9 == pytest.approx(billions, rel=0.002)
    assert facts.counted_as_its_class and facts.attention_layers == attending


@pytest.mark.parametrize(("row", "word"), [(3, "Mamba-2"), (6, "Mamba-1"), (7, "linear attention"), (8, "Mamba-1")])
def test_what_is_not_measured_of_a_mixer_is_said(row: int, word: str) -> None:
    setup = parse_setup({"model": {"config": PUBLISHED[row][1], "peft": {"r": 8}}, "hardware": {"gpu": "H200"}})
    assert word in estimate({}, setup, trl_version="1.16.0").notes[0]


# Of one sequence in vLLM, by the shapes of its states: float32 where config.json says so (Qwen3.5), else the model's.
DELTA_9B = 24 * (32 * 128 * 128 * 4 + 3 * 8192 * 2)
STATES: list[tuple[dict[str, Any], float, float]] = [
    ({"name": "Qwen/Qwen3.5-9B"}, DELTA_9B, 8 * 2 * 1024 * 2),
    ({"config": PUBLISHED[0][1]}, 24 * (128 * 64 * 128 * 2 + 3 * (8192 + 2 * 1024) * 2), 4 * 2 * 1024 * 2),
    ({"config": PUBLISHED[6][1]}, 28 * 8192 * (16 * 2 + 3 * 2), 4 * 2 * 1024 * 2),
    ({"config": PUBLISHED[7][1]}, 20 * (32 * 128 * 128 * 4 + 3 * 3 * 4096 * 2), 7 * 576 * 2),
    ({"config": PUBLISHED[8][1]}, 64 * 5120 * (16 * 2 + 3 * 2), 0),
]


@pytest.mark.parametrize(("model", "state", "token"), STATES)
def test_a_mixer_keeps_a_state_of_one_size_for_each_sequence(model: dict[str, Any], state: float, token: float) -> None:
    for tokens in (1000, 3000):
        assert _sequence_gb(model, tokens) == pytest.approx((state + token * tokens) / 1e9, abs=0.002)


def test_generating_without_vllm_keeps_the_states_of_all_sequences_too() -> None:
    setup = parse_setup({"model": {"name": "Qwen/Qwen3.5-9B", "lora_r": 8}, "dataset": {"max_prompt_tokens": 256}})
    config = {"max_completion_length": 256, "model_init_kwargs": {"dtype": "bfloat16"}}
    phases = {phase.name: phase for phase in estimate(config, setup, trl_version="1.16.0").phases}
    cache = next(term.gb for term in phases["generation"].terms if term.name == "kv_cache")
    assert cache == pytest.approx(8 * (DELTA_9B + 8 * 2 * 1024 * 2 * 512) / 1e9, rel=0.01)


def test_the_streams_of_gemma_3n_widen_what_checkpointing_saves() -> None:
    kinds = (["sliding_attention"] * 4 + ["full_attention"]) * 6
    config = {
        "model_type": "gemma3n_text", "hidden_size": 2048, "num_hidden_layers": 30, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": [8192] * 30, "vocab_size": 262400,
        "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256, "num_kv_shared_layers": 10,
        "laurel_rank": 64, "altup_num_inputs": 4, "sliding_window": 512, "layer_types": kinds,
    }  # fmt: skip
    facts = from_config(config, "gemma-3n-E2B", "test")
    assert facts.params / 1e9 == pytest.approx(4.435, rel=0.001) and facts.counted_as_its_class
    assert facts.cached_widths == (4 * 512, 16 * 512)
    setup = parse_setup({"model": {"config": config, "lora_r": 8}, "dataset": {"max_prompt_tokens": 512}})
    answer = estimate({"model_init_kwargs": {"dtype": "bfloat16"}}, setup, trl_version="1.16.0")
    training = next(phase for phase in answer.phases if phase.name == "training")
    saved = next(term.gb for term in training.terms if term.name == "saved_activations")
    assert saved == pytest.approx(30 * 4 * 2048 * 2 * 8 * 1024 / 1e9, rel=0.01)
    assert "4 streams" in answer.notes[0]


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("zamba2", {"num_mem_blocks": 2, "use_shared_attention_adapter": True}), ("mamba2", {"num_hidden_layers": 4}),
        ("minimax", {"num_hidden_layers": 4, "head_dim": 64}), ("exaone_moe", {"num_hidden_layers": 4}),
        ("jamba", {"num_hidden_layers": 8, "num_experts": 1}),
    ],
)  # fmt: skip
def test_the_count_of_a_hybrid_agrees_with_its_class_where_its_defaults_do_not_tell(
    family: str, sizes: dict[str, Any]
) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(family, **sizes)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    real = sum({id(parameter): parameter.numel() for parameter in model.parameters()}.values())
    assert from_config(config.to_dict(), family, "test").params == pytest.approx(real, rel=0.001)


# What the defaults of the class leave out: shared keys and values, one matrix for both, experts, no per-layer inputs.
GEMMA4: list[dict[str, Any]] = [
    {"num_kv_shared_layers": 10, "num_hidden_layers": 30, "use_double_wide_mlp": True},
    {"attention_k_eq_v": True, "num_global_key_value_heads": 2, "hidden_size_per_layer_input": 0},
    {"enable_moe_block": True, "num_experts": 16, "top_k_experts": 4, "moe_intermediate_size": 512},
]


@pytest.mark.parametrize("sizes", GEMMA4)
def test_gemma_4_is_counted_with_what_its_layers_differ_in(sizes: dict[str, Any]) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model("gemma4_text", **sizes)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    real = sum(parameter.numel() for parameter in model.parameters())
    raw = config.to_dict() | {key: value for key, value in sizes.items() if key == "num_global_key_value_heads"}
    assert from_config(raw, "gemma4", "test").params == pytest.approx(real, rel=0.001)


def _sequence_gb(model: dict[str, Any], tokens: int) -> float:
    config = {"use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": tokens}
    answer = estimate(config, parse_setup({"model": model | {"peft": {"r": 8}}, "hardware": {"gpu": "H200"}}))
    assert answer.vllm is not None
    return answer.vllm.needs_gb - answer.vllm.weights_gb - 1


def test_a_layer_with_a_window_keeps_no_more_than_it_and_the_tokens_of_a_step() -> None:
    # gpt-oss-20b: 12 of 24 layers see 128 tokens, keys 8 x 64 wide; TRL lets vLLM take 4,096 tokens in a step.
    expected = 4 * 12 * 512 * (100_000 + 128 + 4095) / 1e9
    assert _sequence_gb({"name": "openai/gpt-oss-20b"}, 100_000) == pytest.approx(expected, abs=0.01)
    assert _sequence_gb({"name": "openai/gpt-oss-20b"}, 2048) == pytest.approx(4 * 24 * 512 * 2048 / 1e9, abs=0.01)


@pytest.mark.parametrize(
    ("config", "windowed"),
    [
        ({"layer_types": ["sliding_attention"] * 5 + ["full_attention"], "sliding_window": 512}, 5),
        ({"sliding_window_pattern": 3, "sliding_window": 512}, 4),
        ({"sliding_window": 512}, 5),
        ({"layer_types": ["full_attention"] * 6}, 0),
    ],
)
def test_layers_with_a_window_are_read_from_every_form_of_a_config_json(config: dict[str, Any], windowed: int) -> None:
    base = {"model_type": "gemma3_text", "hidden_size": 640, "num_hidden_layers": 6, "num_attention_heads": 4,
            "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 2048, "vocab_size": 262144}  # fmt: skip
    facts = from_config(base | config, "gemma", "test")
    assert facts.cached_widths == ((6 - windowed) * 256, windowed * 256)


LAYERS = {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8, "vocab_size": 1000}


@pytest.mark.parametrize(
    ("config", "windowed", "window"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, 8, 4096),
        ({"model_type": "mistral", "sliding_window": None}, 0, 0),
        ({"model_type": "exaone4", "sliding_window": 512, "sliding_window_pattern": "LLLG"}, 6, 512),
        ({"model_type": "llama4_text", "attention_chunk_size": 8192,
          "layer_types": ["chunked_attention"] * 3 + ["full_attention"] + ["chunked_attention"] * 4}, 7, 8192),
    ],
)  # fmt: skip
def test_windows_of_other_families_are_read_too(config: dict[str, Any], windowed: int, window: int) -> None:
    facts = from_config(LAYERS | config, "model", "test")
    assert (facts.windowed_layers, facts.window) == (windowed, window)


def test_a_switched_off_window_is_none() -> None:
    qwen = {"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
            "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936, "sliding_window": 32768,
            "use_sliding_window": False, "tie_word_embeddings": True}  # fmt: skip
    assert from_config(qwen, "qwen", "test").cached_widths == (24 * 128, 0)
    assert facts_of_known("qwen2.5-0.5b").cached_widths == (24 * 128, 0)


def test_a_model_that_keeps_nothing_of_its_own_holds_all_sequences() -> None:
    config = LAYERS | {
        "model_type": "gemma4_text", "num_key_value_heads": 2, "head_dim": 128, "num_kv_shared_layers": 8,
        "layer_types": ["full_attention"] * 8,
    }  # fmt: skip
    setup = parse_setup({"model": {"config": config, "lora_r": 8}, "hardware": {"gpu": "H100"}})
    pool = estimate({"use_vllm": True, "vllm_mode": "colocate"}, setup, trl_version="1.16.0").vllm
    assert pool is not None and pool.sequences == pool.wanted_sequences
