"""Values of trees in which the letter i is the imaginary unit."""

from decimal import Decimal, DecimalException, localcontext

from rlvr_rewards._math import numeric
from rlvr_rewards._math.evaluate import Point, approximate
from rlvr_rewards._math.limits import TooLarge, Undefined
from rlvr_rewards._math.terms import Node, variables

Pair = tuple[Decimal, Decimal]
ONE: Pair = (Decimal(1), Decimal(0))


def value(node: Node, point: Point, digits: int) -> Pair:
    """Return the real and imaginary part of a tree at a point.

    Raises:
        Undefined: It has no value there, or needs a function that is not known for complex numbers.
        TooLarge: It is beyond the stated limits.
    """
    with localcontext(numeric.context(digits)):
        try:
            return _value(node, point, digits)
        except DecimalException as error:
            raise (TooLarge if "flow" in type(error).__name__ else Undefined)(type(error).__name__) from None


def _value(node: Node, point: Point, digits: int) -> Pair:
    if node.op == "variable" and node.name == "i":
        return (Decimal(0), Decimal(1))
    if node.op == "root" and node.args[1].value == 2:
        return _square_root(_value(node.args[0], point, digits))
    if "i" not in variables(node):
        return _real(node, point, digits)
    parts = [_value(arg, point, digits) for arg in node.args]
    if node.op == "add":
        return (parts[0][0] + parts[1][0], parts[0][1] + parts[1][1])
    if node.op == "negative":
        return (-parts[0][0], -parts[0][1])
    if node.op == "multiply":
        return _times(parts[0], parts[1])
    if node.op == "divide":
        return _divided(parts[0], parts[1])
    if node.op == "power":
        return _power(node, parts[0], parts[1], digits)
    if node.op == "exp":
        return _exponential(parts[0], digits)
    if node.op == "abs":
        return ((parts[0][0] ** 2 + parts[0][1] ** 2).sqrt(), Decimal(0))
    raise Undefined(f"{node.op} of a complex number")


def _real(node: Node, point: Point, digits: int) -> Pair:
    if node.op in ("add", "negative", "multiply", "divide") and node.args:
        # Only these may hold the root of a negative number further down.
        parts = [_value(arg, point, digits) for arg in node.args]
        if any(part[1] for part in parts):
            together = {"add": lambda a, b: (a[0] + b[0], a[1] + b[1]), "multiply": _times, "divide": _divided}
            return (-parts[0][0], -parts[0][1]) if node.op == "negative" else together[node.op](*parts)
    return (approximate(node, point, digits), Decimal(0))


def _times(a: Pair, b: Pair) -> Pair:
    return (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0])


def _divided(a: Pair, b: Pair) -> Pair:
    size = b[0] ** 2 + b[1] ** 2
    if size == 0:
        raise Undefined("division by zero")
    top = _times(a, (b[0], -b[1]))
    return (top[0] / size, top[1] / size)


def _power(node: Node, base: Pair, exponent: Pair, digits: int) -> Pair:
    if node.args[0].op == "constant" and node.args[0].name == "e":
        return _exponential(exponent, digits)
    if exponent[1] or exponent[0] != exponent[0].to_integral_value():
        raise Undefined("power that is not whole")
    if abs(exponent[0]) > 4096:
        raise TooLarge("exponent")
    times = abs(int(exponent[0]))
    result, square = ONE, base
    while times:
        result = _times(result, square) if times % 2 else result
        square, times = _times(square, square), times // 2
    return result if exponent[0] >= 0 else _divided(ONE, result)


def _exponential(exponent: Pair, digits: int) -> Pair:
    size = exponent[0].exp()
    return (size * numeric.cosine(exponent[1], digits), size * numeric.sine(exponent[1], digits))


def _square_root(radicand: Pair) -> Pair:
    if radicand[1]:
        raise Undefined("root of a complex number")
    root = abs(radicand[0]).sqrt()
    return (root, Decimal(0)) if radicand[0] >= 0 else (Decimal(0), root)
