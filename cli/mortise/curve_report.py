"""What the sweeps of a comparison say: the points of each arm's curve, its law, and each curve against the
reference's.
"""

from dataclasses import asdict

import numpy as np

from mortise import curves, formats, values
from mortise.curves import POINT_ROUNDS_MIN
from mortise.figures import Document, memory_of, peaks_are_exact, runs_of, time_of
from mortise.sweeps import UNSET


def knobs_of(entry: Document) -> list[str | None]:
    """The values that were run, the unset one first, numbers by size, words by spelling."""
    return sorted({run.get("knob") for run in entry["runs"]}, key=place_of)


def place_of(knob: str | None) -> tuple[int, float, str]:
    try:
        return (0, 0.0, "") if knob is None else (1, float(knob), "")
    except ValueError:
        return 2, 0.0, knob or ""


def points(document: Document, entry: Document) -> list[curves.Point]:
    """One point a value with runs of both kinds; memory is above the bare image as everywhere."""
    time, memory = time_of(document), memory_of(document)
    weighed = ("memory", "time") if peaks_are_exact(document, [entry]) else ("memory",)
    found = []
    for knob in knobs_of(entry):
        times = [time(run) for run in runs_of(entry, "time", knob)]
        memories = [memory(run) for kind in weighed for run in runs_of(entry, kind, knob)]
        if times and memories:
            found.append(curves.Point(knob or UNSET, np.array(times), np.array(memories)))
    return found


def swept(document: Document) -> bool:
    return any(run.get("knob") is not None for entry in document["arms"].values() for run in entry["runs"])


EFFECT_ROUNDS_MIN = 3


def conclude(document: Document) -> tuple[Document, Document]:
    """The curves of all arms, and their comparison with the reference's; empty without a sweep."""
    if not swept(document):
        return {}, {}
    seed = document["settings"]["seed"]
    shapes = {name: points(document, entry) for name, entry in document["arms"].items() if not entry["failure"]}
    shapes = {name: shape for name, shape in shapes.items() if shape}
    reports = {name: curve(document["arms"][name], shape, seed) | {"values": values.against_unset(document, name, shape)} for name, shape in shapes.items()}
    reference = document["reference"]
    against = {
        name: comparison(shape, shapes[reference], seed)
        for name, shape in shapes.items()
        if name != reference and reference in shapes
    }
    return reports, against


def shows_effect(document: Document, name: str) -> bool:
    """Whether the arm's points differ beyond chance: then something reads the knob, wherever its name stands."""
    shape = points(document, document["arms"][name])
    enough = len(shape) > 1 and fewest_rounds(shape) >= EFFECT_ROUNDS_MIN
    return enough and curves.no_effect(shape) is None


def curve(entry: Document, shape: list[curves.Point], seed: int) -> Document:
    law, why_not = curves.fit(shape, seed) if len(shape) > 1 else (None, "not swept: one point")
    if law and (rounds := fewest_rounds(shape)) < POINT_ROUNDS_MIN:
        law, why_not = None, f"no law from {curves.counted(rounds)} of every point: {POINT_ROUNDS_MIN} are needed"
    front = {tuple(row) for row in curves.staircase(curves.medians(shape)).tolist()}
    rows = [
        {"knob": p.knob, "time": rounded(p.median[0]), "memory": rounded(p.median[1]), "rounds": p.rounds,
         "on_front": p.median in front}
        for p in shape
    ]  # fmt: skip
    return {
        "points": rows,
        "law": law and law_document(law),
        "why_not": why_not,
        "died": {k: d["reason"] for k, d in entry["died"].items()},
    }


def law_document(law: curves.Law) -> Document:
    found = {key: rounded(value) for key, value in asdict(law).items() if key != "intervals"}
    return found | {"intervals": {key: [rounded(v) for v in value] for key, value in law.intervals.items()}}


def comparison(shape: list[curves.Point], reference: list[curves.Point], seed: int) -> Document:
    found = asdict(curves.compare(shape, reference, seed))
    if fewest_rounds(shape + reference) < POINT_ROUNDS_MIN:
        found |= {"verdict": "cannot tell", "crosses_at": None, "faster_above": None, "reach": ""}
    for axis in ("time", "memory"):
        found[axis] = {key: rounded(value) for key, value in found[axis].items()}
    found["crosses_at"] = found["crosses_at"] and rounded(found["crosses_at"])
    return found


def fewest_rounds(shape: list[curves.Point]) -> int:
    return min(point.rounds for point in shape)


def rounded(value: float) -> float | None:
    return float(f"{value:.6g}") if np.isfinite(value) else None


def decided(document: Document) -> bool:
    """Whether more rounds would change a word: every curve lies clearly on one side of the reference's, or crosses
    it.
    """
    against = verdicts(document)
    return bool(against) and all(v in ("dominates", "dominated", "crosses", "trades") for v in against.values())


def verdicts(document: Document) -> dict[str, str]:
    """The verdicts alone, without the laws, which take long to fit."""
    seed = document["settings"]["seed"]
    shapes = {name: points(document, entry) for name, entry in document["arms"].items() if not entry["failure"]}
    reference = shapes.get(document["reference"])
    if not reference:
        return {}
    others = {name: shape for name, shape in shapes.items() if name != document["reference"] and shape}
    return {name: curves.compare(shape, reference, seed).verdict for name, shape in others.items()}


# ---- words -------------------------------------------------------------------


def table(document: Document) -> list[list[str]]:
    """The points of every curve, a row a value and a column an arm, headings first; empty without a sweep."""
    curves_ = {name: report for name, report in document["curves"].items() if len(report["points"]) > 1 or report["died"]}
    if not curves_:
        return []
    shown: dict[str, dict[str, str]] = {}
    for name, report in curves_.items():
        for point in report["points"]:
            mark = "" if point["on_front"] else " (beaten)"
            shown.setdefault(point["knob"], {})[name] = f"{number(document, point['time'])}, {formats.size(point['memory'])}{mark}"
        for value in report["died"]:
            shown.setdefault(value, {}).setdefault(name, "fails")
    values = sorted(shown, key=lambda value: place_of(None if value == UNSET else value))
    return [["value", *curves_], *([value, *(shown[value].get(name, "-") for name in curves_)] for value in values)]


def number(document: Document, time: float) -> str:
    """A time as it is shown, or the program's own number, of which the inverse is what is compared where more is better."""
    settings = document["settings"]
    if not settings["metric_regex"]:
        return formats.seconds(time)
    return f"{1 / time if settings.get('metric_better', 'more') == 'more' else time:.6g}"


def lines(document: Document) -> list[str]:
    """The verdict on each curve, and the law of each, as the terminal shows them."""
    said = []
    for name, result in document["dominance"].items():
        said += verdict_lines(document, name, result)
        rounds = min(p["rounds"] for n in (name, document["reference"]) for p in document["curves"][n]["points"])
        if rounds < POINT_ROUNDS_MIN:
            said.append(f"    a verdict on curves needs {POINT_ROUNDS_MIN} rounds of every point; there were {rounds}: raise --budget or --rounds")
    for name, report in document["curves"].items():
        said += values.lines(document, name) + [law_line(name, report)]
        said += [f"{name}: at {knob} it {reason}" for knob, reason in report["died"].items()]
    return said


VERDICTS = {
    "dominates": "{arm} dominates {reference}",
    "dominated": "{arm} is dominated by {reference}",
    "better on average": "{arm} is better than {reference} on average",
    "worse on average": "{arm} is worse than {reference} on average",
    "crosses": "{arm} crosses {reference} at {at}: with more memory {above} is faster",
    "trades": "{arm} and {reference} trade time for memory: {faster} is faster, {smaller} smaller",
    "cannot tell": "can't tell whether {arm} or {reference} has the better curve",
}


def verdict_words(name: str, reference: str, result: Document) -> str:
    """What the two curves come to, in one clause."""
    faster = bool(result["time"]) and result["time"]["ratio"] < 1
    return VERDICTS[result["verdict"]].format(
        arm=name, reference=reference, at=formats.size(result["crosses_at"]),
        above=name if result.get("faster_above") else reference,
        faster=name if faster else reference, smaller=reference if faster else name,
    )  # fmt: skip


def sentence(document: Document) -> list[str]:
    """The same for every curve, with its figures: one sentence each."""
    said = []
    for name, result in document["dominance"].items():
        figures = [f"{axis} {ratio_of(result[axis])} at equal {other}" for axis, other in (("time", "memory"), ("memory", "time")) if result[axis]]
        said.append(f"{verdict_words(name, document['reference'], result)} ({', '.join(figures)})")
    return said


def verdict_lines(document: Document, name: str, result: Document) -> list[str]:
    said = [f"curves: {verdict_words(name, document['reference'], result)}"]
    for axis, other in (("time", "memory"), ("memory", "time")):
        if mean := result[axis]:
            ends = [formats.size(mean[end]) if other == "memory" else number(document, mean[end]) for end in ("range_low", "range_high")]
            where = f"from {ends[0]} to {ends[1]}" if ends[0] != ends[1] else f"of {ends[0]}"
            said.append(f"    {axis} {ratio_of(mean)}, at worst {formats.ratio(mean['worst'])}, at equal {other} {where}")
    if result["reach"]:
        said.append(f"    {name} gets {result['reach']}")
    return said


def ratio_of(mean: Document) -> str:
    return f"{formats.ratio(mean['ratio'])} [{mean['low']:.3f}, {mean['high']:.3f}]"


def law_line(name: str, report: Document) -> str:
    law = report["law"]
    if law is None:
        return f"{name}: {report['why_not']}"
    spans = law["intervals"]
    a = f"a {formats.seconds(law['a'])} [{formats.seconds(spans['a'][0])}, {formats.seconds(spans['a'][1])}]"
    c = f"c {formats.size(law['c'])} [{formats.size(spans['c'][0])}, {formats.size(spans['c'][1])}]"
    b = f"b {law['b'] / 2**20:.3g} MiB s [{spans['b'][0] / 2**20:.3g}, {spans['b'][1] / 2**20:.3g}]"
    error = law["left_out_error"]
    missed = "" if error is None else f"; a point left out is missed by {formats.percent(error)}"
    return f"{name}: memory = c + b / (time - a) with {a}, {b}, {c}{missed}"
