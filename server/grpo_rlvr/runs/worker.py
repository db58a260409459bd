"""The training process: builds TRL's GRPOTrainer from a run folder and trains. Runs inside the training interpreter.

It imports neither pydantic nor the server. Every rank runs it; rank 0 writes.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from grpo_rlvr.runs.callbacks import RunCallback
from grpo_rlvr.runs.capture import capture_completions
from grpo_rlvr.runs.checkpoints import last_complete
from grpo_rlvr.runs.records import read_record, write_record
from grpo_rlvr.runs.rewards import build_rewards
from grpo_rlvr.runs.rows import load_dataset
from grpo_rlvr.runs.seal import verify_folder
from grpo_rlvr.runs.stopping import StopFlag

# A scheduler knows the host of the vLLM server only when it has given it out.
VLLM_HOST_VARIABLE = "GRPO_RLVR_VLLM_HOST"
# Where checkpoints and logs go, and where training goes on, is the launcher's to say.
OUR_CONFIG = ("output_dir", "resume_from_checkpoint", "logging_dir")


def build_model_arguments(spec: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Return `model_init_kwargs`: the config's own, with what the model section states on top."""
    model = spec["model"]
    arguments = dict(config.get("model_init_kwargs") or {})
    for key in ("dtype", "attn_implementation", "revision"):
        if model.get(key):
            arguments[key] = model[key]
    if model.get("trust_remote_code"):
        arguments["trust_remote_code"] = True
    if model.get("quantization"):
        from transformers import BitsAndBytesConfig

        arguments["quantization_config"] = BitsAndBytesConfig(**model["quantization"])
    return arguments


def build_trainer(folder: Path, spec: dict[str, Any]) -> Any:
    """Construct the trainer exactly as the spec says; every argument error of TRL surfaces here."""
    from transformers.utils import logging as transformers_logging
    from trl import GRPOConfig, GRPOTrainer

    # A progress bar in a file is a thousand lines of noise.
    transformers_logging.disable_progress_bar()
    config = {key: value for key, value in spec["config"].items() if key not in OUR_CONFIG}
    if os.environ.get(VLLM_HOST_VARIABLE):
        config["vllm_server_host"] = os.environ[VLLM_HOST_VARIABLE]
    arguments = build_model_arguments(spec, config)
    if arguments:
        config["model_init_kwargs"] = arguments
    peft_config = None
    if spec["model"].get("peft") is not None:
        from peft import LoraConfig

        peft_config = LoraConfig(**spec["model"]["peft"])
    rewards, capture = capture_completions(build_rewards(folder, spec["rewards"]))
    extra: dict[str, Any] = {}
    if spec["model"].get("chat_template"):
        from transformers import AutoTokenizer

        extra["processing_class"] = AutoTokenizer.from_pretrained(spec["model"]["path"], padding_side="left")
        extra["processing_class"].chat_template = spec["model"]["chat_template"]
    trainer: Any = GRPOTrainer(
        model=spec["model"]["path"],
        reward_funcs=rewards,
        args=GRPOConfig(output_dir=spec["output_dir"], **config),
        train_dataset=load_dataset(spec["dataset"]),
        peft_config=peft_config,
        **extra,
    )
    trainer.grpo_rlvr_capture = capture
    return trainer


def train(folder: Path, attempt: Path) -> dict[str, Any]:
    """Train to the end, a stop or a halt, and return the result record."""
    spec = read_record(folder / "spec.json")
    if spec is None:
        raise RuntimeError(f"no readable spec.json in {folder}")
    verify_folder(folder, spec)
    os.chdir(spec["workspace"])
    flag = StopFlag(folder, int(attempt.name))
    main_rank = os.environ.get("RANK", "0") == "0"
    if main_rank:
        write_record(folder / "progress.json", {"attempt": int(attempt.name), "phase": "loading", "time": time.time()})
    trainer = build_trainer(folder, spec)
    if trainer.accelerator.num_processes != spec["processes"]:
        raise RuntimeError(f"{spec['processes']} processes were planned, {trainer.accelerator.num_processes} take part")
    callback = RunCallback(folder, attempt, spec, flag, trainer)
    trainer.add_callback(callback)
    checkpoint = last_complete(Path(spec["output_dir"])) if int(attempt.name) > 1 else None
    callback.begin(checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    callback.note_phase("saving the model")
    trainer.save_model(str(folder / "model"))
    if trainer.accelerator.is_main_process:
        trainer.processing_class.save_pretrained(str(folder / "model"))
    trainer.accelerator.wait_for_everyone()
    return callback.result()


def main() -> None:
    """Entry point: `accelerate launch -m grpo_rlvr.runs.worker RUN_FOLDER ATTEMPT`."""
    # `-m` put the current folder first on the path: nothing that lies there may stand for a library.
    sys.path[:] = [entry for entry in sys.path if entry not in ("", str(Path.cwd()))]
    folder, attempt = Path(sys.argv[1]), Path(sys.argv[1]) / "attempts" / sys.argv[2]
    main_rank = os.environ.get("RANK", "0") == "0"
    try:
        result = train(folder, attempt)
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        _write_error(attempt, error)
        # Other ranks may wait in a collective for this one, and interpreter shutdown would wait for them.
        os._exit(1)
    if main_rank:
        write_record(attempt / "result.json", result)
    _end_distributed()


def _write_error(attempt: Path, error: BaseException) -> None:
    text = str(error).strip() or type(error).__name__
    record = {
        "type": type(error).__name__,
        "message": f"{type(error).__name__}: {text[-2000:]}",
        "rank": os.environ.get("RANK", "0"),
        "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__))[-8000:],
    }
    # The first rank that fails says why; the others fail because of it.
    if not (attempt / "error.json").exists():
        try:
            write_record(attempt / "error.json", record)
        except OSError as failed:
            print(f"cannot record the error: {failed}", file=sys.stderr, flush=True)


def _end_distributed() -> None:
    import torch.distributed as distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
