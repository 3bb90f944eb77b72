"""`mortise stats`: what a running process holds, by size class and cache."""

from typing import Any

import typer
from rich.table import Table

from mortise import formats, inspecting, screen

SUMS = (
    ("mapped", "mapped_bytes", "address space taken from the system"),
    ("resident", "resident_bytes", "of it in memory"),
    ("live", "live_bytes", "in blocks that the program holds"),
    ("  large", "large_bytes", "of it in blocks that are spans of their own"),
    ("cached", "cached_bytes", "in free blocks, of caches and of slabs"),
    ("free, resident", "dirty_bytes", "in free spans whose pages are there still"),
    ("free, purged", "purged_bytes", "in free spans whose pages went back"),
    ("bookkeeping", "bookkeeping_bytes", "tables beside the blocks"),
)

HEAPS_SHOWN = 10  # --json has all


def command(
    pid: int = typer.Argument(..., metavar="PID", help="The process: 'pgrep -a NAME' finds it."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON (schema mortise.process/1)."),
) -> None:
    """Show the heap of a running process: sums, size classes, caches. It is not stopped, signalled or traced."""
    document = inspecting.process(pid)
    if as_json:
        print(formats.dumps(document), end="")
        return
    for said in document["libraries"]:
        show(document, said)


def with_heaps(said: dict[str, Any]) -> dict[str, Any]:
    """What libmortise lends to heaps is live when they say so."""
    heaps = said.get("heaps", [])
    sums = {key: sum(heap[key] for heap in heaps) for key in ("live_bytes", "large_bytes", "cached_bytes")}
    return {**said, **sums} if heaps else said


def show(document: dict[str, Any], said: dict[str, Any]) -> None:
    said = with_heaps(said)
    title = f"{said['allocator']} {said['version']} in process {document['pid']} ({document['program']})"
    table = Table(box=screen.LINES, title=title, title_justify="left")
    table.add_column("heap")
    table.add_column("bytes", justify="right")
    table.add_column("what")
    for name, key, what in SUMS:
        table.add_row(name, formats.size(said[key]), what)
    for name, key in (("limit", "limit_bytes"), ("soft limit", "soft_limit_bytes")):
        if said[key] is not None:
            table.add_row(name, formats.size(said[key]), f"refused {said['refused']} times" if name == "limit" else "")
    share = inspecting.fragmentation(said)
    table.add_row("fragmentation", "-" if share is None else formats.percent(share), "of resident memory holds no live block")
    screen.out.print(table)
    show_classes(said["classes"])
    show_heaps(said.get("heaps", []))
    if said["caches"]:
        caches = Table(box=screen.LINES)
        for name in ("cache of core", "blocks", "bytes"):
            caches.add_column(name, justify="right")
        for cache in said["caches"]:
            caches.add_row(str(cache["index"]), str(cache["blocks"]), formats.size(cache["bytes"]))
        screen.out.print(caches)


def show_heaps(heaps: list[dict[str, Any]]) -> None:
    """The largest, each with its size classes; the sums of all when there are more."""
    largest = sorted(heaps, key=lambda heap: heap["live_bytes"], reverse=True)[:HEAPS_SHOWN]
    if len(heaps) > HEAPS_SHOWN:
        live, mapped = (formats.size(sum(heap[key] for heap in heaps)) for key in ("live_bytes", "mapped_bytes"))
        screen.out.print(f"{len(heaps)} heaps of the program's: {live} live, {mapped} mapped; the {HEAPS_SHOWN} largest:")
    for heap in largest:
        name = heap["name"] or f"at {heap['address']:#x}"
        table = Table(box=screen.LINES, title=f"heap '{name}'", title_justify="left")
        for column in ("live", "mapped", "cached", "limit", "refused"):
            table.add_column(column, justify="right")
        limit = "-" if heap["limit_bytes"] is None else formats.size(heap["limit_bytes"])
        sums = (formats.size(heap[key]) for key in ("live_bytes", "mapped_bytes", "cached_bytes"))
        table.add_row(*sums, limit, str(heap["refused"]))
        screen.out.print(table)
        show_classes(heap["classes"])


def show_classes(classes: list[dict[str, int]]) -> None:
    if not classes:
        return
    table = Table(box=screen.LINES)
    for name in ("size class", "live", "live bytes", "cached", "in transit", "slabs", "slab bytes", "filled"):
        table.add_column(name, justify="right")
    for k in classes:
        live = k["live_blocks"] * k["block_bytes"]
        table.add_row(
            str(k["block_bytes"]),
            str(k["live_blocks"]),
            formats.size(live),
            str(k["cached_blocks"]),
            str(k["waiting_blocks"]),
            str(k["spans"]),
            formats.size(k["span_bytes"]),
            formats.percent(live / k["span_bytes"]) if k["span_bytes"] else "-",
        )
    screen.out.print(table)
