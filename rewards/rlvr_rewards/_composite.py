"""Format and correctness as one reward."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, ClassVar

from rlvr_rewards._batch import grade_all
from rlvr_rewards._core import (
    Completion,
    Reason,
    Reward,
    RewardError,
    RewardSpecError,
    Row,
    Verdict,
    columns_of,
    display_name,
    nearest,
    row_problem,
)
from rlvr_rewards._format import Format
from rlvr_rewards._text import after_thinking, last_block, text_of

PARTS = ("answer", "format")
DEFAULT_WEIGHTS = {"answer": 1.0, "format": 0.1}
# Blocks of these hold no answer.
THINKING = ("think", "thinking", "thought", "reasoning")


@dataclass(eq=False, repr=False)
class Composite(Reward):
    """Correctness and format in one function, so that an ungraded answer is never trained as a wrong one.

    TRL adds up several functions and counts a lone None as 0; inside one function None stays None.
    Formula: weights["answer"] * answer + weights["format"] * format; with `gate`, answer counts only if format is 1.
    Range: [0, sum of the weights] for parts that score from 0 to 1, which both must. On construction every combination
    of part scores is enumerated, and weights that let some wrong answer reach the score of a correct one are refused.
    How it is gamed: a policy that cannot solve the task still collects the format weight; keep it small.
    None: the answer part, or the format part, said None.

    Args:
        answer: The correctness reward.
        format: The format reward.
        weights: The weight of each part, "answer" and "format"; a missing one keeps its default, 1.0 and 0.1.
        gate: The answer counts only when the format holds.

    Math and schema look into the block of the format's last tag where there is one. An answer_tag that the format
    lacks is refused.

    Example:
        >>> from rlvr_rewards import Exact
        >>> reward = Composite(Exact(), weights={"format": 0.2})
        >>> good = "<think>capital</think><answer>Paris</answer>"
        >>> reward(completions=[good, "<answer>Paris</answer>", good], gold=["Paris", "Paris", "Rome"])
        [1.2, 1.0, 0.2]
    """

    answer: Callable[..., Any]
    format: Callable[..., Any] = field(default_factory=Format)
    weights: Mapping[str, float] = field(default_factory=dict)
    gate: bool = False

    reward_name: ClassVar[str] = "composite"
    reasons: ClassVar[tuple[Reason, ...]] = ("correct", "partial", "wrong", "no_answer", "bad_format", "bad_row")

    def __post_init__(self) -> None:
        for part in PARTS:
            if not callable(getattr(self, part)):
                raise RewardSpecError(f"argument {part!r} must be a reward, not {getattr(self, part)!r:.80}")
        self.weights = {**DEFAULT_WEIGHTS, **_checked_weights(self.weights)}
        self._tag, self._tagged = _answer_block(self.answer, self.format)
        self._check_order()
        super().__post_init__()

    @property
    def answer_part(self) -> Callable[..., Any]:
        """The correctness reward, as it judges a completion that has the format's answer block."""
        return self._tagged or self.answer

    @property
    def wrong_at_most(self) -> float:
        """The best score of a completion whose answer is wrong."""
        return max(score for right, score in self.combinations() if not right)

    def combinations(self) -> list[tuple[bool, float]]:
        """Return, for every combination of part scores, whether it counts as correct, and its score.

        A part that gives partial credit is taken up to the limit of a partial score that nearly reaches 1.
        """
        partial = "partial" in getattr(self.answer, "reasons", ())
        answers = (0.0, 1.0 - 1e-9, 1.0) if partial else (0.0, 1.0)
        formats = (0.0, 1.0)
        return [
            (answer == 1.0 and (form == 1.0 or not self.gate), self._total(answer, form))
            for answer, form in product(answers, formats)
        ]

    def default_name(self) -> str:
        """Return a name made of the parts' names, with a digest for other weights."""
        name = f"{display_name(self.answer)}_with_{display_name(self.format)}"
        if self.gate:
            name += "_gated"
        if self.weights != DEFAULT_WEIGHTS:
            name += f"_{self.weights['answer']:g}_{self.weights['format']:g}"
        return name

    def columns(self) -> tuple[str, ...]:
        """Return the columns of both parts."""
        return self.columns_among({}, 0)

    def columns_among(self, given: Mapping[str, Any], count: int) -> tuple[str, ...]:
        """Return the columns of both parts among those given."""
        return columns_of([self.answer, self.format], given, count)

    def judge_row(self, row: Row) -> str | None:
        """Refuse what either part refuses."""
        return row_problem(self.answer, row) or row_problem(self.format, row)

    def grade_batch(self, completions: Sequence[Completion], rows: Sequence[Row]) -> list[Verdict]:
        """Judge a batch with both parts and add them up."""
        answers = self._answers(completions, rows)
        formats = grade_all(self.format, completions, rows)
        return [self._joined(answer, form) for answer, form in zip(answers, formats, strict=True)]

    def _answers(self, completions: Sequence[Completion], rows: Sequence[Row]) -> list[Verdict]:
        """Judge answers in their block where a completion has one, elsewhere as the part does by itself."""
        if self._tagged is None:
            return grade_all(self.answer, completions, rows)
        inside = [self._has_block(completion) for completion in completions]
        verdicts: dict[int, Verdict] = {}
        for part, wanted in ((self._tagged, True), (self.answer, False)):
            places = [place for place, has in enumerate(inside) if has is wanted]
            graded = grade_all(part, [completions[place] for place in places], [rows[place] for place in places])
            verdicts.update(zip(places, graded, strict=True))
        return [verdicts[place] for place in range(len(completions))]

    def _has_block(self, completion: Completion) -> bool:
        text = after_thinking(text_of(completion))
        return text is not None and last_block(text, self._tag) is not None

    def log(
        self,
        verdicts: Sequence[Verdict],
        log_extra: Callable[[str, list[Any]], None] | None,
        log_metric: Callable[[str, float], None] | None,
    ) -> None:
        """Log the whole as every reward does, and the score of each part."""
        super().log(verdicts, log_extra, log_metric)
        for part in PARTS:
            scores = [verdict.detail[part]["score"] for verdict in verdicts]
            graded = [score for score in scores if score is not None]
            if log_extra is not None:
                log_extra(f"{self.__name__}_{part}", scores)
            if log_metric is not None and graded:
                log_metric(f"{self.__name__}/{part}", sum(graded) / len(graded))

    def _total(self, answer: float, form: float) -> float:
        counted = answer if form == 1.0 or not self.gate else 0.0
        return self.weights["answer"] * counted + self.weights["format"] * form

    def _joined(self, answer: Verdict, form: Verdict) -> Verdict:
        parts = {"answer": answer, "format": form}
        detail = {
            name: {"score": verdict.score, "reason": verdict.reason, **verdict.detail}
            for name, verdict in parts.items()
        }
        for name, verdict in parts.items():
            if verdict.score is not None and not 0.0 <= verdict.score <= 1.0:
                raise RewardError(
                    f"the {name} part of {self.__name__!r} scored {verdict.score}; it must be from 0 to 1"
                )
        lost = next((verdict for verdict in parts.values() if verdict.score is None), None)
        seconds = answer.seconds + form.seconds
        if lost is not None:
            return replace(lost, detail={**lost.detail, **detail}, seconds=seconds)
        assert answer.score is not None and form.score is not None
        held = answer.score < 1.0 or form.score == 1.0
        reason = answer.reason if held else "bad_format"
        return Verdict(self._total(answer.score, form.score), reason, answer.extracted, detail, seconds)

    def _check_order(self) -> None:
        outcomes = self.combinations()
        worst = min(score for right, score in outcomes if right)
        best = max(score for right, score in outcomes if not right)
        if worst > best:
            return
        partial = len(outcomes) > 4
        remedy = "set gate=True, since the answer part gives partial credit" if partial else "lower the format weight"
        raise RewardSpecError(
            f"with weights {dict(self.weights)} a wrong answer can score {best:g} and a correct one only {worst:g}; "
            f"{remedy}"
        )


def _checked_weights(weights: Any) -> dict[str, float]:
    if not isinstance(weights, Mapping):
        raise RewardSpecError(f"argument 'weights' must map 'answer' and 'format' to numbers, not {weights!r:.80}")
    for part, weight in weights.items():
        if part not in PARTS:
            raise RewardSpecError(f"weights has no part {part!r}{nearest(str(part), PARTS)}; parts: answer, format")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise RewardSpecError(f"the weight of {part!r} must be a number from 0 up, not {weight!r}")
    return {part: float(weight) for part, weight in weights.items()}


def _answer_block(answer: Callable[..., Any], form: Callable[..., Any]) -> tuple[str, Callable[..., Any] | None]:
    """Return the tag of the format's answer block, and the answer part told to look there; "" and None where it is not.

    Raises:
        RewardSpecError: the answer part looks into a block that the format does not have, and would never pay.
    """
    tags = [tag for tag in getattr(form, "tags", ()) if tag.lower() not in THINKING]
    looks_into = getattr(answer, "answer_tag", None)
    if looks_into and isinstance(form, Format) and looks_into not in form.tags:
        raise RewardSpecError(
            f"the answer is looked for in <{looks_into}>, which the format does not have ({', '.join(form.tags)}): "
            "give the answer part that answer_tag which the format has, or '' for none"
        )
    if looks_into != "" or not tags or not isinstance(answer, Reward):
        return "", None
    return tags[-1], replace(answer, answer_tag=tags[-1])  # type: ignore[call-arg]
