"""Formulas that the reader does not know: equal as texts, or a question for the symbolic worker."""

import re
import string

from rlvr_rewards._math import terms
from rlvr_rewards._math.form import Form
from rlvr_rewards._math.forms import WORDS
from rlvr_rewards._math.limits import TooLarge


class Undecided(Exception):
    """Two texts that only the symbolic worker may compare."""


_ALPHABET = frozenset(string.ascii_letters)
# Only text of nothing but formulas goes to the symbolic worker: its parser drops what it does not know.
_FORMULA = re.compile(
    r"(?:\\(?:sum|prod|int|iint|oint|lim|to|infty|frac|sqrt|binom|sin|cos|tan|ln|log|exp|pi|cdot|times|partial|mathrm|"
    r"overline|bar|hat|vec|begin|end|det|deg|mid|in|mathbb|ldots|alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|sigma|"
    r"degree|cup|cap|setminus|le|ge|ne|pm|mp|circ|prime|nabla|Re|Im)(?![A-Za-z])|\\[{}\\|,]|[A-Za-z0-9\s+\-*/^_=<>(){}\[\]|!.,&'])*"
)


# Signs that the worker's parser does not know; formulas with them are compared as they are written.
_SIGNS = re.compile(
    r"\\(?:neg|lnot|forall|exists|rightarrow|Rightarrow|leftrightarrow|Leftrightarrow|iff|implies|oplus|otimes|perp|"
    r"parallel|cong|sim|subset|subseteq|supset|supseteq|notin|angle|triangle|ell|hbar|star|bullet|epsilon|zeta|eta|"
    r"kappa|nu|xi|rho|tau|chi|psi|Gamma|Delta|Theta|Lambda|Xi|Sigma|Phi|Psi|Omega)(?![A-Za-z])"
)


def is_formula(text: str) -> bool:
    """Return whether a text is made of nothing but signs of formulas."""
    return _FORMULA.fullmatch(_SIGNS.sub(" ", text).replace(":", " ")) is not None


def same(gold: Form, answer: Form) -> bool:
    """Return whether two answers are equal as texts.

    Raises:
        Undecided: They are not, but the symbolic worker may find them equal.
        TooLarge: The answer would keep the worker busy for too long.
    """
    if squeezed(gold.text) == squeezed(answer.text) or spoken(gold.text) == spoken(answer.text):
        return True
    words = {*WORDS.values()}
    if answer.kind == "word" or (gold.kind == "word" and gold.text in words):
        return False
    if not _open_ended(gold):
        return False
    if not (_FORMULA.fullmatch(gold.text) and _FORMULA.fullmatch(answer.text)):
        return False
    ours, theirs = _letters(gold.text), _letters(answer.text)
    bound, bound_in_gold = _bound(answer.text), _bound(gold.text)
    if squeezed(gold.text) == squeezed(_rebound(answer.text, bound, bound_in_gold - theirs)):
        return True
    if (bound_in_gold - bound) & theirs:
        # A letter that the gold binds is a free one here, as n in the limit of a_n for k.
        return False
    # A formula in other unknowns is another formula; so is one that lacks all of the gold's.
    if theirs - ours - bound or (ours and not ours & theirs):
        return False
    if _HEAVY.search(answer.text) or answer.text.count("!") > 2:
        raise TooLarge("numbers in a formula that is not worked out")
    raise Undecided


# The letters that a sum, product, limit or integral binds.
_BOUND = re.compile(r"\\(?:sum|prod|lim)\s*_\s*\{?\s*([A-Za-z])|d\s*([A-Za-z])(?![A-Za-z])")
# Numbers from 100,000, exponents from 100 and towers of powers: summing or expanding these takes for ever.
_HEAVY = re.compile(r"\d{6,}|\^\s*\{?\s*\d{3,}|\^\s*\{[^{}]*\^|10\s*\^\s*\{?\s*[5-9]")


def _rebound(text: str, old: set[str], new: set[str]) -> str:
    """Return a formula that binds one letter with another one in its place, as long as that is not in it."""
    if len(old) != 1 or len(new) != 1:
        return text
    return re.sub(rf"(?<![A-Za-z\\]){min(old)}(?![A-Za-z])|(?<=(?<![A-Za-z\\])d){min(old)}(?![A-Za-z])", min(new), text)


def _bound(text: str) -> set[str]:
    return {letter for match in _BOUND.finditer(text) for letter in match.groups() if letter}


def _letters(text: str) -> set[str]:
    """Return the letters that a formula uses as names."""
    return set(re.sub(r"\\[A-Za-z]+", " ", text)) & _ALPHABET - {"e", "i", "d"}


def _open_ended(gold: Form) -> bool:
    """Return whether a gold is more than numbers: only then may a formula that is not worked out be the answer."""
    if gold.kind == "equation":
        return any(_open_ended(part) for part in gold.parts)
    return gold.kind == "raw" or (gold.node is not None and bool(terms.variables(gold.node)))


def squeezed(text: str) -> str:
    """Return the text without spaces, except those that part letters or digits."""
    return re.sub(r"(?<![A-Za-z0-9])\s+|\s+(?![A-Za-z0-9])", "", text)


def same_words(gold: Form, answer: Form) -> bool:
    """Return whether two answers are the same words, or the same list of them in any order."""
    if spoken(gold.text) == spoken(answer.text):
        return True
    ours, theirs = (
        sorted(filter(None, re.split(r",\s*(?:and\s+)?|\s+and\s+", spoken(form.text)))) for form in (gold, answer)
    )
    return len(ours) > 1 and ours == theirs


def spoken(text: str) -> str:
    """Return the words and figures of a text, whichever of them were set as text or as formulas, in small letters.

    The article before a word and the point behind the last one are left out.
    """
    words = re.sub(r"\\text\s*\{([^{}]*)\}|\$", r" \1 ", text).casefold().split()
    if len(words) > 1 and words[0] in ("a", "an", "the") and len(words[1]) > 2 and words[1] != "and":
        words = words[1:]
    return " ".join(words).rstrip(".")
