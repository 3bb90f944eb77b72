"""Latencies on the terminal: a table for malloc and one for free, then the slowest calls and what must be known to read it."""

from typing import Any

from rich.table import Table
from rich.text import Text

from mortise import endings, formats, reach, screen, symbols
from mortise.latency import SHARES
from mortise.profiles import several

WIDTH_MIN = 116
ALWAYS, EMPTY = ("malloc", "free"), "empty"


def kinds_shown(document: dict[str, Any]) -> list[str]:
    """malloc and free; the others where they were called."""
    arms = document["arms"].values()
    return [k for k in ("malloc", "calloc", "realloc", "aligned", "free")
            if k in ALWAYS or any(a["kinds"][k]["timed"] >= 1000 for a in arms)]  # fmt: skip


def show(document: dict[str, Any]) -> None:
    wide = screen.at_least(WIDTH_MIN)
    for kind in [*kinds_shown(document), EMPTY]:
        wide.print(table(document, kind))
    for name, entry in document["arms"].items():
        if entry["slow"]:
            wide.print(slow_table(name, entry))
    for line in notes(document):
        screen.out.print(line, markup=False, soft_wrap=True)


def table(document: dict[str, Any], kind: str) -> Table:
    title = "empty: nothing, timed in the same way" if kind == EMPTY else kind
    found = Table(box=screen.LINES, title=title, title_justify="left", pad_edge=False)
    found.add_column("arm")
    for heading in headings():
        found.add_column(heading, justify="right", no_wrap=True)
    for name, entry in document["arms"].items():
        if entry["failure"]:
            found.add_row(Text(name, style="bold"), Text("failed", style="red"))
        else:
            found.add_row(Text(name, style="bold"), *cells(entry["kinds"][kind]))
    return found


def headings() -> list[str]:
    return ["timed", *(f"p{share * 100:.6g}" for share in SHARES), "worst", "torn"]


def cells(kind: dict[str, Any]) -> list[str]:
    if not kind["timed"]:
        return ["0", *("-" for _ in SHARES), "-", "-"]
    shares = [figure(kind["percentiles_ns"].get(f"{share:g}")) for share in SHARES]
    return [f"{kind['timed']:,}", *shares, figure(kind["worst_ns"]), f"{kind['torn']:,}" if kind["torn"] else "-"]


def figure(ns: float | None) -> str:
    return "-" if ns is None else formats.seconds(ns * 1e-9)


def slow_table(name: str, entry: dict[str, Any]) -> Table:
    found = Table(box=screen.LINES, title=f"{name}: the slowest calls", title_justify="left", pad_edge=False)
    for heading in ("took", "call", "cause", "from"):
        found.add_column(heading, overflow="fold")
    for call in entry["slow"]:
        found.add_row(*map(Text, slow_cells(call)))
    return found


def slow_cells(call: dict[str, Any]) -> list[str]:
    size = formats.size(call["bytes"]) if call["bytes"] else ""
    return [figure(call["ns"]), f"{call['kind']}({size})", call["cause"], symbols.words(call["site"])]


def notes(document: dict[str, Any]) -> list[str]:
    """What must be known to read the figures."""
    clock, every = document["clock"], document["settings"]["every"]
    timed = "every call is timed" if every == 1 else f"one call in {every} is timed, at random, and fewer where calls are dense"
    lines = [
        f"{timed}; the layer adds {document['overhead_ns']:.1f} ns to a call here; clock: {clock['source']} "
        f"({clock['why']}), in steps of {clock['step_ns']:.0f} ns; an empty pair of readings takes "
        f"{clock['empty_ns']:.0f} ns and is in every figure",
        f"steal: the host took {document['steal_s']:.2f} s of all CPUs in {document['elapsed_s']:.0f} s; "
        f"load {document['machine']['load']}, {document['machine']['cpus']} CPUs",
        "torn: calls that a preemption interrupted; they are in no percentile. cause: what the kernel did to the thread "
        "then; none seen: its own work, cache misses, an interrupt or the host",
    ]
    for name, entry in document["arms"].items():
        if entry["failure"]:
            lines.append(f"{name}: failed: {entry['failure']}")
            continue
        lines += [f"{name}: was ended by {signal}: its figures are of the calls until then" for signal in entry.get("killed_by", [])]
        lines += [f"{name}: {endings.outlived(entry['left_behind'])}"] * bool(entry.get("left_behind"))
        lines += [f"{name}: {line}"] if (line := reach.part(reach.of_run(entry))) else []
        torn = f"; the worst torn call took {figure(entry['torn'][0]['ns'])}" if entry["torn"] else ""
        statuses = sorted(status for status in set(entry["exit_status"]) - {0} if endings.signal_of(status) not in entry.get("killed_by", []))
        ended = f"; ended with {', '.join(map(str, statuses))}" if statuses else ""
        lost = f"; {entry['untimed_threads']} times a thread found no record and went untimed" if entry["untimed_threads"] else ""
        lines.append(
            f"{name}: {total(entry):,} calls of {several(entry['threads'], 'thread')} in {several(entry['processes'], 'process', 'es')}, "
            f"{entry['minor_faults']:,} page faults (first touches of memory, the program's own among them), "
            f"{formats.seconds(entry['cpu_s'])} CPU, of which the layer about {formats.percent(entry['layer_share'])}"
            f"{torn}{ended}{lost}; malloc from {', '.join(entry['served_by'])}"
        )
    return lines


def total(entry: dict[str, Any]) -> int:
    return sum(kind["calls"] for name, kind in entry["kinds"].items() if name != EMPTY)
