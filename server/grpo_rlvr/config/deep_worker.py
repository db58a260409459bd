"""The deep check's child: constructs the real GRPOConfig and GRPOTrainer on a tiny model and takes one step.

Runs inside the training interpreter, with the standard library, our reward library and the training packages only:
    python -m grpo_rlvr.config.deep_worker REQUEST.json ANSWER.json
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grpo_rlvr.config.deep_model import build_model, build_rows, stand_in_rewards

MAX_TEXT = 600
GROUP = 4
TOKENS = 8
# What a CPU process of its own cannot or must not honour; the config stage sees them all.
DROPPED = frozenset(
    {
        "deepspeed", "fsdp", "fsdp_config", "parallelism_config", "torch_compile", "torch_compile_backend",
        "torch_compile_mode", "tf32", "push_to_hub", "hub_model_id", "hub_token", "hub_strategy", "report_to",
        "run_name", "eval_strategy", "eval_steps", "eval_on_start", "per_device_eval_batch_size",
        "load_best_model_at_end", "save_strategy", "save_steps", "output_dir", "logging_dir",
        "resume_from_checkpoint", "generation_batch_size", "steps_per_generation", "gradient_accumulation_steps",
        "num_train_epochs", "log_completions", "log_completions_hub_repo", "use_liger_kernel", "use_liger_loss",
        "use_transformers_continuous_batching", "use_transformers_paged", "cache_implementation", "ddp_backend",
        "ddp_timeout", "dataloader_num_workers", "fp16", "dataloader_prefetch_factor",
        "dataloader_persistent_workers", "max_prompt_length", "do_eval", "full_determinism", "auto_find_batch_size",
        "use_cpu", "local_rank",
    }
)  # fmt: skip
KEPT_INIT = ("dtype", "torch_dtype")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?")


class Recorder(logging.Handler):
    """Gathers warnings and log records from warning level on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text of a record."""
        with contextlib.suppress(Exception):
            self.texts.append(record.getMessage())


@contextlib.contextmanager
def recorded() -> Iterator[list[str]]:
    """Yield the list that gathers every warning of the block, Python's and the loggers' alike."""
    handler = Recorder()
    loggers = [logging.getLogger(name) for name in ("", "trl", "transformers", "accelerate", "peft", "datasets")]
    for logger in loggers:
        logger.addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield handler.texts
        finally:
            for logger in loggers:
                logger.removeHandler(handler)
            handler.texts.extend(f"{entry.category.__name__}: {entry.message}" for entry in caught)


def shape(text: str) -> str:
    """Return a message without its numbers, so that the same warning of two runs compares equal."""
    return _NUMBERS.sub("#", text)[:200]


def short(error: BaseException | str) -> str:
    """Return a message on one line, cut."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    text = " ".join(text.split())
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def config_stage(given: dict[str, Any], processes: int, folder: Path) -> None:
    """Construct the real GRPOConfig with all given arguments, as one of `processes` processes."""
    from trl import GRPOConfig

    class Sized(GRPOConfig):  # type: ignore[misc]
        """The config, seen from a run with more processes than this one."""

        @property
        def world_size(self) -> int:
            """Processes of the run that is checked."""
            return processes

    Sized(**{"output_dir": str(folder / "config"), "use_cpu": True, "report_to": "none", **copy.deepcopy(given)})


def small_config(given: dict[str, Any], folder: Path) -> Any:
    """Return a config that keeps every choice of the given one but the sizes and the machine."""
    from trl import GRPOConfig

    kept = {name: value for name, value in given.items() if name not in DROPPED and not name.startswith("vllm_")}
    kept.pop("use_vllm", None)
    group = min(int(kept.get("num_generations", GROUP)), GROUP)
    init = {name: value for name, value in (kept.pop("model_init_kwargs", None) or {}).items() if name in KEPT_INIT}
    small: dict[str, Any] = {
        **kept,
        "output_dir": str(folder / "run"),
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "num_generations": group,
        "per_device_train_batch_size": group,
        "max_completion_length": TOKENS,
        "max_steps": 1,
        "logging_steps": 1,
        "disable_tqdm": True,
        "bf16": False,
    }
    if init:
        small["model_init_kwargs"] = init
    return GRPOConfig(**small)


def trainer_stage(request: dict[str, Any], given: dict[str, Any], folder: Path) -> Any:
    """Construct the real trainer on a tiny model of the same class."""
    from trl import GRPOTrainer

    model, tokenizer, peft_config = build_model(request, folder)
    arguments = small_config(given, folder)
    if not isinstance(model, str):
        arguments.model_init_kwargs = given.get("model_init_kwargs")
    return GRPOTrainer(
        model=model,
        reward_funcs=request_rewards(request),
        args=arguments,
        train_dataset=build_rows(request),
        processing_class=tokenizer,
        peft_config=peft_config,
    )


def request_rewards(request: dict[str, Any]) -> list[Any]:
    """Return the user's reward functions, or stand-ins with the stated signatures where there is no code."""
    built: list[Any] = []
    for entry in request["rewards"]:
        if "reward" in entry:
            from rlvr_rewards import build

            spec = {name: entry[name] for name in ("reward", "args", "weight") if name in entry}
            built.append(build(spec, Path(request["root"])))
        else:
            built.append(stand_in_rewards(entry))
    return built or [stand_in_rewards({"name": "length"})]


def inspect_trainer(trainer: Any) -> dict[str, Any]:
    """Return what is trained and what the reference is, before the step."""
    import torch

    parameters = dict(trainer.model.named_parameters())
    facts: dict[str, Any] = {
        "trainable": sum(value.numel() for value in parameters.values() if value.requires_grad),
        "total": sum(value.numel() for value in parameters.values()),
        "before": {name: value.detach().clone() for name, value in parameters.items() if value.requires_grad},
    }
    reference = getattr(trainer, "ref_model", None)
    if getattr(trainer, "beta", 0.0) == 0.0:
        facts["reference"] = "none (beta is 0)"
    elif reference is None:
        copied = any(".ref." in name for name in parameters)
        facts["reference"] = "a copy of the adapter" if copied else "the model with its adapter switched off"
    else:
        own, other = trainer.accelerator.unwrap_model(trainer.model).state_dict(), reference.state_dict()
        same = all(
            name in other and torch.equal(value.float().cpu(), other[name].float().cpu()) for name, value in own.items()
        )
        facts["reference"] = (
            "a copy with the policy's weights" if same else "a model with other weights than the policy"
        )
    return facts


def step_stage(trainer: Any, facts: dict[str, Any]) -> list[str]:
    """Take one step, and return what was observed about it."""
    import torch

    trainer.train()
    held = sum(value.numel() for group in trainer.optimizer.param_groups for value in group["params"])
    observed = []
    if held == 0:
        observed.append("The optimizer holds no parameter: nothing is trained.")
    after = dict(trainer.model.named_parameters())
    moved = any(
        name in after and not torch.equal(value, after[name].detach()) for name, value in facts["before"].items()
    )
    advantage = [entry for entry in trainer.state.log_history if "frac_reward_zero_std" in entry]
    flat = bool(advantage) and advantage[-1]["frac_reward_zero_std"] == 1.0
    if held and not moved and not flat and trainer.args.learning_rate:
        observed.append("No trained weight changed in one step although rewards differ within groups.")
    if facts["reference"].startswith("a model with other weights"):
        observed.append("The reference model has other weights than the policy it starts from.")
    return observed


def attempt(request: dict[str, Any], given: dict[str, Any], folder: Path, answer: dict[str, Any]) -> None:
    """Go through trainer and step, and write what happened into `answer`."""
    trainer, facts = None, {}
    for stage in ("trainer", "inspect", "step"):
        with recorded() as texts:
            try:
                if stage == "trainer":
                    trainer = trainer_stage(request, given, folder)
                elif stage == "inspect":
                    facts = inspect_trainer(trainer)
                    answer.update({name: facts[name] for name in ("trainable", "total", "reference")})
                else:
                    for text in step_stage(trainer, facts):
                        answer["findings"].append({"stage": "step", "kind": "observed", "text": text})
            except Exception as error:
                answer["findings"].append({"stage": stage, "kind": "raised", "text": short(error)})
                return
            finally:
                answer["warned"] += [(stage, short(text)) for text in texts]
        answer["stages"].append(stage)


def plain_answer() -> dict[str, Any]:
    """Return an empty answer."""
    return {"stages": [], "findings": [], "warned": [], "trainable": None, "total": None, "reference": None}


def versions() -> dict[str, str]:
    """Return the versions of the training packages here."""
    from importlib import metadata

    found = {}
    for name in ("trl", "transformers", "torch", "peft", "accelerate", "datasets"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def run(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the answer to a request: what raised, what warned beyond a plain config, what was measured."""
    answer = plain_answer()
    answer["versions"] = versions()
    given = request["config"]
    baseline = plain_answer()
    with recorded() as texts:
        config_stage({}, 8, folder)
    baseline["warned"] += [("config", short(text)) for text in texts]
    with recorded() as texts:
        try:
            config_stage(given, request["processes"], folder)
            answer["stages"].append("config")
        except Exception as error:
            answer["findings"].append({"stage": "config", "kind": "raised", "text": short(error)})
    answer["warned"] += [("config", short(text)) for text in texts]
    if request.get("skip_trainer"):
        answer["reason"] = request["skip_trainer"]
    elif "config" in answer["stages"]:
        plain = {"config": {}, "model": {}, "rewards": [], "dataset": {}, "peft_config": None, "root": request["root"]}
        attempt(plain, {}, folder / "plain", baseline)
        attempt(request, given, folder / "given", answer)
    usual = {shape(text) for _, text in baseline["warned"]}
    fresh = {shape(text): (stage, text) for stage, text in reversed(answer.pop("warned")) if shape(text) not in usual}
    answer["findings"] += [{"stage": stage, "kind": "warned", "text": text} for stage, text in reversed(fresh.values())]
    return answer


def limit_memory(limit: int) -> None:
    """Bound this process's address space, where the system can."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> int:
    """Answer the request file."""
    request = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    limit_memory(request["memory_limit"])
    folder = Path(sys.argv[1]).parent / "work"
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    answer = run(request, folder)
    Path(sys.argv[2]).write_text(json.dumps(answer), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
