"""The training devices: which card, how many of them train, what vLLM's server takes."""

from collections.abc import Mapping
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.memory import constants as c
from grpo_rlvr.memory.checks import integer, number
from grpo_rlvr.memory.plan import Devices, Engine, Sharding
from grpo_rlvr.memory.reader import Reader
from grpo_rlvr.memory.shape import ModelFacts

MAX_GPUS = 100_000
# The largest single accelerator announced by 2026 has about 1.1 TB.
MAX_CARD_GB = 4096.0


def find_card(name: Any) -> str | None:
    """Return the table's key for a GPU name such as 'NVIDIA H100 80GB HBM3', None when it is not in the table."""
    if not isinstance(name, str):
        return None
    text = "".join(char for char in name.upper() if char.isalnum())
    if "A100" in text and "40G" in text:
        return "A100-40"
    return next((key for alias, key in c.CARD_ALIASES if alias in text), None)


def card_memory_gb(hardware: Mapping[str, Any]) -> float | None:
    """Return the memory of the GPU that a setup's `hardware` section names, in GB; None when the table lacks it."""
    key = find_card(hardware.get("gpu") or hardware.get("kind")) or find_card(hardware.get("device"))
    return c.CARDS[key].memory_gb if key else None


def read_devices(reader: Reader, engine: Engine, sharding: Sharding, facts: ModelFacts) -> Devices:
    """Return the devices of a setup.

    Raises:
        InputError: zero GPUs, a negative memory, or counts that contradict each other.
    """
    hardware = reader.setup.section("hardware")
    kind = str(hardware.get("device") or "cuda").lower()
    stated_name = hardware.get("gpu") or hardware.get("kind")
    if kind.startswith("cpu") or reader.stated("use_cpu") is True:
        return _host(hardware)
    key = find_card(stated_name) or find_card(hardware.get("device"))
    card = c.CARDS.get(key) if key else None
    memory = _memory(reader, hardware, card)
    total = _count(reader, hardware)
    training, server = _split(reader, hardware, engine, total, memory, facts)
    context = card.context_gb if card else c.DEFAULT_CONTEXT_GB
    return Devices(
        kind="cuda", training=training, memory_gb=memory, context_gb=context,
        nccl_gb=0.0 if training == 1 else (c.NCCL_L4_GB if key == "L4" else c.NCCL_GB),
        card=card.label if card else "", bandwidth_gb_s=card.bandwidth_gb_s if card else 0.0, server=server,
        total=total if hardware.get("gpus") is not None else 0,
    )  # fmt: skip


def _host(hardware: Mapping[str, Any]) -> Devices:
    memory = hardware.get("ram_gb")
    size = 0.0 if memory is None else number(memory, "setup.hardware.ram_gb", minimum=0, exclusive=True)
    return Devices(kind="cpu", training=1, memory_gb=size, context_gb=c.CPU_PROCESS_GB, nccl_gb=0.0, card="host memory")


def _memory(reader: Reader, hardware: Mapping[str, Any], card: c.Card | None) -> float:
    for key in ("gpu_mem_gb", "gb_each"):
        if hardware.get(key) is not None:
            return number(hardware[key], f"setup.hardware.{key}", minimum=0, maximum=MAX_CARD_GB, exclusive=True)
    if card is not None:
        return card.memory_gb
    reader.assume(
        "hardware.gpu_mem_gb", None, "hardware.gpu (e.g. 'H100') or hardware.gpu_mem_gb: no verdict without it"
    )
    return 0.0


def _count(reader: Reader, hardware: Mapping[str, Any]) -> int:
    stated = hardware.get("gpus")
    if stated is None and hardware.get("num_processes") is not None:
        return integer(hardware["num_processes"], "setup.hardware.num_processes", minimum=1, maximum=MAX_GPUS)
    if stated is None:
        reader.assume("hardware.gpus", 1, "how many GPUs the launch uses")
        return 1
    if isinstance(stated, list | tuple):
        stated = len(stated)
    count = integer(stated, "setup.hardware.gpus", maximum=MAX_GPUS)
    if count < 1:
        raise InputError(
            f"{count} GPUs", where="setup.hardware.gpus", remedy="State at least 1, or hardware.device 'cpu'."
        )
    if hardware.get("num_machines") is not None:
        machines = integer(hardware["num_machines"], "setup.hardware.num_machines", minimum=1, maximum=MAX_GPUS)
        if machines > 1 and hardware.get("num_processes") is None:
            reader.assume("hardware.num_processes", count, "the launch's total number of processes over all machines")
    return count


def _split(
    reader: Reader, hardware: Mapping[str, Any], engine: Engine, total: int, memory: float, facts: ModelFacts
) -> tuple[int, int]:
    processes = hardware.get("num_processes")
    if processes is not None:
        count = integer(processes, "setup.hardware.num_processes", minimum=1, maximum=MAX_GPUS)
        return count, max(total - count, 0) if engine.mode == "server" else 0
    if engine.mode != "server" or total == 1:
        return total, 0
    stated = reader.setup.get("vllm_server.gpus")
    if stated is None:
        server = _server_share(reader, total, min(server_gpus(facts, memory), total - 1))
        reader.assume("vllm_server.gpus", server, "how many of the GPUs the vLLM server uses; the others train")
        return total - server, server
    server = len(stated) if isinstance(stated, list | tuple) else integer(stated, "setup.vllm_server.gpus", minimum=0)
    if server >= total:
        # The server's GPUs were counted apart from the trainer's.
        return total, server
    return total - server, server


def _server_share(reader: Reader, total: int, least: int) -> int:
    """Return the fewest server GPUs, `least` at least, that leave a number of trainers which the groups divide.

    TRL refuses a generation batch (trainers x batch x steps_per_generation) that num_generations does not divide.
    """
    batch = reader.integer("per_device_train_batch_size", 8)
    generations = reader.integer("num_generations", 8)
    steps = reader.integer("steps_per_generation", 0, minimum=0)
    if not steps and "steps_per_generation" in reader.defaults:
        steps = reader.integer("gradient_accumulation_steps", 1)
    whole = (server for server in range(least, total) if (total - server) * batch * max(steps, 1) % generations == 0)
    return next(whole, least)


def server_gpus(facts: ModelFacts, memory_gb: float) -> int:
    """Return the fewest GPUs (a power of two) whose pool at utilization 0.9 holds the bf16 weights and some cache."""
    if not memory_gb:
        return 1
    count = 1
    while 2 * facts.params / count / c.GB + 2 * c.VLLM_WORK_GB > 0.9 * memory_gb and count < 64:
        count *= 2
    return count
