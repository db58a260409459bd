"""Reaching the vLLM server: is it there, at that address, with that model and a window that is long enough."""

from urllib.parse import urlsplit

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.rules.vllm_server import LOCAL, SERVER, address
from grpo_rlvr.config.view import ConfigView

WITHOUT_NCCL = ("npu", "xpu", "mps", "cpu", "hpu", "mlu", "musa", "tpu")


@rule(
    "vllm-server-not-running",
    severity="error",
    trl=">=0.16",
    what="Rollouts come from a vLLM server and none is running.",
    why="The trainer waits for vllm_server_timeout and raises ConnectionError.",
    bad=Example(SERVER, {"vllm_server": {"running": False}}),
    good=Example(SERVER, {"vllm_server": {"running": True}}),
    sources=("huggingface/open-r1#568",),
)
def vllm_server_not_running(facts: Facts) -> Outcome:
    if not facts.server or facts.setup.get("vllm_server.running") is not False:
        return PASS
    start = "vllm serve" if facts.trl_is(">=1.11") else "trl vllm-serve"
    return fail(
        "vllm_server.running",
        "use_vllm",
        "vllm_mode",
        "vllm_server_host",
        "vllm_server_port",
        "vllm_server_timeout",
        value=False,
        message=f"TRL {facts.versions.trl} expects a server here and none runs: start `{start}` on GPUs left free, "
        "then train.",
    )


@rule(
    "vllm-server-address-differs",
    severity="error",
    trl=">=0.16",
    requires=("vllm-server-not-running",),
    what="The trainer is told another port or host than the server's.",
    why="The trainer waits for vllm_server_timeout and raises ConnectionError.",
    bad=Example(SERVER, {"vllm_server": {"running": True, "port": 8001}}),
    good=Example({**SERVER, "vllm_server_port": 8001}, {"vllm_server": {"running": True, "port": 8001}}),
    sources=("huggingface/open-r1#568",),
    fix_safety="Safe: the run cannot start with the other address.",
)
def vllm_server_address_differs(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.server:
        return PASS
    host, port = address(config)
    stated_port, stated_host = facts.number("vllm_server.port"), facts.text("vllm_server.host")
    own = not (config.exists("vllm_server_base_url") and config.effective("vllm_server_base_url"))
    if stated_port is not None and port is not None and int(stated_port) != port:
        text = f"The trainer connects to port {port}, the server listens on {int(stated_port)}."
        fixed: dict[str, object] = {"vllm_server_port": int(stated_port)} if own else {}
        fields = ("vllm_server_port", "vllm_server_base_url", "vllm_server.port")
        return fail(*fields, value=port, message=text, set=fixed, safe=own)
    if stated_host and stated_host not in LOCAL and host is not None and host in LOCAL:
        text = f"The trainer connects to {host}, the server runs on {stated_host}."
        fixed = {"vllm_server_host": stated_host} if own else {}
        fields = ("vllm_server_host", "vllm_server_base_url", "vllm_server.host")
        return fail(*fields, value=host, message=text, set=fixed, safe=own)
    return PASS


@rule(
    "server-host-left-to-localhost",
    severity="error",
    trl=">=0.16",
    requires=("vllm-server-address-differs",),
    what="Training over several machines with the server's host left at 0.0.0.0.",
    why="0.0.0.0 means this machine: the other ones look for a server on themselves.",
    bad=Example(SERVER, {"hardware": {"num_machines": 2, "num_processes": 8}}),
    good=Example({**SERVER, "vllm_server_host": "10.0.0.5"}, {"hardware": {"num_machines": 2, "num_processes": 8}}),
    sources=("trl docs grpo_trainer.md",),
)
def server_host_left_to_localhost(config: ConfigView, facts: Facts) -> Outcome:
    machines = facts.number("hardware.num_machines") or 1
    host, _ = address(config)
    if not facts.server or machines < 2 or host is None or host not in LOCAL:
        return PASS
    return fail(
        "vllm_server_host",
        "vllm_server_base_url",
        "hardware.num_machines",
        value=host,
        message=f"{int(machines)} machines and vllm_server_host={host}: name the server's address (vllm_server_host or "
        "vllm_server_base_url).",
    )


@rule(
    "vllm-server-window-too-short",
    severity="error",
    what="The server's window is shorter than the longest prompt plus the completion cap.",
    why="The server rejects the request; TRL does not truncate prompts since 0.26.",
    bad=Example(
        {**SERVER, "max_completion_length": 3500},
        {"vllm_server": {"max_model_len": 6000}, "dataset": {"max_prompt_tokens": 8128}},
    ),
    good=Example(
        {**SERVER, "max_completion_length": 3500},
        {"vllm_server": {"max_model_len": 12000}, "dataset": {"max_prompt_tokens": 8128}},
    ),
    sources=("huggingface/trl#3180",),
)
def vllm_server_window_too_short(config: ConfigView, facts: Facts) -> Outcome:
    window, prompt = facts.number("vllm_server.max_model_len"), facts.sent_prompt_tokens
    cap = config.integer("max_completion_length")
    if not facts.server:
        return PASS
    if window is None or cap is None:
        return not_applicable("vllm_server.max_model_len is not stated")
    need = (prompt or 0) + cap
    if need <= window:
        return PASS
    room = int(window) - cap
    filtered = f"filter prompts to at most {room} tokens, or " if room > 0 else ""
    return fail(
        "vllm_server.max_model_len",
        "dataset.max_prompt_tokens",
        "max_completion_length",
        value=int(window),
        message=f"{prompt or 'Any'} prompt tokens + max_completion_length={cap} exceed the server's window of "
        f"{int(window)}: "
        f"{filtered}serve with --max-model-len {need} or more.",
    )


@rule(
    "shared-weight-sync-port",
    severity="error",
    trl=">=0.16",
    what="Two server-mode runs on one host with the same weight-sync port.",
    why="Both open port 51216 to send weights; the second one fails with address already in use.",
    bad=Example(SERVER, {"launch": {"concurrent_runs_on_host": 2}}),
    good=Example({**SERVER, "vllm_group_port": 51217}, {"launch": {"concurrent_runs_on_host": 2}}),
    sources=("huggingface/trl#4545",),
)
def shared_weight_sync_port(config: ConfigView, facts: Facts) -> Outcome:
    runs = facts.number("launch.concurrent_runs_on_host") or 1
    if not facts.server or runs < 2:
        return PASS
    if config.exists("vllm_group_port") and config.effective("vllm_group_port") != config.table.default(
        "vllm_group_port"
    ):
        return PASS
    option = (
        "give the others vllm_group_port=51217, 51218, ..."
        if config.exists("vllm_group_port")
        else "upgrade to trl>=0.27"
    )
    return fail(
        "vllm_group_port",
        "launch.concurrent_runs_on_host",
        value=config.effective("vllm_group_port"),
        message=f"{int(runs)} server-mode runs on one host all use weight-sync port 51216: {option}.",
    )


@rule(
    "vllm-server-serves-other-model",
    severity="error",
    trl=">=0.16",
    what="The server holds another model than the one that is trained.",
    why="The pushed weights do not fit, or rollouts come from another policy.",
    bad=Example(SERVER, {"model": {"name": "Qwen3-4B"}, "vllm_server": {"model": "Qwen2.5-3B-Instruct"}}),
    good=Example(SERVER, {"model": {"name": "Qwen3-4B"}, "vllm_server": {"model": "Qwen/Qwen3-4B"}}),
    sources=("huggingface/trl#3487",),
)
def vllm_server_serves_other_model(facts: Facts) -> Outcome:
    served, trained = facts.text("vllm_server.model"), facts.text("model.name") or facts.text("model.path")
    if not facts.server:
        return PASS
    if served is None or trained is None:
        return not_applicable("vllm_server.model or model.name is not stated")
    if _base(served) == _base(trained):
        return PASS
    return fail(
        "vllm_server.model",
        "model.name",
        value=served,
        message=f"The server serves {served} and the run trains {trained}: serve the model that is trained.",
    )


def _base(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].lower()


@rule(
    "vllm-server-address-malformed",
    severity="error",
    trl=">=0.16",
    what="The server's address is written in a form that the trainer cannot use.",
    why="The trainer puts /health behind vllm_server_base_url as it stands, and http:// in front of vllm_server_host: "
    "with a path such as /v1 or a slash at the end, without a scheme, or with one too many, it never reaches the "
    "server and waits for vllm_server_timeout or for good.",
    bad=Example({**SERVER, "vllm_server_base_url": "http://localhost:8000/v1"}, {"versions": {"trl": "1.12.0"}}),
    good=Example({**SERVER, "vllm_server_base_url": "http://localhost:8000"}, {"versions": {"trl": "1.12.0"}}),
    sources=("trl/generation/vllm_client.py", "huggingface/autotrain-advanced:tests/test_grpo_trainer.py"),
    fix_safety="Safe: it is the same server.",
)
def vllm_server_address_malformed(config: ConfigView, facts: Facts) -> Outcome:
    if not facts.server:
        return PASS
    url = config.text("vllm_server_base_url") if config.exists("vllm_server_base_url") else None
    name = "vllm_server_base_url" if url else "vllm_server_host"
    given = url or config.text("vllm_server_host") or ""
    better = _usable_url(given) if url else _usable_host(given)
    if better is None:
        return PASS
    return fail(
        name,
        value=given,
        message=f"{name}={given!r} is not reached: write {better!r}.",
        set={name: better},
        safe=True,
    )


def _usable_url(url: str) -> str | None:
    """Return how a base URL should be written, None when it is fine; a path of a proxy is left alone."""
    path = url.split("://", 1)[-1].partition("/")[2].rstrip("/")
    plain = url.rstrip("/").removesuffix("/v1") if path in ("", "v1") else url.rstrip("/")
    if "://" not in plain:
        return f"http://{plain.lstrip('/')}"
    return plain if plain != url else None


@rule(
    "vllm-server-sync-without-cuda",
    severity="error",
    trl=">=1.11",
    what="A vLLM server with a trainer on another kind of device than CUDA.",
    why="Weights reach the server through vLLM's NCCL engine; the client raises when it is set up.",
    bad=Example(SERVER, {"hardware": {"device": "npu"}}),
    good=Example(SERVER, {"hardware": {"device": "cuda"}}),
    sources=("trl/generation/vllm_client.py",),
)
def vllm_server_sync_without_cuda(facts: Facts) -> Outcome:
    device = (facts.text("hardware.device") or "").lower()
    if not facts.server or device.partition(":")[0] not in WITHOUT_NCCL:
        return PASS
    return fail(
        "hardware.device",
        "vllm_mode",
        value=device,
        message=f"TRL {facts.versions.trl} sends weights to the server over NCCL, which {device} does not have: set "
        "vllm_mode='colocate', or use trl<1.11.",
    )


def _usable_host(host: str) -> str | None:
    """Return the host in a text that is a URL or holds a port, None when it is a plain host."""
    if "://" not in host and (host.count(":") != 1 or not host.rpartition(":")[2].isdecimal()):
        return None
    try:
        return urlsplit(host if "://" in host else f"//{host}").hostname
    except ValueError:
        return None


@rule(
    "vllm-server-answers-without-body",
    severity="error",
    trl=">=1.11,<1.14.1",
    what="A native vLLM server before 0.26, in a release that reads its answer to a cache reset.",
    why="vLLM answers with an empty body up to 0.25, and the trainer parses it as JSON after sending its weights: "
    "JSONDecodeError at the first rollout.",
    bad=Example(SERVER, {"versions": {"trl": "1.14.0", "vllm": "0.25.0"}}),
    good=Example(SERVER, {"versions": {"trl": "1.14.2", "vllm": "0.25.0"}}),
    sources=("vllm-project/vllm#46893", "trl wheels 1.11 to 1.14.1 (trl/generation/vllm_client.py)"),
)
def vllm_server_answers_without_body(facts: Facts) -> Outcome:
    if not facts.server or not facts.versions.within("vllm", "<0.26"):
        return PASS
    return fail(
        "versions.vllm",
        "vllm_mode",
        "versions.trl",
        value=facts.versions.get("vllm"),
        message=f"TRL {facts.versions.trl} cannot read what the server of vLLM {facts.versions.get('vllm')} answers: "
        "use vllm>=0.26, or trl>=1.14.1.",
    )


RULES = (
    vllm_server_sync_without_cuda,
    vllm_server_address_malformed,
    vllm_server_not_running,
    vllm_server_address_differs,
    server_host_left_to_localhost,
    vllm_server_window_too_short,
    shared_weight_sync_port,
    vllm_server_serves_other_model,
    vllm_server_answers_without_body,
)
