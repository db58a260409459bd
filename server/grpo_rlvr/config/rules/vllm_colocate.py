"""vLLM on the training GPUs: ranks, memory share, window, sleep mode, ports, installed version."""

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.rule import PASS, Example, Fail, Outcome, fail, not_applicable, rule
from grpo_rlvr.config.tables import Table
from grpo_rlvr.config.versions import Versions
from grpo_rlvr.config.view import ConfigView
from grpo_rlvr.config.vllm_memory import kv_bytes_per_token, left_for_cache_gb, left_for_training_gb, training_need_gb

COLOCATE = {"use_vllm": True, "vllm_mode": "colocate"}
EIGHT = {"hardware": {"num_processes": 8, "gpus": 8, "gpu_mem_gb": 80}}
# The share from which vLLM leaves too little for weights, gradients and Adam, unless the numbers show otherwise.
LARGE_SHARE = 0.8
# vLLM needs some room for activations and at least one block of keys and values beside its weights.
MIN_CACHE_GB = 0.5
# A window from which one full sequence of keys and values takes gigabytes.
LARGE_WINDOW = 65_536


@rule(
    "vllm-mode-needs-installed-vllm",
    severity="error",
    what="use_vllm without vLLM in the training environment.",
    why="The trainer raises ImportError after it has loaded the model.",
    bad=Example({"use_vllm": True}, {"versions": {"vllm": None}}),
    good=Example({"use_vllm": True}, {"versions": {"vllm": "0.28.0"}}),
    sources=("trl/generation/vllm_generation.py",),
)
def vllm_mode_needs_installed_vllm(facts: Facts) -> Outcome:
    stated = facts.setup.section("versions")
    if not facts.use_vllm:
        return PASS
    if "vllm" not in stated:
        return not_applicable("versions.vllm is not stated")
    if stated["vllm"] not in (None, False, "") and str(stated["vllm"]).lower() not in {
        "none",
        "not installed",
        "missing",
    }:
        return PASS
    return fail(
        "use_vllm",
        "versions.vllm",
        value=True,
        message="use_vllm=true, but vLLM is not installed: pip install trl[vllm].",
    )


@rule(
    "vllm-import-broken",
    severity="error",
    trl="<0.27",
    requires=("vllm-mode-needs-installed-vllm",),
    what="A vLLM from 0.12 on installed beside a TRL that still imports its guided decoding.",
    why="vLLM 0.12 removed what TRL up to 0.26 imports, so importing the trainer fails.",
    bad=Example({"use_vllm": True}, {"versions": {"trl": "0.25.1", "vllm": "0.12.0"}}),
    good=Example({"use_vllm": True}, {"versions": {"trl": "0.25.1", "vllm": "0.10.2"}}),
    sources=("huggingface/trl#4617",),
)
def vllm_import_broken(versions: Versions, table: Table) -> Outcome:
    # The import happens whenever vLLM is installed, with use_vllm or without.
    if not versions.within("vllm", ">=0.12"):
        return PASS
    return fail(
        "versions.vllm",
        "use_vllm",
        "versions.trl",
        value=versions.get("vllm"),
        message=f"vLLM {versions.get('vllm')} with TRL {versions.trl}, which was made for "
        f"vllm{table.requires.get('vllm', '')}: "
        "install that, or upgrade TRL.",
    )


@rule(
    "vllm-outside-supported-window",
    severity="warning",
    requires=("vllm-mode-needs-installed-vllm", "vllm-import-broken"),
    what="The vLLM version lies outside the range of this TRL release.",
    why="TRL warns and goes on; weight transfer and sampling options change between vLLM releases.",
    bad=Example({"use_vllm": True}, {"versions": {"trl": "1.16.0", "vllm": "0.19.1"}}),
    good=Example({"use_vllm": True}, {"versions": {"trl": "1.16.0", "vllm": "0.28.0"}}),
    sources=("trl/import_utils.py", "huggingface/trl#4617"),
)
def vllm_outside_supported_window(facts: Facts, versions: Versions, table: Table) -> Outcome:
    window = table.requires.get("vllm")
    if not facts.use_vllm or window is None:
        return PASS
    inside = versions.within("vllm", window)
    if inside is None:
        return not_applicable("versions.vllm is not stated")
    if inside:
        return PASS
    return fail(
        "versions.vllm",
        "use_vllm",
        value=versions.get("vllm"),
        message=f"vLLM {versions.get('vllm')} is outside what TRL {versions.trl} supports: {window}. Install one "
        "within it.",
    )


@rule(
    "vllm-options-without-vllm",
    severity="info",
    what="vllm_* options while use_vllm is off.",
    why="They are ignored without a word; rollouts come from model.generate.",
    bad=Example({"vllm_gpu_memory_utilization": 0.4}),
    good=Example({"use_vllm": True, "vllm_gpu_memory_utilization": 0.4}),
    sources=("trl/trainer/grpo_config.py",),
)
def vllm_options_without_vllm(config: ConfigView, facts: Facts) -> Outcome:
    idle = [name for name in config.given if name.startswith("vllm_") and config.exists(name)]
    if facts.use_vllm or not idle:
        return PASS
    return fail(*idle, "use_vllm", value=False, message=f"use_vllm is off, so {', '.join(idle)} do nothing.")


@rule(
    "ranks-not-divisible-by-tensor-parallel",
    severity="error",
    trl=">=0.18",
    what="The number of processes is no multiple of vllm_tensor_parallel_size.",
    why="Colocate groups the ranks by that size; it raises ValueError after the model has loaded.",
    bad=Example({**COLOCATE, "vllm_tensor_parallel_size": 4}, {"hardware": {"num_processes": 6}}),
    good=Example({**COLOCATE, "vllm_tensor_parallel_size": 2}, {"hardware": {"num_processes": 6}}),
    sources=("huggingface/trl#3162", "trl/generation/vllm_generation.py"),
)
def ranks_not_divisible_by_tensor_parallel(config: ConfigView, facts: Facts) -> Outcome:
    size = config.integer("vllm_tensor_parallel_size") or 1
    if not facts.colocate or size < 2:
        return PASS
    if not facts.processes_known:
        return not_applicable("hardware.num_processes is not stated")
    if facts.processes % size == 0:
        return PASS
    fitting = [str(n) for n in range(1, facts.processes + 1) if facts.processes % n == 0]
    return fail(
        "vllm_tensor_parallel_size",
        "hardware.num_processes",
        value=size,
        message=f"{facts.processes} processes do not split into groups of vllm_tensor_parallel_size={size}; allowed: "
        f"{', '.join(fitting)}.",
    )


@rule(
    "heads-not-divisible-by-tensor-parallel",
    severity="error",
    what="The model's attention heads are no multiple of the tensor-parallel size of vLLM.",
    why="vLLM refuses to shard the heads unevenly when the engine starts.",
    bad=Example(
        {**COLOCATE, "vllm_tensor_parallel_size": 4},
        {"model": {"num_attention_heads": 14}, "hardware": {"num_processes": 4}},
    ),
    good=Example(
        {**COLOCATE, "vllm_tensor_parallel_size": 2},
        {"model": {"num_attention_heads": 14}, "hardware": {"num_processes": 4}},
    ),
    sources=("vllm-project/vllm#414", "vllm-project/vllm#2652"),
)
def heads_not_divisible_by_tensor_parallel(config: ConfigView, facts: Facts) -> Outcome:
    heads = facts.number("model.num_attention_heads") or facts.number("model.heads")
    size = config.integer("vllm_tensor_parallel_size") if config.exists("vllm_tensor_parallel_size") else None
    if facts.server:
        stated = facts.number("vllm_server.tensor_parallel_size")
        size = int(stated) if stated else None
    if not facts.use_vllm or (size is not None and size < 2):
        return PASS
    if heads is None or size is None:
        return not_applicable("model.num_attention_heads or vllm_server.tensor_parallel_size is not stated")
    if int(heads) % size == 0:
        return PASS
    field = "vllm_server.tensor_parallel_size" if facts.server else "vllm_tensor_parallel_size"
    return fail(
        field,
        "vllm_tensor_parallel_size",
        "model.num_attention_heads",
        value=size,
        message=f"{int(heads)} attention heads do not divide by a tensor-parallel size of {size}.",
    )


@rule(
    "vllm-share-not-a-fraction",
    severity="error",
    what="vllm_gpu_memory_utilization is not above 0 and at most 1.",
    why="It is a fraction of the GPU; GRPOConfig accepts anything and vLLM refuses it at engine start.",
    bad=Example({**COLOCATE, "vllm_gpu_memory_utilization": 90}),
    good=Example({**COLOCATE, "vllm_gpu_memory_utilization": 0.3}),
    sources=("trl/trainer/grpo_config.py",),
    fix_safety="Safe: a percentage is written as the fraction it means.",
)
def vllm_share_not_a_fraction(config: ConfigView) -> Outcome:
    value = config.number("vllm_gpu_memory_utilization")
    if value is None or 0 < value <= 1:
        return PASS
    percent = 1 < value <= 100
    return fail(
        "vllm_gpu_memory_utilization",
        value=value,
        message=f"vllm_gpu_memory_utilization={value:g}: it is a fraction above 0 and at most 1"
        + (f"; write {value / 100:g}." if percent else "."),
        set={"vllm_gpu_memory_utilization": value / 100} if percent else {},
        safe=percent,
    )


@rule(
    "vllm-share-leaves-no-room",
    severity="error",
    requires=("vllm-share-not-a-fraction",),
    what="vLLM takes so much of the training GPU that weights, gradients and optimizer do not fit beside it.",
    why="Out of memory at engine start or at the first backward pass.",
    bad=Example({**COLOCATE, "vllm_gpu_memory_utilization": 0.9}, EIGHT),
    good=Example({**COLOCATE, "vllm_gpu_memory_utilization": 0.3}, EIGHT),
    sources=("huggingface/trl#2688", "huggingface/trl#3008"),
)
def vllm_share_leaves_no_room(config: ConfigView, facts: Facts) -> Outcome:
    share = config.number("vllm_gpu_memory_utilization")
    if not facts.shares_gpu or share is None or share < LARGE_SHARE:
        return PASS
    if config.exists("vllm_enable_sleep_mode") and config.flag("vllm_enable_sleep_mode"):
        return not_applicable("sleep mode gives the memory back while training")
    left, need = left_for_training_gb(config, facts), training_need_gb(facts)
    if left is not None and need is not None and need <= left:
        return PASS
    numbers = f" ({left:.0f} GB left, about {need:.0f} GB needed)" if left is not None and need is not None else ""
    return fail(
        "vllm_gpu_memory_utilization",
        "vllm_mode",
        "hardware.gpu_mem_gb",
        value=share,
        message=f"vllm_gpu_memory_utilization={share:g} on the GPU that trains leaves no room for training{numbers}: "
        "use 0.3.",
        set={"vllm_gpu_memory_utilization": 0.3},
    )


@rule(
    "vllm-share-below-weights",
    severity="error",
    requires=("vllm-share-not-a-fraction",),
    what="vLLM's share of the GPU is smaller than the weights it has to load.",
    why="The engine finds no room for keys and values and refuses to start.",
    bad=Example({**COLOCATE, "vllm_gpu_memory_utilization": 0.1}, {"model": {"params_b": 7}, **EIGHT}),
    good=Example({**COLOCATE, "vllm_gpu_memory_utilization": 0.3}, {"model": {"params_b": 7}, **EIGHT}),
    sources=("modelscope/ms-swift#4594",),
)
def vllm_share_below_weights(config: ConfigView, facts: Facts) -> Outcome:
    left = left_for_cache_gb(config, facts)
    if not facts.colocate:
        return PASS
    if left is None:
        return not_applicable("model.params_b or hardware.gpu_mem_gb is not stated")
    if left >= MIN_CACHE_GB:
        return PASS
    share, memory = config.number("vllm_gpu_memory_utilization") or 0.0, facts.gpu_mem_gb or 0.0
    return fail(
        "vllm_gpu_memory_utilization",
        "vllm_tensor_parallel_size",
        "model.params_b",
        "hardware.gpu_mem_gb",
        value=share,
        message=f"vllm_gpu_memory_utilization={share:g} of {memory:g} GB is {share * memory:.1f} GB, and the weights "
        "take "
        f"{share * memory - left:.1f} GB: raise the share, or shard with vllm_tensor_parallel_size.",
    )


def _window(config: ConfigView, facts: Facts) -> tuple[str, float | None]:
    name = "vllm_max_model_length" if config.exists("vllm_max_model_length") else "vllm_max_model_len"
    stated = config.number(name) if config.exists(name) else None
    return name, stated if stated is not None else facts.number("model.max_position_embeddings")


@rule(
    "vllm-window-does-not-fit",
    severity="error",
    requires=("vllm-share-not-a-fraction", "vllm-share-below-weights"),
    what="The keys and values of one full window do not fit into vLLM's share of the GPU.",
    why="vLLM refuses to start when one sequence of the maximum length does not fit.",
    bad=Example(
        {**COLOCATE, "vllm_gpu_memory_utilization": 0.3},
        {
            "model": {"params_b": 8, "layers": 32, "kv_heads": 8, "head_dim": 128, "max_position_embeddings": 131072},
            "hardware": {"num_processes": 1, "gpu_mem_gb": 80},
        },
    ),
    good=Example(
        {**COLOCATE, "vllm_gpu_memory_utilization": 0.3, "vllm_max_model_length": 8192},
        {
            "model": {"params_b": 8, "layers": 32, "kv_heads": 8, "head_dim": 128, "max_position_embeddings": 131072},
            "hardware": {"num_processes": 1, "gpu_mem_gb": 80},
        },
    ),
    sources=("huggingface/trl#3788",),
)
def vllm_window_does_not_fit(config: ConfigView, facts: Facts) -> Outcome:
    name, window = _window(config, facts)
    per_token, left = kv_bytes_per_token(facts), left_for_cache_gb(config, facts)
    if not facts.colocate:
        return PASS
    if per_token is None or left is None or window is None:
        return not_applicable(
            "model.layers, model.kv_heads, model.head_dim, hardware.gpu_mem_gb or model.max_position_embeddings (where "
            f"{name} is not set) is not stated"
        )
    need = window * per_token / 1e9 / (config.integer("vllm_tensor_parallel_size") or 1)
    return PASS if need <= left else _window_fails(name, window, need, left, "")


@rule(
    "vllm-window-left-to-model",
    severity="warning",
    requires=("vllm-window-does-not-fit", "vllm-share-below-weights", "vllm-share-not-a-fraction"),
    what="The window of vLLM is left to a model with a huge one, on a small share of the GPU.",
    why="vLLM must be able to hold one full window of keys and values, or it refuses to start.",
    bad=Example(
        COLOCATE,
        {
            "model": {"params_b": 8, "max_position_embeddings": 131072},
            "hardware": {"num_processes": 1, "gpu_mem_gb": 80},
        },
    ),
    good=Example(
        {**COLOCATE, "vllm_max_model_length": 4096},
        {
            "model": {"params_b": 8, "max_position_embeddings": 131072},
            "hardware": {"num_processes": 1, "gpu_mem_gb": 80},
        },
    ),
    sources=("huggingface/trl#3788",),
)
def vllm_window_left_to_model(config: ConfigView, facts: Facts) -> Outcome:
    name, window = _window(config, facts)
    stated = config.exists(name) and config.effective(name) is not None
    if not facts.colocate or stated or window is None or window < LARGE_WINDOW or kv_bytes_per_token(facts) is not None:
        return PASS
    left = left_for_cache_gb(config, facts)
    if left is None:
        return _window_unknown(name, window, config)
    # Llama- and Qwen-like models keep 60 to 160 kB a token up to 10B parameters, twice that above.
    need = (
        window
        * (160e3 if (facts.params_b or 0) <= 10 else 320e3)
        / 1e9
        / (config.integer("vllm_tensor_parallel_size") or 1)
    )
    return PASS if need <= left else _window_fails(name, window, need, left, "up to ")


def _window_unknown(name: str, window: float, config: ConfigView) -> Outcome:
    share = config.number("vllm_gpu_memory_utilization") or 1.0
    if share > 0.5:
        return not_applicable("model.params_b or hardware.gpu_mem_gb is not stated")
    return fail(
        name,
        "model.max_position_embeddings",
        "vllm_gpu_memory_utilization",
        value=window,
        message=f"{name} is unset, so vLLM must hold one window of {window:g} tokens within {share:g} of the GPU: "
        "set it to "
        "the longest prompt + max_completion_length.",
    )


def _window_fails(name: str, window: float, need: float, left: float, hedge: str) -> Fail:
    return fail(
        name,
        "model.max_position_embeddings",
        "vllm_gpu_memory_utilization",
        "hardware.gpu_mem_gb",
        value=window,
        message=f"One window of {window:g} tokens takes {hedge}{need:.1f} GB of keys and values, and vLLM's share "
        "leaves "
        f"{left:.1f} GB: set {name} to the longest prompt + max_completion_length.",
    )


RULES = (
    vllm_mode_needs_installed_vllm,
    vllm_import_broken,
    vllm_outside_supported_window,
    vllm_options_without_vllm,
    ranks_not_divisible_by_tensor_parallel,
    heads_not_divisible_by_tensor_parallel,
    vllm_share_not_a_fraction,
    vllm_share_leaves_no_room,
    vllm_share_below_weights,
    vllm_window_does_not_fit,
    vllm_window_left_to_model,
)
