"""Are two trees the same function, or the same number?"""

import random
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

from rlvr_rewards._math import imaginary
from rlvr_rewards._math.evaluate import Irrational, Point, approximate, exact
from rlvr_rewards._math.limits import NotUnderstood, TooLarge, Undefined
from rlvr_rewards._math.numeric import context
from rlvr_rewards._math.terms import Node, decimal_logarithms, has_decimal, variables

# Two precisions: values that agree to the first are looked at again at the second, where a true zero shrinks further.
DIGITS = 50
MORE_DIGITS = 110
# Complex values below this may be what rounding leaves of zero.
TINY = Decimal(10) ** -30
# Points at which two functions are compared, and how many of them both must be defined at.
POINTS = 30
ENOUGH_POINTS = 4
MANY_POINTS = 15


def same(gold: Node, answer: Node, rel_tol: Fraction) -> bool:
    """Return whether two trees have the same value wherever both are defined.

    A whole gold needs exactly its value. Otherwise numbers may differ by `rel_tol`, relative to the gold, when either
    side is written with a decimal point; two closed forms must agree to 50 digits.

    Raises:
        NotUnderstood: They are defined together at too few points to tell.
        TooLarge: The gold is beyond the stated limits.
    """
    if _same(gold, answer, rel_tol):
        return True
    tens = decimal_logarithms(gold), decimal_logarithms(answer)
    return tens != (gold, answer) and _same(*tens, rel_tol)


def _same(gold: Node, answer: Node, rel_tol: Fraction) -> bool:
    with localcontext(context(MORE_DIGITS)):
        names = sorted(variables(gold) | variables(answer))
        if "i" in names:
            return _same_complex(gold, answer, rel_tol, [name for name in names if name != "i"])
        if names:
            return _same_function(gold, answer, rel_tol, names)
        try:
            return _same_number(gold, answer, rel_tol)
        except Undefined:
            # The root of a negative number has no real value, but a complex one.
            return _same_complex(gold, answer, rel_tol, [])


def _same_function(gold: Node, answer: Node, rel_tol: Fraction, names: list[str]) -> bool:
    tolerance = rel_tol if has_decimal(gold) or has_decimal(answer) else None
    agreed = defined = 0
    for point in _points(names):
        try:
            wanted = approximate(gold, point, DIGITS)
        except (Undefined, TooLarge):
            continue
        defined += 1
        try:
            given = approximate(answer, point, DIGITS)
        except (Undefined, TooLarge):
            continue
        if not _close(gold, answer, point, tolerance, wanted, given):
            return False
        agreed += 1
        if agreed >= MANY_POINTS:
            break
    if defined < ENOUGH_POINTS:
        raise NotUnderstood("the gold is defined at too few points")
    # An answer that is nowhere defined, or everywhere too large, where the gold has a value is another function.
    return agreed >= ENOUGH_POINTS


def check_value(node: Node) -> None:
    """Make sure that a tree has a value, at least at one point.

    Raises:
        TooLarge: It is beyond the stated limits.
        Undefined: It has none.
    """
    names = sorted(variables(node) - {"i"})
    failure: Exception = Undefined("no value")
    for point in _points(names) if names else [{}]:
        try:
            imaginary.value(node, point, DIGITS)
            return
        except (Undefined, TooLarge) as error:
            failure = error
    raise failure


def constant(node: Node) -> Decimal | None:
    """Return the value of a tree without variables to 50 digits, or None."""
    try:
        return None if variables(node) else approximate(node, {}, DIGITS)
    except (Undefined, TooLarge):
        return None


def rational(node: Node) -> Fraction | None:
    """Return the rational value of a tree, or None when it has none that is known."""
    try:
        return exact(node)
    except (Irrational, Undefined, TooLarge):
        return None


def factor(gold: Node, answer: Node) -> Decimal | None:
    """Return the nonzero constant that one tree with variables is of the other, or None when there is none.

    Raises:
        NotUnderstood: They are defined together at too few points to tell.
    """
    with localcontext(context(MORE_DIGITS)):
        return _factor(gold, answer)


def _factor(gold: Node, answer: Node) -> Decimal | None:
    names = sorted(variables(gold) | variables(answer))
    if not variables(gold) or variables(gold) != variables(answer):
        return None
    ratio: Decimal | None = None
    agreed = 0
    for point in _points(names):
        try:
            left, right = (approximate(node, point, DIGITS) for node in (gold, answer))
        except (Undefined, TooLarge):
            continue
        if abs(left) < Decimal(10) ** -30 or abs(right) < Decimal(10) ** -30:
            if abs(left) > Decimal(10) ** -20 or abs(right) > Decimal(10) ** -20:
                return None
            continue
        here = left / right
        if ratio is not None and abs(here - ratio) > abs(ratio) * Decimal(10) ** -30:
            return None
        ratio, agreed = here, agreed + 1
        if agreed >= MANY_POINTS:
            break
    if agreed < ENOUGH_POINTS:
        raise NotUnderstood("hardly a point where both sides are defined")
    return ratio


def difference(gold: Node, answer: Node) -> Decimal | None:
    """Return the constant by which two trees with variables differ, or None when it is none.

    Raises:
        NotUnderstood: They are defined together at too few points to tell.
    """
    names = sorted(variables(gold) | variables(answer))
    found: list[Decimal] = []
    with localcontext(context(MORE_DIGITS)):
        for point in _points(names):
            try:
                left, right = (approximate(node, point, DIGITS) for node in (gold, answer))
            except (Undefined, TooLarge):
                continue
            found.append(left - right)
            size = max(abs(left), abs(right), Decimal(1))
            if abs(found[-1] - found[0]) > size * Decimal(10) ** -35:
                return None
    if len(found) < ENOUGH_POINTS:
        raise NotUnderstood("hardly a point where both sides are defined")
    return found[0]


def _same_number(gold: Node, answer: Node, rel_tol: Fraction) -> bool:
    try:
        wanted: Fraction | None = exact(gold)
    except Irrational:
        wanted = None
    try:
        given: Fraction | None = exact(answer)
    except (Irrational, TooLarge):
        given = None
    tolerance = rel_tol if has_decimal(gold) or has_decimal(answer) else None
    if wanted is not None and wanted.denominator == 1:
        tolerance = None
    if wanted is not None and given is not None:
        return abs(wanted - given) <= abs(wanted) * (tolerance or 0)
    return _same_at(gold, answer, {}, tolerance)


def _same_complex(gold: Node, answer: Node, rel_tol: Fraction, names: list[str]) -> bool:
    """Compare with i as the imaginary unit, at a few points of the other variables."""
    tolerance = rel_tol if has_decimal(gold) or has_decimal(answer) else Fraction(1, 10**40)
    agreed = 0
    for point in _points(names) if names else [{}]:
        try:
            wanted, given = (imaginary.value(node, point, DIGITS) for node in (gold, answer))
            size = _size(gold, point, wanted)
        except (Undefined, TooLarge):
            continue
        distance = max(abs(wanted[0] - given[0]), abs(wanted[1] - given[1]))
        if distance > size * Decimal(tolerance.numerator) / Decimal(tolerance.denominator):
            return False
        agreed += 1
    if not agreed:
        raise NotUnderstood("no point where both sides have a complex value")
    return True


def _size(node: Node, point: Point, value: imaginary.Pair) -> Decimal:
    """Return how large a complex value is, a tiny one only if it does not shrink further with more digits."""
    size = max(map(abs, value))
    if size > TINY or size == 0:
        return max(size, TINY)
    again = max(map(abs, imaginary.value(node, point, MORE_DIGITS)))
    return TINY if again < size * TINY else size


def _same_at(gold: Node, answer: Node, point: Point, tolerance: Fraction | None) -> bool:
    wanted, given = approximate(gold, point, DIGITS), approximate(answer, point, DIGITS)
    return _close(gold, answer, point, tolerance, wanted, given)


def _close(gold: Node, answer: Node, point: Point, tolerance: Fraction | None, wanted: Decimal, given: Decimal) -> bool:
    """Return whether two values are the same, looking at more digits when the first ones agree."""
    difference = abs(wanted - given)
    if tolerance is not None:
        allowed = abs(wanted) * Decimal(tolerance.numerator) / Decimal(tolerance.denominator)
        if difference <= allowed * (1 + Decimal(10) ** -20):
            return True
    if difference > max(abs(wanted), abs(given), Decimal(1)) * Decimal(10) ** -40:
        return False
    closer = abs(approximate(gold, point, MORE_DIGITS) - approximate(answer, point, MORE_DIGITS))
    size = max(abs(wanted), abs(given))
    shrunk = difference * Decimal(10) ** (DIGITS - MORE_DIGITS + 20)
    return closer <= size * Decimal(10) ** (-MORE_DIGITS + 15) or closer <= shrunk


def _points(names: list[str]) -> Iterator[Point]:
    """Yield the points of comparison: fixed, some whole, some negative, some large, some between 0 and 1."""
    source = random.Random(20_24)
    for index in range(POINTS):
        kind = index % 5
        if kind == 4:
            yield {name: Fraction(source.randint(1, 1000), 1009) for name in names}
        elif kind == 0:
            yield {name: Fraction(source.randint(1, 4000), 1009) for name in names}
        elif kind == 1:
            yield {name: Fraction(source.randint(2, 9 + index)) for name in names}
        elif kind == 2:
            yield {name: Fraction(-source.randint(1, 4000), 1009) for name in names}
        else:
            yield {name: Fraction(source.randint(1, 1000 * (index + 1)), 1013) for name in names}
