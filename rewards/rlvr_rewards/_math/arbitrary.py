"""Letters that stand for any number, so that their name says nothing: x^2 + C, and x = \\pi/4 + k\\pi."""

from fractions import Fraction

from rlvr_rewards._math import equal, terms
from rlvr_rewards._math.terms import Node, number

# An added constant of integration behind a function of one of these variables.
_VARIABLES = frozenset(("x", "t", "u", "y", "z", "s", "r", "theta", "w", "v"))
_CONSTANTS = frozenset(("C", "c", "K", "k"))
# Whole numbers of half turns or turns.
_TURNS = frozenset(("k", "n", "m", "l", "j"))
# Periods are multiples of pi over a divisor of this.
PARTS = 24


def same(gold: Node, answer: Node) -> bool:
    """Return whether two formulas are the same for every value of the gold's arbitrary letter.

    Raises:
        NotUnderstood: They are defined together at too few points to tell.
    """
    return _same_antiderivative(gold, answer) or _same_turns(gold, answer)


def _same_antiderivative(gold: Node, answer: Node) -> bool:
    """Compare `F(x) + C` with `G(x) + c`: with a capital C in the gold F and G may differ by a constant."""
    mine, other = (_split(node) for node in (gold, answer))
    if mine is None or other is None:
        return False
    (name, ours), (_, theirs) = mine, other
    free = terms.variables(ours)
    if len(free) != 1 or not free <= _VARIABLES or terms.variables(theirs) != free:
        return False
    apart = equal.difference(ours, theirs)
    return apart is not None and (name == "C" or abs(apart) < equal.TINY)


def _split(node: Node) -> tuple[str, Node] | None:
    """Return the name of the one constant that is added, and the formula without it."""
    summands = _summands(node)
    names = [term.name for term in summands if term.op == "variable" and term.name in _CONSTANTS]
    rest = [term for term in summands if not (term.op == "variable" and term.name in _CONSTANTS)]
    if len(names) != 1 or not rest or any(names[0] in terms.variables(term) for term in rest):
        return None
    whole = rest[0]
    for term in rest[1:]:
        whole = Node("add", (whole, term))
    return names[0], whole


def _summands(node: Node) -> list[Node]:
    return [inner for arg in node.args for inner in _summands(arg)] if node.op == "add" else [node]


def _same_turns(gold: Node, answer: Node) -> bool:
    """Compare `a + k d` with `a + n d`, d being a multiple of pi."""
    mine, other = terms.variables(gold), terms.variables(answer)
    if len(mine) != 1 or len(other) != 1 or mine == other or not mine | other <= _TURNS:
        return False
    name = next(iter(mine))
    theirs = terms.renamed(answer, next(iter(other)), name)
    return _steps_by_pi(gold, name) and equal.same(gold, theirs, Fraction(0))


def _steps_by_pi(node: Node, name: str) -> bool:
    """Return whether a formula grows by the same rational multiple of pi with every whole number."""
    following = _replaced(node, name, Node("add", (Node("variable", name=name), number(1))))
    step = Node("add", (following, Node("negative", (node,))))
    turns = Node("divide", (step, Node("constant", name="pi")))
    values = [equal.constant(_replaced(turns, name, number(at))) for at in (0, 1, 5)]
    known = [value for value in values if value is not None]
    if len(known) < len(values) or any(abs(value - known[0]) > equal.TINY for value in known):
        return False
    parts = known[0] * PARTS
    return parts != 0 and abs(parts - parts.to_integral_value()) < equal.TINY


def _replaced(node: Node, name: str, new: Node) -> Node:
    if node.op == "variable" and node.name == name:
        return new
    return Node(node.op, tuple(_replaced(arg, name, new) for arg in node.args), node.value, node.name)
