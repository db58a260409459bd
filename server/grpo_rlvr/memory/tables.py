"""The memory page: hand-written text with generated tables between it."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory.answer import estimate
from grpo_rlvr.models.memory import MemoryEstimate
from grpo_rlvr.models.setup import Setup

PAGE = Path("references/grpo-memory.md")
TEMPLATE = "page.md"
HEADER = "<!-- Generated from server/grpo_rlvr/memory/page.md by scripts/docs. Edit that file, not this one. -->\n"
TRL = "1.16.0"
SIZES = (
    ("0.5B", "qwen2.5-0.5b"), ("1.5B", "qwen2.5-1.5b"), ("3B", "qwen2.5-3b"), ("7B", "qwen2.5-7b"),
    ("14B", "qwen2.5-14b"), ("32B", "qwen2.5-32b"), ("70B", "llama-3.1-70b"), ("30B-A3B", "qwen3-30b-a3b"),
)  # fmt: skip
CARDS = (
    ("24 GB", c.CARDS["RTX4090"]), ("48 GB", c.CARDS["A6000"]), ("80 GB", c.CARDS["H100"]), ("H200", c.CARDS["H200"]),
    ("B200", c.CARDS["B200"]),
)  # fmt: skip
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "QLoRA": ({"peft": True, "quantized": "nf4", "lora_r": 16, "lora_targets": "all-linear"}, {"dtype": "bfloat16"}),
    "LoRA bf16": ({"peft": True, "lora_r": 16, "lora_targets": "all-linear"}, {"dtype": "bfloat16"}),
    "full bf16, 8-bit Adam": ({"peft": False}, {"dtype": "bfloat16", "optim": "adamw_8bit"}),
    "full bf16": ({"peft": False}, {"dtype": "bfloat16"}),
    "full fp32": ({"peft": False}, {"dtype": "float32"}),
}
PROMPT, COMPLETION, BATCH, ACCUMULATION = 512, 1024, 8, 4
MARKS = {"fits": "yes", "tight": "tight", "does_not_fit": "no", "unknown": "?"}


def render_docs() -> dict[Path, str]:
    """Return the generated page by its path from the project's root."""
    text = files("grpo_rlvr.memory").joinpath(TEMPLATE).read_text(encoding="utf-8")
    for name, table in (
        ("peaks", peaks_table), ("cards", cards_table), ("versions", versions_table), ("decode", decode_table),
        ("rules", rules_table), ("constants", constants_table),
    ):  # fmt: skip
        text = text.replace(f"{{{{{name}}}}}", table())
    return {PAGE: HEADER + text}


def run(
    model: str, method: str, *, card: c.Card | None = None, placement: str = "colocate", sleep: bool = True, **over: Any
) -> MemoryEstimate:
    """Return the estimate of one standard run; `over` replaces config values and `trl` the version."""
    peft, how = METHODS[method]
    config: dict[str, Any] = {
        "per_device_train_batch_size": BATCH, "gradient_accumulation_steps": ACCUMULATION,
        "max_completion_length": COMPLETION, "model_init_kwargs": {"dtype": how["dtype"]}, "use_vllm": True,
        "vllm_mode": placement, "gradient_checkpointing": True, "beta": 0.0,
    }  # fmt: skip
    if "optim" in how:
        config["optim"] = how["optim"]
    version = over.pop("trl", TRL)
    if placement == "colocate":
        config |= {"vllm_enable_sleep_mode": sleep, "vllm_max_model_length": PROMPT + COMPLETION}
    config |= over
    hardware: dict[str, Any] = {"gpus": 1}
    if card is not None:
        hardware |= {"gpu": card.label, "gpu_mem_gb": card.memory_gb}
    sections = {
        "model": {"name": model, **peft}, "hardware": hardware, "dataset": {"max_prompt_tokens": PROMPT},
    }  # fmt: skip
    first = estimate(config, Setup(sections), trl_version=version)
    if placement != "colocate" or "vllm_gpu_memory_utilization" in over or card is None or first.vllm is None:
        return first
    # The pool is not left at 0.3: it gets a tenth to spare and room for half of a generation's sequences, or, where the
    # card has no room for that, for those of one batch.
    needs = first.vllm.needs_gb
    half = needs + c.QUEUE_SHARE * first.vllm.wanted_sequences * _sequence_gb(first)
    for size in (max(half, needs / c.FITS_SHARE), needs + (BATCH - 1) * _sequence_gb(first)):
        config["vllm_gpu_memory_utilization"] = min(max(round(size / card.memory_gb + 0.005, 2), 0.01), 1.0)
        answer = estimate(config, Setup(sections), trl_version=version)
        if answer.verdict != "does_not_fit":
            break
    return answer


def _sequence_gb(answer: MemoryEstimate) -> float:
    m = answer.model
    return 4 * m.layers * m.kv_heads * m.head_dim * (PROMPT + COMPLETION) / c.GB


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def peaks_table() -> str:
    """Peaks in GB without a limit: server / colocate with sleep / colocate awake."""
    rows = []
    for label, model in SIZES:
        cells = []
        for method in METHODS:
            server = run(model, method, placement="server").peak_gb
            asleep, awake = (run(model, method, sleep=sleep).peak_gb for sleep in (True, False))
            cells.append(f"{server:.0f} / {asleep:.0f} / {awake:.0f}")
        rows.append([label, *cells])
    return _table(["model", *METHODS], rows)


def cards_table() -> str:
    """Whether each size and method fits each card: server / colocate with sleep."""
    rows = []
    for label, model in SIZES:
        for method in ("QLoRA", "LoRA bf16", "full fp32"):
            cells = []
            for _, card in CARDS:
                server = run(model, method, card=card, placement="server").verdict
                cells.append(f"{MARKS[server]} / {MARKS[run(model, method, card=card).verdict]}")
            rows.append([label, method, *cells])
    return _table(["model", "method", *(name for name, _ in CARDS)], rows)


def versions_table() -> str:
    """Training peaks by TRL version and completion length, trainer alone."""
    rows = []
    for label, model, method in (
        ("0.5B full fp32", "qwen2.5-0.5b", "full fp32"), ("1.5B LoRA", "qwen2.5-1.5b", "LoRA bf16"),
        ("7B LoRA", "qwen2.5-7b", "LoRA bf16"), ("Qwen3-8B QLoRA", "qwen3-8b", "QLoRA"),
    ):  # fmt: skip
        for length in (1024, 4096):
            cells = [
                f"{run(model, method, placement='server', max_completion_length=length, trl=trl).peak_gb:.0f}"
                for trl in ("0.29.0", "1.9.2", "1.13.0", "1.16.0")
            ]
            rows.append([label, f"{length:,}", *cells])
    return _table(["run", "completion", "0.16 to 0.29", "1.0 to 1.9", "1.10 to 1.14", "1.15, 1.16"], rows)


def decode_table() -> str:
    """Bound of decode speed by card, bf16 weights, 1 and 32 sequences."""
    rows = []
    for name, card in (("DGX Spark", c.CARDS["SPARK"]), *CARDS):
        cells = []
        for model in ("qwen2.5-7b", "qwen2.5-32b"):
            for batch in (1, 32):
                speed = run(
                    model, "LoRA bf16", card=card, placement="server", per_device_train_batch_size=batch,
                    gradient_accumulation_steps=1,
                ).decode  # fmt: skip
                cells.append(f"{speed.tokens_per_s:,.0f}" if speed else "?")
        rows.append([name, f"{card.bandwidth_gb_s:,.0f}", *cells])
    return _table(["card", "GB/s", "7B, 1 sequence", "7B, 32", "32B, 1 sequence", "32B, 32"], rows)


def rules_table() -> str:
    """The common rules of thumb beside what the formulas say."""

    def peak(model: str, method: str, **over: Any) -> str:
        return f"{run(model, method, **over).peak_gb:.0f} GB"

    small = c.CARDS["RTX4090"]
    rows = [
        ["24 GB up to 3B, with sleep, 8-bit AdamW and checkpointing together",
         f"Too strict for LoRA: 3B takes {peak('qwen2.5-3b', 'LoRA bf16', sleep=False)} awake, with neither. Too loose "
         "for a full fine-tune: 3B with all three takes "
         f"{peak('qwen2.5-3b', 'full bf16, 8-bit Adam', card=small)} with bfloat16 weights, which hardly train, and "
         f"{peak('qwen2.5-3b', 'full fp32')} with float32."],
        ["H200 for about 32B",
         f"LoRA in bfloat16 takes {peak('qwen2.5-32b', 'LoRA bf16')} with sleep: tight at 150 GB. 4-bit takes "
         f"{peak('qwen2.5-32b', 'QLoRA')} and fits 80 GB. A full fine-tune ({peak('qwen2.5-32b', 'full fp32')}) needs "
         "several cards with ZeRO-3 and vLLM elsewhere."],
        ["B200 for about 70B",
         f"Only in 4-bit ({peak('llama-3.1-70b', 'QLoRA')}), which an H200 holds too. LoRA in bfloat16 takes "
         f"{peak('llama-3.1-70b', 'LoRA bf16')}: the policy and vLLM's copy are 141 GB each."],
        ["The reference policy, the policy and vLLM share the card",
         "There is no reference copy with LoRA, nor with beta 0 (the default since 0.19)."],
        ["Checkpointing saves about 30 % of the activations", _checkpointing()],
        ["Liger lowers the head's memory", "Until TRL 1.14. Since 1.15 the head is tiled always, whatever the loss."],
        ["A second GPU makes room", "Not with plain data parallelism: it copies everything. ZeRO-3 and FSDP divide."],
    ]  # fmt: skip
    return _table(["rule of thumb", "what holds"], rows)


def _checkpointing() -> str:
    on, off = (
        sum(t.gb for p in run("qwen2.5-7b", "LoRA bf16", placement="server", gradient_checkpointing=flag).phases
            if p.name == "training" for t in p.terms if t.name in ("saved_activations", "recomputed_layer"))
        for flag in (True, False)
    )  # fmt: skip
    return f"For a 7B with LoRA it is {1 - on / off:.0%}: {off:.0f} GB become {on:.1f}."


def constants_table() -> str:
    """Bytes a token and layer, by how the model is held."""
    rows = [
        [name, *(f"{value:g}" for value in coefficients)]
        for name, coefficients in (
            ("full, 16-bit weights", c.LAYER["full_16bit"]),
            ("full, float32 under autocast", c.LAYER["full_fp32_autocast"]),
            ("LoRA under autocast", c.LAYER["lora_autocast"]), ("normed q and k, full: more", c.QK_NORM_FULL),
            ("normed q and k, LoRA: more", c.QK_NORM_LORA), ("flash attention: change", c.FLASH_CHANGE),
        )
    ]  # fmt: skip
    return _table(["a live layer, bytes a token", "x hidden", "x MLP", "x q width", "x kv width"], rows)
