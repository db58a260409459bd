"""The plain nodes that expressions are read into, and what can be asked of them."""

from dataclasses import dataclass, replace
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: its name, its operands, and for leaves a value or a name."""

    op: str
    args: tuple["Node", ...] = ()
    value: Fraction | None = None
    name: str = ""


def variables(node: Node) -> set[str]:
    """Return the names of the free variables of a tree."""
    names = {node.name} if node.op == "variable" else set()
    return names.union(*(variables(arg) for arg in node.args)) if node.args else names


def operations(node: Node) -> set[str]:
    """Return the names of all operations of a tree."""
    return {node.op}.union(*map(operations, node.args))


def is_combination(node: Node) -> bool:
    """Return whether a tree only adds up products of letters and whole factors, with no number by itself: 10a + b."""
    if node.op in ("add", "negative"):
        return all(map(is_combination, node.args))
    if node.op == "multiply":
        return any(map(is_combination, node.args)) and all(
            arg.op == "number" or is_combination(arg) for arg in node.args
        )
    return node.op == "variable"


def renamed(node: Node, old: str, new: str) -> Node:
    """Return a tree with one variable under another name."""
    if node.op == "variable" and node.name == old:
        return Node("variable", name=new)
    return Node(node.op, tuple(renamed(arg, old, new) for arg in node.args), node.value, node.name)


def decimal_logarithms(node: Node) -> Node:
    """Return a tree with every logarithm that was written without a base as one to base ten."""
    args = tuple(map(decimal_logarithms, node.args))
    return Node("lg", args) if node.op == "ln" and node.name == "log" else replace(node, args=args)


def has_decimal(node: Node) -> bool:
    """Return whether the tree holds a number written with a decimal point or in scientific notation."""
    return (node.op == "number" and node.name == "decimal") or any(has_decimal(arg) for arg in node.args)


def number(value: Fraction | int, decimal: bool = False) -> Node:
    """Return a leaf for an exact number."""
    return Node("number", value=Fraction(value), name="decimal" if decimal else "")
