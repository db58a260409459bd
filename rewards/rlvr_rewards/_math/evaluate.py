"""The value of a tree: exactly where it is rational, otherwise to a stated number of digits."""

import math
from collections.abc import Callable, Mapping
from decimal import Decimal, DecimalException, localcontext
from fractions import Fraction

from rlvr_rewards._math import numeric
from rlvr_rewards._math.limits import MAX_BITS, MAX_FACTORIAL, TooLarge, Undefined
from rlvr_rewards._math.terms import Node

Point = Mapping[str, Fraction]


class Irrational(ValueError):
    """A tree whose value is not rational, or not known to be."""


def exact(node: Node) -> Fraction:
    """Return the rational value of a tree without variables.

    Raises:
        Irrational: It has none, or none that this arithmetic finds.
        Undefined: It has no value.
        TooLarge: It is beyond the stated limits.
    """
    if node.op == "number" and node.value is not None:
        return node.value
    if node.op not in _EXACT:
        raise Irrational(node.op)
    value = _EXACT[node.op](*map(exact, node.args))
    if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
        raise TooLarge("integer")
    return value


def approximate(node: Node, point: Point, digits: int) -> Decimal:
    """Return the value of a tree at a point, to about `digits` digits.

    Raises:
        Undefined: It has no real value there.
        TooLarge: It is beyond the stated limits.
    """
    with localcontext(numeric.context(digits)):
        try:
            return _approximate(node, point, digits)
        except (DecimalException, OverflowError) as error:
            if "Overflow" in type(error).__name__ or "Underflow" in type(error).__name__:
                raise TooLarge("number") from None
            raise Undefined(type(error).__name__) from None


def _approximate(node: Node, point: Point, digits: int) -> Decimal:
    if node.op == "number" and node.value is not None:
        return _decimal(node.value)
    if node.op == "variable":
        return _decimal(point[node.name])
    if node.op == "constant":
        return numeric.pi(digits) if node.name == "pi" else Decimal(1).exp()
    if node.op in ("factorial", "binomial", "floor", "ceil", "gcd", "lcm", "double_factorial"):
        return _whole(node, point, digits)
    values = [_approximate(arg, point, digits) for arg in node.args]
    if node.op == "power":
        return _power(values[0], values[1])
    return _APPROXIMATE[node.op](digits, *values)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _whole(node: Node, point: Point, digits: int) -> Decimal:
    """Evaluate what needs whole numbers, by the exact value of its arguments where they have one."""
    values = [_near_whole(_approximate(arg, point, digits), digits) for arg in node.args]
    if node.op == "floor":
        return values[0].to_integral_value("ROUND_FLOOR")
    if node.op == "ceil":
        return values[0].to_integral_value("ROUND_CEILING")
    if any(value != value.to_integral_value() for value in values):
        raise Undefined(node.op)
    if any(abs(value) > 10**12 for value in values):
        raise TooLarge(node.op)
    return _decimal(_EXACT[node.op](*(Fraction(int(value)) for value in values)))


def _near_whole(value: Decimal, digits: int) -> Decimal:
    nearest = value.to_integral_value()
    return nearest if abs(value - nearest) < Decimal(10) ** (-digits // 2) else value


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    if base == 0:
        if exponent <= 0:
            raise Undefined("zero to a power that is not positive")
        return Decimal(0)
    if base < 0 and exponent != exponent.to_integral_value():
        raise Undefined("negative base")
    if abs(exponent) > 10**15:
        raise TooLarge("exponent")
    if abs(exponent) > 4096:
        # Whole powers of this size would be multiplied out; logarithms take the same time for every size.
        magnitude = (abs(base).ln() * exponent).exp()
        return -magnitude if base < 0 and int(exponent) % 2 else magnitude
    return base**exponent


def _root(digits: int, value: Decimal, degree: Decimal) -> Decimal:
    if degree == 2:
        if value < 0:
            raise Undefined("root of a negative number")
        return value.sqrt()
    if degree <= 0 or degree != degree.to_integral_value() or degree > 1000:
        raise Undefined("degree of a root")
    if value == 0:
        return value
    if value < 0 and int(degree) % 2 == 0:
        raise Undefined("root of a negative number")
    size = (abs(value).ln() / degree).exp()
    return size if value > 0 else -size


def _logarithm(value: Decimal) -> Decimal:
    if value <= 0:
        raise Undefined("logarithm of a number that is not positive")
    return value.ln()


def _divide(top: Decimal, bottom: Decimal) -> Decimal:
    if bottom == 0:
        raise Undefined("division by zero")
    return top / bottom


def _inverse_hyperbolic(value: Decimal, sign: int) -> Decimal:
    if sign < 0 and value < 1:
        raise Undefined("arccosh below 1")
    # For a negative value the sum below loses its digits, and arcsinh is odd.
    size = (abs(value) + (value * value + sign).sqrt()).ln()
    return -size if value < 0 else size


_APPROXIMATE: Mapping[str, Callable[..., Decimal]] = {
    "add": lambda digits, a, b: a + b,
    "negative": lambda digits, a: -a,
    "multiply": lambda digits, a, b: a * b,
    "divide": lambda digits, a, b: _divide(a, b),
    "root": _root,
    "abs": lambda digits, a: abs(a),
    "exp": lambda digits, a: a.exp(),
    "ln": lambda digits, a: _logarithm(a),
    "lg": lambda digits, a: _logarithm(a) / Decimal(10).ln(),
    "log": lambda digits, a, base: _divide(_logarithm(a), _logarithm(base)),
    "sin": lambda digits, a: numeric.sine(a, digits),
    "cos": lambda digits, a: numeric.cosine(a, digits),
    "tan": lambda digits, a: _divide(numeric.sine(a, digits), numeric.cosine(a, digits)),
    "cot": lambda digits, a: _divide(numeric.cosine(a, digits), numeric.sine(a, digits)),
    "sec": lambda digits, a: _divide(Decimal(1), numeric.cosine(a, digits)),
    "csc": lambda digits, a: _divide(Decimal(1), numeric.sine(a, digits)),
    "arcsin": lambda digits, a: numeric.arcsine(a, digits),
    "arccos": lambda digits, a: numeric.pi(digits) / 2 - numeric.arcsine(a, digits),
    "arctan": lambda digits, a: numeric.arctangent(a, digits),
    "sinh": lambda digits, a: (a.exp() - (-a).exp()) / 2,
    "cosh": lambda digits, a: (a.exp() + (-a).exp()) / 2,
    "tanh": lambda digits, a: (a.exp() - (-a).exp()) / (a.exp() + (-a).exp()),
    "arccot": lambda digits, a: numeric.pi(digits) / 2 - numeric.arctangent(a, digits),
    "arcsec": lambda digits, a: numeric.pi(digits) / 2 - numeric.arcsine(_divide(Decimal(1), a), digits),
    "arccsc": lambda digits, a: numeric.arcsine(_divide(Decimal(1), a), digits),
    "arcsinh": lambda digits, a: _inverse_hyperbolic(a, 1),
    "arccosh": lambda digits, a: _inverse_hyperbolic(a, -1),
    "arctanh": lambda digits, a: _logarithm(_divide(1 + a, 1 - a)) / 2,
    "max": lambda digits, *values: max(values),
    "min": lambda digits, *values: min(values),
}


def _exact_divide(top: Fraction, bottom: Fraction) -> Fraction:
    if bottom == 0:
        raise Undefined("division by zero")
    return top / bottom


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        return _exact_power(_exact_root(base, Fraction(exponent.denominator)), Fraction(exponent.numerator))
    if base == 0 and exponent <= 0:
        raise Undefined("zero to a power that is not positive")
    if base in (0, 1):
        return base
    if base == -1:
        return Fraction(1 if exponent.numerator % 2 == 0 else -1)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * abs(exponent.numerator) > MAX_BITS:
        raise TooLarge("power")
    return base**exponent.numerator


def _exact_root(value: Fraction, degree: Fraction) -> Fraction:
    if degree.denominator != 1 or not 1 <= degree.numerator <= 64:
        raise Irrational("root")
    if value < 0:
        if degree.numerator % 2 == 0:
            raise Undefined("root of a negative number")
        return -_exact_root(-value, degree)
    return Fraction(_whole_root(value.numerator, degree.numerator), _whole_root(value.denominator, degree.numerator))


def _whole_root(value: int, degree: int) -> int:
    if degree == 2:
        found = math.isqrt(value)
    else:
        low, high = 0, 1 << (value.bit_length() // degree + 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
        found = low
    if found**degree != value:
        raise Irrational("root")
    return found


def _exact_factorial(value: Fraction, step: int = 1) -> Fraction:
    if value.denominator != 1 or value < 0:
        raise Undefined("factorial")
    if value > MAX_FACTORIAL:
        raise TooLarge("factorial")
    return Fraction(math.prod(range(value.numerator, 0, -step)))


def _exact_binomial(n: Fraction, k: Fraction) -> Fraction:
    if n.denominator != 1 or k.denominator != 1 or n < 0 or k < 0:
        raise Undefined("binomial")
    if min(k, n - k) > MAX_FACTORIAL or n.numerator.bit_length() * min(k, abs(n - k)) > MAX_BITS:
        raise TooLarge("binomial")
    return Fraction(math.comb(n.numerator, k.numerator))


def _integer(value: Fraction) -> int:
    if value.denominator != 1:
        raise Undefined("common divisor of a fraction")
    return value.numerator


_EXACT: Mapping[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "negative": lambda a: -a,
    "multiply": lambda a, b: a * b,
    "divide": _exact_divide,
    "power": _exact_power,
    "root": _exact_root,
    "abs": lambda a: abs(a),
    "factorial": _exact_factorial,
    "double_factorial": lambda value: _exact_factorial(value, 2),
    "binomial": _exact_binomial,
    "floor": lambda a: Fraction(math.floor(a)),
    "ceil": lambda a: Fraction(math.ceil(a)),
    "gcd": lambda *values: Fraction(math.gcd(*map(_integer, values))),
    "lcm": lambda *values: Fraction(math.lcm(*map(_integer, values))),
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
}
