"""Families of models: what their classes do that their config.json does not say."""

# Families that normalise q and k per head, that have four norms a layer, and that add a bias to q, k and v
# (read in transformers 5.24, models/<family>/modeling_<family>.py).
QK_NORM = frozenset(
    {"qwen3", "qwen3_moe", "gemma3_text", "gemma3", "olmo2", "olmo3", "qwen3_next", "qwen3_5", "qwen3_5_text"}
    | {"lfm2", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_vl", "qwen3_vl_text", "qwen3_vl_moe", "qwen3_vl_moe_text"}
    | {"gemma4_text", "gemma4_unified_text", "gemma3n_text", "lfm2_moe", "exaone_moe"}
    | {"hunyuan_v1_dense", "hunyuan_v1_moe", "exaone4", "apertus"}
)
FOUR_NORMS = frozenset({"gemma2", "gemma3_text", "gemma3", "gemma3n_text", "gemma4_text", "gemma4_unified_text"})
QKV_BIAS = frozenset({"qwen2", "qwen2_moe", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"})
# Families whose queries come with a gate of their width (q_proj is twice as wide).
QUERY_GATE = frozenset({"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"})
# Families whose MLP has two matrices instead of a gated three.
PLAIN_MLP = frozenset({
    "gpt2", "gpt_neo", "gpt_neox", "gptj", "gpt_bigcode", "opt", "bloom", "falcon", "phi", "starcoder2", "codegen",
    "mpt", "persimmon", "nemotron", "nemotron_h", "xglm", "biogpt", "apertus", "arcee",
})  # fmt: skip
# Families that transformers computes with eager attention unless told otherwise: their classes have no sdpa.
NO_SDPA = frozenset({"gemma2", "vaultgemma", "gpt_oss", "bloom", "mpt", "xglm", "gpt_neo", "deepseek_v4"})
# Families whose attention scores are capped by a tanh.
SOFTCAPPED = frozenset({"gemma2", "vaultgemma"})
# Families with one norm a layer: a layer is a mixer or an MLP, not both.
ONE_NORM = frozenset({"nemotron_h", "mamba", "mamba2", "falcon_mamba"})
# Families whose layers all attend to no more than `sliding_window` tokens where config.json states that.
WINDOW_EVERYWHERE = frozenset({"mistral", "mixtral", "phi3", "phimoe", "starcoder2"})
# Where a config.json does not name each layer's kind: of how many layers one attends to all tokens, and how many tokens
# the others see (published config.json files).
WINDOWS = {"gemma2": (2, 4096), "gemma3_text": (6, 512), "gemma3": (6, 1024), "gpt_oss": (2, 128)}
# Architectures whose parameters are counted as their class has them (transformers 5.24, on the meta device, within 1 %;
# tests/memory counts them again). The count of any other is that of a plain decoder of its sizes.
COUNTED = frozenset({
    "llama", "mistral", "ministral3", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next",
    "qwen3_5_text", "qwen3_5_moe_text", "gemma", "gemma2", "gemma3_text", "vaultgemma", "phi", "phi3", "phimoe",
    "olmo", "olmo2", "olmo3", "olmoe", "flex_olmo", "smollm3", "gpt_oss", "granite", "granitemoe", "granitemoeshared",
    "cohere", "cohere2", "glm", "glm4", "glm4_moe", "glm4_moe_lite", "deepseek_v2", "deepseek_v3", "llama4_text",
    "ernie4_5", "ernie4_5_moe", "exaone4", "seed_oss", "arcee", "apertus", "helium", "stablelm", "starcoder2",
    "minimax_m2", "bitnet", "diffllama", "cwm", "gpt2", "gpt_neox", "gptj", "gpt_bigcode", "codegen", "bloom",
    "persimmon", "biogpt", "internlm3", "solar_open", "minicpm3", "youtu", "aria_text", "lfm2",
    "granitemoehybrid", "bamba", "falcon_h1", "nemotron_h", "gemma4_text", "gemma4_unified_text", "olmo_hybrid",
    "exaone", "cohere2_moe", "mellum", "sarvam_moe", "hyperclovax", "glm_moe_dsa", "deepseek_v32", "jamba", "mamba",
    "mamba2", "falcon_mamba", "kimi_linear", "minimax", "gemma3n_text", "lfm2_moe", "exaone_moe", "hunyuan_v1_dense",
    "hunyuan_v1_moe", "zamba2", "hy_v3",
})  # fmt: skip
# Vision-language models with such a decoder, under the name that a text part without its own takes.
COUNTED_VISION = frozenset(
    {"qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen3_vl", "qwen3_vl_text", "gemma3", "llava"}
    | {"idefics3", "paligemma", "qwen3_5", "qwen3_vl_moe", "qwen3_vl_moe_text"}
)

# Kinds of layers, as config.json names them, that the count and the cache know.
LAYER_KINDS = frozenset({
    "full_attention", "sliding_attention", "chunked_attention", "linear_attention", "attention", "conv", "mamba",
    "mlp", "moe", "hybrid", "indexed_attention",
})  # fmt: skip
# `tie_word_embeddings` when config.json does not say (the class default in transformers 5.24).
TIED_BY_DEFAULT = frozenset({
    "gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "gemma4_unified",
    "gemma4_unified_text", "vaultgemma", "paligemma", "gpt2", "gpt_bigcode", "smollm3", "lfm2", "lfm2_moe", "mamba",
    "falcon_mamba", "zamba2", "biogpt", "bloom", "cohere", "cohere2", "cohere2_moe", "ernie4_5", "ernie4_5_moe",
    "minicpm3", "starcoder2", "youtu", "qwen3_vl_moe_text", "falcon", "gpt_neo", "mpt", "opt", "xglm", "zamba",
})  # fmt: skip
# The width of a head when config.json does not say, where that is not hidden size / heads (same source).
HEAD_BY_DEFAULT = {
    "gemma": 256, "gemma2": 256, "gemma3_text": 256, "gemma3n_text": 256, "gemma4_text": 256,
    "gemma4_unified_text": 256, "vaultgemma": 256, "qwen3_next": 256, "qwen3_5_text": 256, "qwen3_5_moe_text": 256,
    "qwen3": 128, "ernie4_5": 128, "mellum": 128, "minimax_m2": 128, "seed_oss": 128, "solar_open": 128, "gpt_oss": 64,
}  # fmt: skip

# Vision towers whose MLP is gated too.
GATED_TOWERS = frozenset({"qwen2_5_vl", "qwen2_5_vl_vision", "pixtral"})
