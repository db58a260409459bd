"""One spelling for what writes the same mathematics: Unicode symbols, spacing, sizes and fonts of LaTeX."""

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₍₎", "0123456789+-()")
# Read before compatibility forms are folded, since folding would turn x² into x2.
_SYMBOLS = {
    **dict.fromkeys("−–—‐‑‒﹣－⁃", "-"),
    **dict.fromkeys("×✕✖⨯", r"\times "),
    **dict.fromkeys("·⋅∙•", r"\cdot "),
    **dict.fromkeys("÷", r"\div "),
    **dict.fromkeys("∕⁄", "/"),
    **dict.fromkeys("∅⌀", r"\emptyset "),
    **dict.fromkeys("≤⩽", r"\le "),
    **dict.fromkeys("≥⩾", r"\ge "),
    **dict.fromkeys("…⋯", r"\ldots "),
    **dict.fromkeys("°º", r"^\circ "),
    **dict.fromkeys("‘’′", "'"),
    "√": r"\sqrt ",
    "∛": r"\sqrt[3] ",
    "π": r"\pi ",
    "θ": r"\theta ",
    "∞": r"\infty ",
    "≠": r"\ne ",
    "≈": r"\approx ",
    "∪": r"\cup ",
    "∩": r"\cap ",
    "∖": r"\setminus ",
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
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\[dt]binom(?![A-Za-z])"), r"\\binom"),
    (re.compile(r"\\(?:left|right|middle|bigl?|bigr?|Bigl?|Bigr?|biggl?|biggr?|Biggl?|Biggr?)(?![A-Za-z])\s*\.?"), ""),
    (re.compile(r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|hfill|boldmath|rm|bf|it)(?![A-Za-z])"), ""),
    (re.compile(r"\\(?:leq|leqslant)(?![A-Za-z])"), r"\\le "),
    (re.compile(r"\\(?:geq|geqslant)(?![A-Za-z])"), r"\\ge "),
    (re.compile(r"\\(?:boxed|fbox)\s*\{"), "{"),
    (re.compile(r"\\lt(?![A-Za-z])"), "<"),
    (re.compile(r"\\gt(?![A-Za-z])"), ">"),
    (re.compile(r"\\neq(?![A-Za-z])"), r"\\ne "),
    (re.compile(r"\\(?:varnothing|empty)(?![A-Za-z])"), r"\\emptyset "),
    (re.compile(r"\\(?:dots|cdots|dotsc|dotsb)(?![A-Za-z])"), r"\\ldots "),
    (re.compile(r"\\backslash(?![A-Za-z])"), r"\\setminus "),
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
# A comma in braces and the spaces of LaTeX between digits only group them.
_GROUPING = re.compile(r"(?<=\d)(?:\{,\}|\\,|\\!,|,\\!|\\!|\\;|\\:|~|[\u2009\u202f\u00a0])(?=\d{3}(?!\d))")
_SPACES = re.compile(r"\\(?:[,;:!> ]|quad(?![A-Za-z])|qquad(?![A-Za-z])|thinspace(?![A-Za-z]))|~")
_FONTS = re.compile(
    r"\\(?:mathrm|mathbf|mathit|mathsf|mathcal|boldsymbol|bm|operatorname\*?|textbf|textit|textrm|mbox|hbox)\s*\{"
)
_MATH_MARKS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))


def normalise(text: str) -> str:
    """Return the text with symbols, spacing and fonts in one spelling; meaning is never dropped."""
    text = _GROUPING.sub("", text)
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ]+", lambda match: "^{" + match[0].translate(_SUPERSCRIPTS) + "}", text)
    text = re.sub(r"[₀₁₂₃₄₅₆₇₈₉₊₋₍₎]+", lambda match: "_{" + match[0].translate(_SUBSCRIPTS) + "}", text)
    text = re.sub(r"(\d?)([¼½¾⅓⅔⅕⅙⅛⅜])", _vulgar, text)
    text = unicodedata.normalize("NFKC", text.translate(_SYMBOL_TABLE)).translate(_SYMBOL_TABLE)
    for pattern, replacement in _RENAMED:
        text = pattern.sub(replacement, text)
    text = _FONTS.sub(r"\\text{", text)
    text = _SPACES.sub(" ", text)
    return strip_marks(re.sub(r"\s+", " ", text))


def _vulgar(match: re.Match[str]) -> str:
    top, bottom = _VULGAR[match[2]].split("/")
    return f"{match[1]}\\frac{{{top}}}{{{bottom}}}"


def strip_marks(text: str) -> str:
    """Remove what surrounds an answer and is no part of it: spaces, math delimiters, final punctuation, bold marks."""
    before = None
    while text != before:
        before = text
        text = text.strip().strip("*").strip()
        text = text.removesuffix("\\\\").rstrip(".,;:") if not text.endswith(r"\,") else text
        for opening, closing in _MATH_MARKS:
            inner = text[len(opening) : len(text) - len(closing)]
            if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
                escaped = text.endswith("\\" + closing) and closing.startswith("$")
                if opening not in inner and not escaped:
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
