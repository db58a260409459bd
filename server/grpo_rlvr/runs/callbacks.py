"""What a training run writes at each step, and what ends it early."""

from __future__ import annotations

import contextlib
import math
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from grpo_rlvr.runs.checkpoints import last_complete, mark_complete
from grpo_rlvr.runs.guards import Guards
from grpo_rlvr.runs.records import append_rows, keep_rows, write_record
from grpo_rlvr.runs.stopping import StopFlag


class RunCallback(TrainerCallback):  # type: ignore[misc]
    """Writes metrics, completions and progress on rank 0, marks checkpoints, and applies stops and guards on all."""

    def __init__(self, folder: Path, attempt: Path, spec: dict[str, Any], flag: StopFlag, trainer: Any) -> None:
        self.folder, self.attempt, self.spec, self.flag, self.trainer = folder, attempt, spec, flag, trainer
        self.main = bool(trainer.accelerator.is_main_process)
        self.guards = Guards(spec.get("guards") or {})
        self.began = time.time()
        self.first_step: int | None = None
        self.captured = 0
        self.ended: tuple[str, str] | None = None
        self.last: dict[str, Any] = {"processes": int(trainer.accelerator.num_processes)}

    def begin(self, checkpoint: Path | None) -> None:
        """Drop what an earlier attempt wrote after the checkpoint, so that no step is there twice."""
        if not self.main:
            return
        step = int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
        for name in ("metrics.jsonl", "completions.jsonl"):
            keep_rows(self.folder / name, lambda row: row.get("step", 0) <= step, self.attempt / f"superseded_{name}")
        self.note_phase("training")

    def note_phase(self, phase: str, **more: Any) -> None:
        """Write what the run is doing, for whoever asks."""
        if self.main:
            record = {"attempt": int(self.attempt.name), "phase": phase, "time": time.time(), "began": self.began}
            write_record(self.folder / "progress.json", {**record, **self.last, **more}, durable=False)

    def result(self) -> dict[str, Any]:
        """Return the result record of this attempt."""
        state, message = self.ended or ("finished", f"trained {self.trainer.state.global_step} steps")
        return {"state": state, "message": message, "step": self.trainer.state.global_step, "time": time.time()}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note how long the run will be."""
        self.first_step = state.global_step
        self.began = time.time()
        self._note_step(state)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Write the metrics row and let the guards look at it."""
        if not logs or "train_runtime" in logs:
            return
        row = {"step": state.global_step, "time": round(time.time(), 3), **{k: _number(v) for k, v in logs.items()}}
        if self.main:
            append_rows(self.folder / "metrics.jsonl", [row])
            self._write_completions(state.global_step)
        self.last["metrics"] = row
        reason = self.guards.look(logs)
        if reason:
            self._end("halted", f"halted at step {state.global_step}: {reason}", control)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop with a checkpoint when any rank was asked to."""
        reason = self.flag.check()
        if self._any_rank(bool(reason)):
            why = reason or "stopped: another rank was asked to"
            kind = "halted" if self.flag.halting else "stopped"
            self._end(kind, f"{why} (step {state.global_step})", control)
        self._note_step(state)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark the checkpoint as whole, once every rank has written its part."""
        self.trainer.accelerator.wait_for_everyone()
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if self.main and folder.is_dir():
            mark_complete(folder, state.global_step)

    def _end(self, state: str, message: str, control: Any) -> None:
        self.ended = self.ended or (state, message)
        control.should_save = last_complete(Path(self.trainer.args.output_dir)) is None or (
            self.trainer.args.save_strategy != "no" or state != "finished"
        )
        control.should_training_stop = True

    def _any_rank(self, mine: bool) -> bool:
        accelerator = self.trainer.accelerator
        if accelerator.num_processes == 1:
            return mine
        import torch

        flag = torch.tensor([int(mine)], device=accelerator.device)
        return bool(accelerator.reduce(flag, reduction="sum").item())

    def _note_step(self, state: Any) -> None:
        done = state.global_step - (self.first_step or 0)
        elapsed = time.time() - self.began
        left = max(0, (state.max_steps or 0) - state.global_step)
        self.last.update(done=state.global_step, total=state.max_steps or None, elapsed_s=round(elapsed, 3))
        self.last["eta_s"] = round(elapsed / done * left, 1) if done > 0 else None
        self.note_phase("training")

    def _write_completions(self, step: int) -> None:
        capture = self.trainer.grpo_rlvr_capture
        if capture.count == self.captured:
            return
        self.captured = capture.count
        kept = getattr(self.trainer, "_logs", None)
        advantages: list[float] | None = None
        with contextlib.suppress(KeyError, TypeError, ValueError):
            values = list(kept["advantages"]) if kept else []
            # TRL gathers over all ranks; this rank's own rows come first.
            advantages = [round(float(value), 6) for value in values]
        append_rows(self.folder / "completions.jsonl", capture.rows(step, advantages))


def _number(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        # Strict JSON has no such numbers, and other readers would choke on the bare words.
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value
