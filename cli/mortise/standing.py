"""How a comparison stands while it runs, in a few lines: nobody should wait for the last word to see whether it is worth waiting for."""

import time
from typing import Any

from mortise import analysis, curve_report, curves, formats, stats
from mortise.figures import Document, as_shown, rounds_of, time_of

FIRST_ROUNDS, EVERY_S = 5, 30.0  # from so many rounds on, and how often at most
WITHIN_S = 100.0  # a program too slow for five rounds by then: what there is


class Teller:
    """Says how things stand from the fifth round on now and then, and within two minutes whatever there is."""

    def __init__(self, progress: Any, started: float):
        self.told = started
        self.say = getattr(progress, "so_far", lambda document, elapsed: None)
        self.say_decided = getattr(progress, "decided", lambda document, name, axis, elapsed: None)
        self.started = started

    def after(self, document: Document, rounds: int) -> None:
        """A round is over."""
        if rounds >= FIRST_ROUNDS:
            self.unless_told_for(EVERY_S, document)

    def early(self, document: Document) -> None:
        """A run is over, within a round."""
        self.unless_told_for(WITHIN_S, document)

    def unless_told_for(self, seconds: float, document: Document) -> None:
        now = time.monotonic()
        if now - self.told > seconds:
            self.told = now
            self.say(document, now - self.started)

    def decided(self, document: Document, name: str, axis: str) -> None:
        self.say_decided(document, name, axis, time.monotonic() - self.started)


def lines(document: Document, elapsed: float) -> list[str]:
    """Ratios with what their intervals really promise after so few rounds; of curves what they say so far."""
    head = f"{elapsed:.0f} s, round {max(rounds_of(document, 'time'), default=0)}"
    if curve_report.swept(document):
        return [head, *curve_lines(document)]
    return [f"{head}, against {document['reference']}", *(arm_line(document, name) for name in analysis.others(document))]


def arm_line(document: Document, name: str) -> str:
    entry = document["arms"][name]
    if entry["failure"]:
        return f"{name}: failed, {entry['failure']}"
    time_, memory = time_result(document, entry, "time"), analysis.memory_result(document, entry)
    said = [axis_words(axis, as_shown(document, axis, result)) for axis, result in (("time", time_), ("memory", memory)) if result]
    if time_ is None and (warmup := time_result(document, entry, "warmup")):
        said.insert(0, f"time {formats.ratio(warmup['ratio'])} in the warm-up, which counts for nothing")
    return f"{name}: {'; '.join(said) or 'its turn is still to come'}"


def time_result(document: Document, entry: Document, kind: str) -> Document | None:
    return analysis.result(document, analysis.paired(document, entry, kind, time_of(document)), stats.FIRST_LOOK)


def axis_words(axis: str, result: Document) -> str:
    if result["rounds"] == 1:
        return f"{axis} {formats.ratio(result['ratio'])} in one round, which says little yet"
    within = f"{formats.ratio(result['ratio'])} [{result['low']:.3f},{result['high']:.3f}]"
    word = "not decided" if result["verdict"] == stats.CANNOT_TELL else analysis.word(result)
    return f"{axis} {within} at {result['level'] * 100:.3g} % from {result['rounds']} pairs, {word}"


def curve_lines(document: Document) -> list[str]:
    """How far each arm's points reach, and what its curve says against the reference's."""
    shapes = {name: curve_report.points(document, entry) for name, entry in document["arms"].items()}
    reference, seed = document["reference"], document["settings"]["seed"]
    said = []
    for name, shape in shapes.items():
        said.append(f"{name}: {reach(document, shape)}")
        if name != reference and shape and shapes[reference]:
            said += curve_report.verdict_lines(document, name, curve_report.comparison(shape, shapes[reference], seed))
    return said


def reach(document: Document, shape: list[curves.Point]) -> str:
    if not shape:
        return "no point has both time and memory yet"
    times, memories = zip(*(point.median for point in shape), strict=True)
    fewest = curve_report.fewest_rounds(shape)
    if len(shape) == 1:
        return f"{curve_report.number(document, times[0])}, {formats.size(memories[0])}, not swept"
    return (f"{len(shape)} points, {curve_report.number(document, min(times))} to "
            f"{curve_report.number(document, max(times))}, {formats.size(min(memories))} to {formats.size(max(memories))}, "
            f"{fewest} round{'s' * (fewest > 1)} of each or more")  # fmt: skip
