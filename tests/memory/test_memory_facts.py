"""Model facts: the table against real model classes, config files, stated numbers, sizes."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from grpo_rlvr.errors import InputError, NotFoundError
from grpo_rlvr.memory import describe, estimate, known
from grpo_rlvr.memory.configfile import from_config
from grpo_rlvr.memory.facts import facts_of_known, resolve_facts
from grpo_rlvr.memory.families import COUNTED
from grpo_rlvr.models.setup import parse_setup
from grpo_rlvr.workspace import Workspace

CLASSES = {
    "qwen2": "Qwen2", "qwen3": "Qwen3", "qwen3_moe": "Qwen3Moe", "llama": "Llama", "mistral": "Mistral",
    "mixtral": "Mixtral", "gemma2": "Gemma2", "gemma3_text": "Gemma3Text", "phi3": "Phi3", "olmo2": "Olmo2",
    "smollm3": "SmolLM3", "qwen3_5_text": "Qwen3_5Text", "gemma": "Gemma", "gpt_oss": "GptOss",
}  # fmt: skip
QWEN = {
    "layers": 28, "hidden": 2048, "heads": 16, "kv_heads": 8, "head_dim": 128, "intermediate": 6144, "vocab": 151936,
    "tied_embeddings": True, "qk_norm": True,
}  # fmt: skip


def _meta_count(shape: known.Shape) -> int:
    import torch
    import transformers

    family = CLASSES[shape.model_type]
    sizes: dict[str, Any] = {
        "hidden_size": shape.hidden, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads, "intermediate_size": shape.intermediate, "vocab_size": shape.vocab,
        "tie_word_embeddings": shape.tied, "head_dim": shape.head_dim, "pad_token_id": 0,
    }  # fmt: skip
    if shape.experts:
        sizes |= {
            "num_experts": shape.experts, "num_local_experts": shape.experts, "num_experts_per_tok": shape.active,
            "moe_intermediate_size": shape.expert_intermediate, "mlp_only_layers": [],
        }  # fmt: skip
    if shape.linear:
        heads = shape.linear.value_heads
        sizes |= {
            "linear_num_key_heads": shape.linear.key_width // 128, "linear_key_head_dim": 128,
            "linear_num_value_heads": heads, "linear_value_head_dim": shape.linear.value_width // heads,
            "linear_conv_kernel_dim": shape.linear.kernel,
        }  # fmt: skip
    config = getattr(transformers, f"{family}Config")(**sizes)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return sum({id(parameter): parameter.numel() for parameter in model.parameters()}.values())


@pytest.mark.parametrize("row", known.KNOWN)
def test_the_count_agrees_with_the_published_size(row: str) -> None:
    assert facts_of_known(row).params == pytest.approx(known.KNOWN[row].params, rel=0.0005)


# One row a class: the other sizes of a class differ in numbers alone, which the published sizes check.
@pytest.mark.parametrize(
    "row", ["qwen2.5-0.5b", "qwen2.5-7b", "qwen3-8b", "qwen3-30b-a3b", "llama-3.2-1b", "mistral-7b-v0.3",
            "mixtral-8x7b", "gemma-2-2b", "gemma-3-1b", "phi-4", "olmo-2-7b", "smollm3-3b", "qwen3.5-0.8b",
            "qwen3.5-2b", "qwen3.5-4b", "qwen3.5-9b", "gemma-2b", "gpt-oss-20b", "phi-4-mini"],
)  # fmt: skip
def test_the_count_agrees_with_the_real_class_on_the_meta_device(row: str) -> None:
    shape = known.KNOWN[row]
    assert facts_of_known(row).counted_params == pytest.approx(_meta_count(shape), rel=0.001)


# What a class's default config does not show, as real checkpoints have it.
REAL: dict[str, dict[str, Any]] = {
    "glm4_moe": {"head_dim": 128, "attention_bias": True},
    "lfm2": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 4, "num_hidden_layers": 16},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 2, "num_hidden_layers": 8},
    "hunyuan_v1_dense": {"head_dim": 128, "num_hidden_layers": 2},
    "hunyuan_v1_moe": {"head_dim": 128, "num_hidden_layers": 2, "num_experts": 8, "moe_topk": 2},
    "hy_v3": {"num_hidden_layers": 3}, "jamba": {"num_hidden_layers": 8},
}  # fmt: skip


def _class_and_count(family: str, **sizes: Any) -> tuple[int, int]:
    """Return the parameters of a class on the meta device, and our count from its config.json."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(family, **sizes)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    real = sum({id(parameter): parameter.numel() for parameter in model.parameters()}.values())
    return real, from_config(config.to_dict(), family, "test").params


@pytest.mark.parametrize("family", sorted(COUNTED))
def test_the_count_of_a_config_json_agrees_with_the_class(family: str) -> None:
    real, counted = _class_and_count(family, **REAL.get(family, {}))
    assert counted == pytest.approx(real, rel=0.01)


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("deepseek_v2", {"q_lora_rank": None, "first_k_dense_replace": 1, "num_experts_per_tok": 6}),
        ("llama4_text", {"moe_layers": None, "interleave_moe_layer_step": 2}),
        ("ernie4_5_moe", {"moe_layer_start_index": 3, "moe_layer_interval": 2}),
        ("qwen3_moe", {"decoder_sparse_step": 2, "mlp_only_layers": [], "intermediate_size": 6144}),
        ("glm4_moe", {"head_dim": 128, "use_qk_norm": True, "first_k_dense_replace": 3}),
    ],
)
def test_layers_without_experts_are_counted_under_every_name(family: str, sizes: dict[str, Any]) -> None:
    real, counted = _class_and_count(family, **sizes)
    assert counted == pytest.approx(real, rel=0.001)


def test_an_old_lfm2_config_names_its_attention_layers_by_number() -> None:
    old = {
        "model_type": "lfm2", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 65536, "block_ff_dim": 12288, "block_auto_adjust_ff_dim": True,
        "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256, "conv_L_cache": 3,
        "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    }  # fmt: skip
    facts = from_config(old, "lfm2", "test")
    assert facts.params == pytest.approx(1.1703e9, rel=0.001) and facts.attention_layers == 6


def test_latent_attention_keeps_one_vector_a_token_in_vllm() -> None:
    config = {
        "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
        "vocab_size": 102400, "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64,
        "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "tie_word_embeddings": False,
    }  # fmt: skip
    setup = parse_setup({"model": {"config": config, "peft": {"r": 16}}, "hardware": {"gpu": "H100"}})
    answer = estimate({"use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 10_000}, setup)
    assert answer.model.params_b == pytest.approx(15.706, abs=0.01)
    assert answer.vllm is not None
    assert answer.vllm.needs_gb - answer.vllm.weights_gb - 1 == pytest.approx(27 * 576 * 2 * 1e4 / 1e9, abs=0.01)
    assert "latent attention" in answer.notes[0]


HYBRID = {
    "model_type": "zamba", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 32784, "intermediate_size": 2048,
    "tie_word_embeddings": False,
}  # fmt: skip


def test_an_architecture_that_is_not_modelled_is_said_and_its_size_asked_for() -> None:
    answer = estimate({}, parse_setup({"model": {"config": HYBRID}, "hardware": {"gpu": "H100"}}))
    assert "'zamba' is not modelled" in answer.notes[0]
    assert any(entry.input == "model.params_b" for entry in answer.assumed)


def test_the_stated_size_of_an_architecture_that_is_not_modelled_is_believed() -> None:
    for size in (0.1, 5.0):
        answer = estimate({}, parse_setup({"model": {"config": HYBRID, "params_b": size}, "hardware": {"gpu": "H100"}}))
        assert answer.model.params_b == size
        assert "Its size is as stated" in answer.notes[0]
        assert not any(entry.input == "model.params_b" for entry in answer.assumed)


def test_a_config_json_that_lacks_a_size_of_an_unknown_architecture_is_answered_by_the_stated_size() -> None:
    config = {"model_type": "zamba", "hidden_size": 4096, "vocab_size": 131072}
    with pytest.raises(InputError, match=r"params_b") as caught:
        resolve_facts(parse_setup({"model": {"config": config}}))
    assert "missing" in str(caught.value)
    resolved = resolve_facts(parse_setup({"model": {"config": config, "params_b": 8.1}}))
    assert resolved.facts.params == 8_100_000_000 and resolved.assumed[0][0] == "model shape"


SMALL = {
    "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 1000,
    "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"audio_config": {"d_model": 1280}}, "audio_config"),
        ({"vision_config": {"architecture": "mobilenetv5_300m_enc", "hidden_size": 2048}}, "vision_config"),
        ({"layer_types": ["full_attention", "newer", "newer", "full_attention"]}, "layers of kind 'newer'"),
        ({"layer_types": ["full_attention", "linear_attention"] * 2}, "layers of kind 'linear_attention'"),
    ],
)
def test_what_a_config_json_has_beside_a_known_decoder_is_said_not_to_be_counted(
    change: dict[str, Any], named: str
) -> None:
    answer = estimate({}, parse_setup({"model": {"config": SMALL | change}, "hardware": {"gpu": "H100"}}))
    assert named in answer.notes[0] and "not modelled" in answer.notes[0]
    assert any(entry.input == "model.params_b" and named in entry.to_know for entry in answer.assumed)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"is_encoder_decoder": True}, "encoder-decoder"),
        ({"layer_types": ["full_attention"] * 3}, "4 layers, but the kinds of 3"),
        ({"tie_word_embeddings": "true"}, "true or false"),
        ({"intermediate_size": [3072, 3072, 3072, 1024]}, "differs from layer to layer"),
        ({"num_key_value_heads": "8"}, "without quotes"),
        ({"num_hidden_layers": 0}, "at least 1"),
        ({"model_type": ["qwen3"]}, "must be a string"),
        ({"model_type": 7}, "must be a string"),
    ],
)
def test_a_config_json_that_contradicts_itself_is_one_clear_error(change: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        resolve_facts(parse_setup({"model": {"config": SMALL | change}}))


def test_a_size_given_for_each_layer_is_one_size_when_they_are_all_the_same() -> None:
    plain, listed = (from_config(SMALL | change, "m", "test") for change in ({}, {"intermediate_size": [3072] * 4}))
    assert plain == listed


@pytest.mark.parametrize(
    ("config", "kv_heads", "head_dim", "tied"),
    [
        ({"model_type": "gpt_bigcode", "multi_query": True}, 1, 64, True),
        ({"model_type": "falcon", "multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 8}, 8, 64,
         True),
        ({"model_type": "chatglm", "multi_query_group_num": 2, "kv_channels": 64}, 2, 64, False),
        ({"model_type": "seed_oss", "num_key_value_heads": 8}, 8, 128, False),
        ({"model_type": "seed_oss", "num_key_value_heads": 8, "head_dim": None}, 8, 64, False),
        ({"model_type": "cohere2"}, 16, 64, True), ({"model_type": "cohere2", "tie_word_embeddings": False}, 16, 64,
         False),
    ],
)  # fmt: skip
def test_what_config_json_leaves_out_is_the_default_of_its_family(
    config: dict[str, Any], kv_heads: int, head_dim: int, tied: bool
) -> None:
    sizes = {"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16, "vocab_size": 1000}
    facts = from_config(sizes | config, "model", "test")
    assert (facts.kv_heads, facts.head_dim, facts.tied) == (kv_heads, head_dim, tied)


@pytest.mark.parametrize("part", ["text_config", "llm_config", "language_config"])
def test_the_text_part_is_found_under_its_names(part: str) -> None:
    facts = from_config({"model_type": "outer", part: SMALL}, "model", "test")
    assert facts.params == from_config(SMALL, "model", "test").params


def test_a_modelled_architecture_says_nothing_of_the_kind() -> None:
    answer = estimate({}, parse_setup({"model": {"name": "Qwen/Qwen3-8B"}, "hardware": {"gpu": "H100"}}))
    assert not any("not modelled" in note for note in answer.notes)


VISION = {"qwen2_vl": "qwen2-vl-7b", "qwen2_5_vl": "qwen2.5-vl-7b", "qwen3_vl": "qwen3-vl-8b"}


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        ("qwen2_vl", {"vision_config": {"embed_dim": 1280, "depth": 32, "hidden_size": 3584}}),
        ("qwen2_5_vl", {"vision_config": {"hidden_size": 1280, "depth": 32, "intermediate_size": 3420,
                                          "out_hidden_size": 3584}}),
        ("qwen3_vl", {"vision_config": {"hidden_size": 1152, "depth": 27, "intermediate_size": 4304,
                                        "out_hidden_size": 4096}}),
        ("gemma3", {"vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
                                      "num_attention_heads": 16, "image_size": 896, "patch_size": 14}}),
        ("llava", {}), ("idefics3", {}), ("paligemma", {}), ("qwen3_5", {}),
        ("internvl", {}), ("mistral3", {}), ("mistral3", {"tie_word_embeddings": False}), ("qwen3_vl_moe", {}),
        ("llama4", {}), ("smolvlm", {}),
    ],
)  # fmt: skip
def test_a_vision_tower_is_counted_as_the_class_has_it(family: str, sizes: dict[str, Any]) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText

    if family in VISION:
        shape = known.KNOWN[VISION[family]]
        sizes["text_config"] = {
            "hidden_size": shape.hidden, "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads, "intermediate_size": shape.intermediate, "vocab_size": shape.vocab,
            **({"head_dim": 128} if family == "qwen3_vl" else {}),
        }  # fmt: skip
    config = AutoConfig.for_model(family, **sizes)
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    real = sum({id(parameter): parameter.numel() for parameter in model.parameters()}.values())
    assert from_config(config.to_dict(), family, "test").params == pytest.approx(real, rel=0.006)
    if family in VISION:
        assert real == known.KNOWN[VISION[family]].params


def test_the_linears_of_a_vision_tower_are_quantised_too() -> None:
    def weights(model: dict[str, Any]) -> float:
        setup = parse_setup({"model": {**model, "quantized": "nf4", "peft": "lora"}, "hardware": {"gpu": "A100-80GB"}})
        answer = estimate({"per_device_train_batch_size": 8}, setup)
        return next(term.gb for term in answer.phases[0].terms if term.name == "weights")

    with_tower, without = weights({"name": "Qwen/Qwen2.5-VL-7B-Instruct"}), weights({"name": "Qwen/Qwen2.5-7B"})
    assert with_tower - without == pytest.approx(0.68 * 0.55, rel=0.2)


def test_a_model_of_the_table_with_a_vision_tower_is_a_vision_language_model() -> None:
    assert describe({"name": "google/gemma-3-4b-it"}).kind == "vlm"
    assert describe({"name": "google/gemma-3-1b-it"}).kind == "dense"
    assert describe({"name": "openai/gpt-oss-20b"}).kind == "moe"


def test_layers_of_linear_attention_keep_no_keys_and_values() -> None:
    facts = facts_of_known("qwen3.5-4b")
    assert (facts.layers, facts.attention_layers) == (32, 8)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"), ("Qwen/Qwen2.5-Math-1.5B", "qwen2.5-1.5b"),
        ("unsloth/Qwen3-8B-unsloth-bnb-4bit", "qwen3-8b"), ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"), ("HuggingFaceTB/SmolLM2-135M-Instruct", "smollm2-135m"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "deepseek-r1-distill-qwen-1.5b"),
        ("google/gemma-3-1b-it", "gemma-3-1b"), ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"), ("Qwen/QwQ-32B", "qwen2.5-32b"),
        ("mistralai/Mistral-Small-24B-Instruct-2501", "mistral-small-24b"), ("microsoft/Phi-3.5-mini-instruct",
        "phi-3-mini-4k"), ("deepseek-ai/deepseek-math-7b-instruct", "deepseek-llm-7b"),
        ("allenai/OLMo-2-1124-7B-Instruct", "olmo-2-7b"), ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl-7b"),
        ("unsloth/gemma-3-4b-it-unsloth-bnb-4bit", "gemma-3-4b"), ("google/gemma-2b-it", "gemma-2b"),
    ],
)  # fmt: skip
def test_fine_tunes_and_formats_of_a_model_have_its_shape(name: str, row: str) -> None:
    found = known.find(name)
    assert found is not None and found[0] == row


def test_a_config_json_in_the_workspace_is_read(tmp_path: Path) -> None:
    config = {
        "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151936,
        "tie_word_embeddings": True, "max_position_embeddings": 40960,
    }  # fmt: skip
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    workspace = Workspace.open(tmp_path)
    for model in ({"path": "mine"}, {"path": "mine/config.json"}, {"name": "mine"}, {"config": "mine"}):
        facts = resolve_facts(parse_setup({"model": model}), workspace).facts
        assert facts.params == known.KNOWN["qwen3-0.6b"].params
        assert facts.qk_norm and facts.context == 40960
    assert resolve_facts(parse_setup({"model": {"config": config}})).facts.params == facts.params


def test_the_text_part_of_a_vision_language_config_is_used() -> None:
    inner = {
        "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
        "intermediate_size": 18944, "vocab_size": 152064, "model_type": "qwen2", "tie_word_embeddings": False,
    }  # fmt: skip
    facts = from_config({"model_type": "qwen2_5_vl", "text_config": inner}, "vl", "test")
    assert facts.counted_params == known.KNOWN["qwen2.5-7b"].params


def test_the_hub_cache_is_read_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "models--acme--odd" / "snapshots" / "1"
    folder.mkdir(parents=True)
    config = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    facts = resolve_facts(parse_setup({"model": {"name": "acme/odd"}})).facts
    assert (facts.layers, facts.kv_heads, facts.intermediate) == (2, 4, 256)
    assert "hub cache" in facts.source


class _Hub(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        found = self.path == "/acme/online/resolve/main/config.json"
        self.send_response(200 if found else 404)
        self.end_headers()
        if found:
            config = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 100}
            self.wfile.write(json.dumps(config).encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


def test_the_hub_is_asked_for_an_unknown_name_unless_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    try:
        with pytest.raises(InputError, match="unknown model"):
            resolve_facts(parse_setup({"model": {"name": "acme/online"}}))
        assert _Hub.asked == []
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        facts = resolve_facts(parse_setup({"model": {"name": "acme/online"}})).facts
        assert (facts.layers, facts.source) == (3, "the hub")
        with pytest.raises(InputError, match="unknown model"):
            resolve_facts(parse_setup({"model": {"name": "acme/absent"}}))
        resolve_facts(parse_setup({"model": {"name": "Qwen/Qwen3-8B"}}))
        assert len(_Hub.asked) == 2, "a known model needs no network"
    finally:
        server.shutdown()
        server.server_close()


def test_a_size_alone_gives_exactly_that_size_and_says_what_it_borrowed() -> None:
    for size in (0.01, 0.135, 1.5, 9.0, 120.0):
        resolved = resolve_facts(parse_setup({"model": {"params_b": size}}))
        assert resolved.facts.params == round(size * 1e9)
        assert resolved.assumed[0][0] == "model shape"


def test_stated_numbers_need_no_name() -> None:
    facts = resolve_facts(parse_setup({"model": QWEN})).facts
    assert facts.params == known.KNOWN["qwen3-1.7b"].params


@pytest.mark.parametrize(
    ("model", "word"),
    [
        ({}, "no model"),
        ({"name": "nobody/knows-this"}, "unknown model"),
        ({"name": "Qwen/Qwen3-9B"}, "known sizes of qwen3: 0.6b, 1.7b"),
        ({"name": "Qwen/Qwen25-7B"}, "did you mean 'qwen2.5-7b'"),
        ({"name": "lama-3.1-8b-instruct"}, "did you mean 'llama-3.1-8b'"),
        ({"name": "Qwen/Qwen3-8B-Instrcut"}, "did you mean 'qwen3-8b'"),
        ({"name": "phi4"}, "did you mean 'phi-4'"),
        ({"name": 7}, "string"),
        ({"params_b": 1e6}, "billions"),
        ({"params_b": 7_000_000_000}, "billions"),
        ({"params_b": 0}, "above 0"),
        ({"params_b": "7"}, "number"),
        ({"params_b": float("nan")}, "finite"),
        ({"name": "Qwen/Qwen3-8B", "params_b": 1.7}, "contradict"),
        ({**QWEN, "head_dim": None, "heads": 15, "kv_heads": 5}, "do not divide"),
        ({**QWEN, "kv_heads": 7}, "do not divide"),
        ({"name": "Qwen/Qwen3-8B", "heads": 30}, "do not divide"),
        ({**QWEN, "layers": -1}, "at least 1"),
        ({**QWEN, "layers": 10_000_000, "hidden": 1_000_000, "heads": 1000, "kv_heads": 1000}, "parameters"),
        ({**QWEN, "moe": {"experts": 8, "active": 9, "expert_intermediate": 64}}, "active"),
        ({**QWEN, "moe": 8}, "object"),
    ],
)  # fmt: skip
def test_a_model_that_cannot_be_right_is_one_clear_error(model: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word) as caught:
        resolve_facts(parse_setup({"model": model}))
    assert caught.value.where.startswith("setup.model")


@pytest.mark.parametrize(
    "name",
    ["OpenGVLab/InternVL3-2B", "llava-hf/llava-1.5-7b-hf", "Qwen/Qwen2.5-VL-2B", "Qwen/Qwen4-8B", "nobody/knows-this",
     "Qwen/Qwen2.5-8B"],
)  # fmt: skip
def test_no_model_of_another_family_or_size_is_offered(name: str) -> None:
    with pytest.raises(InputError, match="unknown model") as caught:
        resolve_facts(parse_setup({"model": {"name": name}}))
    assert "did you mean" not in str(caught.value)


def test_a_model_path_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        resolve_facts(parse_setup({"model": {"path": "absent"}}), Workspace.open(tmp_path))


@pytest.mark.parametrize("content", ["", "[]", "not json", '{"hidden_size": 64}', '{"hidden_size": "x"}'])
def test_a_config_json_that_is_none_is_one_clear_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError):
        resolve_facts(parse_setup({"model": {"path": "config.json"}}), Workspace.open(tmp_path))


def test_the_vision_tower_beside_a_known_qwen3_5_is_said_not_to_be_counted() -> None:
    answer = estimate({}, parse_setup({"model": {"name": "Qwen/Qwen3.5-9B"}, "hardware": {"gpu": "H100"}}))
    assert "vision tower" in answer.notes[0]


def test_what_images_cost_is_said_not_to_be_counted_where_the_model_sees_them() -> None:
    for name, said in (("Qwen/Qwen2.5-VL-3B-Instruct", True), ("Qwen/Qwen2.5-3B-Instruct", False)):
        answer = estimate({}, parse_setup({"model": {"name": name}, "hardware": {"gpu": "H100"}}))
        assert any("With images" in note for note in answer.notes) is said
