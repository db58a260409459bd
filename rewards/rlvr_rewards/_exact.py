"""Is the answer, as a string, the expected one?"""

import numbers
import unicodedata
from dataclasses import dataclass
from typing import ClassVar, Literal

from rlvr_rewards._core import Completion, Reason, Reward, Row, Verdict, check_tag, one_of
from rlvr_rewards._text import after_thinking, last_block, text_of


@dataclass(eq=False, kw_only=True, repr=False)
class Exact(Reward):
    """1.0 when the last answer block equals the gold as a normalised string; otherwise 0.0.

    Formula: 1.0 if norm(answer) == norm(gold), else 0.0, where norm is Unicode NFKC, outer whitespace removed, and case
    folded when `case` is False. Nothing else is dropped: no punctuation, no articles, no zero-width characters, no part
    match. Range: {0.0, 1.0}.
    How it is gamed: guessing when few answers are possible; a yes/no column pays half of all coin flips.
    None: the gold is missing, empty or not text (an int counts as its digits). Numbers belong to `Math`.

    Args:
        answer_tag: The answer is the content of the last block of this tag; "" takes the whole text after the thinking.
            A last block that is not closed is no answer.
        case: Letter case matters.
        normalize: Unicode normal form of both sides.
        think: "after_last_close" takes only text after the last `</think>`; "keep" takes the whole text.
        pick: Of several blocks the last one counts.
        gold_column: The data set column that holds the expected answer.

    Example:
        >>> Exact()(completions=["<think>..</think><answer>Paris</answer>"], gold=["Paris"])
        [1.0]
    """

    answer_tag: str = "answer"
    case: bool = True
    normalize: Literal["NFC", "NFD", "NFKC", "NFKD"] = "NFKC"
    think: Literal["after_last_close", "keep"] = "after_last_close"
    pick: Literal["last"] = "last"
    gold_column: str = "gold"

    reward_name: ClassVar[str] = "exact"
    reasons: ClassVar[tuple[Reason, ...]] = ("correct", "wrong", "no_answer", "bad_row")

    def __post_init__(self) -> None:
        one_of("normalize", self.normalize, ("NFC", "NFD", "NFKC", "NFKD"))
        one_of("think", self.think, ("after_last_close", "keep"))
        one_of("pick", self.pick, ("last",))
        one_of("case", self.case, (True, False))
        check_tag("answer_tag", self.answer_tag)
        super().__post_init__()

    def columns(self) -> tuple[str, ...]:
        """Return the column of the expected answer."""
        return (self.gold_column,)

    def judge_row(self, row: Row) -> str | None:
        """Refuse a gold that is missing, empty, or not text."""
        gold = row[self.gold_column]
        if isinstance(gold, bool) or not isinstance(gold, str | numbers.Integral):
            return f"the gold is {type(gold).__name__}, not text"
        return None if self._normal(str(gold)) else "the gold is empty"

    def judge_output(self, completion: Completion, row: Row) -> Verdict:
        """Compare the last answer block with the gold."""
        text: str | None = text_of(completion)
        if self.think == "after_last_close":
            text = after_thinking(text or "")
        answer = last_block(text, self.answer_tag) if text and self.answer_tag else text
        if answer is None or not self._normal(answer):
            return Verdict(0.0, "no_answer")
        same = self._normal(answer) == self._normal(str(row[self.gold_column]))
        return Verdict(float(same), "correct" if same else "wrong", answer.strip())

    def _normal(self, text: str) -> str:
        folded = unicodedata.normalize(self.normalize, text).strip()
        # Folding can leave the normal form, so it is made once more.
        return folded if self.case else unicodedata.normalize(self.normalize, folded.casefold())
