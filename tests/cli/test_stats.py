"""The statistics, against exact theory and against noise that was recorded on a busy machine: a rule that looks good on
Gaussian noise names winners among identical programs here.
"""

import json
import math
import os
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
from mortise import stats

from cli.conftest import ROOT

SESSIONS = 1000 if os.environ.get("MORTISE_TEST_ALL") else 150
ROUNDS_MAX = 200


@lru_cache(maxsize=2)
def noise(metric: str) -> np.ndarray:
    return np.array(json.loads((ROOT / "tests/cli/noise.json").read_text())[metric])


def rounds_of_noise(random: np.random.Generator, metric: str, count: int) -> np.ndarray:
    """Rounds drawn in runs of ten, because neighbours resemble each other; in each the arms change places."""
    recorded = noise(metric)
    starts = random.integers(0, len(recorded), count // 10 + 1)
    rows = ((starts[:, None] + np.arange(10)) % len(recorded)).ravel()[:count]
    places = np.argsort(random.random((count, recorded.shape[1])), axis=1)
    return recorded[rows[:, None], places]


@dataclass
class Session:
    ending: str
    rounds: int
    covers: bool


def session(seed: int, truth: float, resolve: float, metric: str = "cpu", rounds_max: int = ROUNDS_MAX) -> Session:
    """One whole comparison by the rule: looks, endings, the reference run twice a round as the control is."""
    drawn = rounds_of_noise(np.random.default_rng(seed), metric, rounds_max)
    differences = drawn[:, 0] + math.log(truth) - (drawn[:, 1] + drawn[:, 2]) / 2
    for count in filter(stats.is_look, range(rounds_max + 1)):
        found = stats.of_differences(differences[:count])
        verdict = stats.judge(found, resolve)
        if verdict.ending != stats.CANNOT_TELL:
            break
    return Session(verdict.ending, count, found.low <= truth <= found.high)


@lru_cache(maxsize=16)
def sessions(truth: float, resolve: float, metric: str = "cpu") -> list[Session]:
    return [session(seed, truth, resolve, metric) for seed in range(SESSIONS)]


def share(found: list[Session], *endings: str) -> float:
    return sum(s.ending in endings for s in found) / len(found)


# ---- the acceptance bars, on recorded noise ------------------------------------------------------------------------


@pytest.mark.parametrize("resolve", (0.02, 0.01, 0.001))
def test_identical_arms_are_rarely_told_apart(resolve):
    assert share(sessions(1.0, resolve), stats.FASTER, stats.SLOWER) <= 0.02


def test_identical_arms_are_mostly_called_so():
    assert share(sessions(1.0, 0.02), stats.SAME) >= 0.8


@pytest.mark.parametrize("truth, resolve", ((1.0, 0.02), (1.1, 0.02), (1.03, 0.01)))
def test_intervals_cover_the_truth_in_spite_of_repeated_looks(truth, resolve):
    found = sessions(truth, resolve)
    assert sum(s.covers for s in found) / len(found) >= 0.97


def test_ten_percent_are_found_within_thirty_rounds():
    found = sessions(1.1, 0.02)
    assert sum(s.ending == stats.SLOWER and s.rounds <= 30 for s in found) / len(found) >= 0.95


def test_three_percent_are_found_within_two_hundred_rounds():
    found = sessions(1.03, 0.01)
    assert share(found, stats.SLOWER) >= 0.85 and share(found, stats.FASTER) == 0


def test_a_tenth_of_a_percent_is_not_claimed_on_a_busy_machine():
    assert share(sessions(1.0, 0.001), stats.CANNOT_TELL) >= 0.95


def test_wall_time_of_a_busy_machine_names_nobody():
    found = [session(seed, 1.0, 0.02, "wall") for seed in range(60)]
    assert share(found, stats.FASTER, stats.SLOWER) <= 0.02 and share(found, stats.CANNOT_TELL) >= 0.9


def logs(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """What runs of one program differ by, on the log scale."""
    if kind == "one in twenty half as long again":
        return random.normal(0, 0.02, shape) + math.log(1.5) * (random.random(shape) < 0.05)
    if kind == "a long tail":
        return np.log1p(random.lognormal(-3.5, 1, shape))
    return random.normal(0, 0.15, shape)


@pytest.mark.parametrize("rounds", (5, 10, 16, 25))
@pytest.mark.parametrize("kind", ("log-normal", "one in twenty half as long again", "a long tail"))
def test_intervals_hold_a_known_ratio_as_often_as_they_say(kind, rounds):
    """The reference counts as the mean of two runs, which skewed noise makes differ from one; an interval that misses names a wrong winner."""
    random, truth = np.random.default_rng(rounds), 1.1
    for level in (0.95, 0.99):
        drawn = logs(random, kind, (600, 3, rounds))
        found = [stats.of_differences(math.log(truth) + arm - (first + second) / 2, level) for arm, first, second in drawn]
        assert found[0].level >= min(level, 1 - 2 * 0.5**rounds) - 1e-9
        assert np.mean([one.low <= truth <= one.high for one in found]) > found[0].level - 0.03


# ---- the pitfalls that chose the rule ------------------


def test_stopping_at_the_first_significant_look_names_winners_among_identical_arms():
    wrong = 0
    for seed in range(100):
        drawn = rounds_of_noise(np.random.default_rng(seed), "cpu", ROUNDS_MAX)
        differences = drawn[:, 0] - drawn[:, 1]
        looks = (stats.of_differences(differences[:n], 0.95) for n in filter(stats.is_look, range(ROUNDS_MAX + 1)))
        wrong += any(found.low > 1 or found.high < 1 for found in looks)
    assert wrong >= 20, "the naive rule is expected to fail here; if it does not, the noise is not what it was"


def test_the_interval_of_a_minimum_covers_less_than_it_promises():
    random = np.random.default_rng(3)
    covered = 0
    for _ in range(200):
        drawn = rounds_of_noise(random, "cpu", 40)
        picks = random.integers(0, 40, (200, 40))
        low, high = np.percentile(drawn[picks, 0].min(axis=1) - drawn[picks, 1].min(axis=1), [2.5, 97.5])
        covered += low <= 0 <= high
    assert covered / 200 < 0.93


def test_blocks_of_runs_differ_where_rounds_do_not():
    """Runs of one arm after the other see different neighbours: a difference between identical programs appears."""
    recorded = noise("cpu")[:, 0]
    block = 20
    starts = range(0, len(recorded) - 2 * block, 5)
    blocked = [np.median(recorded[s : s + block]) - np.median(recorded[s + block : s + 2 * block]) for s in starts]
    other = noise("cpu")[:, 1]
    paired = [np.median(recorded[s : s + block] - other[s : s + block]) for s in starts]
    assert np.sqrt(np.mean(np.square(blocked))) > 1.3 * np.sqrt(np.mean(np.square(paired)))


# ---- against theory ------------------


@pytest.mark.parametrize("n", (5, 8, 10, 25, 60))
def test_the_interval_is_wilcoxons(n):
    """The cut is the largest whose tail, counted by enumeration through scipy, still keeps the level."""
    from scipy.stats import wilcoxon

    k, reached = stats.cut(n, 0.95)
    if k == 0:
        assert reached == pytest.approx(1 - 2 * 0.5**n)
        return
    # A sample whose signed-rank statistic is k - 1 has the p-value that the reached level leaves.
    ranks, signs = list(range(n, 0, -1)), k - 1
    values = []
    for rank in ranks:
        positive = rank <= signs
        signs -= rank if positive else 0
        values.append(rank if positive else -rank)
    assert signs == 0
    assert wilcoxon(values, method="exact").pvalue == pytest.approx(1 - reached, rel=1e-9)
    assert reached >= 0.95


def test_too_few_rounds_say_what_they_are_worth():
    found = stats.interval([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])
    assert (found.low, found.high, found.level) == (1.0, pytest.approx(3.0), 0.75)
    assert stats.judge(found, 0.02, rounds_min=2).ending == stats.CANNOT_TELL


def test_a_common_factor_is_found_exactly():
    reference = np.linspace(1, 2, 12)
    found = stats.interval(reference * 1.5, reference)
    assert [found.ratio, found.low, found.high] == pytest.approx([1.5] * 3)
    assert stats.judge(found, 0.02).ending == stats.SLOWER
    assert stats.judge(stats.interval(reference, reference * 1.5), 0.02).ending == stats.FASTER
    assert stats.judge(stats.interval(reference, reference), 0.02).ending == stats.SAME


def test_the_fourth_ending_reports_the_interval_as_it_is():
    assert stats.judge(stats.Interval(1.02, 1.015, 1.0245, 0.99, 50), 0.02).ending == stats.AS_IT_IS


def test_the_rounds_that_are_missing_are_estimated():
    random = np.random.default_rng(1)
    few = random.normal(0.03, 0.09, 20)
    found = stats.of_differences(few)
    verdict = stats.judge(found, 0.01, differences=few)
    assert verdict.ending == stats.CANNOT_TELL and 10 <= verdict.more_rounds <= 2000


def test_no_verdict_is_promised_before_the_first_look():
    alike = np.log([1.3, 1.31])
    assert stats.more_rounds(stats.of_differences(alike), 0.02, alike) == stats.FIRST_LOOK - 2


def test_levels_are_shared_between_arms():
    assert stats.level_for(1) == pytest.approx(0.99) and stats.level_for(5) == pytest.approx(0.998)


def test_looks():
    assert [n for n in range(17) if stats.is_look(n)] == [10, 12, 14, 16]
