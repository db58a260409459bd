"""Shapes of well-known models, read from their published config.json files (facts, not code)."""

import re
from functools import lru_cache
from typing import NamedTuple

from grpo_rlvr.memory.mixers import LinearAttention


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
    tower: int = 0


def _hybrid(layers: int, value_heads: int) -> LinearAttention:
    """Qwen3.5: three layers of four are linear attention with 16 key heads, all heads 128 wide, a float32 state."""
    return LinearAttention(3 * layers // 4, 16 * 128, value_heads * 128, value_heads, state_bytes=4)


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
    "gemma-2b": Shape(18, 2048, 8, 1, 256, 16384, 256000, True, "gemma", 2_506_172_416),
    "gemma-7b": Shape(28, 3072, 16, 16, 256, 24576, 256000, True, "gemma", 8_537_680_896),
    # With a vision tower, whose parameters are those of the class.
    "qwen2-vl-2b": Shape(
        28, 1536, 12, 2, 128, 8960, 151936, True, "qwen2_vl", 2_208_985_600, tower=665_271_296
    ),
    "qwen2-vl-7b": Shape(
        28, 3584, 28, 4, 128, 18944, 152064, False, "qwen2_vl", 8_291_375_616, tower=675_759_104
    ),
    "qwen2.5-vl-3b": Shape(
        36, 2048, 16, 2, 128, 11008, 151936, True, "qwen2_5_vl", 3_754_622_976, tower=668_684_288
    ),
    "qwen2.5-vl-7b": Shape(
        28, 3584, 28, 4, 128, 18944, 152064, False, "qwen2_5_vl", 8_292_166_656, tower=676_550_144
    ),
    "qwen2.5-vl-32b": Shape(
        64, 5120, 40, 8, 128, 27648, 152064, False, "qwen2_5_vl", 33_452_718_336, tower=688_842_080
    ),
    "qwen2.5-vl-72b": Shape(
        80, 8192, 64, 8, 128, 29568, 152064, False, "qwen2_5_vl", 73_410_777_344, tower=704_573_696
    ),
    "qwen3-vl-2b": Shape(28, 2048, 16, 8, 128, 6144, 151936, True, "qwen3_vl", 2_127_532_032, tower=406_957_056),
    "qwen3-vl-4b": Shape(36, 2560, 32, 8, 128, 9728, 151936, True, "qwen3_vl", 4_437_815_808, tower=415_347_712),
    "qwen3-vl-8b": Shape(36, 4096, 32, 8, 128, 12288, 151936, False, "qwen3_vl", 8_767_123_696, tower=576_388_336),
    "gemma-3-4b": Shape(34, 2560, 8, 4, 256, 10240, 262208, True, "gemma3", 4_300_079_472, tower=419_816_304),
    "gemma-3-12b": Shape(48, 3840, 16, 8, 256, 15360, 262208, True, "gemma3", 12_187_325_040, tower=421_290_864),
    "gemma-3-27b": Shape(62, 5376, 32, 16, 128, 21504, 262208, True, "gemma3", 27_432_406_640, tower=423_060_336),
    "mistral-small-24b": Shape(40, 5120, 32, 8, 128, 32768, 131072, False, "mistral", 23_572_403_200),
    "mistral-nemo": Shape(40, 5120, 32, 8, 128, 14336, 131072, False, "mistral", 12_247_782_400),
    "ministral-8b": Shape(36, 4096, 32, 8, 128, 12288, 131072, False, "mistral", 8_019_808_256),
    "phi-4-mini": Shape(32, 3072, 24, 8, 128, 8192, 200064, True, "phi3", 3_836_021_760),
    "deepseek-llm-7b": Shape(30, 4096, 32, 32, 128, 11008, 102400, False, "llama", 6_910_365_696),
    "deepseek-coder-6.7b": Shape(32, 4096, 32, 32, 128, 11008, 32256, False, "llama", 6_740_512_768),
    "qwen1.5-0.5b": Shape(24, 1024, 16, 16, 64, 2816, 151936, True, "qwen2", 463_987_712),
    "qwen1.5-1.8b": Shape(24, 2048, 16, 16, 128, 5504, 151936, False, "qwen2", 1_836_828_672),
    "qwen1.5-7b": Shape(32, 4096, 32, 32, 128, 11008, 151936, False, "qwen2", 7_721_324_544),
    "yi-1.5-6b": Shape(32, 4096, 32, 4, 128, 11008, 64000, False, "llama", 6_061_035_520),
    "yi-1.5-9b": Shape(48, 4096, 32, 4, 128, 11008, 64000, False, "llama", 8_829_407_232),
    "falcon3-1b": Shape(18, 2048, 8, 4, 256, 8192, 131072, False, "llama", 1_669_408_768),
    "falcon3-3b": Shape(22, 3072, 12, 4, 256, 9216, 131072, False, "llama", 3_227_655_168),
    "falcon3-7b": Shape(28, 3072, 12, 4, 256, 23040, 131072, False, "llama", 7_455_550_464),
    "falcon3-10b": Shape(40, 3072, 12, 4, 256, 23040, 131072, False, "llama", 10_305_653_760),
    "gpt-oss-20b": Shape(
        24, 2880, 64, 8, 64, 2880, 201088, False, "gpt_oss", 20_914_757_184, 32, 4, 2880
    ),
    "gpt-oss-120b": Shape(
        36, 2880, 64, 8, 64, 2880, 201088, False, "gpt_oss", 116_829_156_672, 128, 4, 2880
    ),
    "olmo-2-1b": Shape(16, 2048, 16, 16, 128, 8192, 100352, False, "olmo2", 1_484_916_736),
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


# Releases of one shape: "-2501", "-v0.1".
_DATE = re.compile(r"-(?:2[345]\d\d|v0\.\d)$")
# Models of another name with the shape of a row.
_SAME_SHAPE = {
    "qwq-32b": "qwen2.5-32b",
    "s1-32b": "qwen2.5-32b",
    "s1.1-32b": "qwen2.5-32b",
    "openr1-qwen-7b": "qwen2.5-7b",
    "openr1-distill-7b": "qwen2.5-7b",
    "deepscaler-1.5b-preview": "deepseek-r1-distill-qwen-1.5b",
    "skywork-or1-7b": "deepseek-r1-distill-qwen-7b",
    "skywork-or1-32b": "deepseek-r1-distill-qwen-32b",
    "deepseek-r1-0528-qwen3-8b": "qwen3-8b",
    "qwen3-coder-30b-a3b": "qwen3-30b-a3b",
    "hermes-3-llama-3.1-8b": "llama-3.1-8b",
    "phi-3.5-mini": "phi-3-mini-4k",
    "phi-3-mini": "phi-3-mini-4k",
    "phi-4-mini-reasoning": "phi-4-mini",
    "phi-4-reasoning": "phi-4",
    "phi-4-reasoning-plus": "phi-4",
    "deepseek-math-7b": "deepseek-llm-7b",
    "deepseek-math-7b-rl": "deepseek-llm-7b",
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "mistral-small": "mistral-small-24b",
    "smollm-135m": "smollm2-135m",
    "smollm-360m": "smollm2-360m",
    "smollm-1.7b": "smollm2-1.7b",
    "llama-3.1-70b-nemotron": "llama-3.1-70b",
}


@lru_cache(maxsize=256)
def normalise(name: str) -> str:
    """Return a model name without its owner and without the endings that do not change its shape, lower case."""
    text = name.strip().rstrip("/").rsplit("/", 1)[-1].lower().replace("_", "-")
    text = (
        text.replace("qwen2.5-math-", "qwen2.5-").replace("qwen2.5-coder-", "qwen2.5-").replace("meta-llama-", "llama-")
    )
    text = re.sub(r"^(olmo-2)-\d{4}-", r"\1-", text)
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
    undated = normalise(_DATE.sub("", key))
    for candidate in (key, name.strip().lower(), _SAME_SHAPE.get(key, ""), undated, _SAME_SHAPE.get(undated, "")):
        if candidate in KNOWN:
            return candidate, KNOWN[candidate]
    if key.startswith("mistral-7b"):
        return "mistral-7b-v0.3", KNOWN["mistral-7b-v0.3"]
    return None
