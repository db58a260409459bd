"""The closed-form statistics against brute force and known values."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_rlvr.inspection import intervals


def test_wilson_gives_the_known_values() -> None:
    half = intervals.wilson(5, 10)
    assert (half.low, half.high) == (pytest.approx(0.2366, abs=1e-4), pytest.approx(0.7634, abs=1e-4))
    none = intervals.wilson(0, 50)
    assert (none.low, none.high) == (0.0, pytest.approx(0.0714, abs=1e-4))


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_stays_between_0_and_1(counts: tuple[int, int]) -> None:
    hits, n = counts
    found = intervals.wilson(hits, n)
    assert 0 <= found.low <= found.value <= found.high <= 1


@given(st.lists(st.booleans(), min_size=2, max_size=9), st.integers(2, 9))
def test_the_predicted_share_without_gradient_is_the_exact_share_of_subsets(outcomes: list[bool], size: int) -> None:
    if size > len(outcomes):
        return
    subsets = list(itertools.combinations(outcomes, size))
    exact = sum(len(set(subset)) == 1 for subset in subsets) / len(subsets)
    found = intervals.no_gradient([(sum(outcomes), len(outcomes))], size)
    assert found is not None
    assert found.value == pytest.approx(exact)


def test_a_larger_group_loses_its_gradient_less_often() -> None:
    counts = [(1, 4), (2, 4), (0, 4), (4, 4), (3, 4), (1, 4)]
    shares = [found.value for size in (2, 4, 8, 16, 64) if (found := intervals.no_gradient(counts, size))]
    assert shares == sorted(shares, reverse=True)
    assert 0 < shares[-1] < shares[0] < 1


def test_likeness_inside_clusters_widens_the_interval() -> None:
    alike = intervals.clustered({str(i): [i % 2 == 0] * 8 for i in range(20)})
    mixed = intervals.clustered({str(i): [True, False] * 4 for i in range(20)})
    assert alike is not None
    assert mixed is not None
    assert alike.high - alike.low > 2 * (mixed.high - mixed.low)
    assert intervals.clustered({}) is None


def test_kappa_gives_the_known_values() -> None:
    assert intervals.kappa(20, 5, 10, 15) == pytest.approx(0.4)
    assert intervals.kappa(10, 0, 0, 10) == 1.0
    assert intervals.kappa(0, 0, 0, 0) is None
    assert intervals.kappa(10, 0, 0, 0) is None


def test_correlation_of_constant_values_is_unknown() -> None:
    assert intervals.correlation([1, 1, 1], [1, 2, 3]) is None
    found = intervals.correlation([1, 2, 3], [2, 4, 6])
    assert found is not None
    assert math.isclose(found, 1.0)
