"""The running vLLM engine: prompts within its window, sleep, hangs, ports."""

from collections.abc import Mapping

from grpo_rlvr.config.batch import Batch
from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView

COLOCATE = {"use_vllm": True, "vllm_mode": "colocate"}
# Cards that are sold without NVLink.
WITHOUT_NVLINK = ("L4", "L40", "L40S", "A10", "A10G", "T4", "RTX 4090", "RTX 5090", "4090", "5090", "RTX 6000 Ada")
SLEEPING = {**COLOCATE, "vllm_enable_sleep_mode": True}


def _window_name(config: ConfigView) -> str:
    for name in ("vllm_max_model_length", "vllm_max_model_len"):
        if config.exists(name):
            return name
    return "max_prompt_length"


def _window(config: ConfigView, facts: Facts) -> int | None:
    if not (facts.colocate or facts.vllm_mode == "device"):
        return None
    name = _window_name(config)
    if name != "max_prompt_length":
        return config.integer(name)
    # From 0.18 to 0.25 the window of a colocated vLLM is what the two limits add up to.
    limit, cap = config.integer("max_prompt_length"), config.integer("max_completion_length")
    return limit + cap if facts.colocate and limit is not None and cap is not None else None


@rule(
    "prompt-beyond-vllm-window",
    severity="error",
    what="The longest prompt does not fit into vLLM's window.",
    why="vLLM rejects the request in the middle of training; TRL does not truncate prompts since 0.26.",
    bad=Example({**COLOCATE, "vllm_max_model_length": 2560}, {"dataset": {"max_prompt_tokens": 3353}}),
    good=Example({**COLOCATE, "vllm_max_model_length": 4096}, {"dataset": {"max_prompt_tokens": 3353}}),
    sources=("huggingface/open-r1#672", "huggingface/trl#3569"),
)
def prompt_beyond_vllm_window(config: ConfigView, facts: Facts) -> Outcome:
    window, prompt = _window(config, facts), facts.sent_prompt_tokens
    if window is None:
        return not_applicable("vLLM is not colocated, or its window is not set")
    if prompt is None:
        return not_applicable("dataset.max_prompt_tokens is not stated")
    if prompt < window:
        return PASS
    cap = config.integer("max_completion_length") or 0
    room = window - cap
    filtered = f"drop prompts over {room} tokens, or " if room > 0 else ""
    name = _window_name(config)
    wanted = prompt if name == "max_prompt_length" else prompt + cap
    return fail(
        name,
        "dataset.max_prompt_tokens",
        "max_completion_length",
        value=window,
        message=f"The longest prompt has {prompt} tokens and vLLM's window is {window}: {filtered}set {name}={wanted}.",
        set={name: wanted},
    )


@rule(
    "completion-beyond-vllm-window",
    severity="warning",
    requires=("prompt-beyond-vllm-window",),
    what="Longest prompt plus completion cap exceed vLLM's window.",
    why="The prompt's share is taken from the completion, so answers to long prompts are cut early.",
    bad=Example(
        {**COLOCATE, "vllm_max_model_length": 3072, "max_completion_length": 3072},
        {"dataset": {"max_prompt_tokens": 900}},
    ),
    good=Example(
        {**COLOCATE, "vllm_max_model_length": 4096, "max_completion_length": 3072},
        {"dataset": {"max_prompt_tokens": 900}},
    ),
    sources=("huggingface/trl#3569", "trl/trainer/grpo_config.py"),
)
def completion_beyond_vllm_window(config: ConfigView, facts: Facts) -> Outcome:
    window, cap = _window(config, facts), config.integer("max_completion_length")
    if window is None or cap is None:
        return not_applicable("the window of vLLM is not set")
    prompt = facts.sent_prompt_tokens
    if (prompt or 0) + cap <= window and not (prompt is None and cap == window):
        return PASS
    name = _window_name(config)
    need = (prompt or 0) + (0 if name == "max_prompt_length" else cap)
    said = f"{prompt} prompt tokens" if prompt is not None else "any prompt"
    return fail(
        name,
        "max_completion_length",
        "dataset.max_prompt_tokens",
        value=window,
        message=f"{said} + max_completion_length={cap} exceed the window of {window}: set {name} to "
        "at least "
        f"{need}{'' if prompt is not None else ' plus the longest prompt'}.",
        set={name: need} if prompt is not None else {},
    )


@rule(
    "no-gpu-left-for-vllm",
    severity="error",
    trl="<0.16",
    what="vLLM gets a GPU of its own, and every GPU already trains, or it is told one that is not there.",
    why="Up to 0.15 vLLM takes the GPU after the last training process, or the one of vllm_device; the trainer raises "
    "ValueError when there is none.",
    bad=Example({"use_vllm": True}, {"hardware": {"num_processes": 8, "gpus": 8}, "versions": {"trl": "0.15.2"}}),
    good=Example({"use_vllm": True}, {"hardware": {"num_processes": 7, "gpus": 8}, "versions": {"trl": "0.15.2"}}),
    sources=("huggingface/open-r1#365", "huggingface/trl#2826", "trl wheel 0.15"),
)
def no_gpu_left_for_vllm(config: ConfigView, facts: Facts) -> Outcome:
    if facts.vllm_mode != "device":
        return PASS
    kind, _, index = (config.text("vllm_device") or "auto").rpartition(":")
    if kind == "cuda" and index.isdecimal():
        # One that trains as well is allowed, with a warning.
        seen = len(facts.visible_devices) if facts.visible_devices else facts.gpus
        if seen is None or int(index) < seen:
            return PASS
        return fail(
            "vllm_device",
            "hardware.gpus",
            value=f"cuda:{index}",
            message=f"vllm_device=cuda:{index}, and the trainer sees {seen} GPU(s), counted from 0. With one GPU "
            "use vllm_device='cuda:0' and a small vllm_gpu_memory_utilization.",
        )
    if facts.gpus is None or not facts.processes_known:
        return not_applicable("hardware.gpus or hardware.num_processes is not stated")
    if facts.gpus == 1 or facts.processes < facts.gpus * int(facts.number("hardware.num_machines") or 1):
        return PASS
    return fail(
        "hardware.num_processes",
        "vllm_device",
        "hardware.gpus",
        "use_vllm",
        value=facts.processes,
        message=f"{facts.processes} training processes on {facts.gpus} GPUs leave none for vLLM: start with "
        "--num_processes "
        f"{facts.gpus - 1}, and make the batch fit that.",
    )


@rule(
    "sleep-mode-reloads-start",
    severity="error",
    trl=">=0.29,<1.10",
    what="vllm_enable_sleep_mode in a TRL whose wake-up reloads the starting checkpoint.",
    why="Rollouts never see the trained weights: the run trains on data of the initial policy, silently.",
    bad=Example(SLEEPING, {"versions": {"trl": "1.4.0"}}),
    good=Example(SLEEPING, {"versions": {"trl": "1.10.0"}}),
    sources=("huggingface/trl#5312", "vllm-project/vllm#29341"),
    fix_safety="Safe: without sleep mode the run computes what it was meant to; it needs more memory.",
)
def sleep_mode_reloads_start(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.colocate or not config.flag("vllm_enable_sleep_mode"):
        return PASS
    return fail(
        "vllm_enable_sleep_mode",
        "versions.trl",
        value=True,
        message=f"In TRL {facts.versions.trl} waking vLLM reloads the checkpoint the run started from: upgrade to "
        "1.10 or later, or "
        "set vllm_enable_sleep_mode=False.",
        set={"vllm_enable_sleep_mode": False},
        safe=True,
    )


@rule(
    "sleep-mode-stale-within-update",
    severity="warning",
    trl=">=0.26,<0.29",
    what="vllm_enable_sleep_mode with several rollouts per update, in a TRL whose wake-up reloads the starting "
    "checkpoint.",
    why="Weights are pushed once per update; rollouts after the first of an update come from the starting policy.",
    bad=Example(
        {**SLEEPING, "gradient_accumulation_steps": 8, "steps_per_generation": 2}, {"versions": {"trl": "0.28.0"}}
    ),
    good=Example({**SLEEPING, "gradient_accumulation_steps": 8}, {"versions": {"trl": "0.28.0"}}),
    sources=("huggingface/trl#5312",),
    fix_safety="Safe: without sleep mode the run computes what it was meant to; it needs more memory.",
)
def sleep_mode_stale_within_update(config: ConfigView, facts: Facts, batch: Batch) -> Outcome:
    if not facts.colocate or not config.flag("vllm_enable_sleep_mode") or batch.steps >= batch.accumulation:
        return PASS
    return fail(
        "vllm_enable_sleep_mode",
        "steps_per_generation",
        "versions.trl",
        value=True,
        message=f"{batch.accumulation // batch.steps} rollouts per update with sleep mode: all but the first use "
        "stale weights. "
        "Upgrade to 1.10 or later, or set vllm_enable_sleep_mode=False.",
        set={"vllm_enable_sleep_mode": False},
        safe=True,
    )


@rule(
    "adapter-tensor-parallel-hang",
    severity="warning",
    trl=">=0.18,<1.7.1",
    what="An adapter with tensor-parallel colocated vLLM on cards without NVLink.",
    why="Ranks could enter generation out of step and hang; the barrier that prevents it came in 1.7.1.",
    bad=Example(
        {**COLOCATE, "vllm_tensor_parallel_size": 2},
        {"model": {"peft": True}, "hardware": {"num_processes": 2, "nvlink": False}, "versions": {"trl": "0.19.1"}},
    ),
    good=Example(
        {**COLOCATE, "vllm_tensor_parallel_size": 1},
        {"model": {"peft": True}, "hardware": {"num_processes": 2, "nvlink": False}, "versions": {"trl": "0.19.1"}},
    ),
    sources=("huggingface/trl#3671",),
)
def adapter_tensor_parallel_hang(config: ConfigView, facts: Facts) -> Outcome:
    size = config.integer("vllm_tensor_parallel_size") or 1
    if not facts.colocate or size < 2 or not facts.peft:
        return PASS
    nvlink = facts.setup.get("hardware.nvlink")
    card = (facts.text("hardware.gpu") or facts.text("hardware.kind") or "").removeprefix("NVIDIA ").strip()
    if nvlink is True or (nvlink is None and card.upper() not in {name.upper() for name in WITHOUT_NVLINK}):
        return PASS
    return fail(
        "vllm_tensor_parallel_size",
        "peft_config",
        "model.peft",
        "hardware.nvlink",
        "hardware.gpu",
        value=size,
        message=f"LoRA with vllm_tensor_parallel_size={size} and no NVLink can hang in TRL {facts.versions.trl}: "
        "upgrade to 1.7.1 or "
        "later, or set vllm_tensor_parallel_size=1.",
        set={"vllm_tensor_parallel_size": 1},
    )


@rule(
    "shared-rendezvous-port",
    severity="error",
    trl=">=0.20,<0.24",
    what="Two colocate runs on one host without MASTER_PORT.",
    why="These releases use port 12345 for every run, so the second one dies with address already in use.",
    bad=Example(COLOCATE, {"launch": {"concurrent_runs_on_host": 2, "env": {}}, "versions": {"trl": "0.20.0"}}),
    good=Example(
        COLOCATE,
        {"launch": {"concurrent_runs_on_host": 2, "env": {"MASTER_PORT": "29501"}}, "versions": {"trl": "0.20.0"}},
    ),
    sources=("huggingface/trl#3979",),
)
def shared_rendezvous_port(facts: Facts) -> Outcome:
    runs = facts.number("launch.concurrent_runs_on_host") or 1
    environment = facts.setup.get("launch.env")
    command = facts.text("launch.command") or ""
    stated = (isinstance(environment, Mapping) and "MASTER_PORT" in environment) or "MASTER_PORT" in command
    if not facts.colocate or runs < 2 or stated or "main_process_port" in command or "master_port" in command:
        return PASS
    return fail(
        "launch.env.MASTER_PORT",
        "launch.env",
        "launch.concurrent_runs_on_host",
        "MASTER_PORT",
        value=int(runs),
        message=f"{int(runs)} runs on one host share rendezvous port 12345: export another MASTER_PORT for each, or "
        "upgrade to "
        "trl>=0.24.",
    )


RULES = (
    no_gpu_left_for_vllm,
    prompt_beyond_vllm_window,
    completion_beyond_vllm_window,
    sleep_mode_reloads_start,
    sleep_mode_stale_within_update,
    adapter_tensor_parallel_hang,
    shared_rendezvous_port,
)
