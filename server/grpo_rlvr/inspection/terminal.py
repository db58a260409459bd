"""Reading in the terminal, with the keys of the page."""

import codecs
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

from grpo_rlvr.errors import InputError
from grpo_rlvr.inspection.page.api import PageApi, Session
from grpo_rlvr.models.reading import ReadingStatus
from grpo_rlvr.plain import visible
from grpo_rlvr.workspace import Workspace

VERDICT_KEYS = {
    "c": "correct", "1": "correct", "w": "wrong", "2": "wrong", "t": "cannot_tell", "3": "cannot_tell",
}  # fmt: skip
KEY_LINE = "[c] correct  [w] wrong  [t] can't tell  [u] undo  [n] note  [f] all text  [g] jump  [s] summary  [q] stop"
WELCOME = (
    "\x1b[1mRead before you train.\x1b[0m Say of each completion whether it deserves the reward: is it right, and in\n"
    "the form that was asked for? What the reward says is shown after your verdict. Stop at any time with q."
)
FOLD_OVER, HEAD, TAIL = 2600, 1400, 800
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
                    return self.last
                case "n":
                    self.note = self._line("Note: ") or ""
                case "f":
                    self._show(at, content, whole=True)
                case "g":
                    target = self._line("Jump to row: ") or ""
                    if target.isdigit() and 1 <= int(target) <= len(self.rows):
                        return int(target) - 1
                    self._say(f"There are rows 1 to {len(self.rows)}.")
                case "s":
                    self._summary()
                case _:
                    self._say(KEY_LINE)

    def _judge(self, at: int, content: dict[str, Any], verdict: str, seconds: float) -> int | None:
        looks = content["revealed"]["looks"] if content["revealed"] else 0
        answer = self._ask(
            "verdict", row=content["row"], verdict=verdict, note=self.note, seconds=seconds, look=looks + 1, token=""
        )
        self.note, self.last = "", at
        self.rows[at]["verdict"] = verdict
        self._say(_revealed(at, answer["revealed"]))
        following = self._next(at)
        if following is not None:
            return following
        self._summary()
        target = self._line("All read. A row number looks again, Enter ends: ")
        if target and target.isdigit() and 1 <= int(target) <= len(self.rows):
            return int(target) - 1
        return None

    def _next(self, at: int) -> int | None:
        count = len(self.rows)
        return next((i for s in range(1, count + 1) if not self.rows[i := (at + s) % count]["verdict"]), None)

    def _show(self, at: int, content: dict[str, Any], *, whole: bool) -> None:
        read = sum(bool(row["verdict"]) for row in self.rows)
        self._say(f"\n{BOLD}── Row {at + 1} of {len(self.rows)} ({read} read) {'─' * 40}{OFF}")
        self._say(f"{DIM}PROMPT{OFF}\n{visible(content['prompt'])}")
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
        if content["revealed"]:
            self._say(_revealed(at, content["revealed"]))
        self._say(f"{DIM}{KEY_LINE}{OFF}")

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
            end = visible(entry["completion"][-120:])
            self._say(f"{YELLOW}row {numbers[entry['row']]}: {words}{made}{OFF} {end!r}")
        gate = status["gate"]
        reasons = "; ".join(reason["message"] for reason in gate["reasons"])
        self._say("The gate is open." if gate["open"] else f"The gate is closed: {visible(reasons)}.")

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
        self.out.write((text if self.styled else STYLE.sub("", text)) + "\n")
        self.out.flush()


def _revealed(at: int, revealed: dict[str, Any]) -> str:
    said = {"correct": "correct", "wrong": "wrong", "cannot_tell": "can't tell"}[revealed["verdict"]]
    says = {True: "says correct", False: "says wrong", None: "gave no score"}[revealed["rewarded"]]
    scores = " · ".join(f"{name} {'none' if s is None else format(s, '.3g')}" for name, s in revealed["scores"].items())
    made = "" if revealed["source"] == "sample" else ", on an answer that the audit made"
    line = f"Row {at + 1}: you said {said}, the reward {says}{made} ({scores})"
    if revealed["agrees"] is False:
        return f"{YELLOW}{line}. A slip? u looks again.{OFF}"
    return f"{DIM}{line}{OFF}"
