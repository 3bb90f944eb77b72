"""From recorded runs to conclusions: a pure function of the document, so that a replay says what the session said."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mortise import curve_report, endings, formats, gates, reach, stats, values
from mortise.errors import CANNOT_TELL, DECIDED, GATE_HIT, RUN_FAILED
from mortise.figures import Document, as_shown, memory_of, peaks_are_exact, runs_of, time_of

HUGE_WORTH_SAYING = 4 << 20
SHORT_S = 0.05  # of a run that takes less, starting is most


def paired(document: Document, entry: Document, kind: str, figure: Callable[[Document], float]) -> np.ndarray:
    """Log differences to the reference, one for each round that both took part in; none where the arm failed."""
    if entry["failure"]:
        return np.array([])
    theirs = reference_logs(document, entry, kind, figure)
    mine = {run["round"]: math.log(figure(run)) for run in runs_of(entry, kind)}
    return np.array([mine[number] - theirs[number] for number in sorted(mine) if number in theirs])


def reference_logs(
    document: Document, entry: Document, kind: str, figure: Callable[[Document], float]
) -> dict[int, float]:
    """The reference's figure in each round. Its control runs the same, so where both ran their mean is less noisy."""
    sources = [document["arms"][document["reference"]]]
    if entry["name"] != "control" and "control" in document:
        sources.append(document["control"])
    found: dict[int, list[float]] = {}
    for source in sources:
        for run in runs_of(source, kind) if not source["failure"] else ():
            found.setdefault(run["round"], []).append(math.log(figure(run)))
    return {number: sum(logs) / len(logs) for number, logs in found.items()}


def memory_pairs(document: Document, entry: Document) -> np.ndarray:
    """As `paired` for memory. The peak of a single process is known in time rounds too, so that these count as well."""
    figure = memory_of(document)
    differences = paired(document, entry, "memory", figure)
    if peaks_are_exact(document, [entry, document["arms"][document["reference"]]]):
        differences = np.concatenate([differences, paired(document, entry, "time", figure)])
    return differences


def others(document: Document) -> list[str]:
    return [name for name in document["arms"] if name != document["reference"]]


def level(document: Document) -> float:
    return stats.level_for(len(others(document)), document["settings"]["level"])


def verdicts(document: Document) -> dict[str, stats.Verdict]:
    """One look at the time of every arm that has runs."""
    found = {}
    for name in others(document):
        differences = paired(document, document["arms"][name], "time", time_of(document))
        if len(differences) >= 2:
            interval = stats.of_differences(differences, level(document))
            found[name] = stats.judge(interval, document["settings"]["resolve"], level(document), differences)
    return found


def result(document: Document, differences: np.ndarray, rounds_min: int) -> Document | None:
    """Ratio, interval and verdict of one axis of one arm, as the JSON holds them."""
    return stats.told(differences, document["settings"]["resolve"], level(document), rounds_min)


def time_result(document: Document, entry: Document) -> Document | None:
    """Time against the reference, with the ratio of the fastest runs beside it as a cross-check."""
    figure = time_of(document)
    found = result(document, paired(document, entry, "time", figure), stats.FIRST_LOOK)
    if found is not None:
        theirs = runs_of(document["arms"][document["reference"]], "time") or runs_of(document["control"], "time")  # it may be first to run
        least = [min(map(figure, runs)) for runs in (runs_of(entry, "time"), theirs)]
        found["ratio_of_minima"] = rounded(least[0] / least[1])
    return found


def memory_result(document: Document, entry: Document) -> Document | None:
    """Memory against the reference. Memory rounds are fewer than time rounds; what they lack is level, and the level
    decides.
    """
    return result(document, memory_pairs(document, entry), 2)


def rounded(value: float) -> float:
    return float(f"{value:.6g}")


def medians(entry: Document) -> Document:
    """What the table shows; times from time rounds, memory from memory rounds."""
    timed, watched = runs_of(entry, "time"), runs_of(entry, "memory")
    found: Document = {}
    for key, runs in (
        ("wall_s", timed),
        ("cpu_s", timed),
        ("user_s", timed),
        ("sys_s", timed),
        ("minor_faults", timed),
        ("involuntary_switches", timed),
        ("metric", timed),
        ("peak_rss_bytes", watched),
        ("avg_rss_bytes", watched),
        ("peak_anon_bytes", watched),
        ("instructions", runs_of(entry, "warmup")),
        ("cycles", runs_of(entry, "warmup")),
    ):
        values = [r[key] for r in runs if r.get(key) is not None]
        if values:
            found[key] = rounded(float(np.median(values)))
    return found


def conclude(document: Document) -> Document:
    """The document with its conclusions, recomputed from the runs and from nothing else."""
    document = dict(document)
    document["arms"] = {name: dict(entry) for name, entry in document["arms"].items()}
    for name, entry in document["arms"].items():
        entry["served"] = reach.served(entry)
        entry["malloc_from"] = sorted({library for run in entry["runs"] for library in run["malloc_from"]})
        entry["medians"] = medians(entry)
        entry["vs_reference"] = None
        if name != document["reference"] and not entry["failure"]:
            entry["vs_reference"] = {"time": time_result(document, entry), "memory": memory_result(document, entry)}
    if "control" in document:
        control = dict(document["control"])
        control["time"] = None if control["failure"] else time_result(document, control)
        document["control"] = control
    document["curves"], document["dominance"] = curve_report.conclude(document)
    document["gates"] = gates.states(document)
    document["conclusion"] = conclusion(document)
    return document


def conclusion(document: Document) -> Document:
    """The sentence under the table, and the exit status that goes with it."""
    failed = [name for name, entry in document["arms"].items() if entry["failure"]]
    undecided = [n for n in others(document) if n not in failed and verdict_of(document, n, "time") in (None, stats.CANNOT_TELL)]
    if document["dominance"]:
        undecided = [n for n, result in document["dominance"].items() if result["verdict"] == "cannot tell"]
        undecided += [n for n in others(document) if n not in (*failed, *document["dominance"])]
    trusted, doubt = control_says(document)
    best = winner(document) if trusted else None
    hit = [text for text, state in document["gates"].items() if state == "hit"]
    reached = trusted and not undecided and len(failed) < len(document["arms"])
    if not others(document):
        reached = alone_decided(document)
    status = RUN_FAILED if failed else GATE_HIT if hit else DECIDED if reached else CANNOT_TELL
    said = sentence(document, best, undecided, failed, trusted, doubt)
    return {"exit_status": status, "failed": failed, "undecided": undecided, "control_trusted": trusted,
            "control_says": doubt, "best": best, "gates_hit": hit, "sentence": said}  # fmt: skip


def alone_decided(document: Document) -> bool:
    """Whether the sweep of an arm that is compared with nothing but itself says anything beyond doubt."""
    return any(curve["law"] or values.decided(curve) for curve in document["curves"].values())


def control_says(document: Document) -> tuple[bool, str]:
    """The reference against itself: what this machine can see, and whether it sees ghosts."""
    result = document.get("control", {}).get("time")
    if not result:
        return True, "no control was run"
    resolve = document["settings"]["resolve"]
    seen = math.expm1((math.log(result["high"]) - math.log(result["low"])) / 2)
    interval = f"{formats.ratio(result['ratio'])} [{result['low']:.3f}, {result['high']:.3f}]" if result["rounds"] > 1 else formats.ratio(result["ratio"])
    count = f"{result['rounds']} round{'s' * (result['rounds'] != 1)}"
    text = f"{document['reference']} against itself {interval} over {count}"
    if result["level"] < level(document) - 1e-3:
        return True, f"{text}: too few to say what this machine can see"
    if result["low"] > 1 + resolve or result["high"] < 1 / (1 + resolve):
        return False, f"{text}: this machine sees a difference where there is none, so no verdict holds"
    if seen > resolve:
        return (
            True,
            f"{text}: {formats.percent(resolve)} cannot be resolved in these rounds, {formats.percent(seen)} can",
        )
    return True, f"{text}: differences under {formats.percent(seen)} are not visible here"


def winner(document: Document) -> str | None:
    """Of the arms that are faster than the reference beyond doubt the one that takes the least time."""
    faster = [name for name in others(document) if verdict_of(document, name, "time") == stats.FASTER]
    return min(faster, key=lambda name: document["arms"][name]["vs_reference"]["time"]["ratio"]) if faster else None


def verdict_of(document: Document, name: str, axis: str) -> str | None:
    result = (document["arms"][name]["vs_reference"] or {}).get(axis)
    return result["verdict"] if result else None


def sentence(
    document: Document, best: str | None, undecided: list[str], failed: list[str], trusted: bool, doubt: str
) -> str:
    """What a user with no time reads."""
    reference = document["reference"]
    if not trusted:
        return f"can't tell: {doubt}"
    if len(failed) == len(document["arms"]):
        return f"every arm failed, nothing was compared: {document['arms'][reference]['failure']}"
    parts = [f"--fail-if hit: {text}" for text, state in document["gates"].items() if state == "hit"]
    if document["dominance"]:
        parts += curve_report.sentence(document)
        parts += [f"can't tell for {name} (no point of its curve is known)" for name in undecided if name not in document["dominance"]]
        return ". ".join(parts + [f"failed: {', '.join(failed)}"] * bool(failed))
    if not others(document):
        laws = [curve_report.law_line(name, curve) for name, curve in document["curves"].items()]
        said = "; ".join([line for name in document["curves"] for line in values.lines(document, name)] or laws)
        return said if alone_decided(document) else f"can't tell: {said}"
    if best:
        time = as_shown(document, "time", document["arms"][best]["vs_reference"]["time"])
        sure = " and ".join(formats.percent(share) for share in sorted(abs(1 - time[end]) for end in ("low", "high")))
        takes = f"has a number of its own that is {word(time)}" if document["settings"]["metric_regex"] else f"takes {word(time)} time"
        parts.append(f"{best} {takes} than {reference} (between {sure}){size_of(document, best)}")
    elif not undecided:
        by = f" by more than {formats.percent(document['settings']['resolve'])}" if near(document) else ""
        own = bool(document["settings"]["metric_regex"])
        parts.append(f"nothing here is {'better' if own else 'faster'} than {reference}{by}")
        parts += [f"{name} takes {formats.ratio(r['low'])} to {formats.ratio(r['high'])} of its {'number' if own else 'time'}"
                  for name, r in times(document, others(document)) if r and r["verdict"] == stats.AS_IT_IS]  # fmt: skip
    if (least := smallest(document)) == reference:
        parts += [f"{reference} holds the least memory"] * (best is None)
    elif least not in (None, best):
        parts.append(f"{least} holds the least memory: {word(document['arms'][least]['vs_reference']['memory'])} than {reference}")
    if undecided:
        ranges = [f"{name} ({range_words(document, r)})" for name, r in times(document, undecided)]
        more = [r["more_rounds"] for _, r in times(document, undecided) if r and r["more_rounds"] and reference not in failed]
        needed = f"; about {max(more)} more rounds would be needed{budget_for(document, max(more))}" if more else ""
        parts.append(f"can't tell for {', '.join(ranges)}{needed}")
    if failed:
        parts.append(f"failed: {', '.join(failed)}")
    return ". ".join(parts)


def range_words(document: Document, result: Document | None) -> str:
    """An interval that decides nothing, with what it is worth where that is less than was asked."""
    if result is None:
        return f"no round has a run of it and one of {document['reference']}"
    if result["rounds"] < 2:
        return f"{formats.ratio(result['ratio'])} in one round, which gives no interval"
    short = f" at {result['level'] * 100:.3g} %" if result["level"] < level(document) - 1e-3 else ""
    return f"{formats.ratio(result['low'])} to {formats.ratio(result['high'])}{short}"


def budget_for(document: Document, rounds: int) -> str:
    """The budget that holds so many rounds more, where it is a longer one; what has been measured stays the measure."""
    timed = [run.get("seconds", 0.0) for e in (*document["arms"].values(), document.get("control", {"runs": []})) for run in runs_of(e, "time")]
    count = len({run["round"] for entry in document["arms"].values() for run in runs_of(entry, "time")})
    wanted = document["elapsed_s"] + rounds * sum(timed) / max(count, 1)
    if wanted <= document["settings"].get("budget_s", math.inf) or document.get("nodes"):
        return ""
    return f" (--budget {math.ceil(wanted / 60)}m --rounds {count + rounds})" if wanted < 86400 else " (more than a day)"


def size_of(document: Document, name: str) -> str:
    """The arm's memory as the sentence on its time goes on."""
    result = document["arms"][name]["vs_reference"]["memory"]
    if not result:
        return ""
    if result["verdict"] in (stats.FASTER, stats.SLOWER):
        return f", and {word(result)} memory"
    return ", and no more memory" if result["verdict"] == stats.SAME else f", memory {formats.ratio(result['ratio'])}"


def near(document: Document) -> bool:
    """Whether some arm is not slower either: what separates it from the reference is of no interest."""
    return any(verdict_of(document, name, "time") in (stats.SAME, stats.AS_IT_IS) for name in others(document))


def smallest(document: Document) -> str | None:
    """The arm that holds the least memory, where some hold less than the reference beyond doubt, or all others more."""
    if all(verdict_of(document, name, "memory") == stats.SLOWER for name in others(document)):
        return document["reference"]
    smaller = [name for name in others(document) if verdict_of(document, name, "memory") == stats.FASTER]
    return min(smaller, key=lambda name: document["arms"][name]["vs_reference"]["memory"]["ratio"], default=None)


def times(document: Document, names: list[str]) -> list[tuple[str, Document]]:
    """As they are shown."""
    found = [(name, (document["arms"][name]["vs_reference"] or {}).get("time")) for name in names]
    return [(name, result and as_shown(document, "time", result)) for name, result in found]


def word(result: Document) -> str:
    """A verdict as the table says it, of a result as it is shown."""
    ratio, verdict = result["ratio"], result["verdict"]
    if verdict in (stats.FASTER, stats.SLOWER):
        return f"{formats.percent(1 - ratio)} less" if ratio < 1 else f"{formats.percent(ratio - 1)} more" if ratio < 2 else f"{ratio:.1f} times"
    return {stats.SAME: "no difference", stats.CANNOT_TELL: "can't tell"}.get(verdict, "as measured")


def warnings(document: Document) -> list[str]:
    """What a careful reader would ask about these runs."""
    found = []
    reference = document["arms"][document["reference"]]
    timed = runs_of(reference, "time")
    times = document["settings"].get("repeat_inside", 1)
    once = float(np.median([run["wall_s"] for run in timed])) if timed else math.inf
    if once * times < SHORT_S:
        enough = f", or repeat main: --repeat-inside {min(1000, math.ceil(10 * SHORT_S / max(once, 1e-4)))}"
        found.append(
            "warning: one run takes under 50 ms, so starting the program is most of what is compared; give it more work"
            + enough * (document["settings"].get("ready") is None and document["settings"].get("load") is None)
        )
    if failing(document):
        found.append(
            f"warning: {Path(document['argv'][0]).name} ended with status {timed[0]['exit_status']} in every run: what was compared is how "
            "it fails; check its arguments"
        )
    left = max((run.get("left_behind", 0) for entry in document["arms"].values() for run in entry["runs"]), default=0)
    if left and not document["settings"].get("load"):
        found.append(f"warning: {endings.outlived(left)}")
    found += reach.warnings(document)
    if restless(document):
        found.append(
            "noisy machine: more than a third of the runs took a quarter longer than they need; trust CPU time"
        )
    proven = [f"'{name}'" for name in document["curves"] if curve_report.shows_effect(document, name)]
    unread = [f["text"] for f in document["preflight"].get("findings", []) if f["code"] == "unverified-knob"]
    found += [text for text in unread if not any(name in text for name in proven)]
    for name, entry in document["arms"].items():
        if share := reach.partly(entry):
            found.append(f"warning: {name} served only {formats.percent(share)} of the processes")
        huge = max((run.get("huge_page_bytes", 0) for run in runs_of(entry, "memory")), default=0)
        if huge > HUGE_WORTH_SAYING:
            found.append(
                f"note: huge pages hold {formats.size(huge)} of {name}'s memory at its end: pages it never touched among them"
            )
        result = (entry.get("vs_reference") or {}).get("time")
        if result and result["level"] >= level(document) - 1e-3 and not result["low"] <= result["ratio_of_minima"] <= result["high"]:
            found.append(
                f"note: {name}: the fastest runs give {formats.ratio(result['ratio_of_minima'])}, outside the interval"
            )
    return found


def failing(document: Document) -> bool:
    """Whether the reference always ended as programs do that cannot do what they were asked; whoever gave a check of his own knows."""
    settings, entry = document["settings"], document["arms"][document["reference"]]
    statuses = {run.get("exit_status", 0) for run in entry["runs"]}
    judged = settings.get("check", "stdout") in ("stdout", "exit") and not settings.get("load")
    return judged and not entry["failure"] and len(statuses) == 1 and statuses != {0}


def restless(document: Document) -> bool:
    """Whether neighbours held up many runs: wall time far above the least that the same arm needed."""
    runs = [(run["wall_s"], entry) for entry in document["arms"].values() for run in runs_of(entry, "time")]
    held_up = [wall > 1.25 * min(r["wall_s"] for r in runs_of(entry, "time")) for wall, entry in runs]
    return len(held_up) > 3 and sum(held_up) > len(held_up) / 3


def node_lines(document: Document) -> list[str]:
    """What each machine of several says about each arm; never a time of one against a time of another."""
    if len(document.get("nodes", {})) < 2:
        return []
    from scipy.stats import kruskal

    said = [f"{len(document['nodes'])} machines: {', '.join(document['nodes'])}; ratios are within machines"]
    for name in others(document):
        entry = document["arms"][name]
        if entry["failure"]:
            continue
        figure, groups = time_of(document), {}
        theirs = reference_logs(document, entry, "time", figure)
        for run in runs_of(entry, "time"):
            if run["round"] in theirs:
                groups.setdefault(run["node"], []).append(round(math.log(figure(run)) - theirs[run["round"]], 9))
        shown = [f"{node} {formats.ratio(math.exp(float(np.median(g))))}" for node, g in groups.items()]
        enough = len(groups) > 1 and min(map(len, groups.values())) > 2
        enough = enough and np.ptp(np.concatenate(list(groups.values()))) > 0
        differ = enough and kruskal(*groups.values()).pvalue < 0.01
        said.append(f"{name} by machine: {', '.join(shown)}" + ("; these machines disagree" if differ else ""))
    return said
