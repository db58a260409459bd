"""Every constant of the estimate with its source: read in code, measured on a CPU, or published as measured.

GB is 1e9 bytes throughout.
"""

from typing import NamedTuple

GB = 1e9

# The estimator's own lean side: against an estimator calibrated on A100 and L4 runs it answers 1 to 7 % lower, and
# that one's worst under-prediction is 8.9 %. So the last tenth of a card is not promised.
FITS_SHARE = 0.90
# vLLM's cache holds whole sequences at full length; answers end before the limit, so that room for half of them is room
# for all. With less, some wait for others to end.
QUEUE_SHARE = 0.5

# Caching allocator: reserved over allocated, one GPU and several (specs.py of agilerl-arena 1.29.0, measured there).
RESERVED_ONE_GPU = 1.05
RESERVED_MANY_GPUS = 1.07
# NCCL buffers of a multi-GPU process in GB (same source); L4 machines use far smaller channels.
NCCL_GB = 0.6
NCCL_L4_GB = 0.1

# What vLLM needs beside its weights: activations of the 4,096-token profiling batch and captured CUDA graphs. The pool
# check needs no more than that it is not less (vllm/v1/worker/gpu_worker.py takes it out of the utilization share).
VLLM_WORK_GB = 1.0
# Prompt tokens that TRL lets vLLM take in a step (trl/generation/vllm_generation.py, max_num_batched_tokens). A layer
# that attends to a window keeps room for that many beyond it (vllm/v1/kv_cache_interface.py, SlidingWindowSpec).
VLLM_BATCHED_TOKENS = 4096
# Left on the GPU by an engine asleep at level 2: its CUDA context share and graphs. Not measured publicly.
SLEEP_RESIDUE_GB = 0.6

# bitsandbytes: 4 bits, one 8-bit scale per 64 weights, one float32 per 256 scales (functional.py, nf4 double quant);
# without double quantisation a float32 per 64 weights.
NF4_DOUBLE_QUANT_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
NF4_BYTES = 0.5 + 4 / 64
# GPTQ and AWQ in 4 bits: a 16-bit scale and a 4-bit zero for each 128 weights (their usual group_size).
INT4_GROUP_BYTES = 0.5 + 2.5 / 128
# Bytes of a quantised weight with its scales, by how it is stored.
QUANTIZED_BYTES = {
    "nf4": NF4_DOUBLE_QUANT_BYTES, "nf4-single": NF4_BYTES, "int8": 1.0, "int4": INT4_GROUP_BYTES, "8-bit": 1.0,
}  # fmt: skip
# bitsandbytes 8-bit Adam: two 1-byte states and a float32 scale per 256 for each (optim/optimizer.py, block size 256).
ADAM_8BIT_BYTES = 2 * (1 + 4 / 256)

# TRL >= 1.15 (trl/kernels/chunked_logprob.py): the head runs in tiles of tokens x vocabulary columns.
TILE_TOKENS = 4096
TILE_COLUMNS = 32_768

# Liger's GRPO loss from liger-kernel 0.8 on (chunked_loss/fused_linear_ppo.py), which TRL 1.4 to 1.13 need: one
# sequence at a time, in chunks of tokens x vocabulary; a chunk's logits, probabilities and gradients are float32.
LIGER_TOKENS = 2048
LIGER_COLUMNS = 4096
LIGER_CHUNKS = 3

# DeepSpeed ZeRO-3 keeps the gathered parameters of the layer at work and of the prefetched one; its default buckets
# (stage3_prefetch_bucket_size, reduce_bucket_size under "auto") come to about half a GB for a 7B. Stages 1 and 2 use
# one reduce bucket of 5e8 elements in bf16 (deepspeed/runtime/config.py defaults).
ZERO3_BUCKETS_GB = 0.5
ZERO2_BUCKET_GB = 1.0

# Baseline of a CPU process that has imported torch, transformers and trl (measured: resident set after the imports).
CPU_PROCESS_GB = 0.8


class Card(NamedTuple):
    """A GPU model: memory as CUDA reports it, memory bandwidth, context size, all in GB (per second)."""

    memory_gb: float
    bandwidth_gb_s: float
    context_gb: float
    label: str


# CUDA context in GB: T4, L4, A100 and H100 from agilerl-arena 1.29.0 (measured); others take their generation's.
CONTEXT_GB = {"T4": 0.4, "L4": 0.7, "A100": 1.33, "H100": 1.05}
DEFAULT_CONTEXT_GB = 0.7
# Memory: torch.cuda.get_device_properties().total_memory as published in run logs; bandwidth: vendor data sheets.
CARDS: dict[str, Card] = {
    "T4": Card(15.8, 320, 0.4, "T4 16 GB"),
    "V100-16": Card(16.9, 900, 0.7, "V100 16 GB"),
    "V100": Card(34.1, 900, 0.7, "V100 32 GB"),
    "L4": Card(24.1, 300, 0.7, "L4 24 GB"),
    "A10": Card(24.1, 600, 0.7, "A10 24 GB"),
    "RTX3090": Card(25.4, 936, 0.7, "RTX 3090 24 GB"),
    "RTX4090": Card(25.4, 1008, 0.7, "RTX 4090 24 GB"),
    "RTX5090": Card(33.7, 1792, 0.7, "RTX 5090 32 GB"),
    "A100-40": Card(42.4, 1555, 1.33, "A100 40 GB"),
    "L40S": Card(47.8, 864, 0.7, "L40S 48 GB"),
    "A6000": Card(51.0, 768, 0.7, "RTX A6000 48 GB"),
    "A100": Card(85.1, 2039, 1.33, "A100 80 GB"),
    "H100": Card(85.0, 3350, 1.05, "H100 80 GB"),
    "H20": Card(102.6, 4000, 1.05, "H20 96 GB"),
    "GH200": Card(101.9, 4000, 1.05, "GH200 96 GB"),
    "H200": Card(150.1, 4800, 1.05, "H200 141 GB"),
    "B200": Card(191.5, 8000, 1.05, "B200 180 GB"),
    "MI300X": Card(205.8, 5300, 1.05, "MI300X 192 GB"),
    # Unified memory: CUDA sees 121.7 GiB and about 102 GiB are free once the system runs.
    "SPARK": Card(109.5, 273, 0.7, "DGX Spark 128 GB, 102 GiB free"),
}
# Other spellings of a card's name, after upper-casing and dropping spaces and dashes; longest first.
CARD_ALIASES: tuple[tuple[str, str], ...] = (
    ("A10040", "A100-40"), ("A800", "A100"), ("A100", "A100"), ("H800", "H100"), ("H100", "H100"), ("H200", "H200"),
    ("B200", "B200"), ("GH200", "GH200"), ("H20", "H20"), ("L40S", "L40S"), ("A6000", "A6000"), ("A10G", "A10"),
    ("A10", "A10"), ("L4", "L4"), ("T4", "T4"), ("V10016", "V100-16"), ("V100", "V100"), ("3090", "RTX3090"),
    ("4090", "RTX4090"), ("5090", "RTX5090"), ("MI300X", "MI300X"), ("SPARK", "SPARK"), ("GB10", "SPARK"),
)  # fmt: skip
# Share of the peak bandwidth that decoding sustains: weight-streaming kernels of vLLM reach 60 to 80 %.
SUSTAINED_BANDWIDTH = 0.7


class LayerCoefficients(NamedTuple):
    """Bytes that one decoder layer saves for backward per token: times hidden, MLP width, query width, key width."""

    hidden: float
    intermediate: float
    queries: float
    keys: float

    def bytes_per_token(self, hidden: int, intermediate: int, queries: int, keys: int) -> float:
        """Return the bytes one token costs in one layer."""
        return self.hidden * hidden + self.intermediate * intermediate + self.queries * queries + self.keys * keys


# Saved by one decoder layer, measured on CPU with saved-tensor hooks (transformers 5.24, torch 2.13, sdpa, a batch with
# padding); every shape fits to the byte, and tests/memory measures them again. Where they come from, in bf16: two
# RMSNorms keep x in float32, its normed copy and the product (2 x 8 H); gate, up, their activation and product (8 I);
# rotated q, the attention output, and k and v repeated to the query width, since sdpa groups no heads under a padding
# mask (8 Hq). 0.06 Hq is the log-sum-exp of heads of 64. By what is trained and the width of the residual stream.
LAYER = {
    "full_16bit": LayerCoefficients(16.0, 8.0, 8.06, 0.0),
    "full_fp32_autocast": LayerCoefficients(26.0, 8.0, 8.06, 0.0),
    "full_fp32": LayerCoefficients(24.0, 16.0, 16.06, 0.0),
    "lora_autocast": LayerCoefficients(18.0, 8.0, 10.06, 0.0),
    "lora_16bit": LayerCoefficients(28.0, 10.0, 12.06, 0.0),
    "lora_fp32": LayerCoefficients(16.0, 16.0, 16.06, 0.0),
}
# Flash kernels take unpadded batches and grouped heads: k and v stay at their own width (measured without a mask).
FLASH_CHANGE = LayerCoefficients(0.0, 0.0, -4.0, 4.0)
# RMSNorm over each head of q and k (Qwen3), full fine-tune and LoRA.
QK_NORM_FULL = LayerCoefficients(0.0, 0.0, 6.06, 6.06)
QK_NORM_LORA = LayerCoefficients(0.0, 0.0, 4.06, 4.06)
# What a layer of another family saves beyond one of Llama's, measured in the same way (transformers 5.24; all shapes to
# the byte). Gemma's norm keeps its float32 product, Gemma 2 and GLM-4 norm a layer's results too, Gemma 4 its values;
# OLMo 2 norms q and k over all heads; a plain MLP keeps no gate, StarCoder2's LayerNorm less than an RMSNorm.
_NOTHING = LayerCoefficients(0.0, 0.0, 0.0, 0.0)


def _changes(**modes: tuple[float, float, float, float]) -> dict[str, LayerCoefficients]:
    return {mode: LayerCoefficients(*modes.get(mode, _NOTHING)) for mode in LAYER}


def _four_norms(full: tuple[float, float], lora: float) -> dict[str, LayerCoefficients]:
    """Gemma from 2 on; `full` and `lora` are what its norms of q, k and v keep beyond those of Qwen3."""
    wide, narrow = (16.0, 0.0, *full), (8.0, 0.0, 0.0, lora)
    return _changes(
        full_16bit=(20.0, 0.0, *full), full_fp32_autocast=wide, full_fp32=wide, lora_autocast=narrow,
        lora_16bit=narrow, lora_fp32=narrow,
    )  # fmt: skip


_STARCODER = _changes(
    full_16bit=(-8.0, -4.0, 0.0, 0.0), full_fp32_autocast=(-10.0, -4.0, 0.0, 0.0), full_fp32=(-8.0, -8.0, 0.0, 0.0),
    lora_autocast=(-2.0, -4.0, 0.0, 0.0), lora_16bit=(-8.0, -4.0, 0.0, 0.0), lora_fp32=(0.0, -8.0, 0.0, 0.0),
)  # fmt: skip
_OLMO = _changes(
    full_16bit=(4.0, 0.0, 2.0, 2.0), full_fp32_autocast=(0.0, 0.0, 2.0, 2.0), full_fp32=(0.0, 0.0, 2.0, 2.0)
)
LAYER_CHANGE = {
    "gemma": _changes(full_16bit=(4.0, 0.0, 0.0, 0.0)),
    "gemma2": _four_norms((0.0, 0.0), 0.0),
    "gemma3": _four_norms((2.0, 2.0), 0.0),
    "gemma3_text": _four_norms((2.0, 2.0), 0.0),
    "gemma4_text": _four_norms((2.0, 6.2), 4.2),
    "gemma4_unified_text": _four_norms((2.0, 6.2), 4.2),
    "olmo2": _OLMO,
    "olmo3": _OLMO,
    "glm4": _changes(
        full_16bit=(12.0, 0.0, 2.0, 0.0), full_fp32_autocast=(10.0, 0.0, 2.0, 0.0), full_fp32=(16.0, 0.0, 4.0, 0.0),
        lora_autocast=(6.0, 0.0, 0.0, 0.0), lora_16bit=(4.0, 0.0, 0.0, 0.0), lora_fp32=(8.0, 0.0, 4.0, 0.0),
    ),
    "starcoder2": _STARCODER,
    "nemotron": _STARCODER,
    "arcee": _changes(
        full_16bit=(0.0, -4.0, 0.0, 0.0), full_fp32_autocast=(-2.0, -4.0, 0.0, 0.0), full_fp32=(0.0, -8.0, 0.0, 0.0),
        lora_autocast=(-2.0, -4.0, 0.0, 0.0), lora_16bit=(-4.0, -4.0, 0.0, 0.0), lora_fp32=(0.0, -8.0, 0.0, 0.0),
    ),
}  # fmt: skip
# A gated delta rule (Qwen3-Next, Qwen3.5) in transformers' own code, with its MLP: times hidden, MLP, value and key
# width. It holds the states and decays of every chunk of 64 tokens in float32; flash-linear-attention's kernels do not.
DELTA = {
    "full_16bit": LayerCoefficients(20.0, 8.0, 94.3, 8.1),
    "full_fp32_autocast": LayerCoefficients(41.3, 9.0, 100.3, 7.9),
    "full_fp32": LayerCoefficients(22.1, 13.8, 109.4, 22.2),
    "lora_autocast": LayerCoefficients(20.1, 8.1, 92.3, 8.1),
    "lora_16bit": LayerCoefficients(32.1, 10.1, 84.3, 8.1),
    "lora_fp32": LayerCoefficients(14.1, 13.8, 105.4, 22.2),
}
# Its gradients in flight while backward recomputes it (16-bit weights, measured as RECOMPUTE_LORA below).
RECOMPUTE_DELTA = LayerCoefficients(0.0, 0.0, 18.6, 4.0)
# A mixture's layer also keeps each chosen expert's gathered input and output (measured on Qwen3-MoE, per active
# expert); with float32 weights the experts, held as one parameter, compute in float32 also under autocast.
EXPERT_HIDDEN = 4.0
EXPERT_INTERMEDIATE = 8.0
# Liger's layer kernels (use_liger_kernel): RMSNorm keeps its input and output alone, SwiGLU no separate activation
# (liger_kernel/ops/rms_norm.py and swiglu.py, what save_for_backward is given).
LIGER_CHANGE = LayerCoefficients(-8.0, -2.0, 0.0, 0.0)
# sdpa turns the padding mask into 2-byte additive scores for every layer (measured: 2 B x length a token).
MASK_BYTES = 2
# Eager attention keeps the float32 softmax of the scores and its 16-bit copy (measured: 6 bytes a score and head).
EAGER_BYTES = 6
# Gemma 2 caps the scores by a tanh, whose result it keeps too.
SOFTCAP_BYTES = 2

# Beyond what it saves, backward through a recomputed layer holds gradients in flight. Measured on CPU as the peak of
# allocations over a checkpointed model, less what is saved: exact in the widths, at the backward of the MLP.
RECOMPUTE_FULL_16BIT = LayerCoefficients(-4.4, 4.0, 2.0, 0.0)
RECOMPUTE_FULL_FP32 = LayerCoefficients(-8.4, 4.0, 1.0, 0.0)
RECOMPUTE_LORA = LayerCoefficients(6.0, 6.0, 2.0, 0.0)
# Liger writes the gradients of gate and up over their values (swiglu.py, backward).
RECOMPUTE_LIGER_CHANGE = LayerCoefficients(0.0, -4.0, 0.0, 0.0)

# Full-logits head: bytes per logit at the peak, by the width of the logits that reach the loss (accelerate converts a
# mixed-precision model's output to float32). Measured on CPU over TRL's own sequence of operations, 1, 4 and 16 rows;
# tests/memory measures it again. TRL 1.0 to 1.9 divided by the temperature in place, on a view, which makes backward
# clone the gradient; 0.16 to 0.29 and 1.10 to 1.14 divided into a copy.
HEAD_IN_PLACE = {4: 16.0, 2: 8.0}
HEAD_COPY = {4: 12.0, 2: 6.4}
# One row a micro-batch: the row's own temporaries are as large as all logits.
HEAD_ONE_ROW = {4: 16.0, 2: 8.0}
HEAD_NO_GRAD = {4: 8.0, 2: 4.0}
