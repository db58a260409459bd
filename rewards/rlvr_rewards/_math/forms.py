"""What kind of answer a text is: a number, a word, a list, a set, an interval, a pair, an equation, a matrix."""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise, product

from rlvr_rewards._math import cardinals, tables, terms, tree
from rlvr_rewards._math.form import Form, names
from rlvr_rewards._math.limits import MAX_CHARACTERS, MAX_MEMBERS, MAX_NESTING, NotUnderstood, TooLarge
from rlvr_rewards._math.normal import balanced, nesting, normalise, unwrap_text
from rlvr_rewards._math.quantities import SPACED_THOUSANDS, THOUSANDS, read_compound, read_number
from rlvr_rewards._math.scan import cut, outer_bracket, pieces

_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "all real numbers": (
        *("all real numbers", "all reals", "real numbers", "the real numbers", "the set of all real numbers"),
        *("the set of real numbers", "all real x", "all real values", "all real values of x", "any real number"),
        "every real number",
    ),
    "no solution": (
        *("no solution", "no solutions", "no real solution", "no real solutions", "empty set", "the empty set"),
    ),
    "undefined": ("undefined", "does not exist", "dne", "d.n.e"),
    "infinity": ("infinity", "+infinity"),
}
WORDS = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in spellings}
# Runs of letters that are a word although each letter could be a variable.
SHORT_WORDS = frozenset(("yes", "no", "odd", "even", "true", "false", "none"))
_RELATIONS = ("\\le", "\\ge", "\\ne", "\\approx", "\\equiv", "=", "<", ">")
_LETTERS = re.compile(r"[A-Za-z][A-Za-z' -]*")
_OR = re.compile(r"\\text\s*\{\s*,?\s*or\s*,?\s*\}|(?<![A-Za-z])or(?![A-Za-z])")
_EITHER = re.compile(r"\\[pm][pm](?![A-Za-z])")
# Sides of a chain of relations, and characters of a formula with the words that go with it; more is no usual answer.
MAX_SIDES = 8
MAX_SENTENCE = 400
# Each sign doubles the answers.
MAX_SIGNS = 3
# Words that make a text in `\\text{..}` a phrase; shorter runs of letters may be variables.
_PHRASE = re.compile(r"[A-Za-z]{3,}")
# A comma that neither parts two numbers nor groups three digits: no number begins with 0, but a group of digits may.
_DECIMAL_COMMA = re.compile(r"^([+-]?(?:0(?=,\d{3})|\d+(?=,0\d(?:\d{2,})?(?!\d)))),(\d+)(?=\s*(?:[A-Za-z\\%$€].*)?$)")
_FRENCH = re.compile(r"([\]\[])([^\[\](),;]+)([,;])([^\[\](),;]+)([\]\[])")
_CONGRUENCE = re.compile(
    r"(?:(?P<left>.+?)\\equiv(?![A-Za-z]))?(?P<right>.+?)"
    r"\(?\s*\\?(?:pmod|bmod|mod|text\s*\{\s*mod\s*\})(?![A-Za-z])\s*\{?(?P<modulus>[^{}()]+?)\}?\s*\)?"
)
# A formula for every whole number k, or real c, with the words that say so.
_FAMILY = re.compile(
    r"(?P<main>.+?)[,;]?\s*(?:\(\s*)?"
    r"(?:(?P<words>(?:\\text\s*\{\s*)?(?:where|for(?: any| all| every)?|with)"
    r"(?: real| integers?| numbers?)*(?:\s*\})?\s*)"
    r"|\\forall\s*)?(?P<name>[A-Za-z])\s*(?:\\in\s*(?P<set>\\mathbb\{[ZNQRC]\})(?:\^\+)?)?\s*\)?"
)
# Two figures behind a colon may be minutes: a time of day is no ratio that could be reduced.
_TIME = re.compile(
    r"(?P<time>\d{1,2}\s*:\s*\d{2}(?:\s*:\s*\d{2})?)"
    r"(?:\s*(?:\\text\s*\{)?\s*(?P<half>[apAP])\s*\.?\s*[mM]\.?\s*\}?)?"
)
# A quotient and what remains: "7 R 2".
_REMAINDER = re.compile(
    r"(?P<quotient>-?\d+)\s*,?\s*(?:\\text\s*\{\s*)?(?:with |and )?(?:a )?(?:R\.?|r|[Rr]em\.|[Rr]emainder)(?: of)?"
    r"\s*\}?\s*:?\s*(?P<rest>\d+)"
)
# A full hour: "4 pm".
_HOUR = re.compile(r"(?P<hour>\d{1,2})(?P<half>\s*(?:\\text\s*\{)?\s*[apAP]\s*\.?\s*[mM]\.?\s*\}?)")


def read(text: str) -> Form:
    """Return the form of one answer.

    Raises:
        TooLarge: It is beyond the stated limits.
        NotUnderstood: It is empty, or its braces do not match.
    """
    if len(text) > MAX_CHARACTERS or nesting(text) > MAX_NESTING:
        raise TooLarge("characters or nesting")
    if re.search(r"\d{257}", text):
        raise TooLarge("digits")
    clean = normalise(text)
    if not clean:
        raise NotUnderstood("nothing to read")
    if not balanced(clean):
        raise NotUnderstood("braces do not match")
    clean = _DECIMAL_COMMA.sub(r"\1.\2", clean)
    if clean[0] == "]" or clean[-1] == "[":
        clean = _FRENCH.sub(_interval_ends, clean)
    return read_clean(clean)


def _interval_ends(match: re.Match[str]) -> str:
    """Return an interval in the notation with brackets turned outwards, such as ]0,1[, in the usual one."""
    opener, closer = "(" if match[1] == "]" else "[", ")" if match[5] == "[" else "]"
    return f"{opener}{match[2]}{match[3]}{match[4]}{closer}"


def read_clean(text: str, bare: bool = True) -> Form:
    """Return the form of normalised text; `bare` says that no bracket surrounds it, so that 1,000 is one number."""
    text, source = unwrap_text(text.strip()), text.strip()
    if division := _REMAINDER.fullmatch(text):
        return _quotient(text, division)
    if source.startswith("\\text") and (words := _set_as_text(text)) is not None:
        return words
    for reader in _READERS:
        form = reader(text) if reader is not _list else _list(text, bare)
        if form is not None:
            return form
    return Form("raw", text)


def _quotient(text: str, match: re.Match[str]) -> Form:
    """Read a quotient with its remainder; as a product of letters and numbers, 7 R 2 would be 2 R 7."""
    values = (int(match["quotient"]), int(match["rest"]))
    return Form("division", text, tuple(Form("number", str(value), node=terms.number(value)) for value in values))


def _set_as_text(text: str) -> Form | None:
    """Read what is set as text as words: several letters are no product there, nor are words with figures."""
    if text.isalpha() and len(text) > 1 and not _is_name(text):
        return _word(f"\\text{{{text}}}")
    return _phrase(text)


def _is_name(text: str) -> bool:
    return text in tree.FUNCTIONS or text == "pi"


def _phrase(text: str) -> Form | None:
    """Read what is set as text as words with figures, such as a date, when it is no number with a unit."""
    if _LETTERS.fullmatch(text) or not re.search(r"[A-Za-z]", text) or not _PHRASE.search(text):
        return None
    if re.fullmatch(r"[A-Za-z0-9 .,:'-]+", text) is None or not re.search(r"\d", text):
        return None
    number = read_number(text)
    if number is not None and number.node is not None and (number.unit or not terms.variables(number.node)):
        return None
    return Form("word", " ".join(text.casefold().split()))


def _word(text: str) -> Form | None:
    spoken = re.sub(r"\\text\s*\{([^{}]*)\}", r"\1", text).strip()
    plain = " ".join(spoken.casefold().split())
    if text in ("\\emptyset", "\\{\\}", "\\{ \\}"):
        return Form("word", "no solution")
    if text == "\\mathbb{R}":
        return Form("word", "all real numbers")
    if text.replace(" ", "").lstrip("+-") in ("\\infty", "\\infin"):
        return Form("word", "-infinity" if text.startswith("-") else "infinity")
    if plain in WORDS:
        return Form("word", WORDS[plain])
    if not _LETTERS.fullmatch(spoken) or len(spoken) == 1:
        return None
    is_text = spoken != text or " " in plain
    if spoken == text and all(len(word) == 1 for word in plain.split()):
        # Letters with spaces between are factors.
        return None
    letters = plain.replace(" ", "")
    spelled = not is_text and _reads_as_word(text)
    if is_text or spelled or letters in SHORT_WORDS or cardinals.value(plain) is not None:
        return Form("word", plain)
    return None


def _reads_as_word(text: str) -> bool:
    """Return whether a run of letters is a word: longer than a usual product, or with capitals as names have."""
    return (
        text.isalpha()
        and not _is_name(text)
        and (len(text) >= 4 or (len(text) > 1 and text[0].isupper() and text[1:].isupper()))
    )


def _table(text: str) -> Form | None:
    return tables.read(text, read_clean)


def _list(text: str, bare: bool) -> Form | None:
    if bare and (THOUSANDS.fullmatch(text) or SPACED_THOUSANDS.fullmatch(text)):
        return None
    members = cut(text, bare)
    joined = "or" if any(word == "or" for word in members.words) else "and"
    if len(members.parts) == 1:
        return _plus_minus(text)
    if len(members.parts) > MAX_MEMBERS:
        raise TooLarge("members")
    forms = tuple(read_clean(part) for part in members.parts if part.strip())
    if not forms:
        return None
    if bare and ";" in members.words and "," in members.words and (groups := _groups(text)) is not None:
        return groups
    if bare and joined == "or" and "," in members.words and (groups := _systems(text)) is not None:
        return groups
    forms = _exclusions(continued(forms))
    if joined == "or" and all(form.kind in ("relation", "interval", "union") for form in forms):
        return Form("union", text, forms)
    return Form("list", text, tuple(_flat(forms)), marks=tuple(dict.fromkeys(members.words)))


def _exclusions(forms: tuple[Form, ...]) -> tuple[Form, ...]:
    """Read `x \\ne 0, 1` as two conditions: the numbers behind an exclusion are excluded too."""
    first = forms[0]
    if first.kind != "relation" or first.marks != ("\\ne",) or any(form.kind != "number" for form in forms[1:]):
        return forms
    name = first.parts[0]
    rest = (Form("relation", f"{name.text}\\ne {form.text}", (name, form), marks=first.marks) for form in forms[1:])
    return (first, *rest)


def _groups(text: str) -> Form | None:
    """Read `1, 2; 3, 4` as a list of groups of the same length, each an ordered one."""
    groups = [_list(part, False) for part in pieces(text, (";",)).parts if part]
    lengths = {len(group.parts) if group is not None and group.kind == "list" else 0 for group in groups}
    if len(lengths) != 1 or 0 in lengths:
        return None
    found = [group for group in groups if group is not None]
    if all(part.kind != "equation" for group in found for part in group.parts):
        found = [Form("tuple", group.text, group.parts, marks=("(", ")")) for group in found]
    return Form("list", text, tuple(found), marks=(";",))


def _systems(text: str) -> Form | None:
    """Read `x = 1, y = 2 or x = 2, y = 1` as a list of groups, if there are nothing but equations."""
    groups = _groups(_OR.sub(";", text))
    if groups is None or any(part.kind != "equation" for group in groups.parts for part in group.parts):
        return None
    return groups


def _flat(forms: tuple[Form, ...]) -> list[Form]:
    return [inner for form in forms for inner in (form.parts if form.kind == "list" else (form,))]


def _plus_minus(text: str) -> Form | None:
    count = len(_EITHER.findall(text))
    if not 0 < count <= MAX_SIGNS or "\\{" in text:
        return None  # the members of a set take their signs for themselves
    # Signs go together where one of them is turned over; otherwise each is chosen for itself.
    choices = ["+" * count, "-" * count] if "\\mp" in text else map("".join, product("+-", repeat=count))
    return Form("list", text, tuple(read_clean(_with_signs(text, signs)) for signs in choices))


def _with_signs(text: str, signs: str) -> str:
    given = iter(signs)

    def sign(match: re.Match[str]) -> str:
        chosen = next(given)
        return chosen if match[0] == "\\pm" else {"+": "-", "-": "+"}[chosen]

    return _EITHER.sub(sign, text)


def _union(text: str) -> Form | None:
    for kind, sign in (("union", "\\cup"), ("difference", "\\setminus"), ("intersection", "\\cap")):
        parts = pieces(text, (sign,)).parts
        if len(parts) > MAX_MEMBERS:
            raise TooLarge("members")
        if len(parts) > 1:
            return Form(kind, text, tuple(read_clean(part) for part in parts))
    return None


def _family(text: str) -> Form | None:
    if len(text) > MAX_SENTENCE or not any(mark in text for mark in ("\\in", "\\forall", "for", "where", "with")):
        return None
    match = _FAMILY.fullmatch(text)
    if match is None or not match["main"].strip(" ,;") or not (match["words"] or match["set"]):
        return None
    main = read_clean(match["main"].strip(" ,;"))
    return (
        Form("family", text, (main,), marks=(match["name"], match["set"] or ""))
        if match["name"] in names(main)
        else None
    )


def _relation(text: str) -> Form | None:
    congruence = _CONGRUENCE.fullmatch(text) if len(text) <= MAX_SENTENCE else None
    if congruence:
        sides = [part for part in congruence.groups() if part is not None]
        return Form("congruence", text, tuple(map(read_clean, sides)))
    found = pieces(text, _RELATIONS)
    if len(found.parts) == 1:
        member = pieces(text, ("\\in",))
        if len(member.parts) != 2 or not all(part.strip() for part in member.parts):
            return None
        return Form("equation", text, tuple(read_clean(part) for part in member.parts), marks=member.words)
    if not found.parts[0] and found.words in (("=",), ("\\approx",)):
        return read_clean(found.parts[1])
    if len(found.parts) > MAX_SIDES or not all(part.strip() for part in found.parts):
        return Form("raw", text)
    parts = tuple(read_clean(part) for part in found.parts)
    if all(sign in ("=", "\\approx") for sign in found.words):
        return Form("equation", text, parts, marks=tuple(found.words))
    return Form("relation", text, parts, marks=tuple(found.words))


def _bracket(text: str) -> Form | None:
    found = outer_bracket(text)
    if found is None:
        return None
    opener, closer, inner = found
    members = cut(inner, False).parts
    if opener == "\\{":
        if re.search(r"\\mid(?![A-Za-z])|\||:", inner):
            return _builder(text, inner)
        forms = tuple(_flat(tuple(read_clean(part, bare=False) for part in members if part.strip())))
        return Form("set", text, continued(tuple(forms))) if forms else Form("word", "no solution")
    if len(members) == 1:
        form = read_clean(inner)
        return form if (opener, closer) == ("(", ")") or form.kind == "matrix" else Form("raw", text)
    if len(members) > MAX_MEMBERS:
        raise TooLarge("members")
    forms = tuple(read_clean(part, bare=False) for part in members)
    if (opener, closer) == ("[", "]") and (rows := tables.rows_of(text, forms)) is not None:
        return rows
    mixed = (opener, closer) in (("(", "]"), ("[", ")"))
    endless = len(forms) == 2 and any(re.search(r"\\infty|inf$|infinity|^-?oo$", form.text) for form in forms)
    kind = "interval" if len(forms) == 2 and (mixed or endless) else "tuple"
    return None if mixed and kind == "tuple" else Form(kind, text, forms, marks=(opener, closer))


def continued(forms: tuple[Form, ...]) -> tuple[Form, ...]:
    """Return the members with `1, 2, ..., 9` filled in, where whole numbers in even steps lead up to the last one."""
    if len(forms) < 3 or forms[-2].text != "..." or any(form.text == "..." for form in forms[:-2]):
        return forms
    values = [form.node.value if form.node is not None and not form.unit else None for form in (*forms[:-2], forms[-1])]
    given = [int(value) for value in values if value is not None and value.denominator == 1]
    steps = {after - before for before, after in pairwise(given[:-1])} or {1}
    step = next(iter(steps))
    if len(given) != len(values) or len(steps) != 1 or step == 0 or (given[-1] - given[-2]) % step:
        return forms
    count = (given[-1] - given[0]) // step + 1
    if not len(given) <= count <= MAX_MEMBERS:
        return forms
    run = range(given[0], given[-1] + (1 if step > 0 else -1), step)
    return tuple(Form("number", str(value), node=terms.number(value)) for value in run)


def _builder(text: str, inner: str) -> Form:
    """Read `{x | x > 2}`: the set is what the condition says of the variable."""
    found = pieces(inner, ("\\mid", "|", ":"))
    if len(found.parts) == 2 and re.match(r"[A-Za-z](?:\s*\\in\s*\\mathbb\{R\})?$", found.parts[0]):
        condition = read_clean(found.parts[1])
        if condition.kind in ("relation", "union") and names(condition) == {found.parts[0][0]}:
            return condition
    # Colon and bar say the same.
    return Form("raw", f"\\{{{':'.join(found.parts)}\\}}" if len(found.parts) == 2 else text)


def _ratio(text: str) -> Form | None:
    """Read `4:3` and "4 to 3", and what can be a time of day with the mark "clock"."""
    if clock := _TIME.fullmatch(_HOUR.sub(r"\g<hour>:00\g<half>", text) if _HOUR.fullmatch(text) else text):
        return _clock(text, clock)
    parts = pieces(re.sub(r"(?<=\d)\s*(?:\\text\s*\{\s*to\s*\}|to)\s*(?=\d)", ":", text), (":",)).parts
    if not 2 <= len(parts) <= 8 or not all(parts):
        return None
    return Form("ratio", text, tuple(read_clean(part, bare=False) for part in parts))


def _clock(text: str, match: re.Match[str]) -> Form:
    """Read a time of day; with a.m. or p.m. it counts from 0 to 24 hours."""
    half = match["half"]
    figures = [int(figure) for figure in match["time"].replace(" ", "").split(":")]
    if half is not None:
        figures[0] = figures[0] % 12 + (12 if half[0] in "pP" else 0)
    parts = tuple(Form("number", str(figure), node=terms.number(figure)) for figure in figures)
    kind = "ratio" if half is None else "time"
    return Form(kind, ":".join(map(str, figures)), parts, marks=("clock",))


def _ellipsis(text: str) -> Form | None:
    return Form("word", "...") if text in ("\\ldots", "...") else None


_READERS: tuple[Callable[..., Form | None], ...] = (
    _ellipsis,
    read_compound,
    _word,
    _table,
    _family,
    _list,
    _union,
    _relation,
    _bracket,
    _ratio,
    read_number,
)
