"""What an answer may be, so that no expression hangs the trainer. Each limit has its reason."""

# Longer answers are degenerate output; the longest usual closed form has a few hundred characters.
MAX_CHARACTERS = 4096
# Deeper bracket nesting meets the recursion limit of parsers.
MAX_NESTING = 64
# More digits in a row are noise, and conversions cost quadratic time.
MAX_DIGITS = 256
# A tree of more nodes is no answer that a person would write.
MAX_NODES = 512
# More members than this in a list of answers is a listing of guesses.
MAX_MEMBERS = 50
# Lists of lists of lists are no usual answer, and each level doubles the comparisons.
MAX_LEVELS = 4
# Comparisons of parts for one answer; a usual answer takes fewer than a hundred.
MAX_COMPARISONS = 4000
# Integers of exact arithmetic; 3000! has 30,000 bits.
MAX_BITS = 65_536
# The largest n of n! and the largest k of a binomial that are multiplied out.
MAX_FACTORIAL = 3000
# Decimal exponents; beyond this a number is only known to be huge.
MAX_EXPONENT = 10_000_000
# Golds repeat for every completion of a prompt; what is read of them is small.
CACHED_GOLDS = 4096
# Processor seconds that the symbolic worker may take for one answer. Usual ones take a tenth, the first of an unusual
# shape up to 0.7, and cores that share their caches with a trainer count more seconds for the same work.
WORKER_SECONDS = 1.5


class TooLarge(ValueError):
    """An expression beyond these limits."""


class Undefined(ValueError):
    """An expression that has no real value, at least at the point tried."""


class NotUnderstood(ValueError):
    """Text that this parser does not read; the symbolic worker may."""
