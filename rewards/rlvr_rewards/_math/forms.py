"""What kind of answer a text is: a number, a word, a list, a set, an interval, a pair, an equation, a matrix."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rlvr_rewards._math import tree
from rlvr_rewards._math.limits import MAX_CHARACTERS, MAX_MEMBERS, MAX_NESTING, NotUnderstood, TooLarge
from rlvr_rewards._math.normal import balanced, nesting, normalise, unwrap_text
from rlvr_rewards._math.scan import cut, outer_bracket, pieces
from rlvr_rewards._math.units import CURRENCIES, unit_name


@dataclass(frozen=True, slots=True)
class Form:
    """An answer by kind. Which fields count depends on the kind.

    Attributes:
        kind: word, number, list, set, tuple, interval, union, difference, equation, relation, matrix, raw.
        text: The normalised source.
        parts: Members, ends, sides or cells.
        node: The tree of an expression.
        unit: The unit behind it, "" for none.
        base: The number base written as a subscript, 0 for none.
        marks: Brackets of a tuple or interval, signs of a relation, rows of a matrix.
    """

    kind: str
    text: str
    parts: tuple["Form", ...] = ()
    node: tree.Node | None = None
    unit: str = ""
    base: int = 0
    marks: tuple[str, ...] = field(default=())


def members(form: Form) -> tuple[Form, ...]:
    """Return the members of a list, set or union of such; a single value is its own member."""
    if form.kind in ("list", "set"):
        return form.parts
    if form.kind == "union":
        return tuple(inner for part in form.parts for inner in members(part))
    return (form,)


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
SHORT_WORDS = frozenset(("yes", "no", "odd", "even", "true", "false", "none", "zero", "one", "two"))
_RELATIONS = ("\\le", "\\ge", "\\ne", "\\approx", "\\equiv", "=", "<", ">")
_BASED = re.compile(
    r"(?P<sign>-?)(?P<digits>[0-9][0-9A-Fa-f]*|[A-Fa-f][0-9A-Fa-f]+)\s*_\s*(?:\{\s*(?P<b>\d{1,2})\s*\}|(?P<c>\d))"
)
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)")
_SPACED_THOUSANDS = re.compile(r"-?\d{1,3}(?: \d{3})+(?:\.\d+)?")
_PLAIN_MIXED = re.compile(r"(?P<sign>-?)\s*(?P<whole>\d+)\s+(?P<top>\d+)\s*/\s*(?P<bottom>\d+)")
_LETTERS = re.compile(r"[A-Za-z][A-Za-z' -]*")
_ENVIRONMENT = re.compile(
    r"\\begin\s*\{\s*(?P<name>[pbBvV]?(?:small)?matrix|array)\s*\}(?P<body>.*)\\end\s*\{\s*(?P=name)\s*\}"
)
# A value, and behind it a unit as text or as bare letters.
_UNIT_AS_TEXT = re.compile(r"(?P<value>.+?)\s*\\text\s*\{(?P<text>[^{}]*)\}(?P<power>\s*\^\s*\{?\s*\d\s*\}?)?")
_UNIT_BARE = re.compile(
    r"(?P<value>.*?(?:[\d)}!]|\\pi))\s*(?P<bare>(?:\\\$|\\Omega|[A-Za-z$€£])[A-Za-z\\$€£ /^{}0-9]*)"
)


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
    return read_clean(clean)


def read_clean(text: str, bare: bool = True) -> Form:
    """Return the form of normalised text; `bare` says that no bracket surrounds it, so that 1,000 is one number."""
    text = unwrap_text(text.strip())
    for reader in _READERS:
        form = reader(text) if reader is not _list else _list(text, bare)
        if form is not None:
            return form
    return Form("raw", text)


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
    letters = plain.replace(" ", "")
    spelled = not is_text and _reads_as_word(text)
    if is_text or spelled or letters in SHORT_WORDS:
        return Form("word", plain)
    return None


def _reads_as_word(text: str) -> bool:
    """Return whether a run of letters is a word: longer than a usual product, or with capitals as names have."""
    known = text in tree.FUNCTIONS or text in ("pi",)
    return (
        text.isalpha()
        and not known
        and (len(text) >= 4 or (len(text) > 1 and text[0].isupper() and text[1:].isupper()))
    )


def _matrix(text: str) -> Form | None:
    match = _ENVIRONMENT.fullmatch(text)
    if match is None or "\\begin" in match["body"] or match["name"].startswith(("v", "V")):
        return None
    body = re.sub(r"^\s*\{[lcr| ]*\}", "", match["body"]) if match["name"] == "array" else match["body"]
    rows = [row for row in re.split(r"\\\\", body) if row.strip()]
    cells = [[read_clean(cell) for cell in row.split("&")] for row in rows]
    if not rows or len({len(row) for row in cells}) != 1 or len(rows) * len(cells[0]) > MAX_MEMBERS:
        return None
    return Form("matrix", text, tuple(cell for row in cells for cell in row), marks=(str(len(rows)),))


def _list(text: str, bare: bool) -> Form | None:
    if bare and (_THOUSANDS.fullmatch(text) or _SPACED_THOUSANDS.fullmatch(text)):
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
    if joined == "or" and all(form.kind in ("relation", "interval", "union") for form in forms):
        return Form("union", text, forms)
    return Form("list", text, tuple(_flat(forms)))


def _flat(forms: tuple[Form, ...]) -> list[Form]:
    return [inner for form in forms for inner in (form.parts if form.kind == "list" else (form,))]


def _plus_minus(text: str) -> Form | None:
    if "\\pm" not in text and "\\mp" not in text:
        return None
    upper = text.replace("\\pm", "+").replace("\\mp", "-")
    lower = text.replace("\\pm", "-").replace("\\mp", "+")
    return Form("list", text, (read_clean(upper), read_clean(lower)))


def _union(text: str) -> Form | None:
    for kind, sign in (("union", "\\cup"), ("difference", "\\setminus")):
        parts = pieces(text, (sign,)).parts
        if len(parts) > MAX_MEMBERS:
            raise TooLarge("members")
        if len(parts) > 1:
            return Form(kind, text, tuple(read_clean(part) for part in parts))
    return None


def _relation(text: str) -> Form | None:
    found = pieces(text, _RELATIONS)
    if len(found.parts) == 1:
        member = pieces(text, ("\\in",)).parts
        return read_clean(member[1]) if len(member) == 2 and member[0].strip() else None
    if not found.parts[0] and found.words == ("=",):
        return read_clean(found.parts[1])
    parts = tuple(read_clean(part) for part in found.parts if part.strip())
    if len(parts) != len(found.parts) or len(parts) > 8:
        return Form("raw", text)
    if all(sign in ("=", "\\approx") for sign in found.words):
        return Form("equation", text, parts)
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
        return Form("set", text, forms) if forms else Form("word", "no solution")
    if len(members) == 1:
        form = read_clean(inner)
        return form if (opener, closer) == ("(", ")") or form.kind == "matrix" else Form("raw", text)
    if len(members) > MAX_MEMBERS:
        raise TooLarge("members")
    forms = tuple(read_clean(part, bare=False) for part in members)
    mixed = (opener, closer) in (("(", "]"), ("[", ")"))
    endless = len(forms) == 2 and any(re.search(r"\\infty|inf$|infinity|^-?oo$", form.text) for form in forms)
    kind = "interval" if len(forms) == 2 and (mixed or endless) else "tuple"
    return None if mixed and kind == "tuple" else Form(kind, text, forms, marks=(opener, closer))


def _builder(text: str, inner: str) -> Form:
    """Read `{x | x > 2}`: the set is what the condition says of the variable."""
    found = pieces(inner, ("\\mid", "|", ":"))
    if len(found.parts) == 2 and re.match(r"[A-Za-z](?:\s*\\in\s*\\mathbb\{R\})?$", found.parts[0]):
        condition = read_clean(found.parts[1])
        if condition.kind in ("relation", "union"):
            return condition
    return Form("raw", text)


def _number(text: str) -> Form | None:
    based = _BASED.fullmatch(text)
    if based and (value := _based_value(based)) is not None:
        return value
    text = _ungrouped(text)
    mixed = _PLAIN_MIXED.fullmatch(text)
    if mixed and 0 < int(mixed["top"]) < int(mixed["bottom"]):
        text = f"{mixed['sign']}{mixed['whole']}\\frac{{{mixed['top']}}}{{{mixed['bottom']}}}"
    if re.search(r"\d\s+\.?\d", re.sub(r"\\frac\s*\d\s*\d", "", text)):
        return None
    for attempt in (_unit_before, _unit_behind, _plain):
        form: Form | None = attempt(text)
        if form is not None:
            return form
    return None


def _ungrouped(text: str) -> str:
    text = re.sub(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])", lambda match: match[0].replace(",", ""), text)
    return text.replace(" ", "") if _SPACED_THOUSANDS.fullmatch(text) else text


def _based_value(match: re.Match[str]) -> Form | None:
    base = int(match["b"] or match["c"])
    try:
        value = int(match["sign"] + match["digits"], base) if 2 <= base <= 16 else None
    except ValueError:
        return None
    return None if value is None else Form("number", match[0], node=tree.number(value), base=base)


def _unit_before(text: str) -> Form | None:
    sign = "-" if text.startswith("-") else ""
    body = text.removeprefix("-").strip()
    mark = next((mark for mark in CURRENCIES if body.startswith(mark)), None)
    if mark is None:
        return None
    inner = _plain(sign + body[len(mark) :].strip())
    return None if inner is None else Form("number", text, node=inner.node, unit=CURRENCIES[mark])


def _unit_behind(text: str) -> Form | None:
    degree = re.fullmatch(r"(?P<value>.*[\d)}])\s*\\degree\s*(?:\\text\s*\{\s*)?(?P<scale>[CF]?)(?:\s*\})?", text)
    if degree and "\\degree" not in degree["value"] and "\\" not in degree["value"].replace("\\frac", ""):
        inner = _plain(degree["value"])
        unit = f"degree {degree['scale']}".strip()
        return None if inner is None else Form("number", text, node=inner.node, unit=unit)
    as_text, bare = _UNIT_AS_TEXT.fullmatch(text), _UNIT_BARE.fullmatch(text)
    if as_text:
        return _with_unit(text, as_text["value"], as_text["text"] + (as_text["power"] or ""))
    # A single letter right behind a number is a variable: 3m is three times m, unless it is set as text.
    if bare and (len(re.findall("[A-Za-z]", bare["bare"].split("^")[0])) > 1 or not bare["bare"].isalpha()):
        form = _with_unit(text, bare["value"], bare["bare"])
        return None if form is None or form.node is None or tree.variables(form.node) else form
    return None


def _with_unit(text: str, value: str, spelled: str) -> Form | None:
    if spelled.strip() in ("percent", "per cent"):
        return _plain(f"{value}\\%")
    name = unit_name(spelled)
    inner = _plain(value) if name is not None else None
    return None if inner is None else Form("number", text, node=inner.node, unit=name or "")


def _plain(text: str) -> Form | None:
    try:
        return Form("number", text, node=tree.parse(text))
    except NotUnderstood:
        return None


def _ellipsis(text: str) -> Form | None:
    return Form("word", "...") if text in ("\\ldots", "...") else None


_READERS: tuple[Callable[..., Form | None], ...] = (
    _ellipsis,
    _word,
    _matrix,
    _list,
    _union,
    _relation,
    _bracket,
    _number,
)
