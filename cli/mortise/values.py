"""At which value of a knob an arm should run: the fastest and the smallest of its points against its unset one, in pairs of one round."""

import math
from collections.abc import Callable

import numpy as np

from mortise import curves, formats, stats
from mortise.figures import Document, as_shown, memory_of, peaks_are_exact, runs_of, time_of
from mortise.sweeps import UNSET


def against_unset(document: Document, name: str, shape: list[curves.Point]) -> Document:
    """Time and memory of the two ends of an arm's front against the arm as it is; the values share the chance of a false word."""
    named = {point.knob: point for point in shape}
    if len(named) < 2 or UNSET not in named or curves.no_effect(shape) is not None:
        return {}
    entry, resolve = document["arms"][name], document["settings"]["resolve"]
    level = stats.level_for(len(named) - 1, document["settings"]["level"])
    ends = dict.fromkeys(min(shape, key=lambda p: p.median[axis]).knob for axis in (0, 1))
    found = {}
    for knob in ends:
        if knob != UNSET:
            time, memory = paired(entry, "time", knob, time_of(document)), paired(entry, "memory", knob, memory_of(document))
            if peaks_are_exact(document, [entry]):
                memory = np.concatenate([memory, paired(entry, "time", knob, memory_of(document))])
            found[knob] = {"time": stats.told(time, resolve, level, stats.FIRST_LOOK), "memory": stats.told(memory, resolve, level, 2)}
    return found


def paired(entry: Document, kind: str, knob: str, figure: Callable[[Document], float]) -> np.ndarray:
    """Log differences of one value's runs to those of the unset point, one for each round that has both."""
    unset = {run["round"]: math.log(figure(run)) for run in runs_of(entry, kind)}
    turned = {run["round"]: math.log(figure(run)) for run in runs_of(entry, kind, knob)}
    return np.array([turned[number] - unset[number] for number in sorted(turned) if number in unset])


def decided(report: Document) -> bool:
    """Whether anything is known of a value beyond doubt."""
    results = [result for found in report.get("values", {}).values() for result in found.values() if result]
    return any(result["verdict"] != stats.CANNOT_TELL for result in results)


def lines(document: Document, name: str) -> list[str]:
    """What turning the knob brings, a line a value."""
    report = document["curves"][name]
    if not report.get("values"):
        ends = len(report["points"]) > 1 and not report["why_not"].startswith("no effect")
        if (rounds := min(point["rounds"] for point in report["points"])) < curves.POINT_ROUNDS_MIN:
            return [f"{name}: {curves.counted(rounds)} of every point, too few to say whether a value is faster or smaller than the unset one"] * ends
        return [f"{name}: no value was faster or smaller than the unset one"] * ends
    noun = "of its number" if document["settings"]["metric_regex"] else "time"
    said = []
    for knob, found in report["values"].items():
        time = found["time"] and as_shown(document, "time", found["time"])
        said.append(f"{name} at {knob} against unset: {axis_words(noun, time)}, {axis_words('memory', found['memory'])}")
    return said


def axis_words(axis: str, result: Document | None) -> str:
    if result is None:
        return f"no {axis} known"
    within = f"{formats.ratio(result['ratio'])} [{result['low']:.3f}, {result['high']:.3f}]"
    if result["verdict"] in (stats.FASTER, stats.SLOWER):
        less = result["ratio"] < 1
        return f"{formats.percent(abs(1 - result['ratio']))} {'less' if less else 'more'} {axis} ({within})"
    if result["verdict"] == stats.SAME:
        return f"no more {axis} ({within})"
    return f"{axis} {within} at {result['level'] * 100:.3g} %"
