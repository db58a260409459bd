"""The demo: route, check, read, launch, diagnose, report, through the server's tools and nothing else."""

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import anyio

from grpo_rlvr.demo.client import DemoClient, DemoError
from grpo_rlvr.demo.tasks import Task, tiny_task
from grpo_rlvr.errors import InputError
from grpo_rlvr.files import write_atomic

MARKER = ".grpo-rlvr-demo"
READING_ROWS = 64
# The policy of this workspace alone. The default admits persons only and closes on a pace no person reads at.
POLICY = """\
# The gate policy of the demo's own workspace. The reader here is a program that says so ("demo oracle, not a person"),
# which the default policy refuses. Do not copy this into a workspace where a run costs anything.
[gate]
readers = ["person", "oracle"]
min_median_seconds = 0.0
"""


def run_demo(out: str, *, fast: bool, real: bool) -> int:
    """Run the demo in the folder `out` and print each step. Returns 0 when every step did what it shows.

    Raises:
        InputError: the folder holds something that is not a demo. DemoError: a step failed.
    """
    if real:
        from grpo_rlvr.demo.real import real_task

        task = real_task()
    else:
        task = tiny_task()
    folder = _fresh_folder(Path(out))
    try:
        return anyio.run(_Demo(task, folder, fast).run)
    except BaseExceptionGroup as group:
        # The client's task groups wrap what a step raised; the person wants the step's own words.
        raise _innermost(group) from None


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _fresh_folder(folder: Path) -> Path:
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARKER).exists())):
        raise InputError(
            f"'{folder}' exists and is not an earlier demo", where="--out", remedy="Name a new or empty folder."
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_atomic(folder / MARKER, "Made by grpo-rlvr demo; the next demo replaces this folder.\n")
    write_atomic(folder / "grpo-rlvr.toml", POLICY)
    return folder.resolve()


class _Demo:
    def __init__(self, task: Task, folder: Path, fast: bool) -> None:
        self.task, self.folder, self.fast = task, folder, fast
        self.started = time.monotonic()
        self.notes = [task.story]
        self.client = DemoClient(str(folder), task.judge, self.say)

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.started:5.0f} s] {text}", flush=True)

    async def run(self) -> int:
        self.say(f"demo: {self.task.title}")
        self.say("building the policy and its problems")
        facts = self.task.build(self.folder, self.fast, self.say)
        self.notes.append("Policy: " + ", ".join(f"{key} {value}" for key, value in facts.items()) + ".")
        async with self.client.client:
            tools = await self.client.client.list_tools()
            self.say(f"connected over stdio to the MCP server: {len(tools.tools)} tools")
            samples = await self.sample()
            config = await self.check()
            reading = await self.read(samples, config)
            run_id = await self.launch(config, reading)
            await self.diagnose(run_id, config)
            report = await self.report(run_id)
            return await self.verdict(run_id, report)

    async def sample(self) -> str:
        self.say("1. route: sampling the untrained policy")
        settings = {key: self.task.config[key] for key in ("temperature", "max_completion_length")}
        started = await self.client.call(
            "sample_outputs", prompts="train.jsonl", model="policy", config=settings, limit=self.task.prompts,
            num_per_prompt=self.task.samples_per_prompt, seed=3407,
        )  # fmt: skip
        await self.client.wait(started["run_id"], "sampling")
        return str(started["samples"])

    async def check(self) -> dict[str, Any]:
        self.say("2. check: a config with three realistic mistakes")
        steps = self.task.fast_steps if self.fast else self.task.steps
        config = {**self.task.config, **self.task.mistakes, "max_steps": steps}
        first = await self._check(config)
        for finding in first["findings"]:
            self.say(f"  {finding['severity']}: {finding['rule']} ({', '.join(finding['fields'][:2])})")
        if first["verdict"] != "error":
            raise DemoError(f"the wrong config was not refused: {first['verdict']}")
        fixed = {**first["fixed_config"], **self.task.choices}
        second = await self._check(fixed)
        if second["verdict"] == "error":
            raise DemoError(f"the fixed config is still refused: {[f['message'] for f in second['findings']]}")
        changed = sorted(key for key in config.keys() | fixed.keys() if config.get(key) != fixed.get(key))
        errors = [finding["rule"] for finding in first["findings"] if finding["severity"] == "error"]
        self.say(f"  fixed {', '.join(changed)}: verdict {second['verdict']}")
        self.say(f"  {second['effective']['summary'][0]}")
        self.notes.append(
            f"The config first proposed had mistakes: {', '.join(f'{k}={v}' for k, v in self.task.mistakes.items())}, "
            f"and no loss_type. The check refused it ({', '.join(errors)}); changed: {', '.join(changed)}."
        )
        return fixed

    async def _check(self, config: dict[str, Any]) -> dict[str, Any]:
        return await self.client.call("check_config", config=config, setup=self.task.setup)

    async def read(self, samples: str, config: dict[str, Any]) -> str:
        self.say("3. read: first a careless reward, then the real one")
        for name, code in self.task.files.items():
            write_atomic(self.folder / name, code)
        careless = await self._score(samples, [self.task.careless], config)
        status = await self._read(careless["reading_id"])
        agreed = status["agreement"]
        if status["gate"]["open"]:
            raise DemoError("the gate opened for the careless reward")
        _, refused = await self.client.attempt(
            "launch_training", spec=self._spec(config, careless["reading_id"], [self.task.careless])
        )
        if not refused:
            raise DemoError("a run started on the careless reward")
        name = self.task.careless["reward"]
        faults = f"paid {agreed['false_positives']} wrong ones, missed {agreed['false_negatives']} right ones"
        self.say(f"  careless reward {name}: {faults} of {agreed['judged']}; gate closed; launch refused")
        self.notes.append(
            f"A careless reward ({name}) was read first. Of {agreed['judged']} completions it {faults}, by the "
            f"reader's verdict; {_dead(careless)}the gate stayed closed and the launch was refused."
        )
        scored = await self._score(samples, self.task.rewards, config)
        route = scored["route"]
        rate = route["success_rate"]
        self.say(
            f"  base success rate {rate['value']:.2f} ({rate['low']:.2f} to {rate['high']:.2f}): route {route['route']}"
        )
        if route["route"] != "grpo":
            raise DemoError(f"the route is {route['route']}: {route['why']}")
        status = await self._read(scored["reading_id"])
        if not status["gate"]["open"]:
            raise DemoError(f"the gate stays closed: {[r['message'] for r in status['gate']['reasons']]}")
        self.say(
            f"  {status['decided']} rows read, agreement {status['agreement']['agreement']['value']:.2f}: gate open"
        )
        return str(scored["reading_id"])

    async def _score(self, samples: str, rewards: list[dict[str, Any]], config: dict[str, Any]) -> dict[str, Any]:
        scored = await self.client.call("score_samples", path=samples, rewards=rewards, config=config)
        if scored["errors"]:
            raise DemoError(f"a reward broke: {scored['errors'][0]['message']}")
        bad = [attack["attack"] for attack in scored["audit"]["attacks"] if attack["outcome"] in {"paid", "failed"}]
        if bad:
            self.say(f"  the audit fooled it with: {', '.join(bad)}")
        return scored

    async def _read(self, reading_id: str) -> dict[str, Any]:
        """Answer forms until every row is read; a call shows only so many."""
        while True:
            started = await self.client.call(
                "start_reading", reading_id=reading_id, channel="elicitation", rows_per_form=8
            )
            if started["read"] >= started["rows"]:
                return await self.client.call("reading_status", reading_id=reading_id)

    def _spec(self, config: dict[str, Any], reading: str, rewards: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "name": f"demo: {self.task.title}",
            "config": config,
            "model": {"path": "policy"},
            "dataset": {"path": "train.jsonl"},
            "rewards": rewards,
            "reading": reading,
            "evaluation": {
                "dataset": {"path": "heldout.jsonl"},
                "samples_per_prompt": 1 if self.fast else self.task.evaluation_samples,
            },
            "launcher": {"cpu": True, "threads": self.task.threads},
            "setup": self.task.setup,
        }

    async def launch(self, config: dict[str, Any], reading: str) -> str:
        self.say("4. launch: real TRL, detached, in the training interpreter")
        spec = self._spec(config, reading, self.task.rewards)
        write_atomic(self.folder / "run.json", json.dumps(spec, indent=2) + "\n")
        for stage in ("smoke", "full"):
            launched = await self.client.call("launch_training", path="run.json", stage=stage)
            self.say(f"  {stage}: run {launched['run_id']}")
            await self.client.wait(launched["run_id"], stage)
        return str(launched["run_id"])

    async def diagnose(self, run_id: str, config: dict[str, Any]) -> None:
        status = await self.client.call("run_status", run_id=run_id)
        answer = await self.client.call(
            "recommend_variant", path=status["folder"], config=config, setup=self.task.setup
        )
        labels = ", ".join(f"{label['label']} ({label['confidence']})" for label in answer["labels"])
        self.say(f"5. diagnose: {labels}; variant {answer['recommendation']['variant']}")
        self.say(f"  {answer['recommendation']['why']}")

    async def report(self, run_id: str) -> str:
        written = await self.client.call("write_report", run_id=run_id, path="report.html", notes=self.notes)
        return str(written["path"])

    async def verdict(self, run_id: str, report: str) -> int:
        status = await self.client.call("run_status", run_id=run_id)
        change = _correctness(status["evaluation"])
        before, after = change["before"], change["after"]
        self.say(f"held-out problems, {change['reward']}: {_share(before)} before, {_share(after)} after")
        ok = self.fast or self.task.aim is None or after["value"] >= self.task.aim
        if not ok:
            print(f"The aim of {self.task.aim:.2f} on held-out problems was not reached.", file=sys.stderr)
        self.say(f"done; {self.client.forms} forms answered by the demo's oracle, which is not a person")
        print(f"\nReport: {self.folder / report}")
        print("Next: open the report; then sample your own model (grpo-rlvr sample --help), or ask your coding agent.")
        return 0 if ok else 1


def _dead(scored: dict[str, Any]) -> str:
    """A clause on rewards that gave every sample the same score: they teach nothing."""
    dead = [reward for reward in scored["rewards"] if reward["distinct"] == 1]
    return f"it gave every sample {dead[0]['mean']:g}, so it could teach nothing; " if dead else ""


def _share(interval: dict[str, Any]) -> str:
    return f"{interval['value']:.2f} ({interval['low']:.2f} to {interval['high']:.2f})"


def _correctness(evaluation: dict[str, Any]) -> dict[str, Any]:
    """The reward that is 1 for a right answer and 0 otherwise, else the first."""
    rows: list[dict[str, Any]] = evaluation["rewards"]
    return next((row for row in rows if row["reward"] == "correct"), rows[0])
