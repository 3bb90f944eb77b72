"""The law of time and space, and curves against curves, where the truth is known. A false curve would send users after
a setting that does nothing; a missed one would leave them with two default points, which tell nothing.
"""

import math
import re

import numpy as np
import pytest
from mortise import curve_report, curves, figures, values
from mortise.curves import Point

A, B, C = 1.0, 30.0, 60.0


def law(knobs=7, runs=3, noise=0.03, a=A, b=B, c=C, seed=0, spread=(0.15, 3.0)):
    """Runs of a program that keeps to the law exactly but for noise, mostly in time as on real machines."""
    random = np.random.default_rng(seed)
    latent = a * np.exp(np.linspace(math.log(spread[0]), math.log(spread[1]), knobs))
    return [
        Point(
            str(i),
            (a + u) * np.exp(random.normal(0, noise, runs)),
            (c + b / u) * np.exp(random.normal(0, 0.005, runs)),
        )
        for i, u in enumerate(latent)
    ]


def cloud(pairs, runs=5, noise=0.02, seed=0):
    random = np.random.default_rng(seed)
    return [
        Point(str(i), t * np.exp(random.normal(0, noise, runs)), m * np.exp(random.normal(0, 0.005, runs)))
        for i, (t, m) in enumerate(pairs)
    ]


def test_the_fit_recovers_the_law():
    """Median errors over repeated experiments of 7 values and 3 runs each: a within 5 %, b 15 %, c 4 %."""
    errors = []
    for seed in range(12):
        points = law(seed=seed)
        rows = curves.medians(points)
        a, b, c = curves.fit_once(rows[:, 0], rows[:, 1], *curves.noise(points))[:3]
        errors.append((abs(a / A - 1), abs(b / B - 1), abs(c / C - 1)))
    a, b, c = np.median(errors, axis=0)
    assert a <= 0.05 and b <= 0.15 and c <= 0.04


def test_a_law_comes_with_intervals_that_hold_it():
    found, why = curves.fit(law(knobs=9, runs=5, noise=0.02, seed=4), seed=1, repeats=40)
    assert found is not None, why
    for name, truth in (("a", A), ("b", B), ("c", C)):
        low, high = found.intervals[name]
        assert low * 0.97 <= truth <= high * 1.03, name
    assert found.left_out_error < 0.1 and found.misfit_time < 0.05
    said = curve_report.law_line("mine", {"law": curve_report.law_document(found)})
    assert "mine: memory = c + b / (time - a)" in said and "; a point left out is missed by " in said


@pytest.mark.parametrize(
    "points, why",
    (
        (cloud([(1, 100), (2, 80)]), "distinct points"),
        (cloud([(1.0, 100)] * 6), "distinct points|no effect seen"),
        (cloud([(1.3, 60), (0.57, 90), (0.43, 93), (0.35, 99), (0.3, 108), (0.28, 60), (0.9, 61)]), "no hyperbola"),
        (cloud([(1, 50), (2, 100), (3, 150), (4, 200), (5, 250), (6, 300)]), "no hyperbola"),
        (cloud([(5, 50), (4, 100), (3, 150), (2, 200), (1, 250)]), "no hyperbola"),
        (cloud([(1 + u, (60 + 30 / u) * (1.25, 0.8)[i % 2]) for i, u in enumerate((0.2, 0.4, 0.8, 1.6, 2.4, 3.2))]), "times the noise away"),
        (cloud([(24, 26.5), (24.3, 25.8), (24.1, 26.1), (24.7, 26.2), (23.8, 26.4), (25.0, 26.6), (28, 19)], noise=0.03), "leave b undetermined|would miss"),
        (cloud([(1 + u, 30 / u) for u in (0.2, 0.4, 0.8, 1.6, 3.2, 6.4)], noise=0.002), "c would lie at the end of its range"),
    ),
    ids=("two points", "a knob that does nothing", "a decay knob's staircase", "a rising line", "a falling line", "points beside a law",
         "one value apart from all others",
         "a law without a least memory"),
)
def test_no_false_curve(points, why):
    found, said = curves.fit(points, seed=1, repeats=4)
    assert found is None and re.search(why, said), said


def test_a_knob_without_effect_is_said_to_have_none():
    flat = [Point(str(i), np.random.default_rng(i).normal(1, 0.03, 8), np.full(8, 100.0 + i * 0.5)) for i in range(6)]
    same_memory = [Point(p.knob, p.times, np.random.default_rng(9 + int(p.knob)).normal(100, 1, 8)) for p in flat]
    assert "no effect seen" in (curves.no_effect(same_memory) or "")


def test_too_few_runs_are_not_taken_for_no_effect():
    """Two runs a point cannot tell eight points apart, however far from each other they lie."""
    apart = [Point(str(i), np.array([1.0, 1.01]) + i, np.array([100.0, 101.0]) * (1 + i)) for i in range(8)]
    assert (curves.no_effect(apart) or "").startswith("too few runs to tell whether time or memory changes")
    more_time = [Point(p.knob, np.tile([1.0, 1.01], 3), p.memories) for p in apart]
    assert (curves.no_effect(more_time) or "").startswith("too few runs to tell whether memory changes")
    assert curves.no_effect([Point(p.knob, p.times, np.tile(p.memories, 3)) for p in apart]) is None


def test_twenty_percent_in_b_and_c_dominates():
    found = curves.compare(
        law(runs=5, b=B * 0.8, c=C * 0.8, noise=0.02, seed=1), law(runs=5, noise=0.02, seed=2), seed=3
    )
    assert found.verdict == "dominates"
    assert found.time.worst < 1 and found.memory.worst < 1 and "smaller" in found.reach
    other = curves.compare(
        law(runs=5, noise=0.02, seed=2), law(runs=5, b=B * 0.8, c=C * 0.8, noise=0.02, seed=1), seed=3
    )
    assert other.verdict == "dominated"


def test_identical_curves_never_dominate():
    for seed in range(8):
        found = curves.compare(law(runs=5, seed=seed), law(runs=5, seed=seed + 100), seed=seed)
        assert found.verdict not in ("dominates", "dominated"), seed


def test_curves_that_cross_say_where():
    """One has less memory but more time: they meet where c1 + b1/(t-a1) = c2 + b2/(t-a2)."""
    lean = law(runs=7, a=1.4, c=40, noise=0.01, seed=1)
    fast = law(runs=7, a=1.0, c=80, noise=0.01, seed=2)
    times = np.linspace(1.45, 8, 200000)
    gap = (40 + B / (times - 1.4)) - (80 + B / (times - 1.0))
    where = times[np.nonzero(np.diff(np.sign(gap)))[0][0]]
    truth = 40 + B / (where - 1.4)
    found = curves.compare(lean, fast, seed=3)
    assert found.verdict == "crosses" and not found.faster_above
    assert found.crosses_at == pytest.approx(truth, rel=0.15)
    assert curves.compare(fast, lean, seed=3).faster_above
    said = curve_report.verdict_words("lean", "fast", curve_report.asdict(found))
    assert re.fullmatch(r"lean crosses fast at \S+ B: with more memory fast is faster", said), said


def test_curves_without_a_common_range():
    better, worse = cloud([(1, 10), (1.1, 9)]), cloud([(5, 100), (6, 90)])
    found = curves.compare(better, worse, 1)
    assert found.verdict == "dominates" and found.time.ratio == pytest.approx(1 / 6, rel=0.05) and found.memory.ratio < 0.12
    assert curves.compare(worse, better, 1).verdict == "dominated"
    trade = curves.compare(cloud([(1, 100)]), cloud([(5, 10)]), 1)
    assert trade.verdict == "trades" and trade.time.ratio < 0.3 and trade.memory.ratio > 5


def test_one_point_against_a_curve_that_gets_below_it_on_both_axes():
    """An allocator without a knob against one with: some value of the knob is faster and smaller, though most are larger."""
    curve = cloud([(24, 26.5), (24.3, 25.8), (24.7, 26.2), (25.2, 26.4), (28, 19)])
    assert curves.compare(curve, cloud([(32, 24.2)], seed=1), 1).verdict == "dominates"
    assert curves.compare(cloud([(32, 24.2)], seed=1), curve, 1).verdict == "dominated"
    found = curves.compare(curve, cloud([(26, 18)], seed=1), 1)
    assert found.verdict == "worse on average" and "faster than the other ever gets" in found.reach


def test_the_luckiest_of_many_values_is_no_curve():
    """Seven values of a knob that does nothing against the same program without it: the best of seven would beat it by chance."""
    verdicts = []
    for seed in range(12):
        flat, lone = (cloud([(1, 100)] * points, runs=12, noise=0.1, seed=100 * points + seed) for points in (7, 1))
        verdicts.append(curves.compare(flat, lone, seed).verdict)
    assert verdicts.count("cannot tell") >= 11 and "dominates" not in verdicts, verdicts


def test_the_staircase_leaves_out_what_is_beaten():
    rows = np.array([(3.0, 10.0), (2.0, 20.0), (2.5, 30.0), (1.0, 40.0), (1.0, 50.0)])
    assert curves.staircase(rows).tolist() == [[3.0, 10.0], [2.0, 20.0], [1.0, 40.0]]


def test_what_a_round_does_to_all_points_cancels():
    """On a busy machine a round slows everything alike; drawn together, rounds still tell two close curves apart."""
    random = np.random.default_rng(5)
    busy = np.exp(random.normal(0, 0.15, 12))
    arms = [
        [
            Point(p.knob, p.times * busy, p.memories)
            for p in law(runs=12, noise=0.01, seed=seed, c=C * scale, b=B * scale)
        ]
        for seed, scale in ((1, 0.85), (2, 1.0))
    ]
    assert curves.compare(*arms, seed=3).verdict == "dominates"
    alone = [[Point(p.knob, random.permutation(p.times), p.memories) for p in arm] for arm in arms]
    assert curves.compare(*alone, seed=3).time.high > curves.compare(*arms, seed=3).time.high


def peaks(counted: int, exact: int, **more: object) -> dict:
    """An arm's runs: peaks as the kernel counts them in time rounds, and as they are read at the exit in memory rounds."""
    watched = {"kind": "memory", "processes": 1, "peak_source": "exit_stop", "peak_rss_bytes": exact, "knob": None} | more
    return {"runs": [{"kind": "time", "peak_rss_bytes": counted, "knob": None}, watched]}


def test_peaks_of_time_rounds_count_only_where_they_are_right():
    """The kernel's running count is off by more the more cores there are: where it disagrees with the exact peak it says nothing."""
    document = {"settings": {"memory": "peak"}}
    assert figures.peaks_are_exact(document, [peaks(1000, 1005)])
    for wrong in (peaks(900, 1000), peaks(1000, 1000, processes=2), peaks(1000, 1000, peak_source="samples")):
        assert not figures.peaks_are_exact(document, [peaks(1000, 1000), wrong])
    assert not figures.peaks_are_exact({"settings": {"memory": "avg"}}, [peaks(1000, 1000)])


def swept(times: dict[str, list[float]], memories: dict[str, float]) -> dict:
    """One arm whose knob was turned; these times, and a peak that hardly moves from run to run, at each value."""
    runs = [
        {"kind": kind, "round": number, "knob": None if knob == "unset" else knob, "cpu_s": seconds, "processes": 1, "peak_source": "exit_stop",
         "peak_rss_bytes": memories[knob] + number % 3}
        for knob, row in times.items() for number, seconds in enumerate(row, 1) for kind in ("time", "memory")
    ]  # fmt: skip
    settings = {"time": "cpu", "memory": "peak", "metric_regex": None, "resolve": 0.02, "level": 0.99, "seed": 1}
    entry = {"name": "mine", "runs": runs, "failure": None, "died": {}}
    document = {"settings": settings, "baseline_bytes": 0, "reference": "mine", "arms": {"mine": entry}}
    document["curves"], document["dominance"] = curve_report.conclude(document)
    return document


def test_memory_rounds_that_are_too_few_make_no_verdict_on_curves():
    """What is resampled from one run of a point never varies: of two curves whose memory is noise alone one would dominate."""
    def shape(scale: float, memories: int) -> list[Point]:
        return [Point(str(i), scale * t * np.ones(8), scale * m * np.ones(memories)) for i, (t, m) in enumerate(((1.0, 100), (2.0, 80), (3.0, 70)))]

    said = {n: curve_report.comparison(shape(0.9, n), shape(1.0, n), 1)["verdict"] for n in (1, 4, 5)}
    assert said == {1: "cannot tell", 4: "cannot tell", 5: "dominates"}
    assert [row["rounds"] for row in curve_report.curve({"died": {}}, shape(1.0, 4), 1)["points"]] == [4, 4, 4]


def test_the_best_values_are_said_against_the_unset_one():
    """A law tells nobody what to set: the fastest and the smallest value do, with what each costs on the other axis."""
    busy = np.exp(np.random.default_rng(1).normal(0, 0.1, 14))
    times = {knob: list(scale * busy) for knob, scale in (("unset", 1.0), ("1", 1.5), ("2", 0.7), ("3", 0.9))}
    document = swept(times, {"unset": 100 << 20, "1": 60 << 20, "2": 150 << 20, "3": 100 << 20})
    fast, small = values.lines(document, "mine")
    assert fast.startswith("mine at 2 against unset: 30 % less time (x0.700 [0.700, 0.700]), 50 % more memory (x1.500 ")
    assert small.startswith("mine at 1 against unset: 50 % more time (x1.500 ") and "40 % less memory (x0.600 " in small
    assert values.decided(document["curves"]["mine"])
    few = swept({knob: row[:4] for knob, row in times.items()}, {"unset": 100 << 20, "1": 60 << 20, "2": 150 << 20, "3": 100 << 20})
    assert "mine at 2 against unset: time x0.700 [0.700, 0.700] at 87.5 %" in values.lines(few, "mine")[0]
    best = swept({"unset": list(busy), "1": list(1.5 * busy)}, {"unset": 60 << 20, "1": 90 << 20})
    assert values.lines(best, "mine") == ["mine: no value was faster or smaller than the unset one"]
