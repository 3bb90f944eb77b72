"""A comparison cut into cells, each of which any machine can run by itself, and the cells put together again.

A cell is some whole rounds, so that every ratio is between runs of one machine; times of two machines are never
compared. What one machine says about an arm is a block, and machines that disagree are named.
"""

import os
import platform
import socket
from pathlib import Path
from typing import Any

from mortise import __version__, comparing, formats
from mortise.commands import options
from mortise.errors import WrongUse
from mortise.session import CONTROL, Session

Document = dict[str, Any]


def make(program: list[str], specs: list[str], given: dict[str, Any], cells: int) -> Document:
    """The plan: everything a cell needs to know, and a seed for each."""
    settings = options.settings(given)
    comparing.prepare(program, specs, settings)  # a plan that cannot work here is refused here
    plain = {key: str(value) if isinstance(value, Path) else value for key, value in given.items()
             if key in KEPT}  # fmt: skip
    return {"schema": formats.PLAN, "mortise": __version__, "argv": program, "arms": specs, "cwd": os.getcwd(),
            "options": plain, "cells": [{"index": i, "seed": settings.seed + i} for i in range(cells)]}  # fmt: skip


KEPT = ("time", "mem", "metric_regex", "metric_less", "resolve", "rounds", "warmup", "sweep", "repeat_inside", "check", "stdin", "ready",
        "load", "stop", "timeout")  # fmt: skip


def run_cell(plan: Document, index: int, folder: Path, node: str | None = None) -> Path:
    """Runs one cell and writes what it measured; the same on a laptop, in an array job, or in a container."""
    measured = session_of(plan, index).run()
    if measured.get("interrupted"):  # half a cell would pass for a whole one when the rest is resumed
        raise KeyboardInterrupt
    document = {"schema": formats.CELL, "index": index, "node": node or socket.gethostname(),
                "system": platform.platform(), "measured": measured}  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"cell-{index:05d}.json"
    formats.write(path, formats.dumps(document))
    return path


def session_of(plan: Document, index: int) -> Session:
    """One cell before its first run."""
    with formats.whole(Path("the plan")):
        cells = {cell["index"]: cell for cell in plan["cells"]}
        if index not in cells:
            raise WrongUse(f"no cell {index} in this plan: it has cells 0 to {len(cells) - 1}")
        given = dict(plan["options"]) | {"seed": cells[index]["seed"]}
        given["stdin"] = Path(given["stdin"]) if given["stdin"] else None
        settings = options.settings(given)
        settings.fixed = True
        arms, found = comparing.prepare(plan["argv"], plan["arms"], settings)
        return Session(plan["argv"], arms, settings, found.document(), lambda *_: None)


def merge(cells: list[Document]) -> Document:
    """One comparison from many cells: rounds numbered through, every run marked with its machine."""
    cells = sorted(cells, key=lambda cell: cell["index"])
    whole: Document = {**cells[0]["measured"], "arms": {}, "nodes": {}}
    whole.pop(CONTROL, None)
    whole["baseline_bytes"] = sorted(c["measured"]["baseline_bytes"] for c in cells)[len(cells) // 2]
    whole["elapsed_s"] = round(sum(c["measured"]["elapsed_s"] for c in cells), 3)
    whole["steal_s"] = round(sum(c["measured"]["steal_s"] for c in cells), 3)
    offset = {"time": 0, "memory": 0, "warmup": 0}
    for cell in cells:
        measured, node = cell["measured"], cell["node"]
        whole["nodes"].setdefault(node, measured["machine"] | {"cells": []})["cells"].append(cell["index"])
        for name, entry in [
            *measured["arms"].items(),
            *([(CONTROL, measured[CONTROL])] if CONTROL in measured else []),
        ]:
            target = whole if name == CONTROL else whole["arms"]
            mine = target.setdefault(name, {**entry, "runs": [], "failure": None, "died": {}})
            if entry["failure"]:
                mine["failure"] = f"on {node}: {entry['failure']}"
            mine["died"] |= entry["died"]
            mine["runs"] += [
                run | {"round": run["round"] + offset[run["kind"]], "node": node} for run in entry["runs"]
            ]
        for kind in offset:
            offset[kind] += max((r["round"] for e in measured["arms"].values() for r in e["runs"] if r["kind"] == kind),
                                default=0) + (kind == "warmup")  # fmt: skip
    return whole


def read(folder: Path) -> list[Document]:
    """The cells of a folder; refused when there are none, when one is there twice, or when they are of different comparisons."""
    paths = sorted(folder.glob("cell-*.json")) if folder.is_dir() else []
    if not paths:
        raise WrongUse(f"no cells in '{folder}': expected files cell-00000.json as 'mortise cell' writes them")
    cells = [formats.load(path, formats.CELL) for path in paths]
    kinds = {(tuple(c["measured"]["argv"]), tuple(c["measured"]["arms"])) for c in cells}
    if len(kinds) > 1:
        raise WrongUse(f"the cells in '{folder}' are of {len(kinds)} different comparisons: give each its own folder")
    of_index: dict[int, Path] = {}
    for path, cell in zip(paths, cells, strict=True):
        first = of_index.setdefault(cell["index"], path)
        if first != path:
            raise WrongUse(
                f"'{first}' and '{path.name}' both hold cell {cell['index']}, whose runs would count twice: expected each cell once; "
                "remove the copy, or run the cell that it stands for"
            )
    return cells
