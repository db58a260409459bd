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
]  # fmt: skip


@pytest.mark.parametrize(("name", "config", "billions", "attending"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_a_hybrid_with_mamba_has_its_published_size(
    name: str, config: dict[str, Any], billions: float, attending: int
) -> None:
    facts = from_config(config, name, "test")
    assert facts.params / 1e9 == pytest.approx(billions, rel=0.002)
    assert facts.counted_as_its_class and facts.attention_layers == attending


def test_what_is_not_measured_of_a_mamba_mixer_is_said() -> None:
    setup = parse_setup({"model": {"config": PUBLISHED[3][1], "peft": {"r": 8}}, "hardware": {"gpu": "H100"}})
    assert "Mamba-2" in estimate({}, setup, trl_version="1.16.0").notes[0]


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


def test_a_switched_off_window_is_none() -> None:
    qwen = {"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
            "num_key_value_heads": 2, "intermediate_size": 4864, "vocab_size": 151936, "sliding_window": 32768,
            "use_sliding_window": False, "tie_word_embeddings": True}  # fmt: skip
    assert from_config(qwen, "qwen", "test").cached_widths == (24 * 128, 0)
    assert facts_of_known("qwen2.5-0.5b").cached_widths == (24 * 128, 0)
