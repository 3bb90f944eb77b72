"""The storage shape graph of a run, from its dump: what to draw of it, and where."""

import math
from typing import Any

import numpy as np

from mortise import symbols
from mortise.chains import short

NODES_SHOWN, VARIABLES_SHOWN = 120, 60
FIRST_VARIABLE = 1 << 16
SEEN = {1: "interpreter", 2: "data flow", 3: "interpreter and data flow"}


def graph(process: dict[str, Any]) -> dict[str, Any]:
    """Nodes, variables, edges and merges of one process, with all that is known of each. Heap nodes by weight, heaviest first."""
    shapes = {s["node"]: s for s in process.get("shape", [])}
    heat = {h["node"]: h["samples"] for h in process.get("heat", [])}
    nodes = []
    for n in process["nodes"]:
        shape = shapes.get(n["id"], {})
        nodes.append(
            {
                "id": n["id"],
                "bytes": shape.get("bytes") or n["bytes"],
                "objects": n["counted"],
                "pool": n["pool"],
                "own_pool": n["own_pool"],
                "group": shape.get("group", n["id"]),
                "stop": shape.get("stop", ""),
                "steps": shape.get("steps", 0),
                "has_edge": shape.get("has_edge", False),
                "heat": heat.get(n["id"], 0),
                "chain": n["chain"],
            }
        )
    edges = [{**e, "seen": SEEN.get(e["seen"], "")} for e in process.get("edge", [])]
    nodes.sort(key=lambda n: (-n["heat"], -n["objects"], n["id"]))
    variables = [{**v, "name": variable_name(v, process)} for v in process.get("variable", [])]
    return {
        "nodes": nodes,
        "variables": variables,
        "edges": edges,
        "merges": process.get("merge", []),
        "pairs": process.get("pair", []),
        "analysis": next(iter(process.get("analysis", [])), {}),
    }


def variable_name(variable: dict[str, Any], process: dict[str, Any]) -> str:
    if variable["type"] == "elsewhere":
        return "a larger block"
    where = "?"
    for module in process["modules"]:
        if module["loaded"] and module["first"] <= variable["place"] < module["last"]:
            if variable["type"] == "global" and (name := symbols.variable(module["path"], variable["place"] - module["first"])):
                return name
            place = symbols.place(module["path"], variable["place"] - module["bias"])
            where = short(place)
    if variable["type"] == "stack":
        return f"{where}: stack{variable['offset']:+d}"
    return where if where != "?" else f"{variable['place']:#x}"


def chain_words(node: dict[str, Any]) -> str:
    return " < ".join(short(place) for place in node["chain"])


def shown(whole: dict[str, Any]) -> dict[str, Any]:
    """The part that a picture can hold: the heaviest nodes, those that an edge or a merge ties to them first. Larger blocks are one variable
    together, which would tie to each other what has nothing in common.
    """
    tied = {e["to"] for e in whole["edges"]} | {e["from"] for e in whole["edges"]}
    tied |= {m[side] for m in whole["merges"] for side in ("a", "b")}
    order = sorted(whole["nodes"], key=lambda n: (not n["pool"], n["id"] not in tied))
    nodes = order[:NODES_SHOWN]
    kept = {n["id"] for n in nodes}
    sources = kept | {v["id"] for v in whole["variables"] if v["type"] != "elsewhere"}
    inner = [e for e in whole["edges"] if e["to"] in kept and e["from"] in sources]
    weight: dict[int, int] = {}
    for e in inner:
        if e["from"] >= FIRST_VARIABLE:
            weight[e["from"]] = weight.get(e["from"], 0) + e["count"]
    heaviest = sorted(weight, key=lambda v: (-weight[v], v))[:VARIABLES_SHOWN]
    kept |= set(heaviest)
    return {
        "nodes": nodes,
        "variables": [v for v in whole["variables"] if v["id"] in kept],
        "edges": [e for e in inner if e["from"] in kept],
        "merges": [m for m in whole["merges"] if m["a"] in kept and m["b"] in kept],
    }


def radius(node: dict[str, Any]) -> float:
    """A node is drawn with an area that grows with the logarithm of its objects."""
    return 7 + 5 * math.log10(max(node["objects"], 1))


def layout(part: dict[str, Any], rounds: int = 250) -> dict[int, tuple[float, float]]:
    """Places in the unit square: edges pull, nodes push (Fruchterman and Reingold). The same for the same graph."""
    ids = [n["id"] for n in part["nodes"]] + [v["id"] for v in part["variables"]]
    if not ids:
        return {}
    index = {one: i for i, one in enumerate(ids)}
    at = np.random.default_rng(1).uniform(-1, 1, (len(ids), 2))
    ties = [(index[e["from"]], index[e["to"]]) for e in part["edges"] if e["from"] != e["to"]]
    ties += [(index[m["a"]], index[m["b"]]) for m in part["merges"]]
    k = 1.2 / math.sqrt(len(ids))
    for turn in range(rounds):
        apart = at[:, None, :] - at[None, :, :]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        move = (apart / distance[..., None] ** 2 * k * k).sum(axis=1)
        for a, b in ties:
            pull = (at[a] - at[b]) * np.linalg.norm(at[a] - at[b]) / k
            move[a] -= pull
            move[b] += pull
        move -= at * 0.08  # what nothing ties stays near
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        at += move / length * np.minimum(length, 0.12 * (1 - turn / rounds) + 0.002)
    low, high = at.min(axis=0), at.max(axis=0)
    scaled = (at - low) / np.maximum(high - low, 1e-9)
    return {one: (float(x), float(y)) for one, (x, y) in zip(ids, scaled, strict=True)}


def dot(process: dict[str, Any]) -> str:
    """The graph for graphviz: merged nodes in one colour, variables as boxes."""
    from mortise.drawing import COLOURS

    whole = graph(process)
    part = shown(whole)
    groups = colours_of(part["nodes"])
    lines = ["digraph shape {", '  node [style=filled, fontname="sans-serif"];']
    for n in part["nodes"]:
        colour = COLOURS[groups[n["group"]] % len(COLOURS)] if n["group"] in groups else "#dddddd"
        label = f"{quoted(chain_words(n))}\\n{n['bytes']} B, {n['objects']} objects"
        lines.append(f'  n{n["id"]} [label="{label}", fillcolor="{colour}"];')
    for v in part["variables"]:
        lines.append(f'  n{v["id"]} [label="{quoted(v["name"])}", shape=box, fillcolor="#ffffff"];')
    for e in part["edges"]:
        label = f' [label="+{e["offset"]}"]' if e["from"] < FIRST_VARIABLE else ""
        lines.append(f"  n{e['from']} -> n{e['to']}{label};")
    for m in part["merges"]:
        lines.append(f'  n{m["a"]} -> n{m["b"]} [dir=none, style=dashed, label="{m["why"]}"];')
    return "\n".join([*lines, "}", ""])


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


def colours_of(nodes: list[dict[str, Any]]) -> dict[int, int]:
    """A colour number for each group of two or more nodes, the largest group first."""
    sizes: dict[int, int] = {}
    for n in nodes:
        sizes[n["group"]] = sizes.get(n["group"], 0) + 1
    together = sorted((g for g, size in sizes.items() if size > 1), key=lambda g: (-sizes[g], g))
    return {g: i for i, g in enumerate(together)}
