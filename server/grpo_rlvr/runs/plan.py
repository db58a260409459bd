"""From a run spec to what will really run: the effective config, the worker's spec, and the commands."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_rlvr.interpreter import Interpreter
from grpo_rlvr.models.run import RunSpec, Stage
from grpo_rlvr.runs.accelerate import accelerate_config, train_command
from grpo_rlvr.runs.gpus import Gpu
from grpo_rlvr.runs.sources import (
    content_digest,
    read_rows,
    resolve_dataset,
    resolve_model,
    resolve_rewards,
    reward_digest,
    reward_files,
)
from grpo_rlvr.runs.start import ATTEMPT
from grpo_rlvr.runs.store import canonical
from grpo_rlvr.runs.vllm_server import server_phase
from grpo_rlvr.workspace import Workspace

STAGE_STEPS = {"proof": 2, "smoke": 10}
# Held-out prompts of the short stages: enough to see that the evaluation works.
STAGE_PROMPTS = {"proof": 4, "smoke": 16}
DEFAULT_VLLM_PORT = 8000
# GRPOConfig fields that carry a secret: they travel in the environment, never in a file.
SECRETS = {"hub_token": "HF_TOKEN", "push_to_hub_token": "HF_TOKEN"}


@dataclass(frozen=True)
class Plan:
    """A resolved run spec.

    `rows` holds the data set's rows where they could be read here (local JSONL), else None.
    """

    spec: RunSpec
    stage: Stage
    workspace: Workspace
    interpreter: Interpreter
    model: dict[str, Any]
    dataset: dict[str, Any]
    evaluation: dict[str, Any] | None
    rows: list[dict[str, Any]] | None
    rewards: list[dict[str, Any]]
    reward_digest: str
    gpus: list[Gpu]

    @property
    def on_cpu(self) -> bool:
        """Whether training uses the CPU."""
        launcher = self.spec.launcher
        # Of other machines only the spec knows whether they have GPUs; the one that plans may have none.
        here = launcher.machines == 1 and not self.gpus
        return launcher.cpu or bool(self.spec.config.get("use_cpu")) or here

    def digest(self) -> str:
        """Return the digest that a smoke run and its full run share: all that decides what is trained."""
        parts = {
            "config": {k: v for k, v in self.spec.config.items() if k not in ("output_dir", "run_name", *SECRETS)},
            "model": [self.spec.model.model_dump(), content_digest(self.model["path"])],
            "dataset": [self.spec.dataset.model_dump(), content_digest(self.dataset["path"])],
            "rewards": self.reward_digest,
            "launcher": self.spec.launcher.model_dump(exclude={"main_host", "main_port", "gpus", "env"}),
            "vllm": self.spec.vllm.model_dump(exclude={"host", "port", "gpus", "startup_timeout_s"}),
        }
        return "sha256:" + hashlib.sha256(canonical(parts).encode("utf-8")).hexdigest()


def make_plan(spec: RunSpec, stage: Stage, workspace: Workspace, interpreter: Interpreter, gpus: list[Gpu]) -> Plan:
    """Resolve every path, id and reward of a spec.

    Raises:
        InputError, NotFoundError: a part of the spec names nothing or cannot be read.
    """
    dataset = resolve_dataset(spec.dataset, workspace)
    rewards = resolve_rewards(spec.rewards, workspace)
    evaluation = None
    if spec.evaluation is not None:
        evaluation = resolve_dataset(spec.evaluation.dataset, workspace, "evaluation.dataset.path")
        read_rows(evaluation, "evaluation.dataset.path")
    return Plan(
        spec=spec,
        stage=stage,
        workspace=workspace,
        interpreter=interpreter,
        model=resolve_model(spec.model, workspace),
        dataset=dataset,
        evaluation=evaluation,
        rows=read_rows(dataset, "dataset.path"),
        rewards=rewards,
        reward_digest=reward_digest(rewards, workspace.root),
        gpus=gpus,
    )


def effective_config(plan: Plan) -> dict[str, Any]:
    """Return the GRPOConfig arguments that the worker uses: the config's own, and what the launch adds."""
    config = {k: v for k, v in plan.spec.config.items() if k != "output_dir" and k not in SECRETS}
    config["logging_steps"] = 1
    config["logging_strategy"] = "steps"
    config.setdefault("disable_tqdm", True)
    config["report_to"] = _trackers(config.get("report_to"), plan.interpreter)
    if plan.on_cpu:
        config["use_cpu"] = True
    vllm = plan.spec.vllm
    if vllm.mode != "none":
        config |= {"use_vllm": True, "vllm_mode": vllm.mode}
    if vllm.mode == "server" and not vllm.external:
        config |= {"vllm_server_host": vllm.host, "vllm_server_port": vllm.port or DEFAULT_VLLM_PORT}
    if "reward_weights" not in config and any(reward["weight"] != 1.0 for reward in plan.rewards):
        config["reward_weights"] = [reward["weight"] for reward in plan.rewards]
    if plan.stage != "full":
        steps = min(STAGE_STEPS[plan.stage], _steps(config) or STAGE_STEPS[plan.stage])
        config |= {
            "max_steps": steps,
            "save_strategy": "steps",
            "save_steps": max(1, steps // 2),
            "save_total_limit": 2,
        }
    elif "save_strategy" not in config and "save_steps" not in config:
        steps = _steps(config)
        config |= {"save_strategy": "steps", "save_steps": max(1, steps // 10) if steps else 0.1}
        config.setdefault("save_total_limit", 2)
    return config


def secrets_of(spec: RunSpec) -> dict[str, str]:
    """Return the secrets of a config as environment variables."""
    return {variable: value for key, variable in SECRETS.items() if isinstance(value := spec.config.get(key), str)}


def worker_spec(plan: Plan, run_id: str, folder: Path) -> dict[str, Any]:
    """Return what the processes of the run read; it holds no secret."""
    return {
        "run_id": run_id,
        "stage": plan.stage,
        "workspace": str(plan.workspace.root),
        "config": effective_config(plan),
        "model": plan.model,
        "dataset": plan.dataset,
        "rewards": plan.rewards,
        "reward_digest": plan.reward_digest,
        "reward_files": reward_files(plan.rewards, plan.workspace.root),
        "guards": plan.spec.guards.model_dump(),
        "output_dir": str(output_folder(plan, folder)),
        "processes": plan.spec.launcher.processes * plan.spec.launcher.machines,
        "jobs": _evaluation_jobs(plan, folder),
    }


def output_folder(plan: Plan, folder: Path) -> Path:
    """Return where checkpoints go: the config's output_dir in a full run, else inside the run's folder."""
    stated = plan.spec.config.get("output_dir")
    if plan.stage != "full" or not isinstance(stated, str) or not stated:
        return folder / "checkpoints"
    return plan.workspace.resolve(stated, "config.output_dir")


def phases(plan: Plan, folder: Path) -> list[dict[str, Any]]:
    """Return the commands of one machine in their order: evaluate, vLLM server, train, evaluate."""
    python = plan.interpreter.path
    found: list[dict[str, Any]] = []
    environment = _device_environment(plan)
    if plan.evaluation is not None:
        found.append(sample_phase(folder, python, "before", environment))
    server = server_phase(plan.spec.vllm, plan.model, plan.interpreter)
    if server is not None:
        found.append(server)
    if plan.spec.guards.labels and plan.spec.launcher.machines == 1:
        from grpo_rlvr.runs.watch import watch_phase

        found.append(watch_phase(folder, ATTEMPT))
    training = {**environment, **plan.spec.launcher.env, "TENSORBOARD_LOGGING_DIR": str(folder / "tensorboard")}
    config = folder / "accelerate.json"
    found.append({"name": "train", "argv": train_command(python, config, folder, ATTEMPT), "environment": training})
    if plan.evaluation is not None:
        found.append(sample_phase(folder, python, "after", environment))
    return found


def write_accelerate(plan: Plan, folder: Path) -> None:
    """Write accelerate's own config file, so that no file in the user's home decides."""
    text = json.dumps(accelerate_config(plan.spec.launcher, plan.on_cpu, plan.spec.config), indent=1)
    (folder / "accelerate.json").write_text(text + "\n", encoding="utf-8")


def sample_phase(folder: Path, python: Path, job: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the phase that runs one sampling job of a run."""
    names = {"sample": "sampling", "before": "evaluating before training", "after": "evaluating after training"}
    argv = [str(python), "-m", "grpo_rlvr.runs.sample_worker", str(folder), ATTEMPT, job]
    return {"name": names[job], "argv": argv, "environment": {"OMP_NUM_THREADS": "1", **(environment or {})}}


def _evaluation_jobs(plan: Plan, folder: Path) -> dict[str, Any]:
    from grpo_rlvr.runs.sampling import sampling_settings

    evaluation = plan.spec.evaluation
    if evaluation is None or plan.evaluation is None:
        return {}
    sampling = sampling_settings(plan.spec.config, plan.interpreter.packages.get("trl"))
    if evaluation.temperature is not None:
        sampling["temperature"] = evaluation.temperature
    prompts = dict(plan.evaluation)
    if plan.stage != "full":
        prompts["limit"] = min(STAGE_PROMPTS[plan.stage], prompts.get("limit") or STAGE_PROMPTS[plan.stage])
    job = {
        "prompts": prompts,
        "endpoint": None,
        "engine": "transformers",
        "num_per_prompt": evaluation.samples_per_prompt,
        "sampling": sampling,
        "seed": 20_240_601,
        "batch_size": 64,
        "rewards": plan.rewards,
        "progress": "evaluation_progress.json",
    }
    model = {**plan.model, "cpu": plan.on_cpu}
    before = {**job, "phase": "evaluating before training", "model": model, "out": "evaluation_before.jsonl"}
    trained = {**model, "path": str(folder / "model")}
    trained.pop("revision", None)
    after = {**job, "phase": "evaluating after training", "model": trained, "out": "evaluation_after.jsonl"}
    return {"before": before, "after": after}


def _device_environment(plan: Plan) -> dict[str, str]:
    threads = plan.spec.launcher.threads or (1 if plan.on_cpu else None)
    environment = {"OMP_NUM_THREADS": str(threads)} if threads else {}
    if plan.on_cpu:
        return {**environment, "CUDA_VISIBLE_DEVICES": ""}
    return {**environment, "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in plan.gpus)}


def _trackers(stated: Any, interpreter: Interpreter) -> Any:
    if stated == "none" or stated == ["none"]:
        return "none"
    have_tensorboard = "tensorboard" in interpreter.packages
    wanted = [stated] if isinstance(stated, str) else list(stated or [])
    if have_tensorboard and "tensorboard" not in wanted and "all" not in wanted:
        wanted.append("tensorboard")
    return wanted or "none"


def _steps(config: dict[str, Any]) -> int:
    steps = config.get("max_steps")
    return steps if isinstance(steps, int) and steps > 0 else 0
