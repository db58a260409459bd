"""Inputs and outputs of the run engine: what is launched or sampled, and what can be asked about it afterwards."""

from typing import Any, Literal

from pydantic import Field, JsonValue

from grpo_rlvr.models.common import Interval, JsonObject, Model, RewardSpec
from grpo_rlvr.models.recommend import Label

RunState = Literal["planned", "starting", "running", "halted", "finished", "failed", "stopped", "lost"]
RunKind = Literal["train", "sample"]
Stage = Literal["proof", "smoke", "full"]


class ModelSpec(Model):
    """The model that is trained."""

    path: str = Field(description="Folder of the model, relative to the workspace, or a hub id.")
    revision: str | None = Field(default=None, description="Hub revision; pins a hub id to one state.")
    dtype: str | None = Field(default=None, description="Weight type to load in: float32, bfloat16, float16.")
    peft: JsonObject | None = Field(default=None, description="Arguments of peft.LoraConfig; none trains all weights.")
    quantization: JsonObject | None = Field(
        default=None, description="Arguments of transformers.BitsAndBytesConfig; needs peft."
    )
    attn_implementation: str | None = Field(default=None, description="eager, sdpa, flash_attention_2, ...")
    chat_template: str | None = Field(default=None, description="Chat template text instead of the tokenizer's own.")
    trust_remote_code: bool = Field(default=False, description="Run the model repository's own Python code.")


class DatasetSpec(Model):
    """Rows with a `prompt` column and whatever columns the rewards read."""

    path: str = Field(description="JSONL or parquet file, folder of datasets.save_to_disk, or a hub id.")
    split: str = Field(default="train", description="Split, where the source has several.")
    name: str | None = Field(default=None, description="Configuration name of a hub data set.")
    revision: str | None = Field(default=None, description="Hub revision.")
    limit: int | None = Field(default=None, ge=1, description="Use only the first rows, at most this many.")
    rename: dict[str, str] = Field(default_factory=dict, description="Columns to rename, {from: to}.")


class LauncherSpec(Model):
    """How many processes on which machines, through accelerate."""

    processes: int = Field(default=1, ge=1, description="Training processes on each machine.")
    machines: int = Field(default=1, ge=1, description="Machines; above 1 only planned here, started on each of them.")
    main_host: str | None = Field(default=None, description="Address of the first machine, as the others reach it.")
    main_port: int | None = Field(default=None, ge=1, le=65535, description="Rendezvous port; a free one by default.")
    cpu: bool = Field(default=False, description="Train on the CPU although GPUs are there.")
    gpus: list[int] = Field(default_factory=list, description="GPU indices of the trainer; none means the first free.")
    mixed_precision: Literal["no", "bf16", "fp16"] | None = Field(default=None, description="accelerate's setting.")
    deepspeed: JsonObject | None = Field(
        default=None, description="DeepSpeed: {zero_stage: 2 or 3, offload_optimizer, offload_param: cpu or none}."
    )
    fsdp: JsonObject | None = Field(default=None, description="FSDP: {version: 1 or 2, any accelerate fsdp_* option}.")
    threads: int | None = Field(
        default=None, ge=1, description="OMP_NUM_THREADS of each process; 1 on CPU when not stated."
    )
    env: dict[str, str] = Field(default_factory=dict, description="Further environment variables; no secrets.")


class VllmSpec(Model):
    """Where completions are generated."""

    mode: Literal["none", "colocate", "server"] = Field(
        default="none", description="none: the trainer itself; colocate: on its GPUs; server: a server we start."
    )
    gpus: list[int] = Field(default_factory=list, description="GPU indices of the server; none means the next free.")
    host: str = Field(default="127.0.0.1", description="Address the server listens on.")
    port: int | None = Field(default=None, ge=1, le=65535, description="Port of the server; a free one by default.")
    tensor_parallel_size: int = Field(default=1, ge=1, description="GPUs that share one copy of the model.")
    data_parallel_size: int = Field(default=1, ge=1, description="Copies of the model.")
    max_model_length: int | None = Field(default=None, ge=1, description="Prompt plus completion, tokens.")
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1, description="Share of the GPU's memory.")
    startup_timeout_s: float = Field(default=900, gt=0, description="Seconds until the server must be healthy.")
    external: bool = Field(default=False, description="The server already runs elsewhere; start none.")


class EvaluationSpec(Model):
    """Accuracy on held-out prompts before and after training, with the same rewards."""

    dataset: DatasetSpec = Field(description="Held-out prompts.")
    samples_per_prompt: int = Field(default=1, ge=1, le=64, description="Completions of each prompt.")
    temperature: float | None = Field(
        default=None, ge=0, description="Sampling temperature; 0 is greedy; the config's own when not stated."
    )


class GuardSpec(Model):
    """What halts a run, with a checkpoint."""

    nan: bool = Field(default=True, description="Loss, gradient norm or reward is NaN or infinite.")
    constant_reward_logs: int | None = Field(
        default=50, ge=2, description="Logs in a row with exactly the same reward in every group; none: never."
    )
    truncated_logs: int | None = Field(
        default=50, ge=1, description="Logs in a row with every completion cut off; none: never."
    )
    labels: list[Label] = Field(default_factory=list, description="Diagnosis labels that halt the run.")


class RunSpec(Model):
    """Everything that a training run is made of."""

    name: str = Field(default="", max_length=80, description="A name for people.")
    config: JsonObject = Field(description="Keyword arguments of trl.GRPOConfig.")
    model: ModelSpec
    dataset: DatasetSpec
    rewards: list[RewardSpec] = Field(min_length=1, description="Reward functions.")
    reading: str | None = Field(default=None, description="Id of the reading that opens the gate.")
    python: str | None = Field(default=None, description="Training interpreter.")
    launcher: LauncherSpec = Field(default_factory=LauncherSpec)
    vllm: VllmSpec = Field(default_factory=VllmSpec)
    evaluation: EvaluationSpec | None = Field(default=None, description="Before/after accuracy; none: not measured.")
    guards: GuardSpec = Field(default_factory=GuardSpec)
    resume: str | None = Field(default=None, description="Id of the run to continue from its last checkpoint.")
    setup: dict[str, Any] = Field(default_factory=dict, description="What surrounds the config, as in check_config.")


class Endpoint(Model):
    """An OpenAI-compatible server to sample from."""

    base_url: str = Field(description="Such as http://127.0.0.1:8000/v1")
    model: str = Field(description="Model name that the server knows.")
    api_key_env: str | None = Field(default=None, description="Environment variable that holds the key; never the key.")
    timeout_s: float = Field(default=120, gt=0, description="Seconds for one request.")
    concurrency: int = Field(default=8, ge=1, le=256, description="Requests at a time.")


class SampleRequest(Model):
    """Prompts to complete with the sampling settings of a config."""

    prompts: str | list[dict[str, Any]] = Field(
        default_factory=list, description="JSONL or parquet file, datasets folder or hub id; or rows with `prompt`."
    )
    split: str = Field(default="train", description="Split, where the source has several.")
    model: ModelSpec | str | None = Field(default=None, description="Model folder or hub id; or give `endpoint`.")
    endpoint: Endpoint | None = Field(default=None, description="A served model instead of `model`.")
    num_per_prompt: int = Field(default=8, ge=1, le=1024, description="Completions of each prompt.")
    limit: int | None = Field(default=None, ge=1, description="Use only the first prompts, at most this many.")
    config: JsonObject = Field(
        default_factory=dict, description="GRPOConfig arguments; its sampling settings and chat template are used."
    )
    seed: int = Field(default=0, ge=0, description="Seed of the sampling.")
    batch_size: int = Field(default=64, ge=1, description="Completions generated at a time.")
    engine: Literal["auto", "transformers", "vllm"] = Field(
        default="auto", description="auto: vLLM when it is installed and a GPU is there, else transformers."
    )
    python: str | None = Field(default=None, description="Training interpreter.")
    resume: str | None = Field(default=None, description="Id of a sampling run to continue; nothing else is needed.")


class RunStarted(Model):
    """A run that was just started."""

    run_id: str
    kind: RunKind
    state: RunState
    folder: str = Field(description="The run's folder, relative to the workspace.")
    samples: str | None = Field(default=None, description="Where samples.jsonl grows, relative to the workspace.")
    message: str


class Command(Model):
    """A command of a launch plan."""

    name: str = Field(description="What it is for: train, vllm server, evaluate before, ...")
    argv: list[str]
    environment: dict[str, str] = Field(description="Variables that it gets on top of the caller's.")
    machine: int = Field(default=0, ge=0, description="Rank of the machine that runs it.")


class Refusal(Model):
    """A reason not to launch."""

    rule: str = Field(description="Stable id of the reason.")
    message: str
    remedy: str


class RunGate(Model):
    """What let a run start."""

    reading_id: str | None = Field(default=None, description="The reading; none where the stage needs none.")
    open: bool
    reasons: list[str] = Field(default_factory=list, description="Why it is closed.")
    record: dict[str, Any] = Field(default_factory=dict, description="The gate's own summary at launch time.")


class LaunchResult(Model):
    """What was launched, or would be."""

    run_id: str | None = Field(default=None, description="None on a dry run or refusal.")
    state: RunState
    stage: Stage
    digest: str = Field(description="sha256 over config, model, data, rewards: smoke and full runs are matched by it.")
    commands: list[Command]
    files: dict[str, str] = Field(description="Files of the run folder, or of the plan, by name.")
    effective: dict[str, JsonValue] = Field(description="What will run: steps, batch, checkpoints, devices.")
    refusals: list[Refusal] = Field(default_factory=list, description="Only on a dry run; a real launch raises them.")
    warnings: list[str] = Field(default_factory=list)
    gate: RunGate | None = None
    message: str


class Progress(Model):
    """How far a run is."""

    done: int = Field(ge=0, description="Steps or completions done.")
    total: int | None = Field(default=None, description="Steps or completions in all; unknown until the run knows.")
    unit: Literal["steps", "completions"]
    phase: str = Field(description="What it is doing now.")
    processes: int | None = Field(default=None, ge=1, description="Training processes that take part, all machines.")
    eta_s: float | None = Field(default=None, ge=0, description="Seconds left in this phase; unknown at first.")
    elapsed_s: float | None = Field(default=None, ge=0, description="Seconds since this attempt started.")


class RewardChange(Model):
    """One reward's mean on held-out prompts, before and after, paired by prompt."""

    reward: str
    before: Interval
    after: Interval
    difference: Interval = Field(description="Mean of after minus before over prompts.")


class EvaluationResult(Model):
    """Before/after evaluation."""

    prompts: int = Field(ge=0)
    samples_per_prompt: int = Field(ge=1)
    rewards: list[RewardChange]
    method: str = Field(description="How the intervals were made.")


class GpuUse(Model):
    """One GPU of a run, now."""

    index: int
    memory_used_gb: float = Field(ge=0)
    memory_total_gb: float = Field(ge=0)
    utilization: float = Field(ge=0, le=1)


class RunStatus(Model):
    """A run, now."""

    run_id: str
    name: str = ""
    kind: RunKind
    stage: Stage | None = None
    state: RunState
    message: str = Field(description="What it is doing, or why it ended, in a sentence.")
    created: str = Field(description="ISO time.")
    started: str | None = None
    ended: str | None = None
    attempt: int = Field(ge=0, description="1 for the first start; each resume adds 1.")
    progress: Progress | None = None
    metrics: dict[str, JsonValue] = Field(default_factory=dict, description="Latest logged metrics.")
    checkpoints: list[int] = Field(default_factory=list, description="Steps with a complete checkpoint.")
    evaluation: EvaluationResult | None = None
    diagnosis: list[str] | None = Field(
        default=None, description="Labels that the metrics so far support; null: too few rows yet, or no scipy here."
    )
    gpus: list[GpuUse] = Field(default_factory=list)
    log_tail: list[str] = Field(default_factory=list, description="End of the log, when the run went wrong.")
    digest: str | None = None
    reading_id: str | None = None
    folder: str = Field(description="The run's folder, relative to the workspace.")
    files: dict[str, str] = Field(default_factory=dict, description="metrics, completions, samples, log, model.")


class RunLogs(Model):
    """Lines of a run's log."""

    run_id: str
    lines: list[str]
    truncated: bool = Field(description="Whether earlier matching lines were left out.")
    path: str = Field(description="The whole log, relative to the workspace.")


class RunSummary(Model):
    """One line of the list of runs."""

    run_id: str
    name: str = ""
    kind: RunKind
    stage: Stage | None = None
    state: RunState
    created: str
    message: str = ""


class RunList(Model):
    """All runs of a workspace, newest first."""

    runs: list[RunSummary]
    total: int = Field(ge=0)
