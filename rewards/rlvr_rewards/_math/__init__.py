"""Is the answer mathematically the expected one?"""

import functools
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

from rlvr_rewards import _worker
from rlvr_rewards._core import (
    Completion,
    MissingExtraError,
    Reason,
    Reward,
    RewardSpecError,
    Row,
    Verdict,
    check_tag,
    one_of,
)
from rlvr_rewards._math import forms
from rlvr_rewards._math.choice import choice_letter, gold_letter, lettered_gold
from rlvr_rewards._math.compare import Policy, chain_is_true, same_answer
from rlvr_rewards._math.equal import check_value
from rlvr_rewards._math.extract import Extracted, extract
from rlvr_rewards._math.form import Form
from rlvr_rewards._math.golds import gold_text, no_text
from rlvr_rewards._math.labels import is_label
from rlvr_rewards._math.limits import CACHED_GOLDS, MAX_CHARACTERS, WORKER_SECONDS, NotUnderstood, TooLarge, Undefined
from rlvr_rewards._math.normal import nesting, normalise
from rlvr_rewards._math.unread import Undecided, is_formula, squeezed
from rlvr_rewards._text import text_of

# Answers repeat within a group; the cache holds small tuples and strings.
CACHED_PAIRS = 16_384
# An option letter in brackets, set as text.
_SET_LETTER = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{\s*\([A-J]\)\s*\}")
# A gold of more words is a sentence; comparing sentences letter by letter teaches nothing.
MAX_WORDS = 8
# What data sets write where a problem has no answer to compare: those that ask for a proof, or a missing value.
NO_ANSWER = frozenset(("proof", "notfound", "not found", "nan", "null"))
FIXED: dict[str, tuple[Any, ...]] = {
    "think": ("after_last_close", "keep"),
    "pick": ("last",),
    "extract": ("box_or_marker", "box"),
    "adjacent_boxes": ("list",),
    "broken_box": ("no_answer",),
    "kind": ("auto", "choice", "word"),
    "integer": ("exact",),
    "units": ("strict", "ignore"),
    "base": ("strict",),
    "percent": ("value",),
    "lhs": ("optional",),
    "equations": ("up_to_factor",),
    "lists": ("unordered",),
    "chain": ("all_equal",),
    "unevaluated": ("reject",),
    "mixed_numbers": (True,),
    "domain": ("real",),
    "case": (True, False),
}


@dataclass(eq=False, kw_only=True, repr=False)
class Math(Reward):
    """1.0 when the committed answer equals the gold as mathematics; otherwise 0.0.

    Formula: 1.0 if same(gold, answer), else 0.0. Numbers are compared exactly where they are rational and to 50 digits
    otherwise; functions at points where both sides are defined; sets, intervals, tuples, matrices and equations by
    their parts; what this reader does not know by math-verify, in a process of its own that ends when it has
    computed for more than a second.
    Range: {0.0, 1.0}.
    How it is gamed: guessing where few answers are possible. Closed: several boxes side by side are a list, never the
    one answer; the last number of a text is no answer; restating the question is wrong: a sum, an integral, a greatest
    common divisor or a maximum for a number, an equation that is still to be solved.
    None: the gold is missing, empty, beyond the limits, or cannot be read.

    Args:
        kind: "auto" reads the kind of answer from the gold; "choice" compares the option letter alone; "word" compares
            letters in order.
        rel_tol: Relative tolerance for golds that are not whole, when either side is written with a decimal point.
        stop: The text from the first of these strings on is cut, such as ("Question:",).
        case: Letter case matters in words.
        units: "strict": a unit in the gold must agree, and a known unit is ignored when the gold has none; "ignore":
            units of the gold need not agree either.
        extract: "box_or_marker": the last box, or without any box what follows "answer is", "answer:", "final answer"
            or "####"; "box": boxes only.
        answer_tag: Look only at the last block of this tag, such as "answer" for `<answer>..</answer>`, and take all of
            it where it holds neither box nor marker; a block that is not closed is no answer. "" looks everywhere.
        box_commands: Commands that count as a box.
        think: "after_last_close" takes only text after the last `</think>`; "keep" takes the whole text.
        max_nesting: Deeper bracket nesting is refused, from 1 to 64.
        gold_column: The data set column that holds the expected answer.
        pick, adjacent_boxes, broken_box, integer, base, percent, lhs, equations, lists, chain, unevaluated,
            mixed_numbers, domain: Rules with one setting, named so that a spec can state them.

    Example:
        >>> reward = Math()
        >>> reward(completions=["So \\\\boxed{0.5}", "It is 0.5", "\\\\boxed{1} or \\\\boxed{0.5}"], gold=["1/2"] * 3)
        [1.0, 0.0, 0.0]
    """

    kind: Literal["auto", "choice", "word"] = "auto"
    rel_tol: float = 1e-6
    stop: Sequence[str] = ()
    case: bool = False
    units: Literal["strict", "ignore"] = "strict"
    extract: Literal["box_or_marker", "box"] = "box_or_marker"
    answer_tag: str = ""
    box_commands: Sequence[str] = ("\\boxed", "\\fbox")
    think: Literal["after_last_close", "keep"] = "after_last_close"
    max_nesting: int = 64
    gold_column: str = "gold"
    pick: str = "last"
    adjacent_boxes: str = "list"
    broken_box: str = "no_answer"
    integer: str = "exact"
    base: str = "strict"
    percent: str = "value"
    lhs: str = "optional"
    equations: str = "up_to_factor"
    lists: str = "unordered"
    chain: str = "all_equal"
    unevaluated: str = "reject"
    mixed_numbers: bool = True
    domain: str = "real"

    reward_name: ClassVar[str] = "math"
    reasons: ClassVar[tuple[Reason, ...]] = (
        "correct", "wrong", "no_answer", "hedge", "limit", "timeout", "died", "bad_row",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for argument, allowed in FIXED.items():
            one_of(argument, getattr(self, argument), allowed)
        if isinstance(self.rel_tol, bool) or not isinstance(self.rel_tol, int | float) or not 0 <= self.rel_tol < 0.1:
            raise RewardSpecError(
                f"argument 'rel_tol' must be from 0 up to but not including 0.1, not {self.rel_tol!r}"
            )
        if not isinstance(self.max_nesting, int) or not 1 <= self.max_nesting <= 64:
            raise RewardSpecError(f"argument 'max_nesting' must be from 1 to 64, not {self.max_nesting!r}")
        self.stop, self.box_commands = _strings("stop", self.stop), _strings("box_commands", self.box_commands)
        check_tag("answer_tag", self.answer_tag)
        if not self.box_commands:
            raise RewardSpecError("argument 'box_commands' must name at least one command")
        if importlib.util.find_spec("math_verify") is None:
            raise MissingExtraError("the math reward needs math-verify: pip install 'grpo-rlvr-training[math]'")
        self.policy = Policy(Fraction(repr(self.rel_tol)), self.units == "strict")
        super().__post_init__()

    def columns(self) -> tuple[str, ...]:
        """Return the column of the expected answer."""
        return (self.gold_column,)

    def judge_row(self, row: Row) -> str | None:
        """Refuse a gold that is missing or cannot be read."""
        gold = gold_text(row[self.gold_column])
        if gold is None:
            return no_text(row[self.gold_column])
        return _gold_problem(gold, self.kind)

    def judge_output(self, completion: Completion, row: Row) -> Verdict:
        """Find the committed answer and compare it with the gold."""
        found = extract(
            text_of(completion), stop=self.stop, boxes=self.box_commands, boxes_only=self.extract == "box",
            keep_thinking=self.think == "keep", tag=self.answer_tag,
        )  # fmt: skip
        if found.reason is not None:
            return Verdict(0.0, found.reason)
        gold = gold_text(row[self.gold_column])
        assert gold is not None
        try:
            verdict = _judged(self.kind, gold, found, self.case, self.policy, self.max_nesting)
        except _WorkerFailed as error:
            verdict = Verdict(None, "harness_error", None, {"problem": f"the symbolic worker: {error}"})
        return replace(verdict, extracted=found.text)


@functools.lru_cache(maxsize=CACHED_GOLDS)
def _gold_form(gold: str) -> Form:
    return forms.read(gold)


@functools.lru_cache(maxsize=CACHED_GOLDS)
def _gold_problem(gold: str, kind: str) -> str | None:
    """Return why a gold cannot be used, or None. The answer is the same for every completion of the prompt."""
    if not gold.strip():
        return "the gold is empty"
    if gold.strip().casefold() in NO_ANSWER:
        return f"the gold {gold.strip()!r} says that there is no answer to compare"
    if kind == "choice":
        return None if gold_letter(gold) else f"the gold {gold[:40]!r} is no option letter"
    if kind == "word":
        return None
    try:
        return _form_problem(_gold_form(gold))
    except (TooLarge, NotUnderstood, Undefined, RecursionError) as error:
        return f"the gold {gold[:60]!r} cannot be used: {error}"


def _form_problem(form: Form) -> str | None:
    """Return why a gold of this form cannot be used, or None.

    Raises:
        TooLarge: A number in it is beyond the limits.
        Undefined: A number in it has no value.
    """
    shown = f"the gold {form.text[:60]!r}"
    if form.kind == "equation" and not chain_is_true(form):
        return f"{shown} contradicts itself"
    if form.kind == "word" and len(form.text.split()) > MAX_WORDS:
        return f"{shown} is prose, which this reward cannot compare"
    if form.kind == "raw" and len(re.findall(r"[(\[]", form.text)) != len(re.findall(r"[)\]]", form.text)):
        return f"{shown} has brackets that do not match"
    if form.kind == "raw" and not ("\\text" in form.text or is_formula(form.text) or _readable(form.text)):
        return f"{shown} is no formula, number or word"
    if form.node is not None:
        check_value(form.node)
    # What only names the value behind it need not be read.
    named = form.kind == "equation" and is_label(form.parts[0])
    return next((problem for part in form.parts[named:] if (problem := _form_problem(part))), None)


def _readable(text: str) -> bool:
    """Return whether math-verify reads a formula that our reader does not; a worker that cannot say is no objection."""
    state, result = _worker.SHARED.call("read", {"gold": text}, WORKER_SECONDS)
    if state == "died":
        state, result = _worker.SHARED.call("read", {"gold": text}, WORKER_SECONDS)
    return state == "unavailable" or (state == "done" and bool(result))


@functools.lru_cache(maxsize=CACHED_PAIRS)
def _judged(kind: str, gold: str, found: Extracted, case: bool, policy: Policy, max_nesting: int) -> Verdict:
    if kind != "auto" and len(found.text) > MAX_CHARACTERS:
        return Verdict(0.0, "limit", None, {"problem": f"longer than {MAX_CHARACTERS} characters"})
    if kind == "choice":
        letter = choice_letter(found.text)
        return _yes_or_no(letter is not None and letter == gold_letter(gold), {"letter": letter})
    if kind == "word":
        ours, theirs = (_letters(text, case) for text in (gold, found.text))
        return _yes_or_no(ours == theirs, {})
    if len(found.members) > 1 and _gold_form(gold).kind in ("number", "word"):
        return Verdict(0.0, "hedge")
    return _compared(gold, found, case, policy, max_nesting)


def _compared(gold: str, found: Extracted, case: bool, policy: Policy, max_nesting: int) -> Verdict:
    if (option := lettered_gold(gold)) is not None:
        chosen = choice_letter(found.text) == option[0]
        return _yes_or_no(True, {}) if chosen else _compared(option[1], found, case, policy, max_nesting)
    form, answer = _gold_form(gold), None
    try:
        answer = _answer_form(found, max_nesting)
        if case and form.kind == answer.kind == "word" and _letters(gold, True) != _letters(found.text, True):
            return Verdict(0.0, "wrong")
        if form.kind == "number" and (letter := _lone_letter(gold)):
            return _yes_or_no(choice_letter(found.text) == letter or same_answer(form, answer, policy), {})
        return _yes_or_no(same_answer(form, answer, policy), {"kind": form.kind})
    except Undecided:
        return _asked(form.text, found.text if answer is None else answer.text)
    except (TooLarge, RecursionError) as error:
        return Verdict(0.0, "limit", None, {"problem": str(error)[:200]})
    except (NotUnderstood, Undefined) as error:
        return Verdict(0.0, "wrong", None, {"problem": str(error)[:200]})


def _answer_form(found: Extracted, max_nesting: int) -> Form:
    if nesting(found.text) > max_nesting:
        raise TooLarge("nesting")
    if len(found.members) == 1:
        return forms.read(found.members[0])
    members = tuple(forms.read(member) for member in found.members)
    return Form("list", found.text, members)


class _WorkerFailed(RuntimeError):
    """The symbolic worker cannot work at all; raised so that no cache remembers it as a verdict."""


def _asked(gold: str, answer: str) -> Verdict:
    """Ask the symbolic worker, twice if it died under the question; what the answer makes it do is the answer's fault.

    Raises:
        _WorkerFailed: It cannot be started, or lacks its packages.
    """
    detail = {"by": "math-verify"}
    for _ in range(2):
        state, result = _worker.SHARED.call("same", {"gold": gold, "answer": answer}, WORKER_SECONDS)
        if state == "done":
            return _yes_or_no(bool(result), detail)
        if state == "timeout":
            return Verdict(0.0, "timeout", None, detail)
        if state == "unavailable" or result in ("ImportError", "ModuleNotFoundError"):
            raise _WorkerFailed(str(result))
        if state == "failed":
            return Verdict(0.0, "wrong", None, {**detail, "problem": str(result)})
    return Verdict(0.0, "died", None, detail)


def _yes_or_no(right: bool, detail: dict[str, Any]) -> Verdict:
    return Verdict(float(right), "correct" if right else "wrong", None, detail)


def _letters(text: str, case: bool) -> str:
    spoken = re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", normalise(text))
    spoken = squeezed(spoken) if len(spoken.split()) < 2 else " ".join(spoken.split())
    return spoken if case else spoken.casefold()


def _lone_letter(gold: str) -> str | None:
    """Return the option letter when the gold is nothing else, as a capital from A to J."""
    letter = gold_letter(gold)
    written = gold.strip(" ()$.") == letter or _SET_LETTER.fullmatch(gold.strip(" $.")) is not None
    return letter if letter is not None and letter <= "J" and written else None


def _strings(argument: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(entry, str) and entry for entry in value):
        raise RewardSpecError(f"argument {argument!r} must be a list of non-empty strings, not {value!r}")
    return tuple(value)


__all__ = ["Math"]
