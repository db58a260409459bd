"""Reading in the terminal, with the keys of the page."""

import codecs
import contextlib
import itertools
import json
import os
import re
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from grpo_rlvr.errors import InputError
from grpo_rlvr.inspection.page.api import PageApi, Session
from grpo_rlvr.models.reading import ReadingStatus
from grpo_rlvr.plain import visible
from grpo_rlvr.workspace import Workspace

VERDICT_KEYS = {
    "c": "correct", "1": "correct", "w": "wrong", "2": "wrong", "t": "cannot_tell", "3": "cannot_tell",
}  # fmt: skip
KEYS = (
    "[c] correct", "[w] wrong", "[t] can't tell", "[u] undo", "[n] note", "[f] all text", "[g] jump", "[s] summary",
    "[q] stop",
)  # fmt: skip
WELCOME = (
    "\x1b[1mRead before you train.\x1b[0m Say of each completion whether it deserves the reward: is it right, and in "
    "the form that was asked for? What the reward says of it is shown above the keys of the next row. Stop at any time "
    "with q."
)
FOLD_OVER, HEAD, TAIL = 2600, 1400, 800
# A beginning that all prompts share is folded after its first time when it has more characters than this.
FOLD_SHARED = 200
RULE = 72
# No line ends here.
TIED = "\u00a0"
END = "\x04"
ENDS_LINE, ERASES = ("\n", "\r", "", END), ("\x7f", "\b")
STYLE = re.compile(r"\x1b\[\d+m")
BOLD, DIM, YELLOW, OFF = "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[0m"


def read_in_terminal(
    reading_id: str,
    workspace: Workspace,
    *,
    name: str | None = None,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
) -> ReadingStatus:
    """Let a person read in the terminal until all is read or they stop; every verdict is saved at once.

    Args:
        reading_id: The reading.
        workspace: Where it lies.
        name: The reader's name; asked for when absent.
        stdin: Where keys come from: one key at a time from a terminal; else one line a key, and the record names the
            reader an oracle, since no person types into a pipe.
        stdout: Where rows are shown.

    Raises:
        InputError, NotFoundError: no such reading, or no name. EditedError: its record was changed.
    """
    keys, out = stdin or sys.stdin, stdout or sys.stdout
    api = PageApi(reading_id, workspace, "terminal")
    session = api.session(api.open_session(api.new_ticket(), f"terminal {os.environ.get('TERM', '')}".strip()))
    assert session is not None, "a fresh ticket opens a session"
    terminal = _Terminal(api, session, keys, out)
    with _one_key_at_a_time(keys):
        terminal.read(name)
    return ReadingStatus.model_validate(api.answer(session, "status", {}))


@contextlib.contextmanager
def _one_key_at_a_time(stream: TextIO) -> Iterator[None]:
    if not stream.isatty():
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(stream)
    # Without the flush that is the default, so that keys pressed early are not lost.
    tty.setcbreak(stream, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)


class _Terminal:
    """The conversation: shows a row, waits for a key, delivers the verdict."""

    def __init__(self, api: PageApi, session: Session, keys: TextIO, out: TextIO) -> None:
        self.api, self.session, self.keys, self.out = api, session, keys, out
        self.rows: list[dict[str, Any]] = []
        self.last: int | None = None
        self.note = ""
        # What the last verdict met, shown where the eyes are: above the keys, after the next row's text.
        self.news = ""
        self.shared = _shared([row.prompt for row in api.reading.rows])
        self.seen_shared = False
        self.styled = out.isatty() and not os.environ.get("NO_COLOR")

    def read(self, name: str | None) -> None:
        """Read until the end or until the reader stops."""
        self._say(WELCOME)
        name = name or self._line("Your name, for the record: ")
        if name is None:
            raise InputError("nobody said who reads", where="terminal", remedy="Give a name.")
        # Keys that come through a pipe come from a program: a person sits at a terminal.
        kind = "person" if self.keys.isatty() else "oracle"
        self.rows = self._ask("reader", name=name, kind=kind)["rows"]
        at: int | None = self._next(-1)
        while at is not None:
            at = self._one(at)
        self._summary()

    def _one(self, at: int) -> int | None:
        """Show a row and handle keys until there is another row to show; None ends."""
        content = self._ask("row", row=self.rows[at]["row"])
        self._show(at, content, whole=False)
        shown_at = time.monotonic()
        while True:
            key = self._key()
            if key in VERDICT_KEYS:
                return self._judge(at, content, VERDICT_KEYS[key], time.monotonic() - shown_at)
            match key:
                case None | "q":
                    return None
                case "u" if self.last is not None:
                    self.news = ""
                    return self.last
                case "u":
                    self._say("There is no verdict of this session to look at again.")
                case "n":
                    self.note = self._line("Note: ") or ""
                case "f":
                    self._show(at, content, whole=True)
                case "g":
                    target = self._line("Jump to row: ") or ""
                    if target.isdecimal() and 1 <= int(target) <= len(self.rows):
                        self.news = ""
                        return int(target) - 1
                    self._say(f"There are rows 1 to {len(self.rows)}.")
                case "s":
                    self._summary()
                    self._say_keys()
                case _:
                    self._say_keys()

    def _judge(self, at: int, content: dict[str, Any], verdict: str, seconds: float) -> int | None:
        looks = content["revealed"]["looks"] if content["revealed"] else 0
        answer = self._ask(
            "verdict", row=content["row"], verdict=verdict, note=self.note, seconds=seconds, look=looks + 1, token=""
        )
        self.note, self.last = "", at
        self.rows[at]["verdict"] = verdict
        self.news = _revealed(at, answer["revealed"], again=False)
        following = self._next(at)
        if following is not None:
            return following
        self._say(self.news)
        self._summary()
        target = self._line("All read. A row number looks again, Enter ends: ")
        if target and target.isdecimal() and 1 <= int(target) <= len(self.rows):
            return int(target) - 1
        return None

    def _next(self, at: int) -> int | None:
        count = len(self.rows)
        return next((i for s in range(1, count + 1) if not self.rows[i := (at + s) % count]["verdict"]), None)

    def _show(self, at: int, content: dict[str, Any], *, whole: bool) -> None:
        read = sum(bool(row["verdict"]) for row in self.rows)
        head = f"── Row {at + 1} of {len(self.rows)} ({read} read) "
        self._say(f"\n{BOLD}{head:─<{min(self._width() or RULE, RULE)}}{OFF}")
        self._say(f"{DIM}PROMPT{OFF}")
        self._say_prompt(content["prompt"], whole=whole)
        for name, value in content["columns"].items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            self._say(f"{DIM}{visible(name)}:{OFF} {visible(text)}")
        completion = content["completion"]
        if not whole and len(completion) > FOLD_OVER:
            folded = len(completion) - HEAD - TAIL
            self._say(f"{DIM}COMPLETION{OFF}\n{visible(completion[:HEAD])}")
            self._say(f"{DIM}[… {folded:,} characters folded, f shows all …]{OFF}\n{visible(completion[-TAIL:])}")
        else:
            self._say(f"{DIM}COMPLETION{OFF}\n{visible(completion) or '(empty)'}")
        if self.news:
            self._say(self.news)
        elif content["revealed"]:
            self._say(_revealed(at, content["revealed"], again=True))
        self._say_keys()

    def _say_prompt(self, prompt: str, *, whole: bool) -> None:
        if self.shared and self.seen_shared and not whole:
            self._say(f"{DIM}[… {len(self.shared):,} characters as in every row, f shows all …]{OFF}")
            prompt = prompt[len(self.shared) :]
        self.seen_shared = True
        self._say(visible(prompt))

    def _summary(self) -> None:
        status = self._ask("status")
        agreement = status["agreement"]
        share = agreement["agreement"]
        self._say(
            f"\n{BOLD}{status['read']} of {status['rows']} read.{OFF} Agreement "
            f"{'unknown' if share is None else format(share['value'], '.0%')}, paid but wrong "
            f"{agreement['false_positives']}, right but not paid {agreement['false_negatives']}."
        )
        numbers = {row["row"]: number for number, row in enumerate(self.rows, 1)}
        for entry in status["disagreements"]:
            words = "paid, but read as wrong" if entry["kind"] == "false_positive" else "not paid, but read as correct"
            made = "" if entry["source"] == "sample" else " (an answer that the audit made)"
            end = visible(" ".join(entry["completion"].split())[-120:])
            self._say(f"{YELLOW}row {numbers[entry['row']]}: {words}{made}{OFF}: … {end}")
        gate = status["gate"]
        reasons = "; ".join(reason["message"] for reason in gate["reasons"])
        self._say("The gate is open." if gate["open"] else f"The gate is closed: {visible(reasons)}.")
        for reason in gate["reasons"]:
            if reason["code"] == "unresolved_disagreement":
                self._say(visible(reason["remedy"]))

    def _ask(self, action: str, **payload: Any) -> dict[str, Any]:
        return self.api.answer(self.session, action, payload)

    def _key(self) -> str | None:
        if self.keys.isatty():
            key = self._character()
        else:
            line = self.keys.readline()
            key = line.strip()[:1] or ("\n" if line else "")
        return key.lower() if key and key != END else None

    def _line(self, question: str) -> str | None:
        self.out.write(question)
        self.out.flush()
        if not self.keys.isatty():
            line = self.keys.readline()
            return line.strip() if line else None
        typed = ""
        while (key := self._character()) not in ENDS_LINE:
            typed = typed[:-1] if key in ERASES else typed + key
            self.out.write("\b \b" if key in ERASES else visible(key))
            self.out.flush()
        self.out.write("\n")
        return typed.strip() or None

    def _character(self) -> str:
        """Return one character from the terminal, whose bytes may come apart; nothing at its end."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := os.read(self.keys.fileno(), 1):
            if character := decoder.decode(data):
                return character
        return ""

    def _say(self, text: str) -> None:
        shown = _wrapped(text if self.styled else STYLE.sub("", text), self._width()).replace(TIED, " ")
        self.out.write(shown + "\n")
        self.out.flush()

    def _say_keys(self) -> None:
        self._say(f"{DIM}{'  '.join(key.replace(' ', TIED) for key in KEYS)}{OFF}")

    def _width(self) -> int | None:
        """Return the columns of the terminal; None where there is none."""
        if not self.out.isatty():
            return None
        # A terminal that does not know its width says 0.
        return os.get_terminal_size(self.out.fileno()).columns or None


def _wrapped(text: str, width: int | None) -> str:
    """Break the lines of a text at word ends, and nowhere else but in words that are longer than a line."""
    if not width:
        return text
    wrapper = textwrap.TextWrapper(width, replace_whitespace=False, break_on_hyphens=False)
    return "\n".join("\n".join(wrapper.wrap(line)) for line in text.split("\n"))


def _shared(prompts: Sequence[str]) -> str:
    """Return the whole lines with which all prompts begin; empty when they are few characters."""
    # What the first and the last in the order of the alphabet share, all between them share too. The last line stays.
    pairs = zip(min(prompts).split("\n")[:-1], max(prompts).split("\n")[:-1], strict=False)
    lines = "".join(f"{one}\n" for one, other in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return lines if len(prompts) > 1 and len(lines) > FOLD_SHARED else ""


def _revealed(at: int, revealed: dict[str, Any], *, again: bool) -> str:
    said = {"correct": "correct", "wrong": "wrong", "cannot_tell": "can't tell"}[revealed["verdict"]]
    says = {True: "says correct", False: "says wrong", None: "gave no score"}[revealed["rewarded"]]
    scores = " · ".join(f"{name} {'none' if s is None else format(s, '.3g')}" for name, s in revealed["scores"].items())
    made = "" if revealed["source"] == "sample" else ", on an answer that the audit made"
    where = f"Again row {at + 1}" if again else f"Row {at + 1}"
    line = f"{where}: you said {said}, the reward {says}{made} ({scores})"
    hint = ""
    if again:
        hint = ". Your verdict stands until you give another."
    elif revealed["agrees"] is False:
        hint = ". A slip? u looks again."
    return f"{YELLOW if revealed['agrees'] is False else DIM}{line}{hint}{OFF}"
