"""Batch arithmetic: processes x device batch x micro-steps, cut into groups, as each TRL version does it."""

from dataclasses import dataclass
from functools import cached_property

from grpo_rlvr.config.facts import Facts
from grpo_rlvr.config.view import ConfigView, Unknown
from grpo_rlvr.models.check import BatchPlan


@dataclass(frozen=True)
class Batch:
    """Numbers that follow from a config and its setup; reading one that is undefined raises `Unknown`."""

    config: ConfigView
    facts: Facts

    def _positive(self, name: str) -> int:
        value = self.config.integer(name)
        if value is None or value < 1:
            raise Unknown(f"{name} is no positive whole number")
        return value

    @property
    def processes(self) -> int:
        """Training processes; GPUs of a vLLM server do not count."""
        return self.facts.processes

    @cached_property
    def per_device(self) -> int:
        """Completions per process and micro-step (prompts in TRL 0.14)."""
        return self._positive("per_device_train_batch_size")

    @cached_property
    def accumulation(self) -> int:
        """Micro-steps per optimizer update."""
        return self._positive("gradient_accumulation_steps")

    @cached_property
    def group(self) -> int:
        """Completions per prompt."""
        return self._positive("num_generations")

    @cached_property
    def iterations(self) -> int:
        """Passes over one rollout; 1 before TRL had the option."""
        return self._positive("num_iterations") if self.config.exists("num_iterations") else 1

    @property
    def micro(self) -> int:
        """Completions (prompts in 0.14) of one micro-step over all processes."""
        return self.processes * self.per_device

    @cached_property
    def steps(self) -> int:
        """Micro-steps that one rollout feeds: 1 before 0.17, the accumulation in 0.17, an option since 0.18."""
        if not self.facts.trl_is(">=0.17"):
            return 1
        if not self.config.exists("steps_per_generation"):
            return self.accumulation
        if self.config.effective("steps_per_generation") is not None:
            return self._positive("steps_per_generation")
        if self.config.effective("generation_batch_size") is not None:
            size = self._positive("generation_batch_size")
            if size % self.micro:
                raise Unknown("generation_batch_size is no multiple of the global micro-batch")
            return size // self.micro
        return self.accumulation

    @property
    def completions(self) -> int:
        """Completions of one rollout over all processes."""
        rollout = self.micro * self.steps
        return rollout * self.group if self.counts_prompts else rollout

    @property
    def counts_prompts(self) -> bool:
        """Whether the device batch counts prompts (TRL 0.14), not completions."""
        return self.facts.trl_is("<0.15")

    @property
    def whole_groups(self) -> bool:
        """Whether a rollout divides into whole groups."""
        return self.completions % self.group == 0

    @property
    def prompts(self) -> int:
        """Unique prompts of one rollout, rounded down."""
        return self.completions // self.group

    @property
    def on_policy(self) -> bool:
        """Whether every rollout is used for one update by the policy that made it, so that every ratio is 1."""
        if self.facts.trl_is("<0.17"):
            return self.iterations == 1
        return self.accumulation % (self.steps * self.iterations) == 0

    @property
    def updates_per_rollout(self) -> float:
        """Optimizer updates made on one rollout, all passes together."""
        return self.steps * self.iterations / self.accumulation

    def plan(self) -> BatchPlan:
        """Return the arithmetic in full.

        Raises:
            Unknown: one of the numbers is undefined.
        """
        rows = self.facts.dataset_rows
        rollouts = rows // self.prompts if rows is not None and self.whole_groups and self.prompts else None
        updates = None if rollouts is None else rollouts * self.updates_per_rollout
        return BatchPlan(
            processes=self.processes,
            processes_source=self.facts.processes_source,
            per_device_train_batch_size=self.per_device,
            gradient_accumulation_steps=self.accumulation,
            steps_per_generation=self.steps,
            num_generations=self.group,
            num_iterations=self.iterations,
            completions_per_rollout=self.completions,
            prompts_per_rollout=self.completions / self.group,
            completions_per_update=self.micro * self.accumulation * (self.group if self.counts_prompts else 1),
            updates_per_rollout=self.updates_per_rollout,
            rollouts_per_epoch=rollouts,
            updates_per_epoch=updates,
            prompts_dropped_per_epoch=None if rollouts is None or rows is None else rows - rollouts * self.prompts,
        )
