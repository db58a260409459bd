"""Does the completion have the declared structure?"""

import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rlvr_rewards._core import Completion, Reason, Reward, RewardSpecError, RewardWiringError, Row, Verdict, one_of
from rlvr_rewards._text import text_of

# So many completions without a single tag are worth a word: either the model never heard of them or they are dropped.
SILENT_COMPLETIONS = 256
# Where chat parsers put the thinking that they cut out of the text.
THINKING_KEYS = ("reasoning_content", "reasoning", "thinking")


@dataclass(eq=False, kw_only=True, repr=False)
class Format(Reward):
    """1.0 when the declared tags stand in order, each once, with nothing outside them; otherwise 0.0.

    Formula: 1.0 if the completion is `<t1>..</t1> <t2>..</t2> ..` for the declared tags, else 0.0. Range: {0.0, 1.0}.
    How it is gamed: empty or filler blocks (`nonempty` stops the empty ones), so pair it with a correctness reward.
    None: never for what a model wrote. When `tag_ids` proves that tags were dropped on decoding, calling it raises
    `RewardWiringError`, since a score would be wrong for every completion.

    Args:
        tags: Tag names in order, without brackets. Spelling and case are exact and attributes are not allowed.
        prefilled: The prompt already ends with the first opening tag, so the completion must not repeat it.
        nonempty: Each block must hold more than whitespace and invisible characters.
        once: Each tag appears exactly once; False lets the whole sequence of blocks repeat.
        outside: "whitespace" allows nothing else outside the blocks; "tail" requires text after the last block and
            nothing but whitespace elsewhere.
        tag_ids: Token ids of tags such as {"<think>": 151667}; an id among `completion_ids` whose tag is missing from
            the text proves that decoding dropped it. See `check_tokenizer`.

    Example:
        >>> reward = Format(tags=("think", "answer"))
        >>> reward(completions=["<think>2+2</think><answer>4</answer>", "<answer>4</answer>"])
        [1.0, 0.0]
    """

    tags: Sequence[str] = ("think", "answer")
    prefilled: bool = False
    nonempty: bool = True
    once: bool = True
    outside: Literal["whitespace", "tail"] = "whitespace"
    tag_ids: Mapping[str, int] | None = None

    reward_name: ClassVar[str] = "format"
    reasons: ClassVar[tuple[Reason, ...]] = ("correct", "bad_format")

    def __post_init__(self) -> None:
        if isinstance(self.tags, str) or not self.tags:
            raise RewardSpecError(f"argument 'tags' must be a list of at least one tag name, not {self.tags!r}")
        self.tags = tuple(self.tags)
        for tag in self.tags:
            if not isinstance(tag, str) or not re.fullmatch(r"[^\s<>/]+", tag):
                raise RewardSpecError(f"{tag!r} is no tag name; give names without brackets, such as 'think'")
        if len(set(self.tags)) != len(self.tags):
            raise RewardSpecError(f"argument 'tags' names a tag twice: {', '.join(self.tags)}")
        one_of("outside", self.outside, ("whitespace", "tail"))
        self._seen = self._seen_tags = 0
        super().__post_init__()

    def columns(self) -> tuple[str, ...]:
        """Return the columns read: the token ids when `tag_ids` is given, otherwise none."""
        return ("completion_ids",) if self.tag_ids else ()

    def judge_output(self, completion: Completion, row: Row) -> Verdict:
        """Score one completion; a dropped tag gives the reason `wiring_error` and no score."""
        text = tagged_text(completion, self.tags[0])
        lost = self._lost_tag(text, row.get("completion_ids") or ())
        if lost:
            return Verdict(None, "wiring_error", None, {"problem": lost_tag_text(lost)})
        problem, content = self._problem(text)
        if problem:
            return Verdict(0.0, "bad_format", content, {"problem": problem})
        return Verdict(1.0, "correct", content)

    def log(
        self,
        verdicts: Sequence[Verdict],
        log_extra: Callable[[str, list[Any]], None] | None,
        log_metric: Callable[[str, float], None] | None,
    ) -> None:
        """Log as every reward does, and warn once when no completion so far holds any tag."""
        super().log(verdicts, log_extra, log_metric)
        self._seen += len(verdicts)
        self._seen_tags += sum(verdict.detail.get("problem") != NO_TAGS for verdict in verdicts)
        if self._seen_tags == 0 and self._seen - len(verdicts) < SILENT_COMPLETIONS <= self._seen:
            warnings.warn(
                f"none of {self._seen} completions holds any of the tags {', '.join(self.tags)}. Either the model was "
                "never shown them, or the tokenizer treats them as special and decoding drops them; "
                "Format.check_tokenizer(tokenizer) tells which.",
                stacklevel=2,
            )

    def check_tokenizer(self, tokenizer: Any) -> None:
        """Make sure that the declared tags survive `decode(skip_special_tokens=True)`, which TRL uses.

        Raises:
            RewardWiringError: A tag vanishes, so every score would be 0.0 whatever the model writes.
        """
        for mark in self._marks():
            ids = tokenizer.encode(mark, add_special_tokens=False)
            if mark not in tokenizer.decode(ids, skip_special_tokens=True):
                raise RewardWiringError(lost_tag_text(mark))

    def _marks(self) -> list[str]:
        marks = [mark for tag in self.tags for mark in (f"<{tag}>", f"</{tag}>")]
        return marks[1:] if self.prefilled else marks

    def _lost_tag(self, text: str, ids: Sequence[int]) -> str | None:
        wanted = self.tag_ids or {}
        present = set(ids) if wanted else set()
        return next((mark for mark, token in wanted.items() if token in present and mark not in text), None)

    def _problem(self, text: str) -> tuple[str | None, str | None]:
        """Return what is wrong with the text, or None, and the content of its last declared block."""
        expected = self._marks()
        found: list[re.Match[str]] = []
        for match in self._scan(text):
            found.append(match)
            if self.once and len(found) > len(expected):
                return f"{match[0]} is one tag too many", None
        if not found:
            return NO_TAGS, None
        marks = [match[0] for match in found]
        wanted = self._wanted(marks, expected)
        for position, mark in enumerate(wanted):
            if position >= len(marks) or marks[position] != mark:
                return f"expected {mark}, found {marks[position] if position < len(marks) else 'the end'}", None
        return self._content_problem(text, found)

    def _wanted(self, marks: Sequence[str], expected: list[str]) -> list[str]:
        if self.once:
            return expected
        whole = [mark for tag in self.tags for mark in (f"<{tag}>", f"</{tag}>")]
        repeats = -(-(len(marks) - len(expected)) // len(whole)) if len(marks) > len(expected) else 0
        return expected + whole * repeats

    def _content_problem(self, text: str, found: Sequence[re.Match[str]]) -> tuple[str | None, str | None]:
        start, inside, content = 0, self.prefilled, None
        for match in found:
            piece = text[start : match.start()]
            if inside:
                content = piece
                if self.nonempty and is_blank(piece):
                    return f"the block before {match[0]} is empty", content
            elif piece.strip():
                return f"text outside the blocks before {match[0]}", content
            start, inside = match.end(), not inside
        tail = text[start:]
        if self.outside == "whitespace" and tail.strip():
            return "text after the last block", content
        if self.outside == "tail" and is_blank(tail):
            return "no text after the last block", content
        return None, content

    def _scan(self, text: str) -> Iterator[re.Match[str]]:
        return re.finditer(rf"</?(?:{'|'.join(map(re.escape, self.tags))})>", text)


NO_TAGS = "none of the tags is there"


def lost_tag_text(mark: str) -> str:
    """Return the message for a tag that decoding dropped."""
    return (
        f"the tag {mark} is a special token of this tokenizer and decoding drops it (skip_special_tokens=True): every "
        "score would be 0.0. Use another tag name, or add the tag to the tokenizer as a token that is not special."
    )


def is_blank(text: str) -> bool:
    """Return whether the text holds nothing but whitespace, control and invisible characters."""
    return all(char.isspace() or unicodedata.category(char) in ("Cf", "Cc") for char in text)


def tagged_text(completion: Completion, first_tag: str) -> str:
    """Return the final text, with thinking that a chat parser moved to its own field put back into its tag."""
    text = text_of(completion)
    if isinstance(completion, str) or not completion:
        return text
    thinking = next((completion[-1][key] for key in THINKING_KEYS if completion[-1].get(key)), None)
    return f"<{first_tag}>{thinking}</{first_tag}>{text}" if isinstance(thinking, str) else text
