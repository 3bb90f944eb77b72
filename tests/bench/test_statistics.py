"""The benchmark's statistics say what they claim: otherwise its tables name differences that are none."""

import itertools
import math
import random

import pytest


@pytest.mark.parametrize("n", range(6, 11))
def test_the_interval_covers_at_least_95_percent(bench, n):
    # Whether the interval of a sample holds the true value 0 depends on signs and ranks alone: all of them are tried.
    covered = 0
    for signs in itertools.product((-1, 1), repeat=n):
        pairs = [(math.exp(s * (0.01 + 0.003 * 1.7**i)), 1.0) for i, s in enumerate(signs)]
        one = bench.stats.ratio(pairs)
        covered += one.low <= 1 <= one.high
    assert covered / 2**n >= 0.95, f"{100 * covered / 2**n:.2f} % of the intervals hold the true value"
    assert covered < 2**n, "an interval that holds everything says nothing"


def test_a_known_ratio_comes_back(bench):
    rng = random.Random(3)
    noise = [sign * abs(rng.gauss(0, 0.02)) for _ in range(6) for sign in (-1, 1)]
    noise = [a if i % 2 == 0 else -noise[i - 1] for i, a in enumerate(noise)]
    references = [rng.uniform(1, 9) for _ in noise]
    one = bench.stats.ratio([(0.8 * reference * math.exp(n), reference) for n, reference in zip(noise, references)])
    assert one.resolved and one.low < 0.8 < one.high and one.high - one.low < 0.06 and one.count == 12
    assert math.isclose(one.value, 0.8)


def test_few_pairs_are_told_apart_from_none(bench):
    assert bench.stats.ratio([]) is None
    assert bench.stats.ratio([(1.0, 0.0)]) is None, "a reference of nothing is no pair"
    alone = bench.stats.ratio([(2.0, 1.0)])
    assert math.isclose(alone.value, 2) and not alone.resolved
    assert bench.stats.ratio([(2.0, 1.0), (2.0, 1.01), (2.0, 0.99)]).resolved


def test_means_are_geometric_and_weighted(bench):
    def one(value: float):
        return bench.stats.Ratio(value, value * 0.99, value * 1.01, 0.01, 8)

    assert math.isclose(bench.stats.geometric_mean([(one(4), 1), (one(0.25), 1)]).value, 1)
    assert math.isclose(bench.stats.geometric_mean([(one(2), 3), (one(1), 1)]).value, 2**0.75)
    assert bench.stats.geometric_mean([(None, 1)]) is None
