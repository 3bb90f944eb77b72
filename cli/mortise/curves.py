"""Curves of time against memory: what a knob can reach, whether a law describes it, and which of two curves is better.

The law is that of a collector: mem = c + b / (time - a), with a the time without collecting, c the least memory, b the
price of one in the other. Time and memory are both measured with error, so each point has a latent position on the
curve; fitting memory as a function of time is 1.3 to 2 times worse. Where the law does not hold no numbers are shown.
"""

import math
from dataclasses import dataclass

import numpy as np

from mortise import formats
from mortise.sweeps import POINTS_MIN

POINT_ROUNDS_MIN = 5  # intervals resampled from fewer runs a point are too narrow for a verdict, or a law
REPEATS = 400
CHANCE = 0.01  # of taking points for different ones that are not
MISFIT_MAX = 3.0  # times the noise
SPREAD_MAX = 20.0  # how far the interval of b may reach from b, as a factor: beyond that the points say nothing of it
LEFT_OUT_MAX = 0.15  # a law that misses the points it was not shown by more predicts nothing


@dataclass(frozen=True)
class Point:
    """One value of a knob with every run made there."""

    knob: str
    times: np.ndarray
    memories: np.ndarray

    @property
    def median(self) -> tuple[float, float]:
        return float(np.median(self.times)), float(np.median(self.memories))

    @property
    def rounds(self) -> int:
        """So many runs there are on either axis."""
        return min(len(self.times), len(self.memories))


@dataclass(frozen=True)
class Law:
    """The fitted law, its 90 % intervals, and how far the points are from it."""

    a: float
    b: float
    c: float
    intervals: dict[str, tuple[float, float]]
    misfit_time: float
    misfit_memory: float
    left_out_error: float


def counted(rounds: int) -> str:
    return f"{rounds} round{'s' * (rounds != 1)}"


def scatter(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.mean(values)) if len(values) > 1 else 0.0


def noise(points: list[Point]) -> tuple[float, float]:
    """The run-to-run variation of time and of memory, pooled over the points; never taken as less than half a
    percent.
    """
    return tuple(
        max(0.005, float(np.median([scatter(getattr(p, axis)) for p in points]))) for axis in ("times", "memories")
    )  # type: ignore[return-value]


def medians(points: list[Point]) -> np.ndarray:
    return np.array([p.median for p in points])


# ---- the law -------------------------------------------------------------------------------------------------------


def fit_once(times: np.ndarray, memories: np.ndarray, time_noise: float, memory_noise: float) -> np.ndarray:
    """a, b, c, then the latent time - a of each point: errors in both variables, in units of their noise."""
    from scipy.optimize import least_squares

    t0, m0 = times.min(), memories.min()

    def residuals(x: np.ndarray) -> np.ndarray:
        u = np.exp(x[3:])
        along_time = np.log((x[0] * t0 + u) / times) / time_noise
        along_memory = np.log((x[2] * m0 + np.exp(x[1]) / u) / memories) / memory_noise
        return np.concatenate([along_time, along_memory])

    best = None
    for a in (0.1, 0.6, 0.9):
        for c in (0.2, 0.9):
            b = max((np.median(memories) - c * m0) * (np.median(times) - a * t0), 1e-12)
            start = np.concatenate([[a, math.log(b), c], np.log(np.maximum(times - a * t0, 1e-3 * t0))])
            lows = np.concatenate([[0, -60, 0], np.full(len(times), -40)])
            highs = np.concatenate([[1.2, 60, 1.2], np.full(len(times), 40)])
            found = least_squares(residuals, start, bounds=(lows, highs), loss="soft_l1", f_scale=2, max_nfev=400)
            if best is None or found.cost < best.cost:
                best = found
    assert best is not None
    return np.concatenate([[best.x[0] * t0, math.exp(best.x[1]), best.x[2] * m0], np.exp(best.x[3:])])


def fit(points: list[Point], seed: int, repeats: int = 60) -> tuple[Law | None, str]:
    """The law with its intervals, or None and the reason why no numbers are given."""
    distinct = {tuple(np.round(np.log(p.median), 3)) for p in points}
    if len(distinct) < POINTS_MIN:
        return None, f"no law from {len(distinct)} distinct points: {POINTS_MIN} are needed"
    rows = medians(points)
    if (flat := no_effect(points)) is not None:
        return None, flat
    time_noise, memory_noise = noise(points)
    x = fit_once(rows[:, 0], rows[:, 1], time_noise, memory_noise)
    a, b, c, u = x[0], x[1], x[2], x[3:]
    misfit_time = float(np.sqrt(np.mean(np.log((a + u) / rows[:, 0]) ** 2)))
    misfit_memory = float(np.sqrt(np.mean(np.log((c + b / u) / rows[:, 1]) ** 2)))
    # A median of n runs is less noisy than one run.
    allowed = MISFIT_MAX / math.sqrt(max(1, min(p.rounds for p in points)) / 1.5)
    if misfit_time > allowed * time_noise or misfit_memory > allowed * memory_noise:
        worst = max(misfit_time / time_noise, misfit_memory / memory_noise)
        return None, f"no hyperbola: the points lie {worst:.1f} times the noise away from it"
    for name, value, least in (("a", a, rows[:, 0].min()), ("c", c, rows[:, 1].min())):
        if value < 0.01 * least or value > 1.19 * least:
            return None, f"no hyperbola: {name} would lie at the end of its range"
    samples = bootstrap(points, (time_noise, memory_noise), seed, repeats)
    intervals = {name: tuple(np.percentile(samples[:, i], [5, 95])) for i, name in enumerate("abc")}
    if intervals["b"][0] < b / SPREAD_MAX or intervals["b"][1] > b * SPREAD_MAX:
        return None, "no law: these points leave b undetermined"
    missed = left_out(points, (time_noise, memory_noise))
    if missed > max(LEFT_OUT_MAX, MISFIT_MAX * memory_noise):
        return None, f"no law: it would miss a point that it was not fitted to by {formats.percent(missed)}"
    return Law(a, b, c, intervals, misfit_time, misfit_memory, missed), ""


def no_effect(points: list[Point]) -> str | None:
    """A knob whose points cannot be told apart: it may not exist in this version, or do nothing for this program. Of an axis with so
    few runs that even points far from each other could not be told apart nothing is said but that.
    """
    from scipy.stats import kruskal

    blind = []
    for axis in ("times", "memories"):
        groups = [getattr(p, axis) for p in points]
        together = np.concatenate(groups)
        if np.ptp(together) > 0 and kruskal(*groups).pvalue < CHANCE:
            return None
        in_order = np.split(np.arange(len(together)), np.cumsum([len(g) for g in groups])[:-1])
        if kruskal(*in_order).pvalue >= CHANCE:
            blind.append("time" if axis == "times" else "memory")
    if blind:
        return f"too few runs to tell whether {' or '.join(blind)} changes with the knob: it takes more rounds"
    return "no effect seen: the points cannot be told apart"


def bootstrap(points: list[Point], levels: tuple[float, float], seed: int, repeats: int) -> np.ndarray:
    """The law again from resampled runs, and every other time from resampled points too."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(repeats):
        drawn = medians(resampled(points, random))
        if number % 2:
            keep = random.integers(0, len(drawn), len(drawn))
            if len(set(keep)) < 4:
                continue
            drawn = drawn[keep]
        found.append(fit_once(drawn[:, 0], drawn[:, 1], *levels)[:3])
    return np.array(found)


def left_out(points: list[Point], levels: tuple[float, float]) -> float:
    """How far the law of the others misses each inner point along memory, as a typical relative error."""
    rows = medians(points)
    misses = []
    for index in np.argsort(rows[:, 0])[1:-1]:
        others = np.delete(rows, index, axis=0)
        a, b, c = fit_once(others[:, 0], others[:, 1], *levels)[:3]
        if rows[index, 0] > a:
            misses.append(abs(math.log((c + b / (rows[index, 0] - a)) / rows[index, 1])))
    return float(np.median(misses)) if misses else math.inf


def resampled(points: list[Point], random: np.random.Generator) -> list[Point]:
    return [
        Point(p.knob, random.choice(p.times, len(p.times)), random.choice(p.memories, len(p.memories)))
        for p in points
    ]


# ---- one curve against another -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mean:
    """A ratio of two curves over the range that both reach: its mean with a 95 % interval, and the worst place."""

    ratio: float
    low: float
    high: float
    worst: float
    range_low: float
    range_high: float


@dataclass(frozen=True)
class Dominance:
    verdict: str  # dominates, better on average, crosses, trades (one is faster, the other smaller), ..., cannot tell
    time: Mean  # at equal memory
    memory: Mean  # at equal time
    crosses_at: float | None
    faster_above: bool | None  # where they cross: with more memory than there it is the arm that is faster
    reach: str


def staircase(rows: np.ndarray) -> np.ndarray:
    """The points that no other beats in both, by rising memory."""
    ordered = rows[np.lexsort((rows[:, 0], rows[:, 1]))]
    kept, best = [], math.inf
    for time, memory in ordered:
        if time < best:
            kept.append((time, memory))
            best = time
    return np.array(kept)


def time_at(front: np.ndarray, memories: np.ndarray) -> np.ndarray:
    return np.exp(np.interp(np.log(memories), np.log(front[:, 1]), np.log(front[:, 0])))


def ratios(arm: np.ndarray, other: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Log time ratios of two sets of points at given memories."""
    return np.log(time_at(staircase(arm), places) / time_at(staircase(other), places))


@dataclass(frozen=True)
class Over:
    """Log ratios of two curves at the places of their common range, and again from resampled runs."""

    places: np.ndarray
    middle: np.ndarray
    drawn: np.ndarray  # one row a repeat

    def mean(self) -> Mean:
        bounds = np.percentile(self.drawn.mean(axis=1), [2.5, 97.5])
        worst = np.percentile(self.drawn.max(axis=1), 95)
        values = (float(np.exp(v)) for v in (self.middle.mean(), *bounds, worst))
        return Mean(*values, float(self.places[0]), float(self.places[-1]))

    def never_worse(self) -> bool:
        return bool(np.percentile(self.drawn.max(axis=1), 95) < 0)

    def never_better(self) -> bool:
        return bool(np.percentile(-self.drawn.min(axis=1), 95) < 0)


def over(arm: list[Point], other: list[Point], swap: bool, seed: int) -> Over:
    """Time at equal memory (or, swapped, memory at equal time) at nine places of the range that both reach. Where there is none, at
    the least that both can do with: whoever needs less than that there may have the rest for nothing.
    """
    turn = slice(None, None, -1 if swap else 1)
    mine, theirs = (medians(points)[:, turn] for points in (arm, other))
    fronts = staircase(mine), staircase(theirs)
    low, high = max(f[:, 1].min() for f in fronts), min(f[:, 1].max() for f in fronts)
    places = np.exp(np.linspace(math.log(low), math.log(high), 9)) if high > low * 1.02 else np.array([low])
    again = [resampled_medians(points, seed, REPEATS)[:, :, turn] for points in (arm, other)]
    drawn = np.array([ratios(a, b, places) for a, b in zip(*again, strict=True)])
    return Over(places, ratios(mine, theirs, places), drawn)


def resampled_medians(points: list[Point], seed: int, repeats: int) -> np.ndarray:
    """`medians` of that many resamplings of the rounds at once: repeat, point, axis.

    Runs stand in the order of their rounds, and the same rounds are drawn at every point of both curves: what a round
    did to all of them alike then cancels in the ratio, as it does in the paired ratios of default points.
    """

    def again(values: np.ndarray, axis: int) -> np.ndarray:
        rounds = np.random.default_rng((seed, axis)).integers(0, len(values), (repeats, len(values)))
        return np.median(values[rounds], axis=1)

    return np.stack([np.stack([again(p.times, 0), again(p.memories, 1)], axis=-1) for p in points], axis=1)


def gets_below(arm: list[Point], other: list[Point]) -> bool:
    """Whether the other reaches nothing on either axis that this one does not."""
    return bool((medians(arm).min(axis=0) <= medians(other).min(axis=0)).all())


def told_apart(points: list[Point]) -> list[Point]:
    """The points; of those that cannot be told apart one, since the luckiest of many would pass for a curve's best."""
    return points if len(points) < 2 or no_effect(points) is None else points[:1]


def compare(arm: list[Point], other: list[Point], seed: int) -> Dominance:
    """Which curve is better, and how sure that is. Never from the two default points alone."""
    arm, other = told_apart(arm), told_apart(other)
    time, memory = over(arm, other, False, seed), over(arm, other, True, seed)
    shared = min(len(time.places), len(memory.places)) > 1
    means, crossing, verdict = (time.mean(), memory.mean()), None, "cannot tell"
    if time.never_worse() and memory.never_worse() and (shared or gets_below(arm, other)):
        verdict = "dominates"
    elif time.never_better() and memory.never_better() and (shared or gets_below(other, arm)):
        verdict = "dominated"
    elif (crossing := crosses(time)) is not None:
        verdict = "crosses"
    elif all(mean.high < 1 for mean in means):
        verdict = "better on average"
    elif all(mean.low > 1 for mean in means):
        verdict = "worse on average"
    elif (means[0].high < 1 and means[1].low > 1) or (means[0].low > 1 and means[1].high < 1):
        verdict = "trades"
    above = None if crossing is None else bool(time.middle[-1] < 0)
    return Dominance(verdict, *means, crossing, above, reach(arm, other))


def crosses(time: Over) -> float | None:
    """The memory at which the better curve changes, where both sides of it are sure."""
    low, high = np.percentile(time.drawn, [2.5, 97.5], axis=0)
    sure = np.where(high < 0, -1, np.where(low > 0, 1, 0))
    known = np.nonzero(sure)[0]
    for before, after in zip(known[:-1], known[1:], strict=True):
        if sure[before] != sure[after]:
            inner = slice(before, after + 1)
            order = np.argsort(time.middle[inner])
            return float(np.exp(np.interp(0.0, time.middle[inner][order], np.log(time.places[inner])[order])))
    return None


def reach(arm: list[Point], other: list[Point]) -> str:
    """What only one of the two can do."""
    said = []
    for axis, low in (("memories", "smaller"), ("times", "faster")):
        mine, theirs = (min(float(np.median(getattr(p, axis))) for p in points) for points in (arm, other))
        spread = max(noise(arm)[axis == "memories"], noise(other)[axis == "memories"])
        if mine < theirs * (1 - max(0.02, 3 * spread)):
            said.append(f"{low} than the other ever gets")
    return " and ".join(said)
