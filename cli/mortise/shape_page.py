"""The storage shape graph as one HTML file: everything inside, nothing fetched."""

import shlex
from typing import Any

from mortise import chains, formats, shape
from mortise.drawing import COLOURS, template

WIDTH, HEIGHT, MARGIN = 1100, 760, 60


def render(document: dict[str, Any]) -> str:
    processes = [one_process(p, i) for i, p in enumerate(document["processes"])]
    return template("shape.html.j2").render(
        title=f"Affinity of {shlex.join(document['program'])[:120]}",
        mode=document["mode"],
        processes=processes,
        raw=formats.dumps(document).replace("</", "<\\/"),
    )


def one_process(process: dict[str, Any], number: int) -> dict[str, Any]:
    whole = shape.graph(process)
    part = shape.shown(whole)
    places = shape.layout(part)
    groups = shape.colours_of(whole["nodes"])
    at = {
        one: (MARGIN + x * (WIDTH - 2 * MARGIN), MARGIN + y * (HEIGHT - 2 * MARGIN)) for one, (x, y) in places.items()
    }

    def colour(node: dict[str, Any]) -> str:
        return COLOURS[groups[node["group"]] % len(COLOURS)] if node["group"] in groups else "#d9d9d9"

    hottest = max((n["heat"] for n in whole["nodes"]), default=0)
    nodes = [
        {
            **n,
            "x": at[n["id"]][0],
            "y": at[n["id"]][1],
            "r": shape.radius(n),
            "colour": colour(n),
            "words": shape.chain_words(n),
            "name": chains.short(n["chain"][-1]),  # who asks: before it in the chain are wrappers
            "glow": n["heat"] / hottest if hottest else 0,
        }
        for n in part["nodes"]
    ]
    radii = {n["id"]: n["r"] for n in nodes}
    return {
        "number": number,
        "width": WIDTH,
        "height": HEIGHT,
        "sentence": sentence(whole),
        "left_out": len(whole["nodes"]) - len(nodes),
        "nodes": nodes,
        "variables": [{**v, "x": at[v["id"]][0], "y": at[v["id"]][1]} for v in part["variables"]],
        "edges": [line(e, e["from"], e["to"], at, radii) | {"label": label(e)} for e in part["edges"]],
        "merges": [line(m, m["a"], m["b"], at, radii) for m in part["merges"]],
        "reasons": [(rule, sum(m["why"] == rule for m in whole["merges"])) for rule in chains.RULES],
        "stops": sorted(whole["analysis"].get("stops", {}).items(), key=lambda kv: -kv[1]),
        "rows": rows(whole, colour),
        "all_merges": all_merges(whole),
    }


def label(edge: dict[str, Any]) -> str:
    return f"+{edge['offset']}" if edge["from"] < shape.FIRST_VARIABLE else ""


def line(what: dict[str, Any], source: int, target: int, at: dict[int, Any], radii: dict[int, float]) -> dict[str, Any]:
    """An arrow from rim to rim; a loop where it comes back to the node itself."""
    (x1, y1), (x2, y2) = at[source], at[target]
    r1, r2 = radii.get(source, 7), radii.get(target, 7)
    if source == target:
        path = f"M{x1 - r1 * 0.6:.1f},{y1 - r1 * 0.8:.1f} C{x1 - 30:.1f},{y1 - r1 - 32:.1f} {x1 + 30:.1f},{y1 - r1 - 32:.1f} {x1 + r1 * 0.6:.1f},{y1 - r1 * 0.8:.1f}"
        return {**what, "path": path, "mx": x1, "my": y1 - r1 - 22}
    length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1e-6)
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    bend = 10 if source < target else -10
    cx, cy = (x1 + x2) / 2 - uy * bend, (y1 + y2) / 2 + ux * bend
    path = f"M{x1 + ux * r1:.1f},{y1 + uy * r1:.1f} Q{cx:.1f},{cy:.1f} {x2 - ux * (r2 + 4):.1f},{y2 - uy * (r2 + 4):.1f}"
    return {**what, "path": path, "mx": cx, "my": cy}


def sentence(whole: dict[str, Any]) -> str:
    analysis = whole["analysis"]
    pooled = [n for n in whole["nodes"] if n["pool"]]
    said = (
        f"{len(whole['nodes'])} allocation contexts, {len(pooled)} of them in {len({n['pool'] for n in pooled})} pools"
        f" ({sum(n['own_pool'] for n in pooled)} in pools of their own); {len(whole['merges'])} merge{'' if len(whole['merges']) == 1 else 's'}."
    )
    if analysis.get("first"):
        share = analysis["first_with_edge"] / analysis["first"]
        said += (
            f" {analysis['first']} contexts were analysed, {formats.percent(share)} gave an edge;"
            f" {analysis['steps']} instructions were interpreted."
        )
    return said


def rows(whole: dict[str, Any], colour: Any) -> list[list[Any]]:
    out = []
    for n in whole["nodes"]:
        pool = "-" if not n["pool"] else f"{n['pool']}" + ("" if n["own_pool"] else " (size class)")
        out.append((colour(n), [n["id"], n["bytes"], n["objects"], n["heat"], pool, n["stop"] or "-", shape.chain_words(n)]))
    return out


def all_merges(whole: dict[str, Any]) -> list[list[Any]]:
    words = {n["id"]: shape.chain_words(n) for n in whole["nodes"]}
    return [[m["why"], m["a"], words.get(m["a"], ""), m["b"], words.get(m["b"], "")] for m in whole["merges"]]
