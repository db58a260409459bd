"""Real functions on decimals of a stated precision; standard library only."""

import functools
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow, Underflow, localcontext

from rlvr_rewards._math.limits import MAX_EXPONENT, Undefined

# Arguments of sine and its kin beyond this lose their digits to the reduction by pi.
_MAX_ANGLE = Decimal(10) ** 15


def context(digits: int) -> Context:
    """Return a decimal context of that many digits in which anything undefined or huge raises."""
    return Context(
        prec=digits,
        Emax=MAX_EXPONENT,
        Emin=-MAX_EXPONENT,
        traps=[InvalidOperation, DivisionByZero, Overflow, Underflow],
    )


@functools.lru_cache(maxsize=8)
def pi(digits: int) -> Decimal:
    """Return pi, by Machin's formula."""
    with localcontext(context(digits + 10)):
        value = 4 * (4 * _arctan_inverse(5, digits + 10) - _arctan_inverse(239, digits + 10))
    return value


def _arctan_inverse(n: int, digits: int) -> Decimal:
    scale = 10 ** (digits + 5)
    term = total = scale // n
    k, sign = 3, -1
    while term:
        term //= n * n
        total += sign * (term // k)
        k, sign = k + 2, -sign
    return Decimal(total) / Decimal(scale)


def sine(x: Decimal, digits: int) -> Decimal:
    """Return the sine of an angle in radians: exactly 0 where only rounding keeps it from there, as at pi itself."""
    if abs(x) > _MAX_ANGLE:
        raise Undefined("angle too large")
    with localcontext(context(digits + 20)):
        turn = 2 * pi(digits + 20)
        reduced = x - turn * (x / turn).to_integral_value()
        # The series is summed for a small part of the angle and the result tripled up again.
        small = reduced / 81
        term = total = small
        k = 1
        while term and abs(term) > Decimal(10) ** (-digits - 20):
            term = -term * small * small / ((k + 1) * (k + 2))
            total += term
            k += 2
        for _ in range(4):
            total = 3 * total - 4 * total**3
    # Else a quotient of two such remainders would pass for a number.
    return Decimal(0) if abs(x) > 1 and abs(total) < Decimal(10) ** (5 - digits) else +total


def cosine(x: Decimal, digits: int) -> Decimal:
    """Return the cosine of an angle in radians."""
    return sine(abs(x) + pi(digits + 20) / 2, digits)


def arctangent(x: Decimal, digits: int) -> Decimal:
    """Return the angle in radians, between -pi/2 and pi/2, whose tangent is `x`."""
    with localcontext(context(digits + 10)):
        if abs(x) > 1:
            half = pi(digits + 10) / 2
            inner = arctangent(1 / x, digits)
            return +((half if x > 0 else -half) - inner)
        small = x
        for _ in range(4):
            small = small / (1 + (1 + small * small).sqrt())
        term = total = small
        square, k = small * small, 1
        while term and abs(term) > Decimal(10) ** (-digits - 10):
            term = -term * square
            k += 2
            total += term / k
        result = total * 16
    return +result


def arcsine(x: Decimal, digits: int) -> Decimal:
    """Return the angle in radians whose sine is `x`."""
    if abs(x) > 1:
        raise Undefined("arcsine outside [-1, 1]")
    if abs(x) == 1:
        return pi(digits) / 2 * x
    return arctangent(x / (1 - x * x).sqrt(), digits)
