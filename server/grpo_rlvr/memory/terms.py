"""The terms of memory, in bytes on one GPU: each function says its formula, constants.py where its numbers are from."""

from collections.abc import Mapping

from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory.checkpoint import BITSANDBYTES
from grpo_rlvr.memory.families import SOFTCAPPED
from grpo_rlvr.memory.mixers import LinearAttention
from grpo_rlvr.memory.plan import Plan

WIDTH = {"float32": 4, "bfloat16": 2, "float16": 2}
# Bytes of optimizer state per trained parameter: (states, follows the parameter's dtype). transformers' optim names.
_STATES: tuple[tuple[str, float, bool], ...] = (
    ("adafactor", 0.05, False),  # a row and a column per matrix, first moment off
    ("lion_8bit", c.ADAM_8BIT_BYTES / 2, False),
    ("lion", 1, True),
    ("ademamix_8bit", c.ADAM_8BIT_BYTES * 1.5, False),
    ("ademamix", 3, True),
    ("8bit", c.ADAM_8BIT_BYTES, False),
    ("4bit", 1.0, False),
    ("rmsprop", 1, True),
    ("adagrad", 1, True),
    ("sgd", 0, True),
    ("lomo", 0, True),
    ("galore", 0.3, True),
    ("apollo", 0.3, True),
)


def weight_width(plan: Plan) -> int:
    """Bytes of an unquantised weight as it lies in memory while training."""
    if plan.sharding.engine == "deepspeed" and plan.sharding.stage and plan.autocast and not plan.quantized:
        return 2  # DeepSpeed casts the module to its bf16 or fp16; the float32 copy is in the optimizer
    if plan.sharding.engine == "fsdp" and plan.full and plan.autocast:
        return 4  # accelerate upcasts trained parameters to float32 under mixed precision
    if plan.quantized and (0, 22) <= plan.version < (0, 26):
        return _prepared_width(plan)
    return WIDTH[plan.dtype]


def _prepared_width(plan: Plan) -> int:
    """Embedding and head of a quantised model as TRL's prepare_peft_model leaves them (trl/models/utils.py).

    With bf16 they become bfloat16; without, PEFT's prepare_model_for_kbit_training made them float32 up to 0.24.
    """
    if plan.autocast == "bfloat16":
        return 2
    return 4 if plan.version < (0, 25) else WIDTH[plan.dtype]


def trained_width(plan: Plan) -> int:
    """Bytes of a trained parameter and of its gradient."""
    if plan.full:
        return weight_width(plan)
    if plan.quantized and plan.version >= (0, 26):
        return 2  # TRL casts a quantised model's adapter to bfloat16 (grpo_trainer.py, since 0.26)
    if plan.sharding.stage == 3 and plan.sharding.engine == "deepspeed":
        return 2
    return 4  # PEFT keeps adapters in float32 (autocast_adapter_dtype)


def adapter_params(plan: Plan) -> int:
    """LoRA parameters: rank x (in + out) over the targeted linears."""
    if plan.lora is None:
        return 0
    f = plan.facts
    queries = (2 if f.query_gate else 1) * f.q_width
    sizes = {
        "q_proj": f.hidden + queries, "k_proj": f.hidden + f.kv_width, "v_proj": f.hidden + f.kv_width,
        "o_proj": f.q_width + f.hidden,
    }  # fmt: skip
    width, copies = 0, 1
    if f.experts:
        width, copies = (f.expert_intermediate, f.experts) if plan.experts_are_linears else (f.shared_intermediate, 1)
    mlp = ("gate_proj", "up_proj", "down_proj")[3 - f.mlp_matrices :]
    attention = f.attention_layers * sum(size for name, size in sizes.items() if name in plan.lora.targets)
    everything = len(plan.lora.targets) >= len(sizes) + 3
    if f.latent and everything:
        attention = f.attention_layers * sum(map(sum, f.latent.projections(f.hidden, f.heads)))
    if f.linear and everything:
        attention += f.linear.layers * sum(map(sum, f.linear.projections(f.hidden)))
    routed = f.expert_layers * copies * (f.hidden + width) if width else 0
    dense = f.dense_mlps * (f.hidden + f.intermediate)
    blocks = attention + (routed + dense) * sum(name in plan.lora.targets for name in mlp)
    outer = sum(f.hidden + f.vocab for name in ("lm_head", "embed_tokens") if name in plan.lora.targets)
    return plan.lora.rank * (blocks + outer)


def trained_params(plan: Plan) -> int:
    """Parameters that have gradients."""
    return plan.facts.params if plan.full else adapter_params(plan)


def quantized_params(plan: Plan) -> int:
    """Weights stored quantised: the linears of the blocks and of a vision tower.

    bitsandbytes passes over experts that are held as one parameter; a checkpoint of another method has them quantised.
    """
    if not plan.quantized:
        return 0
    passed_over = plan.quantized in BITSANDBYTES and not plan.experts_are_linears
    experts = plan.facts.expert_layers * plan.facts.expert_params if passed_over else 0
    linears = plan.facts.block_linear_params + plan.facts.tower - experts
    return min(linears, plan.facts.params - plan.facts.embedding_params)


def quantized_width(plan: Plan) -> float:
    """Bytes of a quantised weight with its scales."""
    return c.QUANTIZED_BYTES[plan.quantized]


def whole_weights(plan: Plan) -> float:
    """The policy's weights before sharding."""
    packed = quantized_params(plan)
    return packed * (quantized_width(plan) if packed else 0) + (plan.facts.params - packed) * weight_width(plan)


def weights(plan: Plan) -> float:
    """The policy's weights: params x width, 4-bit linears x 0.516; / GPUs under ZeRO-3 and FSDP; 0 if offloaded."""
    if "param" in plan.sharding.offload:
        return 0.0
    shards = plan.devices.training if plan.sharding.stage == 3 else 1
    return whole_weights(plan) / shards


def adapters(plan: Plan) -> float:
    """The adapter: LoRA parameters x 4 bytes (2 for ZeRO-3, and for QLoRA since TRL 0.26)."""
    return adapter_params(plan) * trained_width(plan) / _shards(plan, 3)


def _shards(plan: Plan, from_stage: int) -> int:
    return plan.devices.training if plan.sharding.stage >= from_stage else 1


def gradients(plan: Plan) -> float:
    """Gradients: trained params x their width; / GPUs from ZeRO-2; DDP keeps as much again in buckets."""
    if plan.sharding.stage >= 2 and "optimizer" in plan.sharding.offload:
        return 0.0
    if "lomo" in plan.optim:
        return 0.0
    copies = 2 if plan.sharding.engine == "ddp" and plan.devices.training > 1 else 1
    return trained_params(plan) * trained_width(plan) * copies / _shards(plan, 2)


def is_paged(plan: Plan) -> bool:
    """Whether the states lie in managed memory, outside torch's allocator, and move to the host when the card is full.

    bitsandbytes/optim/optimizer.py, get_state_buffer: every tensor from 100,000 elements on is paged.
    """
    return plan.optim.startswith("paged_") and not plan.on_cpu


def optimizer(plan: Plan) -> float:
    """Optimizer states: two of the parameter's width for Adam; DeepSpeed in bf16 a float32 copy and two states."""
    if "optimizer" in plan.sharding.offload or is_paged(plan):
        return 0.0
    count = trained_params(plan)
    if plan.sharding.engine == "deepspeed" and plan.sharding.stage and plan.autocast:
        return count * 12 / _shards(plan, 1)
    return count * _state_bytes(plan) / _shards(plan, 1)


def _state_bytes(plan: Plan) -> float:
    for name, states, follows in _STATES:
        if name in plan.optim:
            per_param = states * trained_width(plan) if follows else states
            if name.endswith("8bit") and plan.full:
                # transformers keeps embeddings in 32-bit states with the 8-bit optimizers (Trainer.create_optimizer).
                share = plan.facts.vocab * plan.facts.hidden / plan.facts.params
                return per_param * (1 - share) + 8 * share
            return per_param
    return 2 * trained_width(plan)


def step_temporary(plan: Plan) -> float:
    """What the optimizer step adds for a moment: one parameter-sized temporary with the unfused AdamW."""
    if plan.optim in ("adamw_torch", "adamw_hf") and "optimizer" not in plan.sharding.offload:
        return trained_params(plan) * trained_width(plan) / _shards(plan, 1)
    return 0.0


def reference(plan: Plan) -> float:
    """The reference policy: a second copy, only for a full fine-tune with beta above 0."""
    if not plan.full or plan.beta == 0:
        return 0.0
    return whole_weights(plan) / _shards(plan, 3)


def compute_width(plan: Plan) -> int:
    """Bytes of an activation inside a linear layer."""
    return 2 if plan.autocast else WIDTH[plan.dtype]


def layer_bytes(plan: Plan) -> float:
    """Bytes one token saves in one live layer, the terms that grow with length squared apart."""
    size = _per_token(plan, _measured(plan, c.LAYER))
    if plan.facts.model_type in c.LAYER_CHANGE:
        size += _per_token(plan, _measured(plan, c.LAYER_CHANGE[plan.facts.model_type]))
    if plan.facts.experts:
        chosen = c.EXPERT_HIDDEN * plan.facts.active * plan.facts.hidden
        size += chosen
        if stream_width(plan) == 4:
            size += chosen + c.EXPERT_INTERMEDIATE * plan.facts.active * plan.facts.expert_intermediate
    if plan.facts.qk_norm:
        size += _per_token(plan, c.QK_NORM_FULL if plan.full else c.QK_NORM_LORA)
    if "flash" in plan.attention:
        size += _per_token(plan, c.FLASH_CHANGE)
    return size + (_per_token(plan, c.LIGER_CHANGE) if plan.liger else 0)


def _per_token(plan: Plan, coefficients: c.LayerCoefficients) -> float:
    f = plan.facts
    return coefficients.bytes_per_token(f.hidden, f.layer_intermediate, f.q_width, f.kv_width)


def _measured(plan: Plan, kinds: Mapping[str, c.LayerCoefficients]) -> c.LayerCoefficients:
    """Return the coefficients of a kind of layer that were measured for this way to train."""
    wide = stream_width(plan) == 4
    if plan.full:
        return kinds["full_16bit" if not wide else "full_fp32_autocast" if plan.autocast else "full_fp32"]
    return kinds["lora_autocast" if plan.autocast else "lora_fp32" if wide else "lora_16bit"]


def delta_layer_bytes(plan: Plan) -> float:
    """Bytes one token saves in a live layer of a gated delta rule in transformers' own code; 0 without such layers."""
    if plan.delta_kernels or not isinstance(plan.facts.linear, LinearAttention):
        return 0.0
    return _per_delta_token(plan, _measured(plan, c.DELTA))


def _per_delta_token(plan: Plan, coefficients: c.LayerCoefficients) -> float:
    mixer = plan.facts.linear
    if not isinstance(mixer, LinearAttention):
        return 0.0
    values, keys = mixer.value_width, mixer.key_width
    return coefficients.bytes_per_token(plan.facts.hidden, plan.facts.layer_intermediate, values, keys)


def mean_layer_bytes(plan: Plan) -> float:
    """Bytes one token saves in a live layer, over the layers of all kinds."""
    delta = delta_layer_bytes(plan)
    if not delta or plan.facts.linear is None:
        return layer_bytes(plan)
    share = plan.facts.linear.layers / plan.facts.layers
    return share * delta + (1 - share) * layer_bytes(plan)


def attention_square(plan: Plan) -> float:
    """What one layer's attention saves with length squared: the mask's scores, or all scores of the eager kernel."""
    square = plan.rows * float(plan.prompt + plan.completion) ** 2
    if "flash" in plan.attention:
        return 0.0
    if plan.attention != "eager":
        return square * c.MASK_BYTES
    score = c.EAGER_BYTES + (c.SOFTCAP_BYTES if plan.facts.model_type in SOFTCAPPED else 0)
    return square * plan.facts.heads * score


def live_layer(plan: Plan) -> float:
    """What one layer saves for the micro-batch, the widest kind of them."""
    attending = layer_bytes(plan) * plan.tokens + attention_square(plan)
    return max(attending, delta_layer_bytes(plan) * plan.tokens)


def stream_width(plan: Plan) -> int:
    """Bytes of the residual stream: float32 weights keep it in float32 also under autocast."""
    return weight_width(plan) if not plan.quantized else WIDTH[plan.dtype]


def saved_activations(plan: Plan) -> float:
    """Saved for backward: hidden x tokens x stream width of each recomputed layer, every other layer whole."""
    mean = mean_layer_bytes(plan) * plan.tokens + attention_square(plan)
    whole = (plan.facts.layers - plan.recomputed_layers) * mean
    if plan.checkpoints.offload:
        return whole
    stream = plan.facts.streams * plan.facts.hidden * stream_width(plan)
    return plan.recomputed_layers * stream * plan.tokens + whole


def recomputed_layer(plan: Plan) -> float:
    """The one layer that backward recomputes, with the gradients in flight; 0 without checkpointing."""
    if not plan.checkpointing:
        return 0.0
    if plan.full:
        extra = c.RECOMPUTE_FULL_FP32 if stream_width(plan) == 4 else c.RECOMPUTE_FULL_16BIT
    else:
        extra = c.RECOMPUTE_LORA
    flight = _per_token(plan, extra) + (_per_token(plan, c.RECOMPUTE_LIGER_CHANGE) if plan.liger else 0)
    attending = (layer_bytes(plan) + flight) * plan.tokens + attention_square(plan)
    delta = delta_layer_bytes(plan) + _per_delta_token(plan, c.RECOMPUTE_DELTA) if delta_layer_bytes(plan) else 0.0
    return max(attending, delta * plan.tokens)


def head_path(plan: Plan) -> str:
    """How this TRL version scores the completions.

    in_place or copy (full logits), liger_row (Liger before 0.8: all logits of a sequence), liger_chunks, or tiled.
    """
    if plan.version >= (1, 15) or (plan.liger and plan.version >= (1, 14)):
        return "tiled"
    if plan.liger:
        return "liger_chunks" if plan.version >= (1, 4) else "liger_row"
    return "in_place" if (1, 0) <= plan.version < (1, 10) else "copy"


def logit_width(plan: Plan) -> int:
    """Bytes of a logit that reaches the loss: float32 under mixed precision, else the weights' width.

    accelerate converts the outputs of a mixed-precision model to float32 (prepare_model), but of none that DeepSpeed
    runs (_prepare_deepspeed): there the module itself is 16-bit, and so are its logits.
    """
    if plan.sharding.engine == "deepspeed" and not plan.head_fp32:
        return weight_width(plan)
    return 4 if plan.autocast or plan.head_fp32 else WIDTH[plan.dtype]


def head_bytes(plan: Plan) -> float:
    """Bytes per logit at the peak of the full-logits head."""
    if head_path(plan) == "in_place":
        return c.HEAD_IN_PLACE[logit_width(plan)]
    return (c.HEAD_ONE_ROW if plan.rows == 1 else c.HEAD_COPY)[logit_width(plan)]


def head(plan: Plan) -> float:
    """Logits and their gradients while the completion is scored."""
    f, scored = plan.facts, plan.scored
    path = head_path(plan)
    if path in ("in_place", "copy"):
        return head_bytes(plan) * scored * f.vocab
    width = 4 if plan.head_fp32 else weight_width(plan)
    if path == "liger_row":
        # The gradient of the head and its sum over sequences, of a frozen head too.
        return c.HEAD_ONE_ROW[4] * plan.completion * f.vocab + 2 * width * f.vocab * f.hidden
    if path == "liger_chunks":
        return _liger_chunks(plan, width)
    grad_head = f.vocab * f.hidden * (4 + width) if plan.full else 0
    tile = min(scored, c.TILE_TOKENS) * c.TILE_COLUMNS * 2
    return tile + scored * f.hidden * (width + 6) + f.hidden * c.TILE_COLUMNS * 2 + grad_head


def _liger_chunks(plan: Plan, width: int) -> float:
    f = plan.facts
    chunk = c.LIGER_CHUNKS * 4 * min(plan.completion, c.LIGER_TOKENS) * c.LIGER_COLUMNS + 4 * c.LIGER_COLUMNS * f.hidden
    hidden = f.hidden * (4 * plan.completion + width * plan.scored)
    return chunk + hidden + (liger_head_gradient(plan) if plan.full or not plan.liger_frees_head else 0)


def liger_head_gradient(plan: Plan) -> float:
    """A float32 gradient of the head, the same in 16 bits where the weights are, and the sum over sequences."""
    return plan.facts.vocab * plan.facts.hidden * 8.0


def head_without_grad(plan: Plan) -> float:
    """Logits of the pass without gradients: one slice at a time, no gradients of them; Liger has no part in it."""
    if head_path(plan) != "tiled":
        return plan.scored * plan.facts.vocab * c.HEAD_NO_GRAD[logit_width(plan)]
    return min(plan.scored, c.TILE_TOKENS) * c.TILE_COLUMNS * 2 + plan.scored * plan.facts.hidden * 4


def autocast_copies(plan: Plan) -> float:
    """Half-precision copies of float32 linear weights, alive while the forward's autocast context is open."""
    if not plan.autocast or weight_width(plan) != 4 or plan.quantized:
        return 0.0
    if plan.sharding.stage == 3:
        return 2 * plan.facts.block_linear_params / plan.facts.layers
    # A frozen weight is cast for its product and let go; only weights with gradients stay in autocast's cache.
    return 2.0 * plan.facts.block_linear_params if plan.full else 0.0


def gathered_layers(plan: Plan) -> float:
    """Parameters gathered for the layer at work and the next, with communication buckets."""
    if plan.sharding.stage == 3:
        width = 2 if plan.autocast else weight_width(plan)
        layers = 2 * plan.facts.block_linear_params / plan.facts.layers * width
        return layers + c.ZERO3_BUCKETS_GB * c.GB
    if plan.sharding.engine == "deepspeed" and plan.sharding.stage:
        return c.ZERO2_BUCKET_GB * c.GB
    return 0.0
