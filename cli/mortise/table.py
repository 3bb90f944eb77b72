"""A comparison as a table: on the terminal with rich, in a pull request as Markdown. The words are the same."""

import shlex
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from mortise import analysis, curve_report, formats, profiles, scatter, screen, stats
from mortise.figures import as_shown, memory_base, memory_key, rounds_of, sampling_duty

PAIRED = "a ratio pairs the runs of one round and is the Hodges-Lehmann median over the rounds, not the quotient of the medians shown"
POINTS = "every point of the curves: time and memory as the knob turns (the table above holds the unset ones)"
STYLES = {stats.FASTER: "green", stats.SLOWER: "red"}


def headings(document: dict[str, Any]) -> list[str]:
    settings = document["settings"]
    first = (
        "its own number" if settings["metric_regex"] else {"cpu": "CPU time", "wall": "wall time"}[settings["time"]]
    )
    memory = {"peak": "peak memory", "avg": "average memory", "anon": "anonymous memory"}[settings["memory"]]
    against = [f"against {document['reference']}, paired"] if analysis.others(document) else []
    return ["arm", "served", first, *against, memory, *against]


def rows(document: dict[str, Any]) -> list[list[str]]:
    return [row(document, name, entry) for name, entry in document["arms"].items()]


def row(document: dict[str, Any], name: str, entry: dict[str, Any]) -> list[str]:
    """The cells of one arm; a line break in a cell parts what decides from what stands beside it."""
    served = "-" if entry["served"] is None else f"{entry['served'] * 100:.0f} %"
    alone = not analysis.others(document)
    if entry["failure"]:
        failed = f"failed\n{entry['failure']}"
        return [name, served, failed, "-"] if alone else [name, served, "-", failed, "-", "-"]
    versus = entry["vs_reference"] or {}
    figures = times(document, entry["medians"]), memory(document, entry["medians"])
    against = ([verdict(document, axis, versus.get(axis), name == document["reference"])] * (not alone) for axis in ("time", "memory"))
    return [name, served, *(cell for figure, word in zip(figures, against, strict=True) for cell in (figure, *word))]


def times(document: dict[str, Any], medians: dict[str, float]) -> str:
    cpu, wall = (formats.seconds(medians.get(key)) for key in ("cpu_s", "wall_s"))
    if document["settings"]["metric_regex"]:
        return f"{medians['metric']:.6g}\n{wall} wall, {cpu} CPU" if "metric" in medians else "-"
    return f"{cpu}\n{wall} wall" if document["settings"]["time"] == "cpu" else f"{wall}\n{cpu} CPU"


def memory(document: dict[str, Any], medians: dict[str, float]) -> str:
    """Above what the program's bare image holds, which is the same for every arm."""
    key = memory_key(document)
    return formats.size(max(medians[key] - memory_base(document), 0)) if key in medians else "-"


def verdict(document: dict[str, Any], axis: str, result: dict[str, Any] | None, is_reference: bool) -> str:
    """The word, which only an interval that carries it allows; then ratio and interval, with its level where that is less than asked."""
    if is_reference:
        return "reference"
    if result is None:
        return "-"
    result = as_shown(document, axis, result)
    if result["rounds"] < 2:
        return f"{analysis.word(result)}\n{formats.ratio(result['ratio'])}, no interval from one round"
    level = f" at {result['level'] * 100:.3g} %" if result["level"] < analysis.level(document) - 1e-3 else ""
    return f"{analysis.word(result)}\n{formats.ratio(result['ratio'])} [{result['low']:.3f},{result['high']:.3f}]{level}"


def show(document: dict[str, Any]) -> None:
    screen.out.print(title(document), style="italic", markup=False, soft_wrap=True)
    table = Table(box=screen.LINES, pad_edge=False)
    for heading in headings(document):
        table.add_column(heading, overflow="fold", min_width=13 if heading.startswith("against") else 6)
    for name, cells in zip(document["arms"], rows(document), strict=True):
        styles = cell_styles(document["arms"][name], not analysis.others(document))
        table.add_row(*(Text(cell, style=style) for cell, style in zip(cells, styles, strict=True)))
    screen.out.print(table)
    points = curve_report.table(document)
    if points:
        screen.out.print(POINTS, markup=False, soft_wrap=True)
        swept = Table(box=screen.LINES, pad_edge=False)
        for heading in points[0]:
            swept.add_column(heading, overflow="fold")
        for cells in points[1:]:
            swept.add_row(*(Text(cell) for cell in cells))
        screen.out.print(swept)
    for line in scatter.draw(document):
        screen.out.print(line, markup=False, soft_wrap=True)
    for line in notes(document):
        screen.out.print(line, markup=False, soft_wrap=True)


def cell_styles(entry: dict[str, Any], is_alone: bool) -> list[str]:
    if is_alone:
        return ["bold", "", "red" if entry["failure"] else "", ""]
    if entry["failure"]:
        return ["bold", "", "", "red", "", ""]
    versus = entry["vs_reference"] or {}
    words = [(versus.get(axis) or {}).get("verdict") for axis in ("time", "memory")]
    return ["bold", "", "", STYLES.get(words[0] or "", ""), "", STYLES.get(words[1] or "", "")]


def title(document: dict[str, Any]) -> str:
    return "mortise compare -- " + shlex.join(document["argv"])


def notes(document: dict[str, Any]) -> list[str]:
    """What must be known to read the table."""
    conclusion = document["conclusion"]
    timed, watched = (len(rounds_of(document, kind)) for kind in ("time", "memory"))
    machine, duty = document["machine"], sampling_duty(document)
    sampled = "" if duty is None else f" (sampled, which takes {duty * 100:.2g} % of their time)"
    lines = [
        f"{timed} time rounds and {watched} memory rounds{sampled} in {document['elapsed_s']:.0f} s, order shuffled, "
        f"seed {document['settings']['seed']}; intervals at {analysis.level(document) * 100:.4g} %; " + bare_image(document),
        f"control: {conclusion['control_says']}",
        f"machine: {machine['cpus']} CPUs, {machine['cpu']}, Linux {machine['kernel']}, "
        f"huge pages {machine['transparent_huge_pages']}, load {machine['load']}{stolen(document)}",
    ]
    if analysis.others(document):
        lines.insert(1, PAIRED)
    if (times := document["settings"].get("repeat_inside", 1)) > 1:
        lines.append(f"main ran {times} times in each time run, in copies of the loaded program; times, faults and switches are of one")
    lines += instructions(document)
    lines += of_the_program(document)
    if document.get("gave_up"):
        within = f"{document['settings']['budget_s']:.0f} s"
        lines.append(f"stopped early: by all that was seen {within} would not have decided more; who names a --budget has it used up")
    lines += ["interrupted: what had been measured until then"] * bool(document.get("interrupted"))
    lines += analysis.warnings(document)
    lines += analysis.node_lines(document)
    lines += [f"gate '{text}': {state}" for text, state in document["gates"].items()]
    lines += curve_report.lines(document)
    lines += profiles.lines(document.get("profile"))
    return [*lines, *keeping(document), f"verdict: {conclusion['sentence']}"]


def bare_image(document: dict[str, Any]) -> str:
    if document["baseline_bytes"]:
        return f"memory is above the program's bare image ({formats.size(document['baseline_bytes'])})"
    return "memory is all that the program holds, since the bare image of a static one cannot be read"


def stolen(document: dict[str, Any]) -> str:
    """What the host took from this machine meanwhile, where it is one of several on a host."""
    whole = document["elapsed_s"] * document["machine"]["cpus"]
    return f", steal {formats.percent(document['steal_s'] / whole)}" if document["machine"]["virtual"] and whole else ""


def instructions(document: dict[str, Any]) -> list[str]:
    """What the processor counted, where it lets one count: next to no noise, but not what a user waits for."""
    known = {name: e["medians"]["instructions"] for name, e in document["arms"].items() if "instructions" in e["medians"]}
    reference = known.pop(document["reference"], None)
    if not reference or not known:
        return []
    against = ", ".join(f"{name} {formats.ratio(value / reference)}" for name, value in known.items())
    return [f"instructions (user mode, counted in the warm-up): {document['reference']} {formats.count(reference)}, {against}"]


# What preflight found that decides what the arms of a table mean.
DECISIVE = ("links-allocator", "library-malloc", "own-pools", "private-api", "built-in", "stdin")


def of_the_program(document: dict[str, Any]) -> list[str]:
    found = document["preflight"]
    name = Path(found.get("program", "the program")).name
    return [f"{name} {finding['text']}" for finding in found.get("findings", []) if finding["code"] in DECISIVE]


def keeping(document: dict[str, Any]) -> list[str]:
    """How to run on the arm that won, where `mortise run` can."""
    best = document["conclusion"]["best"]
    entry = document["arms"].get(best)
    if entry is None or entry["kind"] not in ("ours", "peer", "library"):
        return []
    name = entry["library"] if entry["kind"] == "library" else best.partition(":")[0]
    settings = entry["env"].get("MORTISE_CONF")
    words = ["mortise", "run", "--alloc", name, *(["--conf", settings] if settings else []), "--", *document["argv"]]
    return [f"to keep it: {shlex.join(words)}"]


def markdown(document: dict[str, Any]) -> str:
    """The table as users paste it."""

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"

    head = headings(document)
    body = [line(head), line(["---"] * len(head)), *(line(cells) for cells in rows(document))]
    said = [f"  - {note.strip()}" if note.startswith(" ") else f"- {note}" for note in notes(document)]
    points = curve_report.table(document)
    if points:
        body += ["", POINTS, "", line(points[0]), line(["---"] * len(points[0])), *(line(cells) for cells in points[1:])]
    return f"**`{title(document)}`**\n\n" + "\n".join(body) + "\n\n" + "\n".join(said) + "\n"
