"""Multiple choice: the option letter at the start of an answer."""

import functools
import re

from rlvr_rewards._math.limits import CACHED_GOLDS
from rlvr_rewards._math.normal import normalise

_LEADING = re.compile(
    r"[\s(\[{*]*+(?:option|choice|answer)?[\s(\[{*:]*+(?P<letter>[A-Za-z])(?P<after>[)\]}.:*,;-]|\s|$)", re.IGNORECASE
)
# The article before a small word: the text of an option without its letter.
_ARTICLE = re.compile(r"A\s+(?!(?:as|because|by|for|is|since|so|where|which|with)\b)[a-z]{2}")
# A second letter right behind the first, as in "A or B", "B, C" or "A B".
_SECOND = re.compile(
    r"[\s)\].*]*+(?:,|;|/|&|\bor\b|\band\b)[\s(\[*]*+(?:option\s+)?[A-Z](?![A-Za-z])|(?:\s++[A-J](?![A-Za-z]))+\s*\Z",
    re.IGNORECASE,
)
# A letter with one of these behind it is a variable.
_OPERATORS = ("^", "_", "%", "/", "+", "=", "<", ">")


def gold_letter(gold: str) -> str | None:
    """Return the option letter of a gold such as "B", "(B)" or "\\text{B}", or None."""
    letter = _plain(gold).strip(" ().[]{}:*")
    return letter.upper() if len(letter) == 1 and letter.isascii() and letter.isalpha() else None


# An option with its letter and its value, as contests write them: \\textbf{(A)}\\ 5.
_LETTERED = re.compile(
    r"(?:\\text\s*\{\s*\(?(?P<set>[A-J])[).:]+\s*\}|\((?P<plain>[A-J])\))\s*(?P<value>(?!\()[^\s,].*)"
)


@functools.lru_cache(maxsize=CACHED_GOLDS)
def lettered_gold(gold: str) -> tuple[str, str] | None:
    """Return the option letter and the value of a gold that gives both, or None."""
    match = _LETTERED.fullmatch(normalise(gold))
    return (match["set"] or match["plain"], match["value"]) if match else None


def choice_letter(answer: str) -> str | None:
    """Return the one option letter that an answer begins with; its text may follow. None for none or several."""
    text = _plain(answer)
    match = _LEADING.match(text)
    if match is None or _SECOND.match(text, match.end("letter")):
        return None
    if _ARTICLE.match(text, match.start("letter")):
        return None
    letter, rest = match["letter"], text[match.end("letter") :].strip(" ().[]{}:*")
    if rest.startswith(_OPERATORS):
        return None
    # A small letter with text behind is a word of that text, such as the article.
    return letter.upper() if letter.isupper() or not rest or match["after"] in ")]}.:" else None


def _plain(text: str) -> str:
    return re.sub(r"\\text\s*\{([^{}]*)\}", r"\1 ", normalise(text)).replace("\\", " ").strip()
