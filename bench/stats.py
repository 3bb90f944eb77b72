"""The statistics of the benchmark: paired log ratios, their Hodges-Lehmann centre, and intervals.

Arms of a round run one after the other, so a round's noise is mostly shared and the ratio within the round drops it.
"""

import dataclasses
import math

import numpy
from scipy import stats as distributions

LEVEL = 0.95


@dataclasses.dataclass
class Ratio:
    """A ratio of two arms with its interval; `spread` is the standard error of its logarithm."""

    value: float
    low: float
    high: float
    spread: float
    count: int

    @property
    def resolved(self) -> bool:
        """Whether the interval lies wholly on one side of 1."""
        return self.low > 1 or self.high < 1


def ratio(pairs: list[tuple[float, float]]) -> Ratio | None:
    """Arm over reference from pairs of the same rounds; the interval is Wilcoxon's from 6 pairs on, Student's below."""
    logs = numpy.array([math.log(arm / reference) for arm, reference in pairs if arm > 0 and reference > 0])
    n = len(logs)
    if n == 0:
        return None
    i, j = numpy.triu_indices(n)
    walsh = numpy.sort((logs[i] + logs[j]) / 2)
    centre = float(numpy.median(walsh))
    if n == 1:
        return Ratio(math.exp(centre), 0.0, math.inf, math.inf, 1)
    spread = float(numpy.std(logs, ddof=1) / math.sqrt(n))
    if n >= 6:
        low, high = _wilcoxon(walsh, n)
    else:
        half = float(distributions.t.ppf((1 + LEVEL) / 2, n - 1)) * spread
        low, high = centre - half, centre + half
    return Ratio(math.exp(centre), math.exp(low), math.exp(high), spread, n)


def _wilcoxon(walsh: numpy.ndarray, n: int) -> tuple[float, float]:
    """The signed-rank interval: Walsh averages cut off at the critical rank."""
    mean, deviation = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    rank = math.floor(mean - float(distributions.norm.ppf((1 + LEVEL) / 2)) * deviation)
    # The rank counts from 1: with 6 pairs the interval is from the least average to the greatest.
    cut = max(0, min(rank - 1, len(walsh) // 2))
    return float(walsh[cut]), float(walsh[-1 - cut])


def geometric_mean(ratios: list[tuple[Ratio, float]]) -> Ratio | None:
    """The weighted geometric mean; errors of the workloads are independent, so their squares add."""
    known = [(one, weight) for one, weight in ratios if one is not None]
    total = sum(weight for _, weight in known)
    if not total:
        return None
    centre = sum(weight * math.log(one.value) for one, weight in known) / total
    # Student's factor with the smallest number of rounds, as if all the noise were in the least measured workload.
    least = min(one.count for one, _ in known)
    spread = math.sqrt(sum((weight * one.spread) ** 2 for one, weight in known)) / total
    half = float(distributions.t.ppf((1 + LEVEL) / 2, least - 1)) * spread if least > 1 else math.inf
    if len(known) > 3 and least > 1:  # Many independent errors: degrees of freedom add up as well.
        half = float(distributions.t.ppf((1 + LEVEL) / 2, (least - 1) * len(known))) * spread
    return Ratio(math.exp(centre), math.exp(centre - half), math.exp(centre + half), spread, least)
