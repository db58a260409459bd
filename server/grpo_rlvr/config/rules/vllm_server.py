"""vLLM as a server of its own: its GPUs, its command, its window, its ports, its model."""

import re
from urllib.parse import urlsplit

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.view import ConfigView

SERVER = {"use_vllm": True, "vllm_mode": "server"}
READY = (
    'VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --weight-transfer-config \'{"backend": "nccl"}\' '
    "--logprobs-mode processed_logprobs --max-logprobs -1"
)
LOCAL = frozenset({"0.0.0.0", "127.0.0.1", "localhost", "::1"})
COLOCATE_ONLY = (
    "vllm_tensor_parallel_size",
    "vllm_gpu_memory_utilization",
    "vllm_max_model_length",
    "vllm_enable_sleep_mode",
    "vllm_model_impl",
)
SERVER_ONLY = ("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "vllm_server_timeout", "vllm_group_port")
TWO = {"num_processes": 1, "gpus": 2, "cuda_visible_devices": [1]}


def address(config: ConfigView) -> tuple[str | None, int | None]:
    """Return the host and port that the trainer connects to; None where the config does not say."""
    url = config.text("vllm_server_base_url") if config.exists("vllm_server_base_url") else None
    if not url:
        return config.text("vllm_server_host"), config.integer("vllm_server_port")
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return None, None


def _is_local(facts: Facts) -> bool:
    host = facts.text("vllm_server.host")
    told = address(facts.config)[0]
    return (host is None or host in LOCAL) and (told is None or told in LOCAL)


@rule(
    "server-shares-trainer-gpu",
    severity="error",
    what="The vLLM server and the trainer use the same GPU, or there is only one.",
    why="NCCL refuses two ranks on one device (duplicate GPU), so weights are never sent.",
    bad=Example(
        SERVER,
        {"hardware": {"num_processes": 1, "gpus": 2, "cuda_visible_devices": [0, 1]}, "vllm_server": {"gpus": [0]}},
    ),
    good=Example(SERVER, {"hardware": TWO, "vllm_server": {"gpus": [0]}}),
    sources=("huggingface/trl#3158", "huggingface/trl#3487", "huggingface/trl#3706"),
)
def server_shares_trainer_gpu(facts: Facts) -> Outcome:
    if not facts.server or not _is_local(facts):
        return PASS
    visible, serving = facts.visible_devices, facts.server_devices
    fields = (
        "hardware.cuda_visible_devices",
        "vllm_server.gpus",
        "hardware.gpus",
        "hardware.num_processes",
        "vllm_mode",
    )
    if facts.gpus == 1 and facts.setup.get("vllm_server.running") is not False:
        return fail(
            *fields,
            value=1,
            message="Server mode needs a GPU of its own and the machine has one: vllm_mode='colocate'.",
        )
    if visible is not None and serving is not None:
        shared = sorted(set(visible) & set(serving))
        if shared:
            free = sorted(set(range(facts.gpus or 0)) - set(serving))
            advice = (
                f"start it with CUDA_VISIBLE_DEVICES={','.join(map(str, free))}" if free else "use vllm_mode='colocate'"
            )
            text = f"The trainer sees GPU {', '.join(map(str, shared))}, which the server occupies: {advice}."
            return fail(*fields, value=list(visible), message=text)
        return PASS
    count = facts.server_gpus
    if facts.gpus is not None and count is not None and facts.processes_known and not _several_machines(facts):
        if facts.processes + count > facts.gpus:
            text = f"{facts.processes} training processes and {count} server GPUs do not fit on {facts.gpus} GPUs."
            return fail(*fields, value=facts.processes, message=f"{text} Train on fewer, or use vllm_mode='colocate'.")
        return PASS
    return not_applicable("hardware.cuda_visible_devices or vllm_server.gpus is not stated")


def _several_machines(facts: Facts) -> bool:
    return (facts.number("hardware.num_machines") or 1) > 1


@rule(
    "trainer-starts-on-server-gpu",
    severity="warning",
    requires=("server-shares-trainer-gpu",),
    what="The server holds one of the first GPUs, and nothing says that the trainer is kept away from it.",
    why="Without CUDA_VISIBLE_DEVICES the training processes take GPU 0 upwards, and NCCL refuses a shared device.",
    bad=Example(SERVER, {"hardware": {"num_processes": 1, "gpus": 2}, "vllm_server": {"gpus": [0]}}),
    good=Example(SERVER, {"hardware": TWO, "vllm_server": {"gpus": [0]}}),
    sources=("huggingface/trl#3706",),
)
def trainer_starts_on_server_gpu(facts: Facts) -> Outcome:
    serving = facts.server_devices
    if not facts.server or not _is_local(facts) or serving is None or facts.visible_devices is not None:
        return PASS
    if facts.gpus is None or not facts.processes_known or _several_machines(facts):
        return not_applicable("hardware.gpus or hardware.num_processes is not stated")
    if not set(range(facts.processes)) & set(serving):
        return PASS
    free = sorted(set(range(facts.gpus)) - set(serving))[: facts.processes]
    return fail(
        "hardware.cuda_visible_devices",
        "vllm_server.gpus",
        value=list(serving),
        message=f"Start the trainer with CUDA_VISIBLE_DEVICES={','.join(map(str, free))}: by default it takes GPU 0 "
        "upwards.",
    )


def _serves_natively(command: str) -> bool:
    native = re.search(r"\bvllm\s+serve\b", command) or "vllm.entrypoints" in command
    return bool(native) and "trl vllm-serve" not in command


@rule(
    "native-vllm-server-before-1-11",
    severity="error",
    trl=">=0.16,<1.11",
    what="A plain `vllm serve` for a TRL that talks to its own server.",
    why="The endpoints for weight transfer are missing: the first weight push answers 404.",
    bad=Example(SERVER, {"vllm_server": {"command": "vllm serve MODEL"}, "versions": {"trl": "0.19.1"}}),
    good=Example(SERVER, {"vllm_server": {"command": "trl vllm-serve --model MODEL"}, "versions": {"trl": "0.19.1"}}),
    sources=("huggingface/trl#3587",),
)
def native_vllm_server_before_1_11(facts: Facts) -> Outcome:
    command = facts.text("vllm_server.command")
    if not facts.server:
        return PASS
    if command is None:
        return not_applicable("vllm_server.command is not stated")
    if not _serves_natively(command):
        return PASS
    return fail(
        "vllm_server.command",
        "vllm_mode",
        value=command,
        message=f"TRL {facts.versions.trl} needs `trl vllm-serve --model MODEL`; native `vllm serve` works from 1.11 "
        "on.",
    )


def _missing_flags(facts: Facts, command: str) -> list[str]:
    environment = facts.setup.get("launch.env")
    developer = "VLLM_SERVER_DEV_MODE" in command or (
        isinstance(environment, dict) and "VLLM_SERVER_DEV_MODE" in environment
    )
    flags = [] if developer else ["VLLM_SERVER_DEV_MODE=1"]
    flags += [] if "--weight-transfer-config" in command else ['--weight-transfer-config \'{"backend": "nccl"}\'']
    flags += [] if "--max-logprobs" in command else ["--max-logprobs -1"]
    if facts.versions.within("vllm", ">=0.30") and "--enable-scale-out" not in command:
        flags.append("--enable-scale-out")
    return flags


@rule(
    "vllm-server-without-weight-transfer",
    severity="error",
    trl=">=1.11",
    what="A native vLLM server without what weight transfer needs.",
    why="The trainer cannot open the channel for its weights, or the log-probs it asks for are refused.",
    bad=Example(SERVER, {"vllm_server": {"command": "vllm serve MODEL --port 8000"}}),
    good=Example(SERVER, {"vllm_server": {"command": READY}}),
    sources=("trl/scripts/vllm_serve.py", "huggingface/OpenEnv#1082"),
)
def vllm_server_without_weight_transfer(facts: Facts) -> Outcome:
    command = facts.text("vllm_server.command")
    if not facts.server:
        return PASS
    if command is None:
        return not_applicable("vllm_server.command is not stated")
    if not _serves_natively(command) or not (missing := _missing_flags(facts, command)):
        return PASS
    return fail(
        "vllm_server.command",
        value=command,
        message=f"The server command lacks {', '.join(missing)}. Run: {READY}.",
    )


@rule(
    "vllm-server-raw-logprobs",
    severity="warning",
    trl=">=1.11",
    what="The vLLM server returns raw log-probs.",
    why="The trainer scales by temperature and compares with processed log-probs, so the importance ratio is biased.",
    bad=Example({**SERVER, "temperature": 0.8}, {"vllm_server": {"command": "vllm serve MODEL --max-logprobs -1"}}),
    good=Example({**SERVER, "temperature": 0.8}, {"vllm_server": {"command": READY}}),
    sources=("huggingface/trl#6945",),
)
def vllm_server_raw_logprobs(config: ConfigView, facts: Facts) -> Outcome:
    command = facts.text("vllm_server.command")
    if not facts.server or not config.flag("vllm_importance_sampling_correction"):
        return PASS
    if command is None:
        return not_applicable("vllm_server.command is not stated")
    if not _serves_natively(command) or re.search(r"--logprobs-mode[ =]processed_logprobs", command):
        return PASS
    return fail(
        "vllm_server.command",
        "vllm_importance_sampling_correction",
        value=command,
        message="Restart the server with --logprobs-mode processed_logprobs, or set "
        "vllm_importance_sampling_correction=False.",
    )


@rule(
    "trl-vllm-serve-deprecated",
    severity="info",
    trl=">=1.11",
    what="`trl vllm-serve` with a TRL that talks to a native vLLM server.",
    why="The command is kept for a while and is to go.",
    bad=Example(SERVER, {"vllm_server": {"command": "trl vllm-serve --model MODEL"}}),
    good=Example(SERVER, {"vllm_server": {"command": READY}}),
    sources=("trl/scripts/vllm_serve.py",),
)
def trl_vllm_serve_deprecated(facts: Facts) -> Outcome:
    command = facts.text("vllm_server.command") or ""
    if not facts.server or "vllm-serve" not in command:
        return PASS
    return fail(
        "vllm_server.command", value=command, message=f"`trl vllm-serve` is deprecated since 1.11. Run: {READY}."
    )


@rule(
    "colocate-options-in-server-mode",
    severity="warning",
    trl=">=0.18",
    what="Options of colocated vLLM while a server makes the rollouts.",
    why="They are ignored; the server's own command line decides.",
    bad=Example({**SERVER, "vllm_tensor_parallel_size": 2}),
    good=Example(SERVER),
    sources=("trl/trainer/grpo_config.py",),
    fix_safety="Safe: the options have no effect in server mode.",
)
def colocate_options_in_server_mode(config: ConfigView, facts: Facts) -> Outcome:
    idle = [
        name
        for name in COLOCATE_ONLY
        if name in config.given and config.exists(name) and config.effective(name) != config.table.default(name)
    ]
    if not facts.server or not idle:
        return PASS
    return fail(
        *idle,
        "vllm_mode",
        value=config.effective(idle[0]),
        message=f"{', '.join(idle)}: ignored in server mode, pass them to the server's command instead.",
        unset=idle,
        safe=True,
    )


@rule(
    "server-options-without-mode",
    severity="warning",
    trl=">=1.0",
    what="Server options or a running server while vllm_mode is left to its default.",
    why="The default is colocate since 1.0 (server before): the server is ignored and a second engine starts on the "
    "training GPUs.",
    bad=Example({"use_vllm": True, "vllm_server_port": 8001}),
    good=Example({**SERVER, "vllm_server_port": 8001}),
    sources=("trl MIGRATION.md",),
    fix_safety="Changes where the rollouts are made.",
)
def server_options_without_mode(config: ConfigView, facts: Facts) -> Outcome:
    stated = [name for name in SERVER_ONLY if config.has(name)]
    running = facts.setup.get("vllm_server.running") is True
    if not facts.use_vllm or config.has("vllm_mode") or not (stated or running):
        return PASS
    said = ", ".join(stated) if stated else "a server is running"
    return fail(
        "vllm_mode",
        *stated,
        *(("vllm_server.running",) if running else ()),
        "use_vllm",
        value=config.effective("vllm_mode"),
        message=f"{said}, but vllm_mode is not set and means colocate since TRL 1.0: write vllm_mode='server'.",
        set={"vllm_mode": "server"},
    )


RULES = (
    server_shares_trainer_gpu,
    trainer_starts_on_server_gpu,
    native_vllm_server_before_1_11,
    vllm_server_without_weight_transfer,
    vllm_server_raw_logprobs,
    trl_vllm_serve_deprecated,
    colocate_options_in_server_mode,
    server_options_without_mode,
)
