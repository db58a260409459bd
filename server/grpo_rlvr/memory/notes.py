"""What the numbers do not show by themselves: refusals at start, silent defaults, rules of thumb that mislead here."""

from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory import serving
from grpo_rlvr.memory import terms as t
from grpo_rlvr.memory.checkpoint import BITSANDBYTES, UNPACKED
from grpo_rlvr.memory.mixers import KimiDelta, Lightning, SelectiveScan, StateSpace
from grpo_rlvr.memory.phases import Computed, share_for
from grpo_rlvr.memory.plan import Plan


def write_notes(computed: Computed) -> list[str]:
    """Return the notes that hold for a plan."""
    plan = computed.plan
    return [
        *_architecture(plan),
        *_sync(computed),
        *_cpu(plan),
        *_engine(computed),
        *_weights(plan),
        *_images(plan),
        *_rest(plan, computed),
    ]


def _architecture(plan: Plan) -> list[str]:
    f = plan.facts
    if f.source.startswith("known model qwen3.5"):
        return [
            "The vision tower in Qwen3.5's checkpoints is not counted. AutoModelForCausalLM leaves it out; TRL, given "
            "the model by name, loads it, and so does vLLM. The model's config.json as model.config counts it."
        ]
    unsure = [] if f.counted_as_its_class else [_uncounted(plan)]
    return unsure + _unmeasured(plan)


def _uncounted(plan: Plan) -> str:
    f = plan.facts
    ask = "" if f.stated_params else " State model.params_b to set the size right."
    if f.uncounted:
        return (
            f"Its config.json names what is not modelled: {', '.join(f.uncounted)}. What that keeps is not in the "
            f"figures: the verdict is a guess.{ask}"
        )
    counted = "Its size is as stated; its layers are taken" if f.stated_params else "Its parameters are counted"
    return (
        f"The architecture '{f.model_type}' is not modelled. {counted} as those of a plain decoder of the same sizes, "
        f"which can be far off: the verdict is a guess.{ask}"
    )


def _unmeasured(plan: Plan) -> list[str]:
    """What layers of an unusual kind keep for backward, where that was not measured."""
    mixer, notes = plan.facts.linear, []
    if isinstance(mixer, StateSpace | SelectiveScan):
        name = "Mamba-2" if isinstance(mixer, StateSpace) else "Mamba-1"
        notes.append(
            f"What a {name} mixer keeps for backward is taken as what attention keeps: true to size with the mamba-ssm "
            "kernels at best; without them it is far more."
        )
    if isinstance(mixer, KimiDelta | Lightning):
        notes.append(
            "What this linear attention keeps for backward is not measured: it is taken as what attention keeps, true "
            "to size with its own kernels at best."
        )
    if plan.facts.latent:
        notes.append(
            "A live layer of latent attention is counted as a plain decoder's: 10 to 24 % too little for a full "
            "fine-tune and within 14 % for LoRA, measured on layers of DeepSeek's widths."
        )
    if plan.facts.streams > 1:
        notes.append(
            f"A layer's input is {plan.facts.streams} streams wide, which is counted; what its layers keep beside that "
            "for backward is taken as a plain decoder's, which is too little."
        )
    return notes


def _images(plan: Plan) -> list[str]:
    if not plan.facts.tower:
        return []
    return [
        "With images: their tokens belong to dataset.max_prompt_tokens, and what the vision tower keeps for them is "
        "not counted. It grows with the pixels, and is many times larger without gradient checkpointing."
    ]


def _sync(computed: Computed) -> list[str]:
    plan = computed.plan
    if computed.sync_in_doubt:
        return [
            f"Under ZeRO-3 ms-swift gathers the whole model ({serving.whole_sync(plan) / c.GB:.0f} GB) on every GPU to "
            "send it to vLLM, which does not fit, unless move_model_batches splits it: set that (to 16, or some layers "
            "a group) and state it as launch.move_model_batches. The figures are for groups."
        ]
    if not serving.gathers_for_sync(plan):
        return []
    size = serving.sync_transient(plan) / c.GB
    text = f"TRL gathers the whole model ({size:.0f} GB) on every GPU to merge the adapter at each weight sync"
    memory = plan.devices.memory_gb
    if not memory or computed.totals["weight_sync"] <= memory * c.GB:
        return [f"{text}."]
    if plan.version_stated:
        return [f"{text}, which does not fit: use ZeRO-2, or FSDP, or more memory a GPU."]
    return [
        f"{text}, which does not fit this card. Trainers built on TRL that send it in groups (ms-swift with "
        "move_model_batches) do fit; with TRL's own trainer, stated by its version, the verdict is does_not_fit."
    ]


def _cpu(plan: Plan) -> list[str]:
    if not plan.on_cpu:
        return []
    text = "Trains on the CPU: the figures are host memory of one process."
    return [text] if plan.devices.memory_gb else [f"{text} State hardware.ram_gb for a verdict."]


def _engine(computed: Computed) -> list[str]:
    plan = computed.plan
    notes = []
    memory = plan.devices.memory_gb
    if computed.pool_too_small:
        notes.append(
            f"vLLM refuses to start: its share of {computed.pool / c.GB:.1f} GB is below the "
            f"{computed.pool_needs / c.GB:.1f} GB for its weights, work space and one sequence of "
            f"{plan.engine.max_length:,} tokens."
        )
    notes += _pool(computed)
    if plan.engine.mode == "colocate" and memory and computed.totals["start"] / c.GB > memory:
        notes.append("vLLM refuses to start: the policy is on the card already, and free memory is below its share.")
    if plan.engine.sleep and computed.totals["generation"] > computed.totals["training"]:
        notes.append(
            "Sleep lowers the training peak only; while vLLM is awake the policy, its reference and its optimizer "
            "states stay on the card, and that phase is the higher one here."
        )
    if plan.engine.mode != "none" and plan.quantized:
        notes.append("Quantised weights with vLLM: each sync merges the adapter into them and loses precision.")
    if plan.engine.mode == "server" and plan.devices.server == 0:
        notes.append(
            "The vLLM server's GPUs are not part of this estimate; it must run on other GPUs than the trainer."
        )
    return notes


def _pool(computed: Computed) -> list[str]:
    plan = computed.plan
    if plan.engine.mode != "colocate" or not plan.devices.memory_gb or computed.pool_too_small:
        return []
    notes = []
    if computed.pool_needs > c.FITS_SHARE * computed.pool:
        notes.append(
            f"vLLM's share of {computed.pool / c.GB:.2f} GB has less than a tenth to spare over the "
            f"{computed.pool_needs / c.GB:.2f} GB it needs to start: it may refuse. A share of "
            f"{share_for(plan, computed.pool_needs / c.FITS_SHARE):g} is safe."
        )
    held, wanted = computed.sequences, computed.wanted_sequences
    if held < wanted:
        each = min(plan.prompt + plan.completion, plan.engine.max_length)
        notes.append(
            f"Generation is queued: vLLM's cache holds {_sequences(held)} of {each:,} tokens at a time, of {wanted} "
            "wanted; shorter answers leave room for more."
        )
    return notes


def _sequences(count: int) -> str:
    return "one sequence" if count == 1 else f"{count} sequences"


def _weights(plan: Plan) -> list[str]:
    if not plan.full or plan.on_cpu:
        return []
    low = t.weight_width(plan) == 2
    master = plan.sharding.engine == "deepspeed" and plan.sharding.stage > 0
    if low and not master:
        return [
            "Full fine-tuning of 16-bit weights without a float32 copy: at a learning rate of 5e-7 about 1 % of the "
            "weights move at all, at 1e-5 about 15 %. It saves memory and trains next to nothing; use float32 weights "
            "with bf16 autocast, DeepSpeed ZeRO (which keeps a float32 copy), or LoRA."
        ]
    if not low and plan.autocast and not master:
        return [
            "Float32 weights with bf16 autocast are what a full fine-tune wants; bfloat16 weights would halve it, but "
            "at GRPO's learning rates they hardly change. Shard (ZeRO-3, FSDP) or use LoRA instead."
        ]
    return []


def _rest(plan: Plan, computed: Computed) -> list[str]:
    notes = []
    if plan.rows != plan.batch:
        notes.append(
            f"TRL 0.14 counts prompts in per_device_train_batch_size: {plan.batch} with {plan.generations} generations "
            f"each are {plan.rows} sequences in one forward pass; from 0.15 on it counts sequences."
        )
    if t.is_paged(plan):
        notes.append(
            f"{plan.optim} keeps its states in managed memory: they use the card while it has room, else the host."
        )
    if plan.sharding.engine == "ddp" and computed.verdict == "does_not_fit":
        notes.append(
            "Plain data parallelism copies everything to each GPU: more GPUs never help a model that does not fit one."
        )
    if t.head_path(plan) in ("in_place", "copy") and "head" in computed.phases["training"]:
        notes.append(
            f"TRL {plan.trl_version} holds the completions' full logits; since 1.15 they are computed in tiles, "
            "whatever the loss."
        )
    if t.head_path(plan) == "liger_chunks" and not plan.full and plan.liger_frees_head:
        notes.append(
            "liger-kernel before 0.8.4 keeps the gradient of a frozen head too, "
            f"{t.liger_head_gradient(plan) / c.GB:.1f} GB more: state versions.liger_kernel."
        )
    if plan.liger and plan.version >= (1, 15):
        notes.append("use_liger_kernel no longer lowers the head's memory from TRL 1.15 on: the head is tiled always.")
    if plan.facts.quantization == UNPACKED:
        notes.append(
            "The checkpoint stores its experts in MXFP4. Training unpacks them, which is counted; vLLM's copy is "
            "counted unpacked too, since TRL sends it plain weights."
        )
    if plan.quantized in BITSANDBYTES and plan.facts.experts and not plan.experts_are_linears:
        notes.append("transformers 5 keeps experts as one parameter a layer, which bitsandbytes leaves unquantised.")
    return notes
