"""One spelling for what writes the same mathematics: Unicode symbols, spacing, sizes and fonts of LaTeX."""

import re
import unicodedata

from rlvr_rewards._math.limits import MAX_CHARACTERS

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₍₎", "0123456789+-()")
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega"
)
# Read before compatibility forms are folded, since folding would turn x² into x2.
_SYMBOLS = {
    **dict.fromkeys("−–—‐‑‒﹣－⁃", "-"),
    **dict.fromkeys("×✕✖⨯", r"\times "),
    **dict.fromkeys("·⋅∙•", r"\cdot "),
    **dict.fromkeys("÷", r"\div "),
    **dict.fromkeys("∕⁄", "/"),
    **dict.fromkeys("∅⌀", r"\emptyset "),
    **dict.fromkeys("≤⩽≦", r"\le "),
    **dict.fromkeys("≥⩾≧", r"\ge "),
    **dict.fromkeys("…⋯", r"\ldots "),
    **dict.fromkeys("°º", r"^\circ "),
    **dict.fromkeys("‘’′", "'"),
    "√": r"\sqrt ",
    "∛": r"\sqrt[3] ",
    **{char: f"\\{name} " for char, name in zip("αβγδεζηθκλμνξπρστφχψωΓΔΘΛΞΣΦΨΩ", _GREEK.split(), strict=True)},
    "或": r"\text{ or }",
    "和": r"\text{ and }",
    "、": ", ",
    "∠": r"\angle ",
    "△": r"\triangle ",
    "¢": r"\text{ cents}",
    "≡": r"\equiv ",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "∞": r"\infty ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∖": r"\setminus ",
    "∨": r"\lor ",
    "∧": r"\land ",
    "∈": r"\in ",
    "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}",
    "ℕ": r"\mathbb{N}",
    "ℚ": r"\mathbb{Q}",
    "ℂ": r"\mathbb{C}",
    "±": r"\pm ",
    "∓": r"\mp ",
}
_SYMBOL_TABLE = str.maketrans(_SYMBOLS)
_VULGAR = {"¼": "1/4", "½": "1/2", "¾": "3/4", "⅓": "1/3", "⅔": "2/3", "⅕": "1/5", "⅙": "1/6", "⅛": "1/8", "⅜": "3/8"}
_RENAMED = (
    # The height of a row of a matrix.
    (re.compile(r"\\\\\s*\[\s*-?[\d.]+\s*(?:pt|em|ex|cm|mm|in)\s*\]"), r"\\\\"),
    (re.compile(r"\\(?:[dtc]frac|nicefrac|sfrac)(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\surd(?![A-Za-z])"), r"\\sqrt "),
    # Unit vectors.
    (re.compile(r"\\([ij])math(?![A-Za-z])"), r"\1 "),
    (re.compile(r"\\hat\s*(?:\{\s*([ijk])\s*\}|([ijk])(?![A-Za-z]))"), r"\1\2 "),
    (re.compile(r"\\hat\s*\{\s*\\(?:mathbf|boldsymbol|bm|mathrm|textbf)\s*\{\s*([ijk])\s*\}\s*\}"), r"\1 "),
    # A fraction in braces of its own behind a whole number: a mixed number all the same.
    (re.compile(r"(?<=\d)\s*\{\s*(\\frac\s*\{\s*\d+\s*\}\s*\{\s*\d+\s*\})\s*\}"), r"\1"),
    (re.compile(r"\\[dt]binom(?![A-Za-z])"), r"\\binom"),
    (re.compile(r"\\(?:left|right|middle|bigl?|bigr?|Bigl?|Bigr?|biggl?|biggr?|Biggl?|Biggr?)(?![A-Za-z])\s*\.?"), ""),
    (
        re.compile(
            r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|hfill|boldmath|rm|bf|it|tiny|small|large|Large|"
            r"LARGE|huge|Huge|normalsize|strut|nonumber|notag|protect)(?![A-Za-z])"
        ),
        "",
    ),
    # Colour, space and marks that are not seen hold no mathematics.
    (
        re.compile(r"\\(?:color|[hv]space\*?|[hv]?phantom|label|tag\*?|textcolor|colorbox)\s*\{[^{}]*\}"),
        "",
    ),
    (re.compile(r"\\[hv]?phantom\s*[^{\sA-Za-z]"), ""),
    (re.compile(r"\\(?:underline|uline|mathstrut|ensuremath)\s*\{"), "{"),
    (re.compile(r"\\var(epsilon|theta|phi|rho|sigma)(?![A-Za-z])"), r"\\\1 "),
    (re.compile(r"(?<![<>=!])>="), r"\\ge "),
    (re.compile(r"(?<![<>=!])<="), r"\\le "),
    # Without a space before it, the sign is that of a factorial: 5!=120.
    (re.compile(r"(?<=\s)!=(?!=)"), r"\\ne "),
    (re.compile(r"\\(?:leq|leqslant)(?![A-Za-z])"), r"\\le "),
    (re.compile(r"\\(?:geq|geqslant)(?![A-Za-z])"), r"\\ge "),
    (re.compile(r"\\(?:boxed|fbox|framebox)\s*\{"), "{"),
    # Marks behind an answer that say that it is done.
    (re.compile(r"\\(?:checkmark|blacksquare|square|qed|Box)(?![A-Za-z])|[✓✔✅∎■]"), ""),
    (re.compile(r"\^\s*(?:\{\s*\\prime\s*\}|\\prime(?![A-Za-z]))"), "'"),
    (re.compile(r"\\(?:long)?rightarrow(?![A-Za-z])"), r"\\to "),
    (re.compile(r"\\lnot(?![A-Za-z])"), r"\\neg "),
    (re.compile(r"\\implies(?![A-Za-z])"), r"\\Rightarrow "),
    (re.compile(r"\\iff(?![A-Za-z])"), r"\\Leftrightarrow "),
    (re.compile(r"\\lt(?![A-Za-z])"), "<"),
    (re.compile(r"\\gt(?![A-Za-z])"), ">"),
    (re.compile(r"\\neq(?![A-Za-z])"), r"\\ne "),
    (re.compile(r"\\(?:varnothing|empty)(?![A-Za-z])"), r"\\emptyset "),
    (re.compile(r"\\(?:dots|cdots|dotsc|dotsb)(?![A-Za-z])"), r"\\ldots "),
    (re.compile(r"\\backslash(?![A-Za-z])"), r"\\setminus "),
    (re.compile(r"\\(?:lor|vee)(?![A-Za-z])"), r"\\text{ or }"),
    (re.compile(r"\\(?:land|wedge)(?![A-Za-z])"), r"\\text{ and }"),
    (
        re.compile(r"(?:\{\s*\})?\s*[_^]\s*(?:\{\s*(\w+)\s*\}|(\w))\s*C\s*_\s*(?:\{\s*(\w+)\s*\}|(\w))"),
        r"\\binom{\1\2}{\3\4}",
    ),
    (re.compile(r"\\mathbb\s*\{?R\}?\s*(?:\^\s*(?:\{\s*\+\s*\}|\+)|_\s*\{\s*>\s*0\s*\})"), r"(0, \\infty)"),
    (re.compile(r"\\mathbb\s*\{?R\}?\s*(?:\^\s*(?:\{\s*-\s*\}|-)|_\s*\{\s*<\s*0\s*\})"), r"(-\\infty, 0)"),
    (re.compile(r"\\(?:lbrace)(?![A-Za-z])"), r"\\{"),
    (re.compile(r"\\(?:rbrace)(?![A-Za-z])"), r"\\}"),
    (re.compile(r"\\(?:lvert|rvert|vert)(?![A-Za-z])"), "|"),
    (re.compile(r"\\(?:lbrack)(?![A-Za-z])"), "["),
    (re.compile(r"\\(?:rbrack)(?![A-Za-z])"), "]"),
    (re.compile(r"\\(?:lparen)(?![A-Za-z])"), "("),
    (re.compile(r"\\(?:rparen)(?![A-Za-z])"), ")"),
    (
        re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z])|\\degree(?![A-Za-z]))|\\degree(?![A-Za-z])"),
        r"\\degree ",
    ),
    (re.compile(r"\\(?:mathbb|Bbb)\s*\{?\s*([RZNQC])\s*\}?"), r"\\mathbb{\1}"),
)
_OVER = re.compile(r"\\over(?![A-Za-z])")
MAX_FRACTIONS = 8
_QUANTITY = re.compile(r"\\(?:SI|qty)\s*\{([^{}]*)\}\s*\{([^{}]*)\}|\\(num|ang)\s*\{([^{}]*)\}")
# A comma in braces, the spaces of LaTeX and the Swiss apostrophe only group digits by three.
_GROUPING = re.compile(
    r"(?<=\d)(?:\s*\{\s*,\s*\}\s*|\\,\s?|\\!,|,\s?\\!\s?|\\!|\\;|\\:|~|['\u2019\u2009\u202f\u00a0])(?=\d{3}(?!\d))"
)
# A comma in braces that groups nothing by three is a decimal comma.
_LEADING_ZERO_COMMA = re.compile(r"(?<![\d.,])0\s*\{\s*,\s*\}\s*(?=\d)")
_DECIMAL_COMMA = re.compile(r"(?<=\d)\s*\{\s*,\s*\}\s*(?=\d)")
# Thousands grouped by points are plain from two groups on, or with a decimal comma behind.
_POINTED = re.compile(r"-?\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|-?\d{1,3}(?:\.\d{3})+,\d{1,2}")
_SPACES = re.compile(r"(?<!\\)\\(?:[,;:!> ]|quad(?![A-Za-z])|qquad(?![A-Za-z])|thinspace(?![A-Za-z]))|~")
_NAMES = {
    **{name: name for name in ("sin cos tan cot csc sinh cosh tanh ln log lg exp gcd lcm").split()},
    **{name: name for name in ("arcsin arccos arctan arccot arcsec arccsc arcsinh arccosh arctanh").split()},
    **{"tg": "tan", "ctg": "cot", "cotg": "cot", "cosec": "csc", "arctg": "arctan", "arsinh": "arcsinh"},
    **{"sh": "sinh", "ch": "cosh", "arcosh": "arccosh", "artanh": "arctanh"},
}
# Names that are units too when they are only set upright.
_OPERATORS = {**_NAMES, "max": "max", "min": "min", "sec": "sec", "th": "tanh"}
_NAMED = re.compile(r"\\(operatorname\*?|mathop|mathrm|textrm)\s*\{\s*([A-Za-z]+)\s*\}|\\([A-Za-z]+)")
_VECTOR = re.compile(r"\\langle(?![A-Za-z])((?:[^\\]|\\(?!langle|rangle))*+)\\rangle(?![A-Za-z])")
# A letter in a font of variables is that variable; upright ones may be units.
_SYMBOL_FONTS = re.compile(
    r"\\(?:(?:mathrm|text)\s*\{\s*([ei])|(?:mathit|mathbf|mathsf|mathcal|boldsymbol|bm)\s*\{\s*([A-Za-z]))\s*\}"
)
_FONTS = re.compile(
    r"\\(?:mathrm|mathbf|mathit|mathsf|mathtt|mathnormal|mathcal|boldsymbol|bm|pmb|operatorname\*?|textbf|textit|textrm|"
    r"textnormal|textsf|texttt|textsc|textup|emph|mbox|hbox)\s*\{"
)
# Surroundings that only lay formulas out; their rows are read one after the other.
_LAYOUT = re.compile(
    r"\\begin\s*\{\s*(?P<name>align|aligned|alignat|gather|gathered|split|equation|multline|cases|rcases)\*?\s*\}"
    r"(?P<body>.*?)\\end\s*\{\s*(?P=name)\*?\s*\}",
    re.DOTALL,
)
# Rows behind one open brace are cases.
_BRACED_ROWS = re.compile(
    r"\\left\s*\\(?:\{|lbrace)\s*\\begin\s*\{array\}\s*\{[lcr| ]*\}(.*?)\\end\s*\{array\}\s*\\right\s*\.", re.DOTALL
)
# A sign set as text is that sign; punctuation set as text is none of the answer.
_TEXT_MARKS = re.compile(r"\\text\s*\{\s*(?:(\\?%)|[.,;:!]?)\s*\}")
# Bold marks, and characters of no width that copying leaves; inside an answer they stay and make it another one.
_AT_ENDS = "*`\u200b\u200c\u200d\u2060\ufeff"
_MATH_MARKS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ('"', '"'), ("'", "'"), ("``", "''"))


def normalise(text: str) -> str:
    """Return the text with symbols, spacing and fonts in one spelling; meaning is never dropped."""
    text = _ungrouped(text)
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ]+", lambda match: "^{" + match[0].translate(_SUPERSCRIPTS) + "}", text)
    text = re.sub(r"[₀₁₂₃₄₅₆₇₈₉₊₋₍₎]+", lambda match: "_{" + match[0].translate(_SUBSCRIPTS) + "}", text)
    text = re.sub(r"(\d?)([¼½¾⅓⅔⅕⅙⅛⅜])", _vulgar, text)
    text = unicodedata.normalize("NFKC", text.translate(_SYMBOL_TABLE)).translate(_SYMBOL_TABLE)
    text = _QUANTITY.sub(_quantity, text)
    if len(text) <= MAX_CHARACTERS:
        text = _BRACED_ROWS.sub(r"\\begin{cases}\1\\end{cases}", text)
    if "\\over" in text and len(text) <= MAX_CHARACTERS:
        text = _fractions(text)
    for pattern, replacement in _RENAMED:
        text = pattern.sub(replacement, text)
    if len(text) <= MAX_CHARACTERS:
        text = _LAYOUT.sub(_rows, text)
    text = _VECTOR.sub(lambda match: f"({match[1]})" if "," in match[1] else match[0], text)
    text = _NAMED.sub(_function_name, text)
    text = _FONTS.sub(r"\\text{", _SYMBOL_FONTS.sub(r"\1\2 ", text))
    text = _SPACES.sub(" ", _TEXT_MARKS.sub(r"\1", text))
    return strip_marks(re.sub(r"\s+", " ", text))


def _ungrouped(text: str) -> str:
    text = _LEADING_ZERO_COMMA.sub("0.", text)
    text = _DECIMAL_COMMA.sub(".", _GROUPING.sub("", text))
    if _POINTED.fullmatch(text.strip()):
        text = text.replace(".", "").replace(",", ".")
    return text


def _function_name(match: re.Match[str]) -> str:
    """Return a function under the one name that the reader knows; anything else stays."""
    names = _OPERATORS if (match[1] or "").startswith(("operatorname", "mathop")) else _NAMES
    name = names.get(match[2] or match[3])
    return match[0] if name is None else f"\\{name} "


def _rows(match: re.Match[str]) -> str:
    """Return the rows of a layout as a list, or as one chain where a row goes on with a sign of relation."""
    if match["name"] in ("cases", "rcases") and "&" in match["body"]:
        return match[0]
    if "\\begin" in match["body"]:
        return match["body"]
    rows = [row.replace("&", " ").strip(" ,;") for row in re.split(r"\\\\(?:\s*\[[^\]]*\])?", match["body"])]
    text = ""
    for row in filter(None, rows):
        joint = " " if not text or row.startswith(("=", "<", ">", "\\approx", "\\le", "\\ge")) else ", "
        text += joint + row
    return text


def _quantity(match: re.Match[str]) -> str:
    """Return a number of the siunitx package, with its unit set as text."""
    if match[3]:
        return match[4] + (r"\degree " if match[3] == "ang" else "")
    unit = match[2].replace(r"\squared", "^2").replace(r"\cubed", "^3").replace(r"\per", "/").replace("\\", "")
    return f"{match[1]}\\text{{ {unit}}}"


def _fractions(text: str) -> str:
    """Return `{a \\over b}` as a fraction of all that its group holds before and behind."""
    for _ in range(MAX_FRACTIONS):
        match = _OVER.search(text)
        if match is None:
            break
        start = _group_end(text[: match.start()][::-1], "}", "{")
        end = _group_end(text[match.end() :], "{", "}")
        top, bottom = text[match.start() - start : match.start()], text[match.end() : match.end() + end]
        text = f"{text[: match.start() - start]}\\frac{{{top}}}{{{bottom}}}{text[match.end() + end :]}"
    return text


def _group_end(text: str, opener: str, closer: str) -> int:
    """Return how many characters lie before the end of the group, or of the formula, that the text begins in."""
    level = 0
    for place, char in enumerate(text):
        level += (char == opener) - (char == closer)
        if level < 0 or (level == 0 and char in "$=,;"):
            return place
    return len(text)


def _vulgar(match: re.Match[str]) -> str:
    top, bottom = _VULGAR[match[2]].split("/")
    return f"{match[1]}\\frac{{{top}}}{{{bottom}}}"


def strip_marks(text: str) -> str:
    """Remove what surrounds an answer and is no part of it: spaces, math delimiters, final punctuation, bold marks."""
    before = None
    while text != before:
        before = text
        text = text.strip().strip(_AT_ENDS).strip()
        if not text.endswith((r"\,", "..")):
            text = text.removesuffix("\\\\").rstrip(".,;:。")
        for opening, closing in _MATH_MARKS:
            inner = text[len(opening) : len(text) - len(closing)]
            if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
                escaped = text.endswith("\\" + closing) and closing.startswith("$")
                if opening not in inner.replace("\\$", "") and not escaped:
                    text = inner
                    break
    return text


def unwrap_text(text: str) -> str:
    """Return the content of `\\text{..}` or of a plain brace group when that is all there is, otherwise the text."""
    while text.startswith(("\\text", "{")):
        inner = braced(text, 0 if text[0] == "{" else len("\\text"))
        if inner is None or inner[1] != len(text):
            break
        text = inner[0].strip()
    return text


def braced(text: str, start: int) -> tuple[str, int] | None:
    """Return the content of the brace group at `start` (after spaces) and the position behind it, or None."""
    while start < len(text) and text[start] == " ":
        start += 1
    if start >= len(text) or text[start] != "{":
        return None
    level, position = 0, start
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 2
            continue
        level += (char == "{") - (char == "}")
        position += 1
        if level == 0:
            return text[start + 1 : position - 1], position
    return None


def nesting(text: str) -> int:
    """Return the deepest bracket nesting of the text, brackets of all kinds alike."""
    deepest = level = 0
    for char in text:
        if char in "([{":
            level += 1
            deepest = max(deepest, level)
        elif char in ")]}":
            level = max(0, level - 1)
    return deepest


def balanced(text: str) -> bool:
    """Return whether every brace group of the text closes."""
    level = 0
    for char in re.sub(r"\\.", "", text):
        level += (char == "{") - (char == "}")
        if level < 0:
            return False
    return level == 0
