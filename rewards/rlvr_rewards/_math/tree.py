"""From the text of one expression to a tree of plain nodes. What is not understood is refused, never guessed."""

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from rlvr_rewards._math.limits import MAX_DIGITS, MAX_NESTING, MAX_NODES, NotUnderstood, TooLarge
from rlvr_rewards._math.terms import Node, number

FUNCTIONS = frozenset(
    (
        *("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "asin", "acos", "atan"),
        *("sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "arccot", "arcsec", "arccsc"),
        *("ln", "log", "lg", "exp", "sqrt", "abs"),
        *("gcd", "lcm", "max", "min"),
    )
)
INVERTIBLE = frozenset(("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"))
# Functions of a list of numbers.
SEVERAL = frozenset(("gcd", "lcm", "max", "min"))
GREEK = frozenset(
    (
        *("alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "kappa"),
        *("lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "phi", "varphi", "chi", "psi", "omega", "ell", "hbar"),
        *("Gamma", "Delta", "Theta", "Lambda", "Xi", "Sigma", "Phi", "Psi", "Omega", "aleph"),
    )
)
_TOKEN = re.compile(
    r"\s*(?:(?P<repeating>\d*\.\d*\\overline\s*\{\s*\d+\s*\})"
    r"|(?P<number>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+)"
    r"|(?P<command>\\[A-Za-z]+|\\[{}%$|])"
    r"|(?P<letters>[A-Za-z]+)"
    r"|(?P<double>\*\*)"
    r"|(?P<mark>[-+*/^_(){}\[\]|!,'%]))"
)
_WORDS = sorted((*FUNCTIONS, "pi", "infty", "inf"), key=len, reverse=True)
_OPENERS = {"(": ")", "[": "]", "{": "}", "|": "|", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}


def parse(text: str) -> Node:
    """Return the tree of one expression.

    Raises:
        NotUnderstood: The text holds anything beyond arithmetic, powers, roots and the usual functions.
        TooLarge: It is beyond the stated limits.
    """
    tokens = list(_tokens(text))
    if not tokens:
        raise NotUnderstood("nothing to read")
    return _Parser(tokens).whole()


def _tokens(text: str) -> Iterator[str]:
    position, text = 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotUnderstood(f"{text[position : position + 20]!r}")
        position = match.end()
        letters = match["letters"]
        if letters is None:
            yield match[0].strip()
            continue
        while letters:
            word = next((word for word in _WORDS if letters.startswith(word)), letters[0])
            yield word
            letters = letters[len(word) :]


class _Parser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at, self.depth, self.nodes = tokens, 0, 0, 0

    def whole(self) -> Node:
        node = self.sum()
        if self.at < len(self.tokens):
            raise NotUnderstood(f"{self.tokens[self.at]!r} after the expression")
        return node

    # -- grammar, from the loosest to the tightest binding ----------------------------------------------------------

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise TooLarge("nesting")
        total = self.product()
        while self.peek() in ("+", "-"):
            sign = self.take()
            term = self.product()
            total = self.node("add", total, self.node("negative", term) if sign == "-" else term)
        self.depth -= 1
        return total

    def product(self) -> Node:
        if self.peek() in ("+", "-"):
            sign = self.take()
            inner = self.product()
            return self.node("negative", inner) if sign == "-" else inner
        result = self.power()
        while True:
            token = self.peek()
            if token in ("*", "\\cdot", "\\times"):
                self.take()
                result = self.node("multiply", result, self.signed_power())
            elif token in ("/", "\\div"):
                self.take()
                result = self.node("divide", result, self.signed_power())
            elif token is not None and self.begins_factor(token):
                result = self.node("multiply", result, self.power())
            else:
                return result

    def signed_power(self) -> Node:
        if self.peek() in ("+", "-"):
            return self.node("negative", self.signed_power()) if self.take() == "-" else self.signed_power()
        return self.power()

    def power(self) -> Node:
        base = self.postfix(self.atom())
        if self.peek() in ("^", "**"):
            self.take()
            exponent = self.exponent()
            return self.postfix(self.node("power", base, exponent))
        return base

    def exponent(self) -> Node:
        if self.peek() == "{":
            return self.group("{")
        if self.peek() in ("+", "-"):
            return self.node("negative", self.exponent()) if self.take() == "-" else self.exponent()
        # All figures of a number are raised: 2^10 is meant as two to the tenth, though LaTeX would raise only the 1.
        return self.power_right(self.atom())

    def power_right(self, base: Node) -> Node:
        if self.peek() in ("^", "**"):
            self.take()
            return self.node("power", base, self.exponent())
        return base

    def postfix(self, node: Node) -> Node:
        while True:
            token = self.peek()
            if token == "!":
                self.take()
                double = self.peek() == "!"
                if double:
                    self.take()
                node = self.node("double_factorial" if double else "factorial", node)
            elif token in ("\\%", "%"):
                self.take()
                node = self.node("divide", node, number(100))
            elif token == "\\degree":
                self.take()
                node = self.node("multiply", node, self.node("divide", Node("constant", name="pi"), number(180)))
            else:
                return node

    def atom(self) -> Node:
        token = self.take()
        if token[0].isdigit() or token[0] == ".":
            return self.mixed(self.literal(token))
        if token in _OPENERS:
            return self.bracketed(token)
        if token == "\\frac":
            return self.node("divide", self.argument(), self.argument())
        if token == "\\sqrt" or token == "sqrt":
            return self.root()
        if token == "\\binom":
            return self.node("binomial", self.argument(), self.argument())
        if token.removeprefix("\\") in FUNCTIONS:
            return self.function(token.removeprefix("\\"))
        if token in ("\\pi", "pi"):
            return Node("constant", name="pi")
        if token == "e":
            return Node("constant", name="e")
        if (len(token) == 1 and token.isalpha()) or token.removeprefix("\\") in GREEK:
            return self.variable(token.removeprefix("\\"))
        raise NotUnderstood(repr(token))

    # -- parts --------------------------------------------------------------------------------------------------------

    def literal(self, token: str) -> Node:
        if len(token) > MAX_DIGITS:
            raise TooLarge("digits")
        if "\\overline" in token:
            return number(_repeating(token))
        lowered = token.lower()
        if "e" in lowered and abs(int(lowered.partition("e")[2])) > 1000:
            raise TooLarge("exponent")
        return number(Fraction(lowered), decimal=not token.isdigit())

    def mixed(self, whole: Node) -> Node:
        """Read `2\\frac{1}{2}` as two and a half: a whole number right before a fraction of whole numbers."""
        if self.peek() != "\\frac" or whole.name == "decimal" or (self.at > 1 and self.tokens[self.at - 2] == "^"):
            return whole
        start = self.at
        self.take()
        top, bottom = self.argument(), self.argument()
        plain = all(part.op == "number" and part.name != "decimal" for part in (top, bottom))
        if plain and top.value is not None and bottom.value is not None and 0 < top.value < bottom.value:
            return self.node("add", whole, self.node("divide", top, bottom))
        self.at = start
        return whole

    def bracketed(self, opener: str) -> Node:
        inner = self.group(opener, taken=True)
        if opener in ("|", "\\lfloor", "\\lceil"):
            return self.node({"|": "abs", "\\lfloor": "floor", "\\lceil": "ceil"}[opener], inner)
        return inner

    def group(self, opener: str, taken: bool = False) -> Node:
        if not taken:
            self.take()
        inner = self.sum()
        closer = _OPENERS[opener]
        if self.peek() != closer:
            raise NotUnderstood(f"{opener!r} without {closer!r}")
        self.take()
        return inner

    def argument(self) -> Node:
        """Read the argument of a command: a group, or a single digit or symbol."""
        if self.peek() == "{":
            return self.group("{")
        return self.single()

    def single(self) -> Node:
        token = self.peek()
        if token is not None and token.isdigit() and len(token) > 1:
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]]
        token = self.peek()
        if token is not None and token.isdigit():
            self.take()
            return number(int(token))
        return self.atom()

    def root(self) -> Node:
        degree = number(2)
        if self.peek() == "[":
            self.take()
            degree = self.sum()
            if self.peek() != "]":
                raise NotUnderstood("root without ]")
            self.take()
        if self.peek() == "{":
            inner = self.group("{")
        elif self.peek() == "(":
            inner = self.group("(")
        else:
            inner = self.atom()
        return self.node("root", inner, degree)

    def function(self, name: str) -> Node:
        base = None
        if name in ("log",) and self.peek() == "_":
            self.take()
            base = self.argument()
        exponent = None
        if self.peek() == "^":
            self.take()
            exponent = self.exponent()
        if name in SEVERAL:
            return self.node(name, *self.arguments())
        argument = self.function_argument()
        inverse = exponent is not None and exponent.op == "negative" and exponent.args[0].value == 1
        if inverse and name in INVERTIBLE:
            return self.node(f"arc{name}", argument)
        if base is not None:
            result = self.node("log", argument, base)
        else:
            # A logarithm without a base is the natural one for some and the decimal one for others.
            result = replace(self.node(_CANONICAL.get(name, name), argument), name="log" if name == "log" else "")
        return self.node("power", result, exponent) if exponent is not None else result

    def arguments(self) -> list[Node]:
        """Read what stands in brackets behind a function of several arguments."""
        opener = self.take()
        if opener not in ("(", "\\{"):
            raise NotUnderstood("arguments without brackets")
        found = [self.sum()]
        while self.peek() == ",":
            self.take()
            found.append(self.sum())
        if self.peek() != (")" if opener == "(" else "\\}"):
            raise NotUnderstood("arguments without end")
        self.take()
        return found

    def function_argument(self) -> Node:
        """Read a group, or the factors that stand right behind: `\\sin 2x` is sin(2x), `\\sin x \\cos x` a product."""
        if self.peek() in ("{", "("):
            opener = self.take()
            inner = self.group(opener, taken=True)
            return self.postfix(inner)
        if self.peek() == "-":
            self.take()
            return self.node("negative", self.function_argument())
        argument = self.power()
        while (token := self.peek()) is not None and self.begins_factor(token):
            if token.removeprefix("\\") in FUNCTIONS - {"sqrt"} or token in ("(", "[", "|", "{"):
                break
            argument = self.node("multiply", argument, self.power())
        return argument

    def variable(self, name: str) -> Node:
        while self.peek() in ("_", "'"):
            mark = self.take()
            name += "'" if mark == "'" else "_" + self.subscript()
        return Node("variable", name=name)

    def subscript(self) -> str:
        if self.peek() != "{":
            return self.take()
        self.take()
        parts: list[str] = []
        while self.peek() not in ("}", None):
            parts.append(self.take())
        if self.peek() is None:
            raise NotUnderstood("subscript without }")
        self.take()
        return "".join(parts)

    # -- tokens -------------------------------------------------------------------------------------------------------

    def begins_factor(self, token: str) -> bool:
        if token in _OPENERS and token not in ("|",):
            return True
        name = token.removeprefix("\\")
        if token[0].isdigit() or token[0] == ".":
            # Two numbers side by side are no product.
            return not self.tokens[self.at - 1][-1].isdigit()
        return token.isalpha() or name in GREEK or name in FUNCTIONS or name in ("frac", "sqrt", "pi", "binom")

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self) -> str:
        if self.at >= len(self.tokens):
            raise NotUnderstood("the expression ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def node(self, op: str, *args: Node) -> Node:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise TooLarge("nodes")
        return Node(op, args)


_CANONICAL = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "log": "ln"}


def _repeating(token: str) -> Fraction:
    """Return the value of `0.1\\overline{6}`."""
    head, _, tail = token.partition("\\overline")
    whole, _, fixed = head.partition(".")
    cycle = tail.strip(" {}")
    fixed_part, scale = Fraction(int(fixed or "0")), Fraction(10 ** len(fixed))
    return Fraction(int(whole or "0")) + (fixed_part + Fraction(int(cycle), 10 ** len(cycle) - 1)) / scale
