"""Properties of the math reward on generated expressions."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_rewards import Math
from rlvr_rewards._math import equal, tree
from rlvr_rewards._math.limits import NotUnderstood, TooLarge, Undefined

REWARD = Math()
ATOMS = st.one_of(
    st.integers(0, 99).map(str),
    st.sampled_from(["x", "y", "\\pi", "e", "n", "\\alpha", "0.5", "2.25"]),
    st.tuples(st.integers(1, 9), st.integers(2, 9)).map(lambda pair: f"\\frac{{{pair[0]}}}{{{pair[1]}}}"),
)


def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.map(lambda p: f"({p[0]}) + ({p[1]})"),
        pair.map(lambda p: f"({p[0]}) - ({p[1]})"),
        pair.map(lambda p: f"({p[0]}) \\cdot ({p[1]})"),
        pair.map(lambda p: f"\\frac{{{p[0]}}}{{{p[1]}}}"),
        inner.map(lambda text: f"\\sqrt{{{text}}}"),
        inner.map(lambda text: f"({text})^2"),
        inner.map(lambda text: f"-({text})"),
        inner.map(lambda text: f"\\sin({text})"),
        inner.map(lambda text: f"\\ln({text})"),
    )


EXPRESSIONS = st.recursive(ATOMS, grow, max_leaves=6)


def score(gold: str, answer: str) -> float | None:
    return REWARD.grade(f"\\boxed{{{answer}}}", {"gold": gold}).score


@settings(max_examples=250, deadline=None)
@given(EXPRESSIONS)
def test_an_expression_equals_itself_and_not_itself_plus_one(text: str) -> None:
    if REWARD.check_rows([{"gold": text}]):
        return
    assert score(text, text) == 1.0
    assert score(text, f"({text}) + 0") == 1.0
    # One more is within the tolerance of a large number that is not whole; its square and one more never is.
    more = "1" if "." not in text else f"({text})^2 + 1"
    assert score(text, f"({text}) + {more}") == 0.0


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_equality_does_not_depend_on_the_side(one: str, other: str) -> None:
    if REWARD.check_rows([{"gold": one}, {"gold": other}]):
        return
    # A whole gold allows no tolerance and the other side might, so only exact forms are compared.
    if "." not in one + other:
        assert score(one, other) == score(other, one)


@settings(max_examples=200, deadline=None)
@given(st.fractions(max_denominator=10**6), st.fractions(max_denominator=10**6))
def test_fractions_are_equal_exactly_when_they_are(a: Fraction, b: Fraction) -> None:
    wrote = [f"\\frac{{{value.numerator}}}{{{value.denominator}}}" for value in (a, b)]
    assert score(wrote[0], wrote[1]) == float(a == b)
    assert score(f"{a.numerator}/{a.denominator}", wrote[0]) == 1.0


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**30), 10**30))
def test_whole_numbers_in_every_spelling(value: int) -> None:
    assert score(str(value), f"{value:,}") == 1.0
    assert score(str(value), f"{value:,}".replace(",", "{,}")) == 1.0
    assert score(str(value), f"{value:,}".replace(",", "\\,")) == 1.0
    assert score(str(value), f"{value}.0") == 1.0
    assert score(str(value), str(value + 1)) == 0.0


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(-20, 20), min_size=2, max_size=6, unique=True), st.randoms(use_true_random=False))
def test_lists_ignore_order_and_tuples_do_not(values: list[int], source: object) -> None:
    turned = values[1:] + values[:1]
    joined, other = ", ".join(map(str, values)), ", ".join(map(str, turned))
    assert score(joined, other) == score(f"\\{{{joined}\\}}", other) == 1.0
    assert score(f"({joined})", f"({other})") == score(f"({joined})", joined) == 0.0
    assert score(joined, ", ".join(map(str, values[1:]))) == 0.0


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet="0123456789xyei+-*/^_(){}[]|!,.%$\\ =<>", max_size=40) | st.text(max_size=40))
def test_odd_text_is_a_verdict_in_bounded_time(text: str) -> None:
    for gold in ("7", "(1,2)", "x^2", "[0,1)", "\\text{yes}", "x = 3", "1, 2"):
        verdict = REWARD.grade(f"\\boxed{{{text}}}", {"gold": gold})
        assert verdict.score in (0.0, 1.0)
        assert verdict.seconds < 9


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS)
def test_agreement_with_sympy(text: str) -> None:
    sympy = pytest.importorskip("sympy")
    latex = pytest.importorskip("latex2sympy2_extended")
    try:
        node = tree.parse(text)
        ours = equal.constant(node)
    except (NotUnderstood, TooLarge, Undefined):
        return
    if ours is None:
        return
    theirs = latex.latex2sympy(text)
    value = complex(sympy.N(theirs, 30))
    assert abs(value.imag) < 1e-12
    assert float(ours) == pytest.approx(value.real, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "text", ["\\frac{\\sin(\\pi)}{\\sin(\\pi)}", "\\tan(-\\frac{\\pi}{2})", "\\frac{1}{\\cos(\\frac{3\\pi}{2})}"]
)
def test_what_rounding_leaves_of_zero_is_no_divisor(text: str) -> None:
    assert equal.constant(tree.parse(text)) is None
    assert score("1", text) == 0.0


# What a repeated piece makes each reader do over and over; a reader that looks ahead from every place takes hours.
FLOODS = (
    *(
        "(",
        "   (",
        "[",
        "\\left(",
        "\\\\",
        "\\color{",
        "\\begin{align}",
        "\\begin{cases}",
        "\\langle 1,",
        "]0,1[",
        "1{,}",
    ),
    *("for all x ", "\\in \\mathbb{Z} ", "x\\equiv 1\\pmod{2}", "1 1/2 ", "0.33...", "1:2:", "x<1 and ", "[0,1]\\cap"),
    *(
        "\\pm1",
        "P(A)=",
        "\\text{m}\\cdot",
        "\\frac{\\text{m}}{\\text{s}}",
        "{}_1C_2",
        "1,2;",
        "answer is ",
        "<|im_end|>",
    ),
)


@pytest.mark.parametrize("kind", ["auto", "choice", "word"])
@pytest.mark.parametrize("piece", FLOODS)
def test_a_flood_of_one_piece_is_wrong_and_ends(piece: str, kind: Any) -> None:
    reward = Math(kind=kind)
    for size in (4_000, 100_000):
        body = (piece * (size // len(piece)))[:size]
        for text in (f"\\boxed{{{body}}}", f"The answer is {body}"):
            verdict = reward.grade(text, {"gold": "A" if kind == "choice" else "12"})
            assert verdict.score == 0.0, (piece, verdict)
            # The limit of the judged cases; usual answers take a thousandth of it.
            assert verdict.seconds < 10
