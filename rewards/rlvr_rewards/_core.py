"""What every reward shares: the verdict, the closed list of reasons, the errors and the base class.

RewardError
├── RewardSpecError      a spec or an argument that names nothing or fits nothing
├── RewardRowError       columns that are missing or have another length than the completions
├── RewardWiringError    the text that reaches the reward is not what the model wrote
├── RewardHarnessError   the grader itself failed too often to go on
├── MissingExtraError    a package that the reward needs is not installed
└── NotCalibratedError   a judge without a calibration that fits it
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, get_args

from rlvr_rewards._text import Completion as Completion

Reason = Literal[
    "correct",  # full score
    "partial",  # a declared fraction of the full score
    "wrong",  # an answer was found and it is not the expected one
    "no_answer",  # no committed answer in the completion
    "bad_format",  # the declared structure does not hold
    "not_json",  # the document is not valid JSON
    "schema_error",  # valid JSON that breaks the schema
    "wrong_call",  # the tool calls are not the expected ones
    "tests_failed",  # the program ran and at least one test did not pass
    "timeout",  # grading the output ran into its time limit
    "limit",  # the output is larger or deeper than the stated limits
    "died",  # grading the output ended the grading process
    "hedge",  # several answers where one was asked for
    "overlong",  # a length rule lowered the score
    "scored",  # a function that gives a number and no reason
    "bad_row",  # the row cannot be graded: None for every completion of its prompt
    "wiring_error",  # the text differs from the tokens: the pipeline dropped something
    "harness_error",  # the grader itself failed; says nothing about the output
]
REASONS: tuple[Reason, ...] = get_args(Reason)
# Columns that exist only while training: no data set row holds them.
GENERATED_COLUMNS = ("completion_ids", "prompts")

Row = Mapping[str, Any]

# A grader that fails more often than this is broken: its None scores would bias training unseen.
HARNESS_ERROR_SHARE = 0.01
HARNESS_ERRORS_AT_LEAST = 3


class RewardError(Exception):
    """Base of all errors of this package."""


class RewardSpecError(RewardError, ValueError):
    """A reward spec or an argument that names nothing or fits nothing."""


class RewardRowError(RewardError, ValueError):
    """Columns that are missing or whose length differs from the number of completions."""


class RewardWiringError(RewardError, RuntimeError):
    """The text that reaches the reward is not what the model wrote."""


class RewardHarnessError(RewardError, RuntimeError):
    """The grader itself failed more often than can be ignored."""


class MissingExtraError(RewardError, ImportError):
    """A package that the reward needs is not installed."""


class NotCalibratedError(RewardError, RuntimeError):
    """A judge was asked for a reward without a calibration that fits it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reward says about one completion.

    Attributes:
        score: The reward, or None when the row cannot be graded.
        reason: One of `REASONS`.
        extracted: The part of the completion that was judged, or None when nothing was found.
        detail: Further findings as plain JSON data.
        seconds: Wall time of this grading.
    """

    score: float | None
    reason: Reason
    extracted: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict as plain JSON data."""
        return {**asdict(self), "detail": dict(self.detail)}


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that cannot be graded, found before training.

    Attributes:
        index: Position of the row, from 0.
        problem: What is wrong with it.
    """

    index: int
    problem: str


@dataclass(eq=False, kw_only=True, repr=False)
class Reward:
    """Base class: one `grade`, and the faces that training and inspection need.

    A subclass is a dataclass whose fields are its arguments. It sets `reward_name`, `reads` and implements `judge_row`
    (is the row gradable?) and `judge_output` (score one completion of a gradable row). Instances hold nothing but their
    arguments, so they pickle.

    Args:
        name: The metric name; by default the reward's own name, with a short digest when arguments differ from the
            defaults, so that two rewards in one trainer never share a name.
    """

    name: str = ""

    reward_name: ClassVar[str] = "reward"
    reads: ClassVar[tuple[str, ...]] = ()
    reasons: ClassVar[tuple[Reason, ...]] = ("correct", "wrong", "no_answer", "bad_row")

    def __post_init__(self) -> None:
        self.__name__ = self.name or self.default_name()
        self._graded = self._harness_errors = 0

    # -- what a subclass says ------------------------------------------------------------------------------------

    def columns(self) -> tuple[str, ...]:
        """Return the names of the data set columns that this reward reads."""
        return self.reads

    def columns_among(self, given: Mapping[str, Any], count: int) -> tuple[str, ...]:
        """Return the columns to read out of those given; a reward around plain functions passes them all on."""
        return self.columns()

    def judge_row(self, row: Row) -> str | None:
        """Return why the row cannot be graded, or None when it can."""
        return None

    def judge_output(self, completion: Completion, row: Row) -> Verdict:
        """Score one completion of a row that `judge_row` accepts."""
        raise NotImplementedError(f"{type(self).__name__} does not implement judge_output")

    # -- what callers use ----------------------------------------------------------------------------------------

    def grade(self, completion: Completion, row: Row) -> Verdict:
        """Judge one completion.

        Args:
            completion: The text, or the list of chat messages, that the model wrote.
            row: The data set columns of its prompt.

        Returns:
            The verdict; its score is None only when the row, not the completion, is at fault.
        """
        return self.grade_batch([completion], [row])[0]

    def grade_batch(self, completions: Sequence[Completion], rows: Sequence[Row]) -> list[Verdict]:
        """Judge several completions, in order.

        Args:
            completions: One entry a completion.
            rows: One mapping of data set columns a completion.

        Raises:
            RewardRowError: There are more of the one than of the other.
        """
        return [self._timed(completion, row) for completion, row in paired(completions, rows)]

    def check_rows(self, rows: Iterable[Row]) -> list[RowProblem]:
        """Return the rows that cannot be graded, to be mended or dropped before training."""
        problems = ((index, self._row_problem(row, GENERATED_COLUMNS)) for index, row in enumerate(rows))
        return [RowProblem(index, problem) for index, problem in problems if problem is not None]

    def __call__(self, completions: Sequence[Completion], **columns: Any) -> list[float | None]:
        """Score a batch as TRL's `reward_funcs` do.

        Args:
            completions: One entry a completion.
            columns: TRL's keyword lists; those this reward does not read are ignored.

        Returns:
            One score a completion, None where the row cannot be graded.

        Raises:
            RewardRowError: A column is missing or its length differs from the number of completions.
            RewardWiringError: The pipeline changed the text before it came here.
            RewardHarnessError: The grader itself fails too often.
        """
        if isinstance(completions, str):
            raise RewardRowError("completions must be a list with one entry a completion, not one text")
        names = self.columns_among(columns, len(completions))
        rows = rows_of(names, completions, columns, self.column_arguments())
        verdicts = self.grade_batch(completions, rows)
        self.log(verdicts, columns.get("log_extra"), columns.get("log_metric"))
        self._stop_when_broken(verdicts)
        return [verdict.score for verdict in verdicts]

    def log(
        self,
        verdicts: Sequence[Verdict],
        log_extra: Callable[[str, list[Any]], None] | None,
        log_metric: Callable[[str, float], None] | None,
    ) -> None:
        """Send reasons and extracted answers to the trainer's table and the share of each reason to its metrics."""
        if log_extra is not None:
            log_extra(f"{self.__name__}_reason", [verdict.reason for verdict in verdicts])
            log_extra(f"{self.__name__}_extracted", [verdict.extracted or "" for verdict in verdicts])
        if log_metric is not None and verdicts:
            for reason in self.reasons:
                share = sum(verdict.reason == reason for verdict in verdicts) / len(verdicts)
                log_metric(f"{self.__name__}/{reason}", share)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that differ from the defaults, without `name`."""
        found: dict[str, Any] = {}
        for entry in fields(self):
            default = entry.default_factory() if entry.default_factory is not MISSING else entry.default
            value = getattr(self, entry.name)
            if entry.init and entry.name != "name" and value != default:
                found[entry.name] = value
        return found

    def column_arguments(self) -> dict[str, str]:
        """Return, by column, the argument that names it: `{"gold": "gold_column"}`."""
        found: dict[str, str] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Reward):
                found.update(value.column_arguments())
            elif entry.name.endswith("_column") and value:
                found[value] = entry.name
        return found

    def __repr__(self) -> str:
        given = {**({"name": self.name} if self.name else {}), **self.arguments()}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def default_name(self) -> str:
        """Return the metric name used when none is given."""
        different = self.arguments()
        if not different:
            return self.reward_name
        text = json.dumps(different, sort_keys=True, default=display_name)
        return f"{self.reward_name}_{hashlib.sha256(text.encode()).hexdigest()[:6]}"

    # -- inside --------------------------------------------------------------------------------------------------

    def _row_problem(self, row: Row, optional: Sequence[str] = ()) -> str | None:
        # A data set calls its column "prompt"; TRL hands on the same values as "prompts".
        given = {*row, "prompts"} if "prompt" in row else row
        missing = [name for name in self.columns() if name not in given and name not in optional]
        if missing:
            return f"column {missing[0]!r} is missing"
        return self.judge_row(row)

    def _timed(self, completion: Completion, row: Row) -> Verdict:
        started = time.perf_counter()
        problem = self._row_problem(row)
        if problem is not None:
            verdict = Verdict(None, "bad_row", None, {"problem": problem})
        else:
            verdict = self.judge_output(completion, row)
        return replace(verdict, seconds=time.perf_counter() - started)

    def _stop_when_broken(self, verdicts: Sequence[Verdict]) -> None:
        self._graded += len(verdicts)
        failed = [verdict for verdict in verdicts if verdict.reason == "harness_error"]
        self._harness_errors += len(failed)
        enough = max(HARNESS_ERRORS_AT_LEAST, HARNESS_ERROR_SHARE * self._graded)
        if failed and self._harness_errors > enough:
            raise RewardHarnessError(
                f"reward {self.__name__!r} failed itself in {self._harness_errors} of {self._graded} gradings; "
                f"the last failure: {failed[-1].detail.get('problem', 'unknown')}"
            )
        lost = next((verdict for verdict in verdicts if verdict.reason == "wiring_error"), None)
        if lost is not None:
            raise RewardWiringError(f"reward {self.__name__!r}: {lost.detail.get('problem', 'unknown')}")


def paired(completions: Sequence[Completion], rows: Sequence[Row]) -> list[tuple[Completion, Row]]:
    """Return each completion with its row.

    Raises:
        RewardRowError: There are more of the one than of the other.
    """
    if len(completions) != len(rows):
        raise RewardRowError(f"{len(rows)} rows for {len(completions)} completions; give one row a completion")
    return list(zip(completions, rows, strict=True))


def rows_of(
    names: Sequence[str],
    completions: Sequence[Completion],
    columns: Mapping[str, Any],
    arguments: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Turn TRL's keyword lists into one row a completion, holding the named columns.

    Args:
        names: The columns to read.
        completions: One entry a completion.
        columns: TRL's keyword lists.
        arguments: By column, the argument that could name another one.

    Raises:
        RewardRowError: A named column is absent, is no list, or has another length than `completions`.
    """
    for name in names:
        if name not in columns:
            known = ", ".join(sorted(key for key, value in columns.items() if isinstance(value, list | tuple)))
            argument = (arguments or {}).get(name)
            advice = f"; name the right one with {argument}=.." if argument else ""
            raise RewardRowError(
                f"the data set has no column {name!r}{nearest(name, columns)}; columns: {known or 'none'}{advice}"
            )
        values = columns[name]
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise RewardRowError(
                f"column {name!r} must be a list with one entry a completion, not {type(values).__name__}"
            )
        if len(values) != len(completions):
            raise RewardRowError(f"column {name!r} has {len(values)} entries for {len(completions)} completions")
    return [{name: columns[name][index] for name in names} for index in range(len(completions))]


def display_name(reward: Any) -> str:
    """Return the metric name that TRL gives to a reward function."""
    return str(getattr(reward, "__name__", type(reward).__name__))


def columns_of(rewards: Iterable[Any], given: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """Return the columns that some rewards read; a plain function reads every column that has `count` entries."""
    names: dict[str, None] = {}
    for reward in rewards:
        among = getattr(reward, "columns_among", None)
        if among is not None:
            names.update(dict.fromkeys(among(given, count)))
        else:
            whole = (name for name, value in given.items() if isinstance(value, list | tuple) and len(value) == count)
            names.update(dict.fromkeys(whole))
    return tuple(names)


def row_problem(reward: Any, row: Row) -> str | None:
    """Return why a reward cannot grade the row, or None; a plain function is never known to refuse one."""
    problems = reward.check_rows([row]) if hasattr(reward, "check_rows") else []
    return problems[0].problem if problems else None


def check_tag(argument: str, value: Any) -> None:
    """Refuse what is neither a tag's name nor an empty string.

    Raises:
        RewardSpecError: It is neither.
    """
    if not isinstance(value, str) or any(char in "<>/" or char.isspace() for char in value):
        raise RewardSpecError(f"argument {argument!r} is {value!r}; give a tag's name without brackets, or ''")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'x'?` for the known name nearest to `name`, or an empty string."""
    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f", did you mean {matches[0]!r}?" if matches else ""


def one_of(argument: str, value: Any, allowed: Sequence[Any]) -> None:
    """Refuse a value that is not among the allowed ones.

    Raises:
        RewardSpecError: It is not.
    """
    if value not in allowed or isinstance(value, bool) is not any(isinstance(entry, bool) for entry in allowed):
        raise RewardSpecError(f"argument {argument!r} is {value!r}; it can be {', '.join(map(repr, allowed))}")
