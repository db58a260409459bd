"""Shapes of well-known models, read from their published config.json files (facts, not code)."""

from functools import lru_cache
from typing import NamedTuple

from grpo_rlvr.memory.shape import LinearAttention


class Shape(NamedTuple):
    """One architecture: sizes in units, `params` the published total in units."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    model_type: str
    params: int
    experts: int = 0
    active: int = 0
    expert_intermediate: int = 0
    linear: LinearAttention | None = None


def _hybrid(layers: int, value_heads: int) -> LinearAttention:
    """Qwen3.5: three layers of four are linear attention with 16 key heads, all heads 128 wide."""
    return LinearAttention(3 * layers // 4, 16 * 128, value_heads * 128, value_heads)


# `params` is the count in the model's safetensors index or model card. A test recounts every row from its shape, and
# on the meta device where the installed transformers has the class.
KNOWN: dict[str, Shape] = {
    "qwen2.5-0.5b": Shape(24, 896, 14, 2, 64, 4864, 151936, True, "qwen2", 494_032_768),
    "qwen2.5-1.5b": Shape(28, 1536, 12, 2, 128, 8960, 151936, True, "qwen2", 1_543_714_304),
    "qwen2.5-3b": Shape(36, 2048, 16, 2, 128, 11008, 151936, True, "qwen2", 3_085_938_688),
    "qwen2.5-7b": Shape(28, 3584, 28, 4, 128, 18944, 152064, False, "qwen2", 7_615_616_512),
    "qwen2.5-14b": Shape(48, 5120, 40, 8, 128, 13824, 152064, False, "qwen2", 14_770_033_664),
    "qwen2.5-32b": Shape(64, 5120, 40, 8, 128, 27648, 152064, False, "qwen2", 32_763_876_352),
    "qwen2.5-72b": Shape(80, 8192, 64, 8, 128, 29568, 152064, False, "qwen2", 72_706_203_648),
    "qwen2-0.5b": Shape(24, 896, 14, 2, 64, 4864, 151936, True, "qwen2", 494_032_768),
    "qwen2-1.5b": Shape(28, 1536, 12, 2, 128, 8960, 151936, True, "qwen2", 1_543_714_304),
    "qwen2-7b": Shape(28, 3584, 28, 4, 128, 18944, 152064, False, "qwen2", 7_615_616_512),
    "qwen2-72b": Shape(80, 8192, 64, 8, 128, 29568, 152064, False, "qwen2", 72_706_203_648),
    "deepseek-r1-distill-qwen-1.5b": Shape(28, 1536, 12, 2, 128, 8960, 151936, False, "qwen2", 1_777_088_000),
    "deepseek-r1-distill-qwen-7b": Shape(28, 3584, 28, 4, 128, 18944, 152064, False, "qwen2", 7_615_616_512),
    "deepseek-r1-distill-qwen-14b": Shape(48, 5120, 40, 8, 128, 13824, 152064, False, "qwen2", 14_770_033_664),
    "deepseek-r1-distill-qwen-32b": Shape(64, 5120, 40, 8, 128, 27648, 152064, False, "qwen2", 32_763_876_352),
    "deepseek-r1-distill-llama-8b": Shape(32, 4096, 32, 8, 128, 14336, 128256, False, "llama", 8_030_261_248),
    "deepseek-r1-distill-llama-70b": Shape(80, 8192, 64, 8, 128, 28672, 128256, False, "llama", 70_553_706_496),
    "qwen3-0.6b": Shape(28, 1024, 16, 8, 128, 3072, 151936, True, "qwen3", 596_049_920),
    "qwen3-1.7b": Shape(28, 2048, 16, 8, 128, 6144, 151936, True, "qwen3", 1_720_574_976),
    "qwen3-4b": Shape(36, 2560, 32, 8, 128, 9728, 151936, True, "qwen3", 4_022_468_096),
    "qwen3-8b": Shape(36, 4096, 32, 8, 128, 12288, 151936, False, "qwen3", 8_190_735_360),
    "qwen3-14b": Shape(40, 5120, 40, 8, 128, 17408, 151936, False, "qwen3", 14_768_307_200),
    "qwen3-32b": Shape(64, 5120, 64, 8, 128, 25600, 151936, False, "qwen3", 32_762_123_264),
    "qwen3-30b-a3b": Shape(
        48, 2048, 32, 4, 128, 6144, 151936, False, "qwen3_moe", 30_532_122_624, 128, 8, 768
    ),
    "qwen3-235b-a22b": Shape(
        94, 4096, 64, 4, 128, 12288, 151936, False, "qwen3_moe", 235_093_634_560, 128, 8, 1536
    ),
    # The text part, whose count is the class's; the checkpoints hold a vision tower beside it.
    "qwen3.5-0.8b": Shape(
        24, 1024, 8, 2, 256, 3584, 248320, True, "qwen3_5_text", 752_402_240, linear=_hybrid(24, 16)
    ),
    "qwen3.5-2b": Shape(
        24, 2048, 8, 2, 256, 6144, 248320, True, "qwen3_5_text", 1_881_834_304, linear=_hybrid(24, 16)
    ),
    "qwen3.5-4b": Shape(
        32, 2560, 16, 4, 256, 9216, 248320, True, "qwen3_5_text", 4_205_763_584, linear=_hybrid(32, 32)
    ),
    "qwen3.5-9b": Shape(
        32, 4096, 16, 4, 256, 12288, 248320, False, "qwen3_5_text", 8_953_815_552, linear=_hybrid(32, 32)
    ),
    "llama-3.2-1b": Shape(16, 2048, 32, 8, 64, 8192, 128256, True, "llama", 1_235_814_400),
    "llama-3.2-3b": Shape(28, 3072, 24, 8, 128, 8192, 128256, True, "llama", 3_212_749_824),
    "llama-3-8b": Shape(32, 4096, 32, 8, 128, 14336, 128256, False, "llama", 8_030_261_248),
    "llama-3.1-8b": Shape(32, 4096, 32, 8, 128, 14336, 128256, False, "llama", 8_030_261_248),
    "llama-3.1-70b": Shape(80, 8192, 64, 8, 128, 28672, 128256, False, "llama", 70_553_706_496),
    "llama-3.3-70b": Shape(80, 8192, 64, 8, 128, 28672, 128256, False, "llama", 70_553_706_496),
    "llama-2-7b": Shape(32, 4096, 32, 32, 128, 11008, 32000, False, "llama", 6_738_415_616),
    "llama-2-13b": Shape(40, 5120, 40, 40, 128, 13824, 32000, False, "llama", 13_015_864_320),
    "tinyllama-1.1b": Shape(22, 2048, 32, 4, 64, 5632, 32000, False, "llama", 1_100_048_384),
    "smollm2-135m": Shape(30, 576, 9, 3, 64, 1536, 49152, True, "llama", 134_515_008),
    "smollm2-360m": Shape(32, 960, 15, 5, 64, 2560, 49152, True, "llama", 361_821_120),
    "smollm2-1.7b": Shape(24, 2048, 32, 32, 64, 8192, 49152, True, "llama", 1_711_376_384),
    "smollm3-3b": Shape(36, 2048, 16, 4, 128, 11008, 128256, True, "smollm3", 3_075_098_624),
    "mistral-7b-v0.1": Shape(32, 4096, 32, 8, 128, 14336, 32000, False, "mistral", 7_241_732_096),
    "mistral-7b-v0.3": Shape(32, 4096, 32, 8, 128, 14336, 32768, False, "mistral", 7_248_023_552),
    "mixtral-8x7b": Shape(
        32, 4096, 32, 8, 128, 14336, 32000, False, "mixtral", 46_702_792_704, 8, 2, 14336
    ),
    "gemma-2-2b": Shape(26, 2304, 8, 4, 256, 9216, 256000, True, "gemma2", 2_614_341_888),
    "gemma-2-9b": Shape(42, 3584, 16, 8, 256, 14336, 256000, True, "gemma2", 9_241_705_984),
    "gemma-2-27b": Shape(46, 4608, 32, 16, 128, 36864, 256000, True, "gemma2", 27_227_128_320),
    "gemma-3-270m": Shape(18, 640, 4, 1, 256, 2048, 262144, True, "gemma3_text", 268_098_176),
    "gemma-3-1b": Shape(26, 1152, 4, 1, 256, 6912, 262144, True, "gemma3_text", 999_885_952),
    "phi-3-mini-4k": Shape(32, 3072, 32, 32, 96, 8192, 32064, False, "phi3", 3_821_079_552),
    "phi-4": Shape(40, 5120, 40, 10, 128, 17920, 100352, False, "phi3", 14_659_507_200),
    "olmo-2-7b": Shape(32, 4096, 32, 32, 128, 11008, 100352, False, "olmo2", 7_298_617_344),
    "olmo-2-13b": Shape(40, 5120, 40, 40, 128, 13824, 100352, False, "olmo2", 13_716_198_400),
}  # fmt: skip

# A dense shape to borrow when only the size is stated: the Qwen2.5 line, whose vocabulary is among the largest (the
# head term is then not understated).
SIZE_CLASSES: tuple[str, ...] = (
    "qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b", "qwen2.5-7b", "qwen2.5-14b", "qwen2.5-32b", "qwen2.5-72b",
)  # fmt: skip

# Endings that name a fine-tune or a format, not a shape.
_SUFFIXES = (
    "instruct", "base", "chat", "it", "pt", "hf", "bnb-4bit", "unsloth", "2507", "thinking", "awq", "gptq", "gguf",
    "int4", "int8", "fp8", "bf16", "0924", "1124", "1t", "intermediate-step", "v1.0", "sft", "dpo", "128k", "zero",
)  # fmt: skip


@lru_cache(maxsize=256)
def normalise(name: str) -> str:
    """Return a model name without its owner and without the endings that do not change its shape, lower case."""
    text = name.strip().rstrip("/").rsplit("/", 1)[-1].lower().replace("_", "-")
    text = (
        text.replace("qwen2.5-math-", "qwen2.5-").replace("qwen2.5-coder-", "qwen2.5-").replace("meta-llama-", "llama-")
    )
    changed = True
    while changed:
        changed = False
        for suffix in _SUFFIXES:
            if text.endswith(f"-{suffix}"):
                text, changed = text[: -len(suffix) - 1], True
    return text


def find(name: str) -> tuple[str, Shape] | None:
    """Return the table's row for a model name, None when it is not in the table."""
    key = normalise(name)
    for candidate in (key, name.strip().lower()):
        if candidate in KNOWN:
            return candidate, KNOWN[candidate]
    if key.startswith("mistral-7b"):
        return "mistral-7b-v0.3", KNOWN["mistral-7b-v0.3"]
    return None
