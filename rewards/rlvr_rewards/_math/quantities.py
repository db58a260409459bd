"""Reading numbers: bases, grouping, mixed numbers, percent, units and currencies."""

import re
from fractions import Fraction

from rlvr_rewards._math import terms, tree
from rlvr_rewards._math.form import Form
from rlvr_rewards._math.limits import MAX_DIGITS, NotUnderstood
from rlvr_rewards._math.units import CURRENCIES, flat_unit, unit_name

_BASE_WORDS = {
    **{"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10},
    **{"eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16},
}
_BASED = re.compile(
    r"(?P<sign>-?)(?:\\text\s*\{\s*(?P<set>[0-9A-Fa-f]+)\s*\}"
    r"|(?P<open>\()?(?P<digits>[0-9][0-9A-Fa-f]*|[A-Fa-f][0-9A-Fa-f]+)(?(open)\)))"
    r"\s*_\s*(?:\{\s*(?P<b>\d{1,2})\s*\}|(?P<c>\d)|\{?\s*\\text\s*\{\s*(?P<word>[a-z]+)\s*\}\s*\}?)"
)
THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)")
SPACED_THOUSANDS = re.compile(r"-?\d{1,3}(?: \d{3})+(?:\.\d+)?")
# A whole number, a space and a fraction; what follows may be a percent sign or a unit.
_PLAIN_MIXED = re.compile(
    r"(?P<sign>[+-]?)\s*(?P<mark>\\?\$)?\s*(?P<whole>\d+)\s+(?P<top>\d+)\s*/\s*(?P<bottom>\d+)(?P<rest>\s*(?:[A-Za-z\\%].*)?)"
)
# 0.333..., 0.(3) and 0.1\dot{6}: the digits that go on for ever are those that stand twice, in brackets or under dots.
_DOTTED = re.compile(r"(?P<sign>-?)(?P<whole>\d*)\.(?P<digits>\d{2,})\s*(?:\\ldots|\.{2,})")
_UNDER_DOTS = re.compile(
    r"(?P<sign>-?)(?P<whole>\d*)\.(?P<fixed>\d*)(?:\\dot\s*\{?(?P<one>\d)\}?(?:(?P<more>\d*)\\dot\s*\{?(?P<last>\d)\}?)?"
    r"|\((?P<cycle>\d+)\))"
)
# A value, and behind it a unit as text or as bare letters.
_UNIT_AS_TEXT = re.compile(r"(?P<value>.+?)\s*(?P<tail>(?:\\frac\s*\{\s*|\\cdot\s*)?\\text\s*\{.*)")
_UNIT_BARE = re.compile(
    r"(?P<value>.*?(?:[\d)}!]|\\pi))\s*(?P<bare>(?:\\\$|\\Omega|[A-Za-z$€£])[A-Za-z\\$€£ /^{}0-9]*)"
)
# One part of a quantity in several units, and the units that go together in one.
_TERM = re.compile(r"(?P<value>\d+(?:\.\d+)?)\s*(?P<unit>[A-Za-z]+\.?)\s*(?:,?\s*\band\b\s*|,\s*)?")
_TWO_UNITS = re.compile(r"[A-Za-z].*\d.*[A-Za-z]")
_COMPOUND_SCALES = (
    frozenset(("year", "month", "week", "day", "h", "min", "s")),
    *(frozenset(("mi", "yd", "ft", "in")), frozenset(("km", "m", "cm", "mm"))),
    *(frozenset(("lb", "oz")), frozenset(("kg", "g", "mg")), frozenset(("$", "cent"))),
)
# A price for each of something, behind its currency sign: "18 per day", "2.50/hour".
_RATE = re.compile(
    r"(?P<value>-?[\d.,]*\d)\s*(?P<tail>(?:\\text\s*\{\s*)?(?:/\s*(?:\\text\s*\{\s*)?|per\s+)[A-Za-z].*)"
)
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALE = re.compile(rf"\s*(?P<scale>{'|'.join(_SCALES)})\b\s*(?P<rest>.*)")


def read_number(text: str) -> Form | None:
    """Return the form of a number with what belongs to it, or of an expression; None for anything else."""
    based = _BASED.fullmatch(text)
    if based and (value := _based_value(based)) is not None:
        return value
    repeating = _repeating(text)
    if repeating is not None:
        return repeating
    text = _ungrouped(re.sub(r"\\bar\s*\{(\s*\d+\s*)\}", r"\\overline{\1}", text))
    mixed = _PLAIN_MIXED.fullmatch(text)
    if mixed and 0 < int(mixed["top"]) < int(mixed["bottom"]):
        value_text = f"{mixed['whole']}\\frac{{{mixed['top']}}}{{{mixed['bottom']}}}"
        text = f"{mixed['sign']}{mixed['mark'] or ''}{value_text}{mixed['rest']}"
    if re.search(r"\d\s+\.?\d", re.sub(r"\\frac\s*\d\s*\d|_\s*\d(?=\s)", "", text)):
        return None
    for attempt in (_unit_before, _unit_behind, _plain):
        form: Form | None = attempt(text)
        if form is not None:
            return form
    return None


def read_compound(text: str) -> Form | None:
    """Read a quantity in several units, such as "3 hours and 20 minutes", as its parts in the order given."""
    if not text[:1].isdigit() or len(text) > MAX_DIGITS or _TWO_UNITS.search(text) is None:
        return None
    plain = re.sub(r"\s+", " ", re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text)).strip()
    found = list(_TERM.finditer(plain))
    units = [unit_name(match["unit"].strip()) for match in found]
    covered = "".join(match[0] for match in found) == plain
    if not covered or not any(len(found) >= 2 and set(units) <= scale for scale in _COMPOUND_SCALES):
        return None
    if len(set(units)) < len(units):
        return None
    parts = [
        Form("number", m["value"], node=terms.number(Fraction(m["value"])), unit=u or "")
        for m, u in zip(found, units, strict=True)
    ]
    return Form("compound", plain, tuple(parts))


def _repeating(text: str) -> Form | None:
    """Read a decimal whose last digits repeat for ever, in the notations that have no bar."""
    if len(text) > MAX_DIGITS:
        return None
    dots = _UNDER_DOTS.fullmatch(text)
    if dots is not None:
        if dots["cycle"] is not None and dots["fixed"]:
            # 0.1(6) could be a product.
            return None
        cycle = dots["cycle"] or dots["one"] + (dots["more"] or "") + (dots["last"] or "")
        return _decimal(text, dots["sign"], dots["whole"], dots["fixed"], cycle)
    plain = _DOTTED.fullmatch(text)
    if plain is None:
        return None
    digits = plain["digits"]
    for length in range(1, len(digits) // 2 + 1):
        if digits[-length:] == digits[-2 * length : -length]:
            return _decimal(text, plain["sign"], plain["whole"], digits[:-length], digits[-length:])
    return None


def _decimal(text: str, sign: str, whole: str, fixed: str, cycle: str) -> Form:
    tail = Fraction(int(cycle), (10 ** len(cycle) - 1) * 10 ** len(fixed))
    value = int(whole or "0") + Fraction(int(fixed or "0"), 10 ** len(fixed)) + tail
    return Form("number", text, node=terms.number(-value if sign else value))


def _ungrouped(text: str) -> str:
    text = re.sub(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])", lambda match: match[0].replace(",", ""), text)
    return text.replace(" ", "") if SPACED_THOUSANDS.fullmatch(text) else text


def _based_value(match: re.Match[str]) -> Form | None:
    base = _BASE_WORDS.get(match["word"], 0) if match["word"] else int(match["b"] or match["c"])
    digits = match["set"] or match["digits"]
    try:
        value = int(match["sign"] + digits, base) if 2 <= base <= 16 else None
    except ValueError:
        return None
    if value is None:
        return None
    return Form("number", f"{match['sign']}{digits}_{{{base}}}", node=terms.number(value), base=base)


def _unit_before(text: str) -> Form | None:
    sign = "-" if text.startswith("-") else ""
    body = re.sub(r"^\\text\s*\{([^{}]*)\}", r"\1", text.removeprefix("-").strip()).strip()
    mark = next((mark for mark in CURRENCIES if body.startswith(mark)), None)
    if mark is None:
        return None
    value = sign + body[len(mark) :].strip()
    if rate := _RATE.fullmatch(value):
        return _with_unit(text, rate["value"], f"{CURRENCIES[mark]} {flat_unit(rate['tail'])}")
    inner = _scaled(value) or _plain(value)
    return None if inner is None or inner.unit else Form("number", text, node=inner.node, unit=CURRENCIES[mark])


def _scaled(text: str) -> Form | None:
    """Read a value with a word such as "million" behind it."""
    match = re.fullmatch(r"(?P<value>.*?\d)\s*(?:\\text\s*\{)?\s*(?P<word>[a-z]+)\s*\}?", text)
    return _with_unit(text, match["value"], match["word"]) if match and match["word"] in _SCALES else None


def _unit_behind(text: str) -> Form | None:
    degree = re.fullmatch(r"(?P<value>.*[\d)}])\s*\\degree\s*(?:\\text\s*\{\s*)?(?P<scale>[CF]?)(?:\s*\})?", text)
    if degree and "\\degree" not in degree["value"] and "\\" not in degree["value"].replace("\\frac", ""):
        inner = _plain(degree["value"])
        unit = f"degree {degree['scale']}".strip()
        return None if inner is None else Form("number", text, node=inner.node, unit=unit)
    as_text, bare = _UNIT_AS_TEXT.fullmatch(text), _UNIT_BARE.fullmatch(text)
    if as_text:
        return _with_unit(text, as_text["value"], flat_unit(as_text["tail"]), products=True)
    # A single letter right behind a number is a variable: 3m is three times m, unless it is set as text.
    if bare and (len(re.findall("[A-Za-z]", bare["bare"].split("^")[0])) > 1 or not bare["bare"].isalpha()):
        form = _with_unit(text, bare["value"], bare["bare"])
        return None if form is None or form.node is None or terms.variables(form.node) else form
    return None


def in_unit(form: Form, unit: str) -> Form:
    """Return `10 J` as ten joules where that unit is expected; without it the letter is a variable."""
    bare = _UNIT_BARE.fullmatch(form.text)
    if form.unit or bare is None:
        return form
    found = _with_unit(form.text, bare["value"], flat_unit(bare["bare"]), products=True)
    return found if found is not None and found.unit == unit else form


def _with_unit(text: str, value: str, spelled: str, products: bool = False) -> Form | None:
    scale = _SCALE.fullmatch(spelled)
    inner, factor = _plain(value), None
    if scale is not None:
        factor, spelled = terms.number(10 ** _SCALES[scale["scale"]]), scale["rest"].strip()
    if spelled.strip() in ("percent", "per cent", "pct", "percentage"):
        inner, spelled = _plain(f"{value}\\%"), ""
    name = unit_name(spelled, products) if spelled.strip() else ""
    if name is None or inner is None or inner.node is None:
        return None
    node = inner.node if factor is None else terms.Node("multiply", (inner.node, factor))
    return Form("number", text, node=node, unit=name)


def _plain(text: str) -> Form | None:
    try:
        return Form("number", text, node=tree.parse(text))
    except NotUnderstood:
        return None
