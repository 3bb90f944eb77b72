"""What an allocator with affinity pools found in a run: its dump, one JSON object a line, read and given names."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from rich.table import Table

from mortise import formats, screen, symbols

LISTS = {"module": "modules", "caller": "callers", "node": "nodes"}  # other kinds are the analysis's own
RULES = ("type I", "type II", "co-allocated", "plan", "part", "same chain", "one structure", "own part")  # by which a pool is chosen
WHY = ("", *RULES)  # as affinity/seam.hpp counts them
SHOWN = 20


def read(path: Path) -> dict[str, Any]:
    """One process's dump as a document: the run's own facts, and a list for each kind of line."""
    document: dict[str, Any] = {"run": {}, "modules": [], "callers": [], "nodes": []}
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            break  # the end, or where a process ended that was writing it, or a disk was full
        kind = entry.pop("kind")
        if kind == "run":
            document["run"] = entry
        else:
            document.setdefault(LISTS.get(kind, kind), []).append(entry)
    return document


def documents(folder: Path) -> list[dict[str, Any]]:
    """Every process of a run, the one with most nodes first."""
    found = [read(path) for path in sorted(folder.glob("dump.*"))]
    return sorted((d for d in found if d["run"]), key=lambda d: -len(d["nodes"]))


def name_places(document: dict[str, Any]) -> None:
    """Puts module, offset and names beside the bare addresses of chains and callers."""
    modules = [m for m in document["modules"] if m["loaded"]]

    def place(address: int) -> tuple[str, int]:
        for m in modules:
            if m["first"] <= address < m["last"]:
                return m["path"], address - m["bias"]
        return "?", address

    addresses = {a for node in document["nodes"] for a in node["chain"]} | {c["address"] for c in document["callers"]}
    offsets = defaultdict(list)
    for address in addresses:
        offsets[place(address)[0]].append(place(address)[1])
    for path in offsets.keys() - {"?"}:
        symbols.look_up(path, offsets[path])
    for node in document["nodes"]:
        node["why"] = WHY[node["why"]]
        node["chain"] = [{"address": address, **symbols.place(*place(address))} for address in node["chain"]]
    for caller in document["callers"]:
        caller.update(symbols.place(*place(caller["address"])))


def assembled(program: list[str], mode: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    return {"schema": formats.AFFINITY, "program": program, "mode": mode, "processes": found}


def short(where: dict[str, Any]) -> str:
    """The function alone, or the module and how far into it."""
    if where["symbol"]:
        return str(where["symbol"]).replace("(anonymous namespace)::", "").split("(")[0]
    return "unknown" if where["module"] == "?" else f"{Path(where['module']).name}+{where['offset']:#x}"


def placed(where: dict[str, Any]) -> str:
    """The function with the line of its call, without which the calls of one function look alike."""
    return f"{short(where)} {Path(where['source']).name}" if where["source"] else short(where)


def show(document: dict[str, Any]) -> None:
    """The pools of each process, on standard error: standard output is the program's."""
    for process in [p for p in document["processes"] if p["nodes"]]:
        run = process["run"]
        pooled = [n for n in process["nodes"] if n["pool"]]
        pools = {n["pool"] for n in pooled}
        wrappers = sum(c["verdict"] == "wrapper" for c in process["callers"])
        screen.beside.print(
            f"process {run['pid']}: {len(process['nodes'])} nodes, {len(pooled)} of them pooled in {len(pools)} pools; "
            f"{wrappers} of {run['judged']} functions that allocate are wrappers; {run['frame_rules_unknown']} frames without a rule"
        )
        if not pooled:
            continue
        table = Table("pool", "bytes", "of", "chain of calls, malloc's caller first", box=screen.LINES)
        for n in sorted(pooled, key=lambda one: (not one["own_pool"], one["pool"], one["id"]))[:SHOWN]:
            kind = "its own" if n["own_pool"] else "size class"
            table.add_row(str(n["pool"]), str(n["bytes"]), n["why"] or kind, " < ".join(placed(w) for w in n["chain"]))
        screen.beside.print(table)
        if len(pooled) > SHOWN:
            screen.beside.print(f"and {len(pooled) - SHOWN} more: --json FILE holds all of them")
    quiet = [p["run"]["pid"] for p in document["processes"] if not p["nodes"]]
    if quiet:
        screen.beside.print(f"process {quiet[0]}: no nodes" if len(quiet) == 1 else f"{len(quiet)} processes: no nodes")
    if len(quiet) == len(document["processes"]) and document["mode"] in ("graph", "overhead"):
        screen.beside.print("too little memory of any size to look who asks for it: --conf affinity_misses=1 looks from the first object on")
