"""Scoring samples: call the rewards, audit them, summarise, and store what a person will read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_rlvr.errors import InputError
from grpo_rlvr.inspection import audit as auditing
from grpo_rlvr.inspection import selection, summary
from grpo_rlvr.inspection.batch_checks import OTHER_FORM, reads_row
from grpo_rlvr.inspection.channel import Limits
from grpo_rlvr.inspection.gate import reward_digest
from grpo_rlvr.inspection.judging import Judge, Scores, deciding, range_of
from grpo_rlvr.inspection.opening import OPENING
from grpo_rlvr.inspection.policy import policy_in_force
from grpo_rlvr.inspection.samples import CHARACTERS_A_TOKEN, Samples, load_samples
from grpo_rlvr.inspection.scoring import Called, RewardChild
from grpo_rlvr.inspection.store import ReadingStore, now
from grpo_rlvr.inspection.unrewarded import unrewarded, without_never
from grpo_rlvr.interpreter import Interpreter, training_interpreter
from grpo_rlvr.models.common import RewardSpec
from grpo_rlvr.models.reading import GatePolicy
from grpo_rlvr.models.score import Audit, Route, ScoreError, ScoreResult
from grpo_rlvr.workspace import Workspace

Progress = Callable[[float, float, str], None]
NEXT_WITHOUT_TAG = (
    "Look at the prompt as the model gets it. If it ends with that tag, mend the reward and score again; if not, the "
    "model leaves the tag out: teach it the form by SFT."
)


@dataclass
class Scored:
    """Samples with what the rewards said about them."""

    samples: Samples
    specs: list[RewardSpec]
    names: list[str]
    calls: list[Called]
    judge: Judge
    reads_row: list[bool | None]

    @property
    def rows(self) -> list[list[float | None]]:
        """The scores of each sample, one a reward."""
        return [list(scores) for scores in zip(*(call.scores for call in self.calls), strict=True)]

    @property
    def errors(self) -> list[ScoreError]:
        """Everything that broke."""
        return [error for call in self.calls for error in call.errors]


def score(
    samples: Sequence[Mapping[str, Any]] | str | Path,
    rewards: Sequence[RewardSpec],
    workspace: Workspace,
    *,
    columns: Mapping[str, str] | None = None,
    interpreter: Interpreter | None = None,
    config: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> ScoreResult:
    """Score samples with the rewards as TRL would call them, attack the rewards, and store it all for a reading.

    Args:
        samples: Objects with `prompt`, `completion` and dataset columns, or the path of such a JSON lines file.
        rewards: At least one reward spec.
        workspace: Where reward files are found and the reading is stored.
        columns: Renames dataset columns to the parameter names of the rewards.
        interpreter: The Python that runs the rewards; the training interpreter by default.
        config: The GRPOConfig, for num_generations, max_completion_length and max_steps.
        progress: Called with done, total and a message.
        limits: What a reward may use; by default what the workspace states.

    Raises:
        InputError: samples, specs or settings that cannot be used. NotFoundError: no such file.
    """
    loaded = load_samples(samples, workspace, columns)
    policy = policy_in_force(workspace)
    digest = reward_digest(rewards, workspace)
    settings = dict(config or {})
    scored, found = _run(loaded, rewards, workspace, policy, interpreter, settings, progress, limits)
    store = ReadingStore.create(workspace)
    result = _result(store.reading_id, scored, found, settings)
    _store(store, scored, found, result, digest, policy, _source(samples, workspace))
    return result


def audit_rewards(
    samples: Sequence[Mapping[str, Any]] | str | Path,
    rewards: Sequence[RewardSpec],
    workspace: Workspace,
    *,
    columns: Mapping[str, str] | None = None,
    interpreter: Interpreter | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> Audit:
    """Attack rewards with completions made from samples, without storing anything for a reading.

    Args and Raises as `score`.
    """
    loaded = load_samples(samples, workspace, columns)
    reward_digest(rewards, workspace)
    policy = policy_in_force(workspace)
    return _run(loaded, rewards, workspace, policy, interpreter, {}, progress, limits)[1].audit


def _run(
    samples: Samples,
    rewards: Sequence[RewardSpec],
    workspace: Workspace,
    policy: GatePolicy,
    interpreter: Interpreter | None,
    config: Mapping[str, Any],
    progress: Progress | None,
    limits: Limits | None,
) -> tuple[Scored, auditing.Found]:
    """Call and attack the rewards in one child process."""
    if not rewards:
        raise InputError("there are no rewards", where="argument 'rewards'", remedy="Name one reward at least.")
    report = progress or (lambda done, total, message: None)
    python = (interpreter or training_interpreter(workspace)).path
    count = len(rewards)
    with RewardChild(rewards, workspace.root, python, limits or Limits.of(workspace), _trainer_state(config)) as child:
        report(0, count + 1, "loading the rewards")
        scored = _call_all(child, samples, policy, report)
        report(count, count + 1, "attacking the rewards")
        found = auditing.audit(child, samples, scored.calls, scored.judge, scored.names, scored.reads_row)
    report(count + 1, count + 1, "done")
    return scored, found


def _trainer_state(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a reward may read of transformers' TrainerState before the first step."""
    return {
        "global_step": 0,
        "max_steps": config.get("max_steps") or 0,
        "epoch": 0.0,
        "num_train_epochs": config.get("num_train_epochs") or 0,
        "log_history": [],
        "is_world_process_zero": True,
        "is_local_process_zero": True,
    }


def _call_all(child: RewardChild, samples: Samples, policy: GatePolicy, report: Progress) -> Scored:
    count = len(child.specs)
    broken = dict(child.load())
    child.add("samples", samples.batch())
    calls = []
    for index in range(count):
        report(index, count + 1, f"calling {child.names[index]}")
        if index in broken:
            calls.append(Called([None] * len(samples.rows), [broken[index]]))
        else:
            calls.append(child.call(index, "samples"))
    names = _unique(child.names)
    reads = reads_row(child, samples, calls)
    weights = tuple(spec.weight for spec in child.specs)
    primary = deciding(weights, reads, [call.broken for call in calls])
    judge = Judge(
        weights=weights,
        ranges=tuple(range_of(call.scores) for call in calls),
        primary=primary,
        threshold=policy.rewarded_at,
        blind=all(reads[index] is False for index in primary),
    )
    return Scored(samples, child.specs, names, calls, judge, reads)


def _unique(names: Sequence[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name}[{index}]" for index, name in enumerate(names)]


def _result(reading_id: str, scored: Scored, found: auditing.Found, config: Mapping[str, Any]) -> ScoreResult:
    judge, rows = scored.judge, scored.rows
    totals = [judge.total(scores) for scores in rows]
    rewarded = [judge.rewarded(scores) for scores in rows]
    broken = [name for i, name in enumerate(scored.names) if judge.weights[i] > 0 and scored.calls[i].broken]
    nothing = unrewarded(scored.samples, scored.calls, judge, scored.specs, scored.names, rewarded)
    return ScoreResult(
        reading_id=reading_id,
        samples=len(rows),
        rewards=[
            summary.reward_score(name, judge, i, scored.calls[i], scored.reads_row[i])
            for i, name in enumerate(scored.names)
        ],
        composite=summary.composite(totals, judge, scored.names, scored.samples),
        groups=summary.groups(scored.samples, totals, rewarded, config),
        route=without_never(_route(summary.route(scored.samples, rewarded, broken), found.audit), nothing),
        audit=found.audit,
        errors=scored.errors,
        notes=nothing.notes + _notes(scored, config) + summary.overlap(totals, rewarded),
    )


def _route(route: Route, audit: Audit) -> Route:
    """Withdraw "never succeeds" where a tag that the template may have written, or the reward, is all that is wrong."""
    form = next((a for a in audit.attacks if a.attack == OTHER_FORM.attack and a.severity == "error"), None)
    if route.route == "sft_first" and form and form.outcome == "changed":
        why = f"{route.why} But {form.bad} of {form.tried} score otherwise as plain text: {', '.join(form.rewards)} "
        why += "probably looks at the message list, not at its text."
        return route.model_copy(update={"route": "unknown", "why": why, "next": "Mend the reward, then score again."})
    lost = next((a for a in audit.attacks if a.attack == OPENING.attack and a.outcome == "lost"), None)
    if route.route != "sft_first" or lost is None:
        return route
    why = f"{route.why} But {lost.bad} of {lost.tried} tried are rewarded once their opening tag is put back."
    return route.model_copy(update={"route": "unknown", "why": why, "next": NEXT_WITHOUT_TAG})


def _notes(scored: Scored, config: Mapping[str, Any]) -> list[str]:
    notes = []
    if not scored.samples.has_ids:
        notes.append(
            f"The samples carry no completion_ids: rewards were given one id for {CHARACTERS_A_TOKEN} characters."
        )
    if len(set(scored.names)) != len({name.partition("[")[0] for name in scored.names}):
        notes.append("Two rewards have the same __name__: TRL would mix their metrics; rename one.")
    for name, call, span in zip(scored.names, scored.calls, scored.judge.ranges, strict=True):
        if call.mutated:
            notes.append(f"{name} changes its arguments in place: in training the next reward sees the changed ones.")
        if span.high != 1.0 and not call.broken:
            notes.append(f"{name} is read as ranging from {span.low:g} to {span.high:g}, from the scores it gave.")
    weights = config.get("reward_weights")
    if isinstance(weights, list) and weights != list(scored.judge.weights):
        notes.append(f"The config's reward_weights {weights} are not the weights of the specs, which were used here.")
    return notes


def _source(samples: object, workspace: Workspace) -> str | None:
    if not isinstance(samples, str | Path):
        return None
    path = workspace.file(samples, "path")
    return str(path.relative_to(workspace.root)) if path.is_relative_to(workspace.root) else str(path)


def _store(
    store: ReadingStore,
    scored: Scored,
    found: auditing.Found,
    result: ScoreResult,
    digest: Mapping[str, Any],
    policy: GatePolicy,
    source: str | None,
) -> None:
    rows = scored.rows
    # The same samples and rewards give the same rows to read.
    seed = f"{scored.samples.digest} {digest['digest']}"
    chosen, duplicates = selection.choose(scored.samples, rows, scored.judge, policy.rows, seed)
    attacks = found.rows[: selection.MAX_ATTACK_ROWS]
    order = selection.mixed(chosen, range(len(attacks)), policy.rows, seed)
    entries = []
    for number, (kind, index) in enumerate(order, 1):
        attack = attacks[index] if kind == "attack" else None
        sample = attack.sample if attack else index
        own: Scores = attack.scores if attack else rows[index]
        entries.append(
            {
                "row": f"r{number:03d}",
                "source": f"attack:{attack.attack}" if attack else "sample",
                "sample": sample,
                "completion": attack.completion if attack else None,
                "scores": list(own),
                "total": scored.judge.total(own),
                "rewarded": scored.judge.rewarded(own),
            }
        )
    reading = {
        "reading_id": store.reading_id,
        "created": now(),
        "names": scored.names,
        "reward": dict(digest),
        "samples": {"digest": scored.samples.digest, "count": len(rows), "source": source},
        "columns": scored.samples.renamed,
        "policy": policy.model_dump(),
        "near_duplicates": duplicates,
        "rows": entries,
    }
    answer = {"result": result.model_dump(), "scores": rows}
    store.write(reading, scored.samples.rows, answer)
