"""A model as the verifier, where no program can be one."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Literal

from rlvr_rewards._core import (
    Completion,
    Reason,
    Reward,
    RewardError,
    RewardSpecError,
    Row,
    Verdict,
    nearest,
    one_of,
    paired,
)
from rlvr_rewards._files import write_json
from rlvr_rewards._judge import calibration, prompting
from rlvr_rewards._judge.client import JudgeClient, JudgeRejected, JudgeUnavailable
from rlvr_rewards._judge.families import families
from rlvr_rewards._text import after_thinking, text_of

# A fixed question that every working judge can answer; it tells a broken judge from an answer that jams it.
CONTROL = ("Name a prime number.", "7 is a prime number.")


@dataclass(eq=False, repr=False)
class Judge(Reward):
    """1.0 when a judge model says that the answer meets every criterion of a rubric; otherwise 0.0.

    Formula: 1.0 if all criteria pass, else 0.0; with scoring "weighted", the passed share of the weights. Range:
    {0.0, 1.0}, or [0, 1]. It refuses to serve as a reward until it is calibrated: see `calibrate`.
    How it is gamed: by writing what the judge likes. Closed: the answer is quoted between lines with a secret of its
    request, and only a verdict with that secret counts; a judge of the policy's own family is refused; empty answers
    are not asked about; known tricks are tried during calibration. Watch the reward against length all the same.
    None: the prompt is missing, or the endpoint gave no answer within its retries. An answer that keeps the judge from
    giving a readable verdict, while it still answers a control question, scores 0.0.

    Args:
        rubric: Criteria, each text or {"text", "weight"}; each a yes-or-no question about the answer.
        client: The endpoint: a `JudgeClient` or its arguments as a mapping.
        calibration: The file that `calibrate` wrote.
        policy_model: Name of the model in training; a judge of the same family is refused.
        min_true_positive_rate, min_true_negative_rate: Thresholds for the lower bounds of both rates on the test part.
        scoring: "all" or "weighted".
        reference_column: Column with a reference answer that is shown to the judge; "" for none.
        cache_dir: Folder of verdicts keyed by content; "" keeps none.
        max_characters: A longer answer scores 0.0 without being asked about.

    Example:
        >>> judge = Judge(["The answer names a city."], {"base_url": "http://127.0.0.1:9/v1", "model": "some-judge"})
        >>> judge(completions=["Paris"], prompts=["Name a city."])
        Traceback (most recent call last):
        ...
        rlvr_rewards._core.NotCalibratedError: this judge was never measured against a person's labels; ...
    """

    rubric: Sequence[str | Mapping[str, Any]] | str
    client: JudgeClient
    calibration: str = ""
    policy_model: str = ""
    min_true_positive_rate: float = 0.9
    min_true_negative_rate: float = 0.9
    scoring: Literal["all", "weighted"] = "all"
    reference_column: str = ""
    cache_dir: str = ""
    max_characters: int = 50_000

    reward_name: ClassVar[str] = "judge"
    reasons: ClassVar[tuple[Reason, ...]] = (
        "correct", "partial", "wrong", "no_answer", "limit", "bad_row", "harness_error",
    )  # fmt: skip

    def __post_init__(self) -> None:
        self.criteria = prompting.criteria(self.rubric)
        if isinstance(self.client, Mapping):
            self.client = _client(self.client)
        if not isinstance(self.client, JudgeClient):
            raise RewardSpecError(f"argument 'client' must be a JudgeClient or its arguments, not {self.client!r:.80}")
        one_of("scoring", self.scoring, ("all", "weighted"))
        for name in ("min_true_positive_rate", "min_true_negative_rate"):
            rate = getattr(self, name)
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.5 < rate < 1:
                raise RewardSpecError(f"argument {name!r} must be between 0.5 and 1, not {rate!r}")
        shared = families(self.client.model) & families(self.policy_model)
        if shared:
            raise RewardSpecError(
                f"judge {self.client.model!r} and policy {self.policy_model!r} are both of the family "
                f"{', '.join(sorted(shared))}; a judge of another family does not share its blind spots"
            )
        super().__post_init__()

    def columns(self) -> tuple[str, ...]:
        """Return the prompts, and the reference column if there is one."""
        return ("prompts", self.reference_column) if self.reference_column else ("prompts",)

    def default_name(self) -> str:
        """Return a name bound to model and rubric."""
        return f"{self.reward_name}_{self.judge_digest()[7:13]}"

    def judge_digest(self) -> str:
        """Return the digest of what decides a verdict: model, rubric, template, scoring and sampling."""
        parts = {
            "template": prompting.TEMPLATE,
            "system": prompting.SYSTEM,
            "model": self.client.model,
            "sampling": [self.client.temperature, self.client.max_tokens],
            "rubric": [asdict(criterion) for criterion in self.criteria],
            "scoring": self.scoring,
            "reference": self.reference_column,
        }
        return f"sha256:{prompting.key(parts)}"

    def judge_row(self, row: Row) -> str | None:
        """Refuse a row without a prompt, or without the declared reference."""
        if not _task(row).strip():
            return "the prompt is missing"
        if self.reference_column and not str(row[self.reference_column] or "").strip():
            return f"the reference in column {self.reference_column!r} is missing"
        return None

    def grade_batch(self, completions: Sequence[Completion], rows: Sequence[Row]) -> list[Verdict]:
        """Judge a batch, once the calibration fits.

        Raises:
            NotCalibratedError: There is no calibration, or it is not about this judge.
            RewardError: The endpoint refuses the client, or serves another model than was calibrated.
        """
        record = calibration.check(self)
        return self.assess(completions, rows, served_model=record["served_model"])

    def assess(
        self, completions: Sequence[Completion], rows: Sequence[Row], served_model: str | None = None
    ) -> list[Verdict]:
        """Judge without asking for a calibration: for calibrating, and for looking at what a judge says.

        Args:
            completions: One entry a completion.
            rows: One mapping a completion.
            served_model: Name that the server must give for its model; None accepts any.
        """
        with ThreadPoolExecutor(max_workers=self.client.concurrency) as pool:
            one = [pool.submit(self._one, *pair, served_model) for pair in paired(completions, rows)]
            return [future.result() for future in one]

    def served_model(self, row: Row) -> str:
        """Return the name that the server gives for its model."""
        nonce = prompting.new_nonce()
        return self.client.ask(prompting.messages(self.criteria, _task(row), CONTROL[1], "", nonce)).model

    def _one(self, completion: Completion, row: Row, served_model: str | None) -> Verdict:
        started = perf_counter()
        problem = self._row_problem(row)
        verdict = (
            Verdict(None, "bad_row", None, {"problem": problem})
            if problem
            else self._asked(text_of(completion), row, served_model)
        )
        return replace(verdict, seconds=perf_counter() - started)

    def _asked(self, text: str, row: Row, served_model: str | None) -> Verdict:
        answer = after_thinking(text)
        if answer is None or not answer.strip():
            return Verdict(0.0, "no_answer")
        if len(answer) > self.max_characters:
            return Verdict(0.0, "limit", None, {"problem": f"longer than {self.max_characters} characters"})
        reference = str(row[self.reference_column]) if self.reference_column else ""
        found = self._cached(_task(row), answer, reference)
        if found is None:
            try:
                found = self._fresh(_task(row), answer, reference)
            except JudgeUnavailable as error:
                return Verdict(None, "harness_error", None, {"problem": str(error)})
            except (prompting.Unparseable, JudgeRejected) as error:
                return self._jammed(str(error))
            self._keep(_task(row), answer, reference, found)
        if served_model and found["model"] != served_model:
            raise RewardError(f"the judge is now {found['model']!r}; it was calibrated as {served_model!r}")
        return self._scored(found)

    def _fresh(self, task: str, answer: str, reference: str) -> dict[str, Any]:
        """Ask, and ask once more with a new secret when the verdict cannot be read."""
        problem: prompting.Unparseable | None = None
        for _ in range(2):
            nonce = prompting.new_nonce()
            reply = self.client.ask(prompting.messages(self.criteria, task, answer, reference, nonce))
            try:
                passed, reasons = prompting.passes(reply.text, len(self.criteria), nonce)
            except prompting.Unparseable as error:
                problem = error
                continue
            return {"passed": list(passed), "reasons": list(reasons), "model": reply.model}
        raise problem or prompting.Unparseable("no verdict")

    def _jammed(self, problem: str) -> Verdict:
        """Tell an answer that jams the judge, which scores 0.0, from a judge that is broken, which scores nothing."""
        try:
            self._fresh(*CONTROL, "")
        except (prompting.Unparseable, JudgeUnavailable, JudgeRejected) as error:
            return Verdict(None, "harness_error", None, {"problem": f"the judge gives no readable verdict: {error}"})
        return Verdict(0.0, "wrong", None, {"problem": f"no readable verdict on this answer: {problem}"})

    def _scored(self, found: Mapping[str, Any]) -> Verdict:
        passed = found["passed"]
        detail = {"passed": passed, "reasons": found["reasons"]}
        if all(passed):
            return Verdict(1.0, "correct", None, detail)
        if self.scoring == "all":
            return Verdict(0.0, "wrong", None, detail)
        whole = sum(criterion.weight for criterion in self.criteria)
        kept = sum(criterion.weight for criterion, good in zip(self.criteria, passed, strict=True) if good)
        return Verdict(kept / whole, "partial" if kept else "wrong", None, detail)

    def _cache_file(self, task: str, answer: str, reference: str) -> Path | None:
        if not self.cache_dir:
            return None
        name = prompting.key({"judge": self.judge_digest(), "task": task, "answer": answer, "reference": reference})
        return Path(self.cache_dir) / name[:2] / f"{name}.json"

    def _cached(self, task: str, answer: str, reference: str) -> dict[str, Any] | None:
        path = self._cache_file(task, answer, reference)
        if path is None or not path.is_file():
            return None
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        whole = isinstance(found.get("passed"), list) and len(found["passed"]) == len(self.criteria)
        return found if whole and "model" in found and "reasons" in found else None

    def _keep(self, task: str, answer: str, reference: str, found: Mapping[str, Any]) -> None:
        path = self._cache_file(task, answer, reference)
        if path is not None:
            write_json(path, found)


def _task(row: Row) -> str:
    """Return the prompt of a row as text: a string, or the messages with their roles."""
    prompt = row.get("prompts", row.get("prompt"))
    if isinstance(prompt, str):
        return prompt
    lines = [
        f"[{message.get('role', 'user')}] {text_of([{**message, 'role': 'assistant'}])}" for message in prompt or ()
    ]
    return "\n".join(lines)


def _client(arguments: Mapping[str, Any]) -> JudgeClient:
    known = list(JudgeClient.__dataclass_fields__)
    for name in arguments:
        if name not in known:
            raise RewardSpecError(
                f"client has no argument {name!r}{nearest(str(name), known)}; it has: {', '.join(known)}"
            )
    try:
        return JudgeClient(**arguments)
    except TypeError as error:
        raise RewardSpecError(f"client: {error}") from None


__all__ = ["Judge", "JudgeClient"]
